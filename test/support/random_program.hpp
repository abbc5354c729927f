// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/collective.hpp"
#include "allfold/data/partition.hpp"
#include "allfold/engine/operation.hpp"
#include "allfold/error.hpp"
#include "allfold/schedule/ring.hpp"
#include "test/support/oracle.hpp"

/// @file
/// Programs that nobody wrote: collectives in random order on two communicators, several in flight, prepared ones
/// among them, and each rank waits as it likes.

namespace test::random_programs {

using allfold::operation;
using allfold::persistent;
using allfold::sum;

enum class kind : std::uint8_t { all_reduce, ring, scan, reduce_scatter, all_gather, broadcast, barrier };
constexpr int kinds = 7;

using dice = std::mt19937;

inline std::size_t throw_below(dice& d, std::size_t n) {
    return std::uniform_int_distribution<std::size_t>(0, n - 1)(d);
}

/// One collective, the same on all ranks.
struct call {
    kind what = kind::barrier;
    int root = 0;
    std::size_t n = 0;  // elements of the whole operand
    int salt = 0;
};

/// What rank r contributes at `i`.
inline long contribution(const call& c, int r, std::size_t i) {
    return static_cast<long>(r + 1) * 7 + c.salt * 13 + static_cast<long>(i % 5);
}
/// The sum of what the ranks below `end` contribute.
inline long sum_below(const call& c, int end, std::size_t i) {
    long total = 0;
    for (int r = 0; r < end; ++r) total += contribution(c, r, i);
    return total;
}

/// A call with this rank's data.
class flight {
  public:
    flight(const call& what, int rank, int size) : what_(what), rank_(rank), size_(size) {
        const bool gathers = what.what == kind::all_gather;
        in_.resize(gathers ? blocks().extent(rank) : what.n);
        out_.resize(what.what == kind::reduce_scatter ? blocks().extent(rank) : what.n);
        fill(what.salt);
    }
    void fill(int salt) {
        what_.salt = salt;
        const std::size_t first = what_.what == kind::all_gather ? blocks().offset(rank_) : 0;
        for (std::size_t i = 0; i < in_.size(); ++i) in_[i] = contribution(what_, rank_, first + i);
        std::ranges::fill(out_, -1);
        if (what_.what == kind::broadcast) out_ = in_;
    }
    /// use(collective, arguments...)
    template <class Use>
    auto issue(Use use) {
        switch (what_.what) {
            case kind::all_reduce: return use(allfold::all_reduce, in_, out_, sum());
            case kind::ring: return use(allfold::all_reduce, in_, out_, sum(), allfold::ring());
            case kind::scan: return use(allfold::inclusive_scan, in_, out_, sum());
            case kind::reduce_scatter: return use(allfold::reduce_scatter, in_, out_, sum());
            case kind::all_gather: return use(allfold::all_gather, in_, out_);
            case kind::broadcast: return use(allfold::broadcast, out_, allfold::root{what_.root});
            case kind::barrier: break;
        }
        return use(allfold::barrier);
    }
    void verify(const std::string& where) const {
        if (what_.what == kind::barrier) return;
        for (std::size_t i = 0; i < out_.size(); ++i)
            if (out_[i] != expected(i))
                throw wrong(where + ", collective " + std::to_string(static_cast<int>(what_.what)) + " of " +
                            std::to_string(what_.n) + ", salt " + std::to_string(what_.salt) + ", element " +
                            std::to_string(i) + " is " + std::to_string(out_[i]));
    }

  private:
    [[nodiscard]] allfold::partition blocks() const { return allfold::partition::even(what_.n, size_); }
    [[nodiscard]] long expected(std::size_t i) const {
        switch (what_.what) {
            case kind::scan: return sum_below(what_, rank_ + 1, i);
            case kind::reduce_scatter: return sum_below(what_, size_, blocks().offset(rank_) + i);
            case kind::broadcast: return contribution(what_, what_.root, i);
            case kind::all_gather: {
                int owner = 0;
                while (blocks().offset(owner + 1) <= i) ++owner;
                return contribution(what_, owner, i);
            }
            default: return sum_below(what_, size_, i);
        }
    }

    call what_;
    int rank_;
    int size_;
    std::vector<long> in_, out_;
};

inline call random_call(dice& d, int size, int salt) {
    const auto p = static_cast<std::size_t>(size);
    call c{static_cast<kind>(throw_below(d, kinds)), static_cast<int>(throw_below(d, p)), 0, salt};
    constexpr std::array<std::size_t, 9> lengths{0, 1, 3, 100, 1000, 4100, 9000, 30000, 70000};
    c.n = lengths[throw_below(d, lengths.size())];
    return c;
}

/// One rank's run of the program that a seed makes.
template <class communicator>
class runner {
  public:
    runner(unsigned seed, communicator& a, communicator& b)
        : shared_(seed),
          own_(seed * 1000 + static_cast<unsigned>(a.rank())),
          comms_{&a, &b},
          where_("seed " + std::to_string(seed) + ", rank " + std::to_string(a.rank())) {}

    void run() {
        prepare_some();
        const std::size_t steps = 10 + throw_below(shared_, 25);
        for (std::size_t i = 0; i < steps; ++i) {
            step();
            for (std::size_t turns = throw_below(own_, 4); turns > 0; --turns) look_away();
        }
        end();
    }

  private:
    struct started {
        std::unique_ptr<flight> data;
        operation op;
    };
    struct prepared {
        std::unique_ptr<flight> data;
        persistent op;
        bool in_flight = false;
    };

    /// All that the ranks must agree about is thrown with the shared dice; each throws the same.
    void step() {
        communicator& comm = *comms_[throw_below(shared_, 2)];
        const std::size_t what = throw_below(shared_, 8);
        if (what == 0) return start_prepared();
        flight f(random_call(shared_, comm.size(), ++salt_), comm.rank(), comm.size());
        if (what < 3) {
            for (std::size_t times = 1 + throw_below(shared_, 3); times > 0; --times) {  // the next ones are remembered
                f.fill(++salt_);
                f.issue([&](auto& collective, auto&&... args) { collective(comm, args...); });
                f.verify(where_);
            }
            return;
        }
        for (std::size_t times = 1 + throw_below(shared_, 3); times > 0; --times) {
            f.fill(++salt_);
            started& s = operations_.emplace_back();
            s.data = std::make_unique<flight>(f);
            s.op = s.data->issue([&](auto& collective, auto&&... args) { return collective.start(comm, args...); });
        }
    }
    void prepare_some() {
        for (std::size_t i = throw_below(shared_, 5); i > 0; --i) {
            communicator& comm = *comms_[throw_below(shared_, 2)];
            prepared& p = prepared_.emplace_back();
            p.data = std::make_unique<flight>(random_call(shared_, comm.size(), 0), comm.rank(), comm.size());
            p.op = p.data->issue([&](auto& collective, auto&&... args) { return collective.prepare(comm, args...); });
        }
    }
    /// All of them, in an order of this rank's own.
    void start_prepared() {
        ++salt_;
        std::vector<prepared*> all;
        for (prepared& each : prepared_) all.push_back(&each);
        std::ranges::shuffle(all, own_);
        for (prepared* each : all) {
            finish(*each);
            each->data->fill(salt_);
            each->op.start();
            each->in_flight = true;
            if (throw_below(own_, 3) == 0) misuse(*each);
        }
    }
    void misuse(prepared& p) {
        try {
            p.op.start();
        } catch (const allfold::error& e) {
            return expect(e.code() == allfold::errc::bad_argument, where_ + ": " + e.what());
        }
        expect(false, where_ + ": started while in flight");
    }

    /// Waits for something, or asks whether it is done, or sleeps.
    void look_away() {
        switch (throw_below(own_, 6)) {
            case 0: return std::this_thread::yield();
            case 1: return std::this_thread::sleep_for(std::chrono::microseconds(throw_below(own_, 200)));
            case 2:
                if (operations_.empty()) return;
                return finish(throw_below(own_, operations_.size()));
            case 3:
                if (operations_.empty()) return;
                if (const std::size_t i = throw_below(own_, operations_.size()); operations_[i].op.done()) finish(i);
                return;
            case 4: return wait_for_some();
            default:
                if (prepared_.empty()) return;
                return finish(prepared_[throw_below(own_, prepared_.size())]);
        }
    }
    void wait_for_some() {
        std::vector<operation> handles;
        for (started& each : operations_) handles.push_back(std::move(each.op));
        const std::size_t which = wait_any(handles);
        expect((which == handles.size()) == handles.empty(), where_ + ": wait_any");
        for (std::size_t i = 0; i < handles.size(); ++i) operations_[i].op = std::move(handles[i]);
        if (which < operations_.size()) finish(which);
    }
    void finish(std::size_t i) {
        std::swap(operations_[i], operations_.back());
        operations_.back().op.wait();
        operations_.back().data->verify(where_);
        if (throw_below(own_, 2) == 0) operations_.back().op.wait();  // again
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
    std::array<communicator*, 2> comms_;
    std::string where_;
    int salt_ = 0;
    std::vector<started> operations_;
    std::vector<prepared> prepared_;
};

}  // namespace test::random_programs
