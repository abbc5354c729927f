// SPDX-License-Identifier: BSL-1.0
#include <cstddef>
#include <span>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/algebra/mean.hpp"
#include "allfold/analysis/explore.hpp"
#include "allfold/analysis/explored_communicator.hpp"
#include "allfold/collective/all_reduce.hpp"
#include "allfold/collective/barrier.hpp"
#include "allfold/collective/broadcast.hpp"
#include "allfold/collective/reduce_scatter.hpp"
#include "allfold/data/records.hpp"
#include "allfold/data/tensor_view.hpp"
#include "allfold/data/tensors.hpp"
#include "allfold/engine/operation.hpp"
#include "allfold/error.hpp"
#include "allfold/message.hpp"
#include "test/support/catch.hpp"

/// @file
/// What explore finds out about the memory of operations in flight.

using allfold::explain;
using allfold::exploration;
using allfold::explore;
using allfold::explored_communicator;
using allfold::from;
using allfold::tag;
using allfold::to;
using allfold::verdict;

TEST_CASE("memory of an operation in flight that the program writes is found: sent, received into, folded") {
    const auto finds = [](auto program, const char* words) {
        const exploration found = explore(2, program);
        INFO(explain(found));
        REQUIRE(!found.ok());
        CHECK(found.first().what == verdict::changed_in_flight);
        CHECK_THAT(found.first().text, Catch::Matchers::ContainsSubstring(words));
    };
    const auto sends = [](explored_communicator& comm, bool waits_first) {
        int x = 1, y = 0;
        auto sent = allfold::send.start(comm, x, to{1 - comm.rank()});
        if (waits_first) sent.wait();
        if (comm.rank() == 0) x = 2;
        allfold::receive(comm, y, from{1 - comm.rank()});
        sent.wait();
    };
    finds([&](explored_communicator& comm) { sends(comm, false); },
          "rank 0 changes it before the operation is done: send to rank 1 (its 1st call)");
    const auto receives = [](explored_communicator& comm, bool waits_first) {
        int y = 0;
        if (comm.rank() == 1) return allfold::send(comm, y, to{0});
        auto got = allfold::receive.start(comm, y, from{1});
        if (waits_first) got.wait();
        y = 7;
        got.wait();
    };
    finds([&](explored_communicator& comm) { receives(comm, false); },
          "rank 0 changes it before the operation is done: receive from rank 1 (its 1st call)");
    const auto receives_two = [](explored_communicator& comm) {
        int x = 0, y = 0;
        if (comm.rank() == 1) {
            allfold::send(comm, y, to{0}, tag{2});
            return allfold::send(comm, x, to{0}, tag{1});
        }
        auto first = allfold::receive.start(comm, x, from{1}, tag{1});
        auto second = allfold::receive.start(comm, y, from{1}, tag{2});
        y = 7;
        first.wait();  // this also takes in the message of the other receive
        second.wait();
    };
    finds(receives_two, "rank 0 changes it before the operation is done: receive from rank 1, tag 2 (its 2nd call)");
    const auto folds = [](explored_communicator& comm, bool waits_first) {
        std::vector<int> x(3, comm.rank()), y(3);
        auto sum = allfold::all_reduce.start(comm, x, y, allfold::sum());
        if (waits_first) sum.wait();
        if (comm.rank() == 1) x[2] = 9;
        sum.wait();
        return y;
    };
    finds([&](explored_communicator& comm) { folds(comm, false); },
          "rank 1 changes it before the operation is done: all_reduce (its 1st call)");
    const auto in_place = [](explored_communicator& comm) {
        std::vector<int> x(4, comm.rank());
        allfold::reduce_scatter.start(comm, x, allfold::sum()).wait();
        return x;
    };
    for (const exploration& found :
         {explore(2, in_place), explore(2, [&](explored_communicator& comm) { receives(comm, true); }),
          explore(2, [&](explored_communicator& comm) { folds(comm, true); })}) {
        INFO(explain(found));
        CHECK(found.ok());
    }
    const exploration headlong = explore(2, [&](explored_communicator& comm) { sends(comm, true); });
    INFO(explain(headlong));
    CHECK((headlong.findings().size() == 1 && headlong.first().what == verdict::deadlock_unless_held));
}

TEST_CASE("memory that a collective in flight writes is watched: its result, and an operand in place") {
    const auto finds = [](auto program) {
        const exploration found = explore(2, program);
        INFO(explain(found));
        REQUIRE(!found.ok());
        CHECK(found.first().what == verdict::changed_in_flight);
        CHECK_THAT(found.first().text,
                   Catch::Matchers::ContainsSubstring(
                       "rank 0 changes it before the operation is done: all_reduce (its 1st call)"));
    };
    finds([](explored_communicator& comm) {
        std::vector<int> in{comm.rank()}, out{0};
        auto total = allfold::all_reduce.start(comm, in, out, allfold::sum());
        if (comm.rank() == 0) out[0] = 3;
        total.wait();
    });
    finds([](explored_communicator& comm) {
        std::vector<int> x{comm.rank()};
        auto total = allfold::all_reduce.start(comm, x, allfold::sum());
        allfold::barrier(comm);
        if (comm.rank() == 0 && !total.done()) x[0] = 3;
        total.wait();
    });
    const exploration clean = explore(2, [](explored_communicator& comm) {
        std::vector<int> x(5000, comm.rank()), y(5000, -1);
        auto first = allfold::all_reduce.start(comm, x, allfold::sum());
        auto second = allfold::all_reduce.start(comm, y, allfold::sum());
        while (!second.done()) {
        }
        y[0] = 0;
        first.wait();
        return x[0];
    });
    INFO(explain(clean));
    CHECK(clean.ok());
}

TEST_CASE("memory with gaps is watched as well: strided views, lists, records, and what an operator lifts") {
    const auto finds = [](auto start, std::size_t changed, bool is_fault) {
        const exploration found = explore(2, [&](explored_communicator& comm) {
            std::vector<double> x(12, comm.rank()), y(12);
            auto one = start(comm, x, y);
            if (comm.rank() == 0) (changed < 12 ? x[changed] : y[changed - 12]) = 9;
            one.wait();
        });
        INFO(changed << ": " << explain(found));
        REQUIRE(found.ok() != is_fault);
        if (is_fault) CHECK(found.first().what == verdict::changed_in_flight);
    };
    const auto columns = [](std::vector<double>& x) {  // the first two of each row of three
        return allfold::tensor<double, 2>(x.data(), {4, 2}, {3, 1});
    };
    const auto list = [](std::vector<double>& x) {
        return allfold::tensors(std::span(x).first(2), std::span(x).last(3));
    };
    const auto rows = [](std::vector<double>& x) {
        return allfold::records(std::span(x).first(4), allfold::tensor<double, 1>(x.data() + 4, {4}, {2}));
    };
    const auto folds = [](auto of, auto op) {
        return [=](explored_communicator& comm, std::vector<double>& x, std::vector<double>& y) {
            return allfold::all_reduce.start(comm, of(x), of(y), op);
        };
    };
    const auto trades = [](auto of) {
        return [=](explored_communicator& comm, std::vector<double>& x, std::vector<double>& y) {
            return allfold::exchange.start(comm, of(x), to{1 - comm.rank()}, of(y), from{1 - comm.rank()});
        };
    };
    for (const std::size_t in_or_out : {0U, 12U}) {
        finds(trades(columns), in_or_out + 4, true);
        finds(trades(columns), in_or_out + 5, false);
        finds(folds(columns, allfold::sum()), in_or_out + 10, true);
        finds(folds(columns, allfold::sum()), in_or_out + 11, false);
        finds(trades(list), in_or_out + 9, true);
        finds(folds(list, allfold::sum()), in_or_out + 1, true);
        finds(folds(list, allfold::sum()), in_or_out + 2, false);
        finds(trades(rows), in_or_out + 6, true);
        finds(folds(rows, allfold::sum()), in_or_out + 10, true);
        finds(folds(rows, allfold::sum()), in_or_out + 5, false);
        finds(folds([](std::vector<double>& all) { return std::span(all); }, allfold::mean()), in_or_out + 3, true);
    }
}

TEST_CASE("operations in flight that use one place are reported as such, unless they only read it") {
    const auto shares = [](auto program, const char* words) {
        const exploration found = explore(2, program);
        INFO(explain(found));
        REQUIRE(!found.findings().empty());
        CHECK(found.first().what == verdict::changed_in_flight);
        CHECK_THAT(found.first().text, Catch::Matchers::Equals(words));
    };
    shares(
        [](explored_communicator& comm) {
            int y = 0;
            for (int i = 1; comm.rank() == 1 && i < 3; ++i) allfold::send(comm, i, to{0});
            if (comm.rank() == 1) return;
            auto first = allfold::receive.start(comm, y, from{1});
            auto second = allfold::receive.start(comm, y, from{1});
            first.wait();
            second.wait();
        },
        "two operations of rank 0 use it at the same time: receive from rank 1 (its 1st call) and receive from rank 1 "
        "(its 2nd call)");
    shares(
        [](explored_communicator& comm) {
            int x = 0;
            auto total = allfold::all_reduce.start(comm, x, allfold::sum());
            if (comm.rank() == 0) allfold::send(comm, x, to{1}, allfold::mode::synchronous);
            int y = 0;
            if (comm.rank() == 1) allfold::receive(comm, y, from{0});
            total.wait();
        },
        "two operations of rank 0 use it at the same time: all_reduce (its 1st call) and send to rank 1 (its 2nd "
        "call)");
    const exploration reads = explore(2, [](explored_communicator& comm) {
        int x = comm.rank(), y = 0, z = 0;
        auto first = allfold::all_reduce.start(comm, x, y, allfold::sum());
        auto second = allfold::all_reduce.start(comm, x, z, allfold::sum());
        auto sent = allfold::send.start(comm, x, to{1 - comm.rank()});
        int got = 0;
        allfold::receive(comm, got, from{1 - comm.rank()});
        first.wait();
        second.wait();
        sent.wait();
    });
    INFO(explain(reads));
    CHECK(reads.ok());
    const exploration root = explore(3, [](explored_communicator& comm) {
        int x = comm.rank(), y = 0;
        auto first = allfold::broadcast.start(comm, x, allfold::root{0});
        auto second = allfold::broadcast.start(comm, comm.rank() == 0 ? x : y, allfold::root{0});
        first.wait();
        second.wait();
    });
    INFO(explain(root));
    CHECK(root.ok());
}

TEST_CASE("the strided place of an exchange whose message has arrived, and whose send still waits, is written") {
    const exploration found = explore(2, [](explored_communicator& comm) {
        const std::vector<int> x(2, comm.rank());
        std::vector<int> y(4);
        int go = 0;
        if (comm.rank() == 1) {
            allfold::send(comm, x, to{0});
            allfold::send(comm, go, to{0}, tag{1});
            allfold::receive(comm, go, from{0}, tag{1});
            allfold::receive(comm, std::span(y).first(2), from{0});
        } else {
            const allfold::tensor<int, 1> every_other(y.data(), {2}, {2});
            auto both = allfold::exchange.start(comm, x, to{1}, every_other, from{1});
            allfold::receive(comm, go, from{1}, tag{1});
            y[2] = 7;
            allfold::send(comm, go, to{1}, tag{1});
            both.wait();
        }
    });
    INFO(explain(found));
    REQUIRE(!found.findings().empty());
    CHECK(found.first().what == verdict::changed_in_flight);
}
