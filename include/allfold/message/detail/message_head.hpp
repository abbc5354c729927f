// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "allfold/message/options.hpp"
#include "allfold/transport/communicator.hpp"

/// @file
/// What a message between two ranks says before its data.

namespace allfold::detail {

inline constexpr std::uint32_t signature_of_messages = 0x6d736701;

/// With the data of the shortest messages it fits into one cache line of a cell between threads.
struct message_head {
    enum class kind : std::uint8_t {
        eager,
        request,
        clear,
        refused,
        unexpected,  // a refusal: a ready send without its receive
        news
    };
    kind what = kind::news;
    mode how = mode::standard;
    std::uint16_t freed = 0;  // units that its sender has let go of, of what it holds of the receiver; modulo 2^16
    std::int32_t tag = 0;
    std::uint64_t type = 0;
    const char* type_name = "";  // for who shares the memory; others get the begin of it, behind, unless it is null
    std::uint64_t elements = 0;
    std::uint32_t element_bytes = 1;  // 0: they are encoded, and a request says behind how long they are
    std::uint32_t number = 0;         // of the send, where an answer names it

    [[nodiscard]] bool is_encoded() const noexcept { return element_bytes == 0; }
    /// Unless they are encoded.
    [[nodiscard]] std::size_t bytes() const noexcept { return static_cast<std::size_t>(elements) * element_bytes; }
    [[nodiscard]] status from_rank(int source) const noexcept {
        return {source, tag, static_cast<std::size_t>(elements), false};
    }
    /// Whether it is a message, and not about one.
    [[nodiscard]] bool has_envelope() const noexcept { return what == kind::eager || what == kind::request; }
};
static_assert(sizeof(message_head) <= 40);

/// How much of the name of a type goes where memory is not shared, with the first message of that type to a rank.
inline constexpr std::size_t longest_type_name = 40;

}  // namespace allfold::detail
