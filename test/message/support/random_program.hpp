// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/collective/all_reduce.hpp"
#include "allfold/collective/subset.hpp"
#include "allfold/engine/operation.hpp"
#include "allfold/message.hpp"
#include "allfold/transport/rank_list.hpp"

/// @file
/// A small random program of messages and collectives, for any communicator; some of the messages are sent in a team.

namespace test {

class random_program {
  public:
    /// What its ranks ask about arrivals: nothing; only whether a message has arrived; also which of several messages
    /// arrives first; or only the latter, which decides what they do next.
    enum class asks : std::uint8_t { nothing, whether_done, anything, which_comes };

    random_program(std::mt19937& dice, int size, std::size_t messages, asks what)
        : of_rank_(static_cast<std::size_t>(size)) {
        const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(dice); };
        if (what == asks::which_comes) {
            add_branching(below, messages);
            return;
        }
        const bool may_ask = what == asks::anything, may_test = what != asks::nothing;
        for (std::size_t i = 0; i < messages; ++i) {  // one send and one receive each, so that most programs terminate
            const std::size_t from = below(of_rank_.size());
            const std::size_t to = (from + 1 + below(of_rank_.size() - 1)) % of_rank_.size();
            const int tag = static_cast<int>(below(2));
            if (may_ask && below(12) == 0) {
                add_ready(from, to);
                continue;
            }
            if (may_ask && below(4) == 0) {
                add_composite(below, from, to, tag);
                continue;
            }
            constexpr mode modes[] = {mode::synchronous, mode::buffered, mode::standard, mode::standard,
                                      mode::standard,    mode::standard, mode::standard};
            const mode how = modes[below(7)];
            const bool is_in_team = below(6) == 0 && how != mode::buffered;  // to which no rank attaches a buffer
            add(from,
                {below(4) == 0 ? kind::start_send : kind::blocking_send, static_cast<int>(to), tag, below(4) == 0,
                 how == mode::buffered && !may_ask ? mode::standard : how, lengths[below(lengths.size())], is_in_team});
            const bool is_any = may_ask && below(2) == 0;
            constexpr kind receives[] = {kind::start_receive,    kind::start_receive,    kind::blocking_probe,
                                         kind::blocking_receive, kind::blocking_receive, kind::blocking_receive};
            add(to, {receives[below(6)], is_any ? any_rank : static_cast<int>(from),
                     may_ask && below(4) == 0 ? any_tag : tag, false, mode::standard, 1, is_in_team});
            if (below(5) == 0) add(below(of_rank_.size()), {kind::wait});
            if (may_test && !may_ask && below(3) == 0) add_cancelled(below, from, to, tag);
            if (may_test && below(may_ask ? 4 : 2) == 0) {
                constexpr kind questions[] = {kind::test,      kind::wait_any, kind::cancel, kind::wait_some,
                                              kind::test_some, kind::then,     kind::look,   kind::wait_all};
                add(to, {questions[below(may_ask ? 8 : 6)], any_rank, any_tag});
            }
            if (below(size == 2 ? 4 : 12) == 0) add_to_all({below(3) == 0 ? kind::reduce_and_wait : kind::reduce});
        }
        if (may_ask && below(2) == 0) buffer_bytes_ = lengths.back() * sizeof(std::uint32_t);
        if (may_ask && below(3) == 0) add(below(of_rank_.size()), {kind::reattach});
        for (auto& each : of_rank_)
            if (each.size() > 1 && below(3) == 0) std::swap(each[below(each.size())], each[below(each.size())]);
    }

    /// Not random at all: all other ranks send to rank 0, which takes whatever arrives first.
    explicit random_program(int size) : of_rank_(static_cast<std::size_t>(size)) {
        for (std::size_t r = 1; r < of_rank_.size(); ++r) {
            add(r, {kind::blocking_send});
            add(0, {kind::blocking_receive, any_rank});
        }
    }

    [[nodiscard]] int size() const noexcept { return static_cast<int>(of_rank_.size()); }
    /// Whether it has a send that may be held, and is too long for some transport to hold.
    [[nodiscard]] bool may_wait() const {
        return has([](const action& each) {
            return each.is_send() && (each.how == mode::standard || each.how == mode::buffered) &&
                   each.elements == lengths.back();
        });
    }

    /// Runs this rank's part. `seen` is a hash of all that this rank has received, even if it does not return. Calls
    /// `pause()` before each action.
    template <class Comm, class Pause = void (*)()>
    void run(Comm& comm, std::uint32_t& seen, Pause pause = [] {}) const {
        seen = 1000 + static_cast<std::uint32_t>(comm.rank());
        std::vector<int> everybody(of_rank_.size());
        std::iota(everybody.begin(), everybody.end(), 0);
        auto team = allfold::subset(comm, allfold::rank_list(everybody));
        std::deque<flight> flights;
        const bool has_buffer = has([](const action& each) { return each.how == mode::buffered; });
        if (has_buffer) allfold::attach_buffer(comm, buffer_bytes_);
        const auto mix = [&](std::uint32_t x) { seen = (seen ^ (x + 0x85ebca6bU)) * 0x9e3779b1U + (seen >> 7); };
        const auto first = [&]() -> flight* {
            const auto found = std::ranges::find_if(flights, [](const flight& f) { return !f.is_over; });
            return found == flights.end() ? nullptr : &*found;
        };
        const auto end = [&](flight& f) {
            f.is_over = true;
            mix(static_cast<std::uint32_t>(
                std::ranges::find_if(flights, [&](const flight& each) { return &each == &f; }) - flights.begin()));
            mix(f.data.front());
            mix(static_cast<std::uint32_t>(f.found.source));
        };
        bool is_left_out = false;
        for (const action& each : of_rank_[static_cast<std::size_t>(comm.rank())]) {
            if (std::exchange(is_left_out, false)) continue;
            std::uint32_t value = each.depends ? seen : static_cast<std::uint32_t>(comm.rank());
            std::vector<std::uint32_t> data(each.elements, value);
            const auto take = [&](const allfold::status& got) {
                mix(data.front());
                mix(data[got.elements - 1]);
                mix(static_cast<std::uint32_t>(got.elements));
                mix(static_cast<std::uint32_t>(got.source));
            };
            const allfold::tag under = each.tag == any_tag ? allfold::tag{allfold::any} : allfold::tag{each.tag};
            const allfold::from source = each.peer == any_rank ? allfold::from{allfold::any} : allfold::from{each.peer};
            const auto of_its_ranks = [&](auto call) { return each.is_in_team ? call(*team) : call(comm); };
            flight* const pending = first();
            pause();
            switch (each.what) {
                case kind::blocking_send:
                    of_its_ranks(
                        [&](auto& ranks) { allfold::send(ranks, data, allfold::to{each.peer}, under, each.how); });
                    break;
                case kind::start_send: {
                    flight& f = flights.emplace_back();
                    f.data = std::move(data);
                    f.work = of_its_ranks([&](auto& ranks) {
                        return allfold::send.start(ranks, f.data, allfold::to{each.peer}, under, each.how);
                    });
                    break;
                }
                case kind::blocking_receive: {
                    data.resize(longest_);
                    take(of_its_ranks([&](auto& ranks) { return allfold::receive(ranks, data, source, under); }));
                    break;
                }
                case kind::blocking_probe: {
                    allfold::message found =
                        of_its_ranks([&](auto& ranks) { return allfold::probe(ranks, source, under); });
                    data.resize(found.about().elements);
                    take(allfold::receive(found, data));
                    break;
                }
                case kind::start_receive: {
                    flight& f = flights.emplace_back();
                    f.data.resize(longest_);
                    f.work = of_its_ranks([&](auto& ranks) {
                        return allfold::receive.start(ranks, f.data, source, under, allfold::status_in{f.found});
                    });
                    break;
                }
                case kind::reduce: {
                    flight& f = flights.emplace_back();
                    f.data.front() = static_cast<std::uint32_t>(comm.rank());
                    f.work = allfold::all_reduce.start(comm, f.data, allfold::sum());
                    break;
                }
                case kind::reduce_and_wait: mix(allfold::all_reduce(comm, value, allfold::sum())); break;
                case kind::wait:
                    if (pending != nullptr) {
                        pending->work.wait();
                        end(*pending);
                    }
                    break;
                case kind::test:
                    if (pending == nullptr) break;
                    if (const bool is_done = pending->work.done(); mix(is_done ? 17 : 18), is_done) end(*pending);
                    break;
                case kind::cancel:
                    if (pending == nullptr) break;
                    if (const bool is_gone = pending->work.cancel(); mix(is_gone ? 19 : 20), is_gone)
                        pending->is_over = true;
                    break;
                case kind::cancel_latest:
                    if (flights.empty() || flights.back().is_over) break;
                    if (const bool is_gone = flights.back().work.cancel(); mix(is_gone ? 23 : 24), is_gone)
                        flights.back().is_over = true;
                    break;
                case kind::wait_any:
                    with_all(flights, end, [](auto& works) { return std::vector{allfold::wait_any(works)}; });
                    break;
                case kind::wait_some:
                    with_all(flights, end, [](auto& works) { return allfold::wait_some(works); });
                    break;
                case kind::test_some:
                    with_all(flights, end, [&](auto& works) {
                        const std::vector<std::size_t> done = allfold::test_some(works);
                        mix(static_cast<std::uint32_t>(22 + done.size()));
                        return done;
                    });
                    break;
                case kind::then:
                    if (pending != nullptr) pending->work.then([pending, &mix] { mix(pending->data.front() + 37); });
                    break;
                case kind::wait_all:
                    with_all(flights, end, [](auto& works) {
                        allfold::wait_all(works);
                        std::vector<std::size_t> all(works.size());
                        std::iota(all.begin(), all.end(), std::size_t{0});
                        return all;
                    });
                    break;
                case kind::exchange: {
                    std::vector<std::uint32_t> place(longest_);
                    const allfold::status got = of_its_ranks([&](auto& ranks) {
                        return allfold::exchange(ranks, data, allfold::to{each.peer}, place, allfold::from{each.peer},
                                                 under);
                    });
                    data = std::move(place);
                    take(got);
                    break;
                }
                case kind::prepared_send: {
                    auto twice = of_its_ranks([&](auto& ranks) {
                        return allfold::send.prepare(ranks, data, allfold::to{each.peer}, under, each.how);
                    });
                    twice();
                    data.front() += 41;
                    twice();
                    break;
                }
                case kind::prepared_receive: {
                    allfold::status got;
                    data.resize(longest_);
                    auto twice = of_its_ranks([&](auto& ranks) {
                        return allfold::receive.prepare(ranks, data, source, under, allfold::status_in{got});
                    });
                    for (int i = 0; i < 2; ++i) {
                        twice();
                        take(got);
                    }
                    break;
                }
                case kind::released_send: {
                    flight& f = flights.emplace_back();
                    f.data = std::move(data);
                    f.is_over = true;
                    of_its_ranks([&](auto& ranks) {
                        return allfold::send.start(ranks, f.data, allfold::to{each.peer}, under, each.how);
                    }).release();
                    break;
                }
                case kind::reattach:
                    if (has_buffer) allfold::attach_buffer(comm, allfold::detach_buffer(comm));
                    break;
                case kind::branch: is_left_out = seen % 2 == 1; break;
                case kind::look:
                    if (auto found = allfold::try_probe(comm, source, under)) {
                        data.resize(found->about().elements);
                        take(allfold::receive(*found, data));
                    } else {
                        mix(21);
                    }
                    break;
            }
        }
        while (flight* const pending = first()) {
            pending->work.wait();
            end(*pending);
        }
        if (has_buffer) allfold::detach_buffer(comm);
    }

    [[nodiscard]] std::string text() const {
        constexpr const char* names[] = {"send",
                                         "start_send",
                                         "receive",
                                         "start_receive",
                                         "reduce",
                                         "wait",
                                         "test",
                                         "cancel",
                                         "wait_any",
                                         "wait_some",
                                         "test_some",
                                         "then",
                                         "reduce_and_wait",
                                         "try_probe",
                                         "probe",
                                         "branch",
                                         "cancel_latest",
                                         "wait_all",
                                         "exchange",
                                         "prepared_send",
                                         "prepared_receive",
                                         "released_send",
                                         "reattach"};
        constexpr const char* modes[] = {"standard", "buffered", "synchronous", "ready"};
        std::string all;
        for (std::size_t r = 0; r < of_rank_.size(); ++r) {
            all += "\n  rank " + std::to_string(r) + ":";
            for (const action& each : of_rank_[r])
                all += std::string(" ") + names[static_cast<std::size_t>(each.what)] +
                       (each.is_in_team ? "_in_team(" : "(") + std::to_string(each.peer) + ", " +
                       std::to_string(each.tag) +
                       (each.is_send() ? std::string(", ") + modes[static_cast<std::size_t>(each.how)] + ", " +
                                             std::to_string(each.elements)
                                       : "") +
                       ")";
        }
        return all + "\n";
    }

  private:
    using mode = allfold::mode;
    enum class kind : std::uint8_t {
        blocking_send,
        start_send,
        blocking_receive,
        start_receive,
        reduce,
        wait,
        test,
        cancel,
        wait_any,
        wait_some,
        test_some,
        then,
        reduce_and_wait,
        look,
        blocking_probe,
        branch,
        cancel_latest,
        wait_all,
        exchange,
        prepared_send,
        prepared_receive,
        released_send,
        reattach
    };
    struct action {
        kind what;
        int peer = 0, tag = 0;
        bool depends = false;  // what is sent depends on what has been received
        mode how = mode::standard;
        std::size_t elements = 1;
        bool is_in_team = false;  // in a team of all ranks, instead of the communicator itself
        [[nodiscard]] bool is_send() const noexcept {
            return what == kind::blocking_send || what == kind::start_send || what == kind::exchange ||
                   what == kind::prepared_send || what == kind::released_send;
        }
    };
    /// The last one is longer than what threads always hold.
    static constexpr std::array<std::size_t, 8> lengths{1, 1, 1, 1, 1, 1, 300, 2000};
    struct flight {
        std::vector<std::uint32_t> data{0};
        allfold::status found;
        bool is_over = false;
        allfold::operation work;  // last, so that it is destroyed first
    };
    static constexpr int any_rank = -2, any_tag = -2;

    void add(std::size_t rank, action what) {
        longest_ = std::max(longest_, what.elements);
        of_rank_[rank].push_back(what);
    }
    void add_to_all(action what) {
        for (std::size_t r = 0; r < of_rank_.size(); ++r) add(r, what);
    }
    /// Adds only sends, receives, and branches: whether a rank skips its next action depends on what it has received.
    template <class Below>
    void add_branching(Below below, std::size_t messages) {
        for (std::size_t i = 0; i < messages; ++i) {
            const std::size_t from = below(of_rank_.size());
            const std::size_t to = (from + 1 + below(of_rank_.size() - 1)) % of_rank_.size();
            const int tag = below(3) == 0 ? 1 : 0;
            add(from, {below(6) == 0 ? kind::start_send : kind::blocking_send, static_cast<int>(to), tag});
            add(to, {below(4) == 0 ? kind::start_receive : kind::blocking_receive,
                     below(2) == 0 ? any_rank : static_cast<int>(from), tag});
            if (below(4) == 0) add(to, {kind::branch});
        }
        for (auto& each : of_rank_)
            for (int i = 0; i < 2 && each.size() > 1; ++i)
                std::swap(each[below(each.size())], each[below(each.size())]);
    }
    /// Adds a ready send whose receive is already posted: all ranks synchronise in between, unless actions are swapped
    /// later.
    void add_ready(std::size_t from, std::size_t to) {
        constexpr int own_tag = 2;
        add(to, {kind::start_receive, static_cast<int>(from), own_tag});
        add_to_all({kind::reduce_and_wait});
        add(from, {kind::blocking_send, static_cast<int>(to), own_tag, false, mode::ready});
    }
    /// Adds a send that is cancelled, perhaps followed by another one for its receive.
    template <class Below>
    void add_cancelled(Below below, std::size_t from, std::size_t to, int tag) {
        const mode how = below(3) == 0 ? mode::synchronous : mode::standard;
        add(from, {kind::start_send, static_cast<int>(to), tag, false, how, lengths[below(lengths.size())]});
        add(from, {kind::cancel_latest});
        if (below(2) != 0) add(from, {kind::start_send, static_cast<int>(to), tag, false, mode::standard, 3});
        if (below(3) != 0) add(to, {kind::start_receive, static_cast<int>(from), tag});
        if (below(4) == 0) add(to, {kind::cancel_latest});
    }
    /// Adds an exchange, or a prepared send that is started twice, or one that is released, with what receives it.
    template <class Below>
    void add_composite(Below below, std::size_t from, std::size_t to, int tag) {
        const int sender = static_cast<int>(from), receiver = static_cast<int>(to);
        constexpr mode modes[] = {mode::standard, mode::standard, mode::synchronous, mode::buffered};
        const mode how = modes[below(4)];
        const std::size_t elements = lengths[below(lengths.size())];
        const int source = below(2) == 0 ? any_rank : sender;
        switch (below(4)) {
            case 0:
                add(from, {kind::exchange, receiver, tag, below(2) == 0, mode::standard, elements});
                if (below(2) == 0) return add(to, {kind::exchange, sender, tag, below(2) == 0, mode::standard, 1});
                add(to, {kind::start_send, sender, tag, below(2) == 0});
                return add(to, {kind::blocking_receive, source, tag});
            case 1:
                add(from, {kind::prepared_send, receiver, tag, below(2) == 0, how, elements});
                if (below(2) == 0) return add(to, {kind::prepared_receive, source, tag});
                add(to, {kind::start_receive, source, tag});
                return add(to, {kind::blocking_receive, sender, any_tag});
            case 2:
                add(from, {kind::blocking_send, receiver, tag, true, how, elements});
                add(from, {kind::start_send, receiver, tag, true});
                return add(to, {kind::prepared_receive, source, tag});
            default:
                add(from, {kind::released_send, receiver, tag, below(2) == 0, how, elements});
                return add(to, {kind::blocking_receive, source, tag});
        }
    }
    template <class Is>
    [[nodiscard]] bool has(Is is) const {
        return std::ranges::any_of(of_rank_, [&](const auto& each) { return std::ranges::any_of(each, is); });
    }

    /// `ask(operations)` gets all that are not over, and returns which of them are done.
    template <class End, class Ask>
    static void with_all(std::deque<flight>& flights, End end, Ask ask) {
        std::vector<allfold::operation> works;
        std::vector<flight*> owners;
        for (flight& each : flights)
            if (!each.is_over) {
                works.push_back(std::move(each.work));
                owners.push_back(&each);
            }
        const std::vector<std::size_t> done = ask(works);
        for (std::size_t i = 0; i < works.size(); ++i) owners[i]->work = std::move(works[i]);
        for (const std::size_t i : done)
            if (i < works.size()) end(*owners[i]);
    }

    std::vector<std::vector<action>> of_rank_;
    std::size_t longest_ = 1, buffer_bytes_ = std::size_t{1} << 20;
};

}  // namespace test
