// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <bit>

#include "allfold/schedule/detail/doubling.hpp"
#include "allfold/schedule/schedule_of.hpp"

/// @file
/// Mirrored doubling: recursive doubling with mirrored partners, r ^ 1, r ^ 3, r ^ 7, ...
///
///     P = 4     round 0     round 1
///     rank 0    ◄─┐ 01      ◄─┐ 0..3
///          1    ◄─┘ 01      ◄─│┐ 0..3
///          2    ◄─┐ 23      ◄─│┘ 0..3
///          3    ◄─┘ 23      ◄─┘ 0..3
///
/// For four ranks on a ring 0-1-2-3-0: both partners are neighbours, 0-1 and 2-3, then 1-2 and 3-0, whereas recursive
/// doubling would need two hops in its second round. At larger P the pairs of round k are 1, 3, ..., 2^(k+1) - 1 apart:
/// 2^k on average, as in recursive doubling. Only the last round gains: half of its pairs are joined around the end of
/// the ring, so that no message travels further than P/2 - 1 and the average is P/4 instead of P/2.
///
/// With m bytes: log2 P rounds, in each of which a rank sends m and folds m. Only for powers of two. The value of the
/// lower rank always goes on the left, so rank order is kept and all ranks use the same bracketing: the canonical tree.
///
/// Source: reduce-to-all over a ring of four devices, as used for partial attention results; the mirrored partners for
/// P > 4 are our extension.

namespace allfold {

/// For four devices on a ring.
struct mirrored_doubling {
    static constexpr const char* name = "mirrored doubling";

    class all_reduce : public schedule_of<mirrored_doubling> {
      public:
        static constexpr order keeps = order::tree;
        static constexpr int scratch_slots = 2;
        [[nodiscard]] static constexpr bool supports(int size) noexcept {
            return size > 0 && std::has_single_bit(static_cast<unsigned>(size));
        }

        using schedule_of::schedule_of;
        [[nodiscard]] constexpr int blocks() const noexcept { return 1; }
        [[nodiscard]] constexpr int rounds() const noexcept { return detail::ceil_log2(size()); }
        [[nodiscard]] constexpr step operator[](int round) const noexcept {
            return detail::exchange(rank(), rank() ^ ((2 << round) - 1), round, rounds());
        }
    };
};

}  // namespace allfold
