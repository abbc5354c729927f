// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
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
#include "allfold/transport/rank_list.hpp"
#include "allfold/transport/team.hpp"
#include "test/support/oracle.hpp"

/// @file
/// Programs that nobody wrote: collectives in random order on two communicators and on teams that come and go, teams of
/// teams among them, several in flight, prepared ones too, and each rank waits as it likes.

namespace test::random_programs {

using allfold::operation;
using allfold::persistent;
using allfold::sum;

enum class kind : std::uint8_t {
    all_reduce,
    in_place,
    ring,
    reduce,
    scan,
    exclusive_scan,
    reduce_scatter,
    all_gather,
    gather,
    scatter,
    all_to_all,
    by_sizes,
    shift,
    mirror,
    broadcast,
    barrier
};
constexpr int kinds = 16;

using dice = std::mt19937;

inline std::size_t throw_below(dice& d, std::size_t n) {
    return std::uniform_int_distribution<std::size_t>(0, n - 1)(d);
}

/// One collective, the same on all ranks.
struct call {
    kind what = kind::barrier;
    int root = 0;       // or by how much operands are shifted
    std::size_t n = 0;  // elements of the whole operand; of a permutation, of the longest one
    int salt = 0;

    [[nodiscard]] bool permutes() const { return what == kind::shift || what == kind::mirror; }
    /// From where the operand comes that rank r of P gets.
    [[nodiscard]] int origin(int r, int P) const { return what == kind::shift ? (r - root + P) % P : P - 1 - r; }
    [[nodiscard]] std::size_t length_of(int r) const { return n / static_cast<std::size_t>(1 + r % 3); }
    /// What goes from one of P ranks to another, where only the sender knows it.
    [[nodiscard]] std::size_t length_between(int from, int to, int P) const {
        return n * static_cast<std::size_t>((from + 2 * to + salt) % 3) / static_cast<std::size_t>(P);
    }
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
        in_.resize(input_length());
        out_.resize(output_length());
        fill(what.salt);
    }
    void fill(int salt) {
        what_.salt = salt;
        if (what_.what == kind::by_sizes) find_sizes();
        const bool gathers = what_.what == kind::all_gather || what_.what == kind::gather;
        const std::size_t first = gathers ? blocks().offset(rank_) : 0;
        for (std::size_t i = 0; i < in_.size(); ++i) in_[i] = contribution(what_, rank_, first + i);
        std::ranges::fill(out_, -1);
        if (what_.what == kind::broadcast || what_.what == kind::in_place) out_ = in_;
    }
    /// use(collective, arguments...)
    template <class Use>
    auto issue(Use use) {
        const allfold::root root{what_.root};
        switch (what_.what) {
            case kind::all_reduce: return use(allfold::all_reduce, in_, out_, sum());
            case kind::in_place: return use(allfold::all_reduce, out_, sum());
            case kind::ring: return use(allfold::all_reduce, in_, out_, sum(), allfold::ring());
            case kind::reduce: return use(allfold::reduce, in_, out_, sum(), root);
            case kind::scan: return use(allfold::inclusive_scan, in_, out_, sum());
            case kind::exclusive_scan: return use(allfold::exclusive_scan, in_, out_, sum());
            case kind::reduce_scatter: return use(allfold::reduce_scatter, in_, out_, sum());
            case kind::all_gather: return use(allfold::all_gather, in_, out_);
            case kind::gather: return use(allfold::gather, in_, out_, root, blocks());
            case kind::scatter: return use(allfold::scatter, in_, out_, root, blocks());
            case kind::all_to_all: return use(allfold::all_to_all, in_, out_);
            case kind::by_sizes: return use(allfold::all_to_all, in_, sizes_, out_, came_);
            case kind::shift: return use(allfold::permute, in_, out_, allfold::shift{what_.root});
            case kind::mirror: return use(allfold::permute, in_, out_, mirrored());
            case kind::broadcast: return use(allfold::broadcast, out_, root);
            case kind::barrier: break;
        }
        return use(allfold::barrier);
    }
    void verify(const std::string& where) const {
        if (what_.what == kind::barrier || (has_result_at_root_only() && rank_ != what_.root)) return;
        expect(what_.what != kind::by_sizes || (out_.size() == expected_.total() && came_ == expected_),
               where + ": what has arrived");
        for (std::size_t i = 0; i < out_.size(); ++i)
            if (out_[i] != expected(i))
                throw wrong(where + ", collective " + std::to_string(static_cast<int>(what_.what)) + " of " +
                            std::to_string(what_.n) + ", salt " + std::to_string(what_.salt) + ", element " +
                            std::to_string(i) + " is " + std::to_string(out_[i]));
    }

  private:
    void find_sizes() {
        std::vector<std::size_t> coming;
        sizes_.clear();
        for (int r = 0; r < size_; ++r) {
            sizes_.push_back(what_.length_between(rank_, r, size_));
            coming.push_back(what_.length_between(r, rank_, size_));
        }
        in_.resize(std::accumulate(sizes_.begin(), sizes_.end(), std::size_t{0}));
        expected_ = allfold::partition::sizes(coming);
        out_.assign(static_cast<std::size_t>(what_.salt) % 2 * 10, -1);
    }
    [[nodiscard]] allfold::partition blocks() const { return allfold::partition::even(what_.n, size_); }
    [[nodiscard]] bool has_result_at_root_only() const {
        return what_.what == kind::reduce || what_.what == kind::gather;
    }
    [[nodiscard]] std::size_t input_length() const {
        if (what_.permutes()) return what_.length_of(rank_);
        if (what_.what == kind::scatter && rank_ != what_.root) return 0;
        const bool gathers = what_.what == kind::all_gather || what_.what == kind::gather;
        return gathers ? blocks().extent(rank_) : what_.n;
    }
    [[nodiscard]] std::size_t output_length() const {
        if (what_.permutes()) return what_.length_of(what_.origin(rank_, size_));
        if (has_result_at_root_only() && rank_ != what_.root) return 0;
        const bool scatters = what_.what == kind::reduce_scatter || what_.what == kind::scatter;
        return scatters ? blocks().extent(rank_) : what_.n;
    }
    [[nodiscard]] allfold::destinations mirrored() const {
        std::vector<int> list;
        for (int r = 0; r < size_; ++r) list.push_back(size_ - 1 - r);
        return allfold::destinations(std::move(list));
    }
    /// In whose block of the whole an element lies.
    [[nodiscard]] int owner_of(std::size_t i) const {
        int owner = 0;
        while (blocks().offset(owner + 1) <= i) ++owner;
        return owner;
    }
    [[nodiscard]] long expected(std::size_t i) const {
        switch (what_.what) {
            case kind::scan: return sum_below(what_, rank_ + 1, i);
            case kind::exclusive_scan: return sum_below(what_, rank_, i);
            case kind::reduce_scatter: return sum_below(what_, size_, blocks().offset(rank_) + i);
            case kind::scatter: return contribution(what_, what_.root, blocks().offset(rank_) + i);
            case kind::broadcast: return contribution(what_, what_.root, i);
            case kind::all_gather:
            case kind::gather: return contribution(what_, owner_of(i), i);
            case kind::all_to_all: {
                const std::size_t each = what_.n / static_cast<std::size_t>(size_);
                const auto sender = static_cast<int>(i / each);
                return contribution(what_, sender, static_cast<std::size_t>(rank_) * each + i % each);
            }
            case kind::by_sizes: {
                int sender = 0;
                while (expected_.bounds_of(sender).end <= i) ++sender;
                std::size_t before = 0;  // in what it sends
                for (int r = 0; r < rank_; ++r) before += what_.length_between(sender, r, size_);
                return contribution(what_, sender, before + i - expected_.offset(sender));
            }
            case kind::shift:
            case kind::mirror: return contribution(what_, what_.origin(rank_, size_), i);
            default: return sum_below(what_, size_, i);
        }
    }

    call what_;
    int rank_;
    int size_;
    std::vector<long> in_, out_;
    std::vector<std::size_t> sizes_;  // where each rank knows only what it sends
    allfold::partition came_ = allfold::partition::even(0, 1), expected_ = came_;
};

inline call random_call(dice& d, int size, int salt) {
    const auto p = static_cast<std::size_t>(size);
    call c{static_cast<kind>(throw_below(d, kinds)), static_cast<int>(throw_below(d, p)), 0, salt};
    constexpr std::array<std::size_t, 9> lengths{0, 1, 3, 100, 1000, 4100, 9000, 30000, 70000};
    c.n = lengths[throw_below(d, lengths.size())];
    if (c.what == kind::all_to_all) c.n -= c.n % p;
    return c;
}

/// A communicator of the program, known to all ranks, whether they are in it or not.
template <class communicator>
struct site {
    int size = 0;
    communicator* comm = nullptr;       // null at a rank that is not in it
    allfold::team<communicator> own{};  // of which that is the communicator, where it is a team
};

/// One rank's run of the program that a seed makes.
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
        const place* at;  // null once that is gone
        std::unique_ptr<flight> data;
        persistent op;
        bool in_flight = false;
    };

    /// All that the ranks must agree about is thrown with the shared dice; each throws the same, also for what happens
    /// in teams that it is not in.
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
        const std::size_t times = 1 + throw_below(shared_, 3);  // the next ones are remembered
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
    /// All of them, in an order of this rank's own.
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
    /// While all that was made of it, and that of which it was made, goes on.
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

    /// Waits for something, or asks whether it is done, or sleeps.
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
    /// For some of the operations, by any of the functions that do so.
    void wait_for_some() {
        std::ranges::shuffle(operations_, own_);
        const std::size_t others = throw_below(own_, operations_.size() + 1), count = operations_.size() - others;
        std::vector<operation> handles;
        for (std::size_t i = others; i < operations_.size(); ++i) handles.push_back(std::move(operations_[i].op));
        std::vector<std::size_t> done = wait_for_some(handles);
        for (std::size_t i = 0; i < count; ++i) operations_[others + i].op = std::move(handles[i]);
        std::ranges::sort(done, std::greater<>());  // the rest stays where it is
        for (const std::size_t each : done) finish(others + each);
    }
    /// Those that are done.
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
    std::vector<std::unique_ptr<place>> sites_;  // before what uses them; two, and teams
    std::vector<started> operations_;
    std::vector<prepared> prepared_;
};

}  // namespace test::random_programs
