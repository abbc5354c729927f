// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <compare>

/// @file
/// What a collective promises, as a value: which blocks each rank has before and after, made of whose operands, folded
/// in which order. The contract of each collective is in that collective's own file; the prover, the engine, pictures
/// and error messages consult it.

namespace allfold {

/// Where a schedule runs, as one rank sees it.
struct setting {
    int rank = 0;
    int size = 1;   ///< number of ranks
    int root = 0;   ///< of a rooted collective; in a permutation, the destination of rank 0's operand
    int group = 1;  ///< this many consecutive ranks share memory, and only the first communicates with other groups
    /// In a permutation: the destination of each rank's operand. Null: each operand moves up by `root` ranks, modulo P.
    const int* destinations = nullptr;

    /// The same setting as seen by another rank.
    [[nodiscard]] constexpr setting at(int other) const noexcept { return {other, size, root, group, destinations}; }
    /// In a permutation: the rank that gets the operand of rank `other`, and the rank whose operand `other` gets.
    [[nodiscard]] constexpr int destination_of(int other) const noexcept {
        return destinations != nullptr ? destinations[other] : (other + root) % size;
    }
    [[nodiscard]] constexpr int origin_of(int other) const noexcept {
        if (destinations == nullptr) return (other - root + size) % size;
        int origin = 0;
        while (destinations[origin] != other) ++origin;
        return origin;
    }
    friend constexpr bool operator==(const setting&, const setting&) = default;
};

/// The levels of order that a collective can promise, weakest first: each level includes the ones before it.
///
/// | level    | promise                                                                                            |
/// |----------|----------------------------------------------------------------------------------------------------|
/// | `any`    | needs a commutative operator; order and bracketing are fixed by (P, schedule, position)            |
/// | `rank`   | x0 ∘ x1 ∘ ... ∘ x(P-1) in this order, any bracketing                                               |
/// | `tree`   | rank order and one bracketing, the `canonical_tree` of P, whatever the schedule, size or position  |
/// | `global` | the same bits for every P too: with an exact operator, or on the elements of a `distributed` array |
///
/// In a scan, `rank` and `tree` apply to the operands of each rank's prefix. With `-ffast-math` the compiler may
/// bracket sums differently, whatever the level; exact operators such as `exact_sum` are not affected.
///
/// Each level is a constant of its own type, so that `all_reduce(comm, x, op, order::tree)` is checked at compile time.
class order {
  public:
    /// The type of `order::any`, `order::rank`, `order::tree` and `order::global`; converts to `order`.
    template <int Level>
    struct constant {
        constexpr operator order() const noexcept { return order(Level); }
    };
    static constexpr constant<0> any{};
    static constexpr constant<1> rank{};
    static constexpr constant<2> tree{};
    static constexpr constant<3> global{};

    [[nodiscard]] constexpr int level() const noexcept { return level_; }
    [[nodiscard]] static constexpr order of_level(int level) noexcept { return order(level); }
    friend constexpr bool operator==(order a, order b) noexcept { return a.level_ == b.level_; }
    friend constexpr auto operator<=>(order a, order b) noexcept { return a.level_ <=> b.level_; }

  private:
    constexpr explicit order(int level) noexcept : level_(level) {}
    int level_;
};

/// "any", "rank", "tree" or "global".
[[nodiscard]] constexpr const char* name_of(order o) noexcept {
    constexpr const char* names[] = {"any", "rank", "tree", "global"};
    return names[o.level()];
}

/// What a block holds: block `item` of the operands of the ranks [first, last), folded; for no ranks, the identity.
struct content {
    int item = -1;  ///< -1: this rank has no such block
    int first = 0;
    int last = 0;

    [[nodiscard]] constexpr bool exists() const noexcept { return item >= 0; }
    /// Block `item` of the operand of one rank.
    [[nodiscard]] static constexpr content of(int rank, int item) noexcept { return {item, rank, rank + 1}; }
    friend constexpr bool operator==(const content&, const content&) = default;
};

/// What the operand of a collective is cut for.
enum class cut_for {
    nobody,    ///< there is no data
    schedule,  ///< the schedule cuts it into as many blocks as it likes
    ranks,     ///< block r belongs to rank r; the caller may choose the length of each block
    pairs,     ///< block r of rank s is sent to rank r, where it is block s; each rank has its own lengths
    owner,     ///< not cut: the operand of each rank is one block, with a length of its own
};

/// The contract of a collective: what rank `where.rank` has before the call and after it.
struct contract {
    const char* name;
    cut_for cut = cut_for::schedule;
    bool folds = false;         ///< operands are folded, not just moved
    bool rooted = false;        ///< it depends on `where.root`
    bool synchronises = false;  ///< no rank leaves before every rank has entered
    content (*input)(const setting& where, int block) = nullptr;
    content (*result)(const setting& where, int block) = nullptr;
};

}  // namespace allfold
