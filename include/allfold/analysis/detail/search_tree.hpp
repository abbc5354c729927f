// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <istream>
#include <ostream>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "allfold/transport/communicator.hpp"

/// @file
/// Which executions of a program are still to be looked at.
///
/// A step belongs to one rank: it gets a message, or goes on without one, and runs until it waits again. So steps of
/// different ranks are independent, and two executions are the same if each rank makes the same steps in both. The tree
/// is walked along depth first; only the path to the current execution is kept.
///
/// At each state all choices of one rank are tried, and those of another one only where a race asks for it: a message
/// was delivered too late for a step that could have taken it instead. That is dynamic partial-order reduction with
/// source sets; sleep sets keep an execution from being completed twice. The processes of the literature are ranks
/// here, each with a choice of its own among the messages that are in flight for it; with this a race needs to be
/// looked for only where the message was posted after the choice.
///
/// Sources: C. Flanagan, P. Godefroid, Dynamic partial-order reduction for model checking software, POPL 2005;
/// P. Abdulla, S. Aronis, B. Jonsson, K. Sagonas, Optimal dynamic partial order reduction, POPL 2014, algorithm 1.

namespace allfold::detail {

/// Messages to one rank from another one, on one lane of one communicator.
struct explored_channel {
    std::uint64_t group = 0;  ///< which communicator
    int from = 0;             ///< a rank of the whole program, as all are here
    lane on = 0;
    friend bool operator==(const explored_channel&, const explored_channel&) = default;
    friend bool operator<(const explored_channel& a, const explored_channel& b) noexcept {
        return std::tie(a.group, a.from, a.on) < std::tie(b.group, b.from, b.on);
    }
};

/// The next message of a channel is delivered to a rank, which goes on; or it goes on without one.
struct explored_step {
    int rank = 0;
    bool has_message = false;
    bool is_last_resort = false;  ///< possible only because nothing else is: it depends on what all ranks have done
    explored_channel channel;
    friend bool operator==(const explored_step&, const explored_step&) = default;
    friend bool operator<(const explored_step& a, const explored_step& b) noexcept {
        return std::tie(a.rank, a.has_message, a.channel) < std::tie(b.rank, b.has_message, b.channel);
    }
};

/// A message that nobody has taken.
struct explored_leftover {
    int rank;
    explored_channel channel;
    int posted_in;  ///< the step; -1 before the first one
};

class search_tree {
  public:
    static constexpr int most_ranks = 64;
    static constexpr int asleep = -1, changed = -2;

    /// Not `reduced`: all orders of all steps.
    search_tree(int size, bool reduced) : size_(static_cast<std::size_t>(size)), reduced_(reduced) {}

    /// Begins anew.
    void forget() { path_.clear(); }
    /// An execution begins.
    void begin() {
        events_.clear();
        asked_.clear();
        clocks_.clear();
        last_.assign(size_, -1);
    }
    /// Which of the steps that are possible now, in their order, is to be taken. `settled`: the ranks for which nothing
    /// else can become possible before they make a step. Or `asleep`: all that could follow has been looked at; or
    /// `changed`: the program does not do again what it has done.
    [[nodiscard]] int choose(const std::vector<explored_step>& possible, std::uint64_t settled) {
        const std::size_t depth = events_.size();
        if (depth < path_.size()) return again(path_[depth], possible);
        state next{possible, {}, 0, asleep};
        if (reduced_ && !path_.empty()) inherit_sleep(path_.back(), next);
        next.current = first_choice(next, settled);
        if (next.current == asleep) return asleep;
        next.tried = reduced_ && !possible.front().is_last_resort ? bit(next.possible[at(next.current)].rank)
                                                                  : ~std::uint64_t{0};
        path_.push_back(std::move(next));
        return path_.back().current;
    }
    /// That step is taken by a rank that has asked for these channels; its message was posted in an earlier step.
    void note(const explored_step& step, std::span<const explored_channel> asked, int posted_in) {
        const int previous = last_[at(step.rank)], self = static_cast<int>(events_.size());
        events_.push_back({step, previous, posted_in, asked_.size(), asked_.size() + asked.size()});
        asked_.insert(asked_.end(), asked.begin(), asked.end());
        clocks_.resize(clocks_.size() + size_, 0);
        const auto needs = [&](int cause) {
            for (std::size_t r = 0; cause >= 0 && r < size_; ++r)
                clock(self, r) = std::max(clock(self, r), clock(cause, r));
        };
        needs(previous);
        needs(posted_in);
        if (step.is_last_resort) std::ranges::for_each(last_, needs);
        ++clock(self, at(step.rank));
        last_[at(step.rank)] = self;
    }
    /// The execution has ended. False when all have been looked at.
    [[nodiscard]] bool next(std::span<const explored_leftover> leftovers) {
        if (reduced_) find_races(leftovers);
        for (; !path_.empty(); path_.pop_back()) {
            state& last = path_.back();
            last.sleep.push_back(last.possible[at(last.current)]);
            if (const int left = any_left(last); left >= 0) {
                last.current = left;
                return true;
            }
        }
        return false;
    }

    /// Where the path to the next execution leads, and what has been tried on it.
    void write(std::ostream& out) const {
        out << path_.size() << '\n';
        for (const state& each : path_) {
            out << each.current << ' ' << each.tried << ' ' << each.sleep.size();
            for (const explored_step& s : each.sleep)
                out << ' ' << s.rank << ' ' << s.has_message << ' ' << s.is_last_resort << ' ' << s.channel.group << ' '
                    << s.channel.from << ' ' << s.channel.on;
            out << '\n';
        }
    }
    /// Fails as the stream does.
    void read(std::istream& in) {
        std::size_t length = 0, sleeping = 0;
        path_.clear();
        for (in >> length; in && path_.size() < length;) {
            state& each = path_.emplace_back();
            in >> each.current >> each.tried >> sleeping;
            while (in && each.sleep.size() < sleeping) {
                explored_step& s = each.sleep.emplace_back();
                in >> s.rank >> s.has_message >> s.is_last_resort >> s.channel.group >> s.channel.from >> s.channel.on;
            }
        }
    }
    /// At how many states of the path something is still to be tried.
    [[nodiscard]] std::size_t open() const {
        return static_cast<std::size_t>(
            std::ranges::count_if(path_, [](const state& each) { return any_left(each) >= 0; }));
    }

    /// How many steps the execution has so far, and how many the path to it.
    [[nodiscard]] std::size_t depth() const noexcept { return events_.size(); }
    [[nodiscard]] std::size_t path_length() const noexcept { return path_.size(); }
    [[nodiscard]] const explored_step& step(std::size_t index) const { return events_[index].what; }

  private:
    struct state {
        std::vector<explored_step> possible;
        std::vector<explored_step> sleep;  // what need not be tried here, or has been
        std::uint64_t tried = 0;           // the ranks all of whose steps are
        int current = 0;

        [[nodiscard]] bool sleeps(std::size_t index) const {
            return std::ranges::find(sleep, possible[index]) != sleep.end();
        }
    };
    struct event {
        explored_step what;
        int previous;  // of its rank
        int posted_in;
        std::size_t asked_begin, asked_end;
    };

    template <class Number>
    [[nodiscard]] static std::size_t at(Number index) noexcept {
        return static_cast<std::size_t>(index);
    }
    [[nodiscard]] static std::uint64_t bit(int rank) noexcept { return std::uint64_t{1} << rank; }
    [[nodiscard]] int& clock(int index, std::size_t rank) { return clocks_[at(index) * size_ + rank]; }

    /// What has been read does not say what is possible.
    [[nodiscard]] static int again(state& known, const std::vector<explored_step>& possible) {
        if (known.possible.empty() && at(known.current) < possible.size()) known.possible = possible;
        return known.possible == possible ? known.current : changed;
    }
    /// A step that is still to be tried; -1 where there is none. The one that is being tried does not count.
    [[nodiscard]] static int any_left(const state& here) {
        for (std::size_t i = 0; i < here.possible.size(); ++i)
            if ((here.tried & bit(here.possible[i].rank)) != 0 && static_cast<int>(i) != here.current &&
                !here.sleeps(i))
                return static_cast<int>(i);
        return -1;
    }

    static void inherit_sleep(const state& parent, state& child) {
        const explored_step& last = parent.possible[at(parent.current)];
        const int moved = last.rank;
        if (last.is_last_resort) return;
        for (const explored_step& each : parent.sleep)
            if (each.rank != moved) child.sleep.push_back(each);
    }
    /// A rank for which nothing else can become possible needs no other rank beside it.
    [[nodiscard]] static int first_choice(const state& here, std::uint64_t settled) {
        int found = asleep;
        for (std::size_t i = 0; i < here.possible.size(); ++i) {
            if (here.sleeps(i)) continue;
            if ((settled & bit(here.possible[i].rank)) != 0) return static_cast<int>(i);
            if (found == asleep) found = static_cast<int>(i);
        }
        return found;
    }

    /// Whether event `second` is, or needs, event `first`.
    [[nodiscard]] bool happens_before(int first, int second) {
        const std::size_t rank = at(events_[at(first)].what.rank);
        return clock(second, rank) >= clock(first, rank);
    }
    void find_races(std::span<const explored_leftover> leftovers) {
        const int count = static_cast<int>(events_.size());
        for (int j = 0; j < count; ++j)
            if (const event& e = events_[at(j)]; e.what.has_message)
                find_race(j, e.previous, e.what.channel, e.posted_in);
        for (const explored_leftover& each : leftovers)
            find_race(count, last_[at(each.rank)], each.channel, each.posted_in);
    }
    /// Of a message that is delivered in step `end`, or never: the last step of its rank, from `before` back, in place
    /// of which it could have been.
    void find_race(int end, int before, const explored_channel& channel, int posted_in) {
        for (int i = before; i >= 0; i = events_[at(i)].previous) {
            const event& e = events_[at(i)];
            if (posted_in >= 0 && happens_before(i, posted_in)) return;
            const auto first = asked_.begin() + static_cast<std::ptrdiff_t>(e.asked_begin),
                       last = asked_.begin() + static_cast<std::ptrdiff_t>(e.asked_end);
            if (std::find(first, last, channel) == last) continue;
            if (e.what.has_message && e.what.channel == channel) return;  // the message before it
            if (posted_in < i) return;  // all choices of a rank are tried where one is
            return reverse(i, end);
        }
    }
    /// What does not need event i must be tried before it.
    void reverse(int i, int end) {
        state& here = path_[at(i)];
        int first = -1;
        for (int k = i + 1; k < end; ++k) {
            if (happens_before(i, k)) continue;
            const int rank = events_[at(k)].what.rank;
            if (first < 0) first = rank;
            if ((here.tried & bit(rank)) != 0 && is_initial(i, k)) return;
        }
        here.tried |= bit(first);
    }
    [[nodiscard]] bool is_initial(int i, int k) {
        for (int m = i + 1; m < k; ++m)
            if (!happens_before(i, m) && happens_before(m, k)) return false;
        return true;
    }

    std::size_t size_;
    bool reduced_;
    std::vector<state> path_;
    std::vector<event> events_;
    std::vector<explored_channel> asked_;
    std::vector<int> clocks_;  // of each event, how many steps of each rank it needs
    std::vector<int> last_;    // event of each rank
};

}  // namespace allfold::detail
