// SPDX-License-Identifier: BSL-1.0
#include <algorithm>
#include <bit>
#include <vector>

#include "allfold/analysis/prove.hpp"
#include "allfold/collective.hpp"
#include "allfold/schedule/schedule_of.hpp"
#include "allfold/schedule/step.hpp"
#include "test/schedule/proofs.hpp"
#include "test/support/catch.hpp"

/// @file
/// What steps can express, tried on algorithms from the literature that the library lacks or implements differently.

using allfold::addressed;
using allfold::block_run;
using allfold::block_set;
using allfold::content;
using allfold::contract;
using allfold::fold;
using allfold::local_work;
using allfold::order;
using allfold::peers;
using allfold::proof;
using allfold::schedule_of;
using allfold::setting;
using allfold::slot;
using allfold::step;

namespace {

constexpr int modulo(int n, int size) { return (n % size + size) % size; }

/// The smallest number of digits in base `base` that can write every number below `size`.
constexpr int digits(int size, int base) {
    int n = 0;
    for (long long power = 1; power < size; power *= base) ++n;
    return n;
}
constexpr int power(int base, int exponent) {
    int n = 1;
    for (int i = 0; i < exponent; ++i) n *= base;
    return n;
}

// Trees of intervals, for any root. If v (the rank counted from the root) ends in some zeros in base k, rank v stands
// for the interval of ranks from v on that share its other digits.

struct k_nomial {
    int k = 2;

    template <class Algorithm>
    class tree : public schedule_of<Algorithm> {
      public:
        static constexpr order keeps = order::tree;
        static constexpr int scratch_slots = 1;

        constexpr tree(const setting& where, const Algorithm& a) : schedule_of<Algorithm>(where), k_(a.k) {}
        [[nodiscard]] constexpr int blocks() const { return this->size(); }
        [[nodiscard]] constexpr int rounds() const { return digits(this->size(), k_); }

      protected:
        [[nodiscard]] constexpr int v() const { return modulo(this->rank() - this->root(), this->size()); }
        [[nodiscard]] constexpr int rank_of(int n) const { return modulo(n + this->root(), this->size()); }
        [[nodiscard]] constexpr int unit(int level) const { return power(k_, level); }
        /// The parent on this level, or -1 if the rank has none there.
        [[nodiscard]] constexpr int parent(int level) const {
            const int digit = v() / unit(level) % k_;
            return v() % unit(level) == 0 && digit != 0 ? rank_of(v() - digit * unit(level)) : -1;
        }
        [[nodiscard]] constexpr peers children(int level) const {
            if (v() % unit(level + 1) != 0) return {};
            const int left = (this->size() - 1 - v()) / unit(level), count = std::min(left, k_ - 1);
            return count > 0 ? peers::strided(rank_of(v() + unit(level)), count, unit(level), this->size()) : peers();
        }
        /// The blocks of all ranks that a child on this level stands for; `others_of` leaves out the first, its own.
        [[nodiscard]] constexpr block_set interval_of(int rank, int level) const {
            return block_set::wrapping(rank, interval_size(rank, level), this->size());
        }
        [[nodiscard]] constexpr block_set others_of(int rank, int level) const {
            return block_set::wrapping(modulo(rank + 1, this->size()), interval_size(rank, level) - 1, this->size());
        }
        [[nodiscard]] constexpr slot mine() const { return this->is_root() ? slot::result : slot::scratch_a; }

      private:
        [[nodiscard]] constexpr int interval_size(int rank, int level) const {
            return std::min(unit(level), this->size() - modulo(rank - this->root(), this->size()));
        }
        int k_;
    };

    class gather : public tree<k_nomial> {
      public:
        using tree::tree;
        [[nodiscard]] constexpr step operator[](int round) const {
            step s;
            if (is_root() && round == 0) s.local = allfold::keep_input(block_set::one(rank()));
            if (const int to = parent(round); to >= 0) {
                s.to = peers::one(to);
                s.send = block_set::one(rank());
                s.has_more = true;
                return s;
            }
            s.from = children(round);
            s.received = addressed::per_peer;
            s.into = mine();
            return s;
        }
        [[nodiscard]] constexpr step also(int round) const {
            return {.send = others_of(rank(), round), .source = slot::scratch_a};
        }
        [[nodiscard]] constexpr block_set received_from(int round, int peer) const { return interval_of(peer, round); }
    };

    class scatter : public tree<k_nomial> {
      public:
        using tree::tree;
        [[nodiscard]] constexpr step operator[](int round) const {
            const int level = rounds() - 1 - round;
            step s;
            if (is_root() && round == 0) s.local = allfold::keep_input(block_set::one(rank()));
            if (const int from = parent(level); from >= 0) {
                s.from = peers::one(from);
                s.receive = block_set::one(rank());
                s.has_more = true;
                return s;
            }
            s.to = children(level);
            s.sent = addressed::per_peer;
            s.source = is_root() ? slot::input : slot::scratch_a;
            return s;
        }
        [[nodiscard]] constexpr step also(int round) const {
            return {.receive = others_of(rank(), rounds() - 1 - round), .into = slot::scratch_a};
        }
        [[nodiscard]] constexpr block_set sent_to(int round, int peer) const {
            return interval_of(peer, rounds() - 1 - round);
        }
    };
};

// All-to-all: every rank has a block for every rank.

struct pairwise {
    class all_to_all : public schedule_of<pairwise> {
      public:
        static constexpr order keeps = order::tree;
        static constexpr bool in_place = false;
        using schedule_of::schedule_of;
        [[nodiscard]] constexpr int blocks() const { return size(); }
        [[nodiscard]] constexpr int rounds() const { return size() - 1; }
        [[nodiscard]] constexpr step operator[](int round) const {
            const int to = modulo(rank() + round + 1, size()), from = modulo(rank() - round - 1, size());
            return {.local = round == 0 ? allfold::keep_input(block_set::one(rank())) : local_work{},
                    .to = peers::one(to),
                    .send = block_set::one(to),
                    .from = peers::one(from),
                    .receive = block_set::one(from)};
        }
    };
};

struct linear {
    class all_to_all : public schedule_of<linear> {
      public:
        static constexpr order keeps = order::tree;
        static constexpr bool in_place = false;
        using schedule_of::schedule_of;
        [[nodiscard]] constexpr int blocks() const { return size(); }
        [[nodiscard]] constexpr int rounds() const { return std::min(size() - 1, 1); }
        [[nodiscard]] constexpr step operator[](int) const {
            return {.local = allfold::keep_input(block_set::one(rank())),
                    .to = peers::everyone(),
                    .sent = addressed::per_peer,
                    .from = peers::everyone(),
                    .received = addressed::per_peer};
        }
    };
};

/// Scratch block j holds a block that travels j ranks up in all: in round i it moves on by 2^i ranks if j has that bit.
struct bruck {
    class all_to_all : public schedule_of<bruck> {
      public:
        static constexpr order keeps = order::tree;
        static constexpr int scratch_slots = 2;
        static constexpr bool in_place = false;
        static constexpr bool equal_blocks = true;
        using schedule_of::schedule_of;
        [[nodiscard]] constexpr int blocks() const { return size(); }
        [[nodiscard]] constexpr int rounds() const { return size() > 1 ? digits(size(), 2) + 2 : 0; }
        [[nodiscard]] constexpr step operator[](int round) const {
            if (round == 0)
                return rename(slot::input, block_set::wrapping(rank(), size(), size()), slot::scratch_a,
                              block_set::all(size()));
            if (round + 1 == rounds())
                return rename(slot::scratch_a, block_set::all(size()), slot::result,
                              block_set::downwards(rank(), size(), size()));
            const int distance = 1 << (round - 1);
            const block_set moved = with_bit(distance);
            return {.local = {local_work::kind::copy_to_send, slot::scratch_a, {}, slot::scratch_b, moved, {}},
                    .to = peers::one(modulo(rank() + distance, size())),
                    .send = moved,
                    .source = slot::scratch_b,
                    .from = peers::one(modulo(rank() - distance, size())),
                    .receive = moved,
                    .into = slot::scratch_a};
        }

      private:
        [[nodiscard]] static constexpr step rename(slot from, const block_set& blocks, slot into,
                                                   const block_set& targets) {
            return {.local = {local_work::kind::copy, from, {}, into, blocks, targets}};
        }
        [[nodiscard]] constexpr block_set with_bit(int bit) const {
            const int groups = size() / (2 * bit), rest = std::max(0, size() - groups * 2 * bit - bit);
            return {block_run{bit, groups, 2 * bit, bit}, block_run{groups * 2 * bit + bit, rest, 1, 1}};
        }
    };
};

/// Every operand moves up by `By` ranks.
template <int By>
struct rotate_fn {
    static constexpr contract promise{
        .name = "rotate",
        .input = [](const setting& s, int b) { return content::of(s.rank, b); },
        .result = [](const setting& s, int b) { return content::of(modulo(s.rank - By, s.size), b); }};
    template <class A>
    using schedule_in = typename A::permute;
};
template <int By>
constexpr rotate_fn<By> rotate{};

struct rotation {
    int by;

    class permute : public schedule_of<rotation> {
      public:
        static constexpr order keeps = order::tree;
        static constexpr bool in_place = false;
        constexpr permute(const setting& where, const rotation& a) : schedule_of(where), by_(a.by) {}
        [[nodiscard]] constexpr int blocks() const { return 1; }
        [[nodiscard]] constexpr int rounds() const { return std::min(size() - 1, 1); }
        [[nodiscard]] constexpr step operator[](int) const {
            const block_set whole = block_set::one(0);
            if (modulo(by_, size()) == 0) return {.local = allfold::keep_input(whole)};
            return {.to = peers::one(modulo(rank() + by_, size())),
                    .send = whole,
                    .from = peers::one(modulo(rank() - by_, size())),
                    .receive = whole};
        }

      private:
        int by_;
    };
};

/// Algorithms that exchange several messages at once.
struct k_ported {
    int ports = 2;

    class dissemination : public schedule_of<k_ported> {
      public:
        static constexpr order keeps = order::tree;
        constexpr dissemination(const setting& where, const k_ported& a) : schedule_of(where), ports_(a.ports) {}
        [[nodiscard]] constexpr int rounds() const { return digits(size(), ports_ + 1); }

      protected:
        [[nodiscard]] constexpr int unit(int round) const { return power(ports_ + 1, round); }
        [[nodiscard]] constexpr int count(int round) const { return std::min(ports_, (size() - 1) / unit(round)); }
        [[nodiscard]] constexpr peers above(int round) const {
            return peers::strided(modulo(rank() + unit(round), size()), count(round), unit(round), size());
        }
        [[nodiscard]] constexpr peers below(int round) const {
            return peers::strided(modulo(rank() - count(round) * unit(round), size()), count(round), unit(round),
                                  size());
        }

      private:
        int ports_;
    };

    class barrier : public dissemination {
      public:
        using dissemination::dissemination;
        [[nodiscard]] constexpr int blocks() const { return 0; }
        [[nodiscard]] constexpr step operator[](int round) const { return {.to = above(round), .from = below(round)}; }
    };

    /// Bruck's all_gather without the rotation: before round i a rank holds `unit(i)` blocks, starting with its own.
    class all_gather : public dissemination {
      public:
        using dissemination::dissemination;
        [[nodiscard]] constexpr int blocks() const { return size(); }
        [[nodiscard]] constexpr step operator[](int round) const {
            return {.local = round == 0 ? allfold::keep_input(block_set::one(rank())) : local_work{},
                    .to = below(round),
                    .sent = addressed::per_peer,
                    .source = slot::result,
                    .from = above(round),
                    .received = addressed::per_peer};
        }
        [[nodiscard]] constexpr block_set sent_to(int round, int peer) const { return from_on(rank(), peer, round); }
        [[nodiscard]] constexpr block_set received_from(int round, int peer) const {
            return from_on(peer, rank(), round);
        }

      private:
        /// The sender's blocks that the receiver does not have yet.
        [[nodiscard]] constexpr block_set from_on(int sender, int receiver, int round) const {
            const int distance = modulo(sender - receiver, size());
            return block_set::wrapping(sender, std::min(unit(round), size() - distance), size());
        }
    };
};

/// Broadcasts n blocks in n - 1 + ⌈log2 P⌉ rounds.
struct circulant_broadcast {
    int segments = 1;

    class broadcast : public schedule_of<circulant_broadcast> {
      public:
        static constexpr order keeps = order::tree;
        constexpr broadcast(const setting& where, const circulant_broadcast& a) : schedule_of(where), n_(a.segments) {}
        [[nodiscard]] constexpr int blocks() const { return n_; }
        [[nodiscard]] constexpr int rounds() const { return size() > 1 ? n_ - 1 + q() : 0; }
        [[nodiscard]] constexpr step operator[](int round) const {
            const int x = (q() - (n_ - 1) % q()) % q(), i = round + x, k = i % q(), phase = q() * (i / q()) - x;
            const int v = modulo(rank() - root(), size()), to = modulo(v + skip(k), size());
            step s{.local = round == 0 && v == 0 ? allfold::keep_input(block_set::all(n_)) : local_work{},
                   .source = v == 0 ? slot::input : slot::result};
            if (const int block = received_at(to, k) + phase; to != 0 && block >= 0) {
                s.to = peers::one(modulo(to + root(), size()));
                s.send = block_set::one(std::min(block, n_ - 1));
            }
            if (const int block = received_at(v, k) + phase; v != 0 && block >= 0) {
                s.from = peers::one(modulo(rank() - skip(k), size()));
                s.receive = block_set::one(std::min(block, n_ - 1));
            }
            return s;
        }

      private:
        [[nodiscard]] constexpr int q() const { return digits(size(), 2); }
        /// P halved q - k times, rounding up each time.
        [[nodiscard]] constexpr int skip(int k) const { return ((size() - 1) >> (q() - k)) + 1; }
        /// The smallest skip in the greedy decomposition of v.
        [[nodiscard]] constexpr int base_block(int v) const {
            int last = q(), left = v;
            for (int k = q() - 1; k >= 0 && left > 0; --k)
                if (skip(k) <= left) {
                    left -= skip(k);
                    last = k;
                }
            return last;
        }
        /// Entry k of the receive schedule of v: base_block(v) appears in it once, the others are blocks of the phase
        /// before.
        [[nodiscard]] constexpr int received_at(int v, int k) const {
            unsigned used = 1U << base_block(v);
            int entry = 0;
            for (int j = 0; j <= k; ++j) {
                entry = largest_unused(v, j, used);
                used |= 1U << entry;
            }
            return entry == q() ? base_block(v) : entry - q();
        }
        [[nodiscard]] constexpr int largest_unused(int v, int k, unsigned used) const {
            int largest = -1;
            for (int u = v - skip(k + 1) + 1; u <= v - skip(k); ++u)
                if (const int b = base_block(modulo(u, size())); (used >> b & 1U) == 0) largest = std::max(largest, b);
            return largest >= 0 ? largest : base_block(modulo(v - skip(k + 1), size()));
        }
        int n_;
    };
};

/// A chain of all ranks, starting at the root. The schedule chooses the number of segments.
struct chain {
    int segments = 1;

    class broadcast : public schedule_of<chain> {
      public:
        static constexpr order keeps = order::tree;
        constexpr broadcast(const setting& where, const chain& a) : schedule_of(where), n_(a.segments) {}
        [[nodiscard]] constexpr int blocks() const { return n_; }
        [[nodiscard]] constexpr int rounds() const { return size() > 1 ? n_ + size() - 2 : 0; }
        [[nodiscard]] constexpr step operator[](int round) const {
            const int v = modulo(rank() - root(), size()), sends = round - v, receives = round - v + 1;
            step s{.local = round == 0 && v == 0 ? allfold::keep_input(block_set::all(n_)) : local_work{},
                   .source = v == 0 ? slot::input : slot::result};
            if (v + 1 < size() && sends >= 0 && sends < n_) {
                s.to = peers::one(modulo(rank() + 1, size()));
                s.send = block_set::one(sends);
            }
            if (v > 0 && receives >= 0 && receives < n_) {
                s.from = peers::one(modulo(rank() - 1, size()));
                s.receive = block_set::one(receives);
            }
            return s;
        }

      private:
        int n_;
    };
};

/// Two binary trees below the root, mirror images of each other. One carries the even segments, the other the odd ones,
/// in alternating rounds.
struct double_tree {
    int segments = 2;

    class broadcast : public schedule_of<double_tree> {
      public:
        static constexpr order keeps = order::tree;
        constexpr broadcast(const setting& where, const double_tree& a) : schedule_of(where), n_(a.segments) {}
        [[nodiscard]] constexpr int blocks() const { return n_; }
        [[nodiscard]] constexpr int rounds() const {
            return size() > 1 ? 2 * ((n_ + 1) / 2 + digits(size(), 2) - 1) : 0;
        }
        [[nodiscard]] constexpr step operator[](int round) const {
            const int tree = round % 2, turn = round / 2, v = modulo(rank() - root(), size());
            const int node = v == 0 ? -1 : tree == 0 ? v - 1 : size() - 1 - v, level = v == 0 ? 0 : level_of(node) + 1;
            step s{.local = round == 0 && v == 0 ? allfold::keep_input(block_set::all(n_)) : local_work{},
                   .source = v == 0 ? slot::input : slot::result};
            if (const int segment = 2 * (turn - level) + tree; turn >= level && segment < n_) {
                s.to = children(node, tree);
                s.send = block_set::one(segment);
            }
            if (const int segment = 2 * (turn - level + 1) + tree; v > 0 && turn >= level - 1 && segment < n_) {
                s.from = peers::one(level == 1 ? root() : rank_of((node - 1) / 2, tree));
                s.receive = block_set::one(segment);
            }
            return s;
        }

      private:
        /// Nodes are numbered level by level; the root is the parent of node 0.
        [[nodiscard]] static constexpr int level_of(int node) {
            return static_cast<int>(std::bit_width(static_cast<unsigned>(node) + 1)) - 1;
        }
        [[nodiscard]] constexpr int rank_of(int node, int tree) const {
            return modulo((tree == 0 ? node + 1 : size() - 1 - node) + root(), size());
        }
        [[nodiscard]] constexpr peers children(int node, int tree) const {
            const int first = 2 * node + 1, count = node < 0 ? 1 : std::min(2, size() - 1 - first);
            if (node < 0) return peers::one(rank_of(0, tree));
            if (count <= 0) return {};
            return peers::strided(rank_of(tree == 0 ? first : first + count - 1, tree), count, 1, size());
        }
        int n_;
    };
};

static_assert(test::proved_up_to<allfold::gather, k_nomial{2}, 16>);
static_assert(test::proved_up_to<allfold::scatter, k_nomial{3}, 16>);
static_assert(test::proved_up_to<allfold::barrier, k_ported{2}, 16>);
static_assert(test::proved_up_to<allfold::all_gather, k_ported{3}, 20>);
static_assert(test::proved_up_to<allfold::all_to_all, bruck{}, 16>);
static_assert(test::proved_up_to<rotate<3>, rotation{3}, 16>);
static_assert(test::proved_up_to<allfold::broadcast, chain{4}, 16>);
static_assert(test::proved_up_to<allfold::broadcast, double_tree{5}, 16>);
static_assert(test::proved_up_to<allfold::broadcast, circulant_broadcast{3}, 8>);

/// Proves the schedule for every P up to `most`, with three roots if it has a root, and calls check(proof) for each.
template <class Collective, class Algorithm, class Check>
void prove_for(const Collective& what, const Algorithm& algorithm, int most, Check check) {
    for (int size = 1; size <= most; ++size)
        for (const int root : {0, size / 3, size - 1}) {
            const proof p = allfold::prove(what, algorithm, size, root);
            INFO(allfold::explain(p) << ", root " << root);
            REQUIRE(p.ok());
            check(p);
            if (!Collective::promise.rooted) break;
        }
}

}  // namespace

TEST_CASE("k-nomial trees gather and scatter intervals that go round the end") {
    for (const int k : {2, 3, 4, 7}) {
        const auto check = [k](const proof& p) {
            CHECK(p.rounds == digits(p.size, k));
            CHECK(p.messages == p.size - 1);
        };
        prove_for(allfold::gather, k_nomial{k}, 70, check);
        prove_for(allfold::scatter, k_nomial{k}, 70, [&](const proof& p) {
            check(p);
            CHECK(p.busiest_blocks_sent == p.size - 1);
        });
    }
}

TEST_CASE("everyone sends a block to everyone: in pairs, at once, and in a logarithmic number of rounds") {
    prove_for(allfold::all_to_all, pairwise{}, 70, [](const proof& p) { CHECK(p.busiest_blocks_sent == p.size - 1); });
    prove_for(allfold::all_to_all, linear{}, 70, [](const proof& p) { CHECK(p.rounds == std::min(p.size - 1, 1)); });
    prove_for(allfold::all_to_all, bruck{}, 70, [](const proof& p) {
        CHECK(p.messages == p.size * digits(p.size, 2));
        CHECK(p.busiest_blocks_sent <= (p.size + 1) / 2 * digits(p.size, 2));
    });
}

TEST_CASE("operands go round by a number that the algorithm is given") {
    prove_for(rotate<5>, rotation{5}, 40, [](const proof& p) { CHECK(p.rounds == std::min(p.size - 1, 1)); });
    prove_for(rotate<-1>, rotation{-1}, 40, [](const proof& p) { CHECK(p.blocks == 1); });
    CHECK(allfold::prove(rotate<2>, rotation{3}, 5).what == allfold::fault::wrong_result);
}

TEST_CASE("several messages at once save rounds") {
    for (const int ports : {1, 2, 3, 5}) {
        const auto check = [ports](const proof& p) { CHECK(p.rounds == digits(p.size, ports + 1)); };
        prove_for(allfold::barrier, k_ported{ports}, 100, check);
        prove_for(allfold::all_gather, k_ported{ports}, 70, [&](const proof& p) {
            check(p);
            CHECK(p.busiest_blocks_sent == p.size - 1);
        });
    }
}

TEST_CASE("n blocks are broadcast over a circulant graph in n - 1 more rounds than one") {
    for (const int n : {1, 2, 3, 5, 8, 13})
        prove_for(allfold::broadcast, circulant_broadcast{n}, 70,
                  [n](const proof& p) { CHECK(p.rounds == (p.size > 1 ? n - 1 + digits(p.size, 2) : 0)); });
}

TEST_CASE("a broadcast is cut into as many segments as its schedule likes") {
    for (const int n : {1, 2, 7}) {
        prove_for(allfold::broadcast, chain{n}, 70, [n](const proof& p) {
            CHECK(p.blocks == n);
            CHECK(p.busiest_blocks_sent == (p.size > 1 ? n : 0));
        });
        prove_for(allfold::broadcast, double_tree{n}, 70, [n](const proof& p) { CHECK(p.blocks == n); });
    }
}
