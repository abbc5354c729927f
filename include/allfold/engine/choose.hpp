// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "allfold/schedule/any_schedule.hpp"
#include "allfold/schedule/contract.hpp"
#include "allfold/schedule/fusion.hpp"
#include "allfold/schedule/step.hpp"
#include "allfold/transport/detail/groups_of_cores.hpp"

/// @file
/// Picks the schedule where the caller names none. The candidates of a collective, with the condition for each, stand
/// in the collective's own file; here are the conditions, and the numbers in them.

namespace allfold {

/// What ranks can do for each other.
enum class reach : std::uint8_t {
    memory,    ///< all share memory
    messages,  ///< they exchange messages
    levels     ///< groups share memory, and only the first ones of groups exchange messages
};

/// What the choice depends on.
struct problem {
    int size = 1;              ///< ranks
    std::size_t bytes = 0;     ///< of the whole operand at one rank
    int processors = 0;        ///< that the ranks share; 0 when that is not known
    order level = order::any;  ///< that is asked for
    bool equal_blocks = true;  ///< all blocks have one length, as far as all ranks know
    /// Elements that an operator lifts are half as long as what it makes of them, or less.
    bool short_values = false;
};

/// The numbers of the chooser, with what was measured for each.
struct choose_tuning {
    /// Shared memory: everyone folds everything while that is less than this many bytes a rank; every rank's slice of
    /// the work costs a second synchronisation. P = 4: 16 KiB, P = 8: 8 KiB (two cores).
    std::size_t all_read_bytes = std::size_t{64} << 10;
    /// The same of two ranks, whose messages up to here are copied: a Xeon (Sapphire Rapids), two cores 155 ns apart,
    /// all_reduce: 0.9 of the time of slices at 40 KiB, 0.65 at 48 KiB, 0.68 at 64 KiB and 80 KiB, 0.95 at 96 KiB, 1.0
    /// at 128 KiB; merge of softmax states, which work harder: 0.63 at 50 and 64 KiB.
    std::size_t pair_read_bytes = std::size_t{64} << 10;
    /// The same of an all_reduce where ranks share processors, and a message to all is written once: what a second
    /// synchronisation costs there are turns of all ranks. Ours to the best by hand, two cores, before and now, P = 4:
    /// 4 KiB 1.32 and 1.03, 16 KiB 1.28 and 1.14; P = 8: 8 KiB 1.23 and 1.11, 16 KiB as long as one rank that folds for
    /// all; P = 16: 4 KiB as long, 16 KiB 1.4 times slower.
    std::size_t crowded_read_bytes = std::size_t{96} << 10;
    /// Of an operand that is folded in slices, where ranks share processors and what one has for all others is written
    /// once: up to here blocks are copied, if they are short enough; above they are lent, and folded in one pass. P = 8
    /// on two cores, lent to copied: 1.4 at 64 KiB, 1.16 at 128 KiB, 0.84 at 256 KiB.
    std::size_t crowded_copied_bytes = std::size_t{128} << 10;
    /// Shared memory, two ranks: blocks up to here go through memory of the transport where others are folded as they
    /// lie, so that no line of the caller's moves to the other core. all_reduce of twice as much, all memory written
    /// and read between calls: where cores share a cache 0.9 of the time at 384 KiB, 1.1 at 512 KiB, 1.2 at 768 KiB;
    /// where they do not 0.53 to 0.6 of it, as far as 1 MiB.
    std::size_t copied_block_bytes = std::size_t{256} << 10;
    /// The same on processors all of whose cores share a cache. A Xeon (480 MiB of third-level cache), lent to copied:
    /// all_reduce of 72 KiB 1.4, 96 KiB 1.1, 128 to 512 KiB 1.0; one of 16 in flight 128 to 512 KiB 0.62 to 0.68, and
    /// as much where operands take turns; reduce of 256 KiB 0.86; merge of 264 KiB 1.12.
    std::size_t copied_block_bytes_of_one_cache = std::size_t{48} << 10;
    /// Shared memory, two ranks, other schedules: as long as no more than this moves between them, in both directions
    /// together, their messages go through memory of the transport, in windows so short that it stays in the cache of
    /// who reads it. broadcast, all_gather, reduce_scatter and scans, lent messages to these: where cores share a cache
    /// 1.1 to 1.5 up to 512 KiB, 0.95 to 1.1 at 1 MiB, 0.8 at 2 MiB; where they do not 2.3 to 2.7, 1.4 to 2.4, 1.5.
    /// Windows of 64 KiB and 256 KiB: 1.1 times slower. One of the whole: 1.3 to 2 times slower at 1 MiB.
    std::size_t copied_bytes = std::size_t{1} << 20;
    std::size_t copied_window_bytes = std::size_t{128} << 10;
    /// Shared memory, two ranks, one message whose length nobody else knows, which therefore goes in one piece: up to
    /// here it is copied as well. permute, the Xeon above, copied to lent: 0.44 at 48 and 64 KiB, 0.75 from 128 to 512
    /// KiB, 1.05 at 768 KiB, 1.4 at 1 MiB.
    std::size_t copied_message_bytes = std::size_t{256} << 10;
    /// More ranks a processor than this: one rank folds for all, while operands are short, but where a message to all
    /// is written once: a rank that waits for one other has as many turns as one that waits for all, and the one that
    /// folds should come last, which it does not (P = 8 on two cores, 8 B: 1.03 to 1.4 switches for each call and rank,
    /// 0.88 if all read all). There slices to this, P = 8 on two cores: 0.9 at 32 KiB, 0.63 at 64 KiB, 0.69 at 128 KiB,
    /// 0.82 at 256 KiB. With messages in channels it was 1.3 times faster than slices at 256 KiB. With more processors
    /// more of them would idle meanwhile, so the limit is of bytes · processors². P = 3 and 4 on two cores: slower at
    /// any length.
    int flat_tree_ranks_a_processor = 2;
    std::size_t flat_tree_bytes = std::size_t{1} << 20;
    /// Scans, shared memory: each rank folds a slice of all prefixes where there are more bytes than this, which costs
    /// a second synchronisation and saves reading the operands of all ranks below. P = 3, 4, 8 and 16 on two cores: as
    /// long at 32 KiB; above, where the messages of other schedules are lent, 1.2 to 1.4 times faster (P = 3 to 16, 36
    /// KiB), 1.8 to 2.4 times at 256 KiB.
    std::size_t scan_bytes = std::size_t{32} << 10;
    /// Two ranks: in slices each writes half of what the other one has in its cache, otherwise one message goes through
    /// memory of the transport. In slices to so, inclusive_scan: where cores share a cache 1.3 at 256 KiB, 1.0 at 512
    /// KiB, 0.8 at 1 MiB; where they do not 2.4 to 2.6.
    std::size_t pair_scan_bytes = std::size_t{512} << 10;
    /// Messages: up to here fewer rounds win, above it less volume. P = 4 over Open MPI, 64 KiB: recursive doubling 59
    /// us, ring 77.
    std::size_t latency_bytes = std::size_t{64} << 10;
    /// Two ranks: one exchange of the whole sends no more than two of halves. Over Open MPI and MPICH 1.1 to 1.4 times
    /// faster up to 32 KiB; from 64 KiB two of halves are 1.1 to 1.6 times faster, from 32 KiB where operators work
    /// hard (merges of softmax states: 1.2).
    std::size_t pair_bytes = std::size_t{32} << 10;
    /// all_to_all by messages: up to so many bytes for each peer the fewest rounds win, although most of the data
    /// travels several times (as in MPICH, which measured it).
    std::size_t bruck_bytes = 256;
    /// all_gather and reduce_scatter by messages, few ranks: up to so many bytes of all blocks one to each peer, all at
    /// once, since ranks that wait once for all wait least. To ring, Open MPI, two cores, P = 4, 8, 16: at 32 to 64 B
    /// 2.1, 3.5 and 5 times faster, at 64 KiB 1.0, and 1.5 for P = 8. To a circulant graph: 1.5 to 1.9 at 32 B, 1.0 to
    /// 1.2 at 64 KiB, 0.8 to 1.0 at 128 KiB. MPICH, P = 4, to ring: 1.05 at 32 B, 1.2 at 16 KiB.
    std::size_t direct_bytes = std::size_t{64} << 10;
    /// By messages, blocks up to here: as few rounds as there can be for the least volume. A circulant graph to ring,
    /// Open MPI, two cores, all_gather of blocks of 64 KiB: P = 4 1.25 times faster, P = 6 1.25, P = 8 2.1; of 128 KiB,
    /// which are lent, and copied once more where several come in one message, 0.9 and (P = 8) 1.1; of 512 KiB 0.8.
    /// reduce_scatter: 1.4 and (P = 8) 2.0; 1.0 and 1.1; 1.0. all_reduce of 256 KiB: 1.3 (P = 4) and 1.45 (P = 8); of 4
    /// MiB 0.9 and 0.85. P = 16, blocks of 64 KiB: 2.5 and 2.2; of 256 KiB 1.4 and 1.1. MPICH, P = 4, all_gather of
    /// blocks of 16 and 64 KiB: 1.3, 1.1.
    std::size_t circulant_block_bytes = std::size_t{64} << 10;

    friend bool operator==(const choose_tuning&, const choose_tuning&) = default;
};

namespace detail {

inline constexpr choose_tuning tuned{};

/// Whether values of so many bytes, of which none is none, are short beside what an operator makes of them.
[[nodiscard]] constexpr bool are_short(std::size_t value_bytes, std::size_t state_bytes) noexcept {
    return value_bytes > 0 && value_bytes * 2 <= state_bytes;
}

// Conditions

[[nodiscard]] constexpr bool always(const problem&) noexcept { return true; }

[[nodiscard]] constexpr bool few_ranks(const problem& p) noexcept { return p.size <= 16; }
[[nodiscard]] constexpr bool everyone_folds_all(const problem& p) noexcept {
    return p.bytes <= (p.size == 2 ? tuned.pair_read_bytes : tuned.all_read_bytes / static_cast<std::size_t>(p.size));
}
[[nodiscard]] constexpr bool one_folds_for_all(const problem& p) noexcept {
    const auto processors = static_cast<std::size_t>(p.processors);
    return p.processors > 0 && p.size > tuned.flat_tree_ranks_a_processor * p.processors &&
           p.bytes * processors * processors <= tuned.flat_tree_bytes;
}
/// Whether ranks share processors.
[[nodiscard]] constexpr bool is_crowded(const problem& p) noexcept { return p.processors > 0 && p.size > p.processors; }
/// Whether what a rank has for all others can be posted at once.
[[nodiscard]] constexpr bool is_posted_once(const problem& p) noexcept { return p.size > 2 && few_ranks(p); }
/// In an all_reduce, where it cannot.
[[nodiscard]] constexpr bool one_of_many_folds_for_all(const problem& p) noexcept {
    return !is_posted_once(p) && one_folds_for_all(p);
}
/// The same of an all_reduce, whose operands go to all.
[[nodiscard]] constexpr bool everyone_reads_all(const problem& p) noexcept {
    if (!is_crowded(p)) return everyone_folds_all(p);
    return is_posted_once(p) ? p.bytes <= tuned.crowded_read_bytes / static_cast<std::size_t>(p.size)
                             : everyone_folds_all(p) && !one_folds_for_all(p);
}
/// Whether ranks fold what they lend each other, in one pass, however short their blocks are.
[[nodiscard]] constexpr bool lends_short_blocks(const problem& p) noexcept {
    return is_crowded(p) && is_posted_once(p) && p.bytes > tuned.crowded_copied_bytes;
}
[[nodiscard]] constexpr bool short_scan(const problem& p) noexcept {
    return p.bytes <= (p.size == 2 ? tuned.pair_scan_bytes : tuned.scan_bytes);
}
[[nodiscard]] constexpr bool few_bytes(const problem& p) noexcept {
    return p.bytes <= (p.size == 2 ? tuned.pair_bytes : tuned.latency_bytes);
}
[[nodiscard]] constexpr bool many_bytes(const problem& p) noexcept { return p.bytes > tuned.latency_bytes; }
[[nodiscard]] constexpr bool few_bytes_for_each(const problem& p) noexcept {
    return p.size >= 8 && p.equal_blocks && p.bytes <= tuned.bruck_bytes * static_cast<std::size_t>(p.size);
}
[[nodiscard]] constexpr bool any_order(const problem& p) noexcept { return p.level == order::any; }
[[nodiscard]] constexpr bool few_bytes_of_few_ranks(const problem& p) noexcept {
    return few_ranks(p) && p.bytes <= tuned.direct_bytes;
}
/// Whether elements go as they are to who folds them, each to one rank: less than any schedule has to move of what is
/// folded.
[[nodiscard]] constexpr bool short_values_of_few_ranks(const problem& p) noexcept {
    return few_ranks(p) && p.short_values;
}
/// Two ranks that run at the same time, and more than is copied between them: where nothing is folded both store what
/// one would read. The Xeon of `pair_read_bytes`, to that: broadcast 0.5 at 2 MiB, 0.73 at 4 and 16 MiB; gather 0.64 at
/// 4 MiB, 0.71 at 16; all_gather 0.78 at 2 MiB, 1.0 at 4 and 16. With streams at 16 MiB: broadcast 0.92, gather 0.85,
/// all_gather 1.2. Copied through windows instead: broadcast 0.81 at 2 MiB, 0.95 at 4; all_gather 1.08 and 1.13,
/// all_to_all and reduce_scatter 1.2 to 1.3.
[[nodiscard]] constexpr bool long_between_two(const problem& p) noexcept {
    return p.size == 2 && p.processors >= 2 && p.bytes > tuned.copied_bytes;
}
/// Of an operand that is cut into a block for each rank, on the average.
[[nodiscard]] constexpr bool short_blocks(const problem& p) noexcept {
    return p.bytes / static_cast<std::size_t>(p.size) <= tuned.circulant_block_bytes;
}
[[nodiscard]] constexpr bool short_blocks_in_any_order(const problem& p) noexcept {
    return any_order(p) && short_blocks(p);
}

/// How many blocks move between two ranks.
[[nodiscard]] inline int blocks_moved(const any_schedule& schedule) {
    const int self = schedule.rank(), peer = 1 - self;
    int blocks = 0;
    for (int r = 0; r < schedule.rounds(); ++r) {
        const step now = schedule[r], more = now.has_more ? schedule.also(r) : step{};
        if (now.to.contains(peer, self)) blocks += sent_to(schedule, now, r, peer).size() + more.send.size();
        if (now.from.contains(peer, self)) blocks += received_from(schedule, now, r, peer).size() + more.receive.size();
    }
    return blocks;
}

/// Of what would be lent: the window in which it goes through memory of the transport instead; 0 where it is lent.
/// `block_bytes`: of the longest one.
[[nodiscard]] inline std::size_t copied_window(const any_schedule& schedule, bool folds, int processors,
                                               std::size_t block_bytes) {
    if (schedule.size() != 2 || processors < 2) return 0;
    if (const auto pass = folds ? fused_pass_of(schedule) : std::nullopt) {
        const std::size_t most =
            has_groups_of_cores() ? tuned.copied_block_bytes : tuned.copied_block_bytes_of_one_cache;
        const bool copies = schedule.in_place && pass->each == share::fold && block_bytes <= most;
        return copies ? block_bytes : 0;
    }
    if (block_bytes > tuned.copied_bytes) return 0;
    const bool copies = static_cast<std::size_t>(blocks_moved(schedule)) * block_bytes <= tuned.copied_bytes;
    return copies ? std::min(block_bytes, tuned.copied_window_bytes) : 0;
}

/// The same of a message whose length only the two know who exchange it.
[[nodiscard]] constexpr bool copies_whole(int size, int processors, std::size_t bytes) noexcept {
    return size == 2 && processors >= 2 && bytes <= tuned.copied_message_bytes;
}

/// A schedule that can be made for any setting: of a collective's candidate, or of what the caller names.
struct schedule_maker {
    any_schedule (*make)(const setting& where, const void* algorithm);
    bool (*supports)(int size, int group);
    order keeps;
    const char* name;
};

template <class S, class Algorithm>
inline constexpr schedule_maker maker_of{
    [](const setting& where, const void* algorithm) {
        return any_schedule(make_schedule<S>(where, *static_cast<const Algorithm*>(algorithm)), Algorithm::name);
    },
    [](int size, int group) { return supports<S>(size, group); }, S::keeps, Algorithm::name};

/// The same for algorithms without parameters.
template <class S>
inline constexpr schedule_maker plain_maker_of{
    [](const setting& where, const void*) { return any_schedule(S(where), S::algorithm::name); },
    [](int size, int group) { return supports<S>(size, group); }, S::keeps, S::algorithm::name};

}  // namespace detail

/// A schedule among which `choose` picks, when that is a good idea, and why.
struct candidate {
    const detail::schedule_maker* schedule;
    bool (*when)(const problem&);
    const char* why;
};

/// A candidate of the schedule S.
template <schedule S>
[[nodiscard]] constexpr candidate when(bool (*condition)(const problem&), const char* why) noexcept {
    return {&detail::plain_maker_of<S>, condition, why};
}

namespace detail {

/// The first candidate that gives the order, exists for so many ranks, and whose condition holds.
[[nodiscard]] inline const candidate* choose(std::span<const candidate> candidates, const problem& p, int group,
                                             bool folds) noexcept {
    for (const candidate& each : candidates)
        if ((!folds || each.schedule->keeps >= p.level) && each.when(p) && each.schedule->supports(p.size, group))
            return &each;
    return nullptr;
}

}  // namespace detail
}  // namespace allfold
