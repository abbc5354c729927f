// SPDX-License-Identifier: BSL-1.0
#include "allfold/collective/sync.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <numeric>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "allfold/algebra/standard_functors.hpp"
#include "allfold/collective.hpp"
#include "allfold/collective/together.hpp"
#include "allfold/data/tensor_view.hpp"
#include "allfold/data/tensors.hpp"
#include "allfold/transport/forwarding.hpp"
#include "test/collective/sync_checks.hpp"
#include "test/support/catch.hpp"
#include "test/support/groups.hpp"
#include "test/support/oracle.hpp"
#include "test/support/ranks.hpp"
#include "test/support/remote.hpp"

using namespace test;
using allfold::in_sync;
using allfold::operation;
using allfold::out_sync;
using allfold::persistent;

namespace {

constexpr std::size_t long_enough = 100000;  // enough elements to be lent

void await(const std::atomic<int>& stage, int wanted) {
    while (stage < wanted) std::this_thread::yield();
}
/// Polls for so long that an operation that can end does.
bool ends(operation& op) {
    for (int i = 0; i < 300; ++i) {
        if (op.done()) return true;
        std::this_thread::yield();
    }
    return false;
}
void await_end(operation& op) {
    while (!op.done()) std::this_thread::yield();
}

}  // namespace

TEST_CASE("each of the nine modes ends as early as it may, and not before") {
    for (const in_sync in : every_in)
        for (const out_sync out : every_out) {
            const std::string mode = name_of(in, out);
            std::atomic<int> stage = 0;
            on_ranks(3, [&](auto& comm) {
                std::vector<int> x(long_enough);
                if (comm.rank() == 0) std::iota(x.begin(), x.end(), 1);
                await(stage, comm.rank());
                operation op = allfold::broadcast.start(comm, x, in, out, allfold::direct());
                if (comm.rank() == 0) {  // the root has its result, and no other rank has entered yet
                    const bool may_end = in != in_sync::all && out == out_sync::none;
                    expect(ends(op) == may_end, mode + ": the root alone");
                    stage = 1;
                } else if (comm.rank() == 1) {  // its result comes from the root
                    const bool may_end = in != in_sync::all && out != out_sync::all;
                    if (may_end) await_end(op);
                    expect(ends(op) == may_end, mode + ": the second of three");
                    stage = 2;
                }
                op.wait();
                for (std::size_t i = 0; i < x.size(); ++i) expect(x[i] == static_cast<int>(i) + 1, mode);
                allfold::barrier(comm);  // no rank may write x before this
                x.assign(x.size(), -1);
            });
        }
    SUCCEED();
}

TEST_CASE("in_sync::all: other ranks may write an input until they enter") {
    std::vector<std::vector<std::string>> inputs(3, std::vector<std::string>(long_enough / 100, "a"));
    std::atomic<int> stage = 0;
    on_ranks(3, [&](auto& comm) {
        const auto self = static_cast<std::size_t>(comm.rank());
        await(stage, comm.rank());
        std::vector<std::string> folds(inputs[self].size());
        persistent op = allfold::all_reduce.prepare(comm, inputs[self], folds, std::plus(), in_sync::all);
        if (comm.rank() > 0)
            for (auto& input : inputs) input[7] += std::to_string(self);
        op.start();
        expect(comm.rank() == 2 || !op.done(), "ends before all have entered");
        stage = comm.rank() + 1;
        op.wait();
        expect(folds[7] == "a12a12a12" && folds[8] == "aaa", folds[7]);
    });
    SUCCEED();
}

TEST_CASE("in_sync::all: other ranks may write images, and what a rank sends to whom, until they enter") {
    std::vector<int> images[2] = {std::vector<int>(4, 1), std::vector<int>(4, 1)}, sizes[2] = {{1, 2}, {1, 2}};
    std::atomic<int> stage = 0;
    on_ranks(2, [&](auto& comm) {
        const auto self = static_cast<std::size_t>(comm.rank());
        auto& own = images[self];
        await(stage, comm.rank());
        std::vector<int> folds(4);
        persistent op =
            allfold::all_reduce.prepare(comm, allfold::images(own, own), folds, allfold::sum(), in_sync::all);
        if (self == 1) images[0].assign(4, 100);
        op.start();
        stage = comm.rank() + 1;
        op.wait();
        expect(folds == std::vector<int>(4, 202), "images");

        await(stage, 2 + comm.rank());
        std::vector<int> in(3, comm.rank()), out;
        if (self == 1) {
            for (int i = 0; i < 300; ++i) std::this_thread::yield();  // until the other one waits in its call
            sizes[0] = {2, 1};
        }
        stage = 3;
        allfold::all_to_all(comm, in, sizes[self], out, in_sync::all);
        expect(out == (self == 0 ? std::vector{0, 0, 1} : std::vector{0, 1, 1}), "sizes");
    });
    SUCCEED();
}

TEST_CASE("out_sync::all: other ranks' outputs are complete where the call returns") {
    for (const int size : {1, 2, 4, 7}) {
        std::vector<std::vector<int>> outputs(static_cast<std::size_t>(size), std::vector<int>(long_enough, -1));
        on_ranks(size, [&](auto& comm) {
            for (int turn = 1; turn <= 4; ++turn) {
                std::vector<int> in(long_enough, turn);
                auto& out = outputs[static_cast<std::size_t>(comm.rank())];
                allfold::all_reduce(comm, in, out, allfold::sum(), out_sync::all, in_sync::all);
                for (const auto& each : outputs) expect(each.front() == turn * size && each.back() == each[1], "early");
            }
        });
    }
    SUCCEED();
}

TEST_CASE("what a collective gives does not depend on when it begins and ends") {
    for (const int size : few_group_sizes)
        for (const bool is_far : {false, true})
            on_ranks(
                size,
                [&](auto& comm) {
                    remote far(comm);
                    is_far ? check_sync_modes(far) : check_sync_modes(comm);
                },
                is_far ? roomy : impatient);
    SUCCEED();
}

TEST_CASE("what is still read when its call has ended is waited for where its communicator ends") {
    for (const bool waits : {false, true}) {
        std::vector<int> x(long_enough, 5);  // the root's operand, which outlives its rank
        on_ranks(4, [&](auto& comm) {
            if (comm.rank() == 0) {
                operation op = allfold::broadcast.start(comm, x, out_sync::none, allfold::direct());
                if (waits) op.wait();
                return;
            }
            std::vector<int> y(long_enough);
            for (int i = 0; i < 100; ++i) std::this_thread::yield();
            allfold::broadcast(comm, y, allfold::direct());
            expect(y.front() == 5 && y.back() == 5, "what a rank got that came late");
        });
    }
    SUCCEED();
}

namespace {

/// Runs `start(comm)`, whose result rank 0 has before rank 1 has read what it needs, and then `check(comm)`.
template <class Start, class Check>
void read_late(bool enters_late, Start start, Check check) {
    std::atomic<int> stage = 0;
    on_ranks(2,
             [&](auto& comm) {
                 operation op;
                 const bool is_late = comm.rank() == 1;
                 if (!is_late) {
                     op = start(comm);
                     stage = 1;
                     await(stage, enters_late ? 1 : 2);
                     static_cast<void>(ends(op));
                     stage = 3;
                 } else {
                     await(stage, enters_late ? 3 : 1);
                     op = start(comm);
                     static_cast<void>(op.done());
                     stage = std::max(stage.load(), 2);
                     await(stage, 3);
                 }
                 op.wait();
                 check(comm);
                 allfold::barrier(comm);
             },
             {.eager_bytes = 4096});
}

/// Adds numbers, of which the mean has another type: it cannot be made where they lie.
struct average {
    static constexpr allfold::law_set laws = allfold::law::associative | allfold::law::commutative;
    double operator()(double a, double b) const { return a + b; }
    static float lower(const double& total, int count) { return static_cast<float>(total / count); }
};

}  // namespace

TEST_CASE("what peers still read is neither moved nor lowered") {
    using strings = std::vector<std::string>;
    const std::string text = "more than fits into a string without memory of its own";
    for (const bool is_list : {false, true}) {
        strings x[2] = {strings(8, text), strings(8)};
        read_late(
            true,
            [&](auto& comm) {
                strings& mine = x[comm.rank()];
                const auto start_with = [&](auto of) {
                    return allfold::broadcast.start(comm, of, out_sync::none, allfold::direct());
                };
                return is_list ? start_with(allfold::tensors(std::span(mine).first(1), std::span(mine).last(2)))
                               : start_with(allfold::tensor<std::string, 1>(mine.data(), {4}, {2}));
            },
            [&](auto& comm) {
                const strings& mine = x[comm.rank()];
                expect(mine[0] == text && mine[6] == text, "broadcast: " + mine[0]);
            });
    }
    strings shards[2] = {strings(2), strings(2)};
    shards[0][1] = shards[1][0] = text;
    std::vector<double> numbers[2] = {std::vector<double>(16384, 8), std::vector<double>(16384, 16)};
    for (const bool is_late : {false, true}) {
        read_late(
            is_late,
            [&](auto& comm) {
                return allfold::all_gather.start(comm, shards[comm.rank()], allfold::shards{1, 0}, out_sync::none);
            },
            [&](auto& comm) { expect(shards[comm.rank()] == strings(2, text), "all_gather"); });
        numbers[0].assign(numbers[0].size(), 8);
        numbers[1].assign(numbers[1].size(), 16);
        read_late(
            is_late,
            [&](auto& comm) {
                return allfold::all_reduce.start(comm, numbers[comm.rank()], average(), allfold::ring(),
                                                 allfold::window(1 << 20), out_sync::none);
            },
            [&](auto& comm) {
                const auto& x = numbers[comm.rank()];
                expect(x.front() == 12 && x.back() == 12, "all_reduce: " + std::to_string(x.back()));
            });
    }
    SUCCEED();
}

TEST_CASE("a strided result lands among an input that peers read only when they have read it") {
    for (const int stride : {2, -1}) {
        std::atomic<int> stage = 0;
        CHECK_NOTHROW(on_ranks(3, [&](auto& comm) {
            constexpr std::size_t part = long_enough / 10;
            std::vector<long> x(3 * part), own(2 * part);
            std::iota(x.begin(), x.end(), 0);
            const std::size_t first = stride < 0 ? part - 1 : 0;
            allfold::tensor<long, 1> out((comm.rank() == 0 ? x : own).data() + first, {part}, {stride});
            if (comm.rank() != 0)  // until the root's call ends, if it does not wait for the others
                for (int i = 0; i < 1000 && stage == 0; ++i) std::this_thread::yield();
            allfold::scatter(comm, x, out, allfold::root{0}, out_sync::none);
            stage = 1;
            bool right = true;
            for (std::size_t i = 0; i < part; ++i)
                right = right && out(i) == static_cast<long>(static_cast<std::size_t>(comm.rank()) * part + i);
            expect(right, "stride " + std::to_string(stride));
        }));
    }
}

TEST_CASE("the deadline of a call is over when it has returned, however late others read") {
    std::atomic<int> stage = 0;
    const auto outcomes = outcomes_on_ranks(3, [&](auto& comm) {
        std::vector<int> x(long_enough, comm.rank());
        if (comm.rank() == 0) {
            allfold::broadcast(comm, x, out_sync::none, allfold::direct(),
                               allfold::deadline(std::chrono::milliseconds(20)));
            stage = 1;
        } else {
            await(stage, 1);
            std::this_thread::sleep_for(std::chrono::milliseconds(30));
            allfold::broadcast(comm, x, out_sync::none, allfold::direct());
        }
        allfold::barrier(comm);
        expect(x.back() == 0, "what a rank got that came late");
    });
    INFO(outcomes[0].text);
    CHECK(outcomes[0].succeeded());
}

namespace {

/// Messages are sent, but long ones are lent.
struct lending : allfold::forwarding<allfold::thread_communicator> {
    static constexpr bool shares_memory = false;
    using forwarding::forwarding;
    ~lending() { background().end(this); }
};

}  // namespace

TEST_CASE("collectives together may end early where ranks share no memory") {
    for (const bool outlives : {false, true}) {
        std::vector<int> x[2] = {std::vector<int>(long_enough, 1), std::vector<int>(long_enough, 2)};
        std::atomic<int> stage = 0;
        operation last;
        on_ranks(2, [&](auto& base) {
            lending comm(base);
            auto& mine = x[comm.rank()];
            if (comm.rank() == 0) await(stage, 1);
            operation op = allfold::together.start(
                comm, allfold::reduce.with(mine, allfold::sum(), allfold::root{0}, out_sync::none));
            if (comm.rank() == 1) {
                await_end(op);
                stage = 1;
                if (outlives) return static_cast<void>(last = std::move(op));
            }
            op = operation();
            if (outlives) return;
            allfold::barrier(comm);
        });
        CHECK(x[0].back() == 3);
        CHECK(last.done());
    }
}

TEST_CASE("an operation that ended early may outlive its communicator, which waits for those who still read") {
    std::vector<int> x(long_enough, 5);
    operation outlives;
    on_ranks(3, [&](auto& comm) {
        if (comm.rank() == 0) {
            outlives = allfold::broadcast.start(comm, x, out_sync::none, allfold::direct());
            return outlives.wait();
        }
        std::vector<int> y(long_enough);
        for (int i = 0; i < 100; ++i) std::this_thread::yield();
        allfold::broadcast(comm, y, allfold::direct());
        expect(y.front() == 5 && y.back() == 5, "what a rank got that came late");
    });
    CHECK(outlives.done());
}

TEST_CASE("a rank that fails while others still read ends the calls of all") {
    const auto outcomes = outcomes_on_ranks(3, [](auto& comm) {
        std::vector<int> x(long_enough, 5);
        if (comm.rank() == 2) throw wrong("left");
        allfold::broadcast(comm, x, out_sync::none, allfold::direct());
        allfold::barrier(comm);
    });
    CHECK(outcomes[0].code == allfold::errc::peer_failed);
    CHECK(outcomes[1].code == allfold::errc::peer_failed);
}

TEST_CASE("ranks that differ in when a collective begins get an error that names the barrier") {
    const auto outcomes = outcomes_on_ranks(2, [](auto& comm) {
        std::vector<int> x(10);
        allfold::all_reduce(comm, x, allfold::sum(), comm.rank() == 0 ? in_sync::all : in_sync::mine);
    });
    CHECK((outcomes[0].says("barrier") || outcomes[1].says("barrier")));
}

TEST_CASE("a deadline counts while a call waits until all have entered, or left") {
    using modes = std::pair<in_sync, out_sync>;
    for (const modes& each : {modes{in_sync::all, out_sync::mine}, modes{in_sync::all, out_sync::none},
                              modes{in_sync::mine, out_sync::all}})
        for (const bool starts : {false, true}) {
            std::atomic<int> has_failed = 0;
            const auto outcomes = outcomes_on_ranks(2, [&](auto& comm) {
                std::vector<int> x(10, 1);
                if (comm.rank() == 1) {
                    // Without a barrier at its end.
                    if (each.second == out_sync::all) allfold::all_reduce(comm, x, allfold::sum());
                    await(has_failed, 1);
                    return allfold::barrier(comm);
                }
                try {
                    const allfold::deadline soon(std::chrono::milliseconds(20));
                    if (starts)
                        allfold::all_reduce.start(comm, x, allfold::sum(), soon, each.first, each.second).wait();
                    else
                        allfold::all_reduce(comm, x, allfold::sum(), soon, each.first, each.second);
                } catch (...) {
                    has_failed = 1;
                    throw;
                }
            });
            INFO(outcomes[0].text);
            CHECK(outcomes[0].code == allfold::errc::timeout);
        }
}
