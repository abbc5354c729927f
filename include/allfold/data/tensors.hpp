// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <cstddef>
#include <iterator>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "allfold/data/partition.hpp"
#include "allfold/data/raw_rows.hpp"
#include "allfold/data/tensor_view.hpp"

/// @file
/// Several tensors as one operand.

namespace allfold {

namespace detail {

template <class X>
struct element_type_of {
    using type = std::remove_reference_t<range_reference<std::remove_reference_t<X>>>;
};
template <tensor_view X>
struct element_type_of<X> {
    using type = typename tensor_access<std::remove_cvref_t<X>>::element_type;
};

template <class First, class... Rest>
using list_element =
    std::conditional_t<(std::is_const_v<typename element_type_of<Rest>::type> || ...),
                       const typename element_type_of<First>::type, typename element_type_of<First>::type>;

}  // namespace detail

/// Several tensors of one element type as one operand: one collective, one schedule, one message to a peer, without
/// a copy where they lie in memory that ranks share (pieces shorter than 1 KiB are brought together first).
///
///     all_reduce(comm, tensors{a, b, c}, sum());
///     reduce_scatter(comm, tensors{a, b, c}, tensors{shard_a, shard_b, shard_c}, sum());
///     all_gather(comm, tensors{shard_a, shard_b, shard_c}, tensors{a, b, c}.by(partition::ceil));
///
/// Their elements follow each other, tensor by tensor, each in row-major order. A collective that cuts its operand into
/// a block for each rank cuts each tensor: block r of the list is block r of each of them, which are as even as can be,
/// or what the function given to `by` says. All ranks give as many tensors of the same lengths:
/// where they do not, the error names the first that differs, if it is one of the first 20.
///
/// Takes tensor views and contiguous ranges, by reference to their elements, which must outlive the call; `add` takes
/// one more. Single elements may be the ranges `std::span(&x, 1)`.
template <class T>
class tensors {
  public:
    using element_type = T;
    using cut_function = partition (*)(std::size_t total, int blocks);

    template <class First, class... Rest>
        requires(((tensor_view<First> || detail::element_range<First>) && ... &&
                  (tensor_view<Rest> || detail::element_range<Rest>)))
    explicit tensors(First&& first, Rest&&... rest) {
        reserve(1 + sizeof...(rest));
        add(first);
        (add(rest), ...);
    }
    tensors() = default;

    template <class X>
        requires(tensor_view<X> || detail::element_range<X>)
    tensors& add(X&& x) {
        using given = typename detail::element_type_of<X>::type;
        constexpr bool is_alike = std::is_convertible_v<given(*)[], T(*)[]>;
        static_assert(is_alike, "allfold: the tensors of one list have one element type: make one call for each type");
        static_assert(
            !detail::is_raw<std::remove_cvref_t<X>>,
            "allfold: raw rows are no tensor of a list, which has elements of a type: make one call for each");
        std::size_t length = 0;
        first_pieces_.push_back(pieces_.size());
        if constexpr (!is_alike) {
        } else if constexpr (tensor_view<X>) {
            detail::for_each_run(x, [&](T* first, std::size_t count) {
                pieces_.emplace_back(first, count);
                length += count;
            });
        } else {
            length = static_cast<std::size_t>(std::ranges::size(x));
            if (length != 0) pieces_.emplace_back(std::ranges::data(x), length);
        }
        lengths_.push_back(length);
        size_ += length;
        return *this;
    }
    /// Room for so many tensors.
    void reserve(std::size_t count) {
        pieces_.reserve(count);
        first_pieces_.reserve(count);
        lengths_.reserve(count);
    }
    /// How each tensor is cut into blocks: `partition::even` where nothing is said, or `partition::ceil`, or a function
    /// of the caller's.
    [[nodiscard]] tensors by(cut_function how) && {
        cut_ = how;
        return std::move(*this);
    }
    [[nodiscard]] tensors by(cut_function how) const& { return tensors(*this).by(how); }

    /// Of all tensors together.
    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    [[nodiscard]] const std::vector<std::size_t>& lengths() const noexcept { return lengths_; }
    [[nodiscard]] partition cut(std::size_t tensor, int blocks) const { return cut_(lengths_[tensor], blocks); }
    /// Where the elements lie.
    [[nodiscard]] const std::vector<std::span<T>>& pieces() const noexcept { return pieces_; }
    /// Where those of one tensor lie.
    [[nodiscard]] std::span<const std::span<T>> pieces_of(std::size_t tensor) const noexcept {
        const std::size_t end = tensor + 1 < first_pieces_.size() ? first_pieces_[tensor + 1] : pieces_.size();
        return std::span(pieces_).subspan(first_pieces_[tensor], end - first_pieces_[tensor]);
    }

  private:
    std::vector<std::span<T>> pieces_;
    std::vector<std::size_t> first_pieces_;  // of each tensor
    std::vector<std::size_t> lengths_;
    std::size_t size_ = 0;
    cut_function cut_ = &partition::even;
};

namespace detail {

template <class X>
inline constexpr bool is_tensors = false;
template <class T>
inline constexpr bool is_tensors<tensors<T>> = true;

}  // namespace detail

/// Of constant elements where some of the tensors are constant.
template <class First, class... Rest>
tensors(First&&, Rest&&...) -> tensors<detail::list_element<First, Rest...>>;

}  // namespace allfold
