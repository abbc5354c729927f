// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstring>
#include <new>

#include "allfold/message/detail/credit.hpp"
#include "allfold/message/detail/message_data.hpp"
#include "allfold/message/detail/message_head.hpp"
#include "allfold/message/detail/post_office.hpp"
#include "allfold/message/options.hpp"
#include "allfold/transport/background.hpp"
#include "allfold/transport/communicator.hpp"
#include "allfold/transport/detail/copy.hpp"

/// @file
/// The short path: the fast path of a message that needs no waiting, a send that its receiver holds or a receive whose
/// message arrives at once. These are the same messages as the post office's: no other rank can tell which path a rank
/// has taken.

namespace allfold::detail {

/// Whether there is such a path: the transport must let a message be written straight to where it, or a library, will
/// read it.
template <class Comm>
concept has_short_messages = Comm::has_short_path && requires(Comm& comm, void (*write)(std::byte*)) {
    { comm.write_copied(0, lane{}, 0u, std::size_t{}, write) } -> std::same_as<bool>;
    comm.use_arrived(0, lane{}, std::size_t{}, [](const message_in_place&) {});
};

template <communicator Comm>
void progress_with(Comm& comm, post_office& office, int peer);

/// The post office of a communicator, which this thread takes over; null if it has none, or while an operator runs.
template <communicator Comm>
[[nodiscard]] post_office* existing_office(Comm& comm) noexcept {
    background& own = comm.background();
    if (own.is_running()) return nullptr;  // is_running() also takes it over
    return static_cast<post_office*>(own.office.get());
}

// All inlined, so that the description of a message stays in registers: what was stored in small pieces cannot be
// loaded in large ones before all earlier stores have completed, such as those of the previous message, whose cache
// line another core holds. Without inlining, a ping-pong of 8 bytes took 1.3 times as long.

template <class Comm>
concept supports_direct_read = requires(Comm& comm) {
    comm.begin_to_read();
    comm.end_reading();
};
template <class Comm>
[[nodiscard]] constexpr std::size_t longest_posted_at_once(bool to_itself) noexcept {
    return supports_direct_read<Comm> && !to_itself ? longest_held : credit::longest_message;
}

template <communicator Comm>
[[nodiscard, gnu::noinline]] bool is_far_from(Comm& comm, int receiver, std::size_t bytes) {
    return receiver != comm.rank() && comm.is_far(receiver, bytes);
}

/// Whether a message takes this path if there is room for it.
template <communicator Comm>
[[nodiscard, gnu::always_inline]] inline bool is_held_as_sent(const Comm& comm, const message_data& data,
                                                              const message_options& parsed) {
    const int receiver = parsed.destination->rank;
    const std::size_t bytes = data.bytes();
    return parsed.how == mode::standard && data.type->copies_bytes() && receiver >= 0 && receiver < comm.size() &&
           parsed.label.value >= 0 && bytes <= longest_posted_at_once<Comm>(receiver == comm.rank()) &&
           !comm.lends(sizeof(message_head) + bytes, true) && (data.data != nullptr || bytes == 0) &&
           data.type->has_valid_length();
}

/// Sends a message; false if nothing has been done.
template <communicator Comm>
[[nodiscard, gnu::always_inline]] inline bool try_short_send(Comm& comm, const message_data& data,
                                                             const message_options& parsed) {
    if (!detail::is_held_as_sent(comm, data, parsed)) return false;
    const int receiver = parsed.destination->rank, label = parsed.label.value;
    const std::size_t bytes = data.bytes();
    post_office* const office = existing_office(comm);
    if (office == nullptr) return false;
    comm.progress();
    if (receiver == comm.rank() && office->take_own_into_note(data, label)) {
        if (parsed.status_out != nullptr) *parsed.status_out = {};
        return true;
    }
    if (!office->may_post_at_once(receiver, bytes, [&] { return is_far_from(comm, receiver, bytes); })) return false;
    if (!Comm::shares_memory && !office->has_named(receiver, data.type->hash())) return false;
    if (receiver == comm.rank()) {
        const message_head head = office->eager_head(data, receiver, label);
        office->note_posted(receiver, bytes);
        office->take_envelope(receiver, head, {data.data, bytes});
        office->settle();
    } else {
        // By value, and each word of the head at once: a core has room for few stores that wait for a line which
        // another core holds, so they decide how many messages wait for theirs at the same time.
        const auto write = [=](destination memory) __attribute__((always_inline)) {
            office->write_eager_head(memory.data, data, receiver, label, Comm::shares_memory);
            copy_to_shared(memory + sizeof(message_head), data.data, bytes);
        };
        if (!comm.write_copied(receiver, envelopes_lane, signature_of_messages, sizeof(message_head) + bytes, write))
            return false;
        office->note_posted(receiver, bytes);
    }
    if (parsed.status_out != nullptr) *parsed.status_out = {};
    return true;
}

/// Takes in what has arrived from the receiver of a message that would take this path, so that both ranks find room;
/// false if the message takes another path. 64 messages each way, two cores near each other and far apart: 512 bytes
/// take 0.75x and 0.85x the time, 1 KiB 0.8x and 0.9x, 4 KiB 0.94x and 0.98x; without this, most of them became
/// operations that wait.
template <communicator Comm>
[[nodiscard]] bool progress_with_receiver(Comm& comm, const message_data& data, const message_options& parsed) {
    if (!detail::is_held_as_sent(comm, data, parsed)) return false;
    post_office* const office = existing_office(comm);
    const int receiver = parsed.destination->rank;
    const std::size_t bytes = data.bytes();
    if (office == nullptr || !office->is_held(receiver, bytes, [&] { return is_far_from(comm, receiver, bytes); }))
        return false;
    progress_with(comm, *office, receiver);
    return true;
}

/// Whether this is a valid receive of plain bytes from one given rank.
template <communicator Comm>
[[nodiscard, gnu::always_inline]] inline bool is_plain_receive(const Comm& comm, const message_data& place,
                                                               const message_options& parsed) {
    const int source = parsed.source->rank;
    return source >= 0 && source < comm.size() && place.type->copies_bytes() &&
           (place.data != nullptr || place.elements == 0) && place.type->has_valid_length();
}

/// Completes a plain receive whose message is there or, if `waits`, arrives within a moment; false if it has to be
/// waited for or something is wrong.
template <communicator Comm>
[[nodiscard, gnu::always_inline]] inline bool receive_next(Comm& comm, post_office& office, const message_data& place,
                                                           const message_options& parsed, bool waits, status& found) {
    const int source = parsed.source->rank;
    const tag label = parsed.received_label();
    if (source == comm.rank() || !office.receives_at_once() || (waits && background::in_flight())) return false;
    if (!waits && !office.is_worth_a_look(source)) return false;
    comm.progress();
    message_in_place here{};
    const bool is_there = comm.find_in_place(source, envelopes_lane, sizeof(message_head) + place.bytes(), here, waits);
    if (!waits) office.note_look(source, is_there);
    if (!is_there || here.signature != signature_of_messages || here.bytes < sizeof(message_head)) return false;
    message_head head;
    std::memcpy(&head, here.data, sizeof head);
    if (head.what != message_head::kind::eager || head.how == mode::synchronous ||
        (label.value != head.tag && !label.is_any) || (!Comm::shares_memory && head.type_name != nullptr) ||
        head.type != place.type->hash() || head.element_bytes != place.type->element_bytes ||
        head.elements > place.elements || head.bytes() != here.bytes - sizeof head)
        return false;
    copy_short(place.data, here.data + sizeof head, head.bytes());
    comm.take_in_place(source);
    office.note_received(source, head);
    found.source = source;
    found.tag = head.tag;
    found.elements = static_cast<std::size_t>(head.elements);
    found.cancelled = false;
    if (parsed.status_out != nullptr) *parsed.status_out = found;
    return true;
}
/// The same for any receive.
template <communicator Comm>
[[nodiscard, gnu::always_inline]] inline bool try_short_receive(Comm& comm, const message_data& place,
                                                                const message_options& parsed, status& found) {
    if (!detail::is_plain_receive(comm, place, parsed)) return false;
    post_office* const office = existing_office(comm);
    return office != nullptr && receive_next(comm, *office, place, parsed, true, found);
}

}  // namespace allfold::detail
