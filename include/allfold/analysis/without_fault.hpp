// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <concepts>
#include <string>
#include <type_traits>
#include <utility>

#include "allfold/analysis/exploration.hpp"
#include "allfold/analysis/explore.hpp"

/// @file
/// Matchers for tests with Catch2, of which they need no header: versions 2 and 3 take them as they are.

namespace allfold {

/// Whether a program that was explored has no fault in any order in which its messages may arrive, and all of them
/// could be tried.
///
///     CHECK_THAT(explore(3, program), allfold::without_fault());
///
/// Where it has one the test says what `explain` says, with the token that `replay` takes, and what the ranks do.
class without_fault {
  public:
    [[nodiscard]] bool match(const exploration& found) const {
        said_ = explain(found);
        if (!found.ok()) said_ += history_of(found.first());
        return found.ok() && found.complete();
    }
    /// As Catch2 calls it.
    [[nodiscard]] std::string toString() const {  // NOLINT(readability-identifier-naming)
        return "is without fault: " + said_;
    }

  private:
    mutable std::string said_;
};

/// The same of a program, which is explored for so many ranks. It is copied first.
///
///     CHECK_THAT(program, allfold::explored_without_fault(3));
///
/// Catch2 tries to print a program, and so to call a lambda of `auto&` without captures: give that one an
/// `allfold::explored_communicator&`, or explore it first, as above.
class explored_without_fault {
  public:
    explicit explored_without_fault(int ranks, explore_options options = {})
        : ranks_(ranks), options_(std::move(options)) {}

    template <class Program>
        requires std::invocable<std::decay_t<Program>&, explored_communicator&>
    [[nodiscard]] bool match(const Program& program) const {
        std::decay_t<Program> own = program;
        return result_.match(explore(ranks_, own, options_));
    }
    /// As Catch2 calls it.
    [[nodiscard]] std::string toString() const {  // NOLINT(readability-identifier-naming)
        return result_.toString();
    }

  private:
    int ranks_;
    explore_options options_;
    without_fault result_;
};

}  // namespace allfold
