// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <span>
#include <tuple>

/// @file
/// What an operator sees of one row of several tensors.

namespace allfold {

/// Row i of several tensors that are folded together (`records`): one span for each tensor, in the order in which the
/// caller named them. A tensor with one element a row contributes a span of one.
///
/// An operator on whole rows is called as `op(left, right, out)` with spans of constants on both sides; `out` may be
/// either of them. How long a row is, it hears from the spans alone: where it has an identity, it therefore has a
/// member `set_identity(out)`, which writes it, in place of `identity()`. One that lowers has `lower(state,
/// contributions, out)`.
template <class... Ts>
using row = std::tuple<std::span<Ts>...>;

}  // namespace allfold
