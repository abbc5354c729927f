// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

/// @file
/// Names of types, for agreement between ranks and for error messages.

namespace allfold::detail {

template <class T>
[[nodiscard]] consteval std::string_view spelled() {
#if defined(__clang__) || defined(__GNUC__)
    const std::string_view whole = __PRETTY_FUNCTION__;  // "... [T = name]" or "... [with T = name; ...]"
    const std::size_t begin = whole.find("T = ") + 4;
    std::size_t end = whole.find(';', begin);
    if (end == std::string_view::npos) end = whole.rfind(']');
    return whole.substr(begin, end - begin);
#else
    return __FUNCSIG__;
#endif
}

template <class T>
inline constexpr auto name_characters = [] {
    constexpr std::string_view name = spelled<T>();
    std::array<char, name.size() + 1> text{};
    for (std::size_t i = 0; i < name.size(); ++i) text[i] = name[i];
    return text;
}();

/// The name of T, ending in a null character.
template <class T>
inline constexpr const char* type_name = name_characters<T>.data();

/// A hash of the name (FNV-1a): the same in every process that runs the same program.
template <class T>
inline constexpr std::uint64_t type_hash = [] {
    std::uint64_t h = 0xcbf29ce484222325u;
    for (char c : spelled<T>()) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    return h;
}();

}  // namespace allfold::detail
