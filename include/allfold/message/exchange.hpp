// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <memory>
#include <type_traits>
#include <utility>

#include "allfold/engine/operation.hpp"
#include "allfold/error.hpp"
#include "allfold/message/detail/message_data.hpp"
#include "allfold/message/detail/message_task.hpp"
#include "allfold/message/options.hpp"
#include "allfold/transport/communicator.hpp"

/// @file
/// Sends a message to one rank and receives one from another, at the same time.

namespace allfold {
namespace detail {

struct exchange_verb {
    template <communicator Comm, class X, class Y, class... Options>
        requires(!message_option<std::remove_cvref_t<Y>>)
    status operator()(Comm& comm, X&& x, to there, Y&& y, from here, const Options&... options) const {
        if constexpr (fit<Comm, false, X, Y, Options...>()) {
            return run<false>(
                comm, x, y, [&] { return request(comm, x, y, there, here, options...); }, there, here, options...);
        }
    }
    template <communicator Comm, class X, class... Options>
    status operator()(Comm& comm, X&& x, to there, from here, const Options&... options) const {
        if constexpr (fit<Comm, false, X, X, Options...>()) {
            return run<true>(
                comm, x, x, [&] { return in_place(comm, x, there, here, options...); }, there, here, options...);
        }
    }
    template <communicator Comm, class X, class Y, class... Options>
        requires(!message_option<std::remove_cvref_t<Y>>)
    [[nodiscard]] operation start(Comm& comm, X&& x, to there, Y&& y, from here, const Options&... options) const {
        if constexpr (fit<Comm, true, X, Y, Options...>()) {
            return start_message(comm, [&] { return request(comm, x, y, there, here, options...); });
        }
    }
    template <communicator Comm, class X, class... Options>
    [[nodiscard]] operation start(Comm& comm, X&& x, to there, from here, const Options&... options) const {
        if constexpr (fit<Comm, true, X, X, Options...>()) {
            return start_message(comm, [&] { return in_place(comm, x, there, here, options...); });
        }
    }
    template <communicator Comm, class X, class Y, class... Options>
        requires(!message_option<std::remove_cvref_t<Y>>)
    [[nodiscard]] persistent prepare(Comm& comm, X&& x, to there, Y&& y, from here, const Options&... options) const {
        if constexpr (fit<Comm, true, X, Y, Options...>())
            return prepare_message(comm, [&] { return request(comm, x, y, there, here, options...); });
    }
    template <communicator Comm, class X, class... Options>
    [[nodiscard]] persistent prepare(Comm& comm, X&& x, to there, from here, const Options&... options) const {
        if constexpr (fit<Comm, true, X, X, Options...>())
            return prepare_message(comm, [&] { return in_place(comm, x, there, here, options...); });
    }

  private:
    template <class Comm, bool Returns, class X, class Y, class... Options>
    [[nodiscard]] static consteval bool fit() {
        return require_message_options<true, true, to, from, Options...>() &&
               require_message_data<Comm::shares_memory, false, Returns, X>() &&
               require_message_data<Comm::shares_memory, true, Returns, Y>();
    }
    /// A message that is sent at once has been copied: then only the receive is left.
    template <bool InPlace, class Comm, class X, class Y, class Make, class... Options>
    [[nodiscard]] static status run(Comm& comm, X& x, Y& y, Make make, const Options&... options) {
        if constexpr (has_short_messages<Comm>) {
            const message_options parsed(options...);
            const auto data = [&x] { return detail::message_data_of<Comm::shares_memory>(x); };
            const message_data place = detail::message_data_of<Comm::shares_memory>(y);
            if (!detail::has_gaps(x) && !detail::has_gaps(y) && detail::is_valid_receive(comm, place, parsed) &&
                (InPlace || !data().overlaps(place)) && try_short_send(comm, data(), parsed)) {
                status found;
                if (try_short_receive(comm, place, parsed, found)) return found;
                return run_message(comm, [&] {
                    message_request asked("exchange", options...);
                    add_receiving(comm, place, asked);
                    return asked;
                });
            }
        }
        return detail::run_message(comm, make);
    }
    template <class Comm, class X, class Y, class... Options>
    [[nodiscard]] static message_request request(Comm& comm, X& x, Y& y, const Options&... options) {
        message_request asked = both(comm, x, y, options...);
        const bool is_both = asked.out->receiver != null_rank && asked.in->source != null_rank;
        if (is_both && !detail::has_gaps(x) && !detail::has_gaps(y) && asked.out->data.overlaps(asked.in->place))
            throw error(errc::overlap, text({asked.what, ": rank ", comm.rank(),
                                             " receives into memory that it sends from: to replace it, pass it once"}));
        return asked;
    }
    template <class Comm, class X, class Y, class... Options>
    [[nodiscard]] static message_request both(Comm& comm, X& x, Y& y, const Options&... options) {
        message_request asked("exchange", options...);
        detail::add_sending(comm, detail::message_data_of<Comm::shares_memory>(x), asked);
        detail::add_receiving(comm, detail::message_data_of<Comm::shares_memory>(y), asked);
        asked.send_without_gaps(x);
        asked.receive_with_gaps(y);
        return asked;
    }
    template <class Comm, class X, class... Options>
    [[nodiscard]] static message_request in_place(Comm& comm, X& x, const Options&... options) {
        static_assert(are_bytes<std::remove_cvref_t<X>>,
                      "allfold: an exchange in place copies bytes: receive objects into separate memory");
        message_request asked = both(comm, x, x, options...);
        asked.rearranged().is_in_place = true;
        return asked;
    }
};

}  // namespace detail

/// Sends to one rank and receives from another, or the same one, at the same time, without deadlock in any pattern.
///
///     exchange(comm, x, to{right}, y, from{left})
///     exchange(comm, x, to{right}, from{left}, tag{7})     in place: x is copied, and then written
///     exchange(comm, x, to{right}, y, from{left}, tag{7}, receive_tag{any})
///
/// - Afterwards y, or x, holds the received message, as for `receive`, and what x held has been sent, as for `send`.
///   The tag applies to both, unless a `receive_tag` is given. A mode applies to the send.
/// - Errors: those of `send` and `receive`; `overlap` if x and y, unless they have gaps, share memory.
/// - Source: MPI-4.1, section 3.11, MPI_Sendrecv and MPI_Sendrecv_replace.
inline constexpr detail::exchange_verb exchange{};

}  // namespace allfold
