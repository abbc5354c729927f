// SPDX-License-Identifier: BSL-1.0
#include "allfold/transport/detail/notice_board.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include "allfold/schedule/step.hpp"
#include "allfold/transport/communicator.hpp"
#include "allfold/transport/detail/rank_board.hpp"
#include "test/support/catch.hpp"

using allfold::lane;
using allfold::part;
using allfold::peers;
using allfold::detail::notice;
using allfold::detail::notice_board;
using allfold::detail::rank_board;
using allfold::detail::transfer;

namespace {

constexpr std::size_t eager_bytes = 1024;

/// The board of one rank of a group, and how far its readers have got.
struct board_of {
    board_of(int rank, int size)
        : self(rank), ranks(static_cast<std::size_t>(size)), passed(static_cast<std::size_t>(size)) {}

    /// Posts `bytes` bytes of this value; returns false if it would have to wait.
    bool post(lane on, std::uint8_t value, std::size_t bytes = 4, const peers& to = peers::everyone(),
              bool unordered = false) {
        const std::vector<std::byte> what(bytes, static_cast<std::byte>(value));
        const part p{const_cast<std::byte*>(what.data()), bytes};
        return post(on, {{&p, 1}, bytes, 1, true, 7, &lent, unordered}, {}, to, unordered);
    }
    bool post(lane on, const allfold::outgoing& message, std::span<const std::size_t> ends,
              const peers& to = peers::everyone(), bool unordered = false) {
        notice* const free = board.find_free({on, unordered}, self, static_cast<int>(ranks.size()), ranks.data());
        if (free == nullptr) return false;
        free->write({on, unordered}, message, ends, to, self, eager_bytes);
        board.show(*free, self, static_cast<int>(ranks.size()));
        return true;
    }
    notice* find(int reader, lane on) { return board.find(reader, on, passed[static_cast<std::size_t>(reader)]); }
    /// What a reader finds, and is done with; -1 if it finds nothing.
    int read(int reader, lane on) {
        notice* const found = find(reader, on);
        if (found == nullptr) return -1;
        const int value = found->bytes_for(reader) == 0
                              ? 0
                              : static_cast<int>(found->packed_for(reader)[found->bytes_for(reader) - 1]);
        found->take(reader, false);
        return value;
    }
    [[nodiscard]] int waits_for() const { return board.slowest_reader(ranks.data()); }

    int self;
    std::vector<rank_board> ranks;
    std::vector<std::uint32_t> passed;
    std::atomic<int> lent{0};
    notice_board board;
};

/// Posts on lane 0 until there is no room; returns how many messages fit.
int fill(board_of& b) {
    int posted = 0;
    while (b.post(0, static_cast<std::uint8_t>(posted))) ++posted;
    return posted;
}

}  // namespace

TEST_CASE("each reader finds the notices of a lane in the order of their posts, whatever others have read") {
    board_of b(1, 3);
    REQUIRE((b.post(0, 10) && b.post(5, 20) && b.post(0, 11) && b.post(0, 12, 300)));
    CHECK(b.read(0, 5) == 20);
    CHECK(b.read(0, 5) == -1);
    for (const int reader : {2, 0}) {
        CHECK(b.read(reader, 0) == 10);
        CHECK(b.read(reader, 0) == 11);
        CHECK(b.read(reader, 0) == 12);
        CHECK(b.read(reader, 0) == -1);
    }
    CHECK(b.read(2, 5) == 20);
}

TEST_CASE("ranks beyond the first 64 have their bits, and only those to whom a notice is written find it") {
    board_of b(70, 200);
    REQUIRE(b.post(0, 1, 4, peers::higher()));
    REQUIRE(b.post(0, 2, 4, peers::strided(3, 3, 64, 200)));
    for (int reader = 0; reader < 200; ++reader) {
        if (reader == 70) continue;
        INFO("rank " << reader);
        if (reader > 70) CHECK(b.read(reader, 0) == 1);
        CHECK(b.read(reader, 0) == (reader == 3 || reader == 67 || reader == 131 ? 2 : -1));
    }
    CHECK(b.waits_for() == -1);
}

TEST_CASE("a board has few notices, and the rank for which its owner waits is the one that has not read the oldest") {
    board_of b(0, 3);
    const int room = fill(b);
    CHECK(room >= 2);
    for (int i = 0; i < room; ++i) REQUIRE(b.read(1, 0) == i);
    CHECK(b.waits_for() == 2);
    CHECK_FALSE(b.post(0, 99));
    REQUIRE(b.read(2, 0) == 0);
    CHECK(b.waits_for() == -1);
    CHECK(b.post(0, 99));
    for (int i = 1; i < room; ++i) REQUIRE(b.read(2, 0) == i);
    CHECK(b.read(2, 0) == 99);
}

TEST_CASE("a notice that is shown while a reader looks does not come before an older one") {
    board_of b(0, 2);
    REQUIRE(b.post(5, 50));  // so that there is something to look for
    const auto write = [&](lane on) -> notice& {
        static std::byte value{7};
        const part p{&value, 1};
        notice& free = *b.board.find_free({on}, 0, 2, b.ranks.data());
        free.write({on}, {{&p, 1}, 1, 1, true, 7, &b.lent}, {}, peers::everyone(), 0, eager_bytes);
        return free;
    };
    write(3).show(9, 0, 2);  // not announced by the board yet: the reader may have passed number 8 in its list
    CHECK(b.read(1, 3) == -1);
    CHECK(b.read(1, 5) == 50);
}

TEST_CASE("a message of no bytes lies somewhere, whatever its alignment") {
    board_of b(0, 2);
    REQUIRE(b.post(0, {{}, 0, 32, true, 7, &b.lent}, {}));
    CHECK(b.find(1, 0)->packed_for(1) != nullptr);
}

TEST_CASE("a notice that is used is not written anew") {
    board_of b(0, 2);
    REQUIRE(b.post(0, 0, 300));
    notice* const held = b.find(1, 0);
    REQUIRE(held != nullptr);
    held->take(1, true);
    while (b.post(0, 7, 300)) CHECK(held->packed_for(1)[299] == std::byte{0});
    held->release(1);
    CHECK(b.post(0, 7, 300));
}

TEST_CASE("what belongs to an older lane finds a notice, however many are in use; a later one waits") {
    for (const bool unordered : {false, true}) {
        board_of b(0, 2);
        static_cast<void>(fill(b));
        CHECK_FALSE(b.post(1, 1));
        CHECK_FALSE(b.post(0, 1));
        const lane before = unordered ? lane{1} : static_cast<lane>(-1);
        int posted = 0;
        while (b.post(before, 55, 4, peers::everyone(), unordered)) REQUIRE(++posted < 100);
        CHECK(posted >= 2);  // as many as before
        CHECK(b.read(1, before) == 55);
    }
}

TEST_CASE("who has left keeps no notice from being used again") {
    board_of b(0, 3);
    const int room = fill(b);
    for (int i = 0; i < room; ++i) REQUIRE(b.read(2, 0) == i);
    CHECK_FALSE(b.post(0, 1));
    b.ranks[1].has_stopped_reading = true;
    CHECK(b.waits_for() == -1);
    CHECK(b.post(0, 1));
}

TEST_CASE("of a notice with a part for each, each reader gets its own") {
    std::array<std::uint8_t, 12> memory{};
    std::iota(memory.begin(), memory.end(), std::uint8_t{0});
    const auto at = [&](std::size_t i, std::size_t bytes) {
        return part{reinterpret_cast<std::byte*>(memory.data()) + i, bytes};
    };
    const std::array parts{at(0, 3), at(3, 1), at(4, 2), at(6, 4)};
    const std::array<std::size_t, 3> ends{1, 3, 4};
    board_of b(1, 4);
    REQUIRE(b.post(0, {parts, 12, 2, false, 7, &b.lent}, ends));
    CHECK(b.lent == 3);
    notice& shown = *b.find(0, 0);
    CHECK(shown.lent_to(0).count == 1);
    CHECK(shown.lent_to(0).parts[0].data == parts[0].data);
    CHECK(shown.lent_to(2).count == 2);
    CHECK(shown.lent_to(2).parts[1].data == parts[2].data);
    CHECK(shown.bytes_for(2) == 4);  // the second part is aligned
    CHECK(shown.lent_to(3).parts[0].bytes == 4);
    CHECK(b.board.lends_to(3));
    shown.take(3, false);
    CHECK_FALSE(b.board.lends_to(3));

    // What may be copied is copied, and the operand may then change.
    board_of c(1, 4);
    REQUIRE(c.post(0, {parts, 12, 2, true, 7, &c.lent}, ends));
    CHECK(c.lent == 0);
    memory.fill(99);
    const auto text_for = [&](int reader) {
        notice& read = *c.find(reader, 0);
        return std::vector<std::byte>(read.packed_for(reader), read.packed_for(reader) + read.bytes_for(reader));
    };
    using bytes = std::vector<std::byte>;
    CHECK(text_for(0) == bytes{std::byte{0}, std::byte{1}, std::byte{2}});
    const bytes two = text_for(2);
    REQUIRE(two.size() == 4);
    CHECK((two[0] == std::byte{3} && two[2] == std::byte{4} && two[3] == std::byte{5}));
    CHECK(text_for(3) == bytes{std::byte{6}, std::byte{7}, std::byte{8}, std::byte{9}});
}
