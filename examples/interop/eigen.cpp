// SPDX-License-Identifier: BSL-1.0
/// @file
/// Eigen matrices, through the trait in eigen_view.hpp: an expression that refers to memory is an argument as it is,
/// even as a temporary; wrap a matrix that owns its memory in eigen_view.
#include <Eigen/Core>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "examples/interop/eigen_view.hpp"
#include <allfold/allfold.hpp>

int main() {
    constexpr int ranks = 3;
    std::atomic<int> right = 0;
    allfold::run(ranks, [&](auto& comm) {
        Eigen::Vector3d position(comm.rank(), 1, 2);
        allfold::all_reduce(comm, eigen_view(position), allfold::sum{});

        Eigen::MatrixXf gradient = Eigen::MatrixXf::Constant(4, 5, static_cast<float>(comm.rank()));
        allfold::all_reduce(comm, gradient.reshaped(), allfold::sum{});  // all elements as stored, without a copy

        Eigen::ArrayXXi table = Eigen::ArrayXXi::Constant(4, 4, 7);
        table.block(1, 1, 2, 2) << 1, 2, 3, comm.rank();
        allfold::all_reduce(comm, table.block(1, 1, 2, 2), allfold::sum{});  // in place; the rest is unchanged
        allfold::all_reduce(comm, table.row(3), allfold::max{});             // a row of a column-major matrix: stride 4

        std::vector<float> buffer(6, 1.F);
        const Eigen::Map<const Eigen::Matrix2Xf> in(buffer.data(), 2, 3);  // its elements are const
        Eigen::Matrix<float, 2, 3, Eigen::RowMajor> out;
        allfold::all_reduce(comm, in, eigen_view(out), allfold::sum{});

        Eigen::ArrayXXi expected = Eigen::ArrayXXi::Constant(4, 4, 7);
        expected.block(1, 1, 2, 2) << 3, 6, 9, 3;
        const bool good = position == Eigen::Vector3d(3, 3, 6) && (gradient.array() == 3.F).all() &&
                          (table == expected).all() && (out.array() == 3.F).all() && (in.array() == 1.F).all();
        if (good) ++right;
    });
    std::printf("interop/eigen: %d of %d ranks hold what they should\n", right.load(), ranks);
    return right == ranks ? EXIT_SUCCESS : EXIT_FAILURE;
}
