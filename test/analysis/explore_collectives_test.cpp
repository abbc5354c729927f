// SPDX-License-Identifier: BSL-1.0
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/analysis/explore.hpp"
#include "allfold/analysis/explored_communicator.hpp"
#include "allfold/collective.hpp"
#include "allfold/data/partition.hpp"
#include "allfold/engine/deadline.hpp"
#include "allfold/engine/operation.hpp"
#include "allfold/error.hpp"
#include "test/support/catch.hpp"

/// @file
/// Explores allfold itself: each collective on three ranks, in windows, with another one in flight, on two
/// communicators, with deadlines, and with a rank that fails. Also tries orders of arrival that no program can see.

using allfold::explain;
using allfold::explore;
using allfold::explored_communicator;

namespace {

constexpr int size = 3;

constexpr allfold::window two{8}, one{1000};  // 2 elements of each block, or all of them

/// The input and output of a call on one rank: four elements for each rank, in two windows.
struct operands {
    std::vector<int> in, out;
    allfold::partition came = allfold::partition::even(0, 1);
    allfold::window cut = two;
    explicit operands(int first) : in(4 * size), out(4 * size, -1) { std::iota(in.begin(), in.end(), first); }
};
[[nodiscard]] int first_of(int rank) { return 100 * (rank + 1); }
/// Element i of a rank's input.
[[nodiscard]] int value(int rank, int i) { return first_of(rank) + i; }
[[nodiscard]] int sum_to(int end, int i) {
    int all = 0;
    for (int r = 0; r < end; ++r) all += value(r, i);
    return all;
}
/// A collective: how to start it, and what it leaves in element i of its result on a rank.
struct barrier {
    static auto start(auto& comm, operands&, auto... more) { return allfold::barrier.start(comm, more...); }
    static int expected(int, int) { return -1; }
};
struct broadcast {
    static auto start(auto& comm, operands& x, auto... more) {
        if (comm.rank() == 1) x.out = x.in;
        return allfold::broadcast.start(comm, x.out, allfold::root{1}, x.cut, more...);
    }
    static int expected(int, int i) { return value(1, i); }
};
struct scatter {
    static auto start(auto& comm, operands& x, auto... more) {
        x.out.resize(4);
        return allfold::scatter.start(comm, x.in, x.out, allfold::root{1}, x.cut, more...);
    }
    static int expected(int rank, int i) { return value(1, 4 * rank + i); }
};
struct gather {
    static auto start(auto& comm, operands& x, auto... more) {
        x.in.resize(4);
        return allfold::gather.start(comm, x.in, x.out, allfold::root{1}, x.cut, more...);
    }
    static int expected(int rank, int i) { return rank == 1 ? value(i / 4, i % 4) : -1; }
};
struct all_gather {
    static auto start(auto& comm, operands& x, auto... more) {
        x.in.resize(4);
        return allfold::all_gather.start(comm, x.in, x.out, x.cut, more...);
    }
    static int expected(int, int i) { return value(i / 4, i % 4); }
};
struct all_to_all {
    static auto start(auto& comm, operands& x, auto... more) {
        return allfold::all_to_all.start(comm, x.in, x.out, x.cut, more...);
    }
    static int expected(int rank, int i) { return value(i / 4, 4 * rank + i % 4); }
};
struct all_to_all_by_sizes {
    static auto start(auto& comm, operands& x, auto... more) {
        x.out.clear();
        return allfold::all_to_all.start(comm, x.in, std::array{4, 4, 4}, x.out, x.came, more...);
    }
    static int expected(int rank, int i) { return value(i / 4, 4 * rank + i % 4); }
};
struct permute {
    static auto start(auto& comm, operands& x, auto... more) {
        return allfold::permute.start(comm, x.in, x.out, allfold::shift{1}, x.cut, more...);
    }
    static int expected(int rank, int i) { return value((rank + size - 1) % size, i); }
};
struct reduce {
    static auto start(auto& comm, operands& x, auto... more) {
        return allfold::reduce.start(comm, x.in, x.out, allfold::sum(), allfold::root{1}, x.cut, more...);
    }
    static int expected(int rank, int i) { return rank == 1 ? sum_to(size, i) : -1; }
};
struct all_reduce {
    static auto start(auto& comm, operands& x, auto... more) {
        return allfold::all_reduce.start(comm, x.in, x.out, allfold::sum(), x.cut, more...);
    }
    static int expected(int, int i) { return sum_to(size, i); }
};
struct reduce_scatter {
    static auto start(auto& comm, operands& x, auto... more) {
        x.out.resize(4);
        return allfold::reduce_scatter.start(comm, x.in, x.out, allfold::sum(), x.cut, more...);
    }
    static int expected(int rank, int i) { return sum_to(size, 4 * rank + i); }
};
struct inclusive_scan {
    static auto start(auto& comm, operands& x, auto... more) {
        return allfold::inclusive_scan.start(comm, x.in, x.out, allfold::sum(), x.cut, more...);
    }
    static int expected(int rank, int i) { return sum_to(rank + 1, i); }
};
struct exclusive_scan {
    static auto start(auto& comm, operands& x, auto... more) {
        return allfold::exclusive_scan.start(comm, x.in, x.out, allfold::sum(), x.cut, more...);
    }
    static int expected(int rank, int i) { return sum_to(rank, i); }
};

template <class Collective>
void require_result(int rank, const operands& x) {
    if constexpr (std::is_same_v<Collective, all_to_all_by_sizes>) {
        if (x.out.size() != 4 * size || x.came.blocks() != size) throw std::runtime_error("another size");
        for (int r = 0; r < size; ++r)
            if (x.came.extent(r) != 4) throw std::runtime_error("another block");
    }
    for (std::size_t i = 0; i < x.out.size(); ++i)
        if (x.out[i] != Collective::expected(rank, static_cast<int>(i)))
            throw std::runtime_error("element " + std::to_string(i) + " is " + std::to_string(x.out[i]));
}

/// Explores the only order that the program can see, and up to 25 of those that it cannot see.
template <class Program>
void check(const char* name, Program program) {
    allfold::explore_options every;
    every.every_order = true;
    every.executions = 25;
    const auto found = explore(size, program), more = explore(size, program, every);
    INFO(name << ": " << explain(found) << explain(more));
    CHECK((found.ok() && found.complete() && found.executions() == 1));
    CHECK((more.ok() && (more.complete() || more.executions() == every.executions)));
}

/// Explores a deadline for each rank's operation: in one window completely, in two only the first of thousands of
/// executions.
template <class Collective>
void check_deadline(allfold::window cut) {
    allfold::explore_options some;
    some.executions = cut.bytes == one.bytes ? 10000 : 300;
    int in_time = 0, too_late = 0;
    const auto found = explore(
        size,
        [&](explored_communicator& comm) {
            operands x(first_of(comm.rank()));
            x.cut = cut;
            auto call = Collective::start(comm, x, allfold::deadline{std::chrono::seconds(1)});
            try {
                call.wait();
            } catch (const allfold::error& e) {
                if (e.code() != allfold::errc::timeout) throw;
                ++too_late;
                return;
            }
            ++in_time;
            require_result<Collective>(comm.rank(), x);
        },
        some);
    INFO("with a deadline: " << explain(found));
    CHECK((found.ok() && in_time > 0));
    if (cut.bytes == one.bytes) CHECK((found.complete() && too_late > 0));
}

}  // namespace

TEMPLATE_TEST_CASE("each collective does what it does elsewhere in every order of arrival", "", barrier, broadcast,
                   scatter, gather, all_gather, all_to_all, all_to_all_by_sizes, permute, reduce, all_reduce,
                   reduce_scatter, inclusive_scan, exclusive_scan) {
    check("in two windows", [](explored_communicator& comm) {
        operands x(first_of(comm.rank()));
        TestType::start(comm, x).wait();
        require_result<TestType>(comm.rank(), x);
        return x.out;
    });
    check("two in flight, waited for in opposite orders", [](explored_communicator& comm) {
        operands x(first_of(comm.rank())), y(first_of(comm.rank()));
        auto first = TestType::start(comm, x), second = TestType::start(comm, y);
        comm.rank() == 0 ? second.wait() : first.wait();
        comm.rank() == 0 ? first.wait() : second.wait();
        require_result<TestType>(comm.rank(), x);
        require_result<TestType>(comm.rank(), y);
    });
    check("on two communicators, waited for in opposite orders", [](explored_communicator& comm) {
        const auto other = allfold::subset(comm, allfold::rank_list{0, 1, 2});
        operands x(first_of(comm.rank())), y(first_of(comm.rank()));
        auto first = TestType::start(comm, x), second = TestType::start(*other, y);
        comm.rank() == 0 ? second.wait() : first.wait();
        comm.rank() == 0 ? first.wait() : second.wait();
        require_result<TestType>(comm.rank(), x);
        require_result<TestType>(comm.rank(), y);
    });
    check_deadline<TestType>(one);
    check_deadline<TestType>(two);
    const auto failed = explore(size, [](explored_communicator& comm) {
        operands x(first_of(comm.rank()));
        auto call = TestType::start(comm, x);
        if (comm.rank() == 2) throw std::runtime_error("rank 2 has failed");
        call.wait();
    });
    INFO(explain(failed));
    REQUIRE((failed.complete() && !failed.ok()));
    for (const allfold::finding& each : failed.findings()) {
        CHECK(each.what == allfold::verdict::failed);
        CHECK_THAT(each.text, Catch::Matchers::ContainsSubstring("rank 2: rank 2 has failed"));
    }
}
