// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <concepts>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "examples/attention/attention.hpp"
#include "examples/attention/report.hpp"
#include <allfold/transport/traced.hpp>

/// @file
/// Attention on several ranks: each attends to its share of the keys, one all_reduce merges.

namespace attention {

/// How the merge is to run.
struct merge_options {
    std::string algorithm = "auto";
    std::optional<std::size_t> window;
};

/// The result of attention with the keys shared evenly between the ranks, [head][query][value_depth]. Enters into
/// `figures` what was measured, and into the recorder what each rank did when.
///
/// Defined in ranks.hpp and compiled for float and double in a file of its own each: all algorithms are much code.
template <std::floating_point T>
[[nodiscard]] std::vector<T> attend_on_ranks(const problem<T>& p, int ranks, const merge_options& options,
                                             report& figures, allfold::trace_recorder& recorder);

}  // namespace attention
