// SPDX-License-Identifier: BSL-1.0
#include <algorithm>
#include <array>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "allfold/collective/barrier.hpp"
#include "allfold/message.hpp"
#include "allfold/message/detail/awaited_receives.hpp"
#include "allfold/message/detail/shared_copy.hpp"
#include "allfold/transport/detail/cache_size.hpp"
#include "test/message/support/every_transport.hpp"
#include "test/support/catch.hpp"
#include "test/support/oracle.hpp"
#include "test/support/ranks.hpp"

using namespace test;
using allfold::detail::shared_copy;

namespace {

constexpr std::size_t least = shared_copy::min_bytes;
constexpr std::array<std::size_t, 8> lengths{least - 1,     least,         least + 1, 5 * least / 2 - 7,
                                             4 * least - 1, 4 * least + 1, 1 << 20,   (1 << 20) + 12345};

/// Bytes that differ between positions, ranks and turns.
std::vector<std::byte> bytes_of(int rank, std::size_t turn, std::size_t length) {
    std::vector<std::byte> made(length);
    std::uint64_t state = static_cast<std::uint64_t>(rank) * 77777 + turn * 13 + 1;
    for (std::size_t begin = 0; begin < length; begin += sizeof state) {
        state = state * 6364136223846793005U + 1442695040888963407U;
        std::memcpy(made.data() + begin, &state, std::min(sizeof state, length - begin));
    }
    return made;
}

/// Compares what has been copied last first: with memcmp, since a loop takes a hundred times as long under sanitizers.
bool are_equal_from_the_end(const std::vector<std::byte>& a, const std::vector<std::byte>& b) {
    for (std::size_t end = a.size(), begin = 0; end != 0; end = begin) {
        begin = end - std::min(end, std::size_t{4096});
        if (std::memcmp(a.data() + begin, b.data() + begin, end - begin) != 0) return false;
    }
    return a.size() == b.size();
}

}  // namespace

TEST_CASE("a receiver copies alone what its sender does not help with") {
    for (const auto& [helps, streams] : {std::pair(false, false), std::pair(true, false), std::pair(true, true)})
        for (const std::size_t length : lengths) {
            const std::vector<std::byte> from = bytes_of(0, 0, length);
            std::vector<std::byte> to(length + 1, std::byte{42});
            shared_copy copy;
            shared_copy::call helper;
            copy.offer(from.data(), length, helps ? &helper : nullptr);
            copy.copy_to(to.data(), streams);
            CHECK(copy.help() == 0);  // too late
            helper.help();
            CHECK(to.back() == std::byte{42});
            to.pop_back();
            CHECK(to == from);
        }
}

TEST_CASE("a sender who waits copies pieces of a long message, and all of them come to their place") {
    for (const std::size_t length : lengths) {
        if (length < 4 * least) continue;
        shared_copy copy;
        const std::vector<std::byte> from = bytes_of(1, 0, length);
        for (std::size_t turn = 0, helped = 0; helped < 6; ++turn) {  // until the sender has helped in 6 turns
            std::vector<std::byte> to(length);
            shared_copy::call helper;
            std::barrier<> offered(2);
            bool has_all = false;
            std::thread receiver([&] {
                offered.arrive_and_wait();
                copy.copy_to(to.data(), turn % 2 == 0);
                has_all = are_equal_from_the_end(to, from);
            });
            copy.offer(from.data(), length, &helper);
            offered.arrive_and_wait();
            while (!helper.is_called()) std::this_thread::yield();
            helped += copy.help() != 0 ? 1 : 0;
            receiver.join();
            helper.withdraw(copy);
            CHECK_FALSE(helper.is_called());
            CHECK(has_all);
        }
    }
}

TEST_CASE("long messages of all lengths around those that are copied by both") {
    on_all_transports(2, [](auto& comm) {
        const int self = comm.rank(), other = 1 - self;
        for (std::size_t turn = 0; turn < lengths.size(); ++turn) {
            const std::size_t length = lengths[turn];
            const auto sent = bytes_of(self, turn, length), wanted = bytes_of(other, turn, length);
            std::vector<std::byte> y(length);
            const auto expect_all = [&](const char* what) {
                expect(are_equal_from_the_end(y, wanted), what);
                y.assign(length, std::byte{});
            };
            // One direction at a time: the sender only waits.
            for (const int sender : {0, 1}) {
                if (self == sender)
                    send(comm, sent, to{other});
                else
                    receive(comm, y, from{other}), expect_all("one way");
            }
            exchange(comm, sent, to{other}, y, from{other});
            expect_all("both ways");
            {
                operation received = receive.start(comm, y, from{any}, tag{any});
                send(comm, sent, to{other}, mode::synchronous, tag{3});
                received.wait();
                expect_all("from any rank");
            }
            {
                operation on_its_way = send.start(comm, sent, to{other}, tag{4});
                message found = probe(comm, from{other}, tag{4});
                receive(found, y);
                expect_all("found before");
                on_its_way.wait();
            }
            exchange(comm, sent, to{self}, y, from{self});
            expect(are_equal_from_the_end(y, sent), "to itself");
        }
    });
    SUCCEED();
}

TEST_CASE("several long messages at once, received in the opposite order, and prepared ones again and again") {
    on_all_transports(3, [](auto& comm) {
        constexpr int count = 5;
        const int right = (comm.rank() + 1) % 3, left = (comm.rank() + 2) % 3;
        std::vector<std::vector<std::byte>> x(count), y(count);
        std::vector<persistent> all;
        for (int i = count; i-- > 0;) {
            const auto at = static_cast<std::size_t>(i);
            x[at].resize(lengths[at + 1]);
            y[at].resize(lengths[at + 1]);
            all.push_back(receive.prepare(comm, y[at], from{left}, tag{i}));
        }
        for (int i = 0; i < count; ++i)
            all.push_back(send.prepare(comm, x[static_cast<std::size_t>(i)], to{right}, tag{i}));
        for (std::size_t turn = 0; turn < 3; ++turn) {
            for (auto& each : x)
                std::ranges::copy(bytes_of(comm.rank(), turn + each.size(), each.size()), each.begin());
            for (persistent& each : all) each.start();
            for (persistent& each : all) each.wait();
            for (const auto& each : y)
                expect(are_equal_from_the_end(each, bytes_of(left, turn + each.size(), each.size())), "in this turn");
        }
    });
    SUCCEED();
}

TEST_CASE("all ranks have a share in the cache, however many share a core") {
    using allfold::detail::cache_share;
    using allfold::detail::shared_cache;
    constexpr shared_cache only_one{32 << 20, 2}, one_of_eight{32 << 20, 16}, of_its_own{1 << 20, 1};
    CHECK(cache_share(only_one, 1, 2) == 32 << 20);
    CHECK(cache_share(only_one, 2, 2) == 16 << 20);
    CHECK(cache_share(only_one, 8, 2) == 4 << 20);
    CHECK(cache_share(one_of_eight, 8, 128) == 4 << 20);  // they may all share one
    CHECK(cache_share(one_of_eight, 128, 128) == 2 << 20);
    CHECK(cache_share(one_of_eight, 256, 128) == 1 << 20);
    CHECK(cache_share(of_its_own, 64, 64) == 1 << 20);
    CHECK(cache_share(only_one, 2, 0) == 8 << 20);  // the number of processors is unknown
    CHECK(cache_share(1) >= 256 << 10);
    CHECK(cache_share(64) <= cache_share(1));
}

TEST_CASE("as many messages as are awaited at one time, of late, exceed a cache or do not") {
    using allfold::detail::awaited_receives;
    constexpr std::size_t counted = awaited_receives::min_bytes;
    awaited_receives all(2 * 2 * counted);  // half is for what is sent
    const auto exceed = [&all](std::size_t bytes) { return all.exceed_cache(bytes); };
    CHECK_FALSE(exceed(2 * counted));
    CHECK(exceed(2 * counted + 1));
    CHECK_FALSE(all.add(counted - 1));
    CHECK(all.add(counted));
    CHECK(all.add(counted));
    CHECK_FALSE(exceed(counted));
    CHECK(exceed(counted + 1));
    for (int i = 0; i < 4; ++i) all.add(counted);
    CHECK(exceed(counted));
    CHECK_FALSE(exceed(counted - 1));  // too short for streaming stores
    for (int i = 0; i < 5; ++i) all.remove();
    CHECK(exceed(counted));  // the last one is treated like the others
    all.add(counted);
    all.remove();
    CHECK(exceed(counted));  // 3 recently: half of 6
    all.begin(counted);
    CHECK_FALSE(exceed(counted));  // 2
    all.add(10 * counted);
    all.remove();
    all.remove();
    all.begin(1);  // short ones do not count
    CHECK_FALSE(exceed(counted));
    CHECK(exceed(counted + 1));
    for (int i = 0; i < 6; ++i) all.add(counted);
    for (int i = 0; i < 6; ++i) all.remove();
    CHECK(exceed(counted));
    all.begin(counted);
    CHECK_FALSE(exceed(2 * counted));  // one alone
}

TEST_CASE("several messages that exceed the cache of a usual machine together, and one to its own rank among them") {
    on_all_transports(2, [](auto& comm) {
        const std::array around{1 - comm.rank(), comm.rank(), 1 - comm.rank()};
        const std::size_t length = allfold::detail::usual_cache_bytes / 8 - 77;
        std::vector<std::vector<std::byte>> x, y(3, std::vector<std::byte>(length));
        std::vector<operation> all;
        for (std::size_t i = 0; i < 3; ++i) all.push_back(receive.start(comm, y[i], from{around[i]}, tag{int(i)}));
        for (std::size_t i = 0; i < 3; ++i) x.push_back(bytes_of(comm.rank(), i, length));
        for (std::size_t i = 0; i < 3; ++i) all.push_back(send.start(comm, x[i], to{around[i]}, tag{int(i)}));
        wait_all(all);
        for (std::size_t i = 0; i < 3; ++i)
            expect(are_equal_from_the_end(y[i], bytes_of(around[i], i, length)), "all of it");
    });
    SUCCEED();
}

TEST_CASE("a long message that does not fit leaves its place as it was, and its sender goes on") {
    on_all_transports(2, [](auto& comm) {
        const std::vector<std::byte> sent = bytes_of(0, 0, 4 * least);
        if (comm.rank() == 0) {
            send(comm, sent, to{1});
            send(comm, sent, to{1});
            send(comm, sent, to{1});
        } else {
            std::vector<std::byte> shorter(4 * least - 1, std::byte{42});
            expect_error(outcome_of([&] { receive(comm, shorter, from{0}); }), errc::truncated, {"room for 262143"});
            expect(shorter == std::vector<std::byte>(4 * least - 1, std::byte{42}), "as it was");
            std::vector<std::int32_t> others(least, 42);
            expect_error(outcome_of([&] { receive(comm, others, from{0}); }), errc::mismatch, {"elements of type"});
            expect(others == std::vector<std::int32_t>(least, 42), "as it was");
            std::vector<std::byte> longer(4 * least + 1, std::byte{42});
            const status got = receive(comm, longer, from{0});
            expect(got.elements == 4 * least && longer.back() == std::byte{42}, "no more than came");
            longer.pop_back();
            expect(longer == sent, "data");
        }
        allfold::barrier(comm);
    });
    SUCCEED();
}

TEST_CASE("objects are copied by their receiver, however many they are") {
    on_ranks(2, [](allfold::thread_communicator& comm) {
        std::vector<std::string> x(5000), y(5000);
        static_assert(5000 * sizeof(std::string) > least);
        for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::string(i % 50, 'a') + std::to_string(i);
        for (const int sender : {0, 1})
            comm.rank() == sender ? static_cast<void>(send(comm, x, to{1 - sender}))
                                  : static_cast<void>(receive(comm, y, from{sender}));
        expect(x == y, "strings");
    });
    SUCCEED();
}
