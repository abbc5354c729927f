// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <span>
#include <tuple>

/// @file
/// What an operator sees of one row of several tensors.

namespace allfold {

/// Row i of several tensors that are folded together (`records`): one span for each tensor, in the order in which the
/// caller named them. A tensor with one element a row contributes a span of one.
template <class... Ts>
using row = std::tuple<std::span<Ts>...>;

}  // namespace allfold
