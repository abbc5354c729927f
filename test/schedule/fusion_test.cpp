// SPDX-License-Identifier: BSL-1.0
#include "allfold/schedule/fusion.hpp"

#include "allfold/schedule/all_read.hpp"
#include "allfold/schedule/any_schedule.hpp"
#include "allfold/schedule/circulant.hpp"
#include "allfold/schedule/direct.hpp"
#include "allfold/schedule/flat_tree.hpp"
#include "allfold/schedule/linear.hpp"
#include "allfold/schedule/ring.hpp"
#include "allfold/schedule/scatter_all_gather.hpp"
#include "test/support/catch.hpp"

using allfold::block_set;
using allfold::direct;
using allfold::fused_pass;
using allfold::fused_pass_of;
using allfold::peers;
using allfold::step;

namespace {

/// A schedule with a bug: `edit(round, step)` changes its steps.
template <class Schedule, class Edit>
struct edited : Schedule {
    constexpr edited(int rank, Edit e) : Schedule({rank, 4}), edit(e) {}
    [[nodiscard]] constexpr step operator[](int round) const {
        step s = Schedule::operator[](round);
        edit(round, s);
        return s;
    }
    Edit edit;
};

template <class Schedule = direct::all_reduce, class Edit>
bool is_fused(Edit edit, int rank = 1) {
    return fused_pass_of(edited<Schedule, Edit>(rank, edit)).has_value();
}

/// Applies `edit` to the second step only.
template <class Edit>
auto then(Edit edit) {
    return [edit](int round, step& s) {
        if (round == 1) edit(s);
    };
}

/// Direct inclusive_scans that differ in the messages of the second step, in their scratch, or in the blocks received.
struct other_messages : direct::inclusive_scan {
    using inclusive_scan::inclusive_scan;
    [[nodiscard]] constexpr block_set sent_to(int round, int peer) const {
        return block_set::one(round == 0 ? peer : (peer + 1) % size());
    }
};
struct other_scratch : direct::inclusive_scan {
    using inclusive_scan::inclusive_scan;
    [[nodiscard]] constexpr allfold::scratch_blocks scratch() const { return {size(), 0}; }
};
struct other_blocks : direct::inclusive_scan {
    using inclusive_scan::inclusive_scan;
    [[nodiscard]] constexpr block_set received_from(int, int peer) const { return block_set::one((peer + 1) % size()); }
};

}  // namespace

TEST_CASE("the steps of direct are one pass: who folds which block for whom") {
    STATIC_REQUIRE(*fused_pass_of(direct::all_reduce({2, 4})) == fused_pass{2, peers::everyone(), true});
    STATIC_REQUIRE(*fused_pass_of(direct::reduce({2, 4, 1})) == fused_pass{2, peers::one(1), false});
    STATIC_REQUIRE(*fused_pass_of(direct::reduce({1, 4, 1})) == fused_pass{1, peers(), true});
}

TEST_CASE("the steps of a direct scan are one pass: who gets which prefix") {
    using allfold::share;
    STATIC_REQUIRE(*fused_pass_of(direct::inclusive_scan({2, 4})) ==
                   fused_pass{2, peers::everyone(), true, share::prefix});
    for (const int r : {0, 1, 3})
        CHECK(*fused_pass_of(direct::exclusive_scan({r, 4})) ==
              fused_pass{r, peers::everyone(), true, share::prefix_before});
    constexpr fused_pass up_to_own{.block = 2, .targets = {}, .keeps_own = true, .each = share::prefix};
    STATIC_REQUIRE(up_to_own.operands_of(0, 4) == 1);
    STATIC_REQUIRE(up_to_own.operands_of(3, 4) == 4);
    constexpr fused_pass below_own{.block = 2, .targets = {}, .keeps_own = true, .each = share::prefix_before};
    STATIC_REQUIRE(below_own.operands_of(0, 4) == 0);
    STATIC_REQUIRE(below_own.operands_of(3, 4) == 3);
}

TEST_CASE("where nothing is folded it is one pass as well: whose block goes to whom") {
    using allfold::linear;
    using allfold::share;
    using broadcast = allfold::scatter_all_gather::broadcast;
    STATIC_REQUIRE(*fused_pass_of(direct::all_gather({2, 4})) ==
                   fused_pass{2, peers::everyone(), true, share::copy, 2});
    STATIC_REQUIRE(*fused_pass_of(linear::gather({2, 4, 1})) == fused_pass{2, peers::one(1), false, share::copy, 2});
    STATIC_REQUIRE(*fused_pass_of(linear::gather({1, 4, 1})) == fused_pass{1, peers(), true, share::copy, 1});
    const allfold::any_schedule forgotten(direct::all_gather({2, 4}), direct::name);
    CHECK(fused_pass_of(forgotten) == fused_pass_of(direct::all_gather({2, 4})));
    for (const int root : {0, 1})
        for (const int r : {0, 1})
            CHECK(*fused_pass_of(broadcast({r, 2, root})) == fused_pass{r, peers::everyone(), true, share::copy, root});
    CHECK_FALSE(fused_pass_of(broadcast({1, 4, 0})));
    CHECK_FALSE(fused_pass_of(linear::scatter({0, 4})));
    CHECK_FALSE(fused_pass_of(linear::scatter({1, 4})));
    CHECK_FALSE(fused_pass_of(direct::all_to_all({1, 4})));
}

TEST_CASE("every difference from the one step counts") {
    using allfold::slot;
    using all_gather = direct::all_gather;
    CHECK(is_fused<all_gather>([](int, step&) {}));
    CHECK_FALSE(is_fused<all_gather>([](int, step& s) { s.send = block_set::one(2); }));
    CHECK_FALSE(is_fused<all_gather>([](int, step& s) { s.source = slot::scratch_a; }));
    CHECK_FALSE(is_fused<all_gather>([](int, step& s) { s.into = slot::scratch_a; }));
    CHECK_FALSE(is_fused<all_gather>([](int, step& s) { s.how = allfold::fold::left; }));
    CHECK_FALSE(is_fused<all_gather>([](int, step& s) { s.received = allfold::addressed::alike; }));
    CHECK_FALSE(is_fused<all_gather>([](int, step& s) { s.has_more = true; }));
    CHECK_FALSE(is_fused<all_gather>([](int, step& s) { s.local.blocks = block_set::one(2); }));
    CHECK_FALSE(is_fused<all_gather>([](int, step& s) { s.local.into = slot::scratch_a; }));
}

TEST_CASE("who folds nothing, and does not say that it is one pass, is not") {
    CHECK_FALSE(fused_pass_of(allfold::circulant::all_gather({0, 2})));
    CHECK_FALSE(fused_pass_of(allfold::ring::all_gather({0, 2})));
    CHECK_FALSE(fused_pass_of(allfold::any_schedule(allfold::ring::all_gather({0, 2}), "ring")));
}

TEST_CASE("a schedule whose type is forgotten is recognised too") {
    const allfold::any_schedule any(direct::reduce({0, 4, 1}), direct::name);
    for (int r = 0; r < 4; ++r) CHECK(fused_pass_of(any.at(r)) == fused_pass_of(direct::reduce({r, 4, 1})));
    const allfold::any_schedule scan(direct::exclusive_scan({0, 4}), direct::name);
    for (int r = 0; r < 4; ++r) CHECK(fused_pass_of(scan.at(r)) == fused_pass_of(direct::exclusive_scan({r, 4})));
}

TEST_CASE("other schedules are not one pass") {
    CHECK_FALSE(fused_pass_of(direct::reduce_scatter({1, 4})));
    CHECK_FALSE(fused_pass_of(allfold::flat_tree::all_reduce({1, 4})));
    CHECK_FALSE(fused_pass_of(allfold::all_read::all_reduce({1, 4})));
    CHECK_FALSE(fused_pass_of(allfold::ring::all_reduce({1, 2})));
    CHECK_FALSE(fused_pass_of(direct::all_reduce({0, 1})));
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

TEST_CASE("every difference from the two steps of a scan counts") {
    using inclusive = direct::inclusive_scan;
    using exclusive = direct::exclusive_scan;
    const auto none = [](int, step&) {};
    CHECK(is_fused<inclusive>(none));
    CHECK(is_fused<exclusive>(none));
    CHECK(is_fused<exclusive>(none, 0));
    CHECK_FALSE(is_fused<inclusive>([](int round, step& s) {
        if (round == 0) s.how = allfold::fold::in_rank_order;
    }));
    CHECK_FALSE(is_fused<inclusive>(then([](step& s) { s.local.blocks = block_set::one(2); })));
    CHECK_FALSE(is_fused<inclusive>(then([](step& s) { s.local.targets = block_set::one(2); })));
    CHECK_FALSE(is_fused<inclusive>(then([](step& s) { s.local.left = allfold::slot::input; })));
    CHECK_FALSE(is_fused<inclusive>(then([](step& s) { s.local.into = allfold::slot::scratch_b; })));
    CHECK_FALSE(is_fused<inclusive>(then([](step& s) { s.local.what = allfold::local_work::kind::fold; })));
    CHECK_FALSE(is_fused<inclusive>(then([](step& s) { s.source = allfold::slot::input; })));
    CHECK_FALSE(is_fused<inclusive>(then([](step& s) { s.to = peers::higher(); })));
    CHECK_FALSE(is_fused<inclusive>(then([](step& s) { s.from = peers::lower(); })));
    CHECK_FALSE(is_fused<inclusive>(then([](step& s) { s.into = allfold::slot::scratch_b; })));
    CHECK_FALSE(is_fused<inclusive>(then([](step& s) { s.has_more = true; })));
    CHECK_FALSE(is_fused<exclusive>(then([](step& s) { s.to = peers::everyone(); })));
    CHECK_FALSE(is_fused<exclusive>(then([](step& s) { s.local.blocks = block_set::one(0); }), 0));
    CHECK_FALSE(is_fused<exclusive>(then([](step& s) { s.from = peers::everyone(); }), 0));
    CHECK(fused_pass_of(inclusive({1, 4})));
    CHECK_FALSE(fused_pass_of(other_messages({1, 4})));
    CHECK_FALSE(fused_pass_of(other_scratch({1, 4})));
    CHECK_FALSE(fused_pass_of(other_blocks({1, 4})));
}
