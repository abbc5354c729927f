// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "allfold/analysis/detail/explored_call.hpp"
#include "allfold/analysis/detail/explored_mail.hpp"
#include "allfold/analysis/detail/explored_memory.hpp"
#include "allfold/analysis/detail/fibre.hpp"
#include "allfold/message/detail/message_head.hpp"
#include "allfold/transport/communicator.hpp"
#include "allfold/transport/detail/cause.hpp"
#include "allfold/transport/rank_list.hpp"

/// @file
/// What one rank does in an execution, and what is known of it.

namespace allfold::detail {

class explored_world;

/// Why a rank is resumed.
enum class resume_reason : std::uint8_t {
    goes_on,
    looks,    ///< nothing can happen any more: it may find out whether it waits in vain
    released  ///< the execution is over: its further calls throw
};

/// A communicator as its world sees it. The world may end first, if the program keeps the communicator beyond its
/// execution.
class explored_endpoint {
  public:
    /// Its rank has returned, and nothing may use the world through it any more.
    virtual void cut() noexcept = 0;
    /// Notes the messages that have arrived, but that the program has not received.
    virtual void note_unreceived() = 0;
    [[nodiscard]] virtual int size() const noexcept = 0;
    [[nodiscard]] virtual std::size_t in_flight() const noexcept = 0;
    bool is_cut = false;
    struct {
        source_place at;        // if the program says so
        std::size_t calls = 0;  // that its rank had made before
    } made;

  protected:
    ~explored_endpoint() = default;
};

/// A message that was still held when a communicator ended.
struct unreceived_message {
    std::uint64_t group;
    int from;  // in the world
    message_head head;
};

/// Where a call is that has not begun, and on which team.
struct noted_place {
    source_place at;
    const rank_list* team = nullptr;
};

struct explored_rank {
    /// Where a rank is; at `calls` once it has made more calls than it may.
    enum class place : std::uint8_t { running, waits, tests, chooses, calls, returned };
    /// Whether a rank that makes progress on its operations in flight looks for messages: not at all, at its next
    /// opportunity, or it has already had that.
    enum class looking : std::uint8_t { no, stops, is_over };

    explored_rank(explored_world& of, int number) noexcept : world(&of), rank(number) {}

    std::unique_ptr<fibre> own;
    explored_world* world;
    int rank;
    place at = place::running;
    resume_reason turn = resume_reason::goes_on;
    std::vector<explored_channel> asked;  // channels, in vain, since it last got a message or tested
    waiting where;
    std::uint64_t waited = 0;          // how many of its waits have ended
    int waits = 0;                     // their current depth of nesting
    int failed_tests = 0;              // since the latest message
    int last_tests = 0;                // tests as a last resort since its latest other step
    int vain_tests = 0;                // since anything else was noted
    bool has_received = false;         // a message, in the current test
    bool has_received_unseen = false;  // likewise, one that the program does not see
    bool looks_again = false;
    bool once_more = false, sees_ends = true;  // of a look: beside a wait; at ends too
    bool is_called_back = false;               // when some operation ends
    looking looks = looking::no;
    bool tests_lane = false;                 // the program itself, not an operation in flight
    std::optional<explored_channel> latest;  // the latest end found in the current test
    std::vector<explored_channel> ends;      // of operations in flight
    std::optional<cause> failure;
    std::size_t failed_in = 0;  // the call; 0 if unknown
    std::string thrown;         // by the call that has thrown most recently
    std::size_t thrown_by = 0;
    noted_place thrown_at, failed_at;           // likewise, if no call is known
    std::vector<const void*> operations;        // that it asks about
    std::vector<explored_endpoint*> endpoints;  // of its communicators
    std::vector<std::string> kept;              // texts about those left when it has returned
    int refusals = 0;                           // calls that have thrown because the execution is over
    std::size_t left_in_flight = 0;             // operations when a communicator ended
    bool has_released = false;                  // something in flight
    explored_channel other;                     // the alternative in a step without a message
    bool has_chosen_other = false;
    std::vector<explored_channel> unseen_answers;  // to sends that nobody tests
    std::vector<explored_channel> open_answers;    // to standard sends that wait
    std::vector<explored_channel> withheld_sends;  // sends without room: to which rank, and their numbers
    bool is_timed = false;                         // what it waits for has a deadline
    bool is_deadline_passed = false;               // that deadline passes now
    bool is_peer_gone = false;                     // it waits for a rank that has returned, and is told so now
    std::string told;                              // which rank has failed, if that concerns the whole program
    std::uint64_t observable_events = 0;           // events that let someone tell a deadline before from one after
    std::vector<explored_channel> listens;         // the channels for news, on its communicators
    std::vector<explored_call> calls;
    explored_memory memory;  // of its operations in flight
    std::vector<unreceived_message> unreceived;
    noted_place next;  // where its next call is, if the program says so

    /// Forgets the last execution; what has been allocated is used again.
    void begin() {
        at = place::running;
        turn = resume_reason::goes_on;
        asked.clear();
        where = {};
        waits = failed_tests = last_tests = vain_tests = refusals = 0;
        has_received = has_received_unseen = tests_lane = looks_again = false;
        looks = looking::no;
        once_more = is_called_back = false;
        sees_ends = true;
        is_timed = is_deadline_passed = is_peer_gone = false;
        told.clear();
        observable_events = 0;
        listens.clear();
        unseen_answers.clear();
        open_answers.clear();
        withheld_sends.clear();
        latest.reset();
        ends.clear();
        failure.reset();
        failed_in = thrown_by = 0;
        thrown_at = failed_at = {};
        thrown.clear();
        kept.clear();
        left_in_flight = 0;
        has_released = false;
        calls.clear();
        unreceived.clear();
        memory.clear();
        operations.clear();
        next = {};
    }
    [[nodiscard]] bool is_over() const noexcept { return turn == resume_reason::released; }
    /// Whether many calls have thrown already because the execution is over.
    [[nodiscard]] bool has_refused_enough() {
        constexpr int max_refusals = 100;
        if (refusals < max_refusals) ++refusals;
        if (refusals < max_refusals) return false;
        asked.clear();
        return true;
    }
    void note_failure(cause&& why) {
        if (is_over() || (failure && failure->is_known)) return;
        failed_in = why.is_known && why.why == thrown ? thrown_by : 0;
        failed_at = !is_error(why.thrown) ? noted_place() : next.at.file != nullptr ? next : thrown_at;
        failure = std::move(why);
    }
    /// Notes the call in which this exception originates; others may throw it again.
    void note_thrown(std::size_t call, cause&& why) {
        if (!why.is_known || why.why == thrown) return;
        thrown = std::move(why.why);
        thrown_by = call;
    }
    void ask(const explored_channel& from) {
        if (std::ranges::find(asked, from) == asked.end()) asked.push_back(from);
    }
    /// The call that has sent this message; 0 if unknown.
    [[nodiscard]] std::size_t find_send(std::uint64_t group, std::uint32_t number) const {
        const auto found = std::ranges::find_if(calls, [&](const explored_call& each) {
            return each.is_message && each.group == group && each.number == number;
        });
        return found == calls.end() ? 0 : static_cast<std::size_t>(found - calls.begin()) + 1;
    }
    /// The number of the latest call that has opened this lane; 0 if there is none.
    [[nodiscard]] std::size_t find_call(std::uint64_t group, lane on) const {
        for (std::size_t i = calls.size(); i-- > 0;)
            if (calls[i].group == group && on - calls[i].first < calls[i].lanes) return i + 1;
        return 0;
    }
    /// The call that it waits in; null if unknown.
    [[nodiscard]] const explored_call* call() const { return where.call == 0 ? nullptr : &calls[where.call - 1]; }
};

}  // namespace allfold::detail
