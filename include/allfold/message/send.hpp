// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <cstddef>
#include <memory>
#include <utility>

#include "allfold/engine/operation.hpp"
#include "allfold/engine/task.hpp"
#include "allfold/message/detail/message_data.hpp"
#include "allfold/message/detail/message_task.hpp"
#include "allfold/message/options.hpp"
#include "allfold/transport/communicator.hpp"

/// @file
/// A message to another rank.

namespace allfold {
namespace detail {

struct send_verb {
    template <communicator Comm, class X, class... Options>
    void operator()(Comm& comm, X&& x, const Options&... options) const {
        if constexpr (fits<Comm, false, X, Options...>()) {
            if (goes_shortly(comm, x, options...)) return;
            run_message(comm, [&] { return request(comm, x, options...); });
        }
    }
    template <communicator Comm, class X, class... Options>
    [[nodiscard]] operation start(Comm& comm, X&& x, const Options&... options) const {
        if constexpr (fits<Comm, true, X, Options...>()) {
            if (goes_shortly(comm, x, options...) || goes_in_turn(comm, x, options...))
                return operation(ended_at_once{});
            return start_message(comm, [&] { return request(comm, x, options...); });
        }
    }
    template <communicator Comm, class X, class... Options>
    [[nodiscard]] persistent prepare(Comm& comm, X&& x, const Options&... options) const {
        if constexpr (fits<Comm, true, X, Options...>())
            return prepare_message(comm, [&] { return request(comm, x, options...); });
    }

  private:
    template <class Comm, bool Returns, class X, class... Options>
    [[nodiscard]] static consteval bool fits() {
        return require_message_options<true, false, Options...>() &&
               require_message_data<Comm::shares_memory, false, Returns, X>();
    }
    template <class Comm, class X, class... Options>
    [[nodiscard, gnu::always_inline]] static bool goes_shortly([[maybe_unused]] Comm& comm, [[maybe_unused]] X& x,
                                                               const Options&... options) {
        if constexpr (has_short_messages<Comm>)
            return !has_gaps(x) &&
                   send_shortly(comm, message_data_of<Comm::shares_memory>(x), message_options(options...));
        return false;
    }
    /// A function of its own: what it looks at must not keep the short way's from staying in registers.
    template <class Comm, class X, class... Options>
    [[nodiscard, gnu::cold, gnu::noinline]] static bool goes_in_turn([[maybe_unused]] Comm& comm, [[maybe_unused]] X& x,
                                                                     const Options&... options) {
        if constexpr (has_short_messages<Comm> && Comm::shares_memory)
            return !has_gaps(x) &&
                   take_turns(comm, message_data_of<Comm::shares_memory>(x), message_options(options...)) &&
                   goes_shortly(comm, x, options...);
        return false;
    }
    template <class Comm, class X, class... Options>
    [[nodiscard]] static message_request request(Comm& comm, X& x, const Options&... options) {
        message_request asked("send", options...);
        add_sending(comm, message_data_of<Comm::shares_memory>(x), asked);
        asked.send_without_gaps(x);
        return asked;
    }
};

}  // namespace detail

/// Sends a message to one rank, which receives it.
///
///     send(comm, x, to{3})
///     send(comm, x, to{3}, tag{7}, mode::synchronous)
///
/// - Returns, or its operation is done, when `mode` says so; then x may be written again.
/// - Data: a contiguous range, a tensor view, a list of tensors, records, or one object. Elements are trivially
///   copyable; where ranks share memory, anything that can be assigned goes, from where it lies, and elsewhere what has
///   a serializer. Data with gaps is packed, a list as its tensors one after the other, and records row by row: their
///   rows are the elements of the message.
/// - Order: of two messages of one rank to another that a receive could both take, it takes the one that was sent, or
///   started, first. Messages and collectives never mix.
/// - Cost: a message of 64 KiB or less (between threads 6 KiB, or 16 where all cores share a cache), and of no more
///   than the transport copies, is one message as long as its receiver holds less than 256 KiB of this rank's that it
///   has not received; otherwise it is three (between threads two), and waits for the receive. Do not rely on being
///   held.
/// - Errors: `bad_rank`, `bad_argument` for `tag{any}`, a negative tag, null data, or no room for `mode::buffered`,
///   before anything is sent; `bad_argument` where `mode::ready` found no receive; `peer_failed` if the receiver
///   returns without having received what must be.
/// - Source: MPI-4.1, sections 3.2 to 3.7.
inline constexpr detail::send_verb send{};

/// From now on `mode::buffered` may keep so many bytes for this rank. There was no other buffer.
template <communicator Comm>
void attach_buffer(Comm& comm, std::size_t bytes) {
    detail::post_office& office = detail::office_of(detail::carrier_of(comm));
    if (office.buffer.is_attached())
        detail::reject_message("attach_buffer", comm.rank(), "has attached a buffer already: detach it first");
    office.buffer.attach(bytes);
}

/// Returns when all that `mode::buffered` has kept for this rank has been sent, and how many bytes it could keep; now
/// it keeps nothing any more. A communicator that ends does not wait so: what has not been sent by then fails, as other
/// operations in flight do.
template <communicator Comm>
std::size_t detach_buffer(Comm& comm) {
    detail::require_outside_operator(comm, "detach_buffer");
    detail::post_office& office = detail::office_of(detail::carrier_of(comm));
    while (const auto first = office.buffer.take_first())
        if (!first->work().done()) detail::wait_for(first->work());
    return office.buffer.detach();
}

}  // namespace allfold
