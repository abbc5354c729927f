// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "allfold/engine/detail/type_name.hpp"
#include "allfold/schedule/any_schedule.hpp"
#include "allfold/schedule/contract.hpp"
#include "allfold/schedule/fusion.hpp"
#include "allfold/schedule/step.hpp"
#include "allfold/transport/detail/cache_size.hpp"
#include "allfold/transport/detail/groups_of_cores.hpp"

/// @file
/// Picks the schedule if the caller names none. The candidates of a collective, and the condition for each of them, are
/// listed in the collective's own file; this file has the conditions, and the numbers in them.

namespace allfold {

/// How ranks can reach each other.
enum class reach : std::uint8_t {
    memory,    ///< all ranks share memory
    messages,  ///< they exchange messages
    levels     ///< groups share memory, and only the first rank of each exchanges messages
};

/// What the choice depends on.
struct problem {
    int size = 1;              ///< ranks
    std::size_t bytes = 0;     ///< of the whole operand at one rank
    int processors = 0;        ///< cores that the ranks share; 0 if unknown
    order level = order::any;  ///< the requested one
    bool equal_blocks = true;  ///< all blocks have one length, as far as all ranks know
    /// The elements that an operator lifts are at most half as long as the states it makes of them.
    bool short_values = false;
};

/// The numbers used by the chooser, with the measurements behind each of them.
struct choose_tuning {
    /// Shared memory: every rank folds everything as long as it reads at most this many bytes for that; dividing the
    /// work into slices costs a second synchronisation. This means operands of up to 16 KiB at P = 4, and 8 KiB at P =
    /// 8 (two cores).
    std::size_t all_read_bytes = std::size_t{64} << 10;
    /// The same for two ranks, whose messages are copied up to this size. On a Xeon (Sapphire Rapids), two cores 155 ns
    /// apart, all_reduce takes 0.9x the time of slices at 40 KiB, 0.65x at 48 KiB, 0.68x at 64 KiB and 80 KiB, 0.95x at
    /// 96 KiB, 1.0x at 128 KiB; merging softmax states, which is more compute-intensive, takes 0.63x at 50 and 64 KiB.
    std::size_t pair_read_bytes = std::size_t{64} << 10;
    /// The same for an all_reduce whose ranks are oversubscribed, and write a message to all others only once: there, a
    /// second synchronisation costs every rank another turn on a core. Time relative to the best code written by hand
    /// on two cores, before and now: at P = 4, 1.32x and 1.03x for 4 KiB, 1.28x and 1.14x for 16 KiB; at P = 8, 1.23x
    /// and 1.11x for 8 KiB, and for 16 KiB as long as one rank that folds for all; at P = 16, as long for 4 KiB, and
    /// 1.4 times slower for 16 KiB.
    std::size_t crowded_read_bytes = std::size_t{96} << 10;
    /// For operands that are folded in slices by oversubscribed ranks, which write what they have for all others only
    /// once: up to this size blocks are copied, if they are short enough; above it they are lent, and folded in a
    /// single pass. P = 8 on two cores, lent relative to copied: 1.4x the time at 64 KiB, 1.16x at 128 KiB, 0.84x at
    /// 256 KiB.
    std::size_t crowded_copied_bytes = std::size_t{128} << 10;
    /// Shared memory, two ranks: blocks up to this size go through memory of the transport, whereas longer ones are
    /// folded in place; this way no cache line of the caller's moves to the other core. all_reduce of twice as much,
    /// all memory written and read between calls: where cores share a cache, it takes 0.9x the time at 384 KiB, 1.1x at
    /// 512 KiB, 1.2x at 768 KiB; where they do not, 0.53x to 0.6x, up to 1 MiB.
    std::size_t copied_block_bytes = std::size_t{256} << 10;
    /// The same for processors whose cores all share a cache. On a Xeon (480 MiB of third-level cache), lent relative
    /// to copied: all_reduce takes 1.4x the time at 72 KiB, 1.1x at 96 KiB, 1.0x at 128 to 512 KiB; one of 16 in flight
    /// takes 0.62x to 0.68x at 128 to 512 KiB, and the same if calls alternate between operands; reduce takes 0.86x at
    /// 256 KiB; a merge takes 1.12x at 264 KiB.
    std::size_t copied_block_bytes_of_one_cache = std::size_t{48} << 10;
    /// Shared memory, two ranks, other schedules: as long as no more than this moves between them, both directions
    /// together, their messages go through memory of the transport, in windows short enough to stay in the reader's
    /// cache. broadcast, all_gather, reduce_scatter and scans, lent messages relative to these: where cores share a
    /// cache, 1.1x to 1.5x the time up to 512 KiB, 0.95x to 1.1x at 1 MiB, 0.8x at 2 MiB; where they do not, 2.3x to
    /// 2.7x, 1.4x to 2.4x and 1.5x. Windows of 64 KiB and 256 KiB are 1.1 times slower; a single window for the whole
    /// is 1.3 to 2 times slower at 1 MiB.
    std::size_t copied_bytes = std::size_t{1} << 20;
    std::size_t copied_window_bytes = std::size_t{128} << 10;
    /// The same for processors whose cores all share a cache, if received blocks are folded, or if nothing is folded
    /// and both ranks may store what otherwise one would read. On a Xeon (Cascade Lake), relative to copies:
    /// inclusive_scan takes 0.92x the time at 64 KiB, 0.86x at 128 KiB, 0.77x at 256 KiB, 0.89x at 512 KiB;
    /// exclusive_scan 0.8x to 0.88x up to 256 KiB, 1.0x to 1.14x at 512 KiB; reduce_scatter 0.96x, 0.9x and 0.89x;
    /// all_gather 1.25x at 32 KiB, 1.06x at 96 KiB, 0.9x at 256 KiB, 0.75x at 512 KiB and 1 MiB; gather 1.0x at 128
    /// KiB, 0.9x at 256 KiB, 0.8x at 1 MiB.
    std::size_t copied_bytes_of_one_cache = std::size_t{96} << 10;
    /// The same if each core also has a second-level cache of at least this size. On a Xeon with 2 MiB for each core,
    /// two cores 140 ns apart, lent messages relative to copies: reduce_scatter takes 2.2x the time at 112 KiB, 2.1x at
    /// 144 KiB, 1.45x at 176 KiB; all_gather 1.28x, 1.2x and 0.9x. One of 16 reduce_scatter in flight takes 0.82x the
    /// time if it is lent (128 KiB).
    std::size_t large_own_cache_bytes = std::size_t{2} << 20;
    std::size_t copied_bytes_of_large_caches = std::size_t{176} << 10;
    /// And there, if a single message is folded: inclusive_scan takes 2.2x the time at 112 KiB, 1.35x at 256 KiB, 1.6x
    /// at 512 KiB, exclusive_scan 1.9x, 1.6x and 1.8x; one of 16 inclusive_scan in flight 0.8x, 0.87x and 0.93x.
    std::size_t folded_message_bytes_of_large_caches = std::size_t{512} << 10;
    /// Wherever all cores share a cache, if only one rank sends anything: broadcast takes 1.1x the time at 16 KiB,
    /// 0.81x at 32 KiB, 0.7x at 64 KiB, 0.65x from 96 to 256 KiB, 0.75x at 512 KiB and 1 MiB.
    std::size_t dealt_bytes_of_one_cache = std::size_t{32} << 10;
    /// Shared memory, two ranks, a single message whose length no other rank knows, and which is therefore sent in one
    /// piece: up to this size it is copied as well. permute on the Xeon above, copied relative to lent: 0.44x the time
    /// at 48 and 64 KiB, 0.75x from 128 to 512 KiB, 1.05x at 768 KiB, 1.4x at 1 MiB.
    std::size_t copied_message_bytes = std::size_t{256} << 10;
    /// With more ranks per core than this, one rank folds for all while operands are short, except if a message to all
    /// others is written only once: then a rank that waits for a single other one takes as many turns on a core as one
    /// that waits for all, and the rank that folds should run last, but does not (P = 8 on two cores, 8 B: 1.03 to 1.4
    /// context switches per call and rank, against 0.88 if every rank reads everything). In that case, slices relative
    /// to this, P = 8 on two cores: 0.9x the time at 32 KiB, 0.63x at 64 KiB, 0.69x at 128 KiB, 0.82x at 256 KiB. With
    /// messages in channels, it was 1.3 times faster than slices at 256 KiB. The more cores there are, the more of them
    /// are idle meanwhile, so the limit applies to bytes · processors². P = 3 and 4 on two cores: slower at any length.
    int flat_tree_ranks_a_processor = 2;
    std::size_t flat_tree_bytes = std::size_t{1} << 20;
    /// Scans in shared memory: above this many bytes, each rank folds a slice of all prefixes, which costs a second
    /// synchronisation and saves reading the operands of all lower ranks. P = 3, 4, 8 and 16 on two cores: the same
    /// time at 32 KiB; above that, where other schedules lend their messages, 1.2 to 1.4 times faster at 36 KiB (P = 3
    /// to 16), 1.8 to 2.4 times faster at 256 KiB.
    std::size_t scan_bytes = std::size_t{32} << 10;
    /// Two ranks: with slices, each writes half of what the other one has in its cache; otherwise, one message goes
    /// through memory of the transport. inclusive_scan, slices relative to that message: where cores share a cache,
    /// 1.3x the time at 256 KiB, 1.0x at 512 KiB, 0.8x at 1 MiB; where they do not, 2.4x to 2.6x.
    std::size_t pair_scan_bytes = std::size_t{512} << 10;
    /// Messages: up to this size fewer rounds win, above it less volume. P = 4 over Open MPI, 64 KiB: recursive
    /// doubling takes 59 us, ring 77 us.
    std::size_t latency_bytes = std::size_t{64} << 10;
    /// Two ranks: one exchange of the whole operand sends no more than two exchanges of halves. Over Open MPI and MPICH
    /// it is 1.1 to 1.4 times faster up to 32 KiB; two exchanges of halves are 1.1 to 1.6 times faster from 64 KiB on,
    /// and from 32 KiB on for compute-intensive operators (merges of softmax states: 1.2 times).
    std::size_t pair_bytes = std::size_t{32} << 10;
    /// Messages: up to this many ranks, a single round in which a rank sends to all others beats fewer messages in more
    /// rounds, if they are short. Over Open MPI, two cores: barrier takes 0.75x the time of dissemination at P = 3 and
    /// 4, 0.42x to 0.53x at P = 5 to 24; over MPICH 0.55x at P = 3, 0.82x at P = 4. all_to_all of up to 192 bytes per
    /// peer takes 0.4x the time of Bruck's at P = 8, 12 and 16, 0.5x at P = 24; of 256 bytes, which such a message has
    /// no room for, 1.15x, 1.4x, 1.8x and 1.0x.
    int one_round_ranks = 24;
    std::size_t one_round_block_bytes = 192;
    /// all_to_all by messages: up to this many bytes per peer, the fewest rounds win, although most of the data is sent
    /// several times. Time of Bruck's over Open MPI, two cores, relative to one round: 0.9x for 384 B to 1 KiB and 1.0x
    /// for 2 KiB at P = 8; 0.78x for 1 KiB and 1.6x for 4 KiB at P = 12; 0.56x for 384 B, 0.66x for 1 KiB and 1.0x for
    /// 3 KiB at P = 16. At P = 24, 1.1x for 384 B and 1.3x for 1 KiB.
    std::size_t bruck_bytes = 256;
    std::size_t bruck_bytes_of_few_ranks = 1024;
    /// The same, few ranks: up to this many bytes per peer, all messages at once; above, one partner at a time, which
    /// for 16 KiB takes 1.2x to 1.4x the time at P = 4, 8 and 16, for 32 KiB 1.05x to 1.15x, for 64 KiB 0.97x, 0.97x
    /// and 0.77x, and the same from 256 KiB on (Open MPI, two cores).
    std::size_t all_at_once_block_bytes = std::size_t{32} << 10;
    /// all_gather and reduce_scatter by messages, few ranks: up to this many bytes in all blocks together, a rank sends
    /// one message to each peer, all at once, since ranks that wait once for all peers wait least. Speedup over ring,
    /// Open MPI, two cores, P = 4, 8 and 16: 2.1, 3.5 and 5 at 32 to 64 B; 1.0 at 64 KiB, but 1.5 for P = 8. Speedup
    /// over a circulant graph: 1.5 to 1.9 at 32 B, 1.0 to 1.2 at 64 KiB, 0.8 to 1.0 at 128 KiB. Speedup over ring,
    /// MPICH, P = 4: 1.05 at 32 B, 1.2 at 16 KiB.
    std::size_t direct_bytes = std::size_t{64} << 10;
    /// By messages, blocks up to this size: as few rounds as possible at the least volume. Speedup of a circulant graph
    /// over ring, Open MPI, two cores: all_gather of blocks of 64 KiB, 1.25 at P = 4, 1.25 at P = 6, 2.1 at P = 8; of
    /// 128 KiB, which are lent, and are copied once more if several arrive in one message, 0.9 and (P = 8) 1.1; of 512
    /// KiB, 0.8. reduce_scatter of these: 1.4 and (P = 8) 2.0; 1.0 and 1.1; 1.0. all_reduce of 256 KiB: 1.3 (P = 4) and
    /// 1.45 (P = 8); of 4 MiB: 0.9 and 0.85. P = 16, blocks of 64 KiB: 2.5 and 2.2; of 256 KiB: 1.4 and 1.1. MPICH, P =
    /// 4, all_gather of blocks of 16 and 64 KiB: 1.3 and 1.1.
    std::size_t circulant_block_bytes = std::size_t{64} << 10;

    friend bool operator==(const choose_tuning&, const choose_tuning&) = default;
};

namespace detail {

inline constexpr choose_tuning tuned{};

/// Whether values are short compared with what an operator lifts them to; a value size of 0 means that there are none.
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
/// Whether ranks are oversubscribed, that is, share cores.
[[nodiscard]] constexpr bool is_oversubscribed(const problem& p) noexcept {
    return p.processors > 0 && p.size > p.processors;
}
/// Whether a rank can post what it has for all others in one go.
[[nodiscard]] constexpr bool is_posted_once(const problem& p) noexcept { return p.size > 2 && few_ranks(p); }
/// Whether one rank folds for all in an all_reduce, if messages cannot be posted in one go.
[[nodiscard]] constexpr bool one_of_many_folds_for_all(const problem& p) noexcept {
    return !is_posted_once(p) && one_folds_for_all(p);
}
/// The counterpart of `everyone_folds_all` for an all_reduce, whose operands are sent to all ranks.
[[nodiscard]] constexpr bool everyone_reads_all(const problem& p) noexcept {
    if (!is_oversubscribed(p)) return everyone_folds_all(p);
    return is_posted_once(p) ? p.bytes <= tuned.crowded_read_bytes / static_cast<std::size_t>(p.size)
                             : everyone_folds_all(p) && !one_folds_for_all(p);
}
/// Whether ranks lend each other blocks and fold them in a single pass, however short the blocks are.
[[nodiscard]] constexpr bool lends_short_blocks(const problem& p) noexcept {
    return is_oversubscribed(p) && is_posted_once(p) && p.bytes > tuned.crowded_copied_bytes;
}
[[nodiscard]] constexpr bool short_scan(const problem& p) noexcept {
    return p.bytes <= (p.size == 2 ? tuned.pair_scan_bytes : tuned.scan_bytes);
}
[[nodiscard]] constexpr bool few_bytes(const problem& p) noexcept {
    return p.bytes <= (p.size == 2 ? tuned.pair_bytes : tuned.latency_bytes);
}
[[nodiscard]] constexpr bool many_bytes(const problem& p) noexcept { return p.bytes > tuned.latency_bytes; }
/// Whether an operand that is cut into one block per rank has at most this many bytes in each, on average.
[[nodiscard]] constexpr bool has_blocks_up_to(const problem& p, std::size_t bytes) noexcept {
    return p.bytes <= bytes * static_cast<std::size_t>(p.size);
}
[[nodiscard]] constexpr bool ranks_for_one_round(const problem& p) noexcept { return p.size <= tuned.one_round_ranks; }
[[nodiscard]] constexpr bool short_blocks_for_one_round(const problem& p) noexcept {
    return ranks_for_one_round(p) && has_blocks_up_to(p, tuned.one_round_block_bytes);
}
[[nodiscard]] constexpr bool short_blocks_for_each(const problem& p) noexcept {
    return p.size >= 8 && p.equal_blocks &&
           has_blocks_up_to(p, few_ranks(p) ? tuned.bruck_bytes_of_few_ranks : tuned.bruck_bytes);
}
[[nodiscard]] constexpr bool blocks_for_all_at_once(const problem& p) noexcept {
    return few_bytes(p) || (ranks_for_one_round(p) && has_blocks_up_to(p, tuned.all_at_once_block_bytes));
}
[[nodiscard]] constexpr bool any_order(const problem& p) noexcept { return p.level == order::any; }
[[nodiscard]] constexpr bool few_bytes_of_few_ranks(const problem& p) noexcept {
    return few_ranks(p) && p.bytes <= tuned.direct_bytes;
}
/// Whether elements are sent as they are to the rank that folds them, each to one rank only: less data than any
/// schedule has to move in folded form.
[[nodiscard]] constexpr bool short_values_of_few_ranks(const problem& p) noexcept {
    return few_ranks(p) && p.short_values;
}
[[nodiscard]] inline bool has_large_own_caches() noexcept { return own_cache_bytes() >= tuned.large_own_cache_bytes; }
/// Two ranks that run at the same time, nothing is folded, and both may store what otherwise one would read: the most
/// that is copied instead. `is_dealt`: only one rank sends anything. For messages that would otherwise be lent, on the
/// Xeon of `pair_read_bytes`: broadcast takes 0.5x the time at 2 MiB, 0.73x at 4 and 16 MiB; gather 0.64x at 4 MiB,
/// 0.71x at 16 MiB; all_gather 0.78x at 2 MiB, 1.0x at 4 and 16 MiB. With streaming stores at 16 MiB: broadcast 0.92x,
/// gather 0.85x, all_gather 1.2x. Copied through windows instead: broadcast 0.81x at 2 MiB, 0.95x at 4 MiB; all_gather
/// 1.08x and 1.13x; all_to_all and reduce_scatter 1.2x to 1.3x.
[[nodiscard]] inline std::size_t most_copied_if_both_may_store(bool is_dealt) noexcept {
    if (has_groups_of_cores()) return tuned.copied_bytes;
    if (is_dealt) return tuned.dealt_bytes_of_one_cache;
    return has_large_own_caches() ? tuned.copied_bytes_of_large_caches : tuned.copied_bytes_of_one_cache;
}
/// The same if what a rank receives is folded. `blocks`: how many move.
[[nodiscard]] inline std::size_t most_copied_if_folded(int blocks) noexcept {
    const bool is_one_way = blocks == 1 && !has_groups_of_cores() && has_large_own_caches();
    return is_one_way ? tuned.folded_message_bytes_of_large_caches : detail::most_copied_if_both_may_store(false);
}
/// Whether each of two ranks moves half of the root's operand.
[[nodiscard]] inline bool is_dealt_between_two(const problem& p) noexcept {
    return p.size == 2 && p.processors >= 2 && p.bytes > detail::most_copied_if_both_may_store(true);
}
/// For an operand that is cut into one block per rank: whether blocks are short on average.
[[nodiscard]] constexpr bool short_blocks(const problem& p) noexcept {
    return has_blocks_up_to(p, tuned.circulant_block_bytes);
}
[[nodiscard]] constexpr bool short_blocks_in_any_order(const problem& p) noexcept {
    return any_order(p) && short_blocks(p);
}

/// How many blocks move between the two ranks.
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

/// Whether both of two ranks store, in one pass, what otherwise one would read; if so, it is lent. `block_bytes`: the
/// length of the longest block.
template <class Comm>
[[nodiscard]] bool both_store(const Comm& comm, const any_schedule& schedule, bool folds, std::size_t block_bytes) {
    if (!Comm::shares_memory || folds || schedule.size() != 2 || comm.processors() < 2 || !fused_pass_of(schedule))
        return false;
    const std::size_t bytes = static_cast<std::size_t>(blocks_moved(schedule)) * block_bytes;
    return bytes > detail::most_copied_if_both_may_store(schedule.rounds() > 1) && comm.lends(bytes, true);
}

/// For messages that would be lent: the length of the windows in which they go through memory of the transport instead;
/// 0 if they are lent. `block_bytes`: the length of the longest block.
[[nodiscard]] inline std::size_t copied_window(const any_schedule& schedule, bool folds, int processors,
                                               std::size_t block_bytes) {
    if (schedule.size() != 2 || processors < 2) return 0;
    if (const auto pass = folds ? fused_pass_of(schedule) : std::nullopt) {
        const std::size_t most =
            has_groups_of_cores() ? tuned.copied_block_bytes : tuned.copied_block_bytes_of_one_cache;
        const bool copies = schedule.in_place && pass->each == share::fold && block_bytes <= most;
        return copies ? block_bytes : 0;
    }
    const int blocks = blocks_moved(schedule);
    const std::size_t most = folds ? most_copied_if_folded(blocks) : tuned.copied_bytes;
    const bool copies = block_bytes <= most && static_cast<std::size_t>(blocks) * block_bytes <= most;
    return copies ? std::min(block_bytes, tuned.copied_window_bytes) : 0;
}

/// The same for a message whose length is known only to the two ranks that exchange it.
[[nodiscard]] constexpr bool copies_whole(int size, int processors, std::size_t bytes) noexcept {
    return size == 2 && processors >= 2 && bytes <= tuned.copied_message_bytes;
}

/// Makes a schedule for any setting: that of a collective's candidate, or that of the algorithm the caller names.
struct schedule_maker {
    any_schedule (*make)(const setting& where, const void* algorithm);
    bool (*supports)(int size, int group);
    std::uint64_t (*algorithm_hash)() noexcept;  ///< without parameters
    order keeps;
    bool grouped;
    bool equal_blocks;  ///< it needs them
    const char* name;
};

template <class S, class Algorithm>
inline constexpr schedule_maker maker_of{
    [](const setting& where, const void* algorithm) {
        return any_schedule(make_schedule<S>(where, *static_cast<const Algorithm*>(algorithm)), Algorithm::name);
    },
    [](int size, int group) { return supports<S>(size, group); },
    type_hash<Algorithm>,
    S::keeps,
    grouped_schedule<S>,
    needs_equal_blocks<S>,
    Algorithm::name};

/// The same for algorithms without parameters.
template <class S>
inline constexpr schedule_maker plain_maker_of{
    [](const setting& where, const void*) { return any_schedule(S(where), S::algorithm::name); },
    [](int size, int group) { return supports<S>(size, group); },
    type_hash<typename S::algorithm>,
    S::keeps,
    grouped_schedule<S>,
    needs_equal_blocks<S>,
    S::algorithm::name};

}  // namespace detail

/// A schedule that `choose` may pick, when that is a good idea, and why.
struct candidate {
    const detail::schedule_maker* schedule;
    bool (*when)(const problem&);
    const char* why;
};

/// A candidate that makes the schedule S.
template <schedule S>
[[nodiscard]] constexpr candidate when(bool (*condition)(const problem&), const char* why) noexcept {
    return {&detail::plain_maker_of<S>, condition, why};
}

namespace detail {

/// The first candidate that provides the order, exists for this many ranks, and whose condition holds.
[[nodiscard]] inline const candidate* choose(std::span<const candidate> candidates, const problem& p, int group,
                                             bool folds) noexcept {
    for (const candidate& each : candidates)
        if ((!folds || each.schedule->keeps >= p.level) && each.when(p) && each.schedule->supports(p.size, group))
            return &each;
    return nullptr;
}

}  // namespace detail
}  // namespace allfold
