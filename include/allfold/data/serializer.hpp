// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <concepts>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>

/// @file
/// How an element that owns memory is sent over a transport that carries bytes.

namespace allfold {

/// Lets elements that are not trivially copyable be sent between processes. Specialise it with three static functions:
///
/// 1. `bytes(x)`: the number of bytes that x takes;
/// 2. `write(x, to)`: writes them to an address that need not be aligned;
/// 3. `read(from)`: makes an equal x from those bytes, a `std::span<const std::byte>`. It may throw on bytes that it
///    does not understand; the collective then throws on every rank.
///
/// Not needed between threads, which pass objects as they are, nor for trivially copyable types. Elements are sent one
/// after the other, each as its size (8 bytes) followed by its payload. `std::string` already has a serializer.
template <class T>
struct serializer;

/// An element type with a `serializer`.
template <class T>
concept serializable = requires(const T& x, std::byte* to, std::span<const std::byte> from) {
    { serializer<T>::bytes(x) } -> std::convertible_to<std::size_t>;
    serializer<T>::write(x, to);
    { serializer<T>::read(from) } -> std::convertible_to<T>;
};

/// A string is sent as its characters.
template <>
struct serializer<std::string> {
    [[nodiscard]] static std::size_t bytes(const std::string& x) noexcept { return x.size(); }
    static void write(const std::string& x, std::byte* to) noexcept { std::memcpy(to, x.data(), x.size()); }
    [[nodiscard]] static std::string read(std::span<const std::byte> from) {
        return {reinterpret_cast<const char*>(from.data()), from.size()};
    }
};

}  // namespace allfold
