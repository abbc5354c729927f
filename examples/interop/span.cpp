// SPDX-License-Identifier: BSL-1.0
/// @file
/// Ranges: pass a std::span, a std::array or a const input as it is. For elements that are not adjacent, here one
/// component of an array of points, use an allfold::tensor: an address, an extent and a stride, in elements.
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <vector>

#include <allfold/allfold.hpp>

int main() {
    constexpr int ranks = 3;
    std::atomic<int> right = 0;
    allfold::run(ranks, [&](auto& comm) {
        std::array<int, 3> counts{comm.rank(), 1, -comm.rank()};
        allfold::all_reduce(comm, counts, allfold::sum{});  // a whole container, in place

        std::vector<int> numbers{7, comm.rank(), comm.rank() + 10, 7};
        allfold::all_reduce(comm, std::span(numbers).subspan(1, 2), allfold::sum{});  // part of a container, in place

        const std::vector<int> in(2, comm.rank());
        std::vector<int> out(2);
        allfold::all_reduce(comm, std::span<const int>(in), out, allfold::max{});  // a const input is only read

        std::vector<int> points{0, 7, 7, 1, 7, 7, 2, 7, 7};  // x y z, x y z, x y z
        const allfold::tensor<int, 1> x(points.data(), {3}, {3});
        allfold::all_reduce(comm, x, allfold::sum{});  // in place; y and z are unchanged

        const bool good = counts == std::array{3, 3, -3} && numbers == std::vector{7, 3, 33, 7} &&
                          in == std::vector(2, comm.rank()) && out == std::vector{2, 2} &&
                          points == std::vector{0, 7, 7, 3, 7, 7, 6, 7, 7};
        if (good) ++right;
    });
    std::printf("interop/span: %d of %d ranks hold what they should\n", right.load(), ranks);
    return right == ranks ? EXIT_SUCCESS : EXIT_FAILURE;
}
