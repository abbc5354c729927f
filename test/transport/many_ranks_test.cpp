// SPDX-License-Identifier: BSL-1.0
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <malloc.h>
#include <new>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/algebra/operator.hpp"
#include "allfold/collective.hpp"
#include "allfold/schedule/all_read.hpp"
#include "allfold/schedule/direct.hpp"
#include "allfold/transport/forwarding.hpp"
#include "allfold/transport/group.hpp"
#include "allfold/transport/rank_list.hpp"
#include "allfold/transport/thread.hpp"
#include "test/support/catch.hpp"
#include "test/support/oracle.hpp"
#include "test/support/ranks.hpp"

// More ranks than any machine has cores: how much memory they take, and that results are right if a message to all is
// written once. Every allocation of this program is counted, except under a sanitizer, which has its own operator new.

namespace {
std::atomic<std::size_t> allocated{0}, most_allocated{0};
}  // namespace

#ifndef ALLFOLD_TEST_SANITIZED
namespace {
void* counted(void* memory) {
    if (memory == nullptr) throw std::bad_alloc();
    const std::size_t now = allocated += malloc_usable_size(memory);
    std::size_t most = most_allocated;
    while (most < now && !most_allocated.compare_exchange_weak(most, now)) {
    }
    return memory;
}
void discounted(void* memory) noexcept {
    allocated -= malloc_usable_size(memory);
    std::free(memory);
}
}  // namespace

void* operator new(std::size_t bytes) { return counted(std::malloc(std::max<std::size_t>(bytes, 1))); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
    const auto to = static_cast<std::size_t>(alignment);
    return counted(std::aligned_alloc(to, std::max((bytes + to - 1) / to, std::size_t{1}) * to));
}
void operator delete(void* memory) noexcept { discounted(memory); }
void operator delete(void* memory, std::size_t) noexcept { discounted(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { discounted(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { discounted(memory); }
#endif

namespace {

using allfold::rank_list;
using allfold::thread_communicator;
using test::expect;

constexpr std::size_t MiB = std::size_t{1} << 20;

/// Only some elements are checked, at most 200.
std::size_t stride(const std::vector<int>& x) { return x.size() / 200 + 1; }

/// The most that a group has allocated at once while all its ranks call `body(comm, operand, result)`, without these
/// two.
template <class Body>
std::size_t memory_of(int ranks, std::size_t operand, std::size_t result, Body body) {
    const auto P = static_cast<std::size_t>(ranks);
    std::vector<std::vector<int>> in(P, std::vector<int>(operand)), out(P, std::vector<int>(result));
    for (std::size_t r = 0; r < P; ++r) std::iota(in[r].begin(), in[r].end(), static_cast<int>(r));
    const std::size_t before = allocated;
    most_allocated = before;
    test::on_ranks(ranks, [&](thread_communicator& comm) {
        const auto r = static_cast<std::size_t>(comm.rank());
        for (int turn = 0; turn < 2; ++turn) {
            for (std::size_t i = 0; i < result; i += stride(out[r])) out[r][i] = -1;
            body(comm, in[r], out[r]);
        }
    });
    return most_allocated - before;
}

/// The i-th element of the sum of operands whose i-th elements are rank + i.
int sum_at(int ranks, std::size_t i) { return ranks * (ranks - 1) / 2 + ranks * static_cast<int>(i); }

constexpr auto gather_all = [](auto& comm, const auto& in, auto& out) {
    allfold::all_gather(comm, in, out);
    for (std::size_t i = 0; i < out.size(); i += stride(out))
        expect(out[i] == static_cast<int>(i / in.size() + i % in.size()), "wrong all_gather");
};
constexpr auto reduce_all = [](auto& comm, const auto& in, auto& out) {
    allfold::all_reduce(comm, in, out, allfold::sum());
    for (std::size_t i = 0; i < out.size(); i += stride(out))
        expect(out[i] == sum_at(comm.size(), i), "wrong all_reduce");
};
constexpr auto scatter_sum = [](auto& comm, const auto& in, auto& out) {
    allfold::reduce_scatter(comm, in, out, allfold::sum());
    const std::size_t first = static_cast<std::size_t>(comm.rank()) * out.size();
    for (std::size_t i = 0; i < out.size(); i += stride(out))
        expect(out[i] == sum_at(comm.size(), first + i), "wrong reduce_scatter");
};
constexpr auto exchange = [](auto& comm, const auto& in, auto& out) {
    allfold::all_to_all(comm, in, out);
    const std::size_t block = in.size() / static_cast<std::size_t>(comm.size());
    const std::size_t first = static_cast<std::size_t>(comm.rank()) * block;
    for (std::size_t i = 0; i < out.size(); i += stride(out))
        expect(out[i] == static_cast<int>(i / block + first + i % block), "wrong all_to_all");
};
constexpr auto scan_as_tree = [](auto& comm, const auto& in, auto& out) {
    allfold::inclusive_scan(comm, in, out, allfold::sum(), allfold::order::tree);
    for (std::size_t i = 0; i < out.size(); i += stride(out))
        expect(out[i] == sum_at(comm.rank() + 1, i), "wrong inclusive_scan");
};

}  // namespace

TEST_CASE("memory grows with the number of ranks and what is in flight, not with the pairs of ranks") {
#ifdef ALLFOLD_TEST_SANITIZED
    constexpr int most = 72;
#else
    constexpr int most = 256;
    const auto use_some = [](auto&, const auto&, const auto&) { std::vector<int>(100'000).back() = 1; };
    REQUIRE(memory_of(1, 1, 1, use_some) > 400'000);
#endif
    for (const int P : {most / 4, most}) {
        const auto ranks = static_cast<std::size_t>(P);
        const auto at_most = [&](const char* what, std::size_t bytes) {
            INFO(what << " of " << P << " ranks: " << bytes / 1024 << " KiB");
            CHECK(bytes < 64 * MiB);
            CHECK(bytes < ranks * (160 << 10));
        };
        at_most("all_gather", memory_of(P, 32, 32 * ranks, gather_all));
        at_most("all_gather, long", memory_of(P, 2000, 2000 * ranks, gather_all));
        at_most("all_reduce", memory_of(P, 1, 1, reduce_all));
        at_most("all_reduce, long", memory_of(P, 128 << 10, 128 << 10, reduce_all));
        at_most("reduce_scatter", memory_of(P, 32 * ranks, 32, scatter_sum));
        at_most("all_to_all", memory_of(P, 32 * ranks, 32 * ranks, exchange));
        at_most("inclusive_scan", memory_of(P, 500, 500, scan_as_tree));
    }
}

TEST_CASE("many ranks fold in rank order, objects too, in place and in windows") {
    constexpr int P = 70;  // their bits do not fit into one word
    const auto join = allfold::associative([](const std::string& a, const std::string& b) { return a + b; });
    const auto letter = [](int r) { return std::string(1, static_cast<char>('0' + r)); };
    std::string all;
    for (int r = 0; r < P; ++r) all += letter(r);
    test::on_ranks(P, [&](thread_communicator& comm) {
        const auto r = static_cast<std::size_t>(comm.rank());
        const auto own = [&](std::size_t n) { return std::vector<std::string>(n, letter(comm.rank())); };
        const auto expect_all = [&](const std::vector<std::string>& x, const std::string& value) {
            for (const std::string& each : x) expect(each == value, "'" + each + "' instead of '" + value + "'");
        };
        for (const std::size_t n : {std::size_t{1}, std::size_t{P} + 1}) {
            auto x = own(n);
            allfold::all_reduce(comm, x, join);
            expect_all(x, all);
            x = own(n);
            allfold::all_reduce(comm, x, join, allfold::direct(), allfold::window{64});
            expect_all(x, all);
            x = own(n);  // to all ranks in the first round, to the root alone in the second
            allfold::reduce(comm, x, join, allfold::direct(), allfold::window{64}, allfold::root{3});
            expect_all(x, comm.rank() == 3 ? all : letter(comm.rank()));
            x = own(n);
            allfold::inclusive_scan(comm, x, join, allfold::all_read());
            expect_all(x, all.substr(0, r + 1));
            x = own(n);
            allfold::broadcast(comm, x, allfold::root{65});
            expect_all(x, letter(65));
        }
        auto parts = own(P);
        allfold::reduce_scatter(comm, parts, join);
        expect(parts[r] == all, "'" + parts[r] + "' in place");
        std::vector<int> pairs(P);
        for (int to = 0; to < P; ++to) pairs[static_cast<std::size_t>(to)] = comm.rank() * P + to;
        allfold::all_to_all(comm, pairs);
        for (int from = 0; from < P; ++from)
            expect(pairs[static_cast<std::size_t>(from)] == from * P + comm.rank(), "wrong all_to_all in place");
    });
    SUCCEED();
}

#ifndef ALLFOLD_TEST_SANITIZED
namespace {

/// A rank of a group that claims to have many: enough for lists, which send nothing.
struct many_ranks : allfold::forwarding<thread_communicator> {
    using forwarding::forwarding;
    [[nodiscard]] int size() const { return 4'000'000; }
};

/// The most that is allocated at once while `make()` makes a value, without what was there before.
template <class Make>
std::size_t memory_to_make(Make make) {
    const std::size_t before = allocated;
    most_allocated = before;
    static_cast<void>(make());
    return most_allocated - before;
}

/// What lists are asked for when teams and groups are formed of them, on a group of `P` ranks.
template <class Comm>
allfold::group use(const Comm& comm, const rank_list& list) {
    list.check(comm.size());
    const rank_list copy = list;
    expect(copy.find(copy[copy.size() - 1]) == copy.size() - 1 && copy.overlaps(list), "found");
    const auto members = allfold::group::of(comm).include(copy);
    expect(members == allfold::group::of(comm).include(list) && members.size() == list.size(), "the same group");
    return members;
}

}  // namespace

TEST_CASE("a strided list of a million ranks takes as much memory as one of ten; irregular ones take more") {
    test::on_ranks(1, [](thread_communicator& base) {
        const many_ranks comm(base);
        const auto strided = [&](int count, int stride) {
            return memory_to_make(
                [&] { return use(comm, rank_list::strided(stride > 0 ? 5 : 3'999'995, count, stride)); });
        };
        const auto of_strided = [&](int count) {
            const auto every_third = use(comm, rank_list::strided(0, 1'200'000, 3));
            return memory_to_make([&] {
                const auto some = every_third.include(rank_list::strided(7, count, 1));
                expect(some.ranks()[count - 1] == 3 * (6 + count), "ranks of a list among others");
                return some;
            });
        };
        const auto irregular = [&](int count) {
            return memory_to_make([&] {
                std::vector<int> all;
                for (int i = 0; i < count; ++i) all.push_back(3 * i + i % 2);
                return rank_list(std::move(all));
            });
        };
        for (const int stride : {1, 3, -3})
            expect(strided(1'000'000, stride) == strided(10, stride),
                   "a strided list: " + std::to_string(strided(1'000'000, stride)) + " bytes");
        expect(of_strided(1'000'000) == of_strided(10), "some of a strided list");
        expect(irregular(10) < 1000 && irregular(1'000'000) >= 4'000'000, "irregular lists are not counted");
    });
    SUCCEED();
}
#endif
