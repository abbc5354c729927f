// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <concepts>
#include <cstddef>
#include <iterator>
#include <tuple>
#include <type_traits>

#include "allfold/data/tensor_view.hpp"

/// @file
/// Several tensors whose rows belong together.

namespace allfold {

namespace detail {

/// What `records` stores for an argument: a view as it is, a range as a tensor over its elements.
template <class X>
using view_of =
    std::conditional_t<tensor_view<X>, std::remove_cvref_t<X>, tensor<typename element_type_of<X>::type, 1>>;
template <class X>
[[nodiscard]] constexpr view_of<X> as_view(X&& x) {
    if constexpr (!require_tensor<X>())
        return {nullptr, {0}};
    else if constexpr (tensor_view<X>)
        return x;
    else
        return {std::ranges::data(x), {static_cast<std::size_t>(std::ranges::size(x))}};
}

}  // namespace detail

/// Several tensors with the same leading extent n: row i of the whole is row i of each tensor. A collective folds and
/// sends rows as units: the records{m, l, s} of online softmax are sent as one packet [m | l | s] rather than as three
/// messages. An operator sees `row<...>`; an operator on single elements is applied element by element.
///
/// Takes tensor views and contiguous ranges, whose elements it refers to, so ranges must outlive the call.
template <class... Views>
class records {
  public:
    template <class... Xs>
        requires(sizeof...(Xs) == sizeof...(Views) && (!std::same_as<std::remove_cvref_t<Xs>, records> && ...))
    explicit constexpr records(Xs&&... xs) : views_(detail::as_view(xs)...) {}
    [[nodiscard]] constexpr const std::tuple<Views...>& views() const noexcept { return views_; }

  private:
    std::tuple<Views...> views_;
};

namespace detail {

template <class X>
inline constexpr bool is_records = false;
template <class... Views>
inline constexpr bool is_records<records<Views...>> = true;

}  // namespace detail

/// `records{m, l, s}` of views and ranges.
template <class... Xs>
records(Xs&&...) -> records<detail::view_of<Xs>...>;

}  // namespace allfold
