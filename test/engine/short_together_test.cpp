// SPDX-License-Identifier: BSL-1.0
#include "allfold/engine/short_together.hpp"

#include <cstddef>
#include <random>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/algebra/fused.hpp"
#include "allfold/algebra/mean.hpp"
#include "allfold/collective.hpp"
#include "allfold/data/records.hpp"
#include "test/support/algebras.hpp"
#include "test/support/catch.hpp"
#include "test/support/oracle.hpp"
#include "test/support/ranks.hpp"
#include "test/support/short_calls.hpp"

/// @file
/// Collectives that are called together again and again. Other ranks cannot tell whether one runs them like this.

using namespace test;
using communicator = allfold::thread_communicator;

namespace {

constexpr int turns = 4;

/// Operands of several collectives, with other values in each turn.
class repeated_parts {
  public:
    static constexpr std::uint64_t count = 6;

    repeated_parts(const communicator& comm, std::size_t length)
        : rank_(comm.rank()), size_(comm.size()), n_(length), sent_(n_ * ranks()), received_(sent_) {}

    /// Passes the parts to `call`.
    template <class Call>
    decltype(auto) with(Call call) {
        return call(allfold::all_reduce.with(matrices_, product_, matrices::operation()),
                    allfold::all_to_all.with(sent_, received_),
                    allfold::inclusive_scan.with(prefix_, matrices::operation()),
                    allfold::all_reduce.with(allfold::records(largest_, total_),
                                             allfold::fused{allfold::max(), allfold::sum()}),
                    allfold::broadcast.with(from_last_, allfold::root{size_ - 1}),
                    allfold::all_reduce.with(average_, allfold::mean()));
    }
    void fill(int turn) {
        turn_ = turn;
        matrices_.clear();
        for (std::size_t i = 0; i < n_; ++i) matrices_.push_back(sample(rank_, i));
        prefix_ = matrices_;
        product_.assign(n_, {});
        largest_.assign(n_, rank_ + turn);
        total_.assign(n_, 2 * rank_ + turn);
        for (std::size_t i = 0; i < sent_.size(); ++i) sent_[i] = block(rank_, static_cast<int>(i / n_));
        received_.assign(sent_.size(), -1);
        from_last_ = rank_ == size_ - 1 ? 100 + turn : -1;
        average_ = rank_ + turn;
    }
    void expect_results(const std::string& where) const {
        std::vector<matrix> prefix, product;
        for (std::size_t i = 0; i < n_; ++i) {
            matrix fold = sample(0, i);
            if (rank_ == 0) prefix.push_back(fold);
            for (int r = 1; r < size_; ++r) {
                fold = fold * sample(r, i);
                if (r == rank_) prefix.push_back(fold);
            }
            product.push_back(fold);
        }
        expect(product_ == product, where + ": all_reduce");
        expect(prefix_ == prefix, where + ": inclusive_scan");
        expect(largest_ == std::vector<int>(n_, size_ - 1 + turn_), where + ": max of records");
        expect(total_ == std::vector<long>(n_, size_ * (size_ - 1) + size_ * turn_), where + ": sum of records");
        for (std::size_t i = 0; i < received_.size(); ++i)
            expect(received_[i] == block(static_cast<int>(i / n_), rank_), where + ": all_to_all");
        expect(from_last_ == 100 + turn_, where + ": broadcast");
        expect(average_ == (size_ - 1) / 2.0 + turn_, where + ": mean");
    }

  private:
    [[nodiscard]] matrix sample(int rank, std::size_t i) const { return matrices::sample(rank + turn_, i); }
    [[nodiscard]] int block(int from, int to) const { return 1000 * turn_ + 20 * from + to; }
    [[nodiscard]] std::size_t ranks() const { return static_cast<std::size_t>(size_); }

    int rank_, size_, turn_ = 0;
    std::size_t n_;
    std::vector<matrix> matrices_, product_, prefix_;
    std::vector<int> largest_, sent_, received_;
    std::vector<long> total_;
    int from_last_ = 0;
    double average_ = 0;
};

void call_together(communicator& comm, repeated_parts& all) {
    all.with([&](auto&&... parts) { allfold::together(comm, std::move(parts)...); });
}
/// How many remembered calls it takes.
std::uint64_t remembered_calls(communicator& comm, repeated_parts& all) {
    const std::uint64_t before = short_calls_of(comm);
    call_together(comm, all);
    return short_calls_of(comm) - before;
}

}  // namespace

TEST_CASE("collectives that are called together again are remembered") {
    for (const int size : {1, 2, 3, 4, 5, 8, 13})
        for (const std::size_t n : {std::size_t{1}, std::size_t{3}})
            on_ranks(size, [&](communicator& comm) {
                repeated_parts all(comm, n);
                for (int turn = 0; turn < turns; ++turn) {
                    all.fill(turn);
                    const std::uint64_t found = remembered_calls(comm, all);
                    if (turn > 0 && size > 1)  // a rank on its own has no messages
                        expect(found == repeated_parts::count, std::to_string(found) + " calls were found");
                    all.expect_results("turn " + std::to_string(turn));
                }
            });
    SUCCEED();
}

TEST_CASE("nobody can tell which way a rank runs collectives together") {
    const unsigned seed = std::random_device{}();
    INFO("seed " << seed);
    for (const auto& tuning : {allfold::thread_tuning{}, impatient})
        for (const int size : {2, 3, 5})
            on_ranks(
                size,
                [&](communicator& comm) {
                    std::mt19937 dice(seed + static_cast<unsigned>(comm.rank()));  // each rank has its own
                    repeated_parts all(comm, 2);
                    std::vector<int> other(3, 1);
                    for (int turn = 0; turn < 50; ++turn) {
                        all.fill(turn);
                        const auto way = dice() % 3;
                        allfold::operation in_flight = allfold::all_reduce.start(comm, other, allfold::max());
                        if (way == 0) in_flight.wait();  // only then the rest may go the short way
                        if (way == 2)
                            all.with(
                                [&](auto&&... parts) { allfold::together.start(comm, std::move(parts)...).wait(); });
                        else
                            call_together(comm, all);
                        if (way != 0) in_flight.wait();
                        all.expect_results("turn " + std::to_string(turn));
                    }
                },
                tuning);
    SUCCEED();
}

TEST_CASE("a collective that is not remembered takes those along with which it is called") {
    on_ranks(3, [](communicator& comm) {
        for (int turn = 0; turn < turns; ++turn) {
            std::vector<int> few(4, 1), many(50'000, turn);
            allfold::together(comm, allfold::all_reduce.with(few, allfold::sum()),
                              allfold::all_reduce.with(many, allfold::sum()));
            expect(few == std::vector<int>(4, 3) && many == std::vector<int>(50'000, 3 * turn), "wrong sums");
        }
    });
    SUCCEED();
}

TEST_CASE("a rank that calls fewer collectives together is told, and so are the others") {
    for (const int fewer : {0, 1, 2}) {
        const auto outcomes = outcomes_on_ranks(3, [&](communicator& comm) {
            int x = 1, y = 1;
            const auto both = [&] {
                allfold::together(comm, allfold::all_reduce.with(x, allfold::sum()),
                                  allfold::all_reduce.with(y, allfold::max()));
            };
            for (int turn = 0; turn < turns; ++turn) both();
            if (comm.rank() == fewer)
                allfold::together(comm, allfold::all_reduce.with(y, allfold::max()));
            else
                both();
            allfold::barrier(comm);
        });
        bool is_told = false;
        for (const outcome& each : outcomes) {
            CHECK(!each.succeeded());
            is_told |= each.code == allfold::errc::mismatch;
        }
        CHECK(is_told);
    }
}

TEST_CASE("ranks that wait for each other in different collectives together are told") {
    const auto outcomes = outcomes_on_ranks(2, [](communicator& comm) {
        int x = 1, y = 1;
        const auto from = [&](int root) {
            allfold::together(comm, allfold::broadcast.with(x, allfold::root{root}),
                              allfold::broadcast.with(y, allfold::root{root}));
        };
        for (int turn = 0; turn < turns; ++turn)
            for (const int root : {0, 1}) from(root);
        from(1 - comm.rank());
    });
    for (const outcome& each : outcomes) CHECK(!each.succeeded());
    const std::string both = outcomes[0].text + outcomes[1].text;
    CHECK(both.find("rank 0 names root 1, but rank 1 names root 0") != std::string::npos);
}

TEST_CASE("an operator that throws in one of several remembered collectives ends all of them on all ranks") {
    struct boom : std::runtime_error {
        boom() : std::runtime_error("boom") {}
    };
    const auto outcomes = outcomes_on_ranks(3, [](communicator& comm) {
        int turn = 0;
        const auto fails = allfold::associative([&turn](int a, int b) { return turn < turns ? a + b : throw boom(); });
        for (; turn <= turns; ++turn) {
            int x = 1, y = 1;
            allfold::together(comm, allfold::all_reduce.with(x, allfold::sum()), allfold::all_reduce.with(y, fails));
        }
    });
    bool is_heard = false;
    for (const outcome& each : outcomes) {
        CHECK(!each.succeeded());
        is_heard |= each.text == "boom";
    }
    CHECK(is_heard);
}

TEST_CASE("wrong arguments among collectives that are called together are told as ever") {
    const auto outcomes = outcomes_on_ranks(2, [](communicator& comm) {
        for (int turn = 0; turn <= turns; ++turn) {
            int x = 1;
            std::vector<int> in(2, 1), out(turn < turns ? 4 : 3);
            allfold::together(comm, allfold::all_reduce.with(x, allfold::sum()), allfold::all_gather.with(in, out));
        }
    });
    for (const outcome& each : outcomes) CHECK(!each.succeeded());
    const bool is_told = outcomes[0].text.find("all_gather") != std::string::npos ||
                         outcomes[1].text.find("all_gather") != std::string::npos;
    CHECK(is_told);
}
