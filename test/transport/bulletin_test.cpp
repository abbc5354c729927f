// SPDX-License-Identifier: BSL-1.0
#include "allfold/transport/detail/bulletin.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "allfold/error.hpp"
#include "allfold/transport/communicator.hpp"
#include "allfold/transport/detail/channel.hpp"
#include "allfold/transport/thread.hpp"
#include "test/support/catch.hpp"

using allfold::lane;
using allfold::part;
using allfold::detail::bulletin;
using allfold::detail::bulletin_reader;
using allfold::detail::cell;

namespace {

constexpr std::uint32_t hash = 7;

/// The bulletins of three ranks, and what ranks 1 and 2 have read.
struct group {
    std::vector<bulletin> all{3};
    std::array<bulletin_reader, 2> readers{bulletin_reader(all, 1), bulletin_reader(all, 2)};

    /// Rank 0 posts bytes of this value; returns false if there is no room. `far`: bypassing all caches.
    bool post(lane on, std::uint8_t value, std::size_t bytes = 4, bool far = false) {
        std::vector<std::byte> what(bytes, static_cast<std::byte>(value));
        const part p{what.data(), bytes};
        if (!all[0].has_room(all, 0)) return false;
        all[0].post(on, {{&p, 1}, bytes, 1, true, hash}, 2, far);
        return true;
    }
    /// What a reader finds, and is done with; -1 if it finds nothing.
    int read(std::size_t reader, lane on) {
        const cell* const found = readers[reader].find(0, on);
        if (found == nullptr) return -1;
        allfold::message_in_place here{};
        CHECK(readers[reader].locate(*found, here));
        CHECK(here.signature == hash);
        const auto value = static_cast<int>(here.data[here.bytes - 1]);
        readers[reader].take(0);
        return value;
    }
};

}  // namespace

TEST_CASE("each reader finds what is on a lane, of any length, once") {
    group g;
    CHECK(g.read(0, 5) == -1);
    for (const std::size_t bytes : {std::size_t{1}, std::size_t{112}, std::size_t{113}, std::size_t{5000}}) {
        REQUIRE(g.post(5, static_cast<std::uint8_t>(bytes % 100), bytes, bytes > 112));
        for (const std::size_t reader : {std::size_t{0}, std::size_t{1}}) {
            CHECK(g.read(reader, 5) == static_cast<int>(bytes % 100));
            CHECK(g.read(reader, 5) == -1);
            CHECK_FALSE(g.readers[reader].has_news(0));
        }
    }
}

TEST_CASE("there is room until a reader is as far behind as a bulletin has cells") {
    group g;
    for (std::uint32_t i = 0; i < bulletin::cells; ++i) REQUIRE(g.post(i, static_cast<std::uint8_t>(i)));
    CHECK_FALSE(g.post(100, 100));
    for (std::uint32_t i = 0; i < bulletin::cells; ++i) CHECK(g.read(0, i) == static_cast<int>(i));
    CHECK_FALSE(g.post(100, 100));
    CHECK(g.read(1, 0) == 0);
    CHECK(g.post(100, 100));
    CHECK_FALSE(g.post(101, 101));
    for (std::uint32_t i = 1; i < bulletin::cells; ++i) CHECK(g.read(1, i) == static_cast<int>(i));
    CHECK(g.read(1, 100) == 100);
    CHECK(g.read(0, 100) == 100);
    for (std::uint32_t i = 0; i < 100; ++i) {
        REQUIRE(g.post(i, static_cast<std::uint8_t>(i)));
        CHECK(g.read(0, i) == static_cast<int>(i));
        CHECK(g.read(1, i) == static_cast<int>(i));
    }
}

TEST_CASE("a rank knows whether some of its readers are far, each of which it asks in turn") {
    constexpr auto nobody = std::chrono::nanoseconds::max(), anybody = std::chrono::nanoseconds::min();
    constexpr std::size_t bytes = 10000;
    group g;
    const auto next_is_far = [&](std::chrono::nanoseconds limit) {
        REQUIRE(g.post(1, 1, bytes, true));
        CHECK(g.read(0, 1) == 1);
        CHECK(g.read(1, 1) == 1);
        return g.all[0].is_far(g.all, 0, bytes, limit);
    };
    CHECK_FALSE(g.all[0].is_far(g.all, 0, bytes, anybody));  // no reader has counted yet
    CHECK_FALSE(next_is_far(nobody));
    CHECK(next_is_far(anybody));
    CHECK(g.all[0].was_far());
    CHECK(next_is_far(nobody));  // asks about the other reader; the first is still far
    CHECK_FALSE(g.all[0].is_far(g.all, 0, 100, anybody));
    CHECK_FALSE(g.all[0].is_far(g.all, 0, bytes, {anybody, bytes - 1}));  // too long for that to matter
    CHECK(g.all[0].was_far());
}

TEST_CASE("a reader finds what is behind messages of other lanes, which keep their room") {
    group g;
    for (std::uint32_t i = 0; i < bulletin::cells; ++i) REQUIRE(g.post(i, static_cast<std::uint8_t>(i)));
    for (std::uint32_t i = 0; i < bulletin::cells; ++i) CHECK(g.read(1, i) == static_cast<int>(i));
    for (std::uint32_t i = bulletin::cells; i-- > 1;) {
        CHECK(g.read(0, i) == static_cast<int>(i));
        CHECK(g.read(0, i) == -1);
        CHECK(g.readers[0].has_news(0));
        CHECK_FALSE(g.post(100, 100));
    }
    CHECK(g.read(0, 0) == 0);
    CHECK_FALSE(g.readers[0].has_news(0));
    CHECK(g.post(100, 100));
    CHECK(g.read(0, 100) == 100);
}

TEST_CASE("what is expected is found only if it is the next one, and as expected") {
    group g;
    REQUIRE(g.post(1, 10, 8));
    REQUIRE(g.post(2, 20, 8));
    bulletin_reader& reader = g.readers[0];
    std::array<std::byte*, bulletin::max_ranks> data{};
    const auto is_found = [&](lane on, std::uint32_t signature, std::size_t bytes) {
        data = {};
        return reader.find_oldest(0, on, signature, bytes, data.data()) > 0;
    };
    CHECK_FALSE(is_found(1, hash + 1, 8));
    CHECK_FALSE(is_found(1, hash, 7));
    CHECK_FALSE(is_found(2, hash, 8));
    REQUIRE(is_found(1, hash, 8));
    CHECK(*data[0] == std::byte{10});
    REQUIRE(reader.find(0, 1) != nullptr);
    reader.take(0);
    CHECK_FALSE(is_found(1, hash, 8));
    REQUIRE(is_found(2, hash, 8));
    CHECK(*data[0] == std::byte{20});
}

TEST_CASE("what finds no room goes in channels, and is received whichever way it came, in any order of lanes") {
    allfold::thread_world world(3);
    allfold::thread_communicator sender = world.communicator(0), reader = world.communicator(1),
                                 slow = world.communicator(2);
    std::vector<std::byte> what(200);
    const auto post = [&](lane on) {
        what.back() = static_cast<std::byte>(on);
        const part p{what.data(), what.size()};
        const allfold::outgoing message{{&p, 1}, what.size(), 1, true, hash};
        if (sender.post_to_all(on, message)) return true;
        CHECK(sender.try_post(1, on, message));
        CHECK(sender.try_post(2, on, message));
        return false;
    };
    const auto read = [&](allfold::thread_communicator& by, lane on) {
        int value = -1;
        by.try_receive(0, on, [&](auto&& message) {
            CHECK(message.bytes() == what.size());
            value = static_cast<int>(message.packed()[message.bytes() - 1]);
        });
        return value;
    };
    constexpr lane posted = bulletin::cells + 3;
    for (lane on = 0; on < posted; ++on) CHECK(post(on) == (on < bulletin::cells));
    for (lane on = posted; on-- > 0;) {
        CHECK(read(reader, on) == static_cast<int>(on));
        CHECK(read(reader, on) == -1);
    }
    for (lane on = 0; on < posted; ++on) CHECK(read(slow, on) == static_cast<int>(on));
    {
        CHECK(post(posted));
        allfold::thread_communicator::arrival_type kept;
        CHECK(reader.try_receive(0, posted, [&](auto&& message) { kept = std::move(message); }));
        CHECK(read(reader, posted) == -1);
        CHECK(read(slow, posted) == static_cast<int>(posted));
        lane more = posted;
        while (post(++more)) {
        }
        CHECK(more == posted + bulletin::cells);
        CHECK(kept.packed()[199] == static_cast<std::byte>(posted));
        for (lane on = posted + 1; on <= more; ++on)
            for (auto* const each : {&reader, &slow}) CHECK(read(*each, on) == static_cast<int>(on));
    }
    constexpr lane last = posted + bulletin::cells + 1;
    CHECK(post(last));
    allfold::message_in_place here{};
    CHECK_FALSE(reader.find_in_place(0, last + 1, 0, here, false));
    REQUIRE(reader.find_in_place(0, last, 0, here, false));
    CHECK(here.data[here.bytes - 1] == static_cast<std::byte>(last));
    reader.take_in_place(0);
    CHECK(read(slow, last) == static_cast<int>(last));
}

TEST_CASE("of a message for each reader each finds its own, of any length") {
    group g;
    struct own {
        int peer;
        std::size_t bytes;
    };
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{3}, std::size_t{5000}}) {
        const std::array<own, 2> to{own{1, bytes}, own{2, bytes + 70}};
        g.all[0].post_each(5, hash, to, false, [](const own& each, allfold::detail::destination memory) {
            std::fill_n(memory.data, each.bytes, static_cast<std::byte>(each.peer));
        });
        for (const own& each : to) {
            bulletin_reader& reader = g.readers[static_cast<std::size_t>(each.peer) - 1];
            const cell* const posted = reader.find(0, 5);
            allfold::message_in_place here{};
            REQUIRE((posted != nullptr && reader.locate(*posted, here)));
            CHECK((here.signature == hash && here.bytes == each.bytes));
            const std::byte* const found = here.data;
            CHECK(std::all_of(found, found + each.bytes,
                              [&](std::byte b) { return b == static_cast<std::byte>(each.peer); }));
            reader.take(0);
        }
    }
}

TEST_CASE("what is lent to all is given back by each of them") {
    allfold::thread_world world(3);
    std::array<std::byte, 200> what{};
    const part p{what.data(), what.size()};
    std::atomic<int> lent{0};
    const allfold::outgoing loan{{&p, 1}, what.size(), 1, false, hash, &lent};
    allfold::thread_communicator sender = world.communicator(0), reader = world.communicator(1);
    const auto read = [&](allfold::thread_communicator& by, int still_lent) {
        CHECK(by.try_receive(0, 5, [&](auto&& message) {
            const allfold::thread_communicator::arrival_type kept = std::move(message);
            CHECK(kept.bytes() == what.size());
            CHECK(kept.packed() == nullptr);
            REQUIRE(kept.parts().size() == 1);
            CHECK(kept.parts()[0].data == what.data());
            CHECK(lent == still_lent + 1);
        }));
        CHECK(lent == still_lent);
    };
    std::unique_ptr<allfold::thread_communicator> late(new allfold::thread_communicator(world.communicator(2)));
    REQUIRE(sender.post_to_all(5, loan));
    read(reader, 1);
    SECTION("who returns without having read it breaks the world") {
        late.reset();
        CHECK(world.broken_by() == 2);
        CHECK_THROWS_AS(sender.progress(), allfold::error);
    }
    SECTION("who has given it back may return, and gets no other") {
        read(*late, 0);
        late.reset();
        CHECK(world.broken_by() == -1);
        CHECK_THROWS_WITH(sender.post_to_all(6, loan), Catch::Contains("waits for rank 2"));
    }
}

TEST_CASE("an empty message of over-aligned elements lies somewhere") {
    group g;
    std::byte nothing{};
    allfold::part p{&nothing, 0};
    REQUIRE(g.all[0].has_room(g.all, 0));
    g.all[0].post(5, {{&p, 1}, 0, 64, true, 0}, 2, false);
    const auto* const found = g.readers[0].find(0, 5);
    REQUIRE(found != nullptr);
    allfold::message_in_place here;
    REQUIRE(g.readers[0].locate(*found, here));
    CHECK(here.data != nullptr);
    CHECK(here.bytes == 0);
}
