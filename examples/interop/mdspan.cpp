// SPDX-License-Identifier: BSL-1.0
/// @file
/// Any std::mdspan with strides can be an argument: row-major, column-major, or part of a matrix with layout_stride.
/// Elements are matched by their indices, so layouts may differ between input, output and ranks.
#include <version>
#ifdef __cpp_lib_mdspan
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mdspan>
#include <numeric>
#include <vector>

#include <allfold/allfold.hpp>

/// Rows 1 to 2 and columns 1 to 2 of a row-major matrix of four columns. (C++26: std::submdspan.)
auto inner_part_of(int* matrix) {
    using extents = std::extents<int, 2, 2>;
    const std::layout_stride::mapping<extents> mapping(extents(), std::array{4, 1});
    return std::mdspan(matrix + 5, mapping);
}

int main() {
    constexpr int ranks = 3;
    std::atomic<int> right = 0;
    allfold::run(ranks, [&](auto& comm) {
        std::vector<int> cells(16, 7);
        const auto part = inner_part_of(cells.data());
        for (int i = 0; i < 2; ++i)
            for (int j = 0; j < 2; ++j) part[i, j] = 10 * i + j + comm.rank();
        allfold::all_reduce(comm, part, allfold::sum{});  // in place; the border is unchanged

        std::vector<int> numbers(6), sums(6);
        std::iota(numbers.begin(), numbers.end(), 0);
        const std::mdspan<const int, std::extents<int, 2, 3>, std::layout_left> in(numbers.data());
        const std::mdspan<int, std::dextents<int, 2>> out(sums.data(), 2, 3);
        allfold::all_reduce(comm, in, out, allfold::sum{});

        const bool good = cells == std::vector{7, 7, 7, 7, 7, 3, 6, 7, 7, 33, 36, 7, 7, 7, 7, 7} &&
                          sums == std::vector{0, 6, 12, 3, 9, 15};
        if (good) ++right;
    });
    std::printf("interop/mdspan: %d of %d ranks hold what they should\n", right.load(), ranks);
    return right == ranks ? EXIT_SUCCESS : EXIT_FAILURE;
}
#else
#include <cstdio>
int main() { std::puts("interop/mdspan: not run: this standard library, or this language level, has no std::mdspan"); }
#endif
