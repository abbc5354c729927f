// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "allfold/engine/binding.hpp"
#include "allfold/error.hpp"
#include "allfold/message/detail/message_data.hpp"
#include "allfold/message/detail/post_office.hpp"
#include "allfold/message/detail/receive_note.hpp"
#include "allfold/message/detail/runs.hpp"
#include "allfold/message/options.hpp"
#include "allfold/transport/communicator.hpp"
#include "allfold/transport/detail/arrival_order.hpp"

/// @file
/// The request that a call makes for messages, and the checks of its arguments.

namespace allfold::detail {

struct place_with_gaps {
    std::vector<part> runs;
    std::optional<message_type> rows;  // of records
};
/// Nothing for a contiguous place.
template <class Y>
[[nodiscard]] place_with_gaps gaps_of(Y& y) {
    if (!detail::has_gaps(y)) return {};
    detail::require_distinct_elements(y, "the destination", [](const std::string& why) {
        throw error(errc::bad_argument, text({"message: ", why}));
    });
    return {detail::runs_of(y), detail::row_type_of(y)};
}
/// What a message needs if it is not sent directly from, or received directly into, the caller's memory. Most messages
/// need none of this.
struct rearrangement {
    std::vector<part> out_runs, in_runs;  // of non-contiguous data
    bool is_in_place = false;             // send and receive use the same memory: what is sent is copied first
    std::vector<std::byte> copy, without_gaps;
    std::optional<message_type> sent_rows, received_rows;  // of records
};

/// A checked request.
struct message_request {
    const char* what;
    message_options parsed;
    std::optional<sending> out;
    std::optional<receiving> in;
    std::unique_ptr<rearrangement> arranged;
    std::unique_ptr<held_message> given;  // the message found by a probe, received at the first start

    template <class X>
    void send_without_gaps(X& x) {
        if (!detail::has_gaps(x)) return;
        rearranged().out_runs = detail::runs_of(x);
        arranged->sent_rows = detail::row_type_of(x);
        if (arranged->sent_rows) use_type(*arranged->sent_rows, out->data);
    }
    template <class Y>
    void receive_with_gaps(Y& y) {
        if (detail::has_gaps(y)) receive_into(detail::gaps_of(y));
    }
    void receive_into(place_with_gaps&& there) {
        rearranged().in_runs = std::move(there.runs);
        arranged->received_rows = there.rows;
        if (arranged->received_rows) use_type(*arranged->received_rows, in->place);
    }
    template <class Data>
    void use_type(const message_type& rows, Data& of) const {
        if (!rows.has_valid_length())
            throw error(errc::bad_argument,
                        text({what, ": rows of ", rows.element_bytes, " bytes: they must be shorter than 4 GiB"}));
        of.type = &rows;
    }
    [[nodiscard]] rearrangement& rearranged() {
        if (!arranged) arranged = std::make_unique<rearrangement>();
        return *arranged;
    }

    [[nodiscard]] sending* sent() noexcept { return out ? &*out : nullptr; }
    [[nodiscard]] receiving* received() noexcept { return in ? &*in : nullptr; }
    [[nodiscard]] const sending* sent() const noexcept { return out ? &*out : nullptr; }
    [[nodiscard]] const receiving* received() const noexcept { return in ? &*in : nullptr; }
    [[nodiscard]] const std::optional<deadline>& limit() const noexcept { return parsed.limit; }
    [[nodiscard]] status*& status_out() noexcept { return parsed.status_out; }

    /// Parses the options in place: copying what has just been written piecewise takes a while.
    template <class... Options>
    explicit message_request(const char* called, const Options&... options) : what(called), parsed(options...) {}
};

/// The request of a receive alone, into contiguous memory. It is less than half as large, which pays because many of
/// them are in flight at once.
class receive_request {
  public:
    const char* what;

    receive_request(const char* called, const message_options& parsed, const message_data& place)
        : what(called),
          limit_(parsed.limit),
          status_out_(parsed.status_out),
          in_(parsed.source->rank, parsed.received_label().value, place) {}
    explicit receive_request(const receive_note& note)
        : what("receive"), status_out_(note.status_out()), in_(note.source, note.tag, note.place) {}

    [[nodiscard]] static constexpr sending* sent() noexcept { return nullptr; }
    [[nodiscard]] receiving* received() noexcept { return &in_; }
    [[nodiscard]] const receiving* received() const noexcept { return &in_; }
    [[nodiscard]] const std::optional<deadline>& limit() const noexcept { return limit_; }
    [[nodiscard]] status*& status_out() noexcept { return status_out_; }

  private:
    std::optional<deadline> limit_;
    status* status_out_;
    receiving in_;
};

// Checks of the arguments, before anything is sent.

[[noreturn, gnu::cold]] inline void reject_rank(const char* what, const char* named, int rank, int size) {
    throw error(errc::bad_rank, text({what, ": ", named, " rank ", rank, " is not in [0, ", size, ")"}));
}
[[noreturn, gnu::cold]] inline void reject_message(const char* what, int rank, const char* why) {
    throw error(errc::bad_argument, text({what, ": rank ", rank, " ", why}));
}

template <communicator Comm>
void require_data(const Comm& comm, const char* what, const message_data& data) {
    if (data.data == nullptr && data.elements != 0)
        reject_message(what, comm.rank(), "passes a null pointer with a non-zero length");
    if (!data.type->has_valid_length()) reject_message(what, comm.rank(), "passes elements of 4 GiB or more");
}

/// Whether the arguments of a receive are valid; if not, `add_receiving` reports why.
template <communicator Comm>
[[nodiscard]] bool is_valid_receive(const Comm& comm, const message_data& place,
                                    const message_options& parsed) noexcept {
    return (parsed.source->is_special || (parsed.source->rank >= 0 && parsed.source->rank < comm.size())) &&
           (parsed.received_label().is_any || parsed.received_label().value >= 0) &&
           (place.data != nullptr || place.elements == 0) && place.type->has_valid_length();
}

template <communicator Comm>
[[gnu::always_inline]] inline void add_sending(const Comm& comm, const message_data& data, message_request& request) {
    const message_options& parsed = request.parsed;
    const int there = parsed.destination->rank;
    if (!parsed.destination->is_none && (there < 0 || there >= comm.size()))
        reject_rank(request.what, "destination", there, comm.size());
    if (parsed.label.is_any)
        reject_message(request.what, comm.rank(), "sends with tag{any}, which is for receives only");
    if (parsed.label.value < 0) reject_message(request.what, comm.rank(), "passes a negative tag");
    require_data(comm, request.what, data);
    if (parsed.how == mode::buffered && !data.type->copies_bytes())
        reject_message(request.what, comm.rank(), "sends objects in mode::buffered, which copies only bytes");
    if (parsed.how == mode::ready) note_question_to_others();
    request.out.emplace(there, parsed.label.value, parsed.how, data);
}

template <communicator Comm>
[[gnu::always_inline]] inline void require_receive(const Comm& comm, const char* what, const message_data& place,
                                                   const message_options& parsed) {
    const int there = parsed.source->rank;
    if (!parsed.source->is_special && (there < 0 || there >= comm.size()))
        reject_rank(what, "source", there, comm.size());
    if (!parsed.received_label().is_any && parsed.received_label().value < 0)
        reject_message(what, comm.rank(), "passes a negative tag");
    require_data(comm, what, place);
    if (there == any_rank) note_question_of_messages();
}
template <communicator Comm>
[[gnu::always_inline]] inline void add_receiving(const Comm& comm, const message_data& place,
                                                 message_request& request) {
    const message_options& parsed = request.parsed;
    require_receive(comm, request.what, place, parsed);
    request.in.emplace(parsed.source->rank, parsed.received_label().value, place);
}

}  // namespace allfold::detail
