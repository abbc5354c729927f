// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "allfold/analysis/proof.hpp"
#include "allfold/schedule/canonical_tree.hpp"
#include "allfold/schedule/contract.hpp"

/// @file
/// What the prover computes with instead of data: values that name the block, and the ranks of the operands, that they
/// are made of. With no ranks, a value is the identity. `item` is the block of the operands; -1: there is no value.

namespace allfold::detail {

/// Consecutive ranks [low, high), for schedules that keep rank order.
struct rank_interval {
    int low = 0;
    int high = 0;
    int item = -1;

    [[nodiscard]] static constexpr rank_interval of(const content& c) noexcept {
        return c.first == c.last ? rank_interval{0, 0, c.item} : rank_interval{c.first, c.last, c.item};
    }
    [[nodiscard]] constexpr bool is_identity() const noexcept { return low == high; }
    [[nodiscard]] constexpr ranks_held held() const noexcept { return {low, high, high - low, item}; }
    friend constexpr bool operator==(const rank_interval& a, const rank_interval& b) noexcept {
        return a.low == b.low && a.high == b.high && a.item == b.item;
    }

    /// left ∘ right, if `why_not` finds no fault.
    [[nodiscard]] static constexpr rank_interval join(const rank_interval& left, const rank_interval& right) noexcept {
        return left.low == left.high     ? right
               : right.low == right.high ? left
                                         : rank_interval{left.low, right.high, left.item};
    }
    [[nodiscard]] static constexpr fault why_not(const rank_interval& left, const rank_interval& right) noexcept {
        return left.item != right.item                            ? fault::other_block
               : left.low == left.high || right.low == right.high ? fault::none
               : left.low < right.high && right.low < left.high   ? fault::repeated
               : left.high != right.low                           ? fault::out_of_order
                                                                  : fault::none;
    }
    /// Whether the canonical tree of these operands contains the fold left ∘ right.
    [[nodiscard]] static constexpr bool is_node(const rank_interval& left, const rank_interval& right,
                                                const content& operands) noexcept {
        const int first = operands.first;
        return left.is_identity() || right.is_identity() ||
               canonical_cut(operands.last - first, left.low - first, right.high - first) == left.high - first;
    }
};

/// Any ranks below 64·Words, for schedules that need a commutative operator.
template <int Words>
struct rank_set {
    std::uint64_t bits[std::size_t{Words}]{};
    int item = -1;

    [[nodiscard]] static constexpr rank_set of(const content& c) noexcept {
        rank_set set{.item = c.item};
        if (c.first == c.last) return set;
        if (c.first + 1 == c.last) {
            set.bits[c.first / 64] = std::uint64_t{1} << c.first % 64;
            return set;
        }
        for (int i = c.first / 64; i <= (c.last - 1) / 64; ++i)
            set.bits[i] = below(c.last - 64 * i) & ~below(c.first - 64 * i);
        return set;
    }
    [[nodiscard]] constexpr bool is_identity() const noexcept { return held().count == 0; }
    [[nodiscard]] constexpr ranks_held held() const noexcept {
        ranks_held ranks{.item = item};
        for (int i = 0; i < Words; ++i) {
            if (bits[i] == 0) continue;
            if (ranks.count == 0) ranks.low = 64 * i + std::countr_zero(bits[i]);
            ranks.high = 64 * (i + 1) - std::countl_zero(bits[i]);
            ranks.count += std::popcount(bits[i]);
        }
        return ranks;
    }
    friend constexpr bool operator==(const rank_set& a, const rank_set& b) noexcept {
        for (int i = 0; i < Words; ++i)
            if (a.bits[i] != b.bits[i]) return false;
        return a.item == b.item;
    }

    [[nodiscard]] static constexpr rank_set join(const rank_set& left, const rank_set& right) noexcept {
        rank_set both = left;
        for (int i = 0; i < Words; ++i) both.bits[i] |= right.bits[i];
        return both;
    }
    [[nodiscard]] static constexpr fault why_not(const rank_set& left, const rank_set& right) noexcept {
        if (left.item != right.item) return fault::other_block;
        for (int i = 0; i < Words; ++i)
            if (left.bits[i] & right.bits[i]) return fault::repeated;
        return fault::none;
    }
    [[nodiscard]] static constexpr bool is_node(const rank_set&, const rank_set&, const content&) noexcept {
        return true;
    }

  private:
    [[nodiscard]] static constexpr std::uint64_t below(int n) noexcept {
        return n <= 0 ? 0 : n >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << n) - 1;
    }
};

/// Ranks together with their bracketing, as a hash of the tree: values that were folded differently have different
/// hashes. Folding with the identity leaves the hash unchanged.
template <class Ranks>
struct bracketed : Ranks {
    std::uint64_t tree = 0;

    [[nodiscard]] static constexpr bracketed of(const content& c) noexcept {
        return {Ranks::of(c), c.first == c.last ? 0 : static_cast<std::uint64_t>(c.first) + 1};
    }
    [[nodiscard]] static constexpr bracketed join(const bracketed& left, const bracketed& right) noexcept {
        return {Ranks::join(left, right),
                left.tree == 0    ? right.tree
                : right.tree == 0 ? left.tree
                                  : hash(left.tree * 0x9E3779B97F4A7C15U + right.tree * 0xC2B2AE3D27D4EB4FU)};
    }

  private:
    [[nodiscard]] static constexpr std::uint64_t hash(std::uint64_t sum) noexcept {
        return ((sum >> 29) ^ sum) * 0xBF58476D1CE4E5B9U;
    }
};

}  // namespace allfold::detail
