// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

/// @file
/// Text of any origin, such as that of an exception, made fit for files that must consist of characters.

namespace allfold::detail {

/// How many bytes the first character has in UTF-8; 0 if there is none, or if XML does not allow it.
[[nodiscard]] inline std::size_t length_of_character(std::string_view text) {
    const auto first = static_cast<unsigned char>(text[0]);
    if (first < 0x80) return first >= ' ' || first == '\t' || first == '\n' || first == '\r' ? 1 : 0;
    const std::size_t length = first < 0xC0 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF8 ? 4 : 0;
    if (length == 0 || text.size() < length) return 0;
    std::uint32_t code = first & (0x7Fu >> length);
    for (const char each : text.substr(1, length - 1)) {
        const auto byte = static_cast<unsigned char>(each);
        if ((byte & 0xC0) != 0x80) return 0;
        code = code << 6 | (byte & 0x3F);
    }
    constexpr std::uint32_t least[] = {0x80, 0x800, 0x10000};  // of two, three and four bytes
    const bool is_allowed = code < 0xD800 || (code > 0xDFFF && code < 0xFFFE) || code > 0xFFFF;
    return code >= least[length - 2] && code <= 0x10FFFF && is_allowed ? length : 0;
}

/// The text with U+FFFD for each byte that belongs to no character. What XML does not allow is none.
[[nodiscard]] inline std::string legible(std::string_view text) {
    std::string characters;
    while (!text.empty()) {
        const std::size_t length = length_of_character(text);
        characters += length == 0 ? std::string_view("\xEF\xBF\xBD") : text.substr(0, length);
        text.remove_prefix(std::max<std::size_t>(length, 1));
    }
    return characters;
}

}  // namespace allfold::detail
