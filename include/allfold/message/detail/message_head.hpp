// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "allfold/message/options.hpp"
#include "allfold/transport/communicator.hpp"

/// @file
/// The header of a message between two ranks.

namespace allfold::detail {

inline constexpr std::uint32_t signature_of_messages = 0x6d736701;

/// Together with the data of the shortest messages, it fits into one cache line of a cell between threads.
struct message_head {
    enum class kind : std::uint8_t {
        eager,
        request,
        clear,
        refused,
        unexpected,  // a refusal: a ready send without a posted receive
        news
    };
    kind what = kind::news;
    mode how = mode::standard;
    std::uint16_t freed = 0;  // units that its sender has released of the receiver's messages, modulo 2^16
    std::int32_t tag = 0;
    std::uint64_t type = 0;
    const char* type_name = "";  // for ranks sharing memory; others get its start after the head, unless null
    std::uint64_t elements = 0;
    std::uint32_t element_bytes = 1;  // 0: encoded; in a request the encoded length follows the head
    std::uint32_t number = 0;         // of the send, by which an answer refers to it

    [[nodiscard]] bool is_encoded() const noexcept { return element_bytes == 0; }
    /// The length of the data, unless it is encoded.
    [[nodiscard]] std::size_t bytes() const noexcept { return static_cast<std::size_t>(elements) * element_bytes; }
    [[nodiscard]] status from_rank(int source) const noexcept {
        return {source, tag, static_cast<std::size_t>(elements), false};
    }
    /// Writes it to `to`, in as few stores as possible.
    [[gnu::always_inline]] void write_words(std::byte* to) const noexcept {
        if constexpr (std::endian::native != std::endian::little || sizeof(std::uintptr_t) != sizeof(std::uint64_t)) {
            std::memcpy(to, this, sizeof *this);
        } else {
            const std::uint64_t first = static_cast<std::uint64_t>(what) | static_cast<std::uint64_t>(how) << 8 |
                                        std::uint64_t{freed} << 16 |
                                        static_cast<std::uint64_t>(static_cast<std::uint32_t>(tag)) << 32;
            const std::array<std::uint64_t, 5> words{first, type, reinterpret_cast<std::uintptr_t>(type_name), elements,
                                                     std::uint64_t{number} << 32 | element_bytes};
            static_assert(sizeof words == sizeof(message_head));
            for (std::size_t i = 0; i < words.size(); ++i) std::memcpy(to + i * sizeof first, &words[i], sizeof first);
        }
    }
    /// Whether it carries the envelope of a message, rather than being about a message.
    [[nodiscard]] bool has_envelope() const noexcept { return what == kind::eager || what == kind::request; }
};
static_assert(sizeof(message_head) <= 40);

/// How much of a type's name is sent to a rank that does not share memory, with the first message of that type.
inline constexpr std::size_t longest_type_name = 40;

}  // namespace allfold::detail
