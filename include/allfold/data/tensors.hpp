// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <concepts>
#include <cstddef>
#include <iterator>
#include <span>
#include <type_traits>
#include <utility>

#include "allfold/data/detail/small_vector.hpp"
#include "allfold/data/partition.hpp"
#include "allfold/data/raw_rows.hpp"
#include "allfold/data/tensor_view.hpp"

/// @file
/// Several tensors as one operand.

namespace allfold {

namespace detail {

template <class First, class... Rest>
using list_element =
    std::conditional_t<(std::is_const_v<typename element_type_of<Rest>::type> || ...),
                       const typename element_type_of<First>::type, typename element_type_of<First>::type>;

/// The contiguous pieces of memory that hold the elements of an operand.
template <class T>
using piece_list = small_vector<std::span<T>, 8>;

/// Adds those of a tensor view or range; returns how many elements that are.
template <class T, class X>
std::size_t add_pieces(piece_list<T>& to, X& x) {
    using given = typename element_type_of<X>::type;
    constexpr bool is_tensor = require_tensor<X>();
    constexpr bool is_alike = !is_tensor || std::is_convertible_v<given(*)[], T(*)[]>;
    static_assert(is_alike,
                  "allfold: all tensors of a list must have the same element type: make one call for each type");
    constexpr bool has_type = !is_raw<std::remove_cvref_t<X>>;
    static_assert(
        has_type,
        "allfold: raw rows cannot be part of a list, whose elements must have a type: make one call for each");
    std::size_t length = 0;
    if constexpr (!is_tensor || !is_alike) {
    } else if constexpr (tensor_view<X>) {
        detail::for_each_run(x, [&](T* first, std::size_t count) {
            to.push_back({first, count});
            length += count;
        });
    } else {
        length = static_cast<std::size_t>(std::ranges::size(x));
        if (length != 0) to.push_back({std::ranges::data(x), length});
    }
    return length;
}

}  // namespace detail

/// Several tensors of one element type as one operand: one collective, one schedule and one message per peer, without a
/// copy if they are in memory shared between the ranks (except that pieces shorter than 1 KiB are packed first).
///
///     all_reduce(comm, tensors{a, b, c}, sum());
///     reduce_scatter(comm, tensors{a, b, c}, tensors{shard_a, shard_b, shard_c}, sum());
///     all_gather(comm, tensors{shard_a, shard_b, shard_c}, tensors{a, b, c}.by(partition::ceil));
///
/// The elements are ordered tensor by tensor, each in row-major order. A collective that divides its operand into one
/// block per rank divides each tensor: block r of the list consists of block r of each tensor. Blocks are as even as
/// possible unless a function given to `by` decides otherwise. All ranks must pass the same number of tensors with the
/// same lengths; if they do not, the error names the first tensor that differs, provided it is one of the first 20.
///
/// Takes tensor views and contiguous ranges by reference to their elements, which must outlive the call; `add` appends
/// another one. A single element can be passed as the range `std::span(&x, 1)`.
template <class T>
class tensors {
  public:
    using element_type = T;
    using cut_function = partition (*)(std::size_t total, int blocks);

    template <class First, class... Rest>
        requires(!std::same_as<std::remove_cvref_t<First>, tensors>)
    explicit tensors(First&& first, Rest&&... rest) {
        reserve(1 + sizeof...(rest));
        add(first);
        (add(rest), ...);
    }
    tensors() = default;

    template <class X>
    tensors& add(X&& x) {
        first_pieces_.push_back(pieces_.size());
        const std::size_t length = detail::add_pieces(pieces_, x);
        lengths_.push_back(length);
        size_ += length;
        return *this;
    }
    /// Reserves room for this many tensors.
    void reserve(std::size_t count) { reserve(count, count); }
    /// Reserves room for this many tensors, of so many contiguous pieces in all.
    void reserve(std::size_t count, std::size_t pieces) {
        pieces_.reserve(pieces);
        first_pieces_.reserve(count);
        lengths_.reserve(count);
    }
    /// Sets how each tensor is divided into blocks: by `partition::even` (the default), `partition::ceil` or a function
    /// of the caller's. A list of blocks is not divided, so there it changes nothing.
    [[nodiscard]] tensors by(cut_function how) && {
        cut_ = how;
        return std::move(*this);
    }
    [[nodiscard]] tensors by(cut_function how) const& { return tensors(*this).by(how); }

    /// The number of elements of all tensors together.
    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    /// The number of elements of each.
    [[nodiscard]] std::span<const std::size_t> lengths() const noexcept { return {lengths_.data(), lengths_.size()}; }
    [[nodiscard]] partition cut(std::size_t tensor, int blocks) const { return cut_(lengths_[tensor], blocks); }
    /// The contiguous pieces of memory that hold the elements.
    [[nodiscard]] std::span<const std::span<T>> pieces() const noexcept { return {pieces_.data(), pieces_.size()}; }
    /// The pieces of one tensor.
    [[nodiscard]] std::span<const std::span<T>> pieces_of(std::size_t tensor) const noexcept {
        const std::size_t end = tensor + 1 < first_pieces_.size() ? first_pieces_[tensor + 1] : pieces_.size();
        return pieces().subspan(first_pieces_[tensor], end - first_pieces_[tensor]);
    }

  private:
    detail::piece_list<T> pieces_;
    detail::small_vector<std::size_t, 8> first_pieces_;  // index of each tensor's first piece
    detail::small_vector<std::size_t, 8> lengths_;
    std::size_t size_ = 0;
    cut_function cut_ = &partition::even;
};

namespace detail {

template <class X>
inline constexpr bool is_tensors = false;
template <class T>
inline constexpr bool is_tensors<tensors<T>> = true;

}  // namespace detail

/// The elements are constant if those of any of the tensors are.
template <class First, class... Rest>
tensors(First&&, Rest&&...) -> tensors<detail::list_element<First, Rest...>>;

}  // namespace allfold
