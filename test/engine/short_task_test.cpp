// SPDX-License-Identifier: BSL-1.0
#include "allfold/engine/short_task.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/algebra/mean.hpp"
#include "allfold/algebra/operator.hpp"
#include "allfold/collective.hpp"
#include "allfold/data/raw_rows.hpp"
#include "allfold/data/records.hpp"
#include "allfold/data/tensor_view.hpp"
#include "allfold/engine/operation.hpp"
#include "allfold/error.hpp"
#include "test/support/algebras.hpp"
#include "test/support/catch.hpp"
#include "test/support/oracle.hpp"
#include "test/support/ranks.hpp"
#include "test/support/short_calls.hpp"

/// @file
/// Started and prepared calls that their communicator remembers.

using namespace test;
using allfold::operation;
using allfold::persistent;
using communicator = allfold::thread_communicator;

namespace {

int sum_of_ranks(int size) { return size * (size - 1) / 2; }

/// Everything that one rank has in flight at once: each collective, with operands of its own.
class everything {
  public:
    everything(communicator& comm, std::size_t n, int salt)
        : comm_(comm),
          salt_(salt),
          blocks_(allfold::partition::even(n, comm.size())),
          in_(n),
          sums_(n),
          prefixes_(n),
          earlier_(n),
          at_root_(n),
          block_(blocks_.extent(comm.rank())),
          gathered_(n),
          from_root_(n) {
        fill(salt);
    }
    void fill(int salt) {
        salt_ = salt;
        for (std::size_t i = 0; i < in_.size(); ++i) in_[i] = sample(comm_.rank(), i);
        std::ranges::fill(sums_, matrix{});
        std::ranges::fill(gathered_, matrix{});
        own_.assign(in_.begin() + static_cast<std::ptrdiff_t>(blocks_.offset(comm_.rank())),
                    in_.begin() + static_cast<std::ptrdiff_t>(blocks_.offset(comm_.rank() + 1)));
        from_root_ = in_;
    }
    /// Calls use(collective, arguments...) for each collective.
    template <class Use>
    void for_each(Use use) {
        const auto op = matrices::operation();
        const std::span<const matrix> in(in_), own(own_);
        use(allfold::all_reduce, in, std::span(sums_), op);
        use(allfold::inclusive_scan, in, std::span(prefixes_), op);
        use(allfold::exclusive_scan, in, std::span(earlier_), op);
        use(allfold::reduce, in, std::span(at_root_), op, allfold::root{comm_.size() / 2});
        use(allfold::reduce_scatter, in, std::span(block_), op);
        use(allfold::all_gather, own, std::span(gathered_));
        use(allfold::broadcast, std::span(from_root_), allfold::root{comm_.size() - 1});
        use(allfold::barrier);
    }
    void verify(const std::string& where) const {
        const int size = comm_.size(), self = comm_.rank();
        for (std::size_t i = 0; i < in_.size(); ++i) {
            const matrix all = folded(size, i);
            expect(sums_[i] == all, where + ": all_reduce");
            expect(prefixes_[i] == folded(self + 1, i), where + ": inclusive_scan");
            if (self > 0) expect(earlier_[i] == folded(self, i), where + ": exclusive_scan");
            if (self == size / 2) expect(at_root_[i] == all, where + ": reduce");
            expect(from_root_[i] == sample(size - 1, i), where + ": broadcast");
        }
        for (std::size_t i = 0; i < block_.size(); ++i)
            expect(block_[i] == folded(size, blocks_.offset(self) + i), where + ": reduce_scatter");
        for (int r = 0; r < size; ++r)
            for (std::size_t i = blocks_.offset(r); i < blocks_.offset(r + 1); ++i)
                expect(gathered_[i] == sample(r, i), where + ": all_gather");
    }

  private:
    [[nodiscard]] matrix sample(int rank, std::size_t i) const {
        return matrices::sample(rank, i + static_cast<std::size_t>(salt_));
    }
    [[nodiscard]] matrix folded(int ranks, std::size_t i) const {
        matrix all = sample(0, i);
        for (int r = 1; r < ranks; ++r) all = all * sample(r, i);
        return all;
    }

    communicator& comm_;
    int salt_;
    allfold::partition blocks_;
    std::vector<matrix> in_, sums_, prefixes_, earlier_, at_root_, block_, own_, gathered_, from_root_;
};

/// A tensor wrongly declared to be a view: it owns its elements.
struct owning_tensor {
    using element_type = int;
    static constexpr std::size_t rank() { return 1; }
    [[nodiscard]] std::size_t extent(std::size_t) const { return elements.size(); }
    [[nodiscard]] static std::ptrdiff_t stride(std::size_t) { return 1; }
    [[nodiscard]] int* data() const { return const_cast<int*>(elements.data()); }
    std::vector<int> elements;
};

#ifdef ALLFOLD_TEST_SANITIZED
constexpr int sizes_here[] = {2, 3, 5};
#else
constexpr int sizes_here[] = {2, 3, 4, 5, 6, 7, 8, 12, 13, 16};
#endif

}  // namespace

TEST_CASE("started calls that are made again fold other data in rank order, all in flight at once") {
    for (const auto& tuning : {allfold::thread_tuning{}, impatient, noticing})
        for (const int P : sizes_here)
            on_ranks(
                P,
                [&](communicator& comm) {
                    for (const std::size_t n :
                         {std::size_t{0}, std::size_t{1}, static_cast<std::size_t>(P) + 1, std::size_t{100}}) {
                        std::vector<everything> turns;
                        std::vector<operation> started;
                        turns.reserve(4);
                        for (int turn = 0; turn < 4; ++turn)
                            turns.emplace_back(comm, n, turn).for_each([&](auto& collective, auto&&... args) {
                                started.push_back(collective.start(comm, args...));
                            });
                        if (comm.rank() % 2 == 0) std::ranges::reverse(started);
                        wait_all(started);
                        for (const everything& each : turns)
                            each.verify("P = " + std::to_string(P) + ", n = " + std::to_string(n));
                    }
                },
                tuning);
    SUCCEED();
}

TEST_CASE("prepared calls of a few elements are started again and again, on each rank in an order of its own") {
    for (const auto& tuning : {allfold::thread_tuning{}, impatient, noticing})
        for (const int P : sizes_here)
            on_ranks(
                P,
                [&](communicator& comm) {
                    everything all(comm, static_cast<std::size_t>(P) + 2, 0);
                    std::vector<persistent> prepared;
                    all.for_each([&](auto& collective, auto&&... args) {
                        prepared.push_back(collective.prepare(comm, args...));
                    });
                    for (int turn = 0; turn < 6; ++turn) {
                        all.fill(turn);
                        const auto first = static_cast<std::size_t>(comm.rank() + turn);
                        for (std::size_t i = 0; i < prepared.size(); ++i)
                            prepared[(first + i) % prepared.size()].start();
                        if (turn % 2 == 0)
                            wait_all(prepared);
                        else
                            for (std::size_t i = prepared.size(); i-- > 0;)
                                while (!prepared[i].done()) std::this_thread::yield();
                        all.verify("P = " + std::to_string(P) + ", turn " + std::to_string(turn));
                        allfold::barrier(comm);  // no rank refills data that others still wait for
                    }
                },
                tuning);
    SUCCEED();
}

TEST_CASE("operations that one rank starts early do not block those that others wait for") {
    on_ranks(2, [](communicator& comm) {
        constexpr std::size_t count = 120;  // more than a channel holds and its receiver keeps
        std::vector<int> x(count);
        std::vector<persistent> prepared;
        for (int& each : x) prepared.push_back(allfold::all_reduce.prepare(comm, each, allfold::sum()));
        for (int turn = 0; turn < 3; ++turn) {
            x.assign(count, comm.rank() + turn);
            if (comm.rank() == 0)
                for (persistent& each : prepared) each.start();
            for (std::size_t i = count; i-- > 0; prepared[i].wait())
                if (comm.rank() == 1) prepared[i].start();
            expect(x == std::vector<int>(count, 1 + 2 * turn), "wrong sums");
        }
    });
    SUCCEED();
}

TEST_CASE("messages that have arrived for an aborted call are released") {
    std::array<operation, 3> left;
    std::array<std::vector<matrix>, 3> x;
    std::atomic<int> ready = 0;  // until all are ready, no rank may fail: another may still wait for it
    const auto outcomes = outcomes_on_ranks(3, [&](communicator& comm) {
        const auto self = static_cast<std::size_t>(comm.rank());
        x[self].resize(20);
        const auto start = [&] { return allfold::all_reduce.start(comm, x[self], matrices::operation()); };
        for (int turn = 0; turn < 3; ++turn) start().wait();
        if (self < 2) left[self] = start();
        for (++ready; ready < 3;) std::this_thread::yield();
        if (self == 0)
            for (int i = 0; i < 200; ++i) {
                std::this_thread::yield();
                static_cast<void>(left[0].done());
            }
    });
    INFO(outcomes[1].text << outcomes[2].text);
    CHECK((outcomes[1].succeeded() && outcomes[2].succeeded()));
    for (std::size_t r = 0; r < 2; ++r) CHECK_THROWS_AS(left[r].wait(), allfold::error);
}

TEST_CASE("a started call is remembered, by calls as well, and the other way round") {
    on_ranks(2, [](communicator& comm) {
        int x = 0;
        const auto started = [&] { allfold::all_reduce.start(comm, x, allfold::sum()).wait(); };
        const auto called = [&] { allfold::all_reduce(comm, x, allfold::sum()); };
        started();
        expect(short_calls_of(comm) == 0, "the first one");
        started();
        expect(short_calls_of(comm) == 1, "started again");
        called();
        expect(short_calls_of(comm) == 2, "called after it was started");
        allfold::all_reduce(comm, x, allfold::max());
        allfold::all_reduce.start(comm, x, allfold::max()).wait();
        expect(short_calls_of(comm) == 3, "started after it was called");
        const persistent prepared = allfold::all_reduce.prepare(comm, x, allfold::max());
        expect(short_calls_of(comm) == 4, "prepared after it was called");
        allfold::all_reduce.start(comm, x, allfold::max(), allfold::deadline{std::chrono::hours(1)}).wait();
        expect(short_calls_of(comm) == 4, "one with a deadline is the engine's");
    });
    SUCCEED();
}

TEST_CASE("a call in flight goes on when its communicator has forgotten it") {
    for (const int P : {2, 3})
        on_ranks(P, [](communicator& comm) {
            constexpr std::size_t others = 100;
            int x = 0, again = 0;
            allfold::all_reduce.start(comm, x, allfold::sum()).wait();
            persistent prepared = allfold::all_reduce.prepare(comm, again, allfold::sum());
            for (int turn = 0; turn < 3; ++turn) {
                x = again = comm.rank();
                operation op = allfold::all_reduce.start(comm, x, allfold::sum());
                prepared.start();
                for (std::size_t n = 1; n < others; ++n) {
                    std::vector<int> y(n, 1);
                    allfold::all_reduce.start(comm, y, allfold::sum()).wait();
                    expect(y.back() == comm.size(), "wrong sum of ones");
                }
                op.wait();
                prepared.wait();
                expect(x == sum_of_ranks(comm.size()) && again == x, "wrong sum of ranks");
            }
        });
    SUCCEED();
}

TEST_CASE("many more short calls can be in flight than a channel has cells") {
    for (const auto& tuning : {allfold::thread_tuning{}, impatient})
        for (const int P : {2, 3, 5})
            on_ranks(
                P,
                [](communicator& comm) {
                    constexpr std::size_t count = 300;
                    std::vector<std::array<int, 2>> data(count);
                    std::vector<operation> started;
                    for (std::size_t i = 0; i < count; ++i) {
                        data[i] = {comm.rank(), static_cast<int>(i)};
                        started.push_back(allfold::all_reduce.start(comm, data[i], allfold::sum()));
                    }
                    for (std::size_t left = count; wait_any(started) != count; --left) expect(left > 0, "too many");
                    for (std::size_t i = 0; i < count; ++i)
                        expect(
                            data[i][0] == sum_of_ranks(comm.size()) && data[i][1] == static_cast<int>(i) * comm.size(),
                            "wrong sum " + std::to_string(i));
                },
                tuning);
    SUCCEED();
}

TEST_CASE("each of several calls in flight folds with the operator that it was given, which may be gone") {
    on_ranks(3, [](communicator& comm) {
        for (int turn = 0; turn < 3; ++turn) {
            std::array<int, 5> x{};
            std::array<operation, 5> started;
            for (std::size_t i = 0; i < x.size(); ++i) {
                x[i] = 10 + comm.rank();
                const int modulus = 3 + static_cast<int>(i);
                const auto op = allfold::associative([modulus](int a, int b) { return (a + b) % modulus; });
                started[i] = allfold::all_reduce.start(comm, x[i], op);
            }
            wait_all(started);
            for (std::size_t i = 0; i < x.size(); ++i) expect(x[i] == 33 % (3 + static_cast<int>(i)), "wrong modulus");
        }
    });
    SUCCEED();
}

TEST_CASE("means and records are folded in calls that are started again") {
    on_ranks(4, [](communicator& comm) {
        std::array<double, 3> x{}, out{};
        std::array<float, 2> a{};
        std::array<double, 4> b{};
        const allfold::records both(allfold::tensor<float, 1>(a.data(), {2}),
                                    allfold::tensor<double, 2>(b.data(), {2, 2}));
        persistent prepared =
            allfold::all_reduce.prepare(comm, std::span<const double>(x), std::span(out), allfold::mean());
        for (int turn = 0; turn < 4; ++turn) {
            x = {1.0 * comm.rank() + turn, 2, 3};
            out = {};
            if (turn % 2 == 0)
                allfold::all_reduce.start(comm, std::span<const double>(x), std::span(out), allfold::mean()).wait();
            else
                prepared();
            expect(out[0] == 1.5 + turn && out[2] == 3, "wrong mean");
            a = {1, 2};
            b = {1, 2, 3, 4};
            allfold::all_reduce.start(comm, both, allfold::sum()).wait();
            expect(a[1] == 8 && b[3] == 16, "records: wrong sum");
        }
    });
    SUCCEED();
}

TEST_CASE("a mismatch in a call that is started again names both ranks and figures") {
    for (const int P : {2, 3}) {
        const auto outcomes = outcomes_on_ranks(P, [&](communicator& comm) {
            std::vector<int> few(3, 1), more(5, 1);
            for (int i = 0; i < 4; ++i) {
                allfold::all_reduce.start(comm, few, allfold::sum()).wait();
                allfold::all_reduce.start(comm, more, allfold::sum()).wait();
            }
            allfold::all_reduce.start(comm, comm.rank() == 0 ? few : more, allfold::sum()).wait();
            expect(P > 2, "a call that differs from that of the only peer is complete");
            allfold::barrier(comm);
        });
        bool is_explained = false;
        for (const auto& each : outcomes) {
            INFO(each.text);
            CHECK_FALSE(each.succeeded());
            CHECK_FALSE(each.says("only peer is complete"));
            is_explained |= each.says("has 3, but rank") && each.says("5 elements");
            is_explained |= each.says("has 5, but rank") && each.says("3 elements");
        }
        INFO(outcomes[0].text);
        CHECK(is_explained);
    }
}

TEST_CASE("an operator that throws in a call that is started again makes every rank throw") {
    for (const bool waits : {false, true}) {
        const auto outcomes = outcomes_on_ranks(3, [&](communicator& comm) {
            int calls = 0, x = 0, y = 0;
            const auto fragile = allfold::associative([&](int a, int b) {
                if (++calls > 40 && comm.rank() == 1) throw std::runtime_error("no more of this");
                return a + b;
            });
            for (int i = 0; i < 1000; ++i) {
                operation op = allfold::all_reduce.start(comm, x = 1, fragile);
                operation other = allfold::all_reduce.start(comm, y = 1, allfold::sum());
                if (waits)
                    op.wait();
                else
                    while (!op.done()) std::this_thread::yield();
                other.wait();
            }
        });
        for (const auto& each : outcomes) CHECK(each.says("no more of this"));
    }
}

TEST_CASE("a rank that waits for a restarted call learns that another one has left or failed") {
    for (const bool fails : {false, true}) {
        const auto outcomes = outcomes_on_ranks(2, [&](communicator& comm) {
            int x = 1;
            for (int i = 0; i < 10; ++i) allfold::all_reduce.start(comm, x = 1, allfold::sum()).wait();
            if (comm.rank() == 1) {
                if (fails) throw std::runtime_error("had enough");
                return;
            }
            allfold::all_reduce.start(comm, x, allfold::sum()).wait();
        });
        INFO(outcomes[0].text);
        CHECK(outcomes[0].says(fails ? "had enough" : "has returned"));
        CHECK(outcomes[0].code == allfold::errc::peer_failed);
    }
}

TEST_CASE("a call in flight that outlives its communicator reports an error, though it was made before") {
    std::array<operation, 2> left;
    std::array<persistent, 2> prepared;
    std::array<int, 2> x{};
    const auto outcomes = outcomes_on_ranks(2, [&](communicator& comm) {
        const auto self = static_cast<std::size_t>(comm.rank());
        for (int i = 0; i < 3; ++i) allfold::all_reduce.start(comm, x[self], allfold::sum()).wait();
        prepared[self] = allfold::all_reduce.prepare(comm, x[self], allfold::sum());
        prepared[self]();
        if (self == 0) left[0] = allfold::all_reduce.start(comm, x[0], allfold::sum());
    });
    CHECK_THROWS_WITH(left[0].wait(), Catch::Contains("its communicator ended"));
    CHECK_THROWS_WITH(prepared[1].start(), Catch::Contains("the communicator of this prepared operation has ended"));
    CHECK_THROWS_WITH(left[0].done(), Catch::Contains("its communicator ended"));
}

TEST_CASE("what is declared a view and is none is refused in the background, also when the call was made before") {
    const auto outcomes = outcomes_on_ranks(2, [](communicator& comm) {
        std::vector<int> vector{1, 2, 3};
        for (int i = 0; i < 3; ++i) allfold::all_reduce.start(comm, vector, allfold::sum()).wait();
        expect(short_calls_of(comm) == 2, "not remembered");
        owning_tensor x{vector};
        allfold::all_reduce.start(comm, x, allfold::sum()).wait();
    });
    CHECK((outcomes[0].says("its own elements") || outcomes[1].says("its own elements")));
}

TEST_CASE("a communicator whose calls are in flight may go to another thread") {
    on_ranks(2, [](communicator& comm) {
        int x = 0, y = 0;
        for (int i = 0; i < 3; ++i) allfold::all_reduce.start(comm, x, allfold::sum()).wait();
        x = y = comm.rank();
        operation first = allfold::all_reduce.start(comm, x, allfold::sum());
        std::thread([&] {
            operation second = allfold::all_reduce.start(comm, y, allfold::sum());
            if (comm.rank() == 0) first.wait();
            second.wait();
        }).join();
        first.wait();
        expect(x == 1 && y == 1, "wrong sums");
        std::thread([&] { allfold::all_reduce(comm, x, allfold::sum()); }).join();
        allfold::all_reduce(comm, x, allfold::sum());
        expect(x == 4, "wrong sum of sums");
    });
    SUCCEED();
}

TEST_CASE("raw columns of several alignments have the same messages whether a call is started or not") {
    for (const int P : {2, 3})
        on_ranks(P, [](allfold::thread_communicator& comm) {
            for (int turn = 0; turn < 4; ++turn)
                for (int starts = 0; starts < comm.size(); ++starts) {
                    std::array<unsigned char, 3> bytes{};
                    std::array<std::uint64_t, 3> numbers{};
                    if (comm.rank() == 0) {
                        bytes = {1, 2, static_cast<unsigned char>(turn)};
                        numbers = {10, 20, std::uint64_t{30} << turn};
                    }
                    const allfold::records x(allfold::raw_rows(bytes.data(), 3, 1, 1),
                                             allfold::raw_rows(numbers.data(), 3, 8, 8));
                    if (comm.rank() == starts)
                        allfold::broadcast.start(comm, x).wait();
                    else
                        allfold::broadcast(comm, x);
                    expect(bytes[1] == 2 && bytes[2] == turn, "bytes");
                    expect(numbers[0] == 10 && numbers[2] == std::uint64_t{30} << turn, "numbers");
                }
        });
    SUCCEED();
}
