// SPDX-License-Identifier: BSL-1.0
// A row of cells on four threads: rank 0 deals it out with scatter, and each rank smooths its part using the cells next
// to it, which it gets from its neighbours with permute. The row is a ring.
#include <cstddef>
#include <cstdio>
#include <numeric>
#include <vector>

#include "allfold/allfold.hpp"

int main() {
    std::vector<float> row(16);
    std::iota(row.begin(), row.end(), 0.0F);
    allfold::run(4, [&](allfold::communicator auto& comm) {
        std::vector<float> cells(4);
        allfold::scatter(comm, row, cells, allfold::root{0});  // only the root's row is read

        // The last cell goes to the rank above, the first one to the rank below.
        const float first = cells.front(), last = cells.back();
        const float left = allfold::permute(comm, last, allfold::shift{1});
        const float right = allfold::permute(comm, first, allfold::shift{-1});
        std::vector<float> smooth(cells.size());
        for (std::size_t i = 0; i < cells.size(); ++i) {
            const float before = i == 0 ? left : cells[i - 1], after = i + 1 == cells.size() ? right : cells[i + 1];
            smooth[i] = (before + cells[i] + after) / 3;
        }

        // Any permutation will do: here, pairs of ranks swap their parts.
        allfold::permute(comm, smooth, allfold::destinations{1, 0, 3, 2});
        allfold::gather(comm, smooth, row, allfold::root{0});
    });
    for (const float cell : row) std::printf("%.0f ", static_cast<double>(cell));
    std::puts("");
    return row[0] == 4.0F && row[5] == 1.0F && row[12] == 8.0F && row[15] == 11.0F ? 0 : 1;
}
