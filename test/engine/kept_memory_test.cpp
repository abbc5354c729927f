// SPDX-License-Identifier: BSL-1.0
#include "allfold/engine/detail/kept_memory.hpp"

#include <cstddef>
#include <cstdint>
#include <thread>
#include <utility>

#include "test/support/catch.hpp"

using allfold::detail::kept_bytes;
using allfold::detail::kept_memory;

namespace {

constexpr std::size_t some = kept_memory::least_bytes * 2;

[[nodiscard]] std::byte* after_one_of(std::size_t bytes) { return kept_bytes(bytes, 64).data(); }

}  // namespace

TEST_CASE("what one operation of a thread gives back the next one gets") {
    std::thread([] {
        std::byte* const first = after_one_of(some);
        kept_bytes next(some - 100, 64);
        CHECK(next.data() == first);
        CHECK(next.bytes() == some);
        const kept_bytes beside(some, 64);
        CHECK(beside.data() != first);
        next = kept_bytes();
        CHECK(kept_bytes(some, 64).data() == first);
    }).join();
}

TEST_CASE("the longer one is kept, and nothing that is short or very long") {
    std::thread([] {
        {
            const kept_bytes shorter(some, 64), longer(2 * some, 64);
            CHECK(shorter.data() != longer.data());
        }
        CHECK(kept_bytes(some, 64).bytes() == 2 * some);
        CHECK(kept_bytes(kept_memory::least_bytes - 1, 64).bytes() == kept_memory::least_bytes - 1);
        static_cast<void>(after_one_of(kept_memory::most_bytes + 1));
        CHECK(kept_bytes(some, 64).bytes() == 2 * some);
    }).join();
}

TEST_CASE("memory that is more aligned is allocated, and kept as what it is") {
    std::thread([] {
        static_cast<void>(after_one_of(some));
        const kept_bytes page(some, 4096);
        CHECK(reinterpret_cast<std::uintptr_t>(page.data()) % 4096 == 0);
    }).join();
}

TEST_CASE("memory may be given back by another thread, or by one that has never had any") {
    kept_bytes made(some, 64);
    std::thread([&] { const kept_bytes given = std::move(made); }).join();
    CHECK(made.data() == nullptr);
}
