// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "allfold/analysis/detail/explored_call.hpp"
#include "allfold/analysis/detail/explored_mail.hpp"
#include "allfold/analysis/detail/explored_memory.hpp"
#include "allfold/analysis/detail/explored_world.hpp"
#include "allfold/analysis/detail/search_tree.hpp"
#include "allfold/analysis/exploration.hpp"
#include "allfold/engine/mismatch.hpp"
#include "allfold/error.hpp"
#include "allfold/message/detail/message_head.hpp"
#include "allfold/message/detail/post_office.hpp"
#include "allfold/transport/detail/cause.hpp"
#include "allfold/transport/detail/envelope.hpp"
#include "allfold/transport/rank_list.hpp"

/// @file
/// The end of an execution, in words: where each rank is, and which messages are left.

namespace allfold::detail {

/// ": send to rank 2 (its 3rd call, program.cpp:34)", if that is known.
[[nodiscard]] inline std::string text_of_call(explored_world& world, int rank, std::size_t call,
                                              const char* before = ": ") {
    return call == 0 ? std::string() : before + text_of(world.of(rank).calls[call - 1], call);
}
/// The operations that a rank asks about.
[[nodiscard]] inline std::string text_of_operations(explored_world& world, int rank) {
    std::string words;
    for (const void* const operation : world.of(rank).operations)
        words += text_of_call(world, rank, world.of(rank).memory.call_of(operation), words.empty() ? ": " : ", ");
    return words;
}
/// What a rank tests again and again.
[[nodiscard]] inline std::string text_of_tested(explored_world& world, int rank) {
    const auto& each = world.of(rank);
    if (!each.operations.empty()) return text_of_operations(world, rank);
    return each.next.at.file == nullptr ? "" : " (" + text_of(each.next.at) + ")";
}
/// Whether a rank waits for whichever of several operations is done first.
[[nodiscard]] inline bool waits_for_any(explored_world& world, int rank) {
    const auto& each = world.of(rank);
    return each.operations.size() > 1 && std::ranges::any_of(each.operations, [&](const void* operation) {
               return each.where.call != 0 && each.memory.call_of(operation) == each.where.call;
           });
}
/// Whether a rank waits in a call on another team than that of `call`, though with the same members: ranks have not
/// formed their teams in the same order, or use them in different orders.
[[nodiscard]] inline bool is_in_another_team(explored_world& world, const explored_call* call, int rank) {
    if (call == nullptr || call->team == nullptr || world.of(rank).at != explored_rank::place::waits) return false;
    const explored_call* const other = world.of(rank).call();
    return other != nullptr && other->team != nullptr && other->group != call->group && *other->team == *call->team;
}
/// What a rank does at the end of an execution.
[[nodiscard]] inline std::string text_of_state(explored_world& world, int rank) {
    const auto& each = world.of(rank);
    if (each.at == explored_rank::place::returned) return text({"rank ", rank, " has returned"});
    if (each.at == explored_rank::place::tests)
        return text({"rank ", rank, " has tested ", each.failed_tests, " times since its latest message"}) +
               text_of_tested(world, rank);
    if (each.at == explored_rank::place::calls)
        return text(
            {"rank ", rank, " calls again and again, most recently ", text_of(each.calls.back(), each.calls.size())});
    if (waits_for_any(world, rank))
        return text({"rank ", rank, " waits for one of ", each.operations.size(), " operations"}) +
               text_of_operations(world, rank);
    std::string words = text({"rank ", rank, " waits in ", each.where.what});
    if (each.where.rounds > 1) words += text({", round ", each.where.round + 1, " of ", each.where.rounds});
    const explored_call* const call = world.of(rank).call();
    if (call != nullptr && call->from == -2) {
        words += ", for a message from any rank";
    } else if (each.where.peer >= 0) {
        words += text({", for rank ", each.where.peer});
        if (world.of(each.where.peer).at == explored_rank::place::returned) words += ", which has returned";
        if (is_in_another_team(world, call, each.where.peer))
            words += ", which waits in another team of the same ranks";
    } else if (!each.asked.empty()) {
        words += ", for a message from rank ";
        for (std::size_t i = 0; i < each.asked.size(); ++i) words += text({i == 0 ? "" : " or ", each.asked[i].from});
    }
    if (call != nullptr) words += ": " + text_of(*call, each.where.call);
    return words;
}
[[nodiscard]] inline std::string text_of_ranks(explored_world& world) {
    std::string all;
    for (int r = 0; r < world.size(); ++r) all += "\n    " + text_of_state(world, r);
    return all;
}
/// Why a rank fails. A call on a team numbers ranks as the team does; everything else here is in the program's ranks.
[[nodiscard]] inline std::string text_of_cause(explored_world& world, int rank) {
    const auto& each = world.of(rank);
    const rank_list* const team = each.failed_in != 0 ? each.calls[each.failed_in - 1].team : each.failed_at.team;
    if (team == nullptr || !is_renumbered(*team) || !is_error(each.failure->thrown)) return each.failure->why;
    return each.failure->why + " (ranks of the team)";
}
[[nodiscard]] inline std::string text_of_end(explored_world& world, int rank) {
    const auto& each = world.of(rank);
    if (each.failure) return "fails: " + text_of_cause(world, rank);
    const std::string words = text_of_state(world, rank);
    return words.substr(words.find(' ', words.find(' ') + 1) + 1);
}

/// Where a call is that was refused.
[[nodiscard]] inline std::string text_of_refused(const noted_place& call) {
    const std::string at = " (" + text_of(call.at) + ")";
    return call.team == nullptr ? at : ", in " + text_of_team(*call.team) + at;
}
/// Why a rank fails, and where.
[[nodiscard]] inline std::string text_of_failure(explored_world& world, int rank) {
    const auto& each = world.of(rank);
    const std::string words = text({"rank ", rank, ": ", text_of_cause(world, rank)});
    if (each.failed_in == 0 && each.failed_at.at.file != nullptr) return words + text_of_refused(each.failed_at);
    if (each.failed_in != 0 || each.calls.empty()) return words + text_of_call(world, rank, each.failed_in);
    return words + "; its latest call" + text_of_call(world, rank, each.calls.size());
}

/// What has happened to memory of an operation in flight.
[[nodiscard]] inline std::string text_of_change(explored_world& world, int rank, const explored_memory::change& what) {
    if (what.other == 0)
        return text({"rank ", rank, " changes it before the operation is done"}) + text_of_call(world, rank, what.call);
    return text({"two operations of rank ", rank, " use it at the same time"}) + text_of_call(world, rank, what.call) +
           text_of_call(world, rank, what.other, " and ");
}

/// A message of the program, on this communicator, that is never received.
[[nodiscard]] inline std::string text_of_lost(explored_world& world, std::uint64_t group, const message_head& head,
                                              int from, int to) {
    const std::size_t amount = head.is_encoded() ? static_cast<std::size_t>(head.elements) : head.bytes();
    return text({"a message of ", amount, head.is_encoded() ? " element" : " byte", amount == 1 ? "" : "s",
                 " with tag ", head.tag, " from rank ", from, " to rank ", to, " is never received"}) +
           text_of_call(world, from, world.of(from).find_send(group, head.number));
}

[[nodiscard]] inline message_head head_of(const explored_message& message) {
    message_head head;
    std::memcpy(&head, message.memory.data(), sizeof head);
    return head;
}
/// Whether it passes only between post offices: the program does not see it.
[[nodiscard]] inline bool is_an_answer(const explored_channel& from, const explored_message& message) {
    if (from.on != envelopes_lane) return from.is_answer();
    const auto what = head_of(message).what;
    return what != message_head::kind::eager && what != message_head::kind::request;
}
[[nodiscard]] inline bool waits_in(explored_world& world, int rank, std::size_t call) {
    return call != 0 && world.of(rank).at == explored_rank::place::waits && world.of(rank).where.call == call;
}
/// Whether the rank that has sent this message waits in that same call.
[[nodiscard]] inline bool is_of_waiting_send(explored_world& world, int from, std::uint64_t group,
                                             const message_head& head) {
    return waits_in(world, from, world.of(from).find_send(group, head.number));
}
/// Whether a rank waits in the call that this message is part of.
[[nodiscard]] inline bool is_of_waiting_call(explored_world& world, int to, const explored_channel& from,
                                             const explored_message& message) {
    if (from.on == envelopes_lane) return is_of_waiting_send(world, from.from, from.group, head_of(message));
    return waits_in(world, from.from, world.of(from.from).find_call(from.group, from.on)) ||
           waits_in(world, to, world.of(to).find_call(from.group, from.on));
}
[[nodiscard]] inline std::string text_of_leftover(explored_world& world, int to, const explored_channel& from,
                                                  const explored_message& first) {
    if (from.on == envelopes_lane) return text_of_lost(world, from.group, head_of(first), from.from, to);
    return text({"a message of ", first.bytes, first.bytes == 1 ? " byte from rank " : " bytes from rank ", from.from,
                 " to rank ", to, " is never received"}) +
           text_of_call(world, from.from, world.of(from.from).find_call(from.group, from.on));
}

/// The first call of two ranks on one communicator that differs, as they have announced it; empty if there is none.
[[nodiscard]] inline std::string text_of_disagreement(explored_world& world, int rank, int peer) {
    const auto& calls = world.of(rank).calls;
    for (std::size_t i = 0; i < calls.size(); ++i) {
        if (calls[i].lanes == 0) continue;
        const auto* const mine = world.lanes().find(calls[i].group, rank, calls[i].first);
        const auto* const theirs = world.lanes().find(calls[i].group, peer, calls[i].first);
        if (mine == nullptr || theirs == nullptr || mine->hash == theirs->hash) continue;
        return difference_text(mine->what, theirs->what, rank, peer) + text({"\n    rank ", rank}) +
               text_of_call(world, rank, i + 1) + text({"\n    rank ", peer}) +
               text_of_call(world, peer, world.of(peer).find_call(calls[i].group, calls[i].first));
    }
    return {};
}
[[nodiscard]] inline std::string text_of_disagreement(explored_world& world) {
    for (int rank = 0; rank < world.size(); ++rank)
        for (int peer = rank + 1; peer < world.size(); ++peer)
            if (std::string words = text_of_disagreement(world, rank, peer); !words.empty()) return words;
    return {};
}

/// Where two executions diverge: the first step of a rank that differs, after all that it has done alike in both.
[[nodiscard]] inline std::string text_of_divergence(const std::vector<happening>& first,
                                                    const std::vector<happening>& second, int ranks) {
    const auto is_step = [](const happening& each) { return each.what != happening::kind::ends; };
    const auto is_alike = [](const happening& a, const happening& b) {
        return a.what == b.what && a.peer == b.peer && a.text == b.text;
    };
    std::vector<std::size_t> next(static_cast<std::size_t>(ranks));
    std::vector<const happening*> call(static_cast<std::size_t>(ranks));
    for (const happening& each : second) {
        if (!is_step(each)) continue;
        const auto rank = static_cast<std::size_t>(each.rank);
        std::size_t& at = next[rank];
        while (at < first.size() && (first[at].rank != each.rank || !is_step(first[at]))) ++at;
        if (at == first.size() || !is_alike(first[at], each)) {
            const std::string words = "\n    both executions agree up to ";
            if (call[rank] == nullptr) return words + text({"the first call of rank ", each.rank});
            return words + text({"this call of rank ", each.rank, ": ", call[rank]->text});
        }
        if (each.what == happening::kind::calls) call[rank] = &each;
        ++at;
    }
    return {};
}

}  // namespace allfold::detail
