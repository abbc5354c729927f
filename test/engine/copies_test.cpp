// SPDX-License-Identifier: BSL-1.0
#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/collective.hpp"
#include "allfold/data/tensor_view.hpp"
#include "allfold/data/tensors.hpp"
#include "allfold/engine/arguments.hpp"
#include "test/support/catch.hpp"
#include "test/support/oracle.hpp"
#include "test/support/ranks.hpp"

/// @file
/// Counts show that nothing is read, packed, lifted or lowered twice.

using namespace test;
using allfold::sum;
using allfold::tensor;

namespace {

/// The counters of one rank: ranks are threads.
struct counts {
    long copies = 0, assignments = 0, lifts = 0, lowers = 0;
};
thread_local counts here;

/// A class type, so that every copy can be counted.
struct counted {
    int value = 0;
    counted() = default;
    explicit counted(int v) : value(v) {}
    counted(const counted& other) : value(other.value) { ++here.copies; }
    counted(counted&& other) noexcept : value(other.value) {}
    counted& operator=(const counted& other) {
        value = other.value;
        ++here.copies;
        ++here.assignments;
        return *this;
    }
    counted& operator=(counted&& other) noexcept {
        value = other.value;
        ++here.assignments;
        return *this;
    }
    ~counted() = default;
};

struct counting {
    static constexpr allfold::law_set laws = allfold::law::associative | allfold::law::commutative;
    double operator()(double a, double b) const { return a + b; }
    static double lift(double x) {
        ++here.lifts;
        return x;
    }
    static double lower(double x, int) {
        ++here.lowers;
        return x;
    }
};
struct counting_lower {
    static constexpr allfold::law_set laws = counting::laws;
    double operator()(double a, double b) const { return a + b; }
    static double lower(double x, int n) { return counting::lower(x, n); }
};

template <class T>
T counted_in(T counts::* what) {
    const T is = here.*what;
    here.*what = 0;
    return is;
}

}  // namespace

TEST_CASE("a strided view is packed once a call, once with start, and once for each start of what is prepared") {
    // A lone rank folds nothing: the only copies are those into the packed input, and from there to the output.
    on_ranks(1, [](auto& comm) {
        constexpr std::size_t n = 10;
        std::vector<counted> in(2 * n), out(n);
        const tensor<counted, 1> even(in.data(), {n}, {2});
        const auto add =
            allfold::commutative([](const counted& a, const counted& b) { return counted(a.value + b.value); });
        here = {};
        allfold::all_reduce(comm, even, out, add);
        const long of_call = counted_in(&counts::copies);
        expect(of_call == 2 * n, "a call copies " + std::to_string(of_call));
        allfold::all_reduce.start(comm, even, out, add).wait();
        const long of_start = counted_in(&counts::copies);
        expect(of_start == of_call, "start copies " + std::to_string(of_start));
        auto prepared = allfold::all_reduce.prepare(comm, even, out, add);
        expect(counted_in(&counts::copies) == 0, "prepare copies");
        for (int turn = 0; turn < 3; ++turn) {
            prepared();
            const long of_turn = counted_in(&counts::copies);
            expect(of_turn == of_call, "a prepared operation copies " + std::to_string(of_turn));
        }
    });
    SUCCEED();
}

TEST_CASE("each element is lifted and lowered once, in a call, with start and for each start of what is prepared") {
    for (const int size : {1, 2, 3})
        for (const std::size_t n : {std::size_t{5}, std::size_t{90000}})
            on_ranks(size, [&](auto& comm) {
                std::vector<double> in(n, 1), out(n);
                // On threads, a long fold is lowered in slices, each by the rank that completes it.
                const auto all = static_cast<long>(n), slice = size > 1 && n > 1000 ? all / size : all;
                const auto expect_once = [&](const char* where) {
                    const long lifts = counted_in(&counts::lifts), lowers = counted_in(&counts::lowers);
                    expect(lifts == all, where + std::string(": lifts ") + std::to_string(lifts));
                    expect(lowers <= slice + 8 && lowers >= slice - 8,  // slices end at cache line boundaries
                           where + std::string(": lowers ") + std::to_string(lowers));
                    expect(out == std::vector<double>(n, size), where);
                };
                here = {};
                allfold::all_reduce(comm, in, out, counting());
                expect_once("call");
                allfold::all_reduce.start(comm, in, out, counting()).wait();
                expect_once("start");
                auto prepared = allfold::all_reduce.prepare(comm, in, out, counting());
                for (int turn = 0; turn < 3; ++turn) {
                    prepared();
                    expect_once("prepared");
                }
            });
    SUCCEED();
}

TEST_CASE("in a long all_reduce of ranks that share memory each one lowers its own slice only") {
    for (const int size : {2, 3})
        on_ranks(size, [&](auto& comm) {
            std::vector<double> in(90000, 1), out(90000);
            here = {};
            allfold::all_reduce(comm, in, out, counting_lower());
            const long out_of_place = counted_in(&counts::lowers);
            expect(out_of_place <= 90000 / size + 8, "lowers " + std::to_string(out_of_place));
            allfold::all_reduce(comm, in, counting_lower());
            expect(counted_in(&counts::lowers) == out_of_place && in == out, "in place");
        });
    SUCCEED();
}

namespace {

/// How many elements of a packed output have the value that the output had before the call.
template <class Op>
std::ptrdiff_t elements_read(int contributions) {
    constexpr int before = -123456789;
    std::vector<int> in(64), memory(128, before);
    tensor<int, 1> out(memory.data(), {64}, {2});
    allfold::detail::arguments<Op, std::vector<int>&, tensor<int, 1>&> data(Op(), {in, out});
    data.laid_out = allfold::detail::shape::whole(64, contributions);
    data.begin(false);
    allfold::detail::operands bound;
    data.memory(bound);
    const auto* const packed = reinterpret_cast<const int*>(bound.result.first.columns[0]);
    expect(packed != memory.data(), "not packed");
    return std::count(packed, packed + 64, before);
}
struct without_identity : sum {
    template <class T>
    static void identity() = delete;
};

}  // namespace

TEST_CASE("a strided output is read only where the call leaves it as it is") {
    CHECK(elements_read<sum>(3) == 0);
    CHECK(elements_read<sum>(0) == 0);
    CHECK(elements_read<without_identity>(3) == 0);
    CHECK(elements_read<without_identity>(0) == 64);
}

TEST_CASE("in place the root of a broadcast or scatter does not write its operand") {
    std::vector<long> written(3);
    on_ranks(3, [&](auto& comm) {
        const int self = comm.rank();
        const std::size_t mine = self == 0 ? 6 : 2;
        std::vector<counted> x(12, counted(self));
        const tensor<counted, 1> odd(x.data(), {6}, {2}), part(x.data(), {mine}, {2});
        const auto list = [&] { return allfold::tensors(std::span(x).first(4), std::span(x).last(2)); };
        here.assignments = 0;
        allfold::broadcast(comm, odd);
        allfold::broadcast(comm, list());
        allfold::scatter(comm, part);
        written[static_cast<std::size_t>(self)] = here.assignments;
        if (self > 0) expect(x[0].value == 0 && x[10].value == 0, "what a rank got");
    });
    CHECK(written[0] == 0);
    CHECK(written[1] > 0);
}
