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
/// Sends a message to another rank.

namespace allfold {
namespace detail {

struct send_verb {
    template <communicator Comm, class X, class... Options>
    void operator()(Comm& comm, X&& x, const Options&... options) const {
        if constexpr (fits<Comm, false, X, Options...>()) {
            if (try_short(comm, x, options...)) return;
            run_message(comm, [&] { return request(comm, x, options...); });
        }
    }
    template <communicator Comm, class X, class... Options>
    [[nodiscard]] operation start(Comm& comm, X&& x, const Options&... options) const {
        if constexpr (fits<Comm, true, X, Options...>()) {
            if (try_short(comm, x, options...) || try_short_after_progress(comm, x, options...))
                return operation(already_done{});
            return detail::start_message(comm, [&] { return request(comm, x, options...); });
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
    [[nodiscard, gnu::always_inline]] static bool try_short([[maybe_unused]] Comm& comm, [[maybe_unused]] X& x,
                                                            const Options&... options) {
        if constexpr (has_short_messages<Comm>)
            return !detail::has_gaps(x) &&
                   try_short_send(comm, detail::message_data_of<Comm::shares_memory>(x), message_options(options...));
        return false;
    }
    /// A separate function, so that its values do not compete for registers with those of the short path.
    template <class Comm, class X, class... Options>
    [[nodiscard, gnu::cold, gnu::noinline]] static bool try_short_after_progress([[maybe_unused]] Comm& comm,
                                                                                 [[maybe_unused]] X& x,
                                                                                 const Options&... options) {
        if constexpr (has_short_messages<Comm> && Comm::shares_memory)
            return !detail::has_gaps(x) &&
                   progress_with_receiver(comm, detail::message_data_of<Comm::shares_memory>(x),
                                          message_options(options...)) &&
                   try_short(comm, x, options...);
        return false;
    }
    template <class Comm, class X, class... Options>
    [[nodiscard]] static message_request request(Comm& comm, X& x, const Options&... options) {
        message_request asked("send", options...);
        detail::add_sending(comm, detail::message_data_of<Comm::shares_memory>(x), asked);
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
/// - Returns, or its operation is done, when `mode` says so; from then on x may be overwritten.
/// - Data: a contiguous range, a tensor view, a list of tensors, records, or one object. Elements are trivially
///   copyable; if ranks share memory, anything assignable can be sent, straight from the caller's memory, and elsewhere
///   anything that has a serializer. Non-contiguous data is packed, a list as its tensors one after another, and
///   records row by row: their rows are the elements of the message.
/// - Order: if a receive matches two messages from the same rank, it takes the one that was sent, or started, first.
///   Messages and collectives never mix.
/// - Cost: a message of 64 KiB or less (between threads 6 KiB, or 16 KiB as long as little is held), and no longer
///   than what the transport copies, is one message of the transport as long as the receiver holds less than 256 KiB of
///   this rank's messages that it has not received; otherwise it is three (between threads two), and waits for the
///   receive. Do not rely on messages being held.
/// - Errors: `bad_rank`, `bad_argument` for `tag{any}`, a negative tag, null data, elements of 4 GiB or more, or no
///   room for `mode::buffered`, before anything is sent; `bad_argument` if `mode::ready` found no posted receive;
///   `peer_failed` if the receiver returns without having received a message that has to be.
/// - Source: MPI-4.1, sections 3.2 to 3.7.
inline constexpr detail::send_verb send{};

/// Lets `mode::buffered` keep up to `bytes` bytes for this rank from now on. No buffer may be attached already.
template <communicator Comm>
void attach_buffer(Comm& comm, std::size_t bytes) {
    detail::post_office& office = detail::office_of(detail::carrier_of(comm));
    if (office.buffer.is_attached())
        detail::reject_message("attach_buffer", comm.rank(), "has already attached a buffer: detach it first");
    office.buffer.attach(bytes);
}

/// Detaches the buffer of `mode::buffered`: waits until everything kept in it has been sent, and returns how many bytes
/// it could keep; from now on nothing is kept. A communicator that ends does not wait like this: what has not been sent
/// by then fails, as other operations in flight do.
template <communicator Comm>
std::size_t detach_buffer(Comm& comm) {
    detail::require_outside_operator(comm, "detach_buffer");
    detail::post_office& office = detail::office_of(detail::carrier_of(comm));
    while (const auto first = office.buffer.take_first())
        if (!first->work().done()) detail::wait_for(first->work());
    return office.buffer.detach();
}

}  // namespace allfold
