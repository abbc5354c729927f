// SPDX-License-Identifier: BSL-1.0
#include "allfold/schedule/fusion.hpp"

#include "allfold/schedule/all_read.hpp"
#include "allfold/schedule/any_schedule.hpp"
#include "allfold/schedule/direct.hpp"
#include "allfold/schedule/flat_tree.hpp"
#include "allfold/schedule/ring.hpp"
#include "test/support/catch.hpp"

using allfold::block_set;
using allfold::direct;
using allfold::fused;
using allfold::fused_pass;
using allfold::peers;
using allfold::step;

namespace {

/// A direct all_reduce with a mistake: `edit(round, step)` changes its steps.
template <class Edit>
struct edited : direct::all_reduce {
    constexpr edited(int rank, Edit e) : direct::all_reduce({rank, 4}), edit(e) {}
    [[nodiscard]] constexpr step operator[](int round) const {
        step s = direct::all_reduce::operator[](round);
        edit(round, s);
        return s;
    }
    Edit edit;
};

template <class Edit>
bool is_fused(Edit edit) {
    return fused(edited<Edit>(1, edit)).has_value();
}

}  // namespace

TEST_CASE("the steps of direct are one pass: who folds which block for whom") {
    STATIC_REQUIRE(*fused(direct::all_reduce({2, 4})) == fused_pass{2, peers::everyone(), true});
    STATIC_REQUIRE(*fused(direct::reduce({2, 4, 1})) == fused_pass{2, peers::one(1), false});
    STATIC_REQUIRE(*fused(direct::reduce({1, 4, 1})) == fused_pass{1, peers(), true});
}

TEST_CASE("a schedule whose type is forgotten is recognised too") {
    const allfold::any_schedule any(direct::reduce({0, 4, 1}), direct::name);
    for (int r = 0; r < 4; ++r) CHECK(fused(any.at(r)) == fused(direct::reduce({r, 4, 1})));
}

TEST_CASE("other schedules are not one pass") {
    CHECK_FALSE(fused(direct::reduce_scatter({1, 4})));
    CHECK_FALSE(fused(allfold::flat_tree::all_reduce({1, 4})));
    CHECK_FALSE(fused(allfold::all_read::all_reduce({1, 4})));
    CHECK_FALSE(fused(allfold::ring::all_reduce({1, 2})));
    CHECK_FALSE(fused(direct::all_reduce({0, 1})));
}

TEST_CASE("every difference from the two steps counts") {
    CHECK(is_fused([](int, step&) {}));
    CHECK_FALSE(is_fused([](int round, step& s) {
        if (round == 0) s.how = allfold::fold::peers_in_rank_order;
    }));
    CHECK_FALSE(is_fused([](int round, step& s) {
        if (round == 0) s.receive = block_set::one(0);
    }));
    CHECK_FALSE(is_fused([](int round, step& s) {
        if (round == 0) s.sent = allfold::addressed::alike;
    }));
    CHECK_FALSE(is_fused([](int round, step& s) {
        if (round == 0) s.from = peers::one(0);
    }));
    CHECK_FALSE(is_fused([](int round, step& s) {
        if (round == 0) s.mine = allfold::slot::scratch_a;
    }));
    CHECK_FALSE(is_fused([](int, step& s) { s.local = allfold::keep_input(block_set::one(1)); }));
    CHECK_FALSE(is_fused([](int, step& s) { s.has_more = true; }));
    CHECK_FALSE(is_fused([](int round, step& s) {
        if (round == 1) s.source = allfold::slot::input;
    }));
    CHECK_FALSE(is_fused([](int round, step& s) {
        if (round == 1) s.send = block_set::one(0);
    }));
    CHECK_FALSE(is_fused([](int round, step& s) {
        if (round == 1) s.into = allfold::slot::scratch_a;
    }));
    CHECK_FALSE(is_fused([](int round, step& s) {
        if (round == 1) s.how = allfold::fold::left;
    }));
}
