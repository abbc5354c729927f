// SPDX-License-Identifier: BSL-1.0
#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/analysis/explore.hpp"
#include "allfold/analysis/explored_communicator.hpp"
#include "allfold/collective.hpp"
#include "allfold/engine/operation.hpp"
#include "allfold/message.hpp"
#include "allfold/schedule/ring.hpp"
#include "test/analysis/each_execution.hpp"
#include "test/support/catch.hpp"

/// @file
/// Orders of arrival are explored if a rank can tell them apart, and only then.

using allfold::all_reduce;
using allfold::explain;
using allfold::exploration;
using allfold::explore;
using allfold::explored_communicator;
using allfold::from;
using allfold::sum;
using allfold::tag;
using allfold::to;

namespace {

using vector = std::vector<int>;  // an operand

constexpr std::uint64_t power(std::uint64_t base, int exponent) {
    return exponent == 0 ? 1 : base * power(base, exponent - 1);
}

/// Options with which standard sends need not wait for their receives.
allfold::explore_options held() {
    allfold::explore_options options;
    options.sends = allfold::standard_sends::held;
    return options;
}

template <class Program>
void check_count(int size, std::uint64_t expected, Program program) {
    const exploration found = explore(size, program, held());
    INFO(size << " ranks: " << explain(found) << found.redundant() << " given up");
    CHECK((found.ok() && found.complete() && found.executions() == expected && found.redundant() == 0));
}

/// What rank 0 returns, over all executions.
template <class Program>
std::set<std::string> answers(int size, Program program) {
    std::set<std::string> all;
    std::string now;
    allfold::explore_options options = held();
    test::after_each_execution(options, [&] { all.insert(now); });
    const exploration found = explore(
        size,
        [&](explored_communicator& comm) {
            std::string mine = program(comm);
            if (comm.rank() == 0) now = std::move(mine);
        },
        options);
    INFO(explain(found));
    CHECK((found.ok() && found.complete()));
    return all;
}
std::string text_of(const std::vector<std::size_t>& indices) {
    std::string all;
    for (const std::size_t i : indices) all += std::to_string(i);
    return all;
}

/// Sums that are in flight on all ranks.
template <std::size_t Count>
struct sums_in_flight {
    std::array<int, Count> data{};
    std::array<allfold::operation, Count> operations;
    explicit sums_in_flight(explored_communicator& comm) {
        for (std::size_t i = 0; i < Count; ++i) operations[i] = all_reduce.start(comm, data[i], sum());
    }
};
/// All other ranks send to rank 0, which has a receive from each of them in flight.
struct receives_in_flight {
    std::vector<int> data;
    std::vector<allfold::operation> operations;
    explicit receives_in_flight(explored_communicator& comm) : data(static_cast<std::size_t>(comm.size())) {
        if (comm.rank() != 0) allfold::send(comm, comm.rank(), to{0});
        for (std::size_t r = 1; comm.rank() == 0 && r < data.size(); ++r)
            operations.push_back(allfold::receive.start(comm, data[r], from{static_cast<int>(r)}));
    }
};

}  // namespace

TEST_CASE("who waits for any of n collectives gets each of them first, and no other order is tried") {
    for (int size = 2; size <= 4; ++size) {
        check_count(size, power(2, size), [](explored_communicator& comm) {
            sums_in_flight<2> all(comm);
            static_cast<void>(wait_any(all.operations));
            wait_all(all.operations);
        });
        if (size < 4)
            check_count(size, power(3, size), [](explored_communicator& comm) {
                sums_in_flight<3> all(comm);
                static_cast<void>(wait_any(all.operations));
                wait_all(all.operations);
            });
    }
    check_count(2, power(6, 2), [](explored_communicator& comm) {
        sums_in_flight<3> all(comm);
        for (int i = 0; i < 3; ++i) static_cast<void>(wait_any(all.operations));
    });
}

TEST_CASE("what a rank does after its last question is one execution") {
    for (int size = 2; size <= 4; ++size) {
        check_count(size, 2, [](explored_communicator& comm) {
            sums_in_flight<1> one(comm);
            if (comm.rank() == 0) static_cast<void>(one.operations[0].done());
            one.operations[0].wait();
            sums_in_flight<3> more(comm);
            wait_all(more.operations);
            allfold::barrier(comm);
        });
        std::uint64_t orders = 1;  // of what arrives at rank 0; no rank sees the order of the collectives beside it
        for (int senders = 2; senders < size; ++senders) orders *= static_cast<std::uint64_t>(senders);
        check_count(size, orders, [](explored_communicator& comm) {
            sums_in_flight<2> beside(comm);
            int x = all_reduce(comm, comm.rank(), sum());
            if (comm.rank() != 0) allfold::send(comm, x, to{0});
            for (int i = 1; comm.rank() == 0 && i < comm.size(); ++i) allfold::receive(comm, x, from{allfold::any});
            wait_all(beside.operations);
            allfold::barrier(comm);
        });
    }
}

TEST_CASE("who waits for some, or tests some, finds one of them, or several at once") {
    const std::set<std::string> some{"0", "1", "01"}, none_or_some{"", "0", "1", "01"};
    const auto waits = [](auto& all) {
        std::string first = text_of(wait_some(all.operations));
        wait_all(all.operations);
        return first;
    };
    const auto tests = [](auto& all) {
        std::string first = text_of(test_some(all.operations));
        wait_all(all.operations);
        return first;
    };
    const auto with_sums = [](auto ask) {
        return [ask](explored_communicator& comm) {
            sums_in_flight<2> all(comm);
            return comm.rank() == 0 ? ask(all) : (wait_all(all.operations), std::string());
        };
    };
    const auto with_messages = [](auto ask) {
        return [ask](explored_communicator& comm) {
            receives_in_flight all(comm);
            return comm.rank() == 0 ? ask(all) : std::string();
        };
    };
    CHECK(answers(2, with_sums(waits)) == some);
    CHECK(answers(3, with_sums(tests)) == none_or_some);
    CHECK(answers(3, with_messages(waits)) == some);
    CHECK(answers(3, with_messages(tests)) == none_or_some);
}

TEST_CASE("who waits for any of two messages of one rank may find the later one too, which it names first") {
    const auto program = [](explored_communicator& comm) {
        if (comm.rank() == 1) {
            allfold::send(comm, 1, to{0}, tag{1});
            allfold::send(comm, 2, to{0}, tag{2});
            return std::string();
        }
        std::array<int, 2> data{};
        std::array both{allfold::receive.start(comm, data[0], from{1}, tag{2}),
                        allfold::receive.start(comm, data[1], from{1}, tag{1})};
        const std::size_t first = wait_any(both);
        wait_all(both);
        return std::to_string(first);
    };
    CHECK(answers(2, program) == std::set<std::string>{"0", "1"});
}

TEST_CASE("what one look finds is no less because an earlier one found something") {
    const auto program = [](explored_communicator& comm) {
        int mine = 1, received = 0, sum_of_both = 0;
        if (comm.rank() == 1) {
            allfold::send(comm, mine, to{0});
            all_reduce(comm, mine, sum_of_both, sum());
            return std::string();
        }
        allfold::operation receives = allfold::receive.start(comm, received, from{1});
        std::string done = receives.done() ? "received, " : "not received, ";
        allfold::operation adds = all_reduce.start(comm, mine, sum_of_both, sum());
        done += adds.done() ? "added" : "not added";
        adds.wait();
        receives.wait();
        return done;
    };
    CHECK(answers(2, program) == std::set<std::string>{"received, added", "received, not added", "not received, added",
                                                       "not received, not added"});
}

TEST_CASE("what one look finds may be a message, and the end of a collective behind it") {
    std::set<std::size_t> found_at_once;
    const exploration found = explore(2, [&](explored_communicator& comm) {
        int x = 0, y = comm.rank();
        if (comm.rank() == 1) {
            allfold::send(comm, x, to{0}, allfold::mode::synchronous);
            static_cast<void>(all_reduce(comm, y, sum()));
            return;
        }
        std::array both{allfold::receive.start(comm, x, from{1}), all_reduce.start(comm, y, sum())};
        found_at_once.insert(allfold::test_some(both).size());
        wait_all(both);
    });
    INFO(explain(found));
    CHECK((found.ok() && found.complete()));
    CHECK(found_at_once == std::set<std::size_t>{0, 1, 2});
}

TEST_CASE("a function that is called at the end of an operation is called by one call or by another") {
    const auto program = [](explored_communicator& comm) {
        std::string order;
        if (comm.rank() == 1) {
            allfold::send(comm, 1, to{0});
            return order;
        }
        int data = 0, own = 0;
        auto receives = allfold::receive.start(comm, data, from{1});
        receives.then([&] { order += "r"; });
        order += "1";
        allfold::exchange(comm, own, to{0}, from{0});
        order += "2";
        receives.wait();
        return order;
    };
    CHECK(answers(2, program) == std::set<std::string>{"r12", "1r2", "12r"});
}

TEST_CASE("what nobody sees may come before what is seen, and lead to something that is") {
    const auto program = [](explored_communicator& comm) {
        const auto both = allfold::subset(comm, allfold::rank_list{0, 1});
        vector x{1, 2};
        int y = 0;
        if (comm.rank() == 2) allfold::send(comm, y, to{1});
        if (comm.rank() == 1) {
            allfold::send(comm, y, to{0});
            allfold::receive(comm, y, from{allfold::any});
            all_reduce(*both, x, sum(), allfold::ring());
            allfold::send(comm, y, to{0}, tag{1});
        }
        if (comm.rank() != 0) return std::string();
        auto adds = all_reduce.start(*both, x, sum(), allfold::ring());
        allfold::receive(comm, y, from{allfold::any}, tag{0});  // the first round may end meanwhile
        const bool is_there = allfold::try_probe(comm, from{1}, tag{1}).has_value();
        adds.wait();
        allfold::receive(comm, y, from{1}, tag{1});
        return std::string(is_there ? "there" : "not there");
    };
    CHECK(answers(3, program) == std::set<std::string>{"there", "not there"});
}

TEST_CASE("collectives are explored on three ranks, and do what they do elsewhere in every order") {
    allfold::explore_options every;
    every.every_order = true;
    const auto check = [&](const char* name, std::uint64_t most, auto program, std::uint64_t visible = 1) {
        const auto found = explore(3, program, every), as_seen = explore(3, program);
        INFO(name << ": " << explain(found) << explain(as_seen));
        CHECK((found.ok() && found.complete() && found.executions() >= 1 && found.executions() <= most));
        CHECK((as_seen.ok() && as_seen.complete()));
        CHECK((as_seen.executions() == visible && as_seen.redundant() == 0));  // a rank that never tests sees no order
    };
    const auto expect = [](const vector& found, const vector& expected) {
        if (found != expected) throw std::runtime_error("another result");
        return found;
    };
    check("all_reduce", 1, [&](auto& comm) {
        vector x{comm.rank(), 1};
        all_reduce(comm, x, sum());
        return expect(x, {3, 3});
    });
    check("ring", 1, [&](auto& comm) {
        vector x{comm.rank(), 1, 2, 3, 4, 5};
        all_reduce(comm, x, sum(), allfold::ring());
        return expect(x, {3, 3, 6, 9, 12, 15});
    });
    check("two windows", 100, [&](auto& comm) {
        vector x{comm.rank(), 1};
        all_reduce(comm, x, sum(), allfold::window{4});
        return expect(x, {3, 3});
    });
    check("broadcast and reduce", 10, [&](auto& comm) {
        vector x{comm.rank() == 1 ? 7 : 0}, total{0};
        allfold::broadcast(comm, x, allfold::root{1});
        allfold::reduce(comm, x, total, sum(), allfold::root{2});
        expect(total, {comm.rank() == 2 ? 21 : 0});
        return expect(x, {7});
    });
    check("scans", 10, [&](auto& comm) {
        vector x{comm.rank() + 1}, before{0};
        allfold::inclusive_scan(comm, x, sum());
        allfold::exclusive_scan(comm, x, before, sum());
        expect(before, {std::array{0, 1, 4}[static_cast<std::size_t>(comm.rank())]});
        return expect(x, {std::array{1, 3, 6}[static_cast<std::size_t>(comm.rank())]});
    });
    check("gather, scatter, all_gather, all_to_all", 2000, [&](auto& comm) {
        vector own{comm.rank()}, all(3), back{-1}, turned(3);
        allfold::gather(comm, own, all);
        allfold::scatter(comm, all, back);
        allfold::all_gather(comm, back, all);
        allfold::all_to_all(comm, all, turned);
        return expect(turned, vector(3, comm.rank()));
    });
    check("reduce_scatter, permute, barrier", 100, [&](auto& comm) {
        vector x{1, 2, 3}, own{0}, moved{0};
        allfold::reduce_scatter(comm, x, own, sum());
        allfold::permute(comm, own, moved, allfold::shift{1});
        allfold::barrier(comm);
        return expect(moved, {3 * (1 + (comm.rank() + 2) % 3)});
    });
    check("two in flight, waited for in opposite orders", 100, [&](auto& comm) {
        vector x{1}, y{2};
        auto first = all_reduce.start(comm, x, sum()), second = all_reduce.start(comm, y, sum());
        comm.rank() == 0 ? second.wait() : first.wait();
        comm.rank() == 0 ? first.wait() : second.wait();
        return expect({x[0], y[0]}, {3, 6});
    });
    check("two communicators, waited for in opposite orders", 100, [&](auto& comm) {
        const auto other = allfold::subset(comm, allfold::rank_list{2, 0, 1});
        vector x{1}, y{2};
        auto first = all_reduce.start(comm, x, sum()), second = all_reduce.start(*other, y, sum());
        comm.rank() == 0 ? second.wait() : first.wait();
        comm.rank() == 0 ? first.wait() : second.wait();
        return expect({x[0], y[0], other->rank()}, {3, 6, (comm.rank() + 1) % 3});
    });
    check("teams", 100, [&](auto& comm) {
        const auto mine = allfold::split(comm, allfold::color{comm.rank() / 2});
        vector x{1};
        all_reduce(*mine, x, sum());
        return expect(x, {comm.rank() < 2 ? 2 : 1});
    });
    check(
        "a test before each wait", 1000,
        [&](auto& comm) {
            vector x{1};
            auto operation = all_reduce.start(comm, x, sum());
            static_cast<void>(operation.done());
            operation.wait();
            return expect(x, {3});
        },
        8);  // each rank finds it done, or not
    check(
        "a loop that tests", 1000,
        [&](auto& comm) {
            vector x{1};
            auto operation = all_reduce.start(comm, x, sum());
            while (!operation.done()) {
            }
            return expect(x, {3});
        },
        8);  // each rank finds it done, or not
}
