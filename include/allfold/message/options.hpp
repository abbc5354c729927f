// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "allfold/engine/deadline.hpp"

/// @file
/// What a caller says of a message besides its data, in any order: `send(comm, x, to{3}, tag{7})`.

namespace allfold {

namespace detail {
inline constexpr int null_rank = -1;
inline constexpr int any_rank = -2;
inline constexpr int any_tag = -2;
struct any_of {};
struct none_of {};
}  // namespace detail

// Functions, as `std::endl` is one: as variables they would be shadowed wherever something else is called so.

/// From whichever rank, under whichever tag: `from{any}`, `tag{any}`.
constexpr detail::any_of any() noexcept { return {}; }
/// Nobody: a message to or from there is done at once, and moves nothing. Where a grid ends, say: `to{none}`.
constexpr detail::none_of none() noexcept { return {}; }

/// To which rank.
struct to {
    constexpr explicit to(int r) noexcept : rank(r), is_none(false) {}
    constexpr explicit to(detail::none_of (*)()) noexcept : rank(detail::null_rank), is_none(true) {}
    int rank;
    bool is_none;
};

/// From which rank.
struct from {
    constexpr explicit from(int r) noexcept : rank(r), is_special(false) {}
    constexpr explicit from(detail::any_of (*)()) noexcept : rank(detail::any_rank), is_special(true) {}
    constexpr explicit from(detail::none_of (*)()) noexcept : rank(detail::null_rank), is_special(true) {}
    int rank;
    bool is_special;
};

/// Tells messages between the same two ranks apart: 0 or more, and 0 where nothing is said. A receive may say
/// `tag{any}`.
struct tag {
    constexpr explicit tag(int t) noexcept : value(t), is_any(false) {}
    constexpr explicit tag(detail::any_of (*)()) noexcept : value(detail::any_tag), is_any(true) {}
    int value;
    bool is_any;
};

/// In an exchange: under which tag it receives, where that is another one than it sends under, or any.
struct receive_tag {
    constexpr explicit receive_tag(int t) noexcept : under(t) {}
    constexpr explicit receive_tag(detail::any_of (*any)()) noexcept : under(any) {}
    tag under;
};

/// When a send may end.
enum class mode : std::uint8_t {
    standard,     ///< when its data may be written again: the message is held for its receiver, or has been matched
    buffered,     ///< at once: what the receiver does not hold is kept in memory that `attach_buffer` has allowed
    synchronous,  ///< when a receive has been matched
    ready         ///< as synchronous, and the receive must be there already when the message comes
};

/// What a receive or a probe has found.
struct status {
    int source = detail::null_rank;  ///< -1: it was from nobody
    int tag = detail::any_tag;
    std::size_t elements = 0;
    bool cancelled = false;  ///< then nothing else is known

    friend constexpr bool operator==(const status&, const status&) = default;
};

/// Where a started or prepared receive tells, once it is done, what it has found.
struct status_in {
    constexpr explicit status_in(status& s) noexcept : where(&s) {}
    status* where;
};

namespace detail {

template <class T>
concept message_option =
    std::same_as<T, to> || std::same_as<T, from> || std::same_as<T, tag> || std::same_as<T, receive_tag> ||
    std::same_as<T, mode> || std::same_as<T, deadline> || std::same_as<T, status_in>;

/// The options of one message, understood.
struct message_options {
    std::optional<to> destination;
    std::optional<from> source;
    tag label{0};
    std::optional<tag> other_label;  // of what an exchange receives
    mode how = mode::standard;
    std::optional<allfold::deadline> limit;
    status* told = nullptr;

    template <class... Options>
    constexpr explicit message_options(const Options&... options) {
        (take(options), ...);
    }

    [[nodiscard]] constexpr const tag& received_label() const noexcept { return other_label ? *other_label : label; }

  private:
    constexpr void take(const to& said) { destination = said; }
    constexpr void take(const from& said) { source = said; }
    constexpr void take(const tag& said) { label = said; }
    constexpr void take(const receive_tag& said) { other_label = said.under; }
    constexpr void take(mode said) { how = said; }
    constexpr void take(const deadline& said) { limit = said; }
    constexpr void take(const status_in& said) { told = said.where; }
};

/// Whether the options fit; where not, one line of the compiler says what to write.
template <bool Sends, bool Receives, class... Options>
[[nodiscard]] consteval bool require_message_options() {
    constexpr bool known = (message_option<Options> && ...);
    static_assert(known,
                  "allfold: unknown argument: after the data of a message come options: to{3}, from{3}, from{any}, "
                  "tag{7}, tag{any}, mode::synchronous, deadline{2s}, status_in{s}");
    constexpr auto count = [](auto... is) { return (0 + ... + (is ? 1 : 0)); };
    constexpr int destinations = count(std::same_as<Options, to>...), sources = count(std::same_as<Options, from>...);
    static_assert(!known || (destinations == (Sends ? 1 : 0) && sources == (Receives ? 1 : 0)),
                  "allfold: a send says to{rank}, a receive or probe from{rank} or from{any}, an exchange both, each "
                  "once");
    constexpr bool once =
        count(std::same_as<Options, tag>...) <= 1 && count(std::same_as<Options, receive_tag>...) <= 1 &&
        count(std::same_as<Options, mode>...) <= 1 && count(std::same_as<Options, deadline>...) <= 1 &&
        count(std::same_as<Options, status_in>...) <= 1;
    static_assert(once, "allfold: two options of one kind in one call: give one tag, one mode, one deadline");
    constexpr bool is_told = Sends || !(std::same_as<Options, mode> || ...);
    static_assert(is_told, "allfold: a mode is for the one who sends");
    constexpr bool is_of_both = (Sends && Receives) || !(std::same_as<Options, receive_tag> || ...);
    static_assert(is_of_both, "allfold: receive_tag{} is for an exchange: a send or a receive says tag{}");
    return known && once && is_told && is_of_both;
}

}  // namespace detail
}  // namespace allfold
