// SPDX-License-Identifier: BSL-1.0
#include "allfold/analysis/prove_together.hpp"

#include "allfold/analysis/prove.hpp"
#include "allfold/collective/all_reduce.hpp"
#include "allfold/schedule/binomial.hpp"
#include "allfold/schedule/direct.hpp"
#include "allfold/schedule/recursive_doubling.hpp"
#include "allfold/schedule/ring.hpp"
#include "test/support/catch.hpp"

using allfold::explain;
using allfold::fault;
using allfold::proof;
using allfold::prove_together;
using allfold::pushes;

namespace {

template <class S>
constexpr auto all_of(int size, int root = 0) {
    return [=](int rank) { return S({rank, size, root}); };
}
using ring = allfold::ring::all_reduce;
using doubling = allfold::recursive_doubling::all_reduce;

constexpr bool even_ranks_first(int rank) { return rank % 2 == 0; }
constexpr bool same_for_all(int) { return true; }

}  // namespace

TEST_CASE("two collectives end in every order of waiting if ranks push on all that they have in flight") {
    STATIC_REQUIRE(
        prove_together(5, all_of<ring>(5), all_of<doubling>(5), even_ranks_first, pushes::all_in_flight).ok());
    for (int size = 1; size <= 40; ++size) {
        const auto together = [&](const auto& first, const auto& second) {
            return prove_together(size, first, second, even_ranks_first, pushes::all_in_flight).ok();
        };
        CHECK(together(all_of<ring>(size), all_of<ring>(size)));
        CHECK(together(all_of<allfold::direct::all_reduce>(size), all_of<allfold::binomial::reduce>(size, size - 1)));
    }
}

TEST_CASE("however the steps of two collectives are mixed, both end and cost what they cost alone") {
    const proof alone[] = {
        allfold::prove(5, all_of<ring>(5), allfold::claim_of(allfold::all_reduce, allfold::ring{})),
        allfold::prove(5, all_of<doubling>(5), allfold::claim_of(allfold::all_reduce, allfold::recursive_doubling{}))};
    for (unsigned mix = 0; mix < 4096; ++mix) {
        const auto turn = [&](long long i) { return (mix >> i % 12 & 1U) != 0; };
        const proof p =
            prove_together(5, all_of<ring>(5), all_of<doubling>(5), even_ranks_first, pushes::all_in_flight, turn);
        INFO(explain(p) << ", mix " << mix);
        REQUIRE(p.ok());
        REQUIRE(p.messages == alone[0].messages + alone[1].messages);
    }
}

TEST_CASE("ranks that push on only what they wait for must wait in one order") {
    CHECK(prove_together(4, all_of<ring>(4), all_of<doubling>(4), same_for_all, pushes::awaited_only).ok());
    const proof p = prove_together(4, all_of<ring>(4), all_of<doubling>(4), even_ranks_first, pushes::awaited_only);
    CHECK(p.what == fault::deadlock);
    CHECK(p.circle_length >= 2);
    CHECK_THAT(explain(p), Catch::Matchers::ContainsSubstring("without buffering no rank can proceed"));
}

TEST_CASE("a schedule that does not end alone does not end together with another") {
    struct one_sided : ring {
        using ring::composed;
        [[nodiscard]] constexpr allfold::step operator[](int round) const {
            allfold::step s = ring::operator[](round);
            if (rank() == 0) s.to = {};
            return s;
        }
    };
    const proof p = prove_together(3, all_of<one_sided>(3), all_of<doubling>(3), same_for_all, pushes::all_in_flight);
    CHECK_FALSE(p.ok());
}

TEST_CASE("schedules whose ranks disagree about rounds do not run together, and there is no number of rounds below 0") {
    struct of_other_rounds : ring {
        using ring::composed;
        [[nodiscard]] constexpr int rounds() const { return rank() - root(); }
    };
    const auto both = [](int size, const auto& first, const auto& second) {
        return explain(prove_together(size, first, second, same_for_all, pushes::all_in_flight));
    };
    CHECK(both(2, all_of<of_other_rounds>(2, 1), all_of<ring>(2)) == "P = 2, rank 0: has -1 rounds, not 0");
    CHECK(both(3, all_of<ring>(3), all_of<of_other_rounds>(3)) == "P = 3, rank 1: has 1 round, not 0");
    CHECK(both(1, all_of<of_other_rounds>(1, -1), all_of<ring>(1)) == "P = 1, rank 0: has 1 round, not 0");
}

TEST_CASE("two schedules at once have the rounds of both, and faults are those that each has alone") {
    struct sends_twice : ring {
        using ring::composed;
        [[nodiscard]] constexpr allfold::step operator[](int round) const {
            allfold::step s = ring::operator[](round);
            if (rank() == 1 && round == 3) s.from = {};
            return s;
        }
    };
    const auto both = [](const auto& first) {
        return prove_together(3, first, all_of<doubling>(3), same_for_all, pushes::all_in_flight);
    };
    CHECK(both(all_of<ring>(3)).rounds == 4 + doubling({0, 3}).rounds());
    const proof alone =
        allfold::prove(3, all_of<sends_twice>(3), allfold::claim_of(allfold::all_reduce, allfold::ring{}));
    CHECK(alone.what == fault::unmatched);
    CHECK(explain(both(all_of<sends_twice>(3))) == explain(alone));
    for (const int size : {0, -1}) {
        const proof none = prove_together(size, all_of<ring>(1), all_of<ring>(1), same_for_all, pushes::awaited_only);
        CHECK(none.what == fault::unsupported);
    }
}
