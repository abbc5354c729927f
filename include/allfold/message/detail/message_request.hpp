// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "allfold/error.hpp"
#include "allfold/message/detail/message_data.hpp"
#include "allfold/message/detail/post_office.hpp"
#include "allfold/message/options.hpp"
#include "allfold/transport/communicator.hpp"
#include "allfold/transport/detail/arrival_order.hpp"

/// @file
/// What a call asks for of messages, and what is wrong with it.

namespace allfold::detail {

/// What is asked for, checked.
struct message_request {
    const char* what;
    message_options said;
    std::optional<sending> out;
    std::optional<receiving> in;
    /// Where what is sent does not lie as it goes, or what comes not as it came: most messages have none of it.
    struct rearrangement {
        std::vector<part> out_runs, in_runs;  // of data with gaps
        bool is_in_place = false;             // of both: what is sent is copied first
        std::vector<std::byte> copy, without_gaps;
    };
    std::unique_ptr<rearrangement> arranged;

    template <class X>
    void send_without_gaps(X& x) {
        if (has_gaps(x)) rearranged().out_runs = runs_of(x);
    }
    template <class Y>
    void receive_with_gaps(Y& y) {
        if (has_gaps(y)) rearranged().in_runs = runs_of(y);
    }
    [[nodiscard]] rearrangement& rearranged() {
        if (!arranged) arranged = std::make_unique<rearrangement>();
        return *arranged;
    }

    /// Options are understood where they stay: to copy what has just been written in pieces takes a while.
    template <class... Options>
    explicit message_request(const char* called, const Options&... options) : what(called), said(options...) {}
};

// What is wrong with a message, before anything is sent.

[[noreturn, gnu::cold]] inline void reject_rank(const char* what, const char* named, int rank, int size) {
    throw error(errc::bad_rank, text({what, ": ", named, " rank ", rank, " is not in [0, ", size, ")"}));
}
[[noreturn, gnu::cold]] inline void reject_message(const char* what, int rank, const char* why) {
    throw error(errc::bad_argument, text({what, ": rank ", rank, " ", why}));
}

template <communicator Comm>
void require_data(const Comm& comm, const char* what, const message_data& data) {
    if (data.data == nullptr && data.elements != 0) reject_message(what, comm.rank(), "gives elements without memory");
}

/// Whether nothing is wrong with what is received; what is wrong is said by `add_receiving`.
template <communicator Comm>
[[nodiscard]] bool is_sound_receive(const Comm& comm, const message_data& place, const message_options& said) noexcept {
    return (said.source->is_special || (said.source->rank >= 0 && said.source->rank < comm.size())) &&
           (said.label.is_any || said.label.value >= 0) && (place.data != nullptr || place.elements == 0);
}

template <communicator Comm>
[[gnu::always_inline]] inline void add_sending(const Comm& comm, const message_data& data, message_request& to_be) {
    const message_options& said = to_be.said;
    const int there = said.destination->rank;
    if (!said.destination->is_none && (there < 0 || there >= comm.size()))
        reject_rank(to_be.what, "the destination,", there, comm.size());
    if (said.label.is_any) reject_message(to_be.what, comm.rank(), "sends with tag{any}, which is for receives");
    if (said.label.value < 0) reject_message(to_be.what, comm.rank(), "gives a negative tag");
    require_data(comm, to_be.what, data);
    if (said.how == mode::buffered && !data.type->copies_bytes())
        reject_message(to_be.what, comm.rank(), "sends objects in mode::buffered, which copies bytes");
    if (said.how == mode::ready) note_question_to_others();
    to_be.out.emplace(there, said.label.value, said.how, data);
}

template <communicator Comm>
[[gnu::always_inline]] inline void add_receiving(const Comm& comm, const message_data& place, message_request& to_be) {
    const message_options& said = to_be.said;
    const int there = said.source->rank;
    if (!said.source->is_special && (there < 0 || there >= comm.size()))
        reject_rank(to_be.what, "the source,", there, comm.size());
    if (!said.label.is_any && said.label.value < 0) reject_message(to_be.what, comm.rank(), "gives a negative tag");
    require_data(comm, to_be.what, place);
    if (there == any_rank) note_question_of_messages();
    to_be.in.emplace(there, said.label.value, place);
}

}  // namespace allfold::detail
