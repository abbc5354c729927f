// SPDX-License-Identifier: BSL-1.0
// What a step must not do, whatever comes of it.
#include "allfold/analysis/prove.hpp"
#include "allfold/collective.hpp"
#include "allfold/schedule/all_read.hpp"
#include "allfold/schedule/binomial.hpp"
#include "allfold/schedule/direct.hpp"
#include "allfold/schedule/dissemination.hpp"
#include "allfold/schedule/recursive_doubling.hpp"
#include "allfold/schedule/ring.hpp"
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
using allfold::slot;
using allfold::step;
using doubling = allfold::recursive_doubling;
using allfold::all_read;
using allfold::binomial;
using allfold::direct;
using allfold::dissemination;
using allfold::ring;

using namespace test;

namespace {

constexpr block_set whole = block_set::one(0);

/// Its scratch slot copies a block that does not exist.
struct copies_no_block : written<step (*)(int, int)> {
    using written::written;
    [[nodiscard]] static constexpr allfold::scratch_blocks scratch() { return {.copies = 1, .only = 5}; }
};

/// Claims to fold once, which is true for two ranks only.
struct says_that_it_folds_once : doubling::all_reduce {
    static constexpr bool folds_once = true;
    using doubling::all_reduce::all_reduce;
};

/// The first part of its last message is folded with what the second one replaces.
struct folds_what_is_replaced {
    static constexpr order keeps = order::rank;
    static constexpr int scratch_slots = 2;
    static constexpr bool in_place = false;
    int rank;
    [[nodiscard]] constexpr allfold::setting where() const { return {rank, 2}; }
    [[nodiscard]] static constexpr int blocks() { return 1; }
    [[nodiscard]] static constexpr int rounds() { return 3; }
    [[nodiscard]] constexpr step operator[](int round) const {
        const peers other = peers::one(1 - rank);
        step s{.to = other, .send = whole, .from = other, .receive = whole};
        if (round == 0) s.into = slot::scratch_a;
        if (round == 1) s.into = slot::scratch_b;
        if (round < 2) return s;
        s.how = fold::in_rank_order;
        s.mine = slot::scratch_a;
        s.has_more = true;
        return s;
    }
    [[nodiscard]] static constexpr step also(int) {
        return {.send = whole, .source = slot::scratch_b, .receive = whole, .into = slot::scratch_a};
    }
};

}  // namespace

TEST_CASE("a block is stored only where one of its length may lie") {
    const auto other_name = [](int r, int round, step& s) {
        if (r == 1 && round == 1) s.send = block_set::one(1);
    };
    const proof in_result = prove_edited(allfold::all_gather, ring{}, 4, other_name);
    CHECK(in_result.what == fault::other_length);
    CHECK(
        explain(in_result) ==
        "P = 4, rank 2, round 1: stores block 1 of rank 1 in block 0 of the result, which may have a different length");
    claim equal = claim_of(allfold::all_gather, ring{});
    equal.equal_blocks = true;
    const proof wrong = prove_edited(allfold::all_gather, ring{}, 4, other_name, equal);
    CHECK(wrong.what == fault::wrong_result);
    CHECK(explain(wrong) == "P = 4, rank 2: ends with block 1 of rank 1 in block 0, should have block 0 of rank 0");

    const auto through_scratch = [](int r, int round) -> step {
        if (r == 1) return round == 0 ? sends(0) : step{};
        if (round == 0) return {.from = peers::one(1), .receive = block_set::one(1), .into = slot::scratch_a};
        return {.local = {.what = allfold::local_work::kind::copy,
                          .left = slot::scratch_a,
                          .blocks = block_set::one(1),
                          .targets = block_set::one(0)}};
    };
    claim claimed{.promise = &decltype(allfold::all_to_all)::promise, .keeps = order::rank, .scratch_slots = 1};
    const proof scratch = prove_written(2, 2, 2, through_scratch, claimed);
    CHECK(scratch.what == fault::other_length);
    CHECK_THAT(explain(scratch), Catch::Matchers::ContainsSubstring("in block 1 of scratch_a, which may have"));
    claimed.equal_blocks = true;
    CHECK(prove_written(2, 2, 2, through_scratch, claimed).what == fault::wrong_result);
}

TEST_CASE("different blocks are not folded") {
    const proof p = prove_edited(allfold::reduce_scatter, ring{}, 4, [](int r, int round, step& s) {
        if (r == 1 && round == 0) s.send = block_set::one(1);
    });
    CHECK(p.what == fault::other_block);
    CHECK(explain(p) == "P = 4, rank 2, round 0: folds block 1 of rank 1 with block 0 of rank 2");
}

TEST_CASE("local work that names other numbers of blocks and places is found") {
    const proof p = prove_edited(allfold::all_gather, direct{}, 3, [](int r, int, step& s) {
        if (r == 2) s.local.targets = block_set::all(2);
    });
    CHECK(p.what == fault::targets_differ);
    CHECK(explain(p) == "P = 3, rank 2, round 0: copies 1 block to 2 places");
}

// If posting a message copies it anyway, this copy is not made.
TEST_CASE("a copy made to be sent is what its step sends, and nothing else reads it") {
    const auto prove_with = [](auto edit) {
        return prove_edited(allfold::all_reduce, doubling{}, 2, [=](int r, int, step& s) {
            if (r == 1) edit(s);
        });
    };
    CHECK(prove_with([](step&) {}).ok());
    const proof p = prove_with([](step& s) { s.mine = slot::scratch_a; });
    CHECK(p.what == fault::copy_not_sent);
    CHECK(explain(p) ==
          "P = 2, rank 1, round 0: makes a copy to be sent, but does not send exactly that, or reads it itself");
    CHECK(prove_with([](step& s) { s.local.targets = s.send; }).what == fault::copy_not_sent);
    CHECK(prove_with([](step& s) { s.source = slot::scratch_b; }).what == fault::copy_not_sent);
    CHECK(prove_with([](step& s) { s.sent = allfold::addressed::per_peer; }).what == fault::copy_not_sent);

    const auto later = [](allfold::local_work::kind what) {
        const auto steps = [what](int r, int round) {
            if (round == 1)
                return step{.local = {.what = allfold::local_work::kind::fold,
                                      .left = r == 0 ? slot::scratch_a : slot::scratch_b,
                                      .right = r == 0 ? slot::scratch_b : slot::scratch_a,
                                      .blocks = whole}};
            step s = sends(1 - r, slot::scratch_a);
            s.local = {.what = what, .into = slot::scratch_a, .blocks = whole};
            s.from = peers::one(1 - r);
            s.receive = whole;
            s.into = slot::scratch_b;
            return s;
        };
        return prove_written(2, 1, 2, steps, rank_order_claim(allfold::all_reduce));
    };
    CHECK(later(allfold::local_work::kind::copy).ok());
    CHECK(later(allfold::local_work::kind::copy_to_send).what == fault::empty_slot);
}

TEST_CASE("nothing is received twice into one block in one step") {
    const proof p = prove_edited(allfold::broadcast, direct{}, 3, [](int r, int, step& s) {
        if (r == 2) s.has_more = true;  // its second part is empty
    });
    CHECK(p.ok());
    const auto twice = [](int r, int) -> step {
        if (r == 0) return {.local = allfold::keep_input(whole), .to = peers::one(1), .send = block_set({0, 2, 0})};
        return {.from = peers::one(0), .receive = block_set({0, 2, 0}), .has_more = true};
    };
    const proof parts = prove_written(2, 1, 1, twice, rank_order_claim(allfold::broadcast));
    CHECK(parts.what == fault::received_twice);
    CHECK(explain(parts) == "P = 2, rank 1, round 0: receives block 0 into the result twice in one step");
}

TEST_CASE("an identity, which operators need not have, is not read and replaces nothing") {
    const auto steps = [](int r, int round) -> step {
        const step erase{.local = allfold::set_identity(whole),
                         .to = peers::one(1 - r),
                         .send = whole,
                         .from = peers::one(1 - r),
                         .receive = whole,
                         .how = allfold::side_of(1 - r, r),
                         .into = slot::scratch_b};
        if (round == 0) return erase;
        return {.local = {allfold::local_work::kind::fold, slot::result, slot::scratch_b, slot::result, whole, {}}};
    };
    claim claimed = rank_order_claim(allfold::all_reduce);
    claimed.keeps = order::tree;
    CHECK(explain(prove_written(2, 1, 2, steps, claimed)) ==
          "P = 2, rank 0, round 1: reads an identity, which operators need not have");

    const auto replaces = [](int r, int round) -> step {
        if (r == 0 && round == 0) return {.local = allfold::keep_input(whole)};
        if (r == 0) return {.local = allfold::set_identity(whole), .to = peers::one(1), .send = whole};
        return round == 0 ? step{} : stores(0);
    };
    CHECK(explain(prove_written(2, 1, 2, replaces, rank_order_claim(allfold::exclusive_scan))) ==
          "P = 2, rank 0, round 1: sets an identity where it has stored something: operators need not have one");

    const proof too_early = prove_edited(allfold::exclusive_scan, all_read{}, 3, [](int r, int, step& s) {
        if (r == 0) s.local = {};
    });
    CHECK(explain(too_early) == "P = 3, rank 0: ends with nothing in block 0, should have the identity");
}

TEST_CASE("prefixes go to copies of their block alone, and each follows from the one before it") {
    const auto unchanged = [](int, int, step&) {};
    CHECK(prove_scan(3, unchanged).ok());

    const auto says = [](fault what, const proof& p) {
        CHECK(p.what == what);
        return explain(p);
    };
    CHECK(says(fault::no_copies, prove_scan(3,
                                            [](int r, int round, step& s) {
                                                if (r == 1 && round == 0) s.receive = block_set::one(2);
                                            })) ==
          "P = 3, rank 1, round 0: folds the prefixes of block 2 into scratch_a, which does not have copies of exactly "
          "that");
    CHECK(says(fault::no_copies, prove_scan(3,
                                            [](int r, int round, step& s) {
                                                if (r == 1 && round == 0) s.into = slot::result;
                                            })) ==
          "P = 3, rank 1, round 0: folds the prefixes of block 1 into the result, which does not have copies of "
          "exactly that");
    const proof per_peer = prove_scan(3, [](int r, int round, step& s) {
        if (r == 1 && round == 0) s.received = allfold::addressed::per_peer;
    });
    CHECK(per_peer.what == fault::fold_unclear);

    // A prefix that is another rank's, in both ways.
    const proof swapped = prove_scan(3, [](int r, int round, step& s) {
        if (r == 1 && round == 1) s.local.blocks = block_set::one(2);
    });
    CHECK(says(fault::wrong_result, swapped) ==
          "P = 3, rank 1: ends with ranks 0..2 in block 1, should have ranks 0..1");
    CHECK(prove_scan(3, [](int r, int round, step& s) {
              if (r == 1 && round == 0) s.mine = slot::result;  // which is empty
          }).what == fault::empty_slot);
}

TEST_CASE("all ranks have as many blocks in scratch") {
    const auto make = [](int r) {
        struct more : direct::inclusive_scan {
            using inclusive_scan::inclusive_scan;
            [[nodiscard]] constexpr allfold::scratch_blocks scratch() const { return {size() + rank() / 2, rank()}; }
        };
        return more({r, 3});
    };
    const proof p = prove(3, make, claim_of(allfold::inclusive_scan, direct{}));
    CHECK(p.what == fault::blocks_differ);
    CHECK(p.rank == 2);
}

TEST_CASE("scratch from which prefixes are sent is not where others are folded") {
    const proof p = prove_scan(3, [](int r, int round, step& s) {
        if (round != 1) return;
        s.received = allfold::addressed::alike;
        s.receive = block_set::one(r);
        s.how = fold::prefixes_in_rank_order;
        s.into = slot::scratch_a;
    });
    CHECK(p.what == fault::overwrites_sent);
}

TEST_CASE("scans of one pass give each rank its own prefix") {
    // A schedule must be right both step by step and as one pass; here only the pass is wrong.
    const auto first_two = [](int size) {
        const auto pass_of = [](std::size_t r) -> allfold::fused_pass {
            return {static_cast<int>(r), peers::everyone(), true,
                    r < 2 ? allfold::share::prefix : allfold::share::prefix_before};
        };
        return allfold::detail::constexpr_array<allfold::fused_pass>(static_cast<std::size_t>(size), pass_of);
    };
    const auto make = [](int r) { return direct::inclusive_scan({r, 4}); };
    const allfold::detail::schedules_of all(4, make);
    const proof p = allfold::detail::run<allfold::detail::rank_interval>(
        4, all, claim_of(allfold::inclusive_scan, direct{}), first_two(4));
    CHECK(p.what == fault::wrong_result);
    CHECK(p.in_one_pass);
}

TEST_CASE("peers that are a stride apart go round at most once and not through the rank itself") {
    const auto steps = [](int count) {
        return [count](int r, int) -> step { return {.to = peers::strided((r + 1) % 4, count, 1, 4)}; };
    };
    const claim claimed = claim_of(allfold::barrier, dissemination{});
    CHECK(prove_written(4, 0, 1, steps(4), claimed).what == fault::no_such_peer);
    CHECK(prove_written(4, 0, 1, steps(5), claimed).what == fault::no_such_peer);
    CHECK(prove_written(4, 0, 1, steps(3), claimed).what == fault::unmatched);  // no rank receives
}

TEST_CASE("a step that ranks cannot run is refused") {
    const auto reason = [](const proof& p) {
        CHECK(p.what == fault::cannot_run);
        return explain(p);
    };
    const auto with = [](const auto& collective, auto edit, int size) {
        return prove_written(
            size, 1, 1,
            [&](int r, int) {
                step s{.to = peers::everyone(), .send = whole, .from = peers::everyone(), .receive = whole};
                edit(s, r);
                return s;
            },
            rank_order_claim(collective));
    };
    const auto folds = [](step& s, int) { s.how = fold::in_rank_order; };
    CHECK(reason(with(allfold::broadcast, folds, 3)) ==
          "P = 3, rank 2, round 0: folds, or sets an identity, but the collective has no operator");
    CHECK(reason(with(
              allfold::broadcast, [](step& s, int) { s.local = allfold::set_identity(whole); }, 2)) ==
          "P = 2, rank 1, round 0: folds, or sets an identity, but the collective has no operator");
    const auto erases_elsewhere = [](step& s, int) {
        s.how = fold::in_rank_order;
        s.local = allfold::set_identity(whole);
        s.local.into = slot::scratch_a;
    };
    CHECK(reason(with(allfold::all_reduce, erases_elsewhere, 3)) ==
          "P = 3, rank 2, round 0: sets an identity in a scratch slot, or under other block numbers: set it in blocks "
          "of the result");
    const auto erases_others = [](step& s, int) {
        s.how = fold::in_rank_order;
        s.local = allfold::set_identity(whole);
        s.local.targets = whole;
    };
    CHECK(with(allfold::all_reduce, erases_others, 3).what == fault::cannot_run);
}

TEST_CASE("a block is not received to where it is sent from") {
    const proof p = prove_edited(allfold::all_reduce, doubling{}, 8, [](int r, int round, step& s) {
        if (r == 5 && round == 1) s.into = s.source;
    });
    CHECK(p.what == fault::overwrites_sent);
    CHECK(explain(p) == "P = 8, rank 5, round 1: receives block 0 into scratch_a while it sends that block from there");
    const proof others = prove_edited(allfold::all_reduce, direct{}, 3, [](int, int round, step& s) {
        if (round == 1) s.sent = allfold::addressed::per_peer;
    });
    CHECK(others.what == fault::overwrites_sent);
}

TEST_CASE("a schedule that claims to work in place is held to it") {
    claim in_place = claim_of(allfold::all_reduce, all_read{});
    in_place.in_place = true;
    const auto unchanged = [](int, int, step&) {};
    const proof sent = prove_edited(allfold::all_reduce, all_read{}, 3, unchanged, in_place);
    CHECK(sent.what == fault::not_in_place);
    CHECK(sent.cause == fault::overwrites_sent);
    CHECK(explain(sent) ==
          "P = 3, rank 2, round 0: in place receives block 0 of the result while it sends that block of the input");

    const auto reads_late = [](int r, int round) -> step {
        using kind = allfold::local_work::kind;
        const slot left = r == 0 ? slot::input : slot::result, right = r == 0 ? slot::result : slot::input;
        if (round == 1) return {.local = {kind::fold, left, right, slot::result, whole}};
        return {.local = {kind::copy, slot::input, slot::input, slot::scratch_a, whole},
                .to = peers::one(1 - r),
                .send = whole,
                .source = slot::scratch_a,
                .from = peers::one(1 - r),
                .receive = whole};
    };
    claim claimed = rank_order_claim(allfold::all_reduce);
    CHECK(prove_written(2, 1, 2, reads_late, claimed).ok());
    claimed.in_place = true;
    const proof read = prove_written(2, 1, 2, reads_late, claimed);
    CHECK(read.what == fault::not_in_place);
    CHECK(read.cause == fault::empty_slot);
    CHECK_THAT(explain(read),
               Catch::Matchers::ContainsSubstring(
                   "round 1: in place reads block 0 of the input after the result has been written there"));
}

TEST_CASE("blocks are written only where they belong") {
    claim less = claim_of(allfold::all_reduce, doubling{});
    less.scratch_slots = 1;
    const proof scratch = prove_edited(allfold::all_reduce, doubling{}, 8, [](int, int, step&) {}, less);
    CHECK(scratch.what == fault::misplaced);
    CHECK_THAT(explain(scratch), Catch::Matchers::ContainsSubstring("of scratch_b, but declares 1 scratch slot"));

    const proof input = prove_edited(allfold::all_reduce, doubling{}, 4, [](int r, int round, step& s) {
        if (r == 3 && round == 1) s.into = slot::input;
    });
    CHECK(input.what == fault::misplaced);
    CHECK(explain(input) == "P = 4, rank 3, round 1: writes block 0 of the input, which belongs to the caller");

    const proof foreign = prove_edited(allfold::reduce, binomial{}, 4, [](int r, int, step& s) {
        if (r == 2) s.into = slot::result;
    });
    CHECK(foreign.what == fault::misplaced);
    CHECK(explain(foreign) ==
          "P = 4, rank 2, round 0: writes block 0 of the result, which does not belong to this rank");
}

TEST_CASE("nothing is read where nothing lies") {
    const proof p = prove_edited(allfold::all_reduce, doubling{}, 4, [](int r, int round, step& s) {
        if (r == 1 && round == 0) s.source = slot::scratch_b;
    });
    CHECK(p.what == fault::empty_slot);
    CHECK(explain(p) == "P = 4, rank 1, round 0: reads block 0 of scratch_b, which is empty");
}

TEST_CASE("peers and blocks that do not exist are found") {
    for (const int peer : {-1, 2, 4}) {
        const proof p = prove_edited(allfold::all_reduce, doubling{}, 4, [=](int r, int round, step& s) {
            if (r == 2 && round == 0) s.to = peers::one(peer);
        });
        CHECK(p.what == fault::no_such_peer);
        CHECK(explain(p) ==
              "P = 4, rank 2, round 0: names rank " + std::to_string(peer) + ", which is not another of the 4 ranks");
    }
    const proof p = prove_edited(allfold::reduce, binomial{}, 2, [](int r, int, step& s) {
        if (r == 1) s.send = block_set::one(1);
    });
    CHECK(p.what == fault::no_such_block);
    CHECK(explain(p) == "P = 2, rank 1, round 0: names block 1 of 1");
}

TEST_CASE("a schedule that says that it folds once does") {
    const auto prove_for = [](int size) {
        return prove(
            size, [size](int r) { return says_that_it_folds_once({r, size}); },
            allfold::claim_of(allfold::all_reduce, doubling{}));
    };
    CHECK(prove_for(2).ok());
    const proof p = prove_for(4);
    CHECK(p.what == fault::folds_again);
    CHECK(explain(p) ==
          "P = 4, rank 3, round 0: does not fold all operands at once, although the schedule declares that it does");
}

TEST_CASE("several peers' blocks need an ordered fold of one and the same block") {
    const proof stored =
        prove_edited(allfold::all_reduce, all_read{}, 3, [](int, int, step& s) { s.how = fold::left; });
    CHECK(stored.what == fault::fold_unclear);
    CHECK_THAT(explain(stored), Catch::Matchers::ContainsSubstring("receives from 2 peers the same block 0"));
    const proof apart = prove_edited(allfold::all_reduce, direct{}, 3, [](int, int round, step& s) {
        if (round == 1) s.how = fold::in_rank_order;
    });
    CHECK(apart.what == fault::fold_unclear);
    CHECK_THAT(explain(apart), Catch::Matchers::ContainsSubstring("from 2 peers a block each"));
}

TEST_CASE("an ordered fold of one message is done when that comes, before its second part is stored") {
    const proof p =
        allfold::prove(2, [](int r) { return folds_what_is_replaced{r}; }, rank_order_claim(allfold::all_reduce));
    INFO(explain(p));
    CHECK(p.what == fault::repeated);
}

TEST_CASE("a scratch slot that copies a block which does not exist is not used") {
    const auto steps = [](int, int) -> step {
        return {
            .local = {
                .what = allfold::local_work::kind::copy, .into = slot::scratch_a, .blocks = whole, .targets = whole}};
    };
    claim claimed = rank_order_claim(allfold::reduce);
    claimed.equal_blocks = true;
    CHECK(explain(prove(
              2, [=](int r) { return copies_no_block(r, 2, 1, 1, steps); }, claimed)) ==
          "P = 2, rank 0: names block 5 of 1");
}
