// SPDX-License-Identifier: BSL-1.0
#include "allfold/engine/short_arguments.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/algebra/exact_sum.hpp"
#include "allfold/algebra/laws.hpp"
#include "allfold/algebra/mean.hpp"
#include "allfold/algebra/moments.hpp"
#include "allfold/algebra/widened.hpp"
#include "allfold/collective.hpp"
#include "allfold/data/partition.hpp"
#include "allfold/engine/operation.hpp"
#include "allfold/schedule/all_read.hpp"
#include "allfold/schedule/direct.hpp"
#include "allfold/schedule/flat_tree.hpp"
#include "test/support/catch.hpp"
#include "test/support/oracle.hpp"
#include "test/support/ranks.hpp"
#include "test/support/sanitized.hpp"
#include "test/support/short_calls.hpp"

/// @file
/// Repeated calls with an operator that lifts. They give the same bits as the engine, which runs all calls that name a
/// schedule.

using namespace test;
using allfold::widened;
using communicator = allfold::thread_communicator;

namespace {

using wide_sum = widened<allfold::sum, double>;
constexpr auto tree = allfold::order::tree;
constexpr std::size_t lengths[] = {0, 1, 2, 3, 7, 64, 300, fewer_if_sanitized(1500U, 600U)};

/// Makes a call three times. If `is_short`, the last two must take the short path.
template <class Call>
void thrice(communicator& comm, bool is_short, const std::string& where, Call call) {
    call();
    for (int again = 0; again < 2; ++again) {
        const std::uint64_t before = short_calls_of(comm);
        call();
        expect(!is_short || short_calls_of(comm) == before + 1, where + ": not short");
    }
}

/// Calls check(comm, n, may_be_short, where) for all lengths, on ranks that remember short calls, and on ranks whose
/// channels have no room for most of them.
template <class Check>
void on_some_ranks(Check check) {
    for (const bool is_patient : {true, false})
        for (const int P : {1, 2, 3, 4, 5})
            on_ranks(
                P,
                [&](communicator& comm) {
                    for (const std::size_t n : lengths)
                        check(comm, n, is_patient && P > 1,
                              std::to_string(P) + " ranks, " + std::to_string(n) + " elements");
                },
                is_patient ? allfold::thread_tuning{} : impatient);
}

/// Numbers whose sum depends on when it is rounded.
std::vector<float> numbers(std::size_t n, int seed) {
    std::mt19937 random(static_cast<unsigned>(seed));
    std::vector<float> made;
    for (std::size_t i = 0; i < n; ++i)
        made.push_back(std::ldexp(static_cast<float>(random() % 65521), -static_cast<int>(random() % 25)));
    return made;
}

template <class Op>
void check_reduce_scatter(communicator& comm, std::size_t n, bool is_short, const std::string& where) {
    const auto blocks = allfold::partition::even(n, comm.size());
    const std::size_t mine = blocks.extent(comm.rank());
    for (int salt = 0; salt < 2; ++salt) {
        const std::vector<float> in = numbers(n, 10 * salt + comm.rank());
        std::vector<float> all(n), out(mine);
        allfold::all_reduce(comm, in, all, Op(), tree, allfold::flat_tree());
        const std::vector<float> wanted(all.begin() + static_cast<std::ptrdiff_t>(blocks.offset(comm.rank())),
                                        all.begin() + static_cast<std::ptrdiff_t>(blocks.offset(comm.rank()) + mine));
        allfold::reduce_scatter(comm, in, out, Op(), tree, allfold::direct());
        expect(out == wanted, where + ": engine");
        thrice(comm, is_short, where, [&] {
            out.assign(mine, -1);
            allfold::reduce_scatter(comm, in, out, Op(), tree);
            expect(out == wanted, where);
        });
        thrice(comm, is_short, where + " in place", [&] {
            std::vector<float> x = in;
            allfold::reduce_scatter(comm, x, Op(), tree);
            expect(std::equal(wanted.begin(), wanted.end(),
                              x.begin() + static_cast<std::ptrdiff_t>(blocks.offset(comm.rank()))),
                   where + " in place");
        });
        std::array<std::vector<float>, 3> several;
        std::vector<allfold::operation> started;
        for (auto& each : several) {
            each.assign(mine, -1);
            started.push_back(allfold::reduce_scatter.start(comm, in, each, Op(), tree));
        }
        for (auto& each : started) each.wait();
        for (const auto& each : several) expect(each == wanted, where + " in flight");
        out.assign(mine, -1);
        auto prepared = allfold::reduce_scatter.prepare(comm, in, out, Op(), tree);
        for (int again = 0; again < 2; ++again) prepared();
        expect(out == wanted, where + " prepared");
    }
}

}  // namespace

TEST_CASE("elements that are folded all at once travel as they are in calls that are made again") {
    on_some_ranks([](communicator& comm, std::size_t n, bool is_short, const std::string& where) {
        check_reduce_scatter<wide_sum>(comm, n, is_short, where + ", sum");
        check_reduce_scatter<widened<allfold::mean, double>>(comm, n, is_short, where + ", mean");
    });
    SUCCEED();
}

namespace {

/// Checks a collective whose output has elements of the same or of another type, and if of the same, in place too.
template <class Collective, class Op, class Out, class Algorithm, class... Options>
void check_states(communicator& comm, const Collective& collective, std::size_t n, bool is_short,
                  const std::string& where, Op op, Out none, Algorithm algorithm, Options... options) {
    for (int salt = 0; salt < 2; ++salt) {
        const std::vector<float> in = numbers(n, 10 * salt + comm.rank());
        std::vector<Out> wanted(n, none), out(n, none);
        std::vector<float> wanted_in_place = in;
        collective(comm, in, wanted, op, tree, algorithm, options...);
        thrice(comm, is_short, where, [&] {
            out.assign(n, none);
            collective(comm, in, out, op, tree, options...);
            expect(out == wanted, where);
        });
        collective.start(comm, in, out, op, tree, options...).wait();
        expect(out == wanted, where + " started");
        if constexpr (std::is_same_v<Out, float>) {
            collective(comm, wanted_in_place, op, tree, algorithm, options...);
            thrice(comm, is_short, where + " in place", [&] {
                std::vector<float> x = in;
                collective(comm, x, op, tree, options...);
                expect(x == wanted_in_place, where + " in place");
            });
        }
    }
}

}  // namespace

TEST_CASE("what an operator lifts lies in states on the stack in calls that are made again") {
    on_some_ranks([](communicator& comm, std::size_t n, bool may_be_short, const std::string& where) {
        const auto fit = [&](std::size_t bytes) { return may_be_short && n * bytes <= 4096; };
        const auto all = allfold::all_read();
        const bool fits = fit(sizeof(double));
        check_states(comm, allfold::all_reduce, n, fits, where, wide_sum(), 0.0F, all);
        check_states(comm, allfold::all_reduce, n, fits, where + " to doubles", wide_sum(), 0.0, all);
        check_states(comm, allfold::all_reduce, n, fits, where + ", mean", widened<allfold::mean, double>(), 0.0F, all);
        check_states(comm, allfold::reduce, n, fits, where + ", reduce", wide_sum(), 0.0F, all,
                     allfold::root{comm.size() - 1});
        check_states(comm, allfold::inclusive_scan, n, fits, where + ", scan", wide_sum(), 0.0F, all);
        check_states(comm, allfold::exclusive_scan, n, fits && comm.rank() > 0, where + ", exclusive scan", wide_sum(),
                     0.0F, all);
        using state = allfold::moments_state<float>;
        check_states(comm, allfold::all_reduce, n, fit(sizeof(state)), where + ", moments", allfold::moments(), state(),
                     all);
        check_states(comm, allfold::all_reduce, n, fit(sizeof(state)), where + ", variance", allfold::variance(), 0.0F,
                     all);
        using exact = allfold::exact_sum<float>;
        check_states(comm, allfold::all_reduce, n, fit(sizeof(exact::state)), where + ", exact sum", exact(), 0.0F,
                     all);
    });
    SUCCEED();
}

TEST_CASE("operands that are lifted from other types, or lowered to them, are other calls") {
    on_ranks(2, [](communicator& comm) {
        for (int again = 0; again < 3; ++again) {
            std::array<float, 3> few{1.5F, 2, 3};
            std::array<std::int32_t, 3> whole{1, 2, 3};
            std::array<double, 3> wide{};
            allfold::all_reduce(comm, std::span<const float>(few), wide, wide_sum());
            expect(wide[0] == 3, "floats to doubles");
            allfold::all_reduce(comm, std::span<const std::int32_t>(whole), wide, wide_sum());
            expect(wide[0] == 2, "integers to doubles");
            allfold::all_reduce(comm, few, wide_sum());
            expect(few[0] == 3, "floats");
            allfold::all_reduce(comm, whole, wide_sum());
            expect(whole[0] == 2, "integers");
            allfold::all_reduce(comm, wide, wide_sum());
            expect(wide[0] == 4, "doubles");
        }
    });
    SUCCEED();
}

namespace {

/// Aligned more strictly than messages are in the memory of the transport.
struct alignas(32) aligned {
    float number = 0;
};
struct mean_of_aligned : allfold::mean {
    static constexpr double lift(const aligned& x) { return x.number; }
    static constexpr aligned lower(double total, int contributions) {
        return {static_cast<float>(total / contributions)};
    }
};

/// A sum whose states cannot exist without something to add: there is no default constructor and no identity.
struct sum_of_given {
    struct state {
        explicit constexpr state(double x) : total(x) {}
        double total;
    };
    static constexpr allfold::law_set laws = allfold::law::associative | allfold::law::commutative;
    constexpr state operator()(const state& a, const state& b) const { return state(a.total + b.total); }
    static constexpr state lift(const float& x) { return state(x); }
    static constexpr float lower(const state& fold, int) { return static_cast<float>(fold.total); }
};

}  // namespace

TEST_CASE("elements of any alignment, and states without a default, are lifted in calls that are made again") {
    for (const int P : {2, 3, 5})
        on_ranks(P, [P](communicator& comm) {
            const auto count = static_cast<std::size_t>(P);
            std::vector<aligned> block(1);
            const std::vector<aligned> in(count, aligned{static_cast<float>(comm.rank())});
            thrice(comm, true, "aligned to 32 bytes", [&] {
                allfold::reduce_scatter(comm, in, block, mean_of_aligned());
                expect(block[0].number == 0.5F * static_cast<float>(P - 1), "aligned to 32 bytes");
            });
            std::vector<double> wide(1);
            const std::vector<float> floats(count, 1.5F);
            thrice(comm, true, "reduce_scatter to doubles", [&] {
                allfold::reduce_scatter(comm, floats, wide, wide_sum());
                expect(wide[0] == 1.5 * P, "reduce_scatter to doubles");
            });
            for (int again = 0; again < 3; ++again) {
                std::vector<float> x(count, 1.5F);
                allfold::reduce_scatter(comm, x, sum_of_given());
                expect(x[static_cast<std::size_t>(comm.rank())] == 1.5F * static_cast<float>(P), "in place");
                float kept = 1.5F;
                allfold::exclusive_scan(comm, kept, sum_of_given());
                const int below = comm.rank() == 0 ? 1 : comm.rank();  // without an identity, rank 0 keeps its own
                expect(kept == 1.5F * static_cast<float>(below), "exclusive_scan");
            }
        });
    SUCCEED();
}

TEST_CASE("lifting different types in a repeated call is a mismatch") {
    for (const bool scatters : {true, false}) {
        const auto outcomes = outcomes_on_ranks(2, [&](communicator& comm) {
            std::array<float, 4> x{};
            std::array<std::int32_t, 4> y{};
            const auto call = [&](auto& data) {
                if (scatters)
                    allfold::reduce_scatter(comm, data, wide_sum());
                else
                    allfold::all_reduce(comm, data, wide_sum());
            };
            for (int again = 0; again < 5; ++again) {
                call(x);
                call(y);
            }
            comm.rank() == 0 ? call(x) : call(y);
        });
        for (const outcome& each : outcomes) {
            INFO(each.text);
            CHECK((each.code == allfold::errc::mismatch || each.code == allfold::errc::peer_failed));
            CHECK(each.says("has elements of type"));
        }
    }
}

TEST_CASE("a plan says so only where states are few") {
    on_ranks(2, [](communicator& comm) {
        const auto says = [&](const auto& plan) {
            return plan.why().find("repeated calls take the short path") != std::string::npos;
        };
        expect(says(allfold::all_reduce.plan<float>(comm, 2048, wide_sum())), "512 states of 8 bytes");
        expect(!says(allfold::all_reduce.plan<float>(comm, 2052, wide_sum())), "513 states");
        expect(says(allfold::reduce_scatter.plan<float>(comm, 2052, wide_sum())), "elements as they are");
    });
    SUCCEED();
}
