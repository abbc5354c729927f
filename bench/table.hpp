// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

#include "bench/stage.hpp"

/// @file
/// Times as nccl-tests prints them, with the same columns, units and factors; users of the OSU micro-benchmarks will
/// find their sizes and times in them as well.

namespace bench {

/// The factor from the bandwidth of the algorithm, operand bytes per second, to that of the bus: what enters and leaves
/// a rank, so that figures of different collectives and numbers of ranks can be compared with what the machine moves.
/// nccl-tests has no scans, and no messages but those of its sendrecv; here scans count like its reduce, and all
/// messages, a permute and a halo exchange like its sendrecv.
[[nodiscard]] inline double bus_factor(const cell& what) {
    const auto& name = what.of.name;
    const double others = static_cast<double>(what.ranks - 1) / what.ranks;
    if (what.of.is_cut() || name == "all_to_all_by_sizes") return others;
    const bool all_reduces = what.of.fold != "none" && name != "reduce" && !name.ends_with("scan");
    return all_reduces ? 2 * others : 1;
}

/// Prints a line for each cell, and column heads before the first one of each row.
class table_printer {
  public:
    void operator()(const cell& what, const std::string& placement, const std::vector<result>& results) {
        const row& of = what.of;
        const std::string title = std::string(of.name) + (of.with_barrier ? " and a barrier, " : ", ") +
                                  std::to_string(what.ranks) + " ranks, " + placement;
        if (title != title_) print_head(title);
        title_ = title;
        const std::string type(of.type), fold(of.fold);
        const double seconds = results.front().time.median, speed = static_cast<double>(what.bytes) / seconds / 1e9;
        const std::size_t count = what.bytes / std::max<std::size_t>(1, of.element) / what.blocks();
        std::printf("%12zu  %12zu  %8s  %6s  %9.2f  %6.2f  %6.2f\n", what.bytes, count, type.c_str(), fold.c_str(),
                    seconds * 1e6, speed, speed * bus_factor(what));
        std::fflush(stdout);
    }

  private:
    static void print_head(const std::string& title) {
        std::printf("# %s\n", title.c_str());
        std::printf("#%11s  %12s  %8s  %6s  %9s  %6s  %6s\n", "size", "count", "type", "redop", "time", "algbw",
                    "busbw");
        std::printf("#%11s  %12s  %8s  %6s  %9s  %6s  %6s\n", "(B)", "(elements)", "", "", "(us)", "(GB/s)", "(GB/s)");
    }

    std::string title_;
};

}  // namespace bench
