// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/analysis/prove.hpp"
#include "allfold/collective/inclusive_scan.hpp"
#include "allfold/schedule/direct.hpp"

/// @file
/// Schedules that the prover must refuse: those of the library with a step that is changed, and others step by step.

namespace test {

/// A schedule with a bug: `edit(rank, round, step)` changes its steps.
template <class S, class Edit>
class edited {
  public:
    static constexpr allfold::order keeps = S::keeps;
    static constexpr int scratch_slots = S::scratch_slots;
    static constexpr bool in_place = S::in_place;

    constexpr edited(const S& original, Edit edit) : original_(original), edit_(edit) {}
    static constexpr bool equal_blocks = allfold::needs_equal_blocks<S>;

    [[nodiscard]] constexpr const allfold::setting& where() const { return original_.where(); }
    [[nodiscard]] constexpr int blocks() const { return original_.blocks(); }
    [[nodiscard]] constexpr int rounds() const { return original_.rounds(); }
    [[nodiscard]] constexpr allfold::step operator[](int round) const {
        allfold::step s = original_[round];
        edit_(where().rank, round, s);
        return s;
    }

  private:
    S original_;
    Edit edit_;
};

template <class Collective, class Algorithm, class Edit>
constexpr allfold::proof prove_edited(const Collective&, const Algorithm& algorithm, int size, Edit edit,
                                      allfold::claim claimed) {
    using S = allfold::schedule_in<Collective, Algorithm>;
    return allfold::prove(
        size, [=](int r) { return edited<S, Edit>(allfold::make_schedule<S>(claimed.at(r, size), algorithm), edit); },
        claimed);
}
template <class Collective, class Algorithm, class Edit>
constexpr allfold::proof prove_edited(const Collective& what, const Algorithm& algorithm, int size, Edit edit) {
    return prove_edited(what, algorithm, size, edit, claim_of(what, algorithm));
}

/// A direct inclusive_scan with a bug.
template <class Edit>
class edited_scan : public allfold::direct::inclusive_scan {
  public:
    constexpr edited_scan(const allfold::setting& where, Edit edit) : inclusive_scan(where), edit_(edit) {}
    [[nodiscard]] constexpr allfold::step operator[](int round) const {
        allfold::step s = inclusive_scan::operator[](round);
        edit_(rank(), round, s);
        return s;
    }

  private:
    Edit edit_;
};

template <class Edit>
allfold::proof prove_scan(int size, Edit edit) {
    return allfold::prove(
        size, [=](int r) { return edited_scan<Edit>({r, size}, edit); },
        claim_of(allfold::inclusive_scan, allfold::direct{}));
}

/// A schedule whose steps `steps(rank, round)` returns.
template <class Steps>
class written {
  public:
    static constexpr allfold::order keeps = allfold::order::rank;
    static constexpr int scratch_slots = 2;
    static constexpr bool in_place = false;

    constexpr written(int rank, int size, int blocks, int rounds, Steps steps)
        : where_{rank, size}, blocks_(blocks), rounds_(rounds), steps_(steps) {}
    [[nodiscard]] constexpr const allfold::setting& where() const { return where_; }
    [[nodiscard]] constexpr int blocks() const { return blocks_; }
    [[nodiscard]] constexpr int rounds() const { return rounds_; }
    [[nodiscard]] constexpr allfold::step operator[](int round) const { return steps_(where_.rank, round); }

  private:
    allfold::setting where_;
    int blocks_, rounds_;
    Steps steps_;
};

template <class Steps>
constexpr allfold::proof prove_written(int size, int blocks, int rounds, Steps steps, const allfold::claim& claimed) {
    return allfold::prove(size, [=](int r) { return written<Steps>(r, size, blocks, rounds, steps); }, claimed);
}

template <class Collective>
constexpr allfold::claim rank_order_claim(const Collective&, int root = 0) {
    return {.promise = &Collective::promise, .keeps = allfold::order::rank, .scratch_slots = 2, .root = root};
}
inline allfold::step sends(int to, allfold::slot source = allfold::slot::input) {
    return {.to = allfold::peers::one(to), .send = allfold::block_set::one(0), .source = source};
}
inline allfold::step stores(int from) {
    return {.from = allfold::peers::one(from), .receive = allfold::block_set::one(0)};
}

}  // namespace test
