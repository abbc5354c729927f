// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <string>

#include "allfold/analysis/exploration.hpp"

/// @file
/// A matcher for tests with Catch2, of which it needs no header: versions 2 and 3 take it as it is.

namespace allfold {

/// Whether a program that was explored has no fault in any order in which its messages may arrive, and all of them
/// could be tried.
///
///     CHECK_THAT(explore(3, program), allfold::without_fault());
///
/// Where it has one the test says what `explain` says, with the token that `replay` takes.
class without_fault {
  public:
    [[nodiscard]] bool match(const exploration& found) const {
        said_ = explain(found);
        return found.ok() && found.complete();
    }
    /// As Catch2 calls it.
    [[nodiscard]] std::string toString() const {  // NOLINT(readability-identifier-naming)
        return "is without fault: " + said_;
    }

  private:
    mutable std::string said_;
};

}  // namespace allfold
