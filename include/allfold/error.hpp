// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <concepts>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>

/// @file
/// The library's only exception type.

namespace allfold {

/// What went wrong, for programs; `error::what()` says it for people.
enum class errc {
    mismatch,       ///< ranks, or the operands of one rank, disagree on the collective, size, type, operator or root
    truncated,      ///< a message is longer than the receiver has room for, or its bytes do not make up elements
    bad_rank,       ///< a rank or root outside [0, size)
    bad_partition,  ///< block sizes that do not add up
    bad_argument,   ///< null data with elements, a shape that does not fit
    overlap,        ///< input and output overlap without being identical
    timeout,        ///< a deadline passed
    peer_failed,    ///< another rank threw, or left while it was being waited for
    transport,      ///< the transport itself failed
};

/// Thrown by every collective and transport. The text names the collective, the rank, the peer and both values.
class error : public std::runtime_error {
  public:
    error(errc code, const std::string& text) : std::runtime_error(text), code_(code) {}
    [[nodiscard]] errc code() const noexcept { return code_; }

  private:
    errc code_;
};

namespace detail {

/// A word or a number in a message.
struct text_piece {
    std::string_view words;
    unsigned long long number = 0;
    bool is_number = false;

    text_piece(const char* w) : words(w) {}
    text_piece(const std::string& w) : words(w) {}
    text_piece(std::string_view w) : words(w) {}
    text_piece(std::integral auto n) : number(static_cast<unsigned long long>(n)), is_number(true) {
        if constexpr (std::signed_integral<decltype(n)>)
            if (n < 0) {
                words = "-";
                number = 0 - number;
            }
    }
};

/// Builds messages in one place, out of line: a chain of `+`, with all its temporary strings, would be compiled anew at
/// every check.
[[nodiscard, gnu::cold]] inline std::string text(std::initializer_list<text_piece> pieces) {
    std::string all;
    for (const text_piece& piece : pieces) {
        all.append(piece.words);
        if (!piece.is_number) continue;
        char digits[20];
        char* first = digits + sizeof digits;
        unsigned long long left = piece.number;
        do *--first = static_cast<char>('0' + left % 10);
        while ((left /= 10) != 0);
        all.append(first, static_cast<std::size_t>(digits + sizeof digits - first));
    }
    return all;
}
[[nodiscard, gnu::cold]] inline std::string text_of_elements(std::size_t count) {
    return text({count, count == 1 ? " element" : " elements"});
}

}  // namespace detail
}  // namespace allfold
