// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

#include "allfold/analysis/explore.hpp"
#include "allfold/error.hpp"

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

/// What a program throws by itself.
struct boom : std::runtime_error {
    boom() : std::runtime_error("boom") {}
};

/// How far a rank gets: a + for each step, then x if it fails by itself, or ! if it is told that something has failed.
template <class... Steps>
std::string progress_of(allfold::errc told, Steps... steps) {
    std::string done;
    try {
        ((steps(), done += '+'), ...);
    } catch (const boom&) {
        done += 'x';
    } catch (const allfold::error& e) {
        if (e.code() != told) throw;
        done += '!';
    }
    return done;
}

}  // namespace test
