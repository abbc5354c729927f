// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <string>

#include "allfold/engine/options.hpp"
#include "allfold/schedule/all_read.hpp"
#include "allfold/schedule/binomial.hpp"
#include "allfold/schedule/direct.hpp"
#include "allfold/schedule/dissemination.hpp"
#include "allfold/schedule/flat_tree.hpp"
#include "allfold/schedule/halving.hpp"
#include "allfold/schedule/recursive_doubling.hpp"
#include "allfold/schedule/ring.hpp"
#include "allfold/schedule/two_level.hpp"

/// @file
/// Picks the schedule where the caller names none.

namespace allfold {

/// What the choice depends on, besides the laws.
struct problem {
    int size = 1;           ///< ranks
    std::size_t bytes = 0;  ///< of the whole operand at one rank
    int processors = 0;     ///< that the ranks share; 0 when that is not known
};

/// The numbers of the chooser, with what was measured for each.
struct choose_tuning {
    /// Shared memory: everyone folds everything while that is less than this many bytes a rank; every rank's slice of
    /// the work costs a second synchronisation. P = 2: 32 KiB, P = 4: 16 KiB, P = 8: 8 KiB (two cores).
    std::size_t all_read_bytes = std::size_t{64} << 10;
    /// More ranks a processor than this: one rank folds for all, while operands are short. P = 6 to 16 on two
    /// cores: 1.3 to 4 times faster than all-read, 1.3 times faster than slices at 256 KiB. With more processors more
    /// of them would idle meanwhile, so the limit is of bytes · processors². P = 3 and 4 on two cores: slower at any
    /// length.
    int flat_tree_crowd = 2;
    std::size_t flat_tree_bytes = std::size_t{1} << 20;
    /// Messages: up to here fewer rounds win, above it less volume. P = 4 over Open MPI, 64 KiB: recursive doubling 59
    /// us, ring 77.
    std::size_t latency_bytes = std::size_t{64} << 10;
    /// Two ranks: one exchange of the whole sends no more than two of halves. Over Open MPI and MPICH 1.2 to 1.9 times
    /// faster up to 256 KiB, even at 512; above, halves are folded while others travel.
    std::size_t pair_bytes = std::size_t{512} << 10;

    friend bool operator==(const choose_tuning&, const choose_tuning&) = default;
};

namespace detail {

inline constexpr choose_tuning tuned{};

[[nodiscard]] constexpr bool everyone_folds_all(const problem& p) noexcept {
    return p.bytes * static_cast<std::size_t>(p.size) <= tuned.all_read_bytes;
}

[[nodiscard]] constexpr bool one_folds_for_all(const problem& p) noexcept {
    const auto processors = static_cast<std::size_t>(p.processors);
    return p.processors > 0 && p.size > tuned.flat_tree_crowd * p.processors &&
           p.bytes * processors * processors <= tuned.flat_tree_bytes;
}

/// Calls use<Schedule>(reason). `Shared` says that ranks share memory, `Rotates` that a rotating order is allowed,
/// `OneTree` that only the canonical bracketing is.
template <collective Goal, bool Shared, bool Rotates, bool OneTree, class Use>
decltype(auto) choose(const problem& p, Use&& use) {
    const bool small = p.bytes <= (p.size == 2 ? tuned.pair_bytes : tuned.latency_bytes);
    if constexpr (Goal == collective::barrier) {
        if (Shared && one_folds_for_all(p))
            return use.template operator()<flat_tree::barrier>("several ranks a processor: the fewest messages");
        if (Shared && p.size <= 16) return use.template operator()<all_read::barrier>("few ranks: one round of flags");
        return use.template operator()<dissemination::barrier>("the fewest rounds for many ranks");
    } else if constexpr (Goal == collective::broadcast) {
        if (Shared)
            return use.template operator()<direct::broadcast>("shared memory: everyone reads the root's operand");
        return use.template operator()<binomial::broadcast>("the fewest rounds");
    } else if constexpr (Goal == collective::reduce) {
        if constexpr (Shared) {
            if (everyone_folds_all(p))
                return use.template operator()<all_read::reduce>("small: the root reads all operands in one round");
            return use.template operator()<direct::reduce>("large, shared memory: each rank folds one slice");
        } else {
            return use.template operator()<binomial::reduce>("the fewest rounds, in rank order");
        }
    } else if constexpr (Goal == collective::all_reduce) {
        if constexpr (Shared) {
            if (one_folds_for_all(p))
                return use.template operator()<flat_tree::all_reduce>(
                    "small, several ranks a processor: the fewest messages");
            if (everyone_folds_all(p))
                return use.template operator()<all_read::all_reduce>("small: one round, everyone folds all operands");
            return use.template operator()<direct::all_reduce>(
                "large, shared memory: each rank folds one slice, every byte is read and written once");
        } else {
            if (small) return use.template operator()<recursive_doubling::all_reduce>("small: the fewest rounds");
            if constexpr (Rotates)
                return use.template operator()<ring::all_reduce>("large and commutative: the least volume");
            else
                return use.template operator()<halving::all_reduce>("large: the least volume in rank order");
        }
    } else if constexpr (Goal == collective::reduce_scatter) {
        if constexpr (Shared)
            return use.template operator()<direct::reduce_scatter>("shared memory: each rank reads its block of all");
        else if constexpr (Rotates)
            return use.template operator()<ring::reduce_scatter>("commutative: the least volume");
        else
            return use.template operator()<halving::reduce_scatter>("the least volume in rank order");
    } else if constexpr (Goal == collective::all_gather) {
        if constexpr (Shared)
            return use.template operator()<direct::all_gather>("shared memory: everyone reads every block");
        else
            return use.template operator()<ring::all_gather>("the least volume");
    } else if constexpr (Goal == collective::inclusive_scan) {
        if (OneTree || (Shared && everyone_folds_all(p)))
            return use.template operator()<all_read::inclusive_scan>(
                OneTree ? "one bracketing: everyone folds its prefix" : "small: one round, everyone folds its prefix");
        if constexpr (!OneTree)
            return use.template operator()<dissemination::inclusive_scan>("the fewest rounds, one fold in each");
    } else {
        if (OneTree || (Shared && everyone_folds_all(p)))
            return use.template operator()<all_read::exclusive_scan>(
                OneTree ? "one bracketing: everyone folds its prefix" : "small: one round, everyone folds its prefix");
        if constexpr (!OneTree)
            return use.template operator()<dissemination::exclusive_scan>("the fewest rounds for every P");
    }
}

/// The same for threads within processes: memory inside of a group, and messages between the first ones of groups.
template <collective Goal, class Use>
decltype(auto) choose_in_levels(const problem& p, Use&& use) {
    if constexpr (Goal == collective::all_reduce)
        if (p.bytes > tuned.latency_bytes)
            return use.template operator()<two_level_halving::all_reduce>(
                "large, threads within processes: two levels, the least volume between processes");
    return use.template operator()<typename schedule_in<two_level, Goal>::type>(
        "threads within processes: two levels, the fewest rounds between processes");
}

}  // namespace detail
}  // namespace allfold
