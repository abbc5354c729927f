// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "bench/workload.hpp"
#include <allfold/allfold.hpp>

/// @file
/// The workloads as allfold takes them.

namespace bench {

[[nodiscard]] inline auto records_of(const buffer& memory) {
    const merge_of_tensors states(memory);
    return allfold::records(allfold::tensor<float, 1>(states.m, {states.n}),
                            allfold::tensor<float, 1>(states.l, {states.n}),
                            allfold::tensor<float, 2>(states.s, {states.n, merge_of_tensors::depth}));
}

inline constexpr auto matrix_product =
    allfold::associative([](const product_of_matrices::element& x, const product_of_matrices::element& y) {
        return product_of_matrices::multiply(x, y);
    });

}  // namespace bench
