// SPDX-License-Identifier: BSL-1.0
#include "allfold/transport/thread.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <iterator>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/collective.hpp"
#include "allfold/schedule/recursive_doubling.hpp"
#include "test/support/catch.hpp"
#include "test/support/oracle.hpp"
#include "test/support/ranks.hpp"
#include "test/support/sanitized.hpp"

using namespace test;
using namespace std::chrono_literals;
using allfold::errc;
using allfold::lane;
using allfold::part;
using allfold::thread_communicator;
using allfold::thread_tuning;
using allfold::thread_world;

namespace {

using bytes = std::vector<std::byte>;

bytes pattern(std::size_t size, unsigned seed) {
    bytes b(size);
    for (std::size_t i = 0; i < size; ++i) b[i] = static_cast<std::byte>(seed + 31 * i + (i >> 8));
    return b;
}

/// A message with all that a post needs; cannot be moved.
class letter {
  public:
    explicit letter(bytes content, std::size_t alignment = 1, std::uint32_t signature = 1)
        : letter(std::vector<bytes>{std::move(content)}, alignment, signature) {}
    letter(std::vector<bytes> pieces, std::size_t alignment, std::uint32_t signature)
        : pieces_(std::move(pieces)), alignment_(alignment), signature_(signature) {
        for (bytes& each : pieces_) {
            parts_.push_back({each.data(), each.size()});
            total_ = allfold::detail::align_up(total_, alignment) + each.size();
        }
    }
    letter(const letter&) = delete;
    letter& operator=(const letter&) = delete;

    bool post(thread_communicator& from, int to, lane on, bool copyable = true) {
        return from.try_post(to, on, {parts_, total_, alignment_, copyable, signature_, &lent_});
    }
    [[nodiscard]] int lent() const { return lent_; }
    [[nodiscard]] const std::vector<bytes>& pieces() const { return pieces_; }
    [[nodiscard]] std::uint32_t signature() const { return signature_; }
    [[nodiscard]] std::size_t alignment() const { return alignment_; }

  private:
    std::vector<bytes> pieces_;
    std::vector<part> parts_;
    std::size_t alignment_;
    std::uint32_t signature_;
    std::size_t total_ = 0;
    std::atomic<int> lent_ = 0;
};

/// Whether a message has arrived as it was sent.
bool equals(const thread_communicator::arrival_type& got, const letter& sent) {
    if (got.signature() != sent.signature()) return false;
    std::size_t at = 0, index = 0;
    for (const bytes& piece : sent.pieces()) {
        at = allfold::detail::align_up(at, sent.alignment());
        const std::byte* const data = got.packed() ? got.packed() + at : got.parts()[index].data;
        if (reinterpret_cast<std::uintptr_t>(got.packed()) % sent.alignment() != 0) return false;
        if (!got.packed() && got.parts()[index].bytes != piece.size()) return false;
        if (!std::equal(piece.begin(), piece.end(), data)) return false;
        at += piece.size();
        ++index;
    }
    return got.bytes() == at;
}

/// Receives the next message, if there is one.
std::optional<thread_communicator::arrival_type> next(thread_communicator& comm, int from, lane on) {
    std::optional<thread_communicator::arrival_type> got;
    static_cast<void>(comm.try_receive(
        from, on, [&](thread_communicator::arrival_type&& message) { got.emplace(std::move(message)); }));
    return got;
}

bool receives(thread_communicator& comm, int from, lane on, const letter& expected) {
    const auto got = next(comm, from, on);
    return got && equals(*got, expected);
}

/// Two ranks in one thread: the test decides what happens when.
struct pair {
    explicit pair(const thread_tuning& tuning = {}) : world(2, tuning) {}
    thread_world world;
    thread_communicator a = world.communicator(0), b = world.communicator(1);
};

constexpr std::size_t eager_bytes = thread_tuning().eager_bytes;

/// Sizes for each way in which a message travels: in a cell, in a buffer, or lent, so that it is read in place.
constexpr std::size_t sizes[] = {0,           1,
                                 2,           15,
                                 16,          47,
                                 48,          49,
                                 63,          64,
                                 65,          111,
                                 112,         113,
                                 127,         128,
                                 1000,        4095,
                                 4096,        4097,
                                 9000,        eager_bytes - 1,
                                 eager_bytes, eager_bytes + 1,
                                 300000};

}  // namespace

TEST_CASE("a message arrives as it was sent, whatever its size and alignment") {
    pair p;
    for (const std::size_t size : sizes)
        for (const std::size_t alignment : {1U, 4U, 8U, 16U, 32U, 64U}) {
            INFO(size << " bytes aligned to " << alignment);
            letter sent(pattern(size, 7), alignment, 99);
            REQUIRE(sent.post(p.a, 1, 0));
            CHECK(receives(p.b, 0, 0, sent));
            CHECK(sent.lent() == 0);
            CHECK_FALSE(next(p.b, 0, 0));
        }
}

TEST_CASE("a message of several parts arrives with each part aligned") {
    pair p;
    for (const std::size_t alignment : {1U, 4U, 16U, 64U})
        for (const std::size_t size : {0U, 3U, 40U, 5000U, 40000U}) {
            INFO(size << " bytes aligned to " << alignment);
            letter sent({pattern(size, 1), pattern(0, 2), pattern(5, 3), pattern(size, 4)}, alignment, 5);
            REQUIRE(sent.post(p.a, 1, 0));
            CHECK(receives(p.b, 0, 0, sent));
        }
}

TEST_CASE("a lent message is read in the sender's memory, and given back with the arrival") {
    pair p;
    const auto check_lent = [&](std::size_t size, bool copyable) {
        letter sent(pattern(size, 3));
        REQUIRE(p.a.lends(size, copyable));
        REQUIRE(sent.post(p.a, 1, 0, copyable));
        CHECK(sent.lent() == 1);
        {
            auto got = next(p.b, 0, 0);
            REQUIRE(got);
            CHECK(got->packed() == nullptr);
            CHECK(got->parts()[0].data == sent.pieces()[0].data());
            const auto kept = std::move(*got);
            got.reset();
            CHECK(sent.lent() == 1);
        }
        CHECK(sent.lent() == 0);
    };
    check_lent(eager_bytes + 1, true);
    check_lent(8, false);
    check_lent(0, false);
    CHECK_FALSE(p.a.lends(eager_bytes, true));
}

TEST_CASE("messages that would be lent are copied for far cores, as long as few are in flight") {
    pair p(test::scattered);
    const auto lent_of = [&](std::size_t size, bool copyable) {
        letter sent(pattern(size, 3));
        REQUIRE(sent.post(p.a, 1, 0, copyable));
        const int lent = sent.lent();
        CHECK(receives(p.b, 0, 0, sent));
        return lent;
    };
    for (int i = 0; i < 4; ++i) static_cast<void>(lent_of(eager_bytes, true));  // so that the distance is measured
    CHECK(lent_of(eager_bytes + 1, true) == 0);
    CHECK(lent_of(std::size_t{4} << 20, true) == 0);
    CHECK(lent_of((std::size_t{4} << 20) + 1, true) == 1);
    CHECK(lent_of(eager_bytes + 1, false) == 1);

    std::deque<letter> sent;
    int lent = 0;
    for (int i = 0; i < 10; ++i) {
        REQUIRE(sent.emplace_back(pattern(eager_bytes + 1, 4)).post(p.a, 1, 0));
        lent += sent.back().lent();
    }
    CHECK(lent == 6);
    for (const letter& each : sent) CHECK(receives(p.b, 0, 0, each));
}

TEST_CASE("a copied message may be overwritten as soon as it is posted") {
    pair p;
    for (const std::size_t size : {10U, 100U, 1000U, 32768U}) {
        bytes content = pattern(size, 3);
        const letter expected(content);
        const part whole{content.data(), content.size()};
        std::atomic<int> lent = 0;
        REQUIRE(p.a.try_post(1, 0, {{&whole, 1}, size, 1, true, 1, &lent}));
        CHECK(lent == 0);
        std::ranges::fill(content, std::byte{0});
        CHECK(receives(p.b, 0, 0, expected));
    }
}

TEST_CASE("messages on a lane arrive in the order of their posts, lanes do not mix") {
    pair p;
    for (const std::size_t size : {10U, 100U, 2000U, 50000U}) {
        letter one(pattern(size, 1)), two(pattern(size, 2)), other(pattern(size, 3)), last(pattern(size, 4));
        REQUIRE(one.post(p.a, 1, 5));
        REQUIRE(other.post(p.a, 1, 7));
        REQUIRE(two.post(p.a, 1, 5));
        REQUIRE(last.post(p.a, 1, 6));
        CHECK_FALSE(next(p.b, 0, 4));
        CHECK(receives(p.b, 0, 6, last));
        CHECK(receives(p.b, 0, 5, one));
        CHECK(receives(p.b, 0, 7, other));
        CHECK(receives(p.b, 0, 5, two));
        for (lane on = 4; on < 8; ++on) CHECK_FALSE(next(p.b, 0, on));
    }
}

TEST_CASE("messages that come before anybody asks for their lane are kept, so that an older one can pass them") {
    for (const std::size_t size : {10U, 100U, 2000U, 50000U}) {
        pair p;
        constexpr lane count = 40;
        std::vector<std::unique_ptr<letter>> sent(count);
        for (lane on = count; on-- > 0;) {
            INFO(size << " bytes on lane " << on);
            sent[on] = std::make_unique<letter>(pattern(size, on));
            if (!sent[on]->post(p.a, 1, on)) {
                p.b.progress();  // older than what occupies the cells, so these are taken out
                REQUIRE(sent[on]->post(p.a, 1, on));
            }
        }
        for (lane on = 0; on < count; ++on) CHECK(receives(p.b, 0, on, *sent[on]));
        for (const auto& each : sent) CHECK(each->lent() == 0);
    }
}

TEST_CASE("who sends on ever later lanes, which nobody asks for, is held back, and an older message still passes") {
    for (const std::size_t size : {10U, 100U, 2000U}) {
        INFO(size << " bytes");
        pair p;
        std::deque<letter> sent;
        lane on = 1;
        for (; sent.emplace_back(pattern(size, on)).post(p.a, 1, on); ++on) {
            REQUIRE(on < 100);
            CHECK_FALSE(next(p.b, 0, 1000));  // looks at what has arrived
            p.b.progress();
        }
        letter old(pattern(size, 99));
        if (!old.post(p.a, 1, 0)) {
            CHECK_FALSE(next(p.b, 0, 1000));
            p.b.progress();
            REQUIRE(old.post(p.a, 1, 0));
        }
        CHECK(receives(p.b, 0, 0, old));
        for (lane l = 1; l < on; ++l) CHECK(receives(p.b, 0, l, sent[l - 1]));
    }
}

TEST_CASE("a message waits behind many of older lanes until some of those are received") {
    constexpr std::size_t kept = allfold::detail::max_kept_early;
    for (const std::size_t size : {10U, 50000U}) {
        pair p;
        std::deque<letter> older;
        while (older.size() <= kept) {
            REQUIRE(older.emplace_back(pattern(size, static_cast<unsigned>(older.size()))).post(p.a, 1, 0));
            CHECK_FALSE(next(p.b, 0, 1));  // takes what has arrived out of its cell
        }
        letter later(pattern(size, 99));
        REQUIRE(later.post(p.a, 1, 1));
        CHECK_FALSE(next(p.b, 0, 1));
        CHECK(receives(p.b, 0, 0, older[0]));
        CHECK(receives(p.b, 0, 1, later));
        for (std::size_t i = 1; i < older.size(); ++i) CHECK(receives(p.b, 0, 0, older[i]));
    }
}

TEST_CASE("a message in memory of its own that nobody receives is freed with its world") {
    pair p;
    std::deque<letter> sent;
    constexpr std::size_t room = allfold::detail::buffers_of_a_channel;
    while (sent.emplace_back(pattern(1000, 1)).post(p.a, 1, 5)) REQUIRE(sent.size() < room + 2);
    CHECK(letter(pattern(1000, 2)).post(p.a, 1, 4));
    CHECK(letter(pattern(1000, 3)).post(p.a, 1, 3));
    CHECK(receives(p.b, 0, 4, letter(pattern(1000, 2))));
}

TEST_CASE("a post is refused when the channel is full, and accepted when there is room again") {
    pair p;
    const auto room_for = [&](std::size_t size) {
        std::deque<letter> sent;
        while (sent.emplace_back(pattern(size, static_cast<unsigned>(sent.size()))).post(p.a, 1, 0))
            REQUIRE(sent.size() < 100);
        const std::size_t room = sent.size() - 1;
        CHECK(receives(p.b, 0, 0, sent.front()));
        CHECK(sent.back().post(p.a, 1, 0));
        for (std::size_t i = 1; i < sent.size(); ++i) CHECK(receives(p.b, 0, 0, sent[i]));
        return room;
    };
    CHECK(room_for(1) == allfold::detail::cells_of_a_channel);
    CHECK(room_for(1000) == allfold::detail::buffers_of_a_channel);
    CHECK(room_for(100000) == allfold::detail::cells_of_a_channel);
}

// Each message also reports to its receiver how much of the opposite direction has been consumed.
TEST_CASE("a message from the past does not make room that is not there") {
    pair p;
    for (const std::size_t size : {1U, 1000U}) {
        const auto room = size == 1 ? allfold::detail::cells_of_a_channel : allfold::detail::buffers_of_a_channel;
        letter old(pattern(1, 77));
        REQUIRE(old.post(p.b, 0, 0));
        unsigned posted = 0, taken = 0;
        const auto post = [&] { return letter(pattern(size, posted)).post(p.a, 1, 0) && ++posted; };
        const auto take = [&] { return receives(p.b, 0, 0, letter(pattern(size, taken))) && ++taken; };
        for (const unsigned distance : {4U, 252U, 256U, 260U, 1000U}) {
            INFO(size << " bytes, " << distance << " messages later");
            while (posted < distance) {
                REQUIRE(post());
                REQUIRE(take());
            }
            while (post()) REQUIRE(posted - taken <= room);
            CHECK(receives(p.a, 1, 0, old));
            while (post()) REQUIRE(posted - taken <= room);
            CHECK(posted - taken == room);
            while (taken < posted) REQUIRE(take());
            REQUIRE(old.post(p.b, 0, 0));
        }
        REQUIRE(receives(p.a, 1, 0, old));
    }
}

TEST_CASE("any sequence of posts and receives delivers every message once, in order and intact") {
    const auto seed = std::random_device()();
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };

    for (const auto& tuning : {thread_tuning(), thread_tuning{.eager_bytes = 200}, thread_tuning{.eager_bytes = 0}}) {
        std::map<std::pair<bool, lane>, std::deque<std::unique_ptr<letter>>> in_flight;
        std::list<std::pair<std::unique_ptr<letter>, thread_communicator::arrival_type>> held;  // ended in any order
        pair p(tuning);
        constexpr std::size_t some_sizes[] = {0, 1, 48, 112, 113, 190, 210, 3000, 40000};
        bool fine = true;
        for (int turn = 0; turn < fewer_if_sanitized(20000, 8000) && fine; ++turn) {
            const bool forth = below(2) == 0;
            const auto on = static_cast<lane>(below(3));
            auto& queue = in_flight[{forth, on}];
            if (below(20) < 9) {
                auto fresh = std::make_unique<letter>(pattern(some_sizes[below(9)], static_cast<unsigned>(turn)),
                                                      std::size_t{1} << below(6), static_cast<std::uint32_t>(turn));
                if (fresh->post(forth ? p.a : p.b, forth ? 1 : 0, on, below(10) > 0)) queue.push_back(std::move(fresh));
            } else {
                auto got = next(forth ? p.b : p.a, forth ? 0 : 1, on);
                std::size_t older = 0, others = 0;  // all kept messages count, but none waits for later lanes alone
                for (lane l = 0; l < 3; ++l) {
                    if (l < on) older += in_flight[{forth, l}].size();
                    if (l != on) others += in_flight[{forth, l}].size();
                }
                const bool may_wait = queue.empty() || (older > 0 && others >= allfold::detail::max_kept_early);
                fine = got ? !queue.empty() && equals(*got, *queue.front()) : may_wait;
                if (got) {
                    held.emplace_back(std::move(queue.front()), std::move(*got));
                    queue.pop_front();
                }
            }
            if (held.size() > below(4)) {
                const auto ended = std::next(held.begin(), static_cast<std::ptrdiff_t>(below(held.size())));
                fine = fine && equals(ended->second, *ended->first);
                held.erase(ended);
            }
            if (!fine) FAIL_CHECK("turn " << turn);
        }
        CHECK(fine);
        held.clear();
        for (auto& [direction, queue] : in_flight)
            for (; !queue.empty(); queue.pop_front())
                CHECK(receives(direction.first ? p.b : p.a, direction.first ? 0 : 1, direction.second, *queue.front()));
    }
}

TEST_CASE("a world needs at least one rank, and knows no other ranks than its own") {
    for (const int size : {0, -1}) {
        try {
            on_ranks(size, [](auto&) {});
            FAIL("accepted");
        } catch (const allfold::error& e) {
            CHECK(e.code() == errc::bad_argument);
            CHECK_THAT(e.what(), Catch::Matchers::ContainsSubstring(std::to_string(size) + " ranks"));
        }
    }
    thread_world world(3);
    for (const int rank : {-1, 3, 100}) {
        try {
            static_cast<void>(world.communicator(rank));
            FAIL("accepted");
        } catch (const allfold::error& e) {
            CHECK(e.code() == errc::bad_rank);
            CHECK_THAT(e.what(), Catch::Matchers::ContainsSubstring("rank " + std::to_string(rank)) &&
                                     Catch::Matchers::ContainsSubstring("[0, 3)"));
        }
    }
}

namespace {

std::atomic<int> ranks_called = 0;
void call_rank(thread_communicator& comm) { ranks_called += comm.rank() + 1; }

}  // namespace

TEST_CASE("ranks can run a function") {
    ranks_called = 0;
    allfold::run(2, call_rank);
    allfold::run(2, &call_rank);
    CHECK(ranks_called == 6);
}

TEST_CASE("ranks can be threads of the caller's own, one world after another") {
    for (int turn = 0; turn < 3; ++turn) {
        const watchdog watch("threads of one's own");
        thread_world world(3);
        std::atomic<int> sum = 0;
        std::vector<std::thread> threads;
        for (int r = 0; r < 3; ++r)
            threads.emplace_back([&, r] {
                thread_communicator comm = world.communicator(r);
                int x = r + 1;
                allfold::all_reduce(comm, x, allfold::sum());
                sum += x;
            });
        for (auto& each : threads) each.join();
        CHECK(sum == 18);
        CHECK(world.broken_by() == -1);
    }
}

TEST_CASE("a communicator that an exception destroys takes the others down") {
    const watchdog watch("an exception in a thread of one's own");
    thread_world world(2);
    std::string text;
    std::thread other([&] {
        thread_communicator comm = world.communicator(0);
        try {
            allfold::barrier(comm);
        } catch (const allfold::error& e) {
            text = e.what();
        }
    });
    try {
        const thread_communicator comm = world.communicator(1);
        throw std::runtime_error("out");
    } catch (const std::runtime_error&) {
    }
    other.join();
    CHECK_THAT(text, Catch::Matchers::ContainsSubstring("rank 1 failed"));
    CHECK(world.broken_by() == 1);
}

TEST_CASE("with more ranks than processors nobody spins") {
    const int processors = allfold::detail::usable_processors();
    CHECK(thread_world(processors + 1).tuning().spins == 0);
    CHECK(thread_world(processors).tuning().spins == thread_tuning().spins);
}

TEST_CASE("lanes are numbered in the order in which they are opened, and peers can look up what for") {
    pair p;
    allfold::signature sum, scan;
    sum.what = "all_reduce";
    sum.elements = 5;
    sum.operator_type = "sum";
    scan.what = "inclusive_scan";
    scan.elements = 6;
    const lane first = p.a.open(sum, 3), second = p.a.open(scan, 1);
    CHECK(second == first + 3);
    for (lane on = first; on < second; ++on) {
        REQUIRE(p.b.announced(0, on));
        CHECK(p.b.announced(0, on)->hash() == sum.hash());
        CHECK(std::string(p.b.announced(0, on)->operator_type) == "sum");
    }
    CHECK(std::string(p.b.announced(0, second)->what) == "inclusive_scan");
    CHECK_FALSE(p.b.announced(0, second + 1));
    CHECK_FALSE(p.b.announced(1, first));
    for (int i = 0; i < 100; ++i) p.a.open(scan, 1);  // so that the signatures of the first lanes are forgotten
    CHECK_FALSE(p.b.announced(0, first));
    CHECK(p.b.announced_hash(0, first) == sum.hash());
    CHECK(p.b.announced_hash(0, second) == scan.hash());
    for (int i = 0; i < 1000; ++i) p.a.open(scan, 1);  // and their hashes
    CHECK(p.b.announced_hash(0, first) == 0);
}

TEST_CASE("lanes that have yet to be opened are not taken for old ones of the same number") {
    allfold::detail::announcements all;
    allfold::signature old, last;
    old.elements = 1;
    last.elements = 2;
    all.write(0, 1U << 30, old);  // since then, 2^32 lanes have been counted
    for (lane on = 1U << 31; on != 0; on += 1U << 29) all.write(on, 1U << 29, last);
    CHECK(all.find(lane{0} - 1)->elements == 2);
    CHECK_FALSE(all.find(5));
    CHECK(all.find_hash(5) == 0);
    all.write_again(0, last, 7);
    all.write_again(1, last, 7);
    CHECK(all.find(1)->elements == 2);
    CHECK_FALSE(all.find(2));
    for (lane i = 0; i < 20; ++i) all.write(allfold::detail::first_restart_lane + i, 1, old);
    CHECK(all.find_hash(1) == 7);
    CHECK(all.find_hash(2) == 0);
}

namespace {

/// Waits for a message from rank `peer`.
struct expectation {
    thread_communicator& comm;
    int peer;
    lane on;
    bool poll() { return next(comm, peer, on).has_value(); }
    allfold::waiting blocked_on() const { return {"broadcast", 0, 1, peer, on}; }
    void check() const {}
};

errc code_of_wait(thread_communicator& comm, int peer, std::optional<std::chrono::steady_clock::time_point> deadline) {
    expectation work{comm, peer, 0};
    try {
        comm.wait(work, deadline);
    } catch (const allfold::error& e) {
        return e.code();
    }
    FAIL("has not thrown");
    return {};
}

}  // namespace

TEST_CASE("a wait ends when the message comes, also from a thread that sleeps meanwhile") {
    for (const auto& tuning : {thread_tuning(), impatient}) {
        const watchdog watch("wait");
        pair p(tuning);
        std::thread sender([&] {
            for (unsigned i = 0; i < 300; ++i) {
                if (i % 50 == 0) std::this_thread::sleep_for(2ms);
                letter sent(pattern(8, i));
                while (!sent.post(p.a, 1, 0)) std::this_thread::yield();
            }
        });
        for (int i = 0; i < 300; ++i) {
            expectation work{p.b, 0, 0};
            p.b.wait(work, std::nullopt);
        }
        sender.join();
    }
    SUCCEED();
}

TEST_CASE("a wait ends at its deadline, at a failure, and when the peer leaves") {
    const watchdog watch("waits in vain");
    {
        pair p;
        CHECK(code_of_wait(p.a, 1, std::chrono::steady_clock::now() + 5ms) == errc::timeout);
        CHECK(code_of_wait(p.b, 0, std::nullopt) == errc::timeout);
    }
    {
        pair p;
        p.world.fail(1, errc::transport, "cut");
        p.world.fail(0, errc::transport, "too late");
        CHECK(code_of_wait(p.a, 1, std::nullopt) == errc::peer_failed);
        CHECK_THROWS_WITH(p.b.open({}, 1), Catch::Matchers::ContainsSubstring("rank 1 failed: cut"));
    }
    {
        thread_world world(2);
        thread_communicator a = world.communicator(0);
        std::optional<letter> sent(std::in_place, pattern(8, 1));
        {
            thread_communicator b = world.communicator(1);
            REQUIRE(sent->post(b, 0, 0));
        }
        expectation work{a, 1, 0};
        a.wait(work, std::nullopt);  // what was sent before still arrives
        CHECK(code_of_wait(a, 1, std::nullopt) == errc::peer_failed);
        letter large(pattern(50000, 1));
        CHECK_THROWS_AS(large.post(a, 1, 0), allfold::error);
    }
}

TEST_CASE("a rank that leaves without having read what was lent to it is a failure of the lender") {
    thread_world world(2);
    thread_communicator a = world.communicator(0);
    letter large(pattern(50000, 1));
    {
        thread_communicator b = world.communicator(1);
        REQUIRE(large.post(a, 1, 0));
    }
    CHECK(world.broken_by() == 1);
    CHECK(code_of_wait(a, 1, std::nullopt) == errc::peer_failed);
}

TEST_CASE("a rank that an exception makes leave without having read what was lent to it is not said to have returned") {
    thread_world world(2);
    thread_communicator a = world.communicator(0);
    letter large(pattern(50000, 1));
    try {
        const thread_communicator b = world.communicator(1);
        REQUIRE(large.post(a, 1, 0));
        throw std::runtime_error("boom");
    } catch (const std::runtime_error&) {
    }
    CHECK_THROWS_WITH(a.open({}, 1), Catch::Matchers::EndsWith("rank 1 failed: it exited with an exception"));
}

TEST_CASE("a rank that aborts waits until nobody reads the memory that it has lent") {
    pair p;
    letter large(pattern(50000, 1));
    REQUIRE(large.post(p.a, 1, 0));
    auto got = next(p.b, 0, 0);
    REQUIRE(got);
    std::atomic<bool> given_up = false;
    const watchdog watch("abandon");
    std::thread leaver([&] {
        p.a.abandon();
        given_up = true;
    });
    while (p.world.broken_by() < 0) std::this_thread::yield();
    CHECK_FALSE(given_up);
    CHECK(equals(*got, large));
    got.reset();
    leaver.join();
    CHECK(given_up);
}

TEST_CASE("more than 2^16 collectives in a row wrap all counters and lose nothing") {
    for (const int size : {2, 3})
        on_ranks(size, [](auto& comm) {
            for (int i = 0; i < 70000; ++i) {
                int x = i + comm.rank();
                allfold::all_reduce(comm, x, allfold::max());
                if (x != i + comm.size() - 1) throw wrong("wrong maximum in turn " + std::to_string(i));
            }
        });
    SUCCEED();
}

TEST_CASE("collectives in which only some ranks send wrap all counters and lose nothing") {
    for (const std::size_t n : {std::size_t{1}, std::size_t{300}})
        on_ranks(3, [&](auto& comm) {
            std::vector<int> pending(n, comm.rank()), x(n);
            for (int i = 0; i < 2000; ++i) {
                auto op = allfold::all_reduce.start(comm, pending, allfold::max());
                for (int k = 0; k < i % 9; ++k) {
                    std::ranges::fill(x, i + comm.rank());
                    allfold::broadcast(comm, x, allfold::root{i % 3});
                    expect(x[n - 1] == i + i % 3, "wrong broadcast");
                    std::ranges::fill(x, i);
                    allfold::reduce(comm, x, allfold::sum(), allfold::root{(i + 1) % 3});
                    expect(x[0] == (comm.rank() == (i + 1) % 3 ? 3 * i : i), "wrong reduce");
                }
                op.wait();
            }
        });
    SUCCEED();
}

TEST_CASE("many ranks meet pair by pair") {
    on_ranks(40, [](auto& comm) {
        int x = 1;
        allfold::all_reduce(comm, x, allfold::sum());
        expect(x == 40, "wrong sum");
        allfold::all_reduce(comm, x, allfold::sum(), allfold::recursive_doubling());
        expect(x == 1600, "wrong sum");
    });
    SUCCEED();
}

TEST_CASE("a second communicator of the same rank is refused, also after the first one has gone") {
    thread_world world(2);
    const auto is_refused = [&](int rank) {
        try {
            static_cast<void>(world.communicator(rank));
        } catch (const allfold::error& e) {
            INFO(e.what());
            CHECK_THAT(e.what(), Catch::Matchers::ContainsSubstring("rank " + std::to_string(rank) + " has"));
            return e.code() == errc::bad_argument;
        }
        return false;
    };
    {
        const thread_communicator first = world.communicator(1);
        CHECK(is_refused(1));
    }
    CHECK(is_refused(1));
    CHECK(world.broken_by() == -1);
    const thread_communicator other = world.communicator(0);
    CHECK(is_refused(0));
}
