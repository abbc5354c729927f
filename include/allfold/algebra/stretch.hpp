// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <concepts>
#include <cstddef>
#include <span>
#include <tuple>
#include <type_traits>

/// @file
/// What an operator sees that takes many rows at once.

namespace allfold {

/// Rows of one tensor that follow each other in memory without gaps: a matrix of rows() times row_length() elements, in
/// row-major order. Owns nothing. The elements of a plain range, or of a tensor, are rows of one; a row of `records` is
/// as long as there, and one of `raw_rows` has as many bytes as an element.
///
/// An operator takes stretches where it is faster that way, as a callback with a length is:
///
///     const auto add = commutative([](stretch<const double> left, stretch<const double> right, stretch<double> out) {
///         vector_add(left.data(), right.data(), out.data(), out.size());
///     });
///
/// It writes row i of left ∘ right to row i of `out`, for every i, and each row of the result depends on row i of both
/// sides alone: how many rows it is given at once, and how often, is nothing that one may rely on (a chunk of a few
/// kilobytes, a block, or all of them). All three have the same shape, of at least one row. `out` is `left`, or
/// `right`, or neither of them, and then shares no memory with them; `left` may be `right`. What `out` holds before the
/// call, unless it is one of them, is nothing but an element of the type.
///
/// Identity, `lift` and `lower` are those of single elements, and of single rows where there are several tensors.
template <class T>
class stretch {
  public:
    using element_type = T;

    constexpr stretch(T* data, std::size_t rows, std::size_t row_length = 1) noexcept
        : data_(data), rows_(rows), row_length_(row_length) {}
    template <class U>
        requires(std::same_as<const U, T>)
    constexpr stretch(const stretch<U>& other) noexcept : stretch(other.data(), other.rows(), other.row_length()) {}

    [[nodiscard]] constexpr T* data() const noexcept { return data_; }
    [[nodiscard]] constexpr std::size_t rows() const noexcept { return rows_; }
    [[nodiscard]] constexpr std::size_t row_length() const noexcept { return row_length_; }
    [[nodiscard]] constexpr std::span<T> row(std::size_t i) const noexcept {
        return {data_ + i * row_length_, row_length_};
    }

    /// Of elements, as a range of all of them.
    [[nodiscard]] constexpr std::size_t size() const noexcept { return rows_ * row_length_; }
    [[nodiscard]] constexpr T* begin() const noexcept { return data_; }
    [[nodiscard]] constexpr T* end() const noexcept { return data_ + size(); }
    [[nodiscard]] constexpr T& operator[](std::size_t i) const noexcept { return data_[i]; }

  private:
    T* data_;
    std::size_t rows_;
    std::size_t row_length_;
};

/// The same rows of several tensors that are folded together (`records`): one stretch for each of them. An operator
/// `op(left, right, out)` on these sees what it would see of one `row` after the other. One on a single `stretch` is
/// called for each tensor.
template <class... Ts>
using stretches = std::tuple<stretch<Ts>...>;

}  // namespace allfold
