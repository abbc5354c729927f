// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "allfold/error.hpp"

/// @file
/// What exploring a program has found.

namespace allfold {

/// What may be wrong with an execution.
enum class verdict : std::uint8_t {
    deadlock,              ///< ranks wait, and nothing is in flight
    deadlock_unless_held,  ///< the same, but only if sends that may be held for their receivers are not
    no_progress,           ///< ranks test again and again, and nothing arrives any more; or an execution goes on and on
    failed,                ///< an exception leaves a rank, or a collective on it; or it aborts
    timed_out,             ///< the same, because a deadline has passed
    disagreement,          ///< ranks do not call the same collectives, or not in the same order
    never_completed,       ///< operations are in flight when their communicator ends
    never_received,        ///< all ranks have returned, and messages are left
    never_freed,           ///< a rank has returned, but keeps a communicator
    changed_in_flight,     ///< the program writes memory that an operation in flight uses, or two of them share it
    different_values,      ///< a rank returns a different value than in the first execution
    not_deterministic      ///< the program depends on something other than messages
};

/// A verdict in words, as `explain` prints it.
[[nodiscard]] constexpr const char* name_of(verdict what) noexcept {
    switch (what) {
        case verdict::deadlock: return "deadlock";
        case verdict::deadlock_unless_held: return "deadlock unless sends are held";
        case verdict::no_progress: return "no progress";
        case verdict::failed: return "a rank fails";
        case verdict::timed_out: return "a deadline passes";
        case verdict::disagreement: return "ranks disagree";
        case verdict::never_completed: return "operation never completed";
        case verdict::never_received: return "message never received";
        case verdict::never_freed: return "communicator never freed";
        case verdict::changed_in_flight: return "memory of an operation in flight was changed";
        case verdict::different_values: return "different values";
        case verdict::not_deterministic: return "not deterministic";
    }
    return "";
}

/// What a rank does, in one execution of a program.
struct happening {
    /// Messages here are those of the transport: a call sends none, one, or many of them.
    enum class kind : std::uint8_t { calls, posts, gets, goes_on, ends };
    kind what = kind::calls;
    int rank = 0;
    int peer = -1;            ///< of a message
    std::size_t message = 0;  ///< its number, from 1
    std::string text;         ///< which call, what the message is, or what becomes of the rank
};

/// A fault, and how to reproduce it.
struct finding {
    verdict what;
    std::string text;      ///< ranks, and what each of them waits for
    std::string schedule;  ///< what `replay` takes
    /// What leads to the fault; if two executions differ, in the second one.
    std::vector<happening> history = {};
    /// How many faults it stands for that differ only in the numbers of calls, or in the values: counted up to
    /// `most_alike`.
    std::size_t alike = 1;
    static constexpr std::size_t most_alike = 1000;
};

/// The progress of an exploration.
struct exploring {
    std::uint64_t executions = 0;  ///< that were completed
    std::uint64_t redundant = 0;   ///< that were abandoned
    std::size_t steps = 0;         ///< of the latest one
    std::size_t open = 0;          ///< at how many of them something is still to be tried
    double seconds = 0;
    [[nodiscard]] double executions_per_second() const noexcept {
        return seconds > 0 ? static_cast<double>(executions + redundant) / seconds : 0;
    }
};

/// How sends are treated that may or may not be held for their receivers: standard ones, which wait if they are not,
/// and buffered ones, for which `detach_buffer` then waits.
enum class standard_sends : std::uint8_t {
    held,           ///< no send waits
    as_needed,      ///< no send waits; then, in the same order of messages, each waits unless it must be held; those
                    ///< that their rank may test wait or not, each by itself
    each_by_itself  ///< each one waits or not: all combinations
};

/// When the deadlines of calls pass. Explored programs have no other notion of time.
enum class deadlines : std::uint8_t {
    may_pass,  ///< never, or once for each call: whenever someone can tell, or when nothing else can happen
    in_vain    ///< only when nothing else can happen
};

/// What the failure of a rank means to the others: that an exception leaves one of its calls, or the rank itself.
enum class failures : std::uint8_t {
    stop_rank,  ///< nothing: it is a fault, whether or not the program catches the exception
    are_told    ///< they throw `peer_failed` too, in a later call: it is a fault only if an exception leaves a rank
};

/// How far to explore.
struct explore_options {
    std::uint64_t executions = 1'000'000;  ///< at most, in this call; the last one with its repetition (`sends`)
    double seconds = 60;                   ///< at most; checked after each execution, and now and then in a long one
    /// At most, in one execution, and calls of one rank in it; one that goes on then makes no progress, and ends the
    /// exploration.
    std::uint64_t steps = 100'000;
    std::size_t findings = 16;  ///< at most this many are kept, those with the shortest schedules
    /// A rank that takes longer for one step waits for something outside: then the process reports which rank it is,
    /// and its latest call, and is ended (std::abort), because nobody can make that rank return. 0 or infinity: never;
    /// `replay` never does so, for the sake of debuggers.
    double step_seconds = 60;
    /// How many times in a row a test may find nothing while a message may still arrive. A rank that goes on testing is
    /// then treated like one that waits, until nothing else can happen. Then ranks that test do so in rounds, each
    /// up to this many times, or 4 if that is more.
    int tests = 1;
    int most_tests = 1000;                ///< then: this many are no progress
    std::size_t stack_bytes = 256 << 10;  ///< of each rank, between guard pages; at least 64 KiB
    bool reduced = true;                  ///< false: also executions that differ only in the order of independent steps
    /// Also orders of arrival that no call of the program can tell apart: to check allfold itself.
    bool every_order = false;
    /// `as_needed` finds each deadlock that `each_by_itself` does, unless a deadline may pass or ranks are told of a
    /// failure: then all sends that their ranks cannot test are held, or none. `each_by_itself` takes up to 2^n times
    /// as many executions for n sends, `as_needed` for n sends of ranks that test.
    standard_sends sends = standard_sends::as_needed;
    allfold::deadlines deadlines = allfold::deadlines::may_pass;
    allfold::failures failures = allfold::failures::stop_rank;
    /// The `frontier` of an exploration that ended at a limit: it is resumed there.
    std::string frontier = {};
    /// Called after each execution, and now and then in a long one; returning false stops.
    std::function<bool(const exploring&)> watch = {};
};

namespace detail {
class explorer;
}

/// What `explore` returns.
class exploration {
  public:
    /// Whether no fault was found: in any execution that the options allow if it is `complete`, otherwise as far as it
    /// got.
    [[nodiscard]] bool ok() const noexcept { return findings_.empty() && left_out_ == 0; }
    /// Whether all executions that the options allow were explored, but for those that differ only in which standard
    /// sends wait (`standard_sends`).
    [[nodiscard]] bool complete() const noexcept { return complete_; }
    /// The number of executions that were completed, no two of them the same; without the first few, which only showed
    /// which ranks ask about order.
    [[nodiscard]] std::uint64_t executions() const noexcept { return executions_; }
    /// The number of those that were abandoned because everything that could follow had been seen.
    [[nodiscard]] std::uint64_t redundant() const noexcept { return redundant_; }
    [[nodiscard]] double seconds() const noexcept { return seconds_; }
    /// If it ended at a limit, everything that another exploration needs to resume, with the same program and options:
    /// a text of a few lines, which can be kept in a file. Otherwise empty. It includes the schedules of the findings,
    /// which the other exploration repeats and reports again.
    [[nodiscard]] const std::string& frontier() const noexcept { return frontier_; }
    [[nodiscard]] int ranks() const noexcept { return ranks_; }
    /// The faults, each once, those with the shortest schedules first.
    [[nodiscard]] const std::vector<finding>& findings() const noexcept { return findings_; }
    /// How many faults were found beyond those that are kept; counted up to `finding::most_alike`.
    [[nodiscard]] std::size_t left_out() const noexcept { return left_out_; }
    /// The fault with the shortest schedule. Throws `bad_argument` if there is none, or none is kept.
    [[nodiscard]] const finding& first() const {
        if (findings_.empty())
            throw error(errc::bad_argument, ok() ? "explore: no fault was found" : "explore: no fault is kept");
        return findings_.front();
    }

  private:
    friend class detail::explorer;
    int ranks_ = 0;
    bool complete_ = false;
    std::uint64_t executions_ = 0, redundant_ = 0;
    double seconds_ = 0;
    std::string frontier_;
    std::vector<finding> findings_;
    std::size_t left_out_ = 0;
};

namespace detail {

[[nodiscard]] inline std::string text_of_alike(std::size_t count) {
    if (count <= 1) return {};
    const char* const or_more = count == finding::most_alike ? " or more" : "";
    return text(
        {"\n    the shortest of ", count, or_more, " that differ only in the numbers of calls, or in the values"});
}

}  // namespace detail

/// What was found, in words.
[[nodiscard]] inline std::string explain(const exploration& found) {
    std::string all = detail::text(
        {found.ranks(), found.ranks() == 1 ? " rank, " : " ranks, ", found.executions(),
         found.executions() == 1 ? " execution" : " executions",
         found.complete() ? ", all there are: " : ", not all there are: ", found.ok() ? "no fault found\n" : ""});
    if (!found.ok())
        all += detail::text({found.findings().size() + found.left_out(),
                             found.findings().size() + found.left_out() == 1 ? " fault\n" : " faults\n"});
    for (const finding& each : found.findings())
        all += detail::text({name_of(each.what), ": ", each.text, detail::text_of_alike(each.alike),
                             "\n    replay: ", each.schedule, "\n"});
    if (found.left_out() > 0) all += detail::text({"and ", found.left_out(), " more\n"});
    return all;
}

/// The calls that ranks make, and what they get, up to a fault: one line each.
[[nodiscard]] inline std::string history_of(const finding& one) {
    std::string all;
    for (const happening& each : one.history) {
        all += detail::text({"rank ", each.rank});
        switch (each.what) {
            case happening::kind::calls: all += " calls " + each.text; break;
            case happening::kind::posts:
                all += detail::text({"   posts ", each.message, " (", each.text, ") to rank ", each.peer});
                break;
            case happening::kind::gets:
                all += detail::text({"   gets ", each.message, " (", each.text, ") from rank ", each.peer});
                break;
            case happening::kind::goes_on:
            case happening::kind::ends: all += " " + each.text; break;
        }
        all += "\n";
    }
    return all;
}

}  // namespace allfold
