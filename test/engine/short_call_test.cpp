// SPDX-License-Identifier: BSL-1.0
#include "allfold/engine/short_call.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/algebra/mean.hpp"
#include "allfold/collective.hpp"
#include "allfold/data/records.hpp"
#include "allfold/data/tensor_view.hpp"
#include "allfold/engine/operation.hpp"
#include "allfold/error.hpp"
#include "allfold/schedule/ring.hpp"
#include "allfold/transport/detail/groups_of_cores.hpp"
#include "test/collective/all_reduce_checks.hpp"
#include "test/collective/broadcast_checks.hpp"
#include "test/collective/exclusive_scan_checks.hpp"
#include "test/collective/inclusive_scan_checks.hpp"
#include "test/collective/reduce_checks.hpp"
#include "test/engine/block_checks.hpp"
#include "test/support/algebras.hpp"
#include "test/support/catch.hpp"
#include "test/support/oracle.hpp"
#include "test/support/patience.hpp"
#include "test/support/ranks.hpp"
#include "test/support/sanitized.hpp"
#include "test/support/short_calls.hpp"

/// @file
/// Repeated calls, which their communicator remembers. Most other tests make each call once.

using namespace test;
using communicator = allfold::thread_communicator;

namespace {

/// The operator of `matrices`, with other operands.
struct other_matrices : matrices {
    static element sample(int rank, std::size_t i) { return matrices::sample(rank + 5, i + 3); }
};

template <class Algebra>
void check_folds(communicator& comm, std::size_t n, const std::string& where) {
    const problem<Algebra> p(comm.size(), n);
    check_all_reduce(comm, p, where);
    check_inclusive_scan(comm, p, where);
    check_exclusive_scan(comm, p, where);
    const int root = comm.size() / 2;
    check_reduce(comm, p, root, where);
    check_broadcast(comm, p, root, where);
}

void check_even_all_to_all(communicator& comm, std::size_t n, int salt, const std::string& where) {
    const auto P = static_cast<std::size_t>(comm.size()), self = static_cast<std::size_t>(comm.rank());
    const auto sample = [&](std::size_t rank, std::size_t i) {
        return matrices::sample(static_cast<int>(rank), i + static_cast<std::size_t>(salt));
    };
    std::vector<matrix> in(n), from_all(n);
    if (n % P != 0) return;
    for (std::size_t i = 0; i < n; ++i) in[i] = sample(self, i);
    allfold::all_to_all(comm, in, from_all);
    for (std::size_t i = 0; i < n; ++i)
        expect(from_all[i] == sample(i / (n / P), self * (n / P) + i % (n / P)), where + ": all_to_all");
}

#ifdef ALLFOLD_TEST_SANITIZED
constexpr int sizes_here[] = {2, 3, 5};
#else
constexpr int sizes_here[] = {2, 3, 4, 5, 6, 7, 8, 12, 13, 16};
#endif

}  // namespace

TEST_CASE("calls that are made again fold other data in rank order, whichever way they go") {
    for (const auto& tuning : {allfold::thread_tuning{}, impatient, noticing})
        for (const int P : sizes_here)
            on_ranks(
                P,
                [&](communicator& comm) {
                    const auto ranks = static_cast<std::size_t>(P);
                    for (int again = 0; again < 3; ++again)
                        for (const std::size_t n : {std::size_t{0}, std::size_t{1}, ranks - 1, ranks, ranks + 1,
                                                    3 * ranks, std::size_t{500}}) {
                            const std::string where = "P = " + std::to_string(P) + ", n = " + std::to_string(n) +
                                                      ", time " + std::to_string(again);
                            check_folds<matrices>(comm, n, where);
                            check_folds<other_matrices>(comm, n, where);
                            check_folds<floats>(comm, n, where);
                            check_blocks(comm, allfold::partition::even(n, P), again, where);
                            check_even_all_to_all(comm, n, again, where);
                        }
                },
                tuning);
    SUCCEED();
}

TEST_CASE("a blocking call of a few elements that is made again goes the short path") {
    for (const int P : {2, 3, 4, 6, 16})
        on_ranks(P, [&](communicator& comm) {
            std::vector<int> in(2 * static_cast<std::size_t>(P), 1), out(in), block(2);
            const std::span<const int> given(in);
            const auto twice = [&](const char* what, auto call) {
                call();
                expect(goes_the_short_way(comm, call), what + std::string(", P = ") + std::to_string(P));
            };
            twice("all_reduce", [&] { allfold::all_reduce(comm, given, out, allfold::sum()); });
            twice("all_reduce in place", [&] { allfold::all_reduce(comm, out, allfold::max()); });
            twice("all_reduce of an object", [&] { allfold::all_reduce(comm, out[0], allfold::max()); });
            twice("reduce", [&] { allfold::reduce(comm, given, out, allfold::sum(), allfold::root{1}); });
            twice("reduce_scatter", [&] { allfold::reduce_scatter(comm, given, block, allfold::sum()); });
            twice("all_gather", [&] { allfold::all_gather(comm, block, out); });
            twice("gather", [&] { allfold::gather(comm, block, out, allfold::root{P - 1}); });
            twice("scatter", [&] { allfold::scatter(comm, given, block, allfold::root{P - 1}); });
            twice("permute", [&] { allfold::permute(comm, given, out, allfold::shift{1}); });
            twice("permute in place", [&] { allfold::permute(comm, out, allfold::shift{-1}); });
            std::vector<int> mirrored(static_cast<std::size_t>(P));
            for (int r = 0; r < P; ++r) mirrored[static_cast<std::size_t>(r)] = P - 1 - r;
            const allfold::destinations list(mirrored);
            twice("permute by a list", [&] { allfold::permute(comm, given, out, list); });
            twice("all_to_all", [&] { allfold::all_to_all(comm, given, out); });
            twice("broadcast", [&] { allfold::broadcast(comm, out, allfold::root{P - 1}); });
            twice("inclusive_scan", [&] { allfold::inclusive_scan(comm, given, out, allfold::sum()); });
            twice("exclusive_scan", [&] { allfold::exclusive_scan(comm, given, out, allfold::sum()); });
            twice("barrier", [&] { allfold::barrier(comm); });
            twice("records", [&] {
                std::array<float, 2> a{1, 2};
                std::array<double, 4> b{1, 2, 3, 4};
                const allfold::records both(allfold::tensor<float, 1>(a.data(), {2}),
                                            allfold::tensor<double, 2>(b.data(), {2, 2}));
                allfold::all_reduce(comm, both, allfold::sum());
                expect(a[1] == 2.0F * static_cast<float>(P) && b[3] == 4.0 * P, "records: wrong sum");
            });
        });
    SUCCEED();
}

namespace {

/// Checks lists of tensors of these lengths, which lie in memory in reverse order: three times, with other data.
void check_remembered_lists(communicator& comm, const std::vector<std::size_t>& lengths, bool goes_short) {
    const int rank = comm.rank(), size = comm.size();
    std::size_t total = 0;
    for (const std::size_t each : lengths) total += each;
    for (int turn = 0; turn < 3; ++turn) {
        const auto sample = [&](int r, std::size_t i) { return matrices::sample(r + turn, i); };
        std::vector<matrix> in(total), out(total), together(total);
        allfold::tensors<matrix> from, to;
        for (std::size_t t = 0, end = total; t < lengths.size(); ++t) {
            end -= lengths[t];
            from.add(std::span(in).subspan(end, lengths[t]));
            to.add(std::span(out).subspan(end, lengths[t]));
        }
        const auto for_each_element = [&](auto visit) {  // visit(index in the list, index in memory)
            std::size_t number = 0, end = total;
            for (const std::size_t length : lengths) {
                end -= length;
                for (std::size_t i = 0; i < length; ++i) visit(number++, end + i);
            }
        };
        for_each_element([&](std::size_t i, std::size_t at) { in[at] = sample(rank, i); });
        const auto product = [&](int ranks, std::size_t i) {
            matrix wanted = sample(0, i);
            for (int r = 1; r < ranks; ++r) wanted = wanted * sample(r, i);
            return wanted;
        };
        const auto call = [&](auto body) {
            if (goes_short && turn > 0)
                expect(goes_the_short_way(comm, body), "a list is not remembered");
            else
                body();
        };
        call([&] { allfold::all_reduce(comm, from, to, matrices::operation()); });
        for_each_element([&](std::size_t i, std::size_t at) { expect(out[at] == product(size, i), "all_reduce"); });
        call([&] { allfold::inclusive_scan(comm, from, to, matrices::operation()); });
        for_each_element([&](std::size_t i, std::size_t at) { expect(out[at] == product(rank + 1, i), "scan"); });
        call([&] { allfold::all_reduce(comm, from, together, matrices::operation()); });
        for (std::size_t i = 0; i < total; ++i) expect(together[i] == product(size, i), "to one tensor");
        call([&] { allfold::broadcast(comm, from, allfold::root{size - 1}); });
        for_each_element([&](std::size_t i, std::size_t at) { expect(in[at] == sample(size - 1, i), "broadcast"); });
        allfold::all_reduce.start(comm, from, to, matrices::operation()).wait();
        auto again = allfold::all_reduce.prepare(comm, from, to, matrices::operation());
        again();
    }
}

}  // namespace

TEST_CASE("lists are remembered too") {
    for (const int size : {2, 3, 5})
        on_ranks(size, [](auto& comm) {
            check_remembered_lists(comm, {1, 2, 1}, true);
            check_remembered_lists(comm, {0, 2, 1, 1}, true);
            check_remembered_lists(comm, {4}, true);
            check_remembered_lists(comm, {3, 1}, true);
            check_remembered_lists(comm, {}, false);
            check_remembered_lists(comm, std::vector<std::size_t>(33, 1), false);
            check_remembered_lists(comm, {1000, 700, 300}, false);
        });
    on_ranks(2, [](auto& comm) {
        std::vector<int> x(6, 1);
        const std::span all(x);
        for (int turn = 0; turn < 3; ++turn)
            allfold::all_reduce(comm, allfold::tensors(all.first(2), all.subspan(2)), allfold::sum());
        expect(x[5] == 8, "not folded");
    });
    const auto outcomes = outcomes_on_ranks(2, [](auto& comm) {
        std::vector<int> x(6, 1);
        const std::span all(x);
        const std::size_t cut = 2;
        for (int turn = 0; turn < 3; ++turn)
            allfold::all_reduce(comm, allfold::tensors(all.first(cut), all.subspan(cut)), allfold::sum());
        // Rank 0 remembers its list, rank 1 does not.
        const std::size_t own = 2 + static_cast<std::size_t>(comm.rank());
        allfold::all_reduce(comm, allfold::tensors(all.first(own), all.subspan(own)), allfold::sum());
    });
    for (const auto& each : outcomes) CHECK(each.code.has_value());
    CHECK((outcomes[0].code == allfold::errc::mismatch || outcomes[1].code == allfold::errc::mismatch));
}

TEST_CASE("lists of which each tensor is cut are remembered by how they are cut") {
    for (const int P : {2, 3, 5})
        on_ranks(P, [&](communicator& comm) {
            using allfold::partition;
            std::vector<int> in(11), back(11),
                own(11);  // the shards are contiguous, in memory apart from `back`
            for (int turn = 0; turn < 6; ++turn) {
                const auto how = turn % 2 == 0 ? &partition::even : &partition::ceil;  // the same total length
                const auto self = static_cast<std::size_t>(comm.rank());
                const std::size_t first = how(4, P).extent(comm.rank()), second = how(7, P).extent(comm.rank());
                for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<int>((self + 1) * (i + 1)) + turn;
                const auto call = [&](auto body) {
                    if (turn > 1)
                        expect(goes_the_short_way(comm, body), "a list is not remembered");
                    else
                        body();
                };
                const auto cut = [&](std::vector<int>& all) {
                    return allfold::tensors(std::span(all).first(4), std::span(all).subspan(4)).by(how);
                };
                const allfold::tensors shards{std::span(own).first(first), std::span(own).subspan(first, second)};
                call([&] { allfold::reduce_scatter(comm, cut(in), shards, allfold::sum()); });
                call([&] { allfold::all_gather(comm, shards, cut(back)); });
                for (std::size_t i = 0; i < back.size(); ++i)
                    expect(back[i] == static_cast<int>(i + 1) * P * (P + 1) / 2 + P * turn, "sums in their places");
            }
        });
    SUCCEED();
}

TEST_CASE("lists whose tensors lie between each other are remembered, and copied only where they share memory") {
    on_ranks(2, [](communicator& comm) {
        std::vector<int> memory(16);
        const auto tensor_at = [&](std::size_t first) { return std::span(memory).subspan(first, 4); };
        for (int turn = 0; turn < 5; ++turn) {
            const bool shares = turn == 4;  // the first result then lies where the second operand is
            const std::array<std::size_t, 2> in{0, 8}, out{shares ? 8U : 4U, 12};
            const auto value = [turn](int rank, std::size_t i) { return (rank + 1) * (static_cast<int>(i) + turn); };
            for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = value(comm.rank(), i);
            const auto call = [&] {
                allfold::all_reduce(comm, allfold::tensors{tensor_at(in[0]), tensor_at(in[1])},
                                    allfold::tensors{tensor_at(out[0]), tensor_at(out[1])}, allfold::sum());
            };
            if (turn > 1 && !shares)
                expect(goes_the_short_way(comm, call), "lists between each other are not remembered");
            else
                call();
            for (std::size_t i = 0; i < 8; ++i)
                expect(memory[out[i / 4] + i % 4] == value(0, in[i / 4] + i % 4) + value(1, in[i / 4] + i % 4), "sums");
        }
    });
    SUCCEED();
}

TEST_CASE("a remembered list is looked at again: its tensors must not share memory") {
    const auto outcomes = outcomes_on_ranks(2, [](auto& comm) {
        std::vector<int> x(6, 1);
        const std::span all(x);
        for (int turn = 0; turn < 2; ++turn)
            allfold::all_reduce(comm, allfold::tensors(all.first(2), all.subspan(2)), allfold::sum());
        allfold::all_reduce(comm, allfold::tensors(all.first(2), all.first(4)), allfold::sum());
    });
    for (const auto& each : outcomes) CHECK(each.says("tensors of the output share memory"));
}

TEST_CASE("while something is in flight, or an operator runs, no call goes the short path") {
    on_ranks(2, [](communicator& comm) {
        int x = 0, y = comm.rank();
        const auto call = [&] { allfold::all_reduce(comm, x, allfold::sum()); };
        call();
        expect(goes_the_short_way(comm, call), "alone: not short");
        auto in_flight = allfold::all_reduce.start(comm, y, allfold::sum());
        x = 1;
        const bool is_alone = comm.background().empty();
        expect(goes_the_short_way(comm, call) == is_alone, "with one in flight: short");
        in_flight.wait();
        expect(x == 2 && y == 1, "wrong sums");
    });
    SUCCEED();
}

TEST_CASE("remembered calls and operations in flight find their partners, whoever waits for what first") {
    for (const int P : {2, 3, 5})
        on_ranks(P, [&](communicator& comm) {
            const int sum_of_ranks = P * (P - 1) / 2;
            for (int turn = 0; turn < 300; ++turn) {
                int a = comm.rank(), b = comm.rank() + 1, c = 1;
                auto first = allfold::all_reduce.start(comm, a, allfold::sum());
                // Some ranks then have nothing in flight in the next call.
                if ((turn + comm.rank()) % 2 == 0) first.wait();
                allfold::all_reduce(comm, b, allfold::sum());
                allfold::broadcast(comm, c, allfold::root{turn % P});
                first.wait();
                expect(a == sum_of_ranks && b == sum_of_ranks + P && c == 1,
                       "wrong sums in turn " + std::to_string(turn));
            }
        });
    SUCCEED();
}

TEST_CASE("a sleeping rank is woken by a message to all") {
    using namespace std::chrono;
    const bool is_soon = succeeds_now_and_then([] {
        const auto start = steady_clock::now();
        on_ranks(
            3,
            [](communicator& comm) {
                int x = 1;
                for (int turn = 0; turn < 12; ++turn) {
                    if (comm.rank() == 0) std::this_thread::sleep_for(milliseconds(5));
                    allfold::all_reduce(comm, x = 1, allfold::sum());
                    expect(x == 3, "wrong sum");
                }
            },
            impatient);
        return steady_clock::now() - start < seconds(5);  // no rank sleeps for more than a second at a time
    });
    CHECK(is_soon);
}

TEST_CASE("blocks of calls that are made again at once go where they belong") {
    for (const int P : {3, 4, 8})
        on_ranks(P, [&](communicator& comm) {
            for (int turn = 0; turn < 6; ++turn)
                check_blocks(comm, allfold::partition::even(2 * static_cast<std::size_t>(P), comm.size()), turn,
                             "in turn");
        });
    SUCCEED();
}

TEST_CASE("messages on one lane do not overtake each other") {
    for (const int P : {3, 4, 8})
        on_ranks(P, [&](communicator& comm) {
            std::vector<int> x(10000);
            for (int turn = 0; turn < 60; ++turn) {
                std::iota(x.begin(), x.end(), turn * comm.rank());
                allfold::all_reduce(comm, x, allfold::sum());
                for (std::size_t i = 0; i < x.size(); ++i)
                    expect(x[i] == P * static_cast<int>(i) + turn * P * (P - 1) / 2, "wrong sum");
            }
        });
    SUCCEED();
}

TEST_CASE("messages posted to all at once are matched even if other ranks find no room to do so") {
    constexpr std::size_t in_flight = allfold::detail::bulletin::cells + 2;
    constexpr int copied = 10000, lent = 50000;  // in ints; the blocks are short
    for (const int P : {3, 4, 8})
        for (const int n : {copied, lent})
            on_ranks(P, [&](communicator& comm) {
                std::vector<int> own(static_cast<std::size_t>(n)), expected(own);
                std::vector<std::vector<int>> x(in_flight);
                for (int turn = 0; turn < fewer_if_sanitized(200000, 100000) / n; ++turn) {
                    std::iota(own.begin(), own.end(), turn * comm.rank());
                    for (int i = 0; i < n; ++i) expected[static_cast<std::size_t>(i)] = P * i + turn * P * (P - 1) / 2;
                    std::vector<allfold::operation> started;
                    for (std::vector<int>& each : x)
                        started.push_back(allfold::all_reduce.start(comm, each = own, allfold::sum()));
                    allfold::wait_all(started);
                    for (const std::vector<int>& each : x) expect_equal(each, expected, "wrong sum");
                }
            });
    SUCCEED();
}

TEST_CASE("what a rank sends to all that are far behind comes in order, however it is started") {
    using namespace std::chrono_literals;
    for (const int P : {3, 5})
        for (const std::size_t n : {std::size_t{1}, std::size_t{40}, std::size_t{1000}})
            on_ranks(P, [&](communicator& comm) {
                std::vector<int> x(n), y(n);
                auto prepared = allfold::broadcast.prepare(comm, y);
                for (int turn = 0; turn < 100; ++turn) {
                    if (comm.rank() > 0 && turn % 40 == 0) std::this_thread::sleep_for(2ms);
                    const bool is_root = comm.rank() == 0;
                    std::ranges::fill(x, is_root ? turn : -1);
                    std::ranges::fill(y, is_root ? turn + 1000 : -1);
                    prepared.start();
                    allfold::broadcast(comm, x);
                    prepared.wait();
                    auto started = allfold::broadcast.start(comm, x);
                    started.wait();
                    const std::string where = "P = " + std::to_string(P) + ", turn " + std::to_string(turn);
                    expect(x.front() == turn && x.back() == turn, where);
                    expect(y.front() == turn + 1000 && y.back() == turn + 1000, where + ", prepared");
                }
            });
    SUCCEED();
}

TEST_CASE("a mismatch in a call that is made again names both ranks and figures") {
    for (const int P : {2, 3})
        for (const bool by_turns : {false, true}) {
            const auto outcomes = outcomes_on_ranks(P, [&](communicator& comm) {
                std::vector<int> few(3, 1), more(5, 1);
                for (int i = 0; i < 20; ++i) {
                    allfold::all_reduce(comm, few, allfold::sum());
                    if (by_turns || i == 0) allfold::all_reduce(comm, more, allfold::sum());
                }
                allfold::all_reduce(comm, comm.rank() == 0 ? few : more, allfold::sum());
                expect(P > 2, "a call that differs from that of the only peer has returned");
                allfold::barrier(comm);
            });
            bool is_explained = false;
            for (const auto& each : outcomes) {
                INFO(each.text);
                CHECK_FALSE(each.succeeded());
                CHECK_FALSE(each.says("do not make the same call"));
                CHECK_FALSE(each.says("only peer has returned"));
                is_explained |= each.says("3") && each.says("but rank") && each.says("5 elements");
                is_explained |= each.says("5") && each.says("but rank") && each.says("3 elements");
            }
            CHECK(is_explained);
        }
}

TEST_CASE("two ranks that wait for each other in repeated calls get the reason") {
    const auto outcomes = outcomes_on_ranks(2, [](communicator& comm) {
        int x = comm.rank();
        for (int i = 0; i < 6; ++i) allfold::broadcast(comm, x, allfold::root{i % 2});
        allfold::broadcast(comm, x, allfold::root{1 - comm.rank()});
    });
    INFO(outcomes[0].text << '\n' << outcomes[1].text);
    for (const auto& each : outcomes) CHECK_FALSE(each.succeeded());
    CHECK((outcomes[0].says("names root") || outcomes[1].says("names root")));
}

TEST_CASE("a difference between calls that nobody waited in is found with the next message") {
    const auto outcomes = outcomes_on_ranks(3, [](communicator& comm) {
        int x = 1;
        for (int i = 0; i < 5; ++i) {
            allfold::reduce(comm, x, allfold::sum(), allfold::root{0});
            allfold::reduce(comm, x, allfold::max(), allfold::root{0});
        }
        if (comm.rank() == 2) allfold::reduce(comm, x, allfold::max(), allfold::root{0});
        for (int i = 0; i < 5; ++i) allfold::reduce(comm, x, allfold::sum(), allfold::root{0});
        allfold::barrier(comm);
    });
    INFO(outcomes[0].text);
    CHECK(outcomes[0].says("rank 2"));
    for (const auto& each : outcomes) CHECK_FALSE(each.succeeded());
}

TEST_CASE("an operator that throws in a call that is made again makes every rank throw") {
    const auto outcomes = outcomes_on_ranks(3, [](communicator& comm) {
        int calls = 0;
        const auto fragile = allfold::associative([&](int a, int b) {
            if (++calls > 40 && comm.rank() == 1) throw std::runtime_error("no more of this");
            return a + b;
        });
        int x = 0;
        for (int i = 0; i < 1000; ++i) allfold::all_reduce(comm, x = 1, fragile);
    });
    for (const auto& each : outcomes) CHECK(each.says("no more of this"));
}

TEST_CASE("an operator may not call a collective on its own communicator, however often it is called") {
    const auto outcomes = outcomes_on_ranks(2, [](communicator& comm) {
        int y = 0, calls = 0;
        for (int i = 0; i < 3; ++i) allfold::all_reduce(comm, y, allfold::sum());
        const auto calling = allfold::associative([&](int a, int b) {
            if (++calls > 2) allfold::all_reduce(comm, y, allfold::sum());
            return a + b;
        });
        int x = 1;
        for (int i = 0; i < 10; ++i) allfold::all_reduce(comm, x, calling);
    });
    CHECK((outcomes[0].says("inside the operator") || outcomes[1].says("inside the operator")));
}

TEST_CASE("a rank that waits in a repeated call learns that another one has left or failed") {
    for (const int P : {2, 4})
        for (const bool fails : {false, true}) {
            const auto outcomes = outcomes_on_ranks(P, [&](communicator& comm) {
                int x = 1;
                for (int i = 0; i < 10; ++i) allfold::all_reduce(comm, x = 1, allfold::sum());
                if (comm.rank() == 1) {
                    if (fails) throw std::runtime_error("had enough");
                    return;
                }
                allfold::all_reduce(comm, x, allfold::sum());
            });
            INFO(outcomes[0].text);
            CHECK(outcomes[0].says(fails ? "had enough" : "has returned"));
            CHECK(outcomes[0].code == allfold::errc::peer_failed);
        }
}

TEST_CASE("more different calls than a communicator remembers, by turns") {
    on_ranks(3, [](communicator& comm) {
        for (int again = 0; again < 4; ++again)
            for (std::size_t n = 0; n < 90; ++n) {
                std::vector<int> x(n);
                std::iota(x.begin(), x.end(), again);
                allfold::all_reduce(comm, x, allfold::sum());
                for (std::size_t i = 0; i < n; ++i)
                    expect(x[i] == 3 * (static_cast<int>(i) + again), "n = " + std::to_string(n));
            }
    });
    SUCCEED();
}

TEST_CASE("means are lowered in calls that are made again") {
    on_ranks(4, [](communicator& comm) {
        for (int again = 0; again < 4; ++again) {
            std::array<double, 3> x{1.0 * comm.rank() + again, 2, 3}, out{};
            allfold::all_reduce(comm, std::span<const double>(x), out, allfold::mean());
            expect(out[0] == 1.5 + again && out[2] == 3, "wrong mean");
        }
    });
    SUCCEED();
}

TEST_CASE("bad arguments of a call that was made before are found before anything is sent") {
    std::array<bool, 2> untouched{};
    const auto outcomes = outcomes_on_ranks(2, [&](communicator& comm) {
        std::array<int, 4> x{1, 2, 3, 4}, out{};
        const auto call = [&](std::span<const int> from, std::span<int> to) {
            allfold::all_reduce(comm, from, to, allfold::sum());
        };
        try {
            for (int i = 0; i < 3; ++i) call(std::span(x).first(3), std::span(out).first(3));
            call(std::span(x).first(3), std::span(x).last(3));
        } catch (const allfold::error&) {
            untouched[static_cast<std::size_t>(comm.rank())] = x == std::array<int, 4>{1, 2, 3, 4};
            throw;
        }
    });
    CHECK((untouched[0] && untouched[1]));
    CHECK((outcomes[0].code == allfold::errc::overlap || outcomes[1].code == allfold::errc::overlap));
}

TEST_CASE("a plan says whether a call will be short when it is made again") {
    on_ranks(2, [](communicator& comm) {
        const auto says = [&](const auto& plan, const char* what = "repeated calls take the short path") {
            return plan.why().find(what) != std::string::npos;
        };
        constexpr auto copied = "through memory of the transport";
        expect(says(allfold::all_reduce.plan(comm, 8, allfold::sum())), "8 bytes");
        const std::size_t most = allfold::detail::has_groups_of_cores() ? 512 << 10 : 96 << 10;
        expect(says(allfold::all_reduce.plan(comm, most, allfold::sum())), "as much as is copied");
        expect(says(allfold::all_reduce.plan(comm, most, allfold::sum()), copied), "so much is copied");
        expect(!says(allfold::all_reduce.plan(comm, most + 2, allfold::sum())), "more");
        expect(says(allfold::all_reduce.plan(comm, 8, allfold::sum(), allfold::ring())), "an algorithm is named");
        expect(says(allfold::all_reduce.plan(comm, 8, allfold::sum(), allfold::deadline{std::chrono::seconds(1)})),
               "a deadline");
        expect(!says(allfold::all_reduce.plan(comm, 8, allfold::sum(), allfold::window{8})), "a window is named");
        expect(says(allfold::broadcast.plan(comm, 32 << 10, allfold::root{1})), "broadcast of 32 KiB");
        expect(!says(allfold::broadcast.plan(comm, 32 << 10), copied), "32 KiB are copied anyway");
        for (const std::size_t KiB : {33U, 128U}) {
            expect(says(allfold::broadcast.plan(comm, KiB << 10, allfold::direct())),
                   "short broadcast of " + std::to_string(KiB));
            expect(says(allfold::broadcast.plan(comm, KiB << 10, allfold::direct()), copied),
                   "copied broadcast of " + std::to_string(KiB));
        }
        expect(!says(allfold::broadcast.plan(comm, 129 << 10, allfold::direct())), "two windows");
        expect(says(allfold::broadcast.plan(comm, 1 << 20, allfold::direct()), copied), "1 MiB is copied");
        expect(!says(allfold::broadcast.plan(comm, (1 << 20) + 1, allfold::direct()), copied), "more is lent");
        const auto most_of_both = allfold::detail::most_copied_if_both_may_store(false);
        const auto most_of_one = allfold::detail::most_copied_if_both_may_store(true);
        expect(says(allfold::all_gather.plan(comm, most_of_both), copied), "two halves are copied");
        expect(!says(allfold::all_gather.plan(comm, most_of_both + 2), copied), "more of both is lent");
        const auto most_of_scans =
            std::min(allfold::detail::most_copied_if_folded(1), allfold::choose_tuning{}.pair_scan_bytes);
        expect(says(allfold::inclusive_scan.plan(comm, most_of_scans, allfold::sum()), copied), "a scan is copied");
        expect(!says(allfold::inclusive_scan.plan(comm, most_of_scans + 2, allfold::sum()), copied), "more is not");
        expect(says(allfold::broadcast.plan(comm, most_of_one), "everyone reads"), "copied by one");
        expect(says(allfold::broadcast.plan(comm, most_of_one + 1), "each moves one half"), "moved by both");
        std::vector<float> x(24 << 10);
        const auto call = [&] { allfold::all_reduce(comm, x, allfold::sum()); };
        call();
        expect(goes_the_short_way(comm, call), "96 KiB: not short");
    });
    SUCCEED();
}

TEST_CASE("a remembered exclusive scan lowers the identity, too: the mean of nothing is not a number") {
    on_ranks(2, [](allfold::thread_communicator& comm) {
        for (int turn = 0; turn < 4; ++turn) {
            const std::array<double, 2> x{3, 5};
            std::array<double, 2> y{-1, -1};
            allfold::exclusive_scan(comm, x, y, allfold::mean());
            const bool right = comm.rank() == 0 ? std::isnan(y[0]) && std::isnan(y[1]) : y[0] == 3 && y[1] == 5;
            expect(right, "turn " + std::to_string(turn));
        }
    });
    SUCCEED();
}
