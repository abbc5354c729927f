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
/// The options of a message call, which follow its data in any order: `send(comm, x, to{3}, tag{7})`.

namespace allfold {

namespace detail {
inline constexpr int null_rank = -1;
inline constexpr int any_rank = -2;
inline constexpr int any_tag = -2;
struct any_of {};
struct none_of {};
/// A copy of an option, made member by member: a caller has just stored them one by one, and what was stored in pieces
/// cannot be loaded in one until the stores before it have completed, such as those of the previous message, whose
/// cache line another core holds. 64 messages of 8 bytes each way take 0.98x the time.
template <class Option>
[[nodiscard]] constexpr Option copy_of_members(const Option& given, int Option::* value, bool Option::* is_special) {
    Option copy(0);
    copy.*value = given.*value;
    copy.*is_special = given.*is_special;
    return copy;
}
}  // namespace detail

// Functions, like `std::endl`: variables would be shadowed wherever something else has the same name.

/// The wildcard for a source or a tag: `from{any}`, `tag{any}`.
constexpr detail::any_of any() noexcept { return {}; }
/// No rank: a message to or from it is done at once, and moves nothing. Useful at the edge of a grid: `to{none}`.
constexpr detail::none_of none() noexcept { return {}; }

/// The rank that a message is sent to.
struct to {
    constexpr explicit to(int r) noexcept : rank(r), is_none(false) {}
    constexpr explicit to(detail::none_of (*)()) noexcept : rank(detail::null_rank), is_none(true) {}
    int rank;
    bool is_none;
};

/// The rank that a message is received from.
struct from {
    constexpr explicit from(int r) noexcept : rank(r), is_special(false) {}
    constexpr explicit from(detail::any_of (*)()) noexcept : rank(detail::any_rank), is_special(true) {}
    constexpr explicit from(detail::none_of (*)()) noexcept : rank(detail::null_rank), is_special(true) {}
    int rank;
    bool is_special;
};

/// Distinguishes messages between the same two ranks: 0 or more, 0 by default. A receive may use `tag{any}`.
struct tag {
    constexpr explicit tag(int t) noexcept : value(t), is_any(false) {}
    constexpr explicit tag(detail::any_of (*)()) noexcept : value(detail::any_tag), is_any(true) {}
    int value;
    bool is_any;
};

/// In an exchange: the tag of the receive, if it differs from that of the send, or `any`.
struct receive_tag {
    constexpr explicit receive_tag(int t) noexcept : value(t) {}
    constexpr explicit receive_tag(detail::any_of (*any)()) noexcept : value(any) {}
    tag value;
};

/// When a send is done.
enum class mode : std::uint8_t {
    standard,     ///< when its data may be overwritten: the message is held for its receiver, or has been matched
    buffered,     ///< at once: what the receiver does not hold is kept, as bytes, in memory granted by `attach_buffer`
    synchronous,  ///< when a receive has matched it
    ready         ///< as synchronous, but the receive must have been posted when the message arrives
};

/// What a receive or a probe has found.
struct status {
    int source = detail::null_rank;  ///< -1: from no rank
    int tag = detail::any_tag;
    std::size_t elements = 0;
    bool cancelled = false;  ///< if true, nothing else is known

    friend constexpr bool operator==(const status&, const status&) = default;
};

/// Where a started or prepared receive stores its status once it is done.
struct status_in {
    constexpr explicit status_in(status& s) noexcept : where(&s) {}
    status* where;
};

namespace detail {

template <class T>
concept message_option =
    std::same_as<T, to> || std::same_as<T, from> || std::same_as<T, tag> || std::same_as<T, receive_tag> ||
    std::same_as<T, mode> || std::same_as<T, deadline> || std::same_as<T, status_in>;

/// The parsed options of one message.
struct message_options {
    std::optional<to> destination;
    std::optional<from> source;
    tag label{0};
    std::optional<tag> other_label;  // that of an exchange's receive
    mode how = mode::standard;
    std::optional<allfold::deadline> limit;
    status* status_out = nullptr;

    template <class... Options>
    constexpr explicit message_options(const Options&... options) {
        (take(options), ...);
    }

    [[nodiscard]] constexpr const tag& received_label() const noexcept { return other_label ? *other_label : label; }

  private:
    constexpr void take(const to& given) { destination = copy_of_members(given, &to::rank, &to::is_none); }
    constexpr void take(const from& given) { source = copy_of_members(given, &from::rank, &from::is_special); }
    constexpr void take(const tag& given) { label = copy_of_members(given, &tag::value, &tag::is_any); }
    constexpr void take(const receive_tag& given) { other_label = given.value; }
    constexpr void take(mode given) { how = given; }
    constexpr void take(const deadline& given) { limit = given; }
    constexpr void take(const status_in& given) { status_out = given.where; }
};

/// Checks the options; if they do not fit, one line from the compiler says what to write.
template <bool Sends, bool Receives, class... Options>
[[nodiscard]] consteval bool require_message_options() {
    constexpr bool known = (message_option<Options> && ...);
    static_assert(known,
                  "allfold: unknown argument: after the data of a message come options: to{3}, from{3}, from{any}, "
                  "tag{7}, tag{any}, mode::synchronous, deadline{2s}, status_in{s}");
    constexpr auto count = [](auto... is) { return (0 + ... + (is ? 1 : 0)); };
    constexpr int destinations = count(std::same_as<Options, to>...), sources = count(std::same_as<Options, from>...);
    static_assert(!known || (destinations == (Sends ? 1 : 0) && sources == (Receives ? 1 : 0)),
                  "allfold: a send takes to{rank}, a receive or probe from{rank} or from{any}, an exchange both, each "
                  "once");
    constexpr bool once =
        count(std::same_as<Options, tag>...) <= 1 && count(std::same_as<Options, receive_tag>...) <= 1 &&
        count(std::same_as<Options, mode>...) <= 1 && count(std::same_as<Options, deadline>...) <= 1 &&
        count(std::same_as<Options, status_in>...) <= 1;
    static_assert(once, "allfold: two options of the same kind in one call: pass one tag, one mode, one deadline");
    constexpr bool takes_mode = Sends || !(std::same_as<Options, mode> || ...);
    static_assert(takes_mode, "allfold: a mode applies to sends only");
    constexpr bool is_of_both = (Sends && Receives) || !(std::same_as<Options, receive_tag> || ...);
    static_assert(is_of_both, "allfold: receive_tag{} is for exchanges only: a send or a receive takes tag{}");
    return known && once && takes_mode && is_of_both;
}

}  // namespace detail
}  // namespace allfold
