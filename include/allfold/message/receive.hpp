// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <memory>
#include <utility>

#include "allfold/engine/operation.hpp"
#include "allfold/message/detail/message_data.hpp"
#include "allfold/message/detail/message_task.hpp"
#include "allfold/message/detail/note_keeper.hpp"
#include "allfold/message/options.hpp"
#include "allfold/message/probe.hpp"
#include "allfold/transport/communicator.hpp"

/// @file
/// Receives a message from another rank.

namespace allfold {
namespace detail {

struct receive_verb {
    template <communicator Comm, class Y, class... Options>
    status operator()(Comm& comm, Y&& y, const Options&... options) const {
        if constexpr (fits<Comm, false, Y, Options...>()) {
            status found;
            if (try_short(comm, y, found, options...)) return found;
            return ask([&](const auto& make) { return run_message(comm, make); }, comm, y, options...);
        }
    }
    template <communicator Comm, class Y, class... Options>
    [[nodiscard]] operation start(Comm& comm, Y&& y, const Options&... options) const {
        if constexpr (fits<Comm, true, Y, Options...>()) {
            if constexpr (has_short_messages<Comm>) {
                const message_data place = detail::message_data_of<Comm::shares_memory>(y);
                const message_options parsed(options...);
                if (status found; !detail::has_gaps(y) && detail::is_plain_receive(comm, place, parsed)) {
                    post_office* const office = existing_office(comm);
                    if (office != nullptr && receive_next(comm, *office, place, parsed, false, found))
                        return operation(already_done{});
                    const int label = parsed.received_label().value;  // negative: any
                    if (office != nullptr && !parsed.limit && label >= 0)
                        if (receive_note* const note =
                                note_receive(comm, *office, place, parsed.source->rank, label, parsed.status_out))
                            return operation(std::unique_ptr<operation_note>(note));
                }
            }
            return ask([&](const auto& make) { return start_message(comm, make); }, comm, y, options...);
        }
    }
    template <communicator Comm, class Y, class... Options>
    [[nodiscard]] persistent prepare(Comm& comm, Y&& y, const Options&... options) const {
        if constexpr (fits<Comm, true, Y, Options...>())
            return ask([&](const auto& make) { return prepare_message(comm, make); }, comm, y, options...);
    }

    /// Receives a message that a probe has found.
    template <class Y>
    status operator()(allfold::message& m, Y&& y) const {
        static_assert(require_message_data<true, true, false, Y>());
        status found;
        m.receive(y, &found)();
        return found;
    }
    template <class Y>
    [[nodiscard]] operation start(allfold::message& m, Y&& y) const {
        static_assert(require_message_data<true, true, true, Y>());
        return m.receive(y, nullptr).start();
    }
    template <class Y>
    status operator()(allfold::message&& m, Y&& y) const {
        return (*this)(m, std::forward<Y>(y));
    }
    template <class Y>
    [[nodiscard]] operation start(allfold::message&& m, Y&& y) const {
        return start(m, std::forward<Y>(y));
    }

  private:
    template <class Comm, bool Returns, class Y, class... Options>
    [[nodiscard]] static consteval bool fits() {
        return require_message_options<false, true, Options...>() &&
               require_message_data<Comm::shares_memory, true, Returns, Y>();
    }
    template <class Comm, class Y, class... Options>
    [[nodiscard, gnu::always_inline]] static bool try_short([[maybe_unused]] Comm& comm, [[maybe_unused]] Y& y,
                                                            [[maybe_unused]] status& found, const Options&... options) {
        if constexpr (has_short_messages<Comm>)
            return !detail::has_gaps(y) && try_short_receive(comm, detail::message_data_of<Comm::shares_memory>(y),
                                                             message_options(options...), found);
        return false;
    }
    /// Calls use(make), where make() returns the request.
    template <class Use, class Comm, class Y, class... Options>
    static auto ask(Use use, Comm& comm, Y& y, const Options&... options) {
        if constexpr (may_have_gaps<std::remove_const_t<Y>>)
            if (detail::has_gaps(y)) return use([&] { return with_gaps(comm, y, options...); });
        return use([&] { return request(comm, y, options...); });
    }
    template <class Comm, class Y, class... Options>
    [[nodiscard, gnu::always_inline]] static receive_request request(Comm& comm, Y& y, const Options&... options) {
        const message_options parsed(options...);
        const message_data place = detail::message_data_of<Comm::shares_memory>(y);
        detail::require_receive(comm, "receive", place, parsed);
        return {"receive", parsed, place};
    }
    template <class Comm, class Y, class... Options>
    [[nodiscard]] static message_request with_gaps(Comm& comm, Y& y, const Options&... options) {
        message_request asked("receive", options...);
        add_receiving(comm, detail::message_data_of<Comm::shares_memory>(y), asked);
        asked.receive_with_gaps(y);
        return asked;
    }
};

}  // namespace detail

/// Receives the first matching message.
///
///     status s = receive(comm, y, from{3})
///     status s = receive(comm, y, from{any}, tag{any})
///     status s = receive(m, y)                  of a message that a probe has found, or receive(probe(...), y)
///     operation a = receive.start(comm, y, from{3}, status_in{s})
///
/// - Afterwards y holds the message, and the status says which rank sent it, under which tag, and how many elements it
///   has. The elements of y beyond those are untouched.
/// - Order: of all matching receives, a message goes to the one that was called, or started, first.
/// - Errors: `truncated` for a message with more elements than y, `mismatch` for elements of another type: the message
///   is lost, y is untouched, and the communicator remains usable. `bad_rank` and `bad_argument` as for `send`.
///   `peer_failed` if the sender returns, or with `from{any}` all others do, and no message matches.
/// - Source: MPI-4.1, sections 3.2 to 3.8.
inline constexpr detail::receive_verb receive{};

}  // namespace allfold
