// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <span>
#include <tuple>

/// @file
/// What an operator sees of one row of several tensors.

namespace allfold {

/// Row i of several tensors that are folded together (`records`): one span per tensor, in the order in which the caller
/// named them. A tensor with one element per row contributes a span of length one.
///
/// An operator on whole rows is called as `op(left, right, out)`, with spans of constants on both sides; `out` may be
/// either of them. Only the spans tell the operator how long a row is. If it has an identity, it therefore has a member
/// `set_identity(out)`, which writes it, instead of `identity()`; if it lowers, it has `lower(state, contributions,
/// out)`.
template <class... Ts>
using row = std::tuple<std::span<Ts>...>;

}  // namespace allfold
