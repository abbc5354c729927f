// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <concepts>
#include <cstddef>
#include <type_traits>

/// @file
/// Elements of which only the size and the alignment are known, and only at run time.

namespace allfold {

/// `count` contiguous elements of `size` bytes each, of whose type the caller knows just that it is trivially copyable
/// and aligned to `alignment` bytes: for wrappers of interfaces such as MPI's, which are given an address, a count and
/// an extent.
///
///     all_reduce(comm, raw_rows(data, count, size, alignment), op);
///     records{raw_rows(keys, count, 4, 4), raw_rows(values, count, 8, 8)};  // folded together
///
/// An operator sees bytes: op(stretch<const std::byte> left, stretch<const std::byte> right, stretch<std::byte> out),
/// with one row of `size` bytes per element. In whichever memory it is given them (the caller's, a message or a buffer
/// of the library's), each element begins at a multiple of `alignment`. Collectives count elements, not bytes.
///
/// The alignment is a power of two, at most 64; `size` and the address are multiples of it, and all ranks, and both
/// sides of a call, specify the same; otherwise the call throws. Raw rows cannot be lifted, cut along an axis, into
/// shards or at displacements, or used in lists, images and distributed arrays: these need elements with a type, and do
/// not compile. If nothing is folded, as in an all_to_all with displacements, pass a span of the bytes and count bytes.
template <class Byte>
    requires(std::same_as<std::remove_const_t<Byte>, std::byte>)
class raw_rows {
  public:
    using element_type = Byte;
    using address = std::conditional_t<std::is_const_v<Byte>, const void*, void*>;
    static constexpr std::size_t max_alignment = 64;

    raw_rows(address first, std::size_t count, std::size_t size, std::size_t alignment) noexcept
        : first_(static_cast<Byte*>(first)), count_(count), size_(size), alignment_(alignment) {}

    // Models a tensor view of bytes, row by row.
    [[nodiscard]] static constexpr std::size_t rank() noexcept { return 2; }
    [[nodiscard]] std::size_t extent(std::size_t i) const noexcept { return i == 0 ? count_ : size_; }
    [[nodiscard]] std::ptrdiff_t stride(std::size_t i) const noexcept {
        return i == 0 ? static_cast<std::ptrdiff_t>(size_) : 1;
    }
    [[nodiscard]] Byte* data() const noexcept { return first_; }

    [[nodiscard]] std::size_t alignment() const noexcept { return alignment_; }

  private:
    Byte* first_;
    std::size_t count_;
    std::size_t size_;
    std::size_t alignment_;
};

/// Writable rows.
raw_rows(void*, std::size_t, std::size_t, std::size_t) -> raw_rows<std::byte>;
/// Constant rows.
raw_rows(const void*, std::size_t, std::size_t, std::size_t) -> raw_rows<const std::byte>;

namespace detail {

template <class V>
inline constexpr bool is_raw = false;
template <class Byte>
inline constexpr bool is_raw<raw_rows<Byte>> = true;

}  // namespace detail
}  // namespace allfold
