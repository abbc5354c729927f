// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/measure.hpp"
#include "bench/workload.hpp"

/// @file
/// What the program for threads and the one for processes have in common: arguments, measurements, output.

namespace bench {

/// What is measured at a time: the contestants of one row of the table, at one size of the operand.
struct cell {
    std::string row;
    int ranks;
    std::size_t bytes;

    [[nodiscard]] std::size_t output_bytes() const {
        return row == "reduce_scatter" ? bytes / static_cast<std::size_t>(ranks) : bytes;
    }
    /// How many ranks' inputs are folded in the output of a rank.
    [[nodiscard]] int folded(int rank) const {
        if (row == "exclusive_scan") return rank;
        return row == "inclusive_scan" || row == "scan" ? rank + 1 : ranks;
    }
};

/// The cells of the arguments RANKS ROW:BYTES,BYTES,... ...
[[nodiscard]] inline std::vector<cell> cells_of(std::span<char* const> arguments) {
    std::vector<cell> cells;
    if (arguments.size() < 2) return cells;
    for (const std::string_view argument : arguments.subspan(2)) {
        const auto colon = argument.find(':');
        std::istringstream sizes{std::string(argument.substr(colon + 1))};
        for (std::string bytes; std::getline(sizes, bytes, ',');)
            cells.push_back({std::string(argument.substr(0, colon)), std::atoi(arguments[1]), std::stoul(bytes)});
    }
    return cells;
}

struct result {
    std::string contestant;
    summary time;
};

/// A line for each contestant; the driver knows the columns.
inline void print(const cell& what, const std::string& placement, const std::vector<result>& results) {
    for (const auto& [contestant, time] : results)
        std::printf("%s;%s;%d;%zu;%s;%.5f;%.5f;%.5f;%d\n", what.row.c_str(), contestant.c_str(), what.ranks, what.bytes,
                    placement.c_str(), time.median * 1e6, time.low * 1e6, time.high * 1e6, time.samples);
    std::fflush(stdout);
}

/// One rank while it measures the contestants of a cell, one after the other, with the same two buffers.
template <class Group>
class stage {
  public:
    stage(Group& ranks, cell measured)
        : group(ranks), what(std::move(measured)), input(what.bytes, 1), output(what.output_bytes(), 18) {}

    template <class Workload, class Call>
    void measure(const std::string& contestant, Call call) {
        Workload::fill(input, group.rank());
        output.clear();
        const summary time = bench::measure(group, [&] {
            use<typename Workload::scalar>(input, output);
            call();
        });
        const bool right = Workload::right(output, what.folded(group.rank()));
        if (group.max(right ? 0 : 1) > 0)
            throw std::runtime_error(what.row + ": the result of " + contestant + " is wrong");
        results.push_back({contestant, time});
    }

    Group& group;
    const cell what;
    const buffer input;
    buffer output;
    std::vector<result> results;
};

}  // namespace bench
