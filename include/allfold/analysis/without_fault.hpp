// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <concepts>
#include <string>
#include <type_traits>
#include <utility>

#include "allfold/analysis/detail/latest_steps.hpp"
#include "allfold/analysis/exploration.hpp"
#include "allfold/analysis/explore.hpp"

/// @file
/// Matchers for tests with Catch2. They need none of its headers, and work with versions 2 and 3.

namespace allfold {

/// Matches if a program that was explored has no fault in any order in which its messages may arrive, and all of these
/// orders could be tried.
///
///     CHECK_THAT(explore(3, program), allfold::without_fault());
///
/// If it has one, the test prints what `explain` says, with the token that `replay` takes, and the latest steps of each
/// rank; `history_of` has them all.
class without_fault {
  public:
    [[nodiscard]] bool match(const exploration& found) const {
        said_ = explain(found);
        if (!found.findings().empty())
            said_ += history_of({.what = found.first().what,
                                 .text = {},
                                 .schedule = {},
                                 .history = detail::latest_steps(found.first().history)});
        return found.ok() && found.complete();
    }
    /// The name is Catch2's.
    [[nodiscard]] std::string toString() const {  // NOLINT(readability-identifier-naming)
        return "is without fault: " + said_;
    }

  private:
    mutable std::string said_;
};

/// The same for a program, which is copied, and then explored on the given number of ranks.
///
///     CHECK_THAT(program, allfold::explored_without_fault(3));
///
/// Catch2 tries to print the program, and thereby to call a lambda without captures that takes `auto&`: let it take an
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
    /// The name is Catch2's.
    [[nodiscard]] std::string toString() const {  // NOLINT(readability-identifier-naming)
        return result_.toString();
    }

  private:
    int ranks_;
    explore_options options_;
    without_fault result_;
};

}  // namespace allfold
