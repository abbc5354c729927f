// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <algorithm>

#include "allfold/schedule/binomial.hpp"
#include "allfold/schedule/compose.hpp"
#include "allfold/schedule/detail/doubling.hpp"
#include "allfold/schedule/detail/groups.hpp"
#include "allfold/schedule/direct.hpp"
#include "allfold/schedule/dissemination.hpp"
#include "allfold/schedule/recursive_doubling.hpp"
#include "allfold/schedule/recursive_halving.hpp"
#include "allfold/schedule/schedule_of.hpp"
#include "allfold/schedule/step.hpp"

/// @file
/// Two levels: each group of ranks folds its operands in shared memory, then the leaders of the groups run a schedule
/// among themselves and pass the outcome on to their groups. The leader is the first rank of its group. No other rank
/// communicates with another group, so a single thread of each process makes all network calls.
///
///     P = 6, groups of 2, all_reduce
///
///                round 0    round 1    round 2    round 3    round 4
///     rank 0     ◄─┐ 01     ──┐                   ◄─┐ 0..5   ──┐
///          1     ──┘          │                     │        ◄─┘
///     rank 2     ◄─┐ 23     ◄─┘ 0..3   ◄─┐ 0..5   ──┘        ──┐
///          3     ──┘                     │                   ◄─┘
///     rank 4     ◄─┐ 45                ◄─┘ 0..5              ──┐
///          5     ──┘                                         ◄─┘
///
/// With G groups of g ranks, q = ⌈log2 G⌉, L = ⌊log2 G⌋ (plus 2 if G is not a power of two), m bytes, b = m / P:
///
/// |                | rounds | among the groups: schedule, and what a leader sends | folds of a leader            |
/// |----------------|--------|-----------------------------------------------------|------------------------------|
/// | barrier        | q + 2  | dissemination                                       |                              |
/// | broadcast      | q + 2  | binomial, q·m at most                               |                              |
/// | reduce         | q + 2  | binomial, m                                         | (g - 1 + q)·m at most        |
/// | all_reduce     | L + 2  | recursive doubling, L·m at most                     | (g - 1 + L)·m at most        |
/// | reduce_scatter | L + 2  | halving, (G - 1)·g·b at a power of two              | (g - 1)·m and (G - 1)·g·b    |
/// | all_gather     | L + 2  | halving, (G - 1)·g·b at a power of two              |                              |
/// | gather         | q + 2  | binomial, half of all blocks at most                |                              |
/// | scatter        | q + 2  | binomial, (G - 1)·g·b by the root's leader          |                              |
/// | all_to_all     | G + 2  | pairs, (G - 1)·g² blocks                            |                              |
/// | permute        | P + 2  | one message for each operand that leaves its group  |                              |
/// | inclusive_scan | q + 2  | doubling windows, q·m at most                       | (g - 2 + 2·q)·m at most      |
/// | exclusive_scan | q + 2  | doubling windows, q·m at most                       | (g - 3 + 2·q)·m at most      |
///
/// `two_level_halving` is an all_reduce for long vectors: halving among the groups in L + ⌊log2 G⌋ rounds, in which a
/// leader sends 2·(G - 1)·g·b at a power of two. A rooted collective takes one round less if the root is a leader.
/// Within a group, the leader receives g - 1 messages in the first round and sends as many in the last one. Groups of
/// one have no rounds within the group; a single group has two rounds (one in broadcast, reduce and all_gather, up to
/// three in exclusive_scan).
///
/// Rank order is kept, because groups are intervals of ranks. First each group is bracketed as the canonical tree of g,
/// then the groups as that of G. If g is a power of two this is the canonical tree of P; otherwise it is not, and scans
/// use yet another bracketing, so `order::tree` is not promised.
///
/// Source: H. Zhu, D. Goodell, W. Gropp, R. Thakur, "Hierarchical Collectives in MPICH2", 2009. Departures:
/// non-commutative operators, any root and uneven blocks are handled in the same way as everything else; in a scan,
/// members fold their prefixes while the leaders are busy.

namespace allfold {

namespace detail {

/// An all_reduce whose leaders run the all_reduce `Among`.
template <class Algorithm, class Among>
class two_level_all_reduce : public schedule_of<Algorithm> {
  public:
    static constexpr bool grouped = true;
    static constexpr order keeps = std::min<order>(Among::keeps, order::rank);
    static constexpr int scratch_slots = Among::scratch_slots;
    static constexpr bool in_place = Among::in_place;

    using schedule_of<Algorithm>::schedule_of;
    [[nodiscard]] constexpr int blocks() const noexcept { return leaders().blocks() > 1 ? this->size() : 1; }
    [[nodiscard]] constexpr int rounds() const noexcept { return leaders().rounds() + (this->group() > 1 ? 2 : 0); }
    [[nodiscard]] constexpr step operator[](int round) const noexcept {
        if (this->group() == 1) return leaders()[round];
        if (round == 0) return fold_group(*this, this->leader(), block_set::all(blocks()), slot::result);
        if (round + 1 == rounds()) return hand_out(*this, block_set::all(blocks()), slot::result);
        return this->is_leader() ? among_leaders(leaders(), round - 1, this->group(), input_is_result) : step{};
    }

  private:
    [[nodiscard]] constexpr Among leaders() const noexcept { return Among(setting{this->own_group(), this->groups()}); }
};

}  // namespace detail

/// For ranks that are threads of several processes, or processes on several nodes.
struct two_level {
    static constexpr const char* name = "two-level";

    class barrier : public schedule_of<two_level> {
      public:
        static constexpr bool grouped = true;
        static constexpr order keeps = order::rank;

        using schedule_of::schedule_of;
        [[nodiscard]] constexpr int blocks() const noexcept { return 0; }
        [[nodiscard]] constexpr int rounds() const noexcept { return leaders().rounds() + (group() > 1 ? 2 : 0); }
        [[nodiscard]] constexpr step operator[](int round) const noexcept {
            if (group() == 1) return leaders()[round];
            if (round == 0)
                return is_leader() ? step{.from = detail::others_of_group(*this)} : step{.to = peers::one(leader())};
            if (round + 1 == rounds()) return detail::hand_out(*this, {}, slot::result);
            return is_leader() ? detail::among_leaders(leaders(), round - 1, group(), detail::as_they_are) : step{};
        }

      private:
        [[nodiscard]] constexpr dissemination::barrier leaders() const noexcept {
            return dissemination::barrier(setting{own_group(), groups()});
        }
    };

    /// A root that is not a leader first sends to its own group, including its leader.
    class broadcast : public schedule_of<two_level> {
      public:
        static constexpr bool grouped = true;
        static constexpr order keeps = order::rank;

        using schedule_of::schedule_of;
        [[nodiscard]] constexpr int blocks() const noexcept { return 1; }
        [[nodiscard]] constexpr int rounds() const noexcept {
            return (root_first() ? 1 : 0) + leaders().rounds() + (group() > 1 && groups() > 1 ? 1 : 0);
        }
        [[nodiscard]] constexpr step operator[](int round) const noexcept {
            const int level = root_first() ? round - 1 : round;
            if (level < 0) return serve_group_of_root();
            if (level == leaders().rounds()) return serve_members();
            if (!is_leader()) return {};
            return detail::among_leaders(leaders(), level, group(),
                                         root_first() ? detail::input_is_result : detail::as_they_are);
        }

      private:
        [[nodiscard]] constexpr bool root_first() const noexcept {
            return group() > 1 && (groups() == 1 || root() % group() != 0);
        }
        [[nodiscard]] constexpr binomial::broadcast leaders() const noexcept {
            return binomial::broadcast(setting{own_group(), groups(), root_group()});
        }
        [[nodiscard]] constexpr step serve_group_of_root() const noexcept {
            if (own_group() != root_group()) return {};
            if (!is_root()) return {.from = peers::one(root()), .receive = block_set::one(0)};
            return {.local = keep_input(block_set::one(0)),
                    .to = detail::others_of_group(*this),
                    .send = block_set::one(0)};
        }
        [[nodiscard]] constexpr step serve_members() const noexcept {
            if (root_first() && own_group() == root_group()) return {};
            return detail::hand_out(*this, block_set::one(0), is_root() ? slot::input : slot::result);
        }
    };

    /// A root that is not a leader gets the result from its leader.
    class reduce : public schedule_of<two_level> {
      public:
        static constexpr bool grouped = true;
        static constexpr order keeps = order::rank;
        static constexpr int scratch_slots = 1;

        using schedule_of::schedule_of;
        [[nodiscard]] constexpr int blocks() const noexcept { return 1; }
        [[nodiscard]] constexpr int rounds() const noexcept {
            return (group() > 1 ? 1 : 0) + leaders().rounds() + (groups() > 1 && root() % group() != 0 ? 1 : 0);
        }
        [[nodiscard]] constexpr step operator[](int round) const noexcept {
            if (group() == 1) return leaders()[round];
            const int folded_at = groups() == 1 ? root() : leader();
            if (round == 0) return detail::fold_group(*this, folded_at, block_set::one(0), partial());
            if (round - 1 == leaders().rounds()) return detail::give_to_root(*this, block_set::one(0), partial());
            if (!is_leader()) return {};
            return detail::among_leaders(leaders(), round - 1, group(),
                                         is_root() ? detail::all_in_result : detail::all_in_scratch);
        }

      private:
        [[nodiscard]] constexpr binomial::reduce leaders() const noexcept {
            return binomial::reduce(setting{own_group(), groups(), root_group()});
        }
        [[nodiscard]] constexpr slot partial() const noexcept { return is_root() ? slot::result : slot::scratch_a; }
    };

    using all_reduce = detail::two_level_all_reduce<two_level, recursive_doubling::all_reduce>;

    class reduce_scatter : public schedule_of<two_level> {
      public:
        static constexpr bool grouped = true;
        static constexpr order keeps = order::rank;
        static constexpr int scratch_slots = 1;

        using schedule_of::schedule_of;
        [[nodiscard]] constexpr int blocks() const noexcept { return size(); }
        [[nodiscard]] constexpr int rounds() const noexcept { return leaders().rounds() + (group() > 1 ? 2 : 0); }
        [[nodiscard]] constexpr step operator[](int round) const noexcept {
            if (group() == 1) return leaders()[round];
            if (round == 0) return detail::fold_group(*this, leader(), block_set::all(size()), slot::scratch_a);
            if (round + 1 == rounds()) return hand_out_blocks();
            return is_leader() ? detail::among_leaders(leaders(), round - 1, group(), detail::all_in_scratch) : step{};
        }

      private:
        [[nodiscard]] constexpr recursive_halving::reduce_scatter leaders() const noexcept {
            return recursive_halving::reduce_scatter(setting{own_group(), groups()});
        }
        [[nodiscard]] constexpr step hand_out_blocks() const noexcept {
            step s = detail::hand_out(*this, block_set::one(rank()), slot::scratch_a);
            if (!is_leader()) return s;
            s.local = {local_work::kind::copy, slot::scratch_a, slot::input, slot::result, block_set::one(rank())};
            s.sent = addressed::per_peer;
            return s;
        }
    };

    /// Within a group every rank gets the blocks of all others; the leader then sends them only the blocks of other
    /// groups.
    class all_gather : public schedule_of<two_level> {
      public:
        static constexpr bool grouped = true;
        static constexpr order keeps = order::rank;

        using schedule_of::schedule_of;
        [[nodiscard]] constexpr int blocks() const noexcept { return size(); }
        [[nodiscard]] constexpr int rounds() const noexcept {
            return group() == 1 ? leaders().rounds() : groups() == 1 ? 1 : leaders().rounds() + 2;
        }
        [[nodiscard]] constexpr step operator[](int round) const noexcept {
            if (group() == 1) return leaders()[round];
            if (round == 0) return share_in_group();
            if (round + 1 == rounds()) {
                const int others = size() - group();
                return detail::hand_out(*this, block_set::wrapping(leader() + group(), others, size()), slot::result);
            }
            return is_leader() ? detail::among_leaders(leaders(), round - 1, group(), detail::input_is_result) : step{};
        }

      private:
        [[nodiscard]] constexpr recursive_halving::all_gather leaders() const noexcept {
            return recursive_halving::all_gather(setting{own_group(), groups()});
        }
        [[nodiscard]] constexpr step share_in_group() const noexcept {
            const peers others = detail::others_of_group(*this);
            return {.local = keep_input(block_set::one(rank())),
                    .to = others,
                    .send = block_set::one(rank()),
                    .from = others,
                    .received = addressed::per_peer};
        }
    };

    /// The leaders gather the blocks of their groups, then gather among themselves. A root that is not a leader gets
    /// all blocks from its leader.
    class gather : public schedule_of<two_level> {
      public:
        static constexpr bool grouped = true;
        static constexpr order keeps = order::rank;
        static constexpr int scratch_slots = 1;

        using schedule_of::schedule_of;
        [[nodiscard]] constexpr int blocks() const noexcept { return size(); }
        [[nodiscard]] constexpr int rounds() const noexcept {
            return (group() > 1 ? 1 : 0) + leaders().rounds() + (root() % group() != 0 ? 1 : 0);
        }
        [[nodiscard]] constexpr step operator[](int round) const noexcept {
            if (group() == 1) return leaders()[round];
            if (round == 0) return gather_group();
            if (round - 1 == leaders().rounds())
                return detail::give_to_root(*this, block_set::all(size()), slot::scratch_a);
            if (!is_leader()) return {};
            return detail::among_leaders(leaders(), round - 1, group(),
                                         is_root() ? detail::all_in_result : detail::all_in_scratch);
        }

      private:
        [[nodiscard]] constexpr binomial::gather leaders() const noexcept {
            return binomial::gather(setting{own_group(), groups(), root_group()});
        }
        [[nodiscard]] constexpr step gather_group() const noexcept {
            if (!is_leader()) return {.to = peers::one(leader()), .send = block_set::one(rank())};
            const slot into = is_root() ? slot::result : slot::scratch_a;
            return {.local = {.what = local_work::kind::copy, .into = into, .blocks = block_set::one(rank())},
                    .from = detail::others_of_group(*this),
                    .received = addressed::per_peer,
                    .into = into};
        }
    };

    /// The mirror image of the gather. A root that is not a leader sends all blocks to its leader first.
    class scatter : public schedule_of<two_level> {
      public:
        static constexpr bool grouped = true;
        static constexpr order keeps = order::rank;
        static constexpr int scratch_slots = 1;

        using schedule_of::schedule_of;
        [[nodiscard]] constexpr int blocks() const noexcept { return size(); }
        [[nodiscard]] constexpr int rounds() const noexcept {
            return (root_first() ? 1 : 0) + leaders().rounds() + (group() > 1 ? 1 : 0);
        }
        [[nodiscard]] constexpr step operator[](int round) const noexcept {
            if (group() == 1) return leaders()[round];
            const int level = root_first() ? round - 1 : round;
            if (level < 0) return give_to_leader();
            if (level == leaders().rounds()) return scatter_group();
            return is_leader() ? scatter_groups(level) : step{};
        }

      private:
        [[nodiscard]] constexpr bool root_first() const noexcept { return root() % group() != 0; }
        [[nodiscard]] constexpr binomial::scatter leaders() const noexcept {
            return binomial::scatter(setting{own_group(), groups(), root_group()});
        }
        [[nodiscard]] constexpr slot held() const noexcept { return is_root() ? slot::input : slot::scratch_a; }
        [[nodiscard]] constexpr step give_to_leader() const noexcept {
            if (is_root()) return {.to = peers::one(leader()), .send = block_set::all(size())};
            if (!is_leader() || own_group() != root_group()) return {};
            return {.from = peers::one(root()), .receive = block_set::all(size()), .into = slot::scratch_a};
        }
        /// A leader keeps its own block with those of its group until the last round.
        [[nodiscard]] constexpr step scatter_groups(int round) const noexcept {
            step s = detail::among_leaders(leaders(), round, group(), detail::all_in_scratch);
            s.source = held();
            s.local = {};
            return s;
        }
        [[nodiscard]] constexpr step scatter_group() const noexcept {
            step s = detail::hand_out(*this, block_set::one(rank()), held());
            if (!is_leader()) return s;
            s.local = {.what = local_work::kind::copy, .left = held(), .blocks = block_set::one(rank())};
            s.sent = addressed::per_peer;
            return s;
        }
    };

    /// The leaders collect everything that their groups send, exchange it in pairs, and distribute what they have
    /// received. With g ranks in a group, scratch block g·d + m of a leader is what its member m sends to rank d; what
    /// arrives from group B for its member d is at g²·B + g·d, in the order of the members of B. A leader sends
    /// (G - 1)·g² blocks.
    class all_to_all : public schedule_of<two_level> {
      public:
        static constexpr bool grouped = true;
        static constexpr order keeps = order::rank;
        static constexpr int scratch_slots = 2;
        static constexpr bool equal_blocks = true;

        using schedule_of::schedule_of;
        [[nodiscard]] constexpr scratch_blocks scratch() const noexcept { return {.copies = group()}; }
        [[nodiscard]] constexpr int blocks() const noexcept { return size(); }
        [[nodiscard]] constexpr int rounds() const noexcept { return size() > 1 ? groups() + 2 : 0; }
        [[nodiscard]] constexpr step operator[](int round) const noexcept {
            if (round == 0) return collect();
            if (round + 1 == rounds()) return distribute();
            return is_leader() ? swap_with((own_group() + round - 1) % groups(),
                                           (own_group() + groups() - round + 1) % groups())
                               : step{};
        }
        [[nodiscard]] constexpr block_set sent_to(int, int peer) const noexcept {
            return incoming_for(peer - leader());
        }
        [[nodiscard]] constexpr block_set received_from(int, int peer) const noexcept {
            return sent_by(peer - leader());
        }

      private:
        [[nodiscard]] constexpr block_set sent_by(int member) const noexcept {
            return block_run{member, size(), group(), 1};
        }
        [[nodiscard]] constexpr block_set incoming_for(int member) const noexcept {
            return block_run{member * group(), groups(), group() * group(), group()};
        }
        [[nodiscard]] constexpr block_set blocks_of_group(int number) const noexcept {
            return block_run{number * group() * group(), group() * group(), 1, 1};
        }
        [[nodiscard]] constexpr step collect() const noexcept {
            if (!is_leader()) return {.to = peers::one(leader()), .send = block_set::all(size())};
            step s{.local = {.what = local_work::kind::copy,
                             .into = slot::scratch_a,
                             .blocks = block_set::all(size()),
                             .targets = sent_by(0)}};
            if (group() == 1) return s;
            s.from = detail::others_of_group(*this);
            s.received = addressed::per_peer;
            s.into = slot::scratch_a;
            return s;
        }
        /// In the first of these rounds a group exchanges with itself, which is a local copy.
        [[nodiscard]] constexpr step swap_with(int to, int from) const noexcept {
            if (to == own_group())
                return {.local = {local_work::kind::copy, slot::scratch_a, slot::input, slot::scratch_b,
                                  blocks_of_group(to)}};
            return {.to = peers::one(to * group()),
                    .send = blocks_of_group(to),
                    .source = slot::scratch_a,
                    .from = peers::one(from * group()),
                    .receive = blocks_of_group(from),
                    .into = slot::scratch_b};
        }
        [[nodiscard]] constexpr step distribute() const noexcept {
            if (!is_leader()) return {.from = peers::one(leader()), .receive = block_set::all(size())};
            step s{.local = {.what = local_work::kind::copy,
                             .left = slot::scratch_b,
                             .blocks = incoming_for(0),
                             .targets = block_set::all(size())}};
            if (group() == 1) return s;
            s.to = detail::others_of_group(*this);
            s.sent = addressed::per_peer;
            s.source = slot::scratch_b;
            return s;
        }
    };

    /// The leaders collect the operands of their groups; in round g·k + i among themselves they send the i-th operand
    /// that goes to the k-th group above; finally they distribute what they have received. Most of these rounds are
    /// empty: a leader sends one message for each operand that leaves its group. A scratch block is the operand of one
    /// member.
    class permute : public schedule_of<two_level> {
      public:
        static constexpr bool grouped = true;
        static constexpr order keeps = order::rank;
        static constexpr int scratch_slots = 2;
        static constexpr bool equal_blocks = true;
        static constexpr bool in_place = false;

        using schedule_of::schedule_of;
        [[nodiscard]] constexpr scratch_blocks scratch() const noexcept { return {.copies = group()}; }
        [[nodiscard]] constexpr int blocks() const noexcept { return 1; }
        [[nodiscard]] constexpr int rounds() const noexcept { return is_flat() ? flat().rounds() : size() + 2; }
        [[nodiscard]] constexpr step operator[](int round) const noexcept {
            if (is_flat()) return flat()[round];
            if (round == 0) return collect();
            if (round + 1 == rounds()) return distribute();
            return is_leader() ? move_one((round - 1) / group(), (round - 1) % group()) : step{};
        }
        [[nodiscard]] constexpr block_set sent_to(int, int peer) const noexcept { return of_member(peer); }
        [[nodiscard]] constexpr block_set received_from(int, int peer) const noexcept { return of_member(peer); }

      private:
        /// Whether every rank may communicate with every other.
        [[nodiscard]] constexpr bool is_flat() const noexcept { return group() == 1 || groups() == 1; }
        [[nodiscard]] constexpr direct::permute flat() const noexcept { return direct::permute(where()); }
        [[nodiscard]] constexpr block_set of_member(int member) const noexcept {
            return block_set::one(member - leader());
        }
        /// The rank with the i-th of the operands that go from one group to another; -1 if there are not that many.
        [[nodiscard]] constexpr int between(int from, int to, int i) const noexcept {
            for (int r = from * group(); r < (from + 1) * group(); ++r)
                if (where().destination_of(r) / group() == to && i-- == 0) return r;
            return -1;
        }
        [[nodiscard]] constexpr step collect() const noexcept {
            if (!is_leader()) return {.to = peers::one(leader()), .send = block_set::one(0)};
            return {.local = {.what = local_work::kind::copy, .into = slot::scratch_a, .blocks = block_set::one(0)},
                    .from = detail::others_of_group(*this),
                    .received = addressed::per_peer,
                    .into = slot::scratch_a};
        }
        [[nodiscard]] constexpr step move_one(int distance, int i) const noexcept {
            const int to = (own_group() + distance) % groups(), from = (own_group() + groups() - distance) % groups();
            const int leaving = between(own_group(), to, i), coming = between(from, own_group(), i);
            step s;
            if (distance == 0) {
                if (leaving >= 0)
                    s.local = {.what = local_work::kind::copy,
                               .left = slot::scratch_a,
                               .into = slot::scratch_b,
                               .blocks = of_member(leaving),
                               .targets = of_member(where().destination_of(leaving))};
                return s;
            }
            s.source = slot::scratch_a;
            s.into = slot::scratch_b;
            if (leaving >= 0) {
                s.to = peers::one(to * group());
                s.send = of_member(leaving);
            }
            if (coming >= 0) {
                s.from = peers::one(from * group());
                s.receive = of_member(where().destination_of(coming));
            }
            return s;
        }
        [[nodiscard]] constexpr step distribute() const noexcept {
            if (!is_leader()) return {.from = peers::one(leader()), .receive = block_set::one(0)};
            return {.local = {.what = local_work::kind::copy, .left = slot::scratch_b, .blocks = block_set::one(0)},
                    .to = detail::others_of_group(*this),
                    .sent = addressed::per_peer,
                    .source = slot::scratch_b};
        }
    };

    /// Leaders scan the windows "other groups' ranks, then the leader", and send them with their members' fold
    /// appended. Members meanwhile fold the members up to themselves, and finally prepend their leader's result.
    class inclusive_scan : public schedule_of<two_level> {
      public:
        static constexpr bool grouped = true;
        static constexpr order keeps = order::rank;
        static constexpr int scratch_slots = 2;

        using schedule_of::schedule_of;
        [[nodiscard]] constexpr int blocks() const noexcept { return 1; }
        [[nodiscard]] constexpr int rounds() const noexcept {
            if (group() == 1) return in_groups_of_one().rounds();
            return (groups() > 1 ? 1 : 0) + rounds_between(*this) + 1;
        }
        [[nodiscard]] constexpr step operator[](int round) const noexcept {
            if (group() == 1) return in_groups_of_one()[round];
            const int between = groups() > 1 ? round - 1 : round;
            if (between < 0) return fold_members();
            if (between == rounds_between(*this)) return prepend_prefix();
            if (is_leader()) return among_leaders(between);
            return between == 0 ? scan_members(*this, fold::in_rank_order, slot::scratch_a) : step{};
        }

      private:
        [[nodiscard]] constexpr dissemination::inclusive_scan in_groups_of_one() const noexcept {
            return dissemination::inclusive_scan(setting{rank(), size()});
        }
        /// No group needs the fold of the last group's members.
        [[nodiscard]] constexpr step fold_members() const noexcept {
            if (own_group() + 1 == groups()) return {};
            if (!is_leader()) return {.to = peers::one(leader()), .send = block_set::one(0)};
            return {.from = detail::others_of_group(*this),
                    .receive = block_set::one(0),
                    .how = fold::peers_in_rank_order,
                    .into = slot::scratch_a};
        }
        [[nodiscard]] constexpr step among_leaders(int round) const noexcept {
            const detail::doubling_window window{own_group(), groups(), round};
            step s = window.links(group());
            s.how = fold::left;
            s.mine = round > 0 && own_group() > 0 ? slot::result : slot::input;
            s.source = slot::scratch_b;
            if (window.sends() && (round == 0 || window.has_grown()))
                s.local = {local_work::kind::fold, s.mine, slot::scratch_a, slot::scratch_b, block_set::one(0)};
            return s;
        }
        [[nodiscard]] constexpr step prepend_prefix() const noexcept {
            step s = detail::hand_out(*this, block_set::one(0), own_group() == 0 ? slot::input : slot::result);
            if (rank() == 0) s.local = keep_input(block_set::one(0));
            if (is_leader()) return s;
            s.how = fold::left;
            s.mine = rank() == leader() + 1 ? slot::input : slot::scratch_a;
            return s;
        }
    };

    /// Leaders scan the windows of the groups before their own, and send them with their group's fold appended. Members
    /// meanwhile compute their prefix within the group.
    class exclusive_scan : public schedule_of<two_level> {
      public:
        static constexpr bool grouped = true;
        static constexpr order keeps = order::rank;
        static constexpr int scratch_slots = 2;

        using schedule_of::schedule_of;
        [[nodiscard]] constexpr int blocks() const noexcept { return 1; }
        [[nodiscard]] constexpr int rounds() const noexcept { return rounds_between(*this) + (group() > 1 ? 2 : 0); }
        [[nodiscard]] constexpr step operator[](int round) const noexcept {
            step s = without_identity(round);
            if (rank() == 0 && round + 1 == rounds()) s.local = set_identity(block_set::one(0));
            return s;
        }

      private:
        [[nodiscard]] constexpr step without_identity(int round) const noexcept {
            const int between = group() > 1 ? round - 1 : round;
            if (between < 0) return swap_with_leader();
            if (between == rounds_between(*this)) return is_leader() ? give_prefix() : prepend_prefix();
            if (is_leader()) return among_leaders(between);
            return between == 0 ? scan_members(*this, fold::peers_in_rank_order, slot::scratch_b) : step{};
        }
        /// The leader gets the fold of its group, unless that is the last one; members get the leader's operand.
        [[nodiscard]] constexpr step swap_with_leader() const noexcept {
            const bool last = own_group() + 1 == groups();
            const peers partners = is_leader() ? detail::others_of_group(*this) : peers::one(leader());
            step s{.into = slot::scratch_a};
            if (is_leader()) s.how = fold::in_rank_order;
            if (is_leader() || !last) {
                s.to = partners;
                s.send = block_set::one(0);
            }
            if (!is_leader() || !last) {
                s.from = partners;
                s.receive = block_set::one(0);
            }
            return s;
        }
        [[nodiscard]] constexpr step among_leaders(int round) const noexcept {
            const detail::doubling_window window{own_group(), groups(), round};
            const block_set whole = block_set::one(0);
            step s = window.links(group());
            s.how = round == 0 ? fold::store : fold::left;
            s.mine = slot::result;
            s.source = round > 0 && own_group() > 0 ? slot::scratch_b : slot::scratch_a;
            if (rank() == 0 && group() == 1) s.source = slot::input;
            if (!window.sends()) return s;
            if (window.has_grown())
                s.local = {local_work::kind::fold, slot::result, slot::scratch_a, slot::scratch_b, whole};
            else if (round == 0 && group() == 1 && rank() > 0)
                s.local = {local_work::kind::copy, slot::input, slot::input, slot::scratch_a, whole};
            return s;
        }
        [[nodiscard]] constexpr step give_prefix() const noexcept {
            return own_group() == 0 ? step{} : detail::hand_out(*this, block_set::one(0), slot::result);
        }
        /// Prepends the leader's prefix; the first group has nothing to prepend.
        [[nodiscard]] constexpr step prepend_prefix() const noexcept {
            step s;
            const bool second = rank() == leader() + 1;  // its prefix is the leader's operand
            const slot into = own_group() == 0 ? slot::result : slot::scratch_a;
            if (!second || own_group() == 0)
                s.local = {second ? local_work::kind::copy : local_work::kind::fold, slot::scratch_a, slot::scratch_b,
                           into, block_set::one(0)};
            if (own_group() == 0) return s;
            s.from = peers::one(leader());
            s.receive = block_set::one(0);
            s.how = fold::left;
            s.mine = slot::scratch_a;
            return s;
        }
    };

  private:
    /// The number of rounds of a scan between the first and the last one: those of the leaders; members need one of
    /// them.
    [[nodiscard]] static constexpr int rounds_between(const schedule_of<two_level>& self) noexcept {
        return std::max(detail::ceil_log2(self.groups()), self.group() > 2 ? 1 : 0);
    }

    /// Every member gets the operands of the members below it.
    [[nodiscard]] static constexpr step scan_members(const schedule_of<two_level>& self, fold how, slot into) noexcept {
        const int first = self.leader() + 1, end = self.leader() + self.group();
        step s{.how = how, .into = into};
        if (self.rank() + 1 < end) {
            s.to = peers::range(self.rank() + 1, end);
            s.send = block_set::one(0);
        }
        if (self.rank() > first) {
            s.from = peers::range(first, self.rank());
            s.receive = block_set::one(0);
        }
        return s;
    }
};

/// For long vectors: the least volume among the groups.
struct two_level_halving {
    static constexpr const char* name = "two-level halving";

    using all_reduce = detail::two_level_all_reduce<two_level_halving, recursive_halving::all_reduce>;
};

}  // namespace allfold
