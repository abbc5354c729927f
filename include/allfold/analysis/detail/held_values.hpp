// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "allfold/analysis/proof.hpp"
#include "allfold/schedule/canonical_tree.hpp"

/// @file
/// What the prover computes with in place of data: the ranks whose operands a value is made of.

namespace allfold::detail {

/// Consecutive ranks [low, high), for schedules that keep rank order.
struct rank_interval {
    int low = 0;
    int high = 0;

    [[nodiscard]] static constexpr rank_interval of(int first, int last) noexcept { return {first, last}; }
    [[nodiscard]] constexpr bool empty() const noexcept { return low == high; }
    [[nodiscard]] constexpr ranks_held held() const noexcept { return {low, high, high - low}; }
    friend constexpr bool operator==(const rank_interval&, const rank_interval&) = default;

    /// left ∘ right, if `why_not` has found nothing.
    [[nodiscard]] static constexpr rank_interval join(const rank_interval& left, const rank_interval& right) noexcept {
        return {left.low, right.high};
    }
    [[nodiscard]] static constexpr fault why_not(const rank_interval& left, const rank_interval& right, order keeps,
                                                 int size) noexcept {
        if (left.low < right.high && right.low < left.high) return fault::repeated;
        if (left.high != right.low) return fault::out_of_order;
        if (keeps == order::tree && canonical_cut(size, left.low, right.high) != left.high) return fault::bracketing;
        return fault::none;
    }
};

/// Any ranks below 64·Words, for schedules that need a commutative operator.
template <int Words>
struct rank_set {
    std::uint64_t bits[Words]{};

    [[nodiscard]] static constexpr rank_set of(int first, int last) noexcept {
        rank_set set;
        for (int i = 0; i < Words; ++i) set.bits[i] = below(last - 64 * i) & ~below(first - 64 * i);
        return set;
    }
    [[nodiscard]] constexpr bool empty() const noexcept {
        for (const std::uint64_t word : bits)
            if (word != 0) return false;
        return true;
    }
    [[nodiscard]] constexpr ranks_held held() const noexcept {
        ranks_held ranks;
        for (int i = 0; i < Words; ++i) {
            if (bits[i] == 0) continue;
            if (ranks.count == 0) ranks.low = 64 * i + std::countr_zero(bits[i]);
            ranks.high = 64 * (i + 1) - std::countl_zero(bits[i]);
            ranks.count += std::popcount(bits[i]);
        }
        return ranks;
    }
    friend constexpr bool operator==(const rank_set&, const rank_set&) = default;

    [[nodiscard]] static constexpr rank_set join(const rank_set& left, const rank_set& right) noexcept {
        rank_set both;
        for (int i = 0; i < Words; ++i) both.bits[i] = left.bits[i] | right.bits[i];
        return both;
    }
    [[nodiscard]] static constexpr fault why_not(const rank_set& left, const rank_set& right, order, int) noexcept {
        for (int i = 0; i < Words; ++i)
            if (left.bits[i] & right.bits[i]) return fault::repeated;
        return fault::none;
    }

  private:
    [[nodiscard]] static constexpr std::uint64_t below(int n) noexcept {
        return n <= 0 ? 0 : n >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << n) - 1;
    }
};

}  // namespace allfold::detail
