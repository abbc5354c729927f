// SPDX-License-Identifier: BSL-1.0
#include "allfold/engine/detail/memory_cache.hpp"

#include <cstddef>
#include <cstdint>
#include <thread>
#include <utility>

#include "test/support/catch.hpp"

using allfold::detail::cached_memory;
using allfold::detail::memory_cache;

namespace {

constexpr std::size_t some = memory_cache::min_bytes * 2;

[[nodiscard]] std::byte* after_one_of(std::size_t bytes) { return cached_memory(bytes, 64).data(); }

}  // namespace

TEST_CASE("the next operation of a thread reuses the memory of the previous one") {
    std::thread([] {
        std::byte* const first = after_one_of(some);
        cached_memory next(some - 100, 64);
        CHECK(next.data() == first);
        CHECK(next.bytes() == some);
        const cached_memory beside(some, 64);
        CHECK(beside.data() != first);
        next = cached_memory();
        CHECK(cached_memory(some, 64).data() == first);
    }).join();
}

TEST_CASE("the longer one is kept, and nothing that is short or very long") {
    std::thread([] {
        {
            const cached_memory shorter(some, 64), longer(2 * some, 64);
            CHECK(shorter.data() != longer.data());
        }
        CHECK(cached_memory(some, 64).bytes() == 2 * some);
        CHECK(cached_memory(memory_cache::min_bytes - 1, 64).bytes() == memory_cache::min_bytes - 1);
        static_cast<void>(after_one_of(memory_cache::max_bytes + 1));
        CHECK(cached_memory(some, 64).bytes() == 2 * some);
    }).join();
}

TEST_CASE("memory that is more aligned is allocated, and kept as what it is") {
    std::thread([] {
        static_cast<void>(after_one_of(some));
        const cached_memory page(some, 4096);
        CHECK(reinterpret_cast<std::uintptr_t>(page.data()) % 4096 == 0);
    }).join();
}

TEST_CASE("memory may be given back by another thread, or by one that has never had any") {
    cached_memory made(some, 64);
    std::thread([&] { const cached_memory given = std::move(made); }).join();
    CHECK(made.data() == nullptr);
}
