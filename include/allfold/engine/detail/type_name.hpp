// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <type_traits>
#include <typeinfo>

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

/// The name of T, null-terminated.
template <class T>
inline constexpr const char* type_name = name_characters<T>.data();

/// A hash of some text (FNV-1a), chained onto another hash.
[[nodiscard]] constexpr std::uint64_t hash_of_text(std::string_view text,
                                                   std::uint64_t h = 0xcbf29ce484222325u) noexcept {
    for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    return h;
}

#if defined(__clang__)
/// Whether a spelling may name a type that is local to a function: clang++ spells that without the function.
[[nodiscard]] consteval bool may_be_ambiguous(std::string_view spelling) {
    constexpr std::string_view unambiguous[] = {"allfold",  "std",      "void",     "bool",   "char", "char8_t",
                                                "char16_t", "char32_t", "wchar_t",  "short",  "int",  "long",
                                                "float",    "double",   "unsigned", "signed", "const"};
    const auto is_in_word = [](char c) {
        return c == '_' || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    };
    const auto is_known = [&](std::string_view word) {
        const bool is_number = word.front() <= '9';
        // Such as _Float16, whose typeid need not exist.
        const bool is_built_in = word.size() > 1 && word[0] == '_' && (word[1] == '_' || word[1] < 'a');
        return is_number || is_built_in || std::ranges::find(unambiguous, word) != std::end(unambiguous);
    };
    for (std::size_t begin = 0, end = 0; begin < spelling.size(); begin = end + 1) {
        for (end = begin; end < spelling.size() && is_in_word(spelling[end]);) ++end;
        const std::string_view word = spelling.substr(begin, end - begin);
        const bool is_qualified = begin != 0 && spelling[begin - 1] == ':';
        if (!word.empty() && !is_qualified && !is_known(word)) return true;
    }
    return false;
}
#else
/// Whether a spelling may name one of several types: g++ spells two lambdas of one function and signature alike, two
/// local types of one function that have the same name, and types without a name.
[[nodiscard]] consteval bool may_be_ambiguous(std::string_view spelling) {
    return spelling.find('(') != std::string_view::npos || spelling.find("<unnamed") != std::string_view::npos;
}
#endif

/// Whether the spelling of T may not distinguish it from other types.
template <class T>
inline constexpr bool spelled_ambiguously = may_be_ambiguous(spelled<T>());

/// A hash that distinguishes T from other types, and is the same in every process that runs the same program.
template <class T>
[[nodiscard]] std::uint64_t type_hash() noexcept {
#if defined(__GXX_RTTI)
    if constexpr (spelled_ambiguously<T>) {
        static const std::uint64_t of_mangled = hash_of_text(typeid(T).name());  // mangled names number them
        return of_mangled;
    }
#endif
    constexpr std::uint64_t of_spelled = hash_of_text(spelled<T>());
    return of_spelled;
}

/// The same where the type is erased: known when compiled, if it can be.
struct erased_type_hash {
    std::uint64_t known;
    std::uint64_t (*computed)() noexcept;  // null if it is known
    [[nodiscard]] std::uint64_t operator()() const noexcept { return computed == nullptr ? known : computed(); }
};
#if defined(__GXX_RTTI)
template <class T>
inline constexpr erased_type_hash erased_type_hash_of =
    spelled_ambiguously<T> ? erased_type_hash{0, &type_hash<T>} : erased_type_hash{hash_of_text(spelled<T>()), nullptr};
#else
template <class T>
inline constexpr erased_type_hash erased_type_hash_of{hash_of_text(spelled<T>()), nullptr};
#endif

/// A hash of the types of a call.
template <class Collective, class Element, class Op>
[[nodiscard]] std::uint64_t hash_of_types() noexcept {
    constexpr std::uint64_t of_name = hash_of_text(Collective::promise.name);
    return of_name ^ type_hash<Element>() * 3 ^ type_hash<Op>() * 31;
}

/// A hash of the parameters of an algorithm.
template <class T>
[[nodiscard]] std::uint64_t hash_of_value(const T& value) noexcept {
    if constexpr (std::is_empty_v<T> || !std::has_unique_object_representations_v<T>)
        return 0;
    else
        return hash_of_text({reinterpret_cast<const char*>(&value), sizeof value});
}

}  // namespace allfold::detail
