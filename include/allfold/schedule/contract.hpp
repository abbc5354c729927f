// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <compare>

/// @file
/// What a collective promises, as a value: who has which blocks before and after, made of whose operands, folded in
/// which order. The contract of each collective stands in that collective's own file; prover, engine, pictures and
/// error messages ask it.

namespace allfold {

/// Where a schedule runs, as one rank sees it.
struct setting {
    int rank = 0;
    int size = 1;   ///< number of ranks
    int root = 0;   ///< of a collective that has one; in a permutation, where the operand of rank 0 goes
    int group = 1;  ///< so many consecutive ranks share memory, and only the first of them talks to other groups
    /// Of a permutation: where the operand of each rank goes. Null: as far above it as `root` is above rank 0.
    const int* destinations = nullptr;

    /// The same as another rank sees it.
    [[nodiscard]] constexpr setting at(int other) const noexcept { return {other, size, root, group, destinations}; }
    /// In a permutation: where the operand of a rank goes, and whose comes to it.
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

/// Order as a contract, weakest first: each level includes the ones before it.
///
/// | level    | promise                                                                                            |
/// |----------|----------------------------------------------------------------------------------------------------|
/// | `any`    | needs a commutative operator; order and bracketing are fixed by (P, schedule, position)            |
/// | `rank`   | x0 ∘ x1 ∘ ... ∘ x(P-1) in this order, any bracketing                                               |
/// | `tree`   | rank order and one bracketing, the `canonical_tree` of P, whatever the schedule, size or position  |
/// | `global` | the same bits for every P too: of an exact operator, or of the elements of a `distributed` array   |
///
/// In a scan the operands of `rank` and `tree` are those of each rank's prefix.
///
/// Each level is a constant of its own type, so that `all_reduce(comm, x, op, order::tree)` is checked when it is
/// compiled.
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

/// What a block holds: block `item` of the operands of the ranks [first, last), folded; of no ranks, the identity.
struct content {
    int item = -1;  ///< -1: there is no such block at this rank
    int first = 0;
    int last = 0;

    [[nodiscard]] constexpr bool exists() const noexcept { return item >= 0; }
    /// Block `item` of the operand of one rank.
    [[nodiscard]] static constexpr content of(int rank, int item) noexcept { return {item, rank, rank + 1}; }
    friend constexpr bool operator==(const content&, const content&) = default;
};

/// For whom the operand of a collective is cut into blocks.
enum class cut_for {
    nobody,    ///< there is no data
    schedule,  ///< a schedule cuts it into as many blocks as it likes
    ranks,     ///< block r belongs to rank r; the caller may say how long each of them is
    pairs,     ///< block r of rank s goes to rank r, where it is block s; each rank has lengths of its own
    owner,     ///< it is not cut: the operand of each rank is one block, of a length of its own
};

/// The contract of a collective: what rank `where.rank` has beforehand, and what it has afterwards.
struct contract {
    const char* name;
    cut_for cut = cut_for::schedule;
    bool folds = false;   ///< operands are folded, and not only moved
    bool rooted = false;  ///< it depends on `where.root`
    bool meets = false;   ///< nobody is through before everybody has come
    content (*input)(const setting& where, int block) = nullptr;
    content (*result)(const setting& where, int block) = nullptr;
};

}  // namespace allfold
