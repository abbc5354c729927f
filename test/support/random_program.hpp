// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "allfold/collective.hpp"
#include "allfold/engine/operation.hpp"
#include "allfold/error.hpp"
#include "allfold/transport/rank_list.hpp"
#include "allfold/transport/team.hpp"
#include "test/support/oracle.hpp"
#include "test/support/random_call.hpp"

/// @file
/// Generated programs: collectives in random order on two communicators and on teams that come and go, teams of teams
/// among them, with several in flight, prepared ones too, while each rank waits as it likes.

namespace test::random_programs {

using allfold::operation;
using allfold::persistent;

/// A communicator of the program, known to all ranks, whether they are members or not.
template <class communicator>
struct site {
    int size = 0;
    communicator* comm = nullptr;       // null at a rank that is not a member
    allfold::team<communicator> own{};  // the team whose communicator that is, if it is one
};

/// One rank's run of the program generated from a seed.
template <class communicator>
class runner {
  public:
    runner(unsigned seed, communicator& a, communicator& b)
        : shared_(seed),
          own_(seed * 1000 + static_cast<unsigned>(a.rank())),
          where_("seed " + std::to_string(seed) + ", rank " + std::to_string(a.rank())) {
        for (communicator* each : {&a, &b}) sites_.push_back(std::make_unique<place>(place{a.size(), each}));
    }

    void run() {
        for (std::size_t i = throw_below(shared_, 5); i > 0; --i) prepare_one();
        const std::size_t steps = 10 + throw_below(shared_, 25);
        for (std::size_t i = 0; i < steps; ++i) {
            step();
            for (std::size_t turns = throw_below(own_, 4); turns > 0; --turns) look_away();
        }
        end();
    }

  private:
    using place = site<communicator>;
    struct started {
        const place* at;
        std::unique_ptr<flight> data;
        operation op;
    };
    struct prepared {
        const place* at;  // null once that communicator is gone
        std::unique_ptr<flight> data;
        persistent op;
        bool in_flight = false;
    };

    /// Everything the ranks must agree on is drawn from the shared dice; each rank draws the same numbers, even for
    /// what happens in teams it is not a member of.
    void step() {
        switch (throw_below(shared_, 12)) {
            case 0: return start_prepared();
            case 1: return prepare_one();
            case 2: return make_team();
            case 3: return split();
            case 4: return drop_team();
            case 5:
            case 6: return call_some();
            default: return start_some();
        }
    }
    place& any_site() { return *sites_[throw_below(shared_, sites_.size())]; }
    void call_some() {
        const place& at = any_site();
        const call what = random_call(shared_, at.size, 0);
        const std::size_t times = 1 + throw_below(shared_, 3);  // the later ones reuse what the first one remembers
        for (std::size_t i = 0; i < times; ++i) {
            ++salt_;
            if (at.comm == nullptr) continue;
            flight f(what, at.comm->rank(), at.size);
            f.fill(salt_);
            f.issue([&](auto& collective, auto&&... args) { collective(*at.comm, args...); });
            f.verify(where_);
        }
    }
    void start_some() {
        const place& at = any_site();
        const call what = random_call(shared_, at.size, 0);
        const std::size_t times = 1 + throw_below(shared_, 3);
        for (std::size_t i = 0; i < times; ++i) {
            ++salt_;
            if (at.comm == nullptr) continue;
            started& s = operations_.emplace_back();
            s.at = &at;
            s.data = std::make_unique<flight>(what, at.comm->rank(), at.size);
            s.data->fill(salt_);
            s.op = s.data->issue([&](auto& collective, auto&&... args) { return collective.start(*at.comm, args...); });
        }
    }
    void prepare_one() {
        const place& at = any_site();
        const call what = random_call(shared_, at.size, 0);
        if (at.comm == nullptr) return;
        prepared& p = prepared_.emplace_back();
        p.at = &at;
        p.data = std::make_unique<flight>(what, at.comm->rank(), at.size);
        p.op = p.data->issue([&](auto& collective, auto&&... args) { return collective.prepare(*at.comm, args...); });
    }
    /// Starts all prepared operations, in this rank's own order.
    void start_prepared() {
        ++salt_;
        std::vector<prepared*> all;
        for (prepared& each : prepared_) all.push_back(&each);
        std::ranges::shuffle(all, own_);
        for (prepared* each : all) {
            if (each->at == nullptr) {
                misuse(*each, "ended");
                continue;
            }
            finish(*each);
            each->data->fill(salt_);
            each->op.start();
            each->in_flight = true;
            if (throw_below(own_, 3) == 0) misuse(*each, "in flight");
        }
    }
    void misuse(prepared& p, const std::string& why) {
        try {
            p.op.start();
        } catch (const allfold::error& e) {
            return expect(e.code() == allfold::errc::bad_argument, where_ + ": " + e.what());
        }
        expect(false, where_ + ": started, " + why);
    }

    // Teams

    static constexpr std::size_t most_sites = 9;

    void make_team() {
        const place& parent = any_site();
        std::vector<int> members(static_cast<std::size_t>(parent.size));
        std::iota(members.begin(), members.end(), 0);
        std::ranges::shuffle(members, shared_);
        members.resize(1 + throw_below(shared_, members.size()));
        if (sites_.size() >= most_sites) return;
        auto made = std::make_unique<place>();
        made->size = static_cast<int>(members.size());
        if (parent.comm != nullptr) {
            const int self = parent.comm->rank();
            const bool is_in = std::ranges::find(members, self) != members.end();
            const bool says_so = is_in || throw_below(own_, 2) == 0;
            made->own = allfold::subset(*parent.comm, says_so ? allfold::rank_list(members) : allfold::rank_list{});
            expect(static_cast<bool>(made->own) == is_in, where_ + ": who is in");
            if (is_in) expect(members[static_cast<std::size_t>(made->own->rank())] == self, where_ + ": who is who");
        }
        take_in(std::move(made));
    }
    void split() {
        const place& parent = any_site();
        const std::size_t colors = 1 + throw_below(shared_, 3);
        std::vector<int> color_of, key_of;
        for (int r = 0; r < parent.size; ++r) {
            color_of.push_back(static_cast<int>(throw_below(shared_, colors + 1)) - 1);
            key_of.push_back(static_cast<int>(throw_below(shared_, 3)));
        }
        if (sites_.size() + colors > most_sites) return;
        allfold::team<communicator> own;
        int mine = -1;
        if (parent.comm != nullptr) {
            const auto self = static_cast<std::size_t>(parent.comm->rank());
            mine = color_of[self];
            own = allfold::split(*parent.comm, allfold::color{mine}, key_of[self]);
            expect(static_cast<bool>(own) == (mine >= 0), where_ + ": no color");
        }
        for (int c = 0; c < static_cast<int>(colors); ++c) {
            auto made = std::make_unique<place>();
            made->size = static_cast<int>(std::ranges::count(color_of, c));
            if (c == mine) made->own = std::move(own);
            if (made->size > 0) take_in(std::move(made));
        }
    }
    void take_in(std::unique_ptr<place> made) {
        if (made->own) {
            made->comm = &*made->own;
            expect(made->comm->size() == made->size, where_ + ": size of a team");
        }
        sites_.push_back(std::move(made));
    }
    /// Drops a team while the teams made from it, and the communicator it was made from, live on.
    void drop_team() {
        if (sites_.size() == 2) return;
        const std::size_t which = 2 + throw_below(shared_, sites_.size() - 2);
        const place* const at = sites_[which].get();
        std::ranges::shuffle(operations_, own_);
        for (std::size_t i = operations_.size(); i > 0; --i)
            if (operations_[i - 1].at == at) finish(i - 1);
        for (prepared& each : prepared_)
            if (each.at == at) {
                finish(each);
                each.at = nullptr;
            }
        if (throw_below(own_, 2) == 0) std::erase_if(prepared_, [](const prepared& p) { return p.at == nullptr; });
        sites_.erase(sites_.begin() + static_cast<std::ptrdiff_t>(which));
    }

    // Waiting

    /// Waits for something, tests whether something is done, or sleeps.
    void look_away() {
        switch (throw_below(own_, 7)) {
            case 0: return std::this_thread::yield();
            case 1: return std::this_thread::sleep_for(std::chrono::microseconds(throw_below(own_, 200)));
            case 2:
                if (operations_.empty()) return;
                return finish(throw_below(own_, operations_.size()));
            case 3:
                if (operations_.empty()) return;
                if (const std::size_t i = throw_below(own_, operations_.size()); operations_[i].op.done()) finish(i);
                return;
            case 4:
            case 5: return wait_for_some();
            default:
                if (prepared_.empty()) return;
                return finish(prepared_[throw_below(own_, prepared_.size())]);
        }
    }
    /// Waits for some of the operations, with any of the functions that do so.
    void wait_for_some() {
        std::ranges::shuffle(operations_, own_);
        const std::size_t others = throw_below(own_, operations_.size() + 1), count = operations_.size() - others;
        std::vector<operation> handles;
        for (std::size_t i = others; i < operations_.size(); ++i) handles.push_back(std::move(operations_[i].op));
        std::vector<std::size_t> done = wait_for_some(handles);
        for (std::size_t i = 0; i < count; ++i) operations_[others + i].op = std::move(handles[i]);
        std::ranges::sort(done, std::greater<>());  // so that the others stay in place
        for (const std::size_t each : done) finish(others + each);
    }
    /// Returns those that are done.
    std::vector<std::size_t> wait_for_some(std::vector<operation>& handles) {
        const auto all = [&] {
            std::vector<std::size_t> every(handles.size());
            std::iota(every.begin(), every.end(), std::size_t{0});
            return every;
        };
        const auto one = [&](std::size_t which) {
            expect((which == handles.size()) == handles.empty(), where_ + ": any of them");
            return which == handles.size() ? std::vector<std::size_t>() : std::vector{which};
        };
        switch (throw_below(own_, 6)) {
            case 0: wait_all(handles); return all();
            case 1: return one(wait_any(handles));
            case 2: {
                std::vector<std::size_t> some = wait_some(handles);
                expect(some.empty() == handles.empty(), where_ + ": wait_some");
                return some;
            }
            case 3: return test_all(handles) ? all() : std::vector<std::size_t>();
            case 4: {
                const auto which = test_any(handles);
                return which ? one(*which) : std::vector<std::size_t>();
            }
            default: return test_some(handles);
        }
    }
    void finish(std::size_t i) {
        std::swap(operations_[i], operations_.back());
        started& s = operations_.back();
        if (throw_below(own_, 3) == 0)
            s.op = operation();  // which waits too
        else
            s.op.wait();
        s.data->verify(where_);
        if (throw_below(own_, 2) == 0) s.op.wait();  // again
        operations_.pop_back();
    }
    void finish(prepared& p) {
        p.op.wait();
        if (std::exchange(p.in_flight, false)) p.data->verify(where_);
    }
    void end() {
        while (!operations_.empty()) finish(throw_below(own_, operations_.size()));
        std::ranges::shuffle(prepared_, own_);
        for (prepared& each : prepared_) finish(each);
    }

    dice shared_, own_;
    std::string where_;
    int salt_ = 0;
    std::vector<std::unique_ptr<place>> sites_;  // declared before its users; two communicators, and teams
    std::vector<started> operations_;
    std::vector<prepared> prepared_;
};

}  // namespace test::random_programs
