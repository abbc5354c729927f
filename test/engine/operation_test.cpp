// SPDX-License-Identifier: BSL-1.0
#include "allfold/engine/operation.hpp"

#include <numeric>
#include <string>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/collective.hpp"
#include "allfold/transport/thread.hpp"
#include "test/support/catch.hpp"
#include "test/support/ranks.hpp"

using namespace allfold;

namespace {

void expect(bool fine, const char* what) {
    if (!fine) throw std::logic_error(what);
}

}  // namespace

TEST_CASE("many operations in flight on one communicator never mix") {
    for (const int size : {2, 3, 4, 7})
        for (const auto& tuning : {thread_tuning(), test::impatient})
            CHECK_NOTHROW(test::on_ranks(
                size,
                [size](auto& comm) {
                    constexpr int count = 50;
                    std::vector<std::vector<int>> data;
                    for (int i = 0; i < count; ++i)
                        data.emplace_back(static_cast<std::size_t>(1 + 37 * i), i + comm.rank());
                    std::vector<operation> all;
                    for (auto& each : data) all.push_back(all_reduce.start(comm, each, sum{}));
                    if (comm.rank() % 2 == 0)  // waited for in different orders
                        for (std::size_t i = all.size(); i-- > 0;) all[i].wait();
                    else
                        wait_all(all);
                    for (int i = 0; i < count; ++i)
                        for (int x : data[static_cast<std::size_t>(i)])
                            expect(x == size * i + size * (size - 1) / 2, "mixed");
                },
                tuning));
}

TEST_CASE("a blocking collective pushes on what is in flight") {
    CHECK_NOTHROW(test::on_ranks(4, [](auto& comm) {
        std::string word(1, static_cast<char>('a' + comm.rank()));
        operation slow = all_reduce.start(comm, word, associative(std::plus<>{}), recursive_doubling{});
        if (comm.rank() < 2) slow.wait();
        barrier(comm);
        slow.wait();
        expect(word == "abcd", "wrong word");
    }));
}

TEST_CASE("two lambdas of one type with different captures are different operators at the same time") {
    CHECK_NOTHROW(test::on_ranks(3, [](auto& comm) {
        const auto modulo = [](int m) { return commutative([m](int a, int b) { return (a + b) % m; }); };
        std::vector<int> x(1000, 5), y(1000, 5);
        operation first = all_reduce.start(comm, x, modulo(7));
        operation second = all_reduce.start(comm, y, modulo(4));
        second.wait();
        first.wait();
        expect(x == std::vector<int>(1000, 15 % 7), "modulo 7");
        expect(y == std::vector<int>(1000, 15 % 4), "modulo 4");
    }));
}

TEST_CASE("done makes progress without waiting, and an operation that is destroyed has been waited for") {
    CHECK_NOTHROW(test::on_ranks(2, [](auto& comm) {
        std::vector<int> x(100000, 1);
        operation polled = all_reduce.start(comm, x, sum{});
        while (!polled.done()) std::this_thread::yield();
        expect(x == std::vector<int>(100000, 2), "polled");
        {
            const operation dropped = all_reduce.start(comm, x, sum{});
        }
        expect(x == std::vector<int>(100000, 4), "dropped");
    }));
}

TEST_CASE("wait_any and wait_some say which operations are done") {
    CHECK_NOTHROW(test::on_ranks(2, [](auto& comm) {
        std::vector<int> x(10, 1), y(10, 2), z(10, 3);
        std::vector<operation> all;
        all.push_back(all_reduce.start(comm, x, sum{}));
        all.push_back(all_reduce.start(comm, y, sum{}));
        all.push_back(all_reduce.start(comm, z, sum{}));
        const std::size_t any = wait_any(all);
        expect(any < 3 && all[any].done(), "wait_any");
        std::size_t done = 0;
        while (done < 3) done = wait_some(all).size();
        expect(x[0] == 2 && y[0] == 4 && z[0] == 6, "results");
        expect(wait_any(std::vector<operation>()) == 0 && wait_some(std::vector<operation>()).empty(), "none");
    }));
}

TEST_CASE("a prepared collective runs again and again on what the memory holds then") {
    for (const std::size_t n : {std::size_t{1}, std::size_t{40000}})
        CHECK_NOTHROW(test::on_ranks(3, [n](auto& comm) {
            std::vector<int> in(n), out(n);
            persistent reduction = all_reduce.prepare(comm, in, out, sum{});
            for (int i = 0; i < 20; ++i) {
                std::fill(in.begin(), in.end(), i + comm.rank());
                reduction();
                expect(out == std::vector<int>(n, 3 * i + 3), "persistent");
            }
        }));
}

TEST_CASE("a small all_reduce works a hundred thousand times in a row") {
    CHECK_NOTHROW(test::on_ranks(2, [](auto& comm) {
        for (int i = 0; i < 100000; ++i) {
            int x = i + comm.rank();
            all_reduce(comm, x, max{});
            expect(x == i + 1, "max");
        }
    }));
}

TEST_CASE("an operation says what went wrong when it is waited for") {
    const auto outcomes = test::outcomes_on_ranks(2, [](auto& comm) {
        std::vector<int> x(comm.rank() == 0 ? 10 : 11);
        operation wrong = all_reduce.start(comm, x, sum{});
        wrong.wait();
    });
    for (const auto& each : outcomes) {
        INFO(each.text);
        CHECK((each.code == errc::mismatch || each.code == errc::peer_failed));
    }
}
