// SPDX-License-Identifier: BSL-1.0
#include "allfold/analysis/prove.hpp"

#include <array>
#include <string>

#include "allfold/collective.hpp"
#include "allfold/schedule/all_read.hpp"
#include "allfold/schedule/binomial.hpp"
#include "allfold/schedule/direct.hpp"
#include "allfold/schedule/dissemination.hpp"
#include "allfold/schedule/mirrored_doubling.hpp"
#include "allfold/schedule/recursive_doubling.hpp"
#include "allfold/schedule/recursive_halving.hpp"
#include "allfold/schedule/ring.hpp"
#include "allfold/schedule/two_level.hpp"
#include "test/analysis/schedules_with_bugs.hpp"
#include "test/support/catch.hpp"

using allfold::block_set;
using allfold::claim;
using allfold::explain;
using allfold::fault;
using allfold::fold;
using allfold::order;
using allfold::peers;
using allfold::proof;
using allfold::prove;
using allfold::setting;
using allfold::slot;
using allfold::step;
using doubling = allfold::recursive_doubling;
using allfold::all_read;
using allfold::binomial;
using allfold::direct;
using allfold::dissemination;
using allfold::recursive_halving;
using allfold::ring;

using namespace test;

namespace {
constexpr block_set whole = block_set::one(0);

/// Says that it knows which ranks share memory, but every rank communicates with ranks of other groups.
struct knows_groups : doubling::all_reduce {
    static constexpr bool grouped = true;
    using doubling::all_reduce::all_reduce;
};
}  // namespace

TEST_CASE("a proof is a constant expression and counts what a schedule costs") {
    constexpr proof p = prove(allfold::all_reduce, doubling{}, 4);
    STATIC_REQUIRE(p.ok());
    STATIC_REQUIRE((p.size == 4 && p.blocks == 1 && p.rounds == 2 && p.messages == 8 && p.blocks_sent == 8));
    STATIC_REQUIRE((p.busiest_blocks_sent == 2 && p.folds == 8 && p.busiest_folds == 2 && p.scratch_slots == 1));
    CHECK(explain(prove(allfold::all_reduce, ring{}, 4)) ==
          "P = 4: proved; 6 rounds, 24 messages; the busiest rank sends 6 and folds 3 blocks of 1/4");
    CHECK(explain(prove(allfold::barrier, dissemination{}, 4)) == "P = 4: proved; 2 rounds, 8 messages");
    CHECK(explain(p) == "P = 4: proved; 2 rounds, 8 messages; the busiest rank sends 2 and folds 2 vectors");
}

TEST_CASE("a rooted schedule is proved for all roots of a few ranks") {
    STATIC_REQUIRE(allfold::proved(allfold::reduce, binomial{}, 5));
    STATIC_REQUIRE(allfold::proved(allfold::all_reduce, allfold::mirrored_doubling{}, 8));
    STATIC_REQUIRE_FALSE(allfold::proved(allfold::all_reduce, allfold::mirrored_doubling{}, 6));
}

TEST_CASE("nothing is proved for a root that does not exist") {
    for (const int root : {-1, 4, 7}) {
        const std::string why = "prove: root " + std::to_string(root) + " of 4 ranks";
        CHECK_THROWS_WITH((void)prove(allfold::broadcast, binomial{}, 4, root), why);
        CHECK_THROWS_WITH((void)prove(allfold::reduce, binomial{}, 4, root), why);
    }
}

TEST_CASE("a schedule that does not exist for so many ranks, or for such groups, is unsupported") {
    const proof p = prove(allfold::all_reduce, allfold::mirrored_doubling{}, 6);
    CHECK(p.what == fault::unsupported);
    CHECK(explain(p) == "P = 6: the schedule does not exist for this many ranks");
    CHECK(explain(prove(allfold::all_reduce, allfold::mirrored_doubling{}, 6, 0, 5)) == explain(p));
    for (const int group : {-1, 0, 3})
        CHECK(explain(prove(allfold::all_reduce, allfold::two_level{}, 4, 0, group)) ==
              "P = 4: the schedule does not exist for this many ranks in groups of " + std::to_string(group));
}

TEST_CASE("a proof without rank order is refused beyond 4096 ranks") {
    CHECK_THROWS_WITH((void)prove(allfold::all_reduce, ring{}, 5000),
                      Catch::Matchers::ContainsSubstring("4096 ranks") && Catch::Matchers::ContainsSubstring("5000"));
}

TEST_CASE("a message to the wrong partner is unmatched") {
    const proof p = prove_edited(allfold::all_reduce, doubling{}, 4, [](int r, int round, step& s) {
        if (r == 0 && round == 1) s.to = peers::one(3);
    });
    CHECK(p.what == fault::unmatched);
    CHECK(explain(p) == "P = 4, rank 0, round 1: sends to rank 3, which never receives it");
}

TEST_CASE("a message that nobody receives is unmatched, also where ranks wait in a circle") {
    const proof p = prove_edited(allfold::all_reduce, ring{}, 4, [](int r, int round, step& s) {
        if (r == 0 && round == 0) s.to = peers::one(2);
    });
    CHECK(p.what == fault::unmatched);
    CHECK(explain(p) == "P = 4, rank 0, round 0: sends to rank 2, which never receives it");
}

TEST_CASE("a receive that nobody answers is unmatched") {
    const proof p = prove_edited(allfold::reduce, binomial{}, 3, [](int r, int round, step& s) {
        if (r == 1 && round == 0) s = {};
    });
    CHECK(p.what == fault::unmatched);
    CHECK(explain(p) == "P = 3, rank 0, round 0: receives from rank 1, which never sends it");
}

TEST_CASE("a fold on the wrong side is out of order") {
    const proof p = prove_edited(allfold::all_reduce, doubling{}, 4, [](int r, int round, step& s) {
        if (r == 2 && round == 1) s.how = fold::right;
    });
    CHECK(p.what == fault::out_of_order);
    CHECK(explain(p) ==
          "P = 4, rank 2, round 1: folds ranks 2..3 ∘ ranks 0..1 in block 0, which are not neighbours in rank order");
}

TEST_CASE("a block that is folded twice is found in rank order and without") {
    const proof ordered = prove_edited(allfold::all_reduce, doubling{}, 4, [](int r, int round, step& s) {
        if (round == 1) s.to = s.from = peers::one(r ^ 1);
    });
    CHECK(ordered.what == fault::repeated);
    const proof p = prove_edited(allfold::reduce_scatter, ring{}, 4, [](int r, int round, step& s) {
        if (r == 1 && round == 1)
            s.local = {allfold::local_work::kind::fold, slot::scratch_a, slot::input, slot::scratch_a, s.send, {}};
    });
    CHECK(p.what == fault::repeated);
    CHECK(explain(p) == "P = 4, rank 1, round 1: folds ranks 0..1 ∘ rank 1 in block 3: an operand is counted twice");
}

TEST_CASE("a lost block leaves a wrong result") {
    const proof p = prove_edited(allfold::all_gather, ring{}, 4, [](int r, int round, step& s) {
        if (r == 1 && round == 2) s.to = peers();
        if (r == 2 && round == 2) s.from = peers();
    });
    CHECK(p.what == fault::wrong_result);
    CHECK(explain(p) == "P = 4, rank 2: ends with nothing in block 3, should have rank 3");
}

TEST_CASE("an operand that is left out leaves a wrong result") {
    const auto store_instead = [](int r, int round, step& s) {
        if (r == 1 && round == 0) s.how = fold::store;
    };
    const proof p =
        prove_edited(allfold::reduce, binomial{}, 2, store_instead, claim_of(allfold::reduce, binomial{}, 1));
    CHECK(p.what == fault::wrong_result);
    CHECK(explain(p) == "P = 2, rank 1: ends with rank 0 in block 0, should have ranks 0..1");
}

TEST_CASE("a set of ranks that is not consecutive is told as such") {
    const proof p = prove_edited(allfold::reduce_scatter, ring{}, 4, [](int r, int round, step& s) {
        if (r == 2 && round == 1) s.how = fold::store;
    });
    CHECK(p.what == fault::wrong_result);
    CHECK(explain(p) == "P = 4, rank 3: ends with 3 of the ranks 0..3 in block 3, should have ranks 0..3");
}

TEST_CASE("sender and receiver that disagree about the number of blocks are found") {
    const proof fewer = prove_edited(allfold::reduce_scatter, recursive_halving{}, 4, [](int r, int round, step& s) {
        if (r == 0 && round == 0) s.send = block_set::one(1);
    });
    CHECK(fewer.what == fault::message_differs);
    CHECK(explain(fewer) == "P = 4, rank 0, round 0: sends 1 block to rank 1, which expects 2");
}

TEST_CASE("ranks that bracket differently do not agree to the last bit") {
    const auto received_first = [](int, int, step& s) { s.how = fold::left; };
    claim any = claim_of(allfold::all_reduce, doubling{});
    any.keeps = order::any;
    const proof p = prove_edited(allfold::all_reduce, doubling{}, 4, received_first, any);
    CHECK(p.what == fault::disagreement);
    CHECK(explain(p) == "P = 4, rank 1: brackets block 0 differently from rank 0");
    CHECK(prove_edited(allfold::all_reduce, doubling{}, 4, [](int, int, step&) {}, any).ok());
    CHECK(allfold::proved(allfold::all_reduce, ring{}, 7));
    any.promise = &decltype(allfold::reduce_scatter)::promise;  // there, no two ranks get the same
    CHECK(prove_edited(allfold::reduce_scatter, ring{}, 4, [](int, int, step&) {}).ok());
}

TEST_CASE("in rank order too all ranks bracket alike") {
    // All ranks fold ((01)2). If `again`, rank 0 then folds once more, and replaces its result by (0(12)).
    const auto steps = [](bool again) {
        return [again](int r, int round) -> step {
            const step all{.to = peers::everyone(),
                           .send = whole,
                           .from = peers::everyone(),
                           .receive = whole,
                           .how = fold::in_rank_order};
            if (round == 0 || !again) return round == 0 ? all : step{};
            if (r == 2) return round == 1 ? sends(1) : step{};
            if (r == 1)
                return round == 1
                           ? step{.from = peers::one(2), .receive = whole, .how = fold::right, .into = slot::scratch_a}
                           : sends(0, slot::scratch_a);
            return round == 2 ? step{.from = peers::one(1), .receive = whole, .how = fold::right} : step{};
        };
    };
    CHECK(prove_written(3, 1, 3, steps(false), rank_order_claim(allfold::all_reduce)).ok());
    const proof p = prove_written(3, 1, 3, steps(true), rank_order_claim(allfold::all_reduce));
    CHECK(p.what == fault::disagreement);
    CHECK(explain(p) == "P = 3, rank 1: brackets block 0 differently from rank 0");
}

TEST_CASE("all ranks run fused steps, or none does") {
    const proof p = prove_edited(allfold::all_reduce, direct{}, 4, [](int r, int round, step& s) {
        if (r == 2 && round == 0) s.local = {allfold::local_work::kind::copy, slot::input, {}, slot::result, {}, {}};
    });
    CHECK(p.what == fault::fusion_differs);
    CHECK(explain(p) == "P = 4, rank 2: runs its steps one by one, rank 1 does not");
}

TEST_CASE("a fault of fused steps is told as such") {
    const proof told{.what = fault::misplaced, .size = 3, .rank = 1, .round = 0, .in_one_pass = true, .block = 2};
    CHECK(explain(told) ==
          "P = 3, rank 1, round 0, in one pass: writes block 2 of the result, which does not belong to this rank");
}

TEST_CASE("ranks that send before they receive in a circle deadlock without buffers") {
    const auto send_then_receive = [](int size) {
        return prove_written(
            size, 1, 2,
            [size](int r, int round) { return round == 0 ? sends((r + 1) % size) : stores((r + size - 1) % size); },
            rank_order_claim(allfold::all_reduce));
    };
    const proof p = send_then_receive(3);
    CHECK(p.what == fault::deadlock);
    CHECK(p.circle_length == 3);
    CHECK(explain(p) ==
          "P = 3, rank 0, round 0: waits for rank 1, which waits for rank 2, which waits for rank 0: without "
          "buffering no rank can proceed");
    CHECK(send_then_receive(20).circle_length == 20);
    CHECK_THAT(explain(send_then_receive(20)), Catch::Matchers::ContainsSubstring("20 ranks in all"));
}

TEST_CASE("a message may meet a receive of another round") {
    const auto steps = [](int r, int round) -> step {
        if (r == 0) return round == 0 ? step{.local = allfold::keep_input(whole)} : sends(1);
        return round == 0 ? stores(0) : step{};
    };
    CHECK(prove_written(2, 1, 2, steps, rank_order_claim(allfold::broadcast)).ok());
}

TEST_CASE("messages of one pair meet in the order in which they are sent") {
    const auto steps = [](int r, int round) -> step {
        if (r == 0) return {.to = peers::one(1), .send = block_set::one(round)};
        return {.from = peers::one(0), .receive = block_set::one(1 - round)};
    };
    CHECK(prove_written(2, 2, 2, steps, rank_order_claim(allfold::reduce, 1)).what == fault::other_length);
}

TEST_CASE("a peer that is a step ahead is not met twice in one step of several peers") {
    const auto steps = [](int r, int round, int other) -> step {
        const block_set own = block_set::one(r), of_other = block_set::one(3 - other);
        step takes{.from = peers::everyone(), .received = allfold::addressed::per_peer};
        if (r == 0 && round == 0) takes.local = allfold::keep_input(own);
        if (r == 0 && round == 1) takes.into = slot::scratch_a;
        if (r == 0) return round < 2 ? takes : step{};
        if (r == other && round == 0)
            return {.from = peers::one(3 - other), .receive = of_other, .into = slot::scratch_a};
        if (r == other || round == 0) return {.to = peers::one(0), .send = own};
        return round == 1 ? step{.to = peers::everyone(), .send = own} : step{};
    };
    const auto prove_that = [&](int other) {
        return prove_written(
            3, 3, 3, [&](int r, int round) { return steps(r, round, other); }, rank_order_claim(allfold::gather));
    };
    const proof p = prove_that(2);
    INFO(explain(p));
    CHECK(p.ok());
    CHECK(p.messages == 5);

    // Rank 0 takes the message of rank 1 first, which waits for rank 2, which waits for rank 0.
    CHECK(prove_that(1).what == fault::deadlock);
}

TEST_CASE("a rank goes on only when an ordered fold that keeps its message has all of them") {
    const auto steps = [](int r, int round) -> step {
        if (r == 1 && round == 0) return {.from = peers::everyone(), .receive = whole, .how = fold::in_rank_order};
        if (r == 0 && round == 0) return sends(1);
        if (r == 0)
            return {.local = {.what = allfold::local_work::kind::copy, .into = slot::scratch_a, .blocks = whole},
                    .to = peers::one(2),
                    .send = whole,
                    .source = slot::scratch_a};
        if (r == 2 && round == 0) return {.from = peers::one(0), .receive = whole, .into = slot::scratch_a};
        return r == 2 ? sends(1) : step{};
    };
    const proof p = prove_written(3, 1, 2, steps, rank_order_claim(allfold::reduce, 1));
    CHECK(p.what == fault::deadlock);
    CHECK(explain(p) ==
          "P = 3, rank 0, round 0: waits for rank 1, which waits for rank 2, which waits for rank 0: without buffering "
          "no rank can proceed");
}

TEST_CASE("no ranks and no number of rounds are faults, not crashes") {
    const auto of_no_rounds = [](int) { return written(0, 3, 1, -1, [](int, int) { return step{}; }); };
    for (const int size : {0, -1})
        CHECK(prove(size, of_no_rounds, rank_order_claim(allfold::broadcast)).what == fault::unsupported);
    CHECK(explain(prove(3, of_no_rounds, rank_order_claim(allfold::broadcast))) ==
          "P = 3, rank 0: has -1 rounds, not 0");
}

TEST_CASE("the canonical tree is that of a result's operands, wherever they begin") {
    static constexpr allfold::contract suffixes{
        .name = "suffixes",
        .folds = true,
        .input = [](const setting& s, int block) { return allfold::content::of(s.rank, block); },
        .result = [](const setting& s, int block) { return allfold::content{block, s.rank, s.size}; }};
    const auto steps = [](int r, int) -> step {
        if (r == 4) return {.local = allfold::keep_input(whole), .to = peers::lower(), .send = whole};
        return {
            .to = peers::lower(), .send = whole, .from = peers::higher(), .receive = whole, .how = fold::in_rank_order};
    };
    const proof p = prove_written(5, 1, 1, steps, {.promise = &suffixes, .keeps = order::tree, .scratch_slots = 2});
    INFO(explain(p));
    CHECK(p.ok());
}

TEST_CASE("a schedule that claims a stronger order than it keeps is held to it") {
    const auto unchanged = [](int, int, step&) {};
    claim ordered = claim_of(allfold::reduce_scatter, ring{});
    ordered.keeps = order::rank;
    const proof rotated = prove_edited(allfold::reduce_scatter, ring{}, 3, unchanged, ordered);
    CHECK(rotated.what == fault::out_of_order);

    const auto chain = [](int r, int round) -> step {
        if (r == round) return sends(r + 1, r == 0 ? slot::input : slot::scratch_a);
        if (r != round + 1) return {};
        return {.from = peers::one(r - 1),
                .receive = whole,
                .how = fold::left,
                .into = r == 3 ? slot::result : slot::scratch_a};
    };
    claim claimed = rank_order_claim(allfold::reduce, 3);
    CHECK(prove_written(4, 1, 3, chain, claimed).ok());
    claimed.keeps = order::tree;
    const proof p = prove_written(4, 1, 3, chain, claimed);
    CHECK(p.what == fault::bracketing);
    CHECK(explain(p) ==
          "P = 4, rank 2, round 1: folds ranks 0..1 ∘ rank 2 in block 0, which the canonical tree of 4 does not");
    claimed.keeps = order::global;
    CHECK(prove_written(4, 1, 3, chain, claimed).what == fault::bracketing);
}

TEST_CASE("a permutation is proved for any shift, and only for a list that is one") {
    for (const int shift : {-9, -1, 0, 5}) CHECK(prove(allfold::permute, direct{}, 4, shift).ok());
    for (const std::array<int, 3>& list : {std::array{0, 0, 1}, std::array{0, 1, 3}, std::array{-1, 0, 1}})
        CHECK_THROWS_WITH((void)prove(allfold::permute, direct{}, setting{.size = 3, .destinations = list.data()}),
                          Catch::Matchers::ContainsSubstring("prove: the destinations of 3 ranks are no permutation"));
    const std::array rotation{1, 2, 0};
    CHECK(prove(allfold::permute, direct{}, setting{.size = 3, .destinations = rotation.data()}).ok());
}

TEST_CASE("only the first ranks of groups communicate with other groups") {
    const auto grouped_by = [](int group) {
        const claim claimed = claim::of<knows_groups>(allfold::all_reduce.promise, 0, group);
        const proof p = prove(4, [=](int r) { return knows_groups({r, 4, 0, group}); }, claimed);
        const allfold::any_schedule any(knows_groups({0, 4, 0, group}), "knows groups");
        CHECK(explain(prove(4, [&](int r) { return any.at(r); }, claimed)) == explain(p));
        return p;
    };
    CHECK(grouped_by(1).ok());
    CHECK(grouped_by(4).ok());
    CHECK(grouped_by(4).group == 4);
    CHECK(
        explain(grouped_by(2)) ==
        "P = 4, rank 3, round 1: exchanges messages with rank 1 of another group: only the first ranks of groups may");
}

TEST_CASE("a scan keeps order::tree only if each prefix is a canonical tree") {
    CHECK(prove(allfold::inclusive_scan, all_read{}, 7).ok());
    claim claimed = claim_of(allfold::inclusive_scan, dissemination{});
    claimed.keeps = order::tree;
    CHECK(prove_edited(
              allfold::inclusive_scan, dissemination{}, 7, [](int, int, step&) {}, claimed)
              .what == fault::bracketing);
}

TEST_CASE("ranks that disagree about rounds or blocks are found") {
    const auto idle = [](int, int) { return step{}; };
    using idle_schedule = written<decltype(idle)>;
    const claim claimed = rank_order_claim(allfold::all_reduce);
    const proof rounds = prove(3, [=](int r) { return idle_schedule(r, 3, 1, r == 2 ? 1 : 2, idle); }, claimed);
    CHECK(rounds.what == fault::rounds_differ);
    CHECK(explain(rounds) == "P = 3, rank 2: has 1 round, not 2");
    const proof blocks = prove(3, [=](int r) { return idle_schedule(r, 3, r == 1 ? 1 : 3, 0, idle); }, claimed);
    CHECK(blocks.what == fault::blocks_differ);
    CHECK(explain(blocks) == "P = 3, rank 1: has 1 block, not 3");
    CHECK(prove_written(3, 0, 0, idle, claimed).what == fault::blocks_differ);
    CHECK(prove_written(3, 2, 0, idle, claimed).what == fault::wrong_result);  // any other number is up to the schedule
    CHECK(prove_written(3, 2, 0, idle, rank_order_claim(allfold::all_gather)).what == fault::blocks_differ);
    CHECK(prove_written(3, 1, 0, idle, rank_order_claim(allfold::barrier)).what == fault::blocks_differ);
    CHECK(prove_written(1, 1, 1, idle, claimed).what == fault::rounds_differ);
}

TEST_CASE("a barrier that a rank can leave before all have entered is found") {
    const auto shorter = [](int size) {
        return [size](int r) {
            const dissemination::barrier whole_barrier({r, size});
            const auto steps = [whole_barrier](int, int round) { return whole_barrier[round]; };
            return written<decltype(steps)>(r, size, 0, whole_barrier.rounds() - 1, steps);
        };
    };
    const proof p = prove(5, shorter(5), claim_of(allfold::barrier, dissemination{}));
    CHECK(p.what == fault::wrong_result);
    CHECK(explain(p) == "P = 5, rank 0: has heard of 4 ranks, should have heard of all 5");
}

TEST_CASE("a step of a barrier does not forward what arrives in the same step") {
    const auto steps = [](int r, int round) -> step {
        if (round == 0) return {.to = r > 0 ? peers::one(r - 1) : peers(), .from = r < 2 ? peers::one(r + 1) : peers()};
        return r == 0 ? step{.to = peers::everyone()} : step{.from = peers::one(0)};
    };
    const proof p = prove_written(3, 0, 2, steps, claim_of(allfold::barrier, dissemination{}));
    CHECK(p.what == fault::wrong_result);
    CHECK(explain(p) == "P = 3, rank 0: has heard of 2 ranks, should have heard of all 3");
}

TEST_CASE("the first fault of a message is told with both ranks") {
    const proof p = prove_edited(allfold::all_gather, ring{}, 4, [](int r, int round, step& s) {
        if (r == 1 && round == 1) s.send = block_set::all(2);
    });
    CHECK((p.rank == 1 && p.peer == 2 && p.round == 1 && p.found == 2 && p.wanted == 1));
}
