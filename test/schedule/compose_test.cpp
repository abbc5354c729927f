// SPDX-License-Identifier: BSL-1.0
#include "allfold/schedule/compose.hpp"

#include "allfold/schedule/direct.hpp"
#include "allfold/schedule/mirrored_doubling.hpp"
#include "allfold/schedule/recursive_halving.hpp"
#include "allfold/schedule/ring.hpp"
#include "test/schedule/proofs.hpp"
#include "test/schedule/steps.hpp"

using allfold::composed;
using halving_then_ring = composed<allfold::recursive_halving::reduce_scatter, allfold::ring::all_gather>;
using ring_then_direct = composed<allfold::ring::reduce_scatter, allfold::direct::all_gather>;

namespace {

/// An algorithm whose all_reduce is schedule `S`.
template <class S>
struct made_of {
    using all_reduce = S;
};

/// Recursive halving with its partial folds in scratch_b: a reduce_scatter that declares two slots.
class two_slots : public allfold::recursive_halving::reduce_scatter {
  public:
    static constexpr int scratch_slots = 2;
    using allfold::recursive_halving::reduce_scatter::reduce_scatter;
    [[nodiscard]] constexpr allfold::step operator[](int round) const noexcept {
        return allfold::detail::with_slots(
            allfold::recursive_halving::reduce_scatter::operator[](round),
            [](allfold::slot s) { return s == allfold::slot::scratch_a ? allfold::slot::scratch_b : s; });
    }
};

/// A reduce_scatter for powers of two only.
class powers_of_two : public allfold::recursive_halving::reduce_scatter {
  public:
    using allfold::recursive_halving::reduce_scatter::reduce_scatter;
    [[nodiscard]] static constexpr bool supports(int size) noexcept {
        return allfold::mirrored_doubling::all_reduce::supports(size);
    }
};

}  // namespace

static_assert(allfold::schedule<halving_then_ring> && allfold::schedule<ring_then_direct>);
static_assert(halving_then_ring::keeps == allfold::order::tree && ring_then_direct::keeps == allfold::order::any);
static_assert(test::proved_up_to<allfold::all_reduce, made_of<halving_then_ring>{}, 12>);
static_assert(test::proved_up_to<allfold::all_reduce, made_of<ring_then_direct>{}, 12>);

TEST_CASE("a composed all_reduce takes the rounds and the volume of both parts") {
    test::prove_for(allfold::all_reduce, made_of<halving_then_ring>{}, test::sizes_up_to(300),
                    [](const allfold::proof& p, const auto& ranks) {
                        CHECK(p.rounds == ranks.levels + (ranks.extra ? 2 : 0) + p.size - 1);
                        CHECK(p.busiest_blocks_sent == (ranks.extra ? 2 * p.size - 1 : 2 * (p.size - 1)));
                        CHECK(p.scratch_slots == 0);
                    });
    test::prove_for(allfold::all_reduce, made_of<ring_then_direct>{}, test::sizes_up_to(300),
                    [](const allfold::proof& p, const auto&) {
                        CHECK(p.rounds == (p.size > 1 ? p.size : 0));
                        CHECK(p.busiest_blocks_sent == 2 * (p.size - 1));
                    });
}

TEST_CASE("the second slot of a composed reduce_scatter becomes the first, for partial folds lie in the result") {
    using all_reduce = composed<two_slots, allfold::ring::all_gather>;
    STATIC_REQUIRE(all_reduce::scratch_slots == 1);
    CHECK(test::steps_of(allfold::all_reduce, made_of<all_reduce>{}, 4)[0][0] == "input{1,3}->1 a{0,2}=input+[1]");
    test::prove_for(allfold::all_reduce, made_of<all_reduce>{}, test::sizes_up_to(40), [](const auto&, const auto&) {});
}

TEST_CASE("a composed all_reduce exists where both parts do") {
    using all_reduce = composed<powers_of_two, allfold::ring::all_gather>;
    STATIC_REQUIRE(allfold::supports<all_reduce>(8));
    STATIC_REQUIRE_FALSE(allfold::supports<all_reduce>(6));
    STATIC_REQUIRE_FALSE(allfold::supports<halving_then_ring>(0));
}
