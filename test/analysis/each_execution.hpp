// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <utility>

#include "allfold/analysis/explore.hpp"

/// @file
/// How tests of `explore` collect outcomes.

namespace test {

/// Calls `ended()` after each execution that is counted.
template <class Ended>
void after_each_execution(allfold::explore_options& options, Ended ended) {
    options.watch = [ended, before = std::uint64_t{0}](const allfold::exploring& so_far) mutable {
        if (std::exchange(before, so_far.executions) != so_far.executions) ended();
        return true;
    };
}

}  // namespace test
