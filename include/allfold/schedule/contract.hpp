// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <compare>
#include <cstdint>

/// @file
/// What a schedule may promise: which collective it performs, and in which order it folds.

namespace allfold {

/// The collectives, by what rank r holds afterwards of the operands x0 ... x(P-1).
enum class collective : std::uint8_t {
    barrier,         ///< nothing, but every rank has heard of every other
    broadcast,       ///< the root's operand
    reduce,          ///< at the root the fold of all operands, elsewhere nothing
    all_reduce,      ///< the fold of all operands
    reduce_scatter,  ///< block r of the fold of all operands
    all_gather,      ///< every rank's block, block b from rank b
    inclusive_scan,  ///< x0 ∘ ... ∘ xr
    exclusive_scan,  ///< x0 ∘ ... ∘ x(r-1); nothing at rank 0
};

/// Order as a contract, weakest first: each level includes the ones before it.
///
/// | level  | promise                                                                                          |
/// |--------|--------------------------------------------------------------------------------------------------|
/// | `any`  | needs a commutative operator; order and bracketing are fixed by (P, schedule, position)            |
/// | `rank` | x0 ∘ x1 ∘ ... ∘ x(P-1) in this order, any bracketing                                               |
/// | `tree` | rank order and one bracketing, the `canonical_tree` of P, whatever the schedule, size or position  |
///
/// In a scan the operands of `rank` and `tree` are those of each rank's prefix.
///
/// Each level is a constant of its own type, so that `all_reduce(comm, x, op, order::tree)` is checked when it is
/// compiled.
class order {
  public:
    template <int Level>
    struct constant {
        constexpr operator order() const noexcept { return order(Level); }
    };
    static constexpr constant<0> any{};
    static constexpr constant<1> rank{};
    static constexpr constant<2> tree{};

    [[nodiscard]] constexpr int level() const noexcept { return level_; }
    friend constexpr bool operator==(order a, order b) noexcept { return a.level_ == b.level_; }
    friend constexpr auto operator<=>(order a, order b) noexcept { return a.level_ <=> b.level_; }

  private:
    constexpr explicit order(int level) noexcept : level_(level) {}
    int level_;
};

[[nodiscard]] constexpr const char* name_of(collective c) noexcept {
    constexpr const char* names[] = {"barrier",        "broadcast",  "reduce",         "all_reduce",
                                     "reduce_scatter", "all_gather", "inclusive_scan", "exclusive_scan"};
    return names[static_cast<int>(c)];
}

[[nodiscard]] constexpr const char* name_of(order o) noexcept {
    constexpr const char* names[] = {"any", "rank", "tree"};
    return names[o.level()];
}

/// Whether a collective folds operands at all (the others only move them).
[[nodiscard]] constexpr bool folds(collective c) noexcept {
    return c != collective::barrier && c != collective::broadcast && c != collective::all_gather;
}

/// Whether rank r holds `block` of the operand beforehand.
[[nodiscard]] constexpr bool has_input(collective c, int rank, int block, int root) noexcept {
    if (c == collective::broadcast) return rank == root;
    if (c == collective::all_gather) return rank == block;
    return c != collective::barrier;
}

/// Whether rank r holds `block` of the result afterwards.
[[nodiscard]] constexpr bool has_result(collective c, int rank, int block, int root) noexcept {
    if (c == collective::reduce) return rank == root;
    if (c == collective::reduce_scatter) return rank == block;
    if (c == collective::exclusive_scan) return rank > 0;
    return c != collective::barrier;
}

}  // namespace allfold
