// SPDX-License-Identifier: BSL-1.0
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>
#include <span>
#include <string>
#include <vector>

#include "allfold/collective.hpp"
#include "allfold/collective/images.hpp"
#include "allfold/collective/sync.hpp"
#include "allfold/collective/together.hpp"
#include "allfold/engine/progress_thread.hpp"
#include "allfold/message.hpp"
#include "allfold/transport/team.hpp"
#include "allfold/transport/thread.hpp"
#include "test/support/catch.hpp"
#include "test/support/ranks.hpp"

/// @file
/// Every allocation of one rank fails, one in each run: each time all ranks must end, and the caller must learn why.

namespace {

/// How many more allocations of this thread succeed before one fails; -1: all do.
thread_local long successes_left = -1;
thread_local bool has_failed = false, stays_short = false;
/// How many allocations this thread has made.
thread_local std::size_t allocations = 0, allocated_bytes = 0;

void* allocate(std::size_t bytes, std::size_t alignment) {
    ++allocations;
    allocated_bytes += bytes;
    if (successes_left >= 0 && successes_left-- == 0) {
        has_failed = true;
        if (stays_short) successes_left = 0;
        throw std::bad_alloc();
    }
    void* const memory = std::aligned_alloc(alignment, (bytes / alignment + 1) * alignment);
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
}

/// Within its scope, allocation number n of this thread fails, and all that follow if `stays`.
class short_of_memory {
  public:
    explicit short_of_memory(long n, bool stays = false) {
        successes_left = n;
        has_failed = false;
        stays_short = stays;
    }
    short_of_memory(const short_of_memory&) = delete;
    short_of_memory& operator=(const short_of_memory&) = delete;
    ~short_of_memory() { successes_left = -1; }
};

/// How many allocations a call makes after a few like it.
template <class Call>
std::size_t allocations_of(Call call) {
    for (int before = 0; before < 4; ++before) call();
    const std::size_t known = allocations;
    for (int again = 0; again < 4; ++again) call();
    return allocations - known;
}

/// Runs the program on two and three ranks, until the one that is short of memory needs no more than it has.
template <class Program>
void fail_each_allocation(Program program, bool stays = false) {
    for (const int size : {2, 3})
        for (int culprit = 0; culprit < size; ++culprit) {
            long n = 0;
            for (bool failed = true; failed; ++n) {
                failed = false;
                std::string told = "nothing";
                try {
                    allfold::run(size, [&](auto& comm) {
                        if (comm.rank() != culprit) return program(comm);
                        try {
                            const short_of_memory here(n, stays);
                            program(comm);
                        } catch (...) {
                            failed = has_failed;
                            throw;
                        }
                        failed = has_failed;
                    });
                } catch (const std::exception& e) {
                    told = e.what();
                }
                INFO("P = " << size << ", rank " << culprit << ", allocation " << n);
                REQUIRE(told == (failed ? "std::bad_alloc" : "nothing"));
            }
            CHECK(n > 1);
        }
}

/// The same if the rank that is short of memory then goes on, as the others do: the communicator is broken.
template <class Program>
void fail_each_allocation_and_go_on(Program program) {
    long n = 0;
    for (bool failed = true; failed; ++n) {
        failed = false;
        std::atomic<int> heard = 0;
        test::on_ranks(2, [&](auto& comm) {
            try {
                if (comm.rank() == 1) {
                    const short_of_memory here(n);
                    program(comm);
                } else {
                    program(comm);
                }
            } catch (const std::exception&) {  // told again
            }
            if (comm.rank() == 1) failed = has_failed;
            try {
                allfold::barrier(comm);
            } catch (const allfold::error&) {
                ++heard;
            }
        });
        INFO("allocation " << n);
        REQUIRE(heard == (failed ? 2 : 0));
    }
    CHECK(n > 1);
}

const std::string text = "more than fits into a string without memory of its own";

/// Operands of two ranks, in memory that is there in any case.
int data[2][20000];

}  // namespace

void* operator new(std::size_t bytes) { return allocate(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
    return allocate(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes) { return operator new(bytes); }
void* operator new[](std::size_t bytes, std::align_val_t alignment) { return operator new(bytes, alignment); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return std::malloc(bytes); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return std::malloc(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

using namespace allfold;

TEST_CASE("a rank that is out of memory in a collective releases the others") {
    for (const std::size_t n : {std::size_t{10}, std::size_t{100000}})
        fail_each_allocation([n](auto& comm) {
            std::vector<int> x(n, comm.rank());
            all_reduce(comm, x, sum{});
            inclusive_scan(comm, x, sum{});
        });
    fail_each_allocation([](auto& comm) {
        const auto join = associative([](const std::string& a, const std::string& b) { return a + b; });
        std::string word = text;
        inclusive_scan(comm, word, join);
        std::vector<std::string> words(3, text);
        all_reduce(comm, words, join);
    });
    fail_each_allocation([](auto& comm) {
        std::vector<float> x(1000, 1.0F), y(1000, 2.0F), part(500);
        images<float> many(x);
        for (int i = 0; i < 20; ++i) many.add(y);
        all_reduce(comm, many, y, sum{});
        reduce_scatter(comm, x, std::span(part).first(partition::even(1000, comm.size()).extent(comm.rank())), sum{});
    });
    fail_each_allocation([](auto& comm) {
        const auto ranks = static_cast<std::size_t>(comm.size());
        std::vector<int> in(10 * ranks), out;
        all_to_all(comm, in, std::vector<std::size_t>(ranks, 10), out);
    });
}

TEST_CASE("a rank that is out of memory with operations in flight releases the others") {
    fail_each_allocation([](auto& comm) {
        std::vector<int> x(10), y(10000);
        auto first = all_reduce.start(comm, x, sum{}), second = all_reduce.start(comm, y, sum{});
        second.then([] {});
        wait_all(second, first);
        persistent again = all_reduce.prepare(comm, x, sum{});
        again();
        together(comm, all_reduce.with(x, sum{}), broadcast.with(y));
    });
    fail_each_allocation([](auto& comm) {
        progress_thread helper(comm);
        std::vector<int> x(100);
        auto all = helper.start([&](auto& there) { return all_reduce.start(there, x, sum{}); });
        all.wait();
    });
}

TEST_CASE("a rank that goes on where it was out of memory is told, and so are the others") {
    fail_each_allocation_and_go_on([](auto& comm) {
        const std::span x(data[comm.rank()], 10), y(data[comm.rank()] + 10, 10);
        together.start(comm, all_reduce.with(x, sum{}), broadcast.with(y)).wait();
    });
    fail_each_allocation_and_go_on([](auto& comm) {
        const std::span x(data[comm.rank()], 10), y(data[comm.rank()] + 10, 10000);
        together(comm, all_reduce.with(x, sum{}), all_reduce.with(y, sum{}));
        persistent again = together.prepare(comm, all_reduce.with(x, sum{}), broadcast.with(y));
        again();
    });
    fail_each_allocation_and_go_on([](auto& comm) {
        all_reduce.start(comm, std::span(data[comm.rank()], 10), sum{}, out_sync::all, in_sync::all).wait();
    });
    fail_each_allocation_and_go_on(
        [](auto& comm) { all_reduce(comm, std::span(data[comm.rank()]), sum{}, out_sync::none); });
    fail_each_allocation_and_go_on([](auto& comm) { static_cast<void>(split(comm, color{0}, comm.rank())); });
}

TEST_CASE("a rank that is out of memory where a team is formed releases the others") {
    fail_each_allocation([](auto& comm) {
        auto halves = split(comm, color{0}, comm.rank());
        int x = 1;
        if (halves) x = all_reduce(*halves, x, sum{});
    });
}

TEST_CASE("a rank that is out of memory with messages releases the others") {
    fail_each_allocation([](auto& comm) {
        const int right = (comm.rank() + 1) % comm.size(), left = (comm.rank() + comm.size() - 1) % comm.size();
        std::vector<int> x(10), y(10), a(30000), b(30000);
        exchange(comm, x, to{right}, y, from{left});
        auto sent = send.start(comm, a, to{right}), received = receive.start(comm, b, from{any});
        wait_all(sent, received);
        std::string word = text;
        auto also_sent = send.start(comm, word, to{right}, tag{1});
        message found = probe(comm, from{left}, tag{1});
        std::string other;
        receive(found, other);
        also_sent.wait();
        persistent again = exchange.prepare(comm, x, to{right}, y, from{left});
        again();
    });
}

TEST_CASE("a peer of a rank that sends messages takes little memory") {
    constexpr int peers = 1000;
    const std::size_t known = allocated_bytes;
    const detail::post_office office(0, peers, {});
    CHECK(allocated_bytes - known < std::size_t{peers} * 200);
}

TEST_CASE("a rank that is out of memory with started receives, now or from now on, releases the others") {
    for (const bool stays : {false, true}) {
        fail_each_allocation(
            [](auto& comm) {
                const int right = (comm.rank() + 1) % comm.size(), left = (comm.rank() + comm.size() - 1) % comm.size();
                std::vector<int> x(3, 1), y(3), z(3);
                exchange(comm, x, to{right}, y, from{left});
                operation first = receive.start(comm, y, from{left}), second = receive.start(comm, z, from{left});
                const operation last = receive.start(comm, z, from{left});
                second.then([] {});
                for (int i = 0; i < 3; ++i) send(comm, x, to{right});
                first.wait();
            },
            stays);
    }
}

TEST_CASE("started receives whose communicator ends say so although there is no memory") {
    thread_world world(1);
    int x = 1, y = 0;
    std::vector<operation> left;
    {
        thread_communicator comm = world.communicator(0);
        operation first = receive.start(comm, x, from{0});
        send(comm, x, to{0});
        first.wait();
        for (int i = 0; i < 3; ++i) left.push_back(receive.start(comm, y, from{0}));
        REQUIRE(allfold::detail::office_of(comm).notes() == 3);
        const short_of_memory here(0, true);
        left.pop_back();
        comm.background().end();
    }
    CHECK_THROWS_AS(left.front().wait(), error);
    CHECK_THROWS_AS(left.back().done(), error);
    CHECK_THROWS_AS(wait_any(left), error);
}

TEST_CASE("short calls that a rank has made before allocate nothing, whatever describes them") {
    struct counted {
        const char* call;
        std::size_t allocations;
    };
    std::vector<counted> of_rank[2];
    run(2, [&](thread_communicator& comm) {
        std::vector<float> a(8, 1.0F), b(8, 2.0F), half(4), all(8);
        const tensor<float, 2> matrix(all.data(), {2, 4}), columns(half.data(), {2, 2});
        const partition even = partition::even(8, 2), uneven = partition::sizes({5, 3});
        const std::span<float> part(b.data(), uneven.extent(comm.rank()));
        const shards swapped({1, 0});
        const displacements where({4, 0});
        const int other = 1 - comm.rank();
        const auto count = [&](const char* what, auto call) {
            of_rank[comm.rank()].push_back({what, allocations_of(call)});
        };
        count("all_reduce", [&] { all_reduce(comm, a, sum{}); });
        count("of a list", [&] { all_reduce(comm, tensors(a, b), sum{}); });
        count("of images", [&] { all_reduce(comm, images(a, b), all, sum{}); });
        count("all_gather of a list", [&] { all_gather(comm, tensors(half), tensors(all)); });
        count("of columns", [&] { all_gather(comm, columns, matrix, axis{1}); });
        count("with displacements", [&] { all_gather(comm, half, all, even, where); });
        count("of uneven blocks", [&] { all_gather(comm, part, all, uneven); });
        count("reduce_scatter to shards", [&] { reduce_scatter(comm, a, half, sum{}, swapped); });
        count("messages", [&] {
            operation in = receive.start(comm, half, from{other}), out = send.start(comm, half, to{other});
            in.wait();
            out.wait();
        });
    });
    for (const auto& calls : of_rank) {
        CHECK(calls.size() == 9);
        for (const auto& [call, made] : calls) {
            INFO(call);
            CHECK(made == 0);
        }
    }
}
