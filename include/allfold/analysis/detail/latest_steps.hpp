// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <vector>

#include "allfold/analysis/exploration.hpp"
#include "allfold/error.hpp"

/// @file
/// The end of a long history: what is shown where there is not room for all of it.

namespace allfold::detail {

/// How many steps of each rank are shown at most.
inline constexpr std::size_t most_steps_shown = 40;

/// The latest steps of each rank, after a line for each rank that has earlier ones, and what becomes of the ranks.
[[nodiscard]] inline std::vector<happening> latest_steps(const std::vector<happening>& all,
                                                         std::size_t most = most_steps_shown) {
    std::vector<std::size_t> earlier;
    const auto is_end = [](const happening& each) { return each.what == happening::kind::ends; };
    for (const happening& each : all) {
        const auto rank = static_cast<std::size_t>(each.rank);
        if (earlier.size() <= rank) earlier.resize(rank + 1);
        if (!is_end(each)) ++earlier[rank];
    }
    std::vector<happening> latest;
    for (std::size_t rank = 0; rank < earlier.size(); ++rank) {
        earlier[rank] -= earlier[rank] < most ? earlier[rank] : most;
        if (earlier[rank] == 0) continue;
        latest.push_back({happening::kind::goes_on, static_cast<int>(rank), -1, 0,
                          text({"makes ", earlier[rank], " steps that are left out"})});
    }
    for (const happening& each : all)
        if (std::size_t& left_out = earlier[static_cast<std::size_t>(each.rank)]; left_out == 0 || is_end(each))
            latest.push_back(each);
        else
            --left_out;
    return latest;
}

}  // namespace allfold::detail
