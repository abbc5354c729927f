// SPDX-License-Identifier: BSL-1.0
#include "allfold/transport/detail/flow_control.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <type_traits>
#include <unordered_set>
#include <utility>
#include <vector>

#include "test/support/catch.hpp"

using allfold::lane;
using allfold::detail::is_later;
using allfold::detail::sender;

namespace {

// A model of ranks with operations in flight: all orders in which they may act are explored, under the rule of the
// transport or a variant of it. A state in which no rank can act although not all are done is a deadlock.

constexpr std::uint32_t cells = 1, buffers = 1, max_kept = 1;
constexpr std::size_t max_ranks = 3, lanes = 3, max_rounds = 3;
using book = allfold::detail::posted_messages<cells, buffers>;

/// What one rank does in one round, as masks of peers. It keeps what it receives until everything has arrived.
struct round_of_rank {
    unsigned to = 0, from = 0;
};
using algorithm = std::array<std::array<round_of_rank, max_rounds>, max_ranks>;

/// Every rank sends its operand to all others.
algorithm all_to_all(std::size_t ranks) {
    algorithm a{};
    for (std::size_t r = 0; r < ranks; ++r) {
        const unsigned others = ((1u << ranks) - 1) & ~(1u << r);
        a[r][0] = {others, others};
    }
    return a;
}
/// Every rank sends to the next one, twice.
algorithm ring(std::size_t ranks) {
    algorithm a{};
    for (std::size_t r = 0; r < ranks; ++r)
        for (std::size_t i = 0; i < 2; ++i) a[r][i] = {1u << (r + 1) % ranks, 1u << (r + ranks - 1) % ranks};
    return a;
}
/// From `root` to the next rank, and so on until it is back at `root`.
algorithm circle(std::size_t ranks, std::size_t root) {
    algorithm a{};
    for (std::size_t i = 0; i < ranks; ++i) {
        const std::size_t r = (root + i) % ranks, next = (r + 1) % ranks;
        a[r][i].to = 1u << next;
        a[next][i].from = 1u << r;
    }
    return a;
}

struct program {
    std::size_t ranks;
    std::array<algorithm, lanes> calls;
    bool in_buffers;        // messages are too long for a cell
    bool prepared = false;  // calls alternately start two prepared operations
    /// waits[r][l]: the lanes that rank r waits for before it starts lane l, as a mask.
    std::array<std::array<unsigned, lanes>, max_ranks> waits{};
};

enum class place : std::uint16_t { nowhere, cell, buffer, own_memory };

struct message {
    lane on = 0;
    place where = place::nowhere;
    std::uint16_t buffer = 0;
};

constexpr std::size_t most_early = 6;

struct channel {
    book sender;
    std::array<message, cells> cell{};
    std::uint32_t taken = 0;
    std::uint32_t freed = 0;
    std::uint32_t urgent = 0;
    std::uint32_t early_count = 0;
    std::array<message, most_early> early{};
};

struct call_in_flight {
    std::uint16_t started = 0, round = 0, posted = 0, received = 0;
    std::array<message, max_ranks> kept{};
};

/// Compared by a hash of the bytes of its parts.
struct state {
    std::array<std::array<channel, max_ranks>, max_ranks> from_to{};
    std::array<std::array<call_in_flight, lanes>, max_ranks> calls{};
    std::array<std::uint32_t, max_ranks> is_called{};
};
static_assert(std::has_unique_object_representations_v<message> &&
              std::has_unique_object_representations_v<call_in_flight>);

/// The rule of the transport, complete or with a part missing.
struct rule {
    bool own_memory = true;       // for a message that finds no buffer because of a later lane
    bool knows_unordered = true;  // that the lane of a prepared operation does not tell when it was started
    bool takes_in_urgent = true;  // everything ahead of an urgent message
    bool copies_early = false;    // a former rule: early messages are unbounded, and none overtakes
    lane first_lane = 0;
};

class model {
  public:
    model(const program& what, const rule& how) : program_(what), rule_(how) {}

    struct report {
        bool deadlocks = false;
        bool ends = false;
        std::size_t states = 0;
    };

    report explore() {
        open_.push_back(state{});
        while (!open_.empty() && !report_.deadlocks) {
            const state now = open_.back();
            open_.pop_back();
            expand(now);
        }
        report_.states = seen_.size();
        return report_;
    }

  private:
    /// A hash of everything that affects what may follow, but not of how the state came about. Its 64 bits tell states
    /// apart: among a million, a collision is improbable, and would hide one branch.
    [[nodiscard]] std::uint64_t hash_of(const state& s) const {
        std::uint64_t h = 0;
        const auto add = [&](const auto& part) {
            std::array<std::uint32_t, sizeof part / 4> words;
            std::memcpy(words.data(), &part, sizeof part);
            for (const std::uint32_t w : words) h = (h ^ w ^ h >> 29) * 0x9e3779b97f4a7c15u;
        };
        for (std::size_t r = 0; r < program_.ranks; ++r) {
            add(s.calls[r]);
            for (std::size_t p = 0; p < program_.ranks; ++p) add_channel(s.from_to[r][p], add);
        }
        add(s.is_called);
        return h ^ h >> 32;
    }
    static void add_channel(const channel& c, auto& add) {
        add(c.sender.sent() - c.taken);
        for (std::uint32_t n = c.taken; n != c.sender.sent(); ++n) add(c.cell[n % cells]);
        add(c.early_count);
        for (std::uint32_t i = 0; i < c.early_count; ++i) add(c.early[i]);
        const std::uint32_t urgent = c.urgent - c.taken - 1;  // as takes_early computes it
        add(urgent <= cells ? urgent : ~0u);
    }

    void expand(const state& now) {
        const std::uint64_t before = hash_of(now);
        bool moved = false;
        const auto attempt = [&](auto move) {
            state next = now;
            move(next);
            const std::uint64_t after = hash_of(next);
            if (after == before) return;  // a sender that has only learned something has not moved
            moved = true;
            if (seen_.insert(after).second) open_.push_back(next);
        };
        for (std::size_t r = 0; r < program_.ranks; ++r) {
            attempt([&](state& s) { start_next(s, r); });
            if (waits(now, r)) attempt([&](state& s) { answer(s, r); });
            for (std::size_t l = 0; l < lanes; ++l) attempt([&](state& s) { poll(s, r, l); });
        }
        if (moved) return;
        (all_done(now) ? report_.ends : report_.deadlocks) = true;
    }

    [[nodiscard]] bool is_done(const call_in_flight& c) const { return c.started && c.round == max_rounds; }
    [[nodiscard]] bool all_done(const state& s) const {
        for (std::size_t r = 0; r < program_.ranks; ++r)
            for (const auto& c : s.calls[r])
                if (!is_done(c)) return false;
        return true;
    }
    /// Whether the rank has something in flight, so that it looks at its channels.
    [[nodiscard]] bool waits(const state& s, std::size_t r) const {
        for (const auto& c : s.calls[r])
            if (c.started && !is_done(c)) return true;
        return false;
    }

    void start_next(state& s, std::size_t r) {
        for (std::size_t l = 0; l < lanes; ++l) {
            auto& c = s.calls[r][l];
            if (c.started) continue;
            for (std::size_t earlier = 0; earlier < l; ++earlier)
                if ((program_.waits[r][l] >> earlier & 1u) != 0 && !is_done(s.calls[r][earlier])) return;
            c.started = 1;
            return;
        }
    }

    /// Advances as far as possible: what others do in between could only let it get further.
    void poll(state& s, std::size_t r, std::size_t l) {
        while (advance(s, r, l)) {
        }
    }
    /// Makes one post or one receive, or ends a round.
    bool advance(state& s, std::size_t r, std::size_t l) {
        auto& c = s.calls[r][l];
        if (!c.started || is_done(c)) return false;
        const round_of_rank& round = program_.calls[l][r][c.round];
        const lane on = rule_.first_lane + static_cast<lane>(program_.prepared ? l % 2 : l);
        for (std::size_t p = 0; p < program_.ranks; ++p)
            if ((round.to & ~c.posted) >> p & 1u) {
                if (!post(s, r, p, on)) return false;
                c.posted = static_cast<std::uint16_t>(c.posted | 1u << p);
                return true;
            }
        for (std::size_t p = 0; p < program_.ranks; ++p)
            if ((round.from & ~c.received) >> p & 1u) {
                if (!receive(s, p, r, on, c.kept[p])) return false;
                c.received = static_cast<std::uint16_t>(c.received | 1u << p);
                return true;
            }
        for (std::size_t p = 0; p < program_.ranks; ++p) release(s.from_to[p][r], c.kept[p]);
        c.posted = c.received = 0;
        ++c.round;
        return true;
    }

    bool post(state& s, std::size_t from, std::size_t to, lane on) {
        channel& c = s.from_to[from][to];
        c.sender.update(c.taken, static_cast<std::uint8_t>(c.freed));
        const sender of{on, program_.prepared && rule_.knows_unordered};
        const bool overtakes = !rule_.copies_early && c.sender.overtakes(of);
        if (!c.sender.has_cell()) {
            if (!overtakes || !rule_.takes_in_urgent || c.urgent == c.sender.sent() + 1) return false;
            c.urgent = c.sender.sent() + 1;
            s.is_called[to] = 1;
            return false;
        }
        message m{on, place::cell, 0};
        if (program_.in_buffers) {
            if (c.sender.has_buffer()) {
                m = {on, place::buffer, static_cast<std::uint16_t>(c.sender.free_buffer())};
                c.sender.fill_buffer(m.buffer, of);
            } else if (overtakes && rule_.own_memory) {
                m.where = place::own_memory;
            } else {
                return false;
            }
        }
        c.cell[c.sender.sent() % cells] = m;
        const std::uint32_t number = c.sender.post(of);
        if (overtakes && rule_.takes_in_urgent) c.urgent = number;
        return true;
    }

    [[nodiscard]] bool takes_early(const channel& c) const {
        if (rule_.copies_early) return true;
        return allfold::detail::takes_early<cells>(c.early_count, max_kept, c.taken + 1, c.urgent);
    }
    void take_early(channel& c) {
        if (c.early_count == most_early) throw std::length_error("more has come early than this model can keep");
        message& m = c.early[c.early_count++] = take(c);
        if (rule_.copies_early) {
            release(c, message(m));
            m.where = place::own_memory;
        }
    }
    static message take(channel& c) { return std::exchange(c.cell[c.taken++ % cells], message{}); }

    bool receive(state& s, std::size_t from, std::size_t to, lane on, message& into) {
        channel& c = s.from_to[from][to];
        for (std::uint32_t i = 0; i < c.early_count; ++i)
            if (c.early[i].on == on) {
                into = c.early[i];
                for (--c.early_count; i < c.early_count; ++i) c.early[i] = c.early[i + 1];
                c.early[c.early_count] = {};
                return true;
            }
        while (c.taken != c.sender.sent()) {
            if (c.cell[c.taken % cells].on == on) {
                into = take(c);
                return true;
            }
            if (!takes_early(c)) return false;
            take_early(c);
        }
        return false;
    }

    static void release(channel& c, message& kept) {
        if (kept.where == place::buffer) c.freed ^= 1u << kept.buffer;
        kept = {};
    }
    static void release(channel& c, message&& kept) { release(c, kept); }

    /// What a rank does whenever it looks at its channels at all.
    void answer(state& s, std::size_t r) {
        if (!rule_.copies_early && !s.is_called[r]) return;
        s.is_called[r] = 0;
        for (std::size_t p = 0; p < program_.ranks; ++p) {
            channel& c = s.from_to[p][r];
            while (c.taken != c.sender.sent() &&
                   (rule_.copies_early || allfold::detail::takes_early<cells>(0, 0, c.taken + 1, c.urgent)))
                take_early(c);
        }
    }

    const program& program_;
    const rule rule_;
    std::unordered_set<std::uint64_t> seen_;
    std::vector<state> open_;
    report report_;
};

/// Programs of three calls on `ranks` ranks, in which the last rank waits before each start, or none does. For three
/// ranks, which have many more states, only those in which a message may wait for another rank's, and one rank waits.
std::vector<program> programs(std::size_t ranks) {
    const std::array all{all_to_all(ranks), ring(ranks), circle(ranks, 0), circle(ranks, ranks - 1)};
    std::vector<program> result;
    for (std::size_t i = 0; i < 64; ++i)
        for (const bool in_buffers : {false, true})
            for (const bool waits : {false, true}) {
                if (ranks == 2 ? i % 5 != 0 : !waits || (i != 3 && i != 7)) continue;
                program p{ranks, {all[i % 4], all[i / 4 % 4], all[i / 16]}, in_buffers};
                if (waits) p.waits[ranks - 1] = {0, 1, 3};
                result.push_back(p);
            }
    return result;
}

/// Programs in which the first of two prepared operations is started again: by the last rank when both are done, by the
/// others as soon as the first one is.
std::vector<program> programs_with_restarts(std::size_t ranks) {
    const std::array all{all_to_all(ranks), ring(ranks), circle(ranks, 0), circle(ranks, ranks - 1)};
    std::vector<program> result;
    for (std::size_t i = 0; i < 16; ++i)
        for (const bool in_buffers : {false, true}) {
            program p{ranks, {all[i % 4], all[i / 4], all[i % 4]}, in_buffers, true};
            for (std::size_t r = 0; r < ranks; ++r) p.waits[r] = {0, 0, r + 1 == ranks ? 3U : 1U};
            result.push_back(p);
        }
    return result;
}

/// How many of the programs may end, and how many may deadlock. All are explored, or all up to the first deadlock.
struct verdict {
    std::size_t programs = 0, ends = 0, deadlocks = 0, states = 0;
};
verdict explore_all(const std::vector<program>& programs, const rule& how, bool all_of_them) {
    verdict all;
    for (const program& each : programs) {
        if (all.deadlocks != 0 && !all_of_them) break;
        const auto found = model(each, how).explore();
        ++all.programs;
        all.ends += found.ends;
        all.deadlocks += found.deadlocks;
        all.states += found.states;
    }
    return all;
}
verdict explore_all(std::size_t ranks, const rule& how, bool all_of_them) {
    return explore_all(programs(ranks), how, all_of_them);
}

}  // namespace

TEST_CASE("with the rule of the transport no order of actions leads to a deadlock") {
    for (const std::size_t ranks : {2U, 3U}) {
        const verdict found = explore_all(ranks, {}, true);
        INFO(ranks << " ranks, " << found.programs << " programs, " << found.states << " states");
        CHECK(found.states > 1000 * found.programs);
        CHECK(found.deadlocks == 0);
        CHECK(found.ends == found.programs);
    }
}

TEST_CASE("lanes that wrap in between change nothing") {
    const verdict found = explore_all(2, {.first_lane = 0xffffffffU}, true);
    CHECK(found.deadlocks == 0);
    CHECK(found.states == explore_all(2, {}, true).states);
}

TEST_CASE("without any part of the rule some order of actions leads to a deadlock") {
    CHECK(explore_all(3, {.own_memory = false}, false).deadlocks == 1);
    CHECK(explore_all(3, {.takes_in_urgent = false}, false).deadlocks == 1);
    CHECK(explore_all(3, {.copies_early = true}, false).deadlocks == 1);
}

TEST_CASE("starts of prepared operations in different orders do not lead to a deadlock") {
    const std::vector<program> programs = programs_with_restarts(2);
    const verdict found = explore_all(programs, {}, true);
    CHECK(found.ends == programs.size());
    CHECK(found.deadlocks == 0);
    CHECK(explore_all(programs, {.knows_unordered = false}, false).deadlocks == 1);
}

TEST_CASE("which of two lanes is the later one is asked modulo 2^32") {
    STATIC_REQUIRE(is_later(1, 0));
    STATIC_REQUIRE_FALSE(is_later(0, 0));
    STATIC_REQUIRE_FALSE(is_later(0, 1));
    STATIC_REQUIRE(is_later(3, 0xfffffff0U));
    STATIC_REQUIRE_FALSE(is_later(0xfffffff0U, 3));
}

TEST_CASE("a message overtakes only what is still in the channel") {
    allfold::detail::posted_messages<4, 2> posted;
    CHECK_FALSE(posted.overtakes({7}));
    CHECK(posted.post({7}) == 1);
    CHECK(posted.overtakes({6}));
    CHECK_FALSE(posted.overtakes({7}));
    CHECK_FALSE(posted.overtakes({8}));
    posted.update(1, 0);
    CHECK_FALSE(posted.overtakes({6}));
    posted.fill_buffer(posted.free_buffer(), {9});
    CHECK(posted.post({9}) == 2);
    posted.update(2, 0);
    CHECK(posted.overtakes({8}));  // its buffer is still in use
    posted.update_from_last_byte(2, 1);
    CHECK_FALSE(posted.overtakes({8}));
}

TEST_CASE("what is unordered waits for its own lane only, and nothing else waits for it") {
    allfold::detail::posted_messages<4, 2> posted;
    posted.post({5});
    CHECK(posted.overtakes({6, true}));
    CHECK_FALSE(posted.overtakes({5, true}));
    posted.update(1, 0);
    CHECK_FALSE(posted.overtakes({6, true}));
    posted.post({6, true});
    CHECK(posted.overtakes({7}));
    CHECK(posted.overtakes({5}));
    posted.update(2, 0);
    CHECK_FALSE(posted.overtakes({7}));
}

TEST_CASE("a buffer that its peer may still read is filled again only where there is no other") {
    allfold::detail::posted_messages<8, 2> posted;
    posted.fill_buffer(posted.free_buffer(), {0});
    posted.update(0, 0b01);
    CHECK(posted.free_buffer() == 1);
    posted.fill_buffer(1, {0});
    posted.update(0, 0b11);
    CHECK(posted.free_buffer() == 0);
    posted.fill_buffer(0, {0});
    posted.update(0, 0b10);
    CHECK(posted.free_buffer() == 1);
    posted.update(0, 0b11);
    CHECK(posted.free_buffer() == 1);
    posted.fill_buffer(1, {0});
    CHECK_FALSE(posted.has_buffer());
    posted.update(0, 0b01);
    CHECK(posted.free_buffer() == 1);
}

TEST_CASE("buffers come back in any order") {
    allfold::detail::posted_messages<8, 3> posted;
    for (std::uint32_t b = 0; b < 3; ++b) {
        REQUIRE(posted.has_buffer());
        CHECK(posted.free_buffer() == b);
        posted.fill_buffer(b, {0});
        posted.post({0});
    }
    CHECK_FALSE(posted.has_buffer());
    posted.update(3, 0b010);
    CHECK(posted.free_buffer() == 1);
    posted.fill_buffer(1, {0});
    posted.update(3, 0b111);
    CHECK(posted.free_buffer() == 0);
    posted.update(3, 0b101);
    CHECK(posted.free_buffer() == 0);
}

TEST_CASE("an urgent number that was passed long ago says nothing") {
    using allfold::detail::takes_early;
    CHECK(takes_early<8>(0, 1, 5, 0));
    CHECK_FALSE(takes_early<8>(1, 1, 5, 0));
    CHECK(takes_early<8>(1, 1, 5, 5));
    CHECK(takes_early<8>(1, 1, 5, 13));
    CHECK_FALSE(takes_early<8>(1, 1, 5, 4));
    CHECK_FALSE(takes_early<8>(1, 1, 0x80000005U, 0));
}
