// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <concepts>
#include <cstddef>
#include <span>
#include <tuple>
#include <type_traits>

/// @file
/// What an operator sees if it takes many rows at once.

namespace allfold {

/// Contiguous rows of one tensor: a matrix of rows() times row_length() elements in row-major order. Non-owning. The
/// elements of a plain range or tensor are rows of length one; a row of `records` is as long as in its tensor, and a
/// row of `raw_rows` has as many bytes as an element.
///
/// Write an operator on stretches if that is faster, for example for a callback that takes a length:
///
///     const auto add = commutative([](stretch<const double> left, stretch<const double> right, stretch<double> out) {
///         vector_add(left.data(), right.data(), out.data(), out.size());
///     });
///
/// For every i it writes row i of left ∘ right to row i of `out`, and that row depends on row i of both sides alone. Do
/// not rely on how many rows it is given at once or how often it is called: a call may cover a chunk of a few
/// kilobytes, a block, or everything. All three have the same shape, with at least one row. `out` is `left`, or
/// `right`, or shares no memory with either; `left` may be `right`. Unless `out` is one of them, all that is known of
/// its contents before the call is that they are elements of the type.
///
/// Identity, `lift` and `lower` are those of single elements, or of single rows if there are several tensors.
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

    /// The elements, as one range.
    [[nodiscard]] constexpr std::size_t size() const noexcept { return rows_ * row_length_; }
    [[nodiscard]] constexpr T* begin() const noexcept { return data_; }
    [[nodiscard]] constexpr T* end() const noexcept { return data_ + size(); }
    [[nodiscard]] constexpr T& operator[](std::size_t i) const noexcept { return data_[i]; }

  private:
    T* data_;
    std::size_t rows_;
    std::size_t row_length_;
};

/// The same rows of several tensors that are folded together (`records`), one stretch per tensor. An operator `op(left,
/// right, out)` on these sees what it would otherwise see one `row` after the other. An operator on a single `stretch`
/// is called once per tensor.
template <class... Ts>
using stretches = std::tuple<stretch<Ts>...>;

}  // namespace allfold
