// SPDX-License-Identifier: BSL-1.0
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/error.hpp"
#include "allfold/message.hpp"
#include "allfold/schedule/ring.hpp"
#include "test/collective/all_gather_checks.hpp"
#include "test/collective/all_reduce_checks.hpp"
#include "test/collective/all_to_all_checks.hpp"
#include "test/collective/barrier_checks.hpp"
#include "test/collective/broadcast_checks.hpp"
#include "test/collective/exclusive_scan_checks.hpp"
#include "test/collective/gather_checks.hpp"
#include "test/collective/inclusive_scan_checks.hpp"
#include "test/collective/permute_checks.hpp"
#include "test/collective/reduce_checks.hpp"
#include "test/collective/reduce_scatter_checks.hpp"
#include "test/collective/scatter_checks.hpp"
#include "test/support/algebras.hpp"
#include "test/support/catch.hpp"
#include "test/support/problems.hpp"
#include "test/support/ranks.hpp"
#include "test/support/watchdog.hpp"
#include "test/transport/toy_transport.hpp"

/// @file
/// A transport written by the instructions in docs/adding-a-transport.md does everything that the others do.

using namespace test;
using namespace std::chrono_literals;
using allfold::errc;
using allfold::sum;

namespace {

constexpr int sizes[] = {1, 2, 3, 5};

/// Runs `fn` on all ranks of a group, a thread each, and returns how it ended on each.
template <class Fn>
std::vector<outcome> outcomes_on_toys(int size, Fn fn) {
    const watchdog watch(std::to_string(size) + " toys");
    std::vector<outcome> outcomes(static_cast<std::size_t>(size));
    toy_world world(size);
    const auto body = [&](int rank) {
        outcome& mine = outcomes[static_cast<std::size_t>(rank)];
        try {
            toy comm(world, rank);
            fn(comm);
        } catch (const allfold::error& e) {
            mine = {e.code(), e.what()};
        } catch (const std::exception& e) {
            mine = {std::nullopt, e.what()};
        }
    };
    std::vector<std::thread> threads;
    for (int r = 0; r < size; ++r) threads.emplace_back(body, r);
    for (auto& t : threads) t.join();
    return outcomes;
}

/// Calls check(comm, problem, where) on all ranks of groups of all sizes.
template <class Algebra, class Check>
void on_toys(Check check) {
    for (const int size : sizes) {
        const auto problems = problems_for<Algebra>(size);
        const auto outcomes = outcomes_on_toys(size, [&](toy& comm) {
            for (const auto& p : problems) check(comm, p, place_of(comm, p) + ", toy");
        });
        for (const auto& each : outcomes) CHECK(each.text == "");
    }
}

void check_all(const std::vector<outcome>& outcomes, errc code, const std::string& reason) {
    for (std::size_t r = 0; r < outcomes.size(); ++r) {
        INFO("rank " << r << " of " << outcomes.size() << ": " << outcomes[r].text);
        CHECK((outcomes[r].code == code && outcomes[r].says(reason)));
    }
}

}  // namespace

TEST_CASE("a toy transport keeps the order of each lane, and parts aligned") {
    toy_world world(2);
    toy from(world, 0), to(world, 1);
    const allfold::lane first = from.open({}, 2), second = first + 1;
    std::array<std::byte, 5> a{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}, std::byte{5}};
    const std::array<allfold::part, 2> parts{{{a.data(), 5}, {a.data(), 3}}};
    std::atomic<int> lent = 0;
    const auto post = [&](allfold::lane on, std::size_t count, std::size_t bytes, std::uint32_t signature) {
        CHECK(from.try_post(1, on, {std::span(parts).first(count), bytes, 8, true, signature, &lent}));
    };
    const auto next = [&](allfold::lane on) {
        toy::arrival_type kept;
        CHECK(to.try_receive(0, on, [&](toy::arrival_type&& message) { kept = std::move(message); }));
        return kept;
    };
    post(second, 2, 11, 1);
    post(first, 0, 0, 2);
    post(second, 1, 5, 3);
    CHECK(lent == 0);
    const auto empty = next(first), packed = next(second), last = next(second);
    CHECK((empty.signature() == 2 && empty.bytes() == 0 && empty.packed() != nullptr));
    CHECK((packed.signature() == 1 && packed.bytes() == 11 && last.signature() == 3));
    CHECK(reinterpret_cast<std::uintptr_t>(packed.packed()) % 64 == 0);
    CHECK(
        (std::equal(a.begin(), a.end(), packed.packed()) && std::equal(a.begin(), a.begin() + 3, packed.packed() + 8)));
    CHECK_FALSE(to.try_receive(0, first, [](toy::arrival_type&&) {}));
}

TEST_CASE("a toy transport folds and scans words with every algorithm") {
    on_toys<words>([](auto& comm, const auto& p, const auto& where) {
        check_all_reduce_with_all_algorithms(comm, p, where);
        check_inclusive_scan_with_all_algorithms(comm, p, where);
    });
}

TEST_CASE("a toy transport folds matrices into blocks with every algorithm") {
    on_toys<matrices>(
        [](auto& comm, const auto& p, const auto& where) { check_reduce_scatter_with_all_algorithms(comm, p, where); });
}

TEMPLATE_TEST_CASE("a toy transport runs every collective", "", words, floats) {
    on_toys<TestType>([](auto& comm, const auto& p, const auto& where) {
        check_all_reduce(comm, p, where);
        check_inclusive_scan(comm, p, where);
        check_exclusive_scan(comm, p, where);
        for (const int root : roots_of(comm.size(), p.size())) {
            check_broadcast(comm, p, root, where);
            check_reduce(comm, p, root, where);
            for (const auto& blocks : partitions_of(p.size(), comm.size())) {
                check_gather(comm, p, root, blocks, where, blocks);
                check_scatter(comm, p, root, blocks, where, blocks);
            }
        }
        for (const auto& blocks : partitions_of(p.size(), comm.size())) {
            check_reduce_scatter(comm, p, blocks, where, blocks);
            check_all_gather(comm, p, blocks, where, blocks);
        }
        check_barrier_orders(comm, comm.size() - 1, where);
    });
}

TEMPLATE_TEST_CASE("a toy transport moves blocks between all ranks", "", words, floats) {
    for (const int size : sizes)
        for (const auto& each : outcomes_on_toys(size, [](toy& comm) {
                 check_all_to_all<TestType>(comm, some_between, "toy");
                 check_all_to_all_in_place<TestType>(comm, some_between, "toy");
                 check_uneven_all_to_all<TestType>(comm, "toy");
                 check_all_to_all_by_sizes<TestType>(comm, "toy");
                 check_permutations<TestType>(comm, "toy");
                 check_uneven_permutations<TestType>(comm, "toy");
             }))
            CHECK(each.text == "");
}

TEST_CASE("a toy transport carries messages") {
    for (const int size : sizes)
        for (const auto& each : outcomes_on_toys(size, [&](toy& comm) {
                 const int right = (comm.rank() + 1) % size, left = (comm.rank() + size - 1) % size;
                 for (const std::size_t n : {std::size_t{0}, std::size_t{3}, std::size_t{50000}})
                     for (const auto how : {allfold::mode::standard, allfold::mode::synchronous}) {
                         const std::vector<int> x(n, comm.rank()), expected(n, left);
                         std::vector<int> y(n, -1);
                         auto sent = allfold::send.start(comm, x, allfold::to{right}, allfold::tag{5}, how);
                         const auto found = allfold::receive(comm, y, allfold::from{allfold::any}, allfold::tag{5});
                         sent.wait();
                         expect(found == allfold::status{left, 5, n, false} && y == expected, "another message");
                     }
             }))
            CHECK(each.text == "");
}

TEST_CASE("a rank of a toy transport that throws releases the others, with its name and reason") {
    for (const int size : {2, 3, 5}) {
        auto outcomes = outcomes_on_toys(size, [](toy& comm) {
            std::vector<std::string> x(100, "x");
            allfold::all_reduce(comm, x, std::plus<>());
            const auto fragile = allfold::associative([&](const std::string& a, const std::string& b) {
                if (comm.rank() == 1) throw std::runtime_error("boom");
                return a + b;
            });
            allfold::all_reduce(comm, x, fragile);
            for (;;) allfold::barrier(comm);
        });
        CHECK(outcomes[1].text == "boom");
        outcomes.erase(outcomes.begin() + 1);
        check_all(outcomes, errc::peer_failed, "rank 1 failed: boom");
    }
}

TEST_CASE("a toy transport is broken for good, also for those that never wait") {
    check_all(outcomes_on_toys(3,
                               [](toy& comm) {
                                   std::vector x(1000, 1);
                                   if (comm.rank() == 2) throw allfold::error(errc::peer_failed, "rank 2 failed: boom");
                                   auto operation = allfold::all_reduce.start(comm, x, sum());
                                   while (!operation.done()) std::this_thread::yield();
                               }),
              errc::peer_failed, "rank 2 failed");
    check_all(outcomes_on_toys(3,
                               [](toy& comm) {
                                   std::vector x(10, 1);
                                   try {
                                       if (comm.rank() == 0) throw allfold::error(errc::bad_argument, "boom");
                                       for (;;) allfold::all_reduce(comm, x, sum());
                                   } catch (const allfold::error&) {
                                       if (comm.rank() == 0) comm.abandon();
                                   }
                                   allfold::barrier(comm);
                               }),
              errc::peer_failed, "rank 0 failed: boom");
    toy_world world(1);  // of one rank, which never looks for a message
    toy alone(world, 0);
    alone.abandon();
    CHECK_THROWS_AS(allfold::barrier(alone), allfold::error);
}

TEST_CASE("a rank of a toy transport that returns early is named by those that wait for it") {
    const auto outcomes = outcomes_on_toys(2, [](toy& comm) {
        std::vector x(10, 1);
        allfold::all_reduce(comm, x, sum());
        if (comm.rank() == 0) allfold::all_reduce(comm, x, sum());
    });
    CHECK(outcomes[1].succeeded());
    CHECK((outcomes[0].code == errc::peer_failed && outcomes[0].says("rank 1 of 2, which has returned")));
}

TEST_CASE("when a deadline passes, all ranks of a toy transport throw") {
    for (const int size : {2, 5}) {
        late_call late(1);
        const auto outcomes = outcomes_on_toys(size, [&](toy& comm) {
            std::vector x(1000, 1);
            allfold::all_reduce(comm, x, sum());
            const auto fold = [&] { allfold::all_reduce(comm, x, sum(), allfold::deadline{20ms}); };
            late(comm, fold, [&comm] { comm.progress(); });
        });
        check_all(outcomes, errc::timeout, "the deadline of rank ");
    }
}

TEST_CASE("ranks of a toy transport that make different calls learn what differs") {
    for (const int size : {2, 3, 5}) {
        const auto outcomes = outcomes_on_toys(size, [](toy& comm) {
            std::vector x(comm.rank() == 1 ? 9U : 10U, 1.0F);
            allfold::all_reduce(comm, x, sum());
            allfold::barrier(comm);
        });
        int causes = 0;
        for (const auto& each : outcomes) {
            INFO(each.text);
            CHECK((each.code == errc::mismatch || each.code == errc::peer_failed));
            CHECK((each.says("has 10, but rank 1 has 9 elements") || each.says("has 9, but rank ")));
            causes += each.code == errc::mismatch ? 1 : 0;
        }
        CHECK(causes >= 1);
    }
    // Two roots that wait for each other; no message reveals the mismatch.
    const auto outcomes = outcomes_on_toys(2, [](toy& comm) {
        std::vector x(10, 1);
        allfold::broadcast(comm, x, allfold::root{1 - comm.rank()});
        allfold::barrier(comm);
    });
    for (const auto& each : outcomes) CHECK(each.says("names root "));
}

TEST_CASE("operations on a toy transport may be waited for in different orders") {
    for (const int size : sizes)
        for (const auto& each : outcomes_on_toys(size, [](toy& comm) {
                 std::vector<float> x(5000, 1), y(300, 2);
                 auto first = allfold::all_reduce.start(comm, x, sum(), allfold::ring(), allfold::window{1000});
                 auto second = allfold::all_reduce.start(comm, y, sum());
                 if (comm.rank() % 2 == 0) second.wait();
                 first.wait();
                 second.wait();
                 const auto P = static_cast<float>(comm.size());
                 expect(x == std::vector<float>(5000, P) && y == std::vector<float>(300, 2 * P), "wrong sums");
             }))
            CHECK(each.text == "");
}
