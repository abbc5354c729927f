// SPDX-License-Identifier: BSL-1.0
#include "allfold/analysis/prove.hpp"

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

namespace {

/// Claims to fold once, which is true for two ranks only.
struct says_that_it_folds_once : doubling::all_reduce {
    static constexpr bool folds_once = true;
    using doubling::all_reduce::all_reduce;
};

/// A schedule with a bug: `edit(rank, round, step)` changes its steps.
template <class S, class Edit>
class edited {
  public:
    static constexpr order keeps = S::keeps;
    static constexpr int scratch_slots = S::scratch_slots;
    static constexpr bool in_place = S::in_place;

    constexpr edited(const S& original, Edit edit) : original_(original), edit_(edit) {}
    static constexpr bool equal_blocks = allfold::needs_equal_blocks<S>;

    [[nodiscard]] constexpr const setting& where() const { return original_.where(); }
    [[nodiscard]] constexpr int blocks() const { return original_.blocks(); }
    [[nodiscard]] constexpr int rounds() const { return original_.rounds(); }
    [[nodiscard]] constexpr step operator[](int round) const {
        step s = original_[round];
        edit_(where().rank, round, s);
        return s;
    }

  private:
    S original_;
    Edit edit_;
};

template <class Collective, class Algorithm, class Edit>
constexpr proof prove_edited(const Collective&, const Algorithm& algorithm, int size, Edit edit, claim claimed) {
    using S = allfold::schedule_in<Collective, Algorithm>;
    return prove(
        size, [=](int r) { return edited<S, Edit>(allfold::make_schedule<S>(claimed.at(r, size), algorithm), edit); },
        claimed);
}
template <class Collective, class Algorithm, class Edit>
constexpr proof prove_edited(const Collective& what, const Algorithm& algorithm, int size, Edit edit) {
    return prove_edited(what, algorithm, size, edit, claim_of(what, algorithm));
}

/// A direct inclusive_scan with a bug.
template <class Edit>
class edited_scan : public direct::inclusive_scan {
  public:
    constexpr edited_scan(const setting& where, Edit edit) : inclusive_scan(where), edit_(edit) {}
    [[nodiscard]] constexpr step operator[](int round) const {
        step s = inclusive_scan::operator[](round);
        edit_(rank(), round, s);
        return s;
    }

  private:
    Edit edit_;
};

template <class Edit>
proof prove_scan(int size, Edit edit) {
    return prove(
        size, [=](int r) { return edited_scan<Edit>({r, size}, edit); }, claim_of(allfold::inclusive_scan, direct{}));
}

/// A schedule whose steps `steps(rank, round)` returns.
template <class Steps>
class written {
  public:
    static constexpr order keeps = order::rank;
    static constexpr int scratch_slots = 2;
    static constexpr bool in_place = false;

    constexpr written(int rank, int size, int blocks, int rounds, Steps steps)
        : where_{rank, size}, blocks_(blocks), rounds_(rounds), steps_(steps) {}
    [[nodiscard]] constexpr const setting& where() const { return where_; }
    [[nodiscard]] constexpr int blocks() const { return blocks_; }
    [[nodiscard]] constexpr int rounds() const { return rounds_; }
    [[nodiscard]] constexpr step operator[](int round) const { return steps_(where_.rank, round); }

  private:
    setting where_;
    int blocks_, rounds_;
    Steps steps_;
};

template <class Steps>
constexpr proof prove_written(int size, int blocks, int rounds, Steps steps, const claim& claimed) {
    return prove(size, [=](int r) { return written<Steps>(r, size, blocks, rounds, steps); }, claimed);
}

template <class Collective>
constexpr claim rank_order_claim(const Collective&, int root = 0) {
    return {.promise = &Collective::promise, .keeps = order::rank, .scratch_slots = 2, .root = root};
}
constexpr block_set whole = block_set::one(0);

step sends(int to, slot source = slot::input) { return {.to = peers::one(to), .send = whole, .source = source}; }
step stores(int from) { return {.from = peers::one(from), .receive = whole}; }

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

TEST_CASE("a schedule that does not exist for so many ranks is unsupported") {
    const proof p = prove(allfold::all_reduce, allfold::mirrored_doubling{}, 6);
    CHECK(p.what == fault::unsupported);
    CHECK(explain(p) == "P = 6: the schedule does not exist for this many ranks");
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

TEST_CASE("an identity is written when the messages of its step have been taken, and folds as nothing") {
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
    CHECK(prove_written(2, 1, 2, steps, claimed).ok());

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
        std::vector<allfold::fused_pass> passes;
        for (int r = 0; r < size; ++r)
            passes.push_back(
                {r, peers::everyone(), true, r < 2 ? allfold::share::prefix : allfold::share::prefix_before});
        return passes;
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
    CHECK(prove_written(4, 0, 1, steps(3), claimed).what == fault::deadlock);  // no rank receives
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
        if (r == 0 && round == 0) return {.from = peers::everyone(), .receive = whole, .how = fold::in_rank_order};
        if (r == 0 && round == 1)
            return {
                .from = peers::everyone(), .receive = whole, .how = fold::peers_in_rank_order, .into = slot::scratch_a};
        if (r == other)
            return round == 0 ? step{.from = peers::one(3 - other), .receive = whole, .into = slot::scratch_a}
                              : sends(0);
        if (r > 0 && round == 0) return sends(0);
        if (r > 0 && round == 1) return {.to = peers::everyone(), .send = whole};
        return {};
    };
    const auto prove_that = [&](int other) {
        return prove_written(
            3, 1, 3, [&](int r, int round) { return steps(r, round, other); }, rank_order_claim(allfold::reduce));
    };
    const proof p = prove_that(2);
    INFO(explain(p));
    CHECK(p.ok());
    CHECK(p.messages == 5);

    // Rank 0 takes the message of rank 1 first, which waits for rank 2, which waits for rank 0.
    CHECK(prove_that(1).what == fault::deadlock);
}

TEST_CASE("no ranks and no number of rounds are faults, not crashes") {
    const auto of_no_rounds = [](int) { return written(0, 3, 1, -1, [](int, int) { return step{}; }); };
    CHECK(prove(0, of_no_rounds, rank_order_claim(allfold::broadcast)).what == fault::unsupported);
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
}

TEST_CASE("a scan keeps order::tree only if each prefix is a canonical tree") {
    CHECK(prove(allfold::inclusive_scan, all_read{}, 7).ok());
    claim claimed = claim_of(allfold::inclusive_scan, dissemination{});
    claimed.keeps = order::tree;
    CHECK(prove_edited(
              allfold::inclusive_scan, dissemination{}, 7, [](int, int, step&) {}, claimed)
              .what == fault::bracketing);
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
