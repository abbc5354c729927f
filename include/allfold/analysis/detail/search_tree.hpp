// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <ios>
#include <istream>
#include <ostream>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "allfold/transport/communicator.hpp"

/// @file
/// Which executions of a program are still to be explored.
///
/// A step belongs to one rank: it gets a message, or goes on without one, and runs until it waits again. So steps of
/// different ranks are independent, and two executions are the same if each rank makes the same steps in both. The tree
/// is traversed depth first; only the path to the current execution is kept.
///
/// In each state one step is tried, and another one only if a race requires it: a message was delivered too late for a
/// step that could have taken it instead. This is dynamic partial-order reduction with source sets; sleep sets keep an
/// execution from being completed twice. Two steps of one rank are dependent if the rank asks, in the first one or
/// later, something that may tell their order. After its last question they are not: what the rank does then follows
/// from everything that it gets, in whatever order.
///
/// When nothing else can happen, ranks that test go on testing. Such a test is independent of those of other ranks if
/// it is quiet: its rank posts nothing in it, and then tests again or waits. Two ranks that test in vain therefore do
/// so in one order only. A test that is not quiet is dependent on those that others could have made before it, and they
/// are tried there.
///
/// Steps that no question can tell apart are not seen here: the caller takes all that are possible before it asks for a
/// choice (analysis/detail/explorer.hpp). What such a step posts counts as posted in the step before it, without which
/// it was not possible. It may need other steps too, which is not known: so a race may require an order that does not
/// exist, and that ends in an execution that is abandoned.
///
/// Sources: C. Flanagan, P. Godefroid, Dynamic partial-order reduction for model checking software, POPL 2005;
/// P. Abdulla, S. Aronis, B. Jonsson, K. Sagonas, Optimal dynamic partial order reduction, POPL 2014, algorithm 1.

namespace allfold::detail {

/// In a channel: what stands in place of the rank that a message comes from.
inline constexpr int end_of_operation = -1, news_of_a_deadline = -2, news_of_a_failure = -3;
/// The first of the lanes of answers. Each answer to a send has a lane of its own: when it arrives concerns that send
/// alone.
inline constexpr lane first_of_answers = 0xc0000000;
[[nodiscard]] constexpr lane lane_of_answer(std::uint32_t number) noexcept {
    return first_of_answers | (number & ~first_of_answers);
}

/// The messages to one rank from another one, on one lane of one communicator; or the end of one of the rank's own
/// operations, numbered by `on`; or the news that the deadline of another rank has passed, or that it has failed.
struct explored_channel {
    std::uint64_t group = 0;  ///< which communicator
    int from = 0;             ///< a rank of the whole program, like all ranks here; or one of the constants above
    lane on = 0;
    [[nodiscard]] bool is_end() const noexcept { return from == end_of_operation; }
    [[nodiscard]] bool is_message() const noexcept { return from >= 0; }
    /// Whether it is a message of a collective; other messages are those of message.hpp.
    [[nodiscard]] bool is_of_a_collective() const noexcept {
        return is_message() && on < first_of_answers && on != envelopes_lane && on != data_lane;
    }
    [[nodiscard]] bool is_answer() const noexcept { return is_message() && on >= first_of_answers; }
    friend bool operator==(const explored_channel&, const explored_channel&) = default;
    friend bool operator<(const explored_channel& a, const explored_channel& b) noexcept {
        return std::tie(a.group, a.from, a.on) < std::tie(b.group, b.from, b.on);
    }
};

/// A rank gets the next message of a channel and goes on, or goes on without a message.
struct explored_step {
    int rank = 0;
    bool has_message = false;
    bool is_last_resort = false;  ///< possible only because nothing else is: it depends on what all ranks have done
    explored_channel channel;
    int round = 0;  ///< of a test as a last resort: all tests of earlier rounds come before it
    [[nodiscard]] bool is_last_test() const noexcept { return is_last_resort && channel == explored_channel(); }
    /// Whether this step holds a standard send that waits for its receive, after all.
    [[nodiscard]] bool holds() const noexcept { return !has_message && channel.is_answer(); }
    friend bool operator==(const explored_step& a, const explored_step& b) noexcept {
        return a.rank == b.rank && a.has_message == b.has_message && a.is_last_resort == b.is_last_resort &&
               a.channel == b.channel;
    }
    friend bool operator<(const explored_step& a, const explored_step& b) noexcept {
        return std::tie(a.rank, a.has_message, a.channel) < std::tie(b.rank, b.has_message, b.channel);
    }
};

/// A message that has not been taken.
struct explored_leftover {
    int rank;
    explored_channel channel;
    int posted_in;  ///< the step; -1 before the first one
};

class search_tree {
  public:
    static constexpr int max_ranks = 64;
    static constexpr int asleep = -1, changed = -2;

    /// If not `reduced`: all orders of all steps.
    search_tree(int size, bool reduced) : size_(static_cast<std::size_t>(size)), reduced_(reduced) {}

    /// Starts over.
    void forget() { path_.clear(); }
    /// Forgets the end of the path to the current execution.
    void shorten(std::size_t length) { path_.erase(path_.begin() + static_cast<std::ptrdiff_t>(length), path_.end()); }
    /// An execution begins.
    void begin() {
        events_.clear();
        unseen_.clear();
        asked_.clear();
        last_.assign(size_, -1);
        last_question_.assign(size_, -1);
    }
    /// The index of the step to take, of those that are possible now. `settled`: the ranks for which nothing else can
    /// become possible before they make a step. `posts` identifies what was posted so far. Or `asleep`: everything
    /// that could follow has been explored; or `changed`: the program does not repeat what it has done before.
    [[nodiscard]] int choose(const std::vector<explored_step>& possible, std::uint64_t settled, std::uint64_t posts) {
        const std::size_t depth = events_.size();
        if (depth > 0) note_whether_quiet(events_.back(), possible);
        if (depth < path_.size()) return path_[depth].posts == posts ? again(path_[depth], possible) : changed;
        state next{possible, {}, {}, {}, asleep, posts};
        if (reduced_ && !path_.empty()) inherit_sleep(path_.back(), events_.back().is_quiet, next);
        next.current = first_choice(next, settled);
        if (next.current == asleep) return asleep;
        next.tried.assign(possible.size(), !reduced_ || has_other_last_resorts(possible));
        next.done.assign(possible.size(), false);
        try_beside(next, at(next.current));
        path_.push_back(std::move(next));
        return path_.back().current;
    }
    /// The step is taken, by a rank that has asked for these channels; its message was posted in an earlier step.
    void note(const explored_step& step, std::span<const explored_channel> asked, int posted_in) {
        int& last = last_[at(step.rank)];
        events_.push_back({step, std::exchange(last, static_cast<int>(events_.size())), posted_in, asked_.size(),
                           asked_.size() + asked.size()});
        asked_.insert(asked_.end(), asked.begin(), asked.end());
        if (!step.has_message) note_question(step.rank);
    }
    /// Something was posted in the latest step.
    void note_post() {
        if (!events_.empty()) events_.back().has_posted = true;
    }
    /// The delivery is taken unseen.
    void note_unseen(const explored_step& delivery, int posted_in) {
        unseen_.push_back({delivery, last_[at(delivery.rank)], posted_in, static_cast<int>(events_.size())});
    }
    /// Since its latest step this rank has asked something, or got the answer to it, that may depend on the order in
    /// which messages have arrived.
    void note_question(int rank) { last_question_[at(rank)] = last_[at(rank)]; }
    /// The execution has ended. `any_order`: the ranks for which any order of steps may make a difference, whatever
    /// they ask. False when all executions have been explored.
    [[nodiscard]] bool next(std::span<const explored_leftover> leftovers, std::uint64_t any_order = 0) {
        for (std::size_t r = 0; r < size_; ++r)
            if ((any_order >> r & 1) != 0) last_question_[r] = last_[r];
        if (reduced_) find_races(leftovers);
        for (; !path_.empty(); path_.pop_back()) {
            state& last = path_.back();
            note_done(last, path_.size() - 1);
            if (const int left = any_left(last); left >= 0) {
                last.current = left;
                return true;
            }
        }
        return false;
    }

    /// A step, and the channels that its rank had asked for.
    struct ordered_step {
        explored_step what;
        std::span<const explored_channel> asked;
    };
    /// The steps of one rank in the latest execution whose order someone may tell, from the last one back. Valid until
    /// the next execution begins.
    [[nodiscard]] std::vector<ordered_step> order_of(int rank) const {
        std::vector<ordered_step> all;
        for (int i = last_question_[at(rank)]; i >= 0; i = events_[at(i)].previous)
            all.push_back({events_[at(i)].what, asked_in(events_[at(i)])});
        return all;
    }

    /// Writes the path to the next execution, and what has been tried on it.
    void write(std::ostream& out) const {
        out << path_.size() << '\n';
        for (const state& each : path_) {
            out << each.current << ' ' << each.posts << ' ' << each.tried.size() << ' ';
            for (std::size_t i = 0; i < each.tried.size(); ++i) out << (each.done[i] ? 2 : each.tried[i] ? 1 : 0);
            out << ' ' << each.sleep.size();
            for (const explored_step& s : each.sleep)
                out << ' ' << s.rank << ' ' << s.has_message << ' ' << s.is_last_resort << ' ' << s.channel.group << ' '
                    << s.channel.from << ' ' << s.channel.on;
            out << '\n';
        }
    }
    /// Reads that path; errors set the state of the stream.
    void read(std::istream& in) {
        std::size_t length = 0, choices = 0, sleeping = 0;
        std::string tried;
        path_.clear();
        for (in >> length; in && path_.size() < length;) {
            state& each = path_.emplace_back();
            in >> each.current >> each.posts >> choices >> tried >> sleeping;
            if (tried.size() != choices) in.setstate(std::ios::failbit);
            for (const char digit : tried) {
                each.tried.push_back(digit != '0');
                each.done.push_back(digit == '2');
            }
            while (in && each.sleep.size() < sleeping) {
                explored_step& s = each.sleep.emplace_back();
                in >> s.rank >> s.has_message >> s.is_last_resort >> s.channel.group >> s.channel.from >> s.channel.on;
            }
        }
    }
    /// The number of states on the path in which something is still to be tried.
    [[nodiscard]] std::size_t open() const {
        return static_cast<std::size_t>(
            std::ranges::count_if(path_, [](const state& each) { return any_left(each) >= 0; }));
    }

    /// The number of steps in the execution so far, and in the path to it.
    [[nodiscard]] std::size_t depth() const noexcept { return events_.size(); }
    [[nodiscard]] std::size_t path_length() const noexcept { return path_.size(); }
    [[nodiscard]] const explored_step& step(std::size_t index) const { return events_[index].what; }

  private:
    struct state {
        std::vector<explored_step> possible;
        std::vector<explored_step> sleep;  // steps that need not be tried here, or have been
        std::vector<bool> tried;           // which of the possible steps are, or are to be
        std::vector<bool> done;            // which of those have been, but are not independent of what others may do
        int current = 0;
        std::uint64_t posts = 0;  // what was posted before

        [[nodiscard]] bool sleeps(std::size_t index) const {
            return std::ranges::find(sleep, possible[index]) != sleep.end();
        }
    };
    struct event {
        explored_step what;
        int previous;  // the previous event of its rank
        int posted_in;
        std::size_t asked_begin, asked_end;
        bool has_posted = false, is_quiet = false;
    };

    struct unseen_delivery {
        explored_step what;
        int previous;  // the latest event of its rank
        int posted_in;
        int end;  // the event after it
    };

    [[nodiscard]] std::span<const explored_channel> asked_in(const event& e) const {
        return std::span(asked_).subspan(e.asked_begin, e.asked_end - e.asked_begin);
    }
    template <class Number>
    [[nodiscard]] static std::size_t at(Number index) noexcept {
        return static_cast<std::size_t>(index);
    }
    [[nodiscard]] static std::uint64_t bit(int rank) noexcept { return std::uint64_t{1} << rank; }

    /// The choice made here before. A path that has been read does not say what is possible.
    [[nodiscard]] static int again(state& known, const std::vector<explored_step>& possible) {
        if (known.possible.empty() && at(known.current) < possible.size() && known.tried.size() == possible.size())
            known.possible = possible;
        return known.possible == possible ? known.current : changed;
    }
    /// A step that is still to be tried; -1 if there is none. The one that is being tried does not count.
    [[nodiscard]] static int any_left(const state& here) {
        for (std::size_t i = 0; i < here.possible.size(); ++i)
            if (here.tried[i] && !here.done[i] && static_cast<int>(i) != here.current && !here.sleeps(i))
                return static_cast<int>(i);
        return -1;
    }
    /// Tries a step and, with it, what its rank may do without a message: a race is found only between that and what
    /// comes later. If a race requires a step this is not needed: what its rank may do instead is tried where that step
    /// comes later.
    static void try_beside(state& here, std::size_t index) {
        for (std::size_t i = 0; i < here.possible.size(); ++i)
            if (i == index || (here.possible[i].rank == here.possible[index].rank && !here.possible[i].has_message))
                here.tried[i] = true;
    }

    /// A test as a last resort has ended where these steps are possible.
    static void note_whether_quiet(event& latest, const std::vector<explored_step>& possible) {
        latest.is_quiet = latest.what.is_last_test() && !latest.has_posted && possible.front().is_last_resort;
    }
    [[nodiscard]] static bool has_other_last_resorts(const std::vector<explored_step>& possible) {
        return possible.front().is_last_resort && !std::ranges::all_of(possible, &explored_step::is_last_test);
    }
    /// Everything that can follow the current choice has been explored.
    void note_done(state& here, std::size_t depth) {
        const explored_step& step = here.possible[at(here.current)];
        if (step.is_last_test() && !events_[depth].is_quiet)
            here.done[at(here.current)] = true;
        else
            here.sleep.push_back(step);
    }
    static void inherit_sleep(const state& parent, bool was_quiet, state& child) {
        const explored_step& last = parent.possible[at(parent.current)];
        for (const explored_step& each : parent.sleep) {
            const bool are_ordinary = !last.is_last_resort && !each.is_last_resort;
            if (each.rank != last.rank && (are_ordinary || (was_quiet && each.is_last_test())))
                child.sleep.push_back(each);
        }
    }
    /// If nothing else can become possible for a rank, no other rank need be tried beside it.
    [[nodiscard]] static int first_choice(const state& here, std::uint64_t settled) {
        int found = asleep;
        for (std::size_t i = 0; i < here.possible.size(); ++i) {
            if (here.sleeps(i)) continue;
            if ((settled & bit(here.possible[i].rank)) != 0) return static_cast<int>(i);
            if (found == asleep) found = static_cast<int>(i);
        }
        return found;
    }

    /// Whether event `second` is, or needs, event `first`, as far as is known.
    [[nodiscard]] bool happens_before(int first, int second) const {
        return (needs_[at(second) * words_ + at(first) / 64] >> (at(first) % 64) & 1) != 0;
    }
    void find_needs() {
        words_ = events_.size() / 64 + 1;
        needs_.assign(events_.size() * words_, 0);
        for (std::size_t j = 0; j < events_.size(); ++j) {
            const event& e = events_[j];
            need(j, e.posted_in);
            for (int i = static_cast<int>(j) - 1; e.what.is_last_resort && i >= 0; --i)
                if (!happens_before(i, static_cast<int>(j)) && must_precede(events_[at(i)], e)) need(j, i);
            const int question = last_question_[at(e.what.rank)];
            for (int i = e.previous; i >= 0; i = events_[at(i)].previous) {
                if (e.what.has_message && is_choice(events_[at(i)])) continue;
                if (i <= question || is_before_on_its_channel(events_[at(i)], e)) need(j, i);
                if (i <= question) break;
            }
            needs_[j * words_ + j / 64] |= std::uint64_t{1} << (j % 64);
        }
    }
    void need(std::size_t effect, int cause) {
        for (std::size_t w = 0; cause >= 0 && w < words_; ++w)
            needs_[effect * words_ + w] |= needs_[at(cause) * words_ + w];
    }
    /// Whether a step must come before a last resort of another rank.
    [[nodiscard]] static bool must_precede(const event& first, const event& last_resort) {
        return !first.is_quiet || !last_resort.what.is_last_test() || first.what.round < last_resort.what.round;
    }
    [[nodiscard]] static bool is_before_on_its_channel(const event& first, const event& second) {
        return first.what.has_message && second.what.has_message && first.what.channel == second.what.channel;
    }

    /// Whether its rank asked for nothing in this step: what it got later could have arrived before, in place of what
    /// arrived unseen.
    [[nodiscard]] static bool is_choice(const event& e) { return !e.what.has_message && e.asked_begin == e.asked_end; }

    void find_races(std::span<const explored_leftover> leftovers) {
        find_needs();
        const int count = static_cast<int>(events_.size());
        for (int j = 0; j < count; ++j)
            if (const event& e = events_[at(j)]; e.what.has_message) find_race(j, e.previous, e.what, e.posted_in);
        for (std::size_t i = 0; i < events_.size(); ++i)
            if (events_[i].what.is_last_test() && !events_[i].is_quiet) try_other_tests(path_[i]);
        for (const unseen_delivery& each : unseen_)  // its rank could have gone on with it alone
            find_race(each.end, each.previous, each.what, each.posted_in);
        for (const explored_leftover& each : leftovers)
            find_race(count, last_[at(each.rank)], {each.rank, true, false, each.channel}, each.posted_in);
    }
    /// Others could have tested once more before the rank that has posted something.
    static void try_other_tests(state& here) {
        for (std::size_t i = 0; i < here.possible.size(); ++i)
            if (here.possible[i].is_last_test()) here.tried[i] = true;
    }
    /// For a message that is delivered in step `end`, or never: finds the last step of its rank, from `before` back,
    /// that this delivery could have replaced so that someone can tell, and requires that to be tried.
    void find_race(int end, int before, const explored_step& delivery, int posted_in) {
        for (int i = before; i >= 0; i = events_[at(i)].previous) {
            const event& e = events_[at(i)];
            if (posted_in >= 0 && happens_before(i, posted_in)) return;
            const std::span<const explored_channel> asked = asked_in(e);
            if (std::ranges::find(asked, delivery.channel) == asked.end()) continue;
            if (e.what.has_message && e.what.channel == delivery.channel) return;  // its predecessor
            if (i > last_question_[at(delivery.rank)]) continue;
            state& here = path_[at(i)];
            if (const int now = find(here, delivery); now >= 0) {
                here.tried[at(now)] = true;
                return;
            }
            return reverse(i, end);
        }
    }
    /// Requires that an event which does not need event i be tried before it.
    void reverse(int i, int end) {
        state& here = path_[at(i)];
        int first = -1;
        for (int k = i + 1; k < end; ++k) {
            if (happens_before(i, k) || !is_initial(i, k)) continue;
            const int now = find(here, events_[at(k)].what);
            if (now < 0) continue;  // it needs event i after all
            if (here.tried[at(now)]) return;
            if (first < 0) first = now;
        }
        if (first >= 0) here.tried[at(first)] = true;
    }
    [[nodiscard]] bool is_initial(int i, int k) const {
        for (int m = i + 1; m < k; ++m)
            if (!happens_before(i, m) && happens_before(m, k)) return false;
        return true;
    }
    /// The index of a step; -1 if it is not possible here.
    [[nodiscard]] static int find(const state& here, const explored_step& step) {
        const auto found = std::ranges::find(here.possible, step);
        return found == here.possible.end() ? -1 : static_cast<int>(found - here.possible.begin());
    }

    std::size_t size_;
    bool reduced_;
    std::vector<state> path_;
    std::vector<event> events_;
    std::vector<unseen_delivery> unseen_;
    std::vector<explored_channel> asked_;
    std::vector<int> last_, last_question_;  // events, for each rank
    std::size_t words_ = 0;
    std::vector<std::uint64_t> needs_;  // for each event, a bit for each event that it needs
};

}  // namespace allfold::detail
