// SPDX-License-Identifier: BSL-1.0
#include "allfold/collective/distributed.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "allfold/algebra/exact_sum.hpp"
#include "allfold/algebra/mean.hpp"
#include "allfold/algebra/operator.hpp"
#include "allfold/algebra/stretch.hpp"
#include "allfold/collective/all_reduce.hpp"
#include "allfold/collective/barrier.hpp"
#include "allfold/collective/detail/array_pieces.hpp"
#include "allfold/collective/reduce_scatter.hpp"
#include "allfold/collective/together.hpp"
#include "allfold/transport/hierarchy.hpp"
#include "test/collective/distributed_checks.hpp"
#include "test/support/algebras.hpp"
#include "test/support/catch.hpp"
#include "test/support/groups.hpp"
#include "test/support/hierarchies.hpp"
#include "test/support/oracle.hpp"
#include "test/support/ranks.hpp"
#include "test/support/remote.hpp"
#include "test/support/sanitized.hpp"

using namespace test;
using allfold::errc;
using allfold::order;
using allfold::sum;

TEMPLATE_TEST_CASE("arrays on several ranks are folded and scanned in the order of their elements", "", words,
                   matrices) {
    for (const int size : group_sizes) on_ranks(size, [](auto& comm) { check_arrays<TestType>(comm); });
    SUCCEED();
}

TEMPLATE_TEST_CASE("arrays of more blocks than every rank goes through are folded in sections", "", words, matrices) {
    for (const int size : {3, 5}) on_ranks(size, [](auto& comm) { check_arrays<TestType>(comm, {700}); });
    SUCCEED();
}

/// Permutations of {0, 1, 2, 3}, two bits for each image: first the left one, then the right one.
struct then {
    [[nodiscard]] static unsigned image(std::uint8_t permutation, unsigned of) {
        return unsigned{permutation} >> 2 * of & 3u;
    }
    std::uint8_t operator()(std::uint8_t left, std::uint8_t right) const {
        unsigned both = 0;
        for (unsigned i = 0; i < 4; ++i) both |= image(right, image(left, i)) << 2 * i;
        return static_cast<std::uint8_t>(both);
    }
};

TEST_CASE("bytes in more blocks than every rank goes through are folded in sections, although their folds are few") {
    constexpr std::size_t n = 560, each = 56;  // as many bytes as a rank sends along when layouts are compared
    constexpr int ranks = 10;
    const block_cyclic layout{1, 0, n};
    REQUIRE_FALSE(
        allfold::detail::array_pieces(layout, ranks, {allfold::detail::pieces_of::block, false}).goes_to_all());
    std::vector<std::uint8_t> all(n), prefixes;
    const std::array<std::uint8_t, 3> permutations{0b00111001, 0b11100001, 0b10110100};
    for (std::size_t i = 0; i < n; ++i) all[i] = permutations[i * i % 7 % 3];
    prefixes.push_back(all[0]);
    for (std::size_t i = 1; i < n; ++i) prefixes.push_back(then()(prefixes.back(), all[i]));
    on_ranks(ranks, [&](auto& comm) {
        const auto rank = static_cast<std::size_t>(comm.rank());
        std::vector<std::uint8_t> own(each), found(each);
        for (std::size_t i = 0; i < each; ++i) own[i] = all[i * ranks + rank];
        std::uint8_t fold = 0;
        allfold::all_reduce(comm, distributed(own, layout), fold, allfold::associative(then()));
        expect(fold == prefixes.back(), "the fold of all");
        allfold::inclusive_scan(comm, distributed(own, layout), distributed(found, layout),
                                allfold::associative(then()));
        for (std::size_t i = 0; i < each; ++i) expect(found[i] == prefixes[i * ranks + rank], "prefixes");
    });
    SUCCEED();
}

TEST_CASE("arrays are folded where ranks share no memory") {
    for (const int size : {2, 3, 5})
        on_ranks(
            size,
            [size](auto& base) {
                remote comm(base);
                check_arrays<matrices>(comm);
                if (size == 3) check_arrays<matrices>(comm, {600});
            },
            roomy);
    SUCCEED();
}

TEST_CASE("arrays are folded by threads of processes, which exchange blocks of one length only") {
    for (const int processes : {2, 3})
        if (processes <= fewer_if_sanitized(3, 2))
            on_threads_of_threads(processes, 2, [](auto& comm) { check_arrays<matrices>(comm); });
    SUCCEED();
}

TEST_CASE("arrays of words, about as many as ranks, are folded in order by threads of processes") {
    on_hierarchies_of_few([](auto& comm, const std::string&) {
        const auto ranks = static_cast<std::size_t>(comm.size());
        check_arrays<words>(comm, {ranks - 1, ranks + 1});
    });
    SUCCEED();
}

TEST_CASE("arrays are folded in any layout") {
    const unsigned seed = std::random_device()();
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const auto below = [&random](std::size_t end) { return random() % end; };
    for (int turn = 0; turn < fewer_if_sanitized(40, 15); ++turn) {
        const int ranks = 1 + static_cast<int>(below(8));
        const std::size_t n = below(900);
        const auto block = [&] { return 1 + below(1 + below(60)); };
        const block_cyclic source{block(), below(500), n}, target{block(), below(500), n};
        const auto where = place_of(ranks, source, target);
        INFO(where);
        CHECK_NOTHROW(on_ranks(ranks, [&](auto& comm) {
            const array<matrices> a(n);
            check_array(comm, a, source, target, where);
            check_array(comm, a, source, target, where + ", in one tree", order::global);
        }));
    }
}

TEST_CASE("no rank holds more pieces of an array than all are told") {
    const unsigned seed = std::random_device()();
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const auto below = [&random](std::size_t end) { return random() % end; };
    for (int turn = 0; turn < 3000; ++turn) {
        const int ranks = 1 + static_cast<int>(below(70));
        const block_cyclic layout{1 + below(1 + below(200)), below(300), 1 + below(1 + below(900))};
        for (const auto what : {allfold::detail::pieces_of::block, allfold::detail::pieces_of::tree}) {
            const allfold::detail::array_pieces pieces(layout, ranks, {what, false});
            std::size_t most = 0;
            for (int r = 0; r < ranks; ++r) most = std::max(most, pieces.held_by(r));
            INFO(place_of(ranks, layout, layout));
            REQUIRE(most <= pieces.max_held());
        }
    }
}

TEST_CASE("blocks that are long beside what there is for each rank are folded in one tree") {
    for (const int size : group_sizes)
        on_ranks(size, [](auto& comm) {
            for (const std::size_t block : {std::size_t{31}, std::size_t{100}}) {
                const block_cyclic layout{block, 0, block + 1};
                const std::vector<std::uint8_t> x(layout.extent(comm.rank(), comm.size()), 1);
                const std::vector<float> y(x.size(), 1);
                const auto check = [&](auto level) {
                    std::uint8_t bytes = 0;
                    float floats = 0;
                    allfold::all_reduce(comm, distributed(x, layout), bytes, sum(), level);
                    allfold::all_reduce(comm, distributed(y, layout), floats, sum(), level);
                    expect(bytes == block + 1 && floats == static_cast<float>(block + 1),
                           std::to_string(block) + " on " + std::to_string(comm.size()));
                };
                check(order::tree);
                check(order::global);
            }
        });
    SUCCEED();
}

TEST_CASE("arrays are folded by operators that take many elements at once") {
    // The right operand, so the result depends on the order.
    const auto last =
        allfold::associative([](allfold::stretch<const int>, allfold::stretch<const int> right,
                                allfold::stretch<int> out) { std::copy_n(right.data(), right.size(), out.data()); });
    on_ranks(3, [&](auto& comm) {
        const block_cyclic layout{2, 3, 20};
        std::vector<int> all(20);
        std::iota(all.begin(), all.end(), 0);
        const auto mine = held_by(comm, all, layout);
        int total = -1;
        allfold::all_reduce(comm, distributed(mine, layout), total, last);
        expect(total == 19, "all_reduce");
        std::vector<int> out(mine.size());
        allfold::inclusive_scan(comm, distributed(mine, layout), distributed(out, layout), last);
        expect(out == mine, "inclusive_scan");
    });
    SUCCEED();
}

TEST_CASE("commutative operators fold what a rank holds first, and rank order is kept where it is asked for") {
    on_ranks(3, [](auto& comm) {
        // The left operand: declared commutative, although it is not.
        const auto first = allfold::commutative([](int x, int) { return x; });
        const block_cyclic layout{2, 3, 20};  // its first element is on rank 1
        std::vector<int> all(20);
        for (int i = 0; i < 20; ++i) all[static_cast<std::size_t>(i)] = i;
        const auto mine = held_by(comm, all, layout);
        int total = -1;
        allfold::all_reduce(comm, distributed(mine, layout), total, first);
        expect(total == static_cast<int>(layout.global_index(0, 0, 3)), "rank 0 comes first");
        allfold::all_reduce(comm, distributed(mine, layout), total, first, order::rank);
        expect(total == 0, "the first element comes first");
        allfold::all_reduce(comm, distributed(mine, layout), total, sum(), order::any);
        expect(total == 190, "a sum");
    });
    SUCCEED();
}

TEST_CASE("long blocks of numbers are folded in any order where their operator is commutative") {
    constexpr std::size_t lengths[] = {15, 16, 23, 1023, 1024, 1500};
    for (const std::size_t block : lengths)
        on_ranks(2, [block](auto& comm) {
            const block_cyclic layout{block, 7, 3 * block + 5};
            std::vector<unsigned> all(layout.count), prefixes(layout.count);
            for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<unsigned>(i * i + 1);
            std::partial_sum(all.begin(), all.end(), prefixes.begin());
            const auto mine = held_by(comm, all, layout), expected = held_by(comm, prefixes, layout);
            const std::string where = "blocks of " + std::to_string(block);
            unsigned total = 0;
            allfold::all_reduce(comm, distributed(mine, layout), total, sum());
            expect(total == prefixes.back(), where);
            allfold::all_reduce(comm, distributed(mine, layout), total, sum(), order::rank);
            expect(total == prefixes.back(), where + ", in rank order");
            std::vector<unsigned> out(mine.size());
            allfold::inclusive_scan(comm, distributed(mine, layout), distributed(out, layout), sum());
            expect_equal(out, expected, where + ", inclusive_scan");
        });
    SUCCEED();
}

TEST_CASE("an operator that declares commutativity at run time decides whether ranks fold their own elements first") {
    const auto first_if = [](bool commutes) { return allfold::commutative_if(commutes, [](int x, int) { return x; }); };
    const block_cyclic layout{2, 3, 20};  // its first element is on rank 1
    std::vector<int> all(20);
    std::iota(all.begin(), all.end(), 0);
    on_ranks(3, [&](auto& comm) {
        const auto mine = held_by(comm, all, layout);
        int total = -1;
        allfold::all_reduce(comm, distributed(mine, layout), total, first_if(true));
        expect(total == static_cast<int>(layout.global_index(0, 0, 3)), "rank 0 comes first");
        allfold::all_reduce(comm, distributed(mine, layout), total, first_if(false));
        expect(total == 0, "the first element comes first");
        allfold::all_reduce(comm, distributed(mine, layout), total, first_if(true), order::rank);
        expect(total == 0, "rank order was asked for");
        allfold::all_reduce(comm, distributed(mine, layout), total, first_if(true), order::any);
        expect(total != 0, "any order was asked for");
        auto prefixes = mine;
        allfold::inclusive_scan(comm, distributed(prefixes, layout), first_if(comm.rank() == 0));
        for (const int each : prefixes) expect(each == 0, "a scan");
    });
    const auto refused = [&](auto call) {
        return outcomes_on_ranks(3, [&](auto& comm) {
            const auto mine = held_by(comm, all, layout);
            int total = -1;
            call(comm, distributed(mine, layout), total);
        });
    };
    for (const outcome& each : refused([&](auto& comm, const auto& array, int& total) {
             allfold::all_reduce(comm, array, total, first_if(comm.rank() == 1));
         }))
        CHECK(each.says("rank 1 calls a different collective on distributed arrays than rank 0"));
    for (const outcome& each : refused([&](auto& comm, const auto& array, int& total) {
             allfold::all_reduce(comm, array, total, first_if(comm.rank() != 1), order::any);
         }))
        CHECK(each.says("rank 1: the call asks for order::any, but the operator is declared not commutative"));
}

TEST_CASE("what an operator folds is lifted, lowered, and has an identity") {
    for (const int size : {1, 2, 5})
        on_ranks(size, [](auto& comm) {
            const std::size_t n = 31;
            std::vector<double> all(n);
            for (std::size_t i = 0; i < n; ++i) all[i] = i % 3 == 0 ? 1e300 : i % 3 == 1 ? 1.0 : -1e300;
            const block_cyclic layout{3, 1, n}, other{4, 0, n};
            const auto mine = held_by(comm, all, layout);
            double total = 0;
            allfold::all_reduce(comm, distributed(mine, layout), total, allfold::exact_sum<double>());
            expect(total == 1e300, "exact sum");
            std::vector<double> out(other.extent(comm.rank(), comm.size()), -1);
            allfold::exclusive_scan(comm, distributed(mine, layout), distributed(out, other),
                                    allfold::exact_sum<double>(), order::global,
                                    allfold::deadline(std::chrono::minutes(5)));
            for (std::size_t i = 0; i < out.size(); ++i) {
                const std::size_t at = other.global_index(comm.rank(), i, comm.size()), whole = at / 3;
                const double ones = static_cast<double>(whole);
                expect(out[i] == (at % 3 == 0 ? ones : 1e300), "exact prefixes");
            }
            for (std::size_t i = 0; i < n; ++i) all[i] = static_cast<double>(i);
            auto x = held_by(comm, all, layout);
            allfold::all_reduce(comm, distributed(x, layout), total, allfold::mean());
            expect(total == 15, "mean");
            allfold::inclusive_scan(comm, distributed(x, layout), allfold::mean());
            for (std::size_t i = 0; i < x.size(); ++i)
                expect(x[i] == static_cast<double>(layout.global_index(comm.rank(), i, comm.size())) / 2, "means");
            const block_cyclic nothing{4, 2, 0};
            int count = -1;
            allfold::all_reduce(comm, distributed(std::vector<int>(), nothing), count, sum());
            expect(count == 0, "the sum of nothing");
        });
    SUCCEED();
}

namespace {

/// The fold of elements [first, first + count), bracketed as the tree over their indices.
float tree_of(const std::vector<float>& x, std::size_t first, std::size_t count) {
    if (count == 1) return x[first];
    const std::size_t left = std::bit_ceil(count) / 2;
    return tree_of(x, first, left) + tree_of(x, first + left, count - left);
}
/// The fold of the elements before index `end`: of one node for each bit of `end`, the largest first.
std::optional<float> before(const std::vector<float>& x, std::size_t end) {
    std::optional<float> all;
    for (std::size_t at = 0; at < end;) {
        const std::size_t node = std::bit_floor(end - at);
        all = all ? *all + tree_of(x, at, node) : tree_of(x, at, node);
        at += node;
    }
    return all;
}

}  // namespace

TEST_CASE("under order::global arrays have the same bits for any number of ranks and any layout") {
    // If 896 elements are dealt out one by one, 7 ranks fold 7 sections.
    for (const std::size_t n : {1U, 7U, 64U, 333U, 896U}) {
        std::vector<float> all(n), inclusive(n), exclusive(n);
        for (std::size_t i = 0; i < n; ++i) {
            all[i] = floats::sample(static_cast<int>(i * 7 % 13), i) * (i % 5 == 0 ? 1e8F : i % 3 == 0 ? -1e-6F : 1.0F);
            // Numbers for which every bracketing of the sums of 7 sections gives different bits.
            if (n == 896) all[i] = static_cast<float>(i * i * 7925 % 1000003) / 997;
            const auto below = before(all, i);
            exclusive[i] = below.value_or(0.0F);
            inclusive[i] = below ? *below + all[i] : all[i];
        }
        const float expected = tree_of(all, 0, n);
        for (int ranks = 1; ranks <= 8; ++ranks)
            on_ranks(ranks, [&](auto& comm) {
                auto layouts = layouts_of(n, comm.size());
                layouts.push_back({64, 0, n});  // with these numbers of ranks, nothing has to move
                layouts.push_back({48, 40, n});
                for (const block_cyclic& source : layouts) {
                    const auto where = place_of(ranks, source, layouts[2]);
                    const auto mine = held_by(comm, all, source);
                    float total = 0;
                    allfold::all_reduce(comm, distributed(mine, source), total, sum(), order::global);
                    expect(same_bytes(std::span(&total, 1), std::span(&expected, 1)), where + ", all_reduce");
                    std::vector<float> x(layouts[2].extent(comm.rank(), comm.size())), y = mine;
                    allfold::inclusive_scan(comm, distributed(mine, source), distributed(x, layouts[2]), sum(),
                                            order::global);
                    expect(same_bytes(x, held_by(comm, inclusive, layouts[2])), where + ", inclusive_scan");
                    allfold::exclusive_scan(comm, distributed(y, source), sum(), order::global);
                    expect(same_bytes(y, held_by(comm, exclusive, source)), where + ", exclusive_scan");
                }
            });
        if (n == 333) {  // for these numbers, the order of additions matters
            float in_a_row = 0;
            for (const float x : all) in_a_row += x;
            CHECK(in_a_row != expected);
        }
    }
}

TEST_CASE("order::global is for all that exact operators fold") {
    on_ranks(3, [](auto& comm) {
        std::vector<double> x{1e300, 1, -1e300}, y(1);
        allfold::reduce_scatter(comm, x, y, allfold::exact_sum<double>(), order::global);
        expect(y[0] == 3 * x[static_cast<std::size_t>(comm.rank())], "reduce_scatter");
        int n = 1;
        allfold::all_reduce(comm, n, sum(), order::global);
        expect(n == 3, "all_reduce");
    });
    SUCCEED();
}

namespace {

/// Every rank must fail with `code`, or because of a rank that does, and the communicator must remain usable.
template <class Call>
void require_error(errc code, const std::string& words, Call call) {
    std::vector<outcome> outcomes(3);
    on_ranks(3, [&](auto& comm) {
        std::vector<int> x(4, 1), y(4, 7);
        outcomes[static_cast<std::size_t>(comm.rank())] = outcome_of([&] { call(comm, x, y); });
        expect(y == std::vector(4, 7), "the output has been written");
        int count = 1;
        allfold::all_reduce(comm, count, sum());
        expect(count == 3, "the communicator");
    });
    for (const outcome& each : outcomes) {
        INFO(each.text);
        CHECK((each.code == code || each.code == errc::peer_failed));
        CHECK(each.says(words));
    }
    CHECK(std::ranges::any_of(outcomes, [code](const outcome& each) { return each.code == code; }));
}

}  // namespace

TEST_CASE("arrays that ranks describe or hold differently are rejected by all ranks") {
    const block_cyclic all{4, 0, 12};
    require_error(errc::mismatch,
                  "the source of rank 2 is block_cyclic{4, 12, 12}, but that of rank 0 is block_cyclic{4, 0, 12}",
                  [&](auto& comm, auto& x, auto&) {
                      const block_cyclic own{4, comm.rank() == 2 ? 12U : 0U, 12};
                      allfold::all_reduce(comm, distributed(x, own), x[0], sum());
                  });
    require_error(errc::mismatch, "the target of rank 1 is block_cyclic{3, 0, 12}", [&](auto& comm, auto& x, auto& y) {
        const block_cyclic own{comm.rank() == 1 ? 3U : 4U, 0, 12};
        allfold::inclusive_scan(comm, distributed(x, all), distributed(y, own), sum());
    });
    require_error(errc::mismatch,
                  "rank 1 has 3 elements of the source, but block_cyclic{4, 0, 12} on 3 ranks gives it 4",
                  [&](auto& comm, auto& x, auto&) {
                      const std::size_t held = comm.rank() == 1 ? 3 : 4;
                      allfold::exclusive_scan(comm, distributed(std::span(x).first(held), all), sum());
                  });
    require_error(errc::mismatch, "rank 0 has 4 elements of the target", [&](auto& comm, auto& x, auto& y) {
        allfold::inclusive_scan(comm, distributed(x, all), distributed(y, block_cyclic{5, 0, 12}), sum());
    });
    require_error(errc::mismatch,
                  "the source is block_cyclic{4, 0, 12}, but the target is block_cyclic{4, 0, 11}: they must have",
                  [&](auto& comm, auto& x, auto& y) {
                      allfold::inclusive_scan(comm, distributed(x, all), distributed(y, block_cyclic{4, 0, 11}), sum());
                  });
    require_error(errc::bad_partition, "block_cyclic{0, 0, 12} has empty blocks", [&](auto& comm, auto& x, auto& y) {
        allfold::all_reduce(comm, distributed(x, block_cyclic{0, 0, 12}), y[0], sum());
    });
    require_error(errc::bad_rank, "root 3 is not in [0, 3)", [&](auto& comm, auto& x, auto& y) {
        allfold::reduce(comm, distributed(x, all), y[0], sum(), allfold::root{3});
    });
    require_error(errc::mismatch, "rank 1 names root -1, but rank 0 names root 0", [&](auto& comm, auto& x, auto& y) {
        allfold::reduce(comm, distributed(x, all), y[0], sum(), allfold::root{comm.rank() == 1 ? -1 : 0});
    });
    require_error(errc::mismatch, "rank 2 calls a different collective on distributed arrays than rank 0",
                  [&](auto& comm, auto& x, auto&) {
                      if (comm.rank() == 2)
                          allfold::inclusive_scan(comm, distributed(x, all), allfold::max());
                      else
                          allfold::inclusive_scan(comm, distributed(x, all), sum());
                  });
    require_error(errc::mismatch, "rank 1 calls a different collective on distributed arrays than rank 0",
                  [&](auto& comm, auto& x, auto& y) {
                      std::vector<double> longer(x.begin(), x.end());
                      if (comm.rank() == 1)
                          allfold::all_reduce(comm, distributed(longer, all), longer[0], sum());
                      else
                          allfold::all_reduce(comm, distributed(x, all), y[0], sum());
                  });
    require_error(errc::mismatch, "or order level", [&](auto& comm, auto& x, auto&) {
        const auto join = allfold::associative([](int a, int b) { return a + b; });
        if (comm.rank() == 1)
            allfold::inclusive_scan(comm, distributed(x, all), join, order::global);
        else
            allfold::inclusive_scan(comm, distributed(x, all), join);
    });
    require_error(errc::overlap, "source and target of rank 0 overlap in part", [&](auto& comm, auto&, auto&) {
        std::vector<int> memory(5);
        const bool is_first = comm.rank() == 0;
        allfold::inclusive_scan(comm, distributed(std::span(memory).first(4), all),
                                distributed(std::span(memory).subspan(is_first ? 1 : 0, 4), all), sum());
    });
    require_error(errc::bad_argument, "the array has no elements and the operator has no identity",
                  [&](auto& comm, auto&, auto& y) {
                      const auto join = allfold::associative([](int a, int b) { return a + b; });
                      allfold::all_reduce(comm, distributed(std::vector<int>(), block_cyclic{4, 0, 0}), y[0], join);
                  });
}

TEST_CASE("a rank whose operator throws releases all others") {
    const auto outcomes = outcomes_on_ranks(3, [](auto& comm) {
        const auto picky = allfold::associative([&comm](int a, int b) {
            if (comm.rank() == 1) throw std::runtime_error("out of memory");
            return a + b;
        });
        std::vector<int> x(4, 1);
        allfold::inclusive_scan(comm, distributed(x, block_cyclic{2, 0, 12}), picky);
    });
    for (const outcome& each : outcomes) CHECK(each.says("out of memory"));
}

TEST_CASE("an error in an array in flight is reported on all ranks, before or when they wait") {
    const auto outcomes = [](auto start) {
        return outcomes_on_ranks(3, [&](auto& comm) {
            std::vector<int> x(4, 1);
            start(comm, x).wait();
        });
    };
    const block_cyclic all{4, 0, 12}, other{4, 12, 12};
    for (const outcome& each : outcomes([&](auto& comm, auto& x) {
             return allfold::inclusive_scan.start(comm, distributed(x, comm.rank() == 2 ? other : all), sum());
         })) {
        CHECK((each.code == errc::mismatch || each.code == errc::peer_failed));
        CHECK(
            each.says("the source of rank 2 is block_cyclic{4, 12, 12}, but that of rank 0 is block_cyclic{4, 0, 12}"));
    }
    for (const outcome& each : outcomes([&](auto& comm, auto& x) {
             return allfold::inclusive_scan.start(comm, distributed(x, block_cyclic{comm.rank() == 1 ? 0U : 4U, 0, 12}),
                                                  sum());
         }))
        CHECK(each.says("block_cyclic{0, 0, 12} has empty blocks"));
    for (const outcome& each : outcomes([&](auto& comm, auto& x) {
             const auto picky = allfold::associative([&comm](int a, int b) {
                 if (comm.rank() == 1) throw std::runtime_error("out of memory");
                 return a + b;
             });
             return allfold::inclusive_scan.start(comm, distributed(x, block_cyclic{2, 0, 12}), picky);
         }))
        CHECK(each.says("out of memory"));
    const auto late = [&](std::size_t each, const block_cyclic& layout, int last) {
        return outcomes_on_ranks(3, [&, each](auto& comm) {
            const auto throws = allfold::associative([&comm, last](int a, int b) {
                if (comm.rank() == 2 && a == last) throw std::runtime_error("at the last stage");
                return a + b;
            });
            std::vector<int> x(each, 1);
            allfold::inclusive_scan.start(comm, distributed(x, layout), throws).wait();
        });
    };
    // With many short blocks, what precedes each block is computed by another rank, so all ranks wait for that one.
    for (const outcome& each : late(200, {1, 0, 600}, 599)) CHECK(each.says("at the last stage"));
    // With few, every rank computes this itself, and may already have finished.
    CHECK(late(4, {2, 0, 12}, 10)[2].says("at the last stage"));
}

TEST_CASE("folds of arrays share packets with other collectives, and their operators may call nothing meanwhile") {
    on_ranks(
        3,
        [](auto& base) {
            remote comm(base);
            const block_cyclic layout{1, 0, 6};
            const int r = comm.rank();
            std::vector<int> x{r, r + 3};
            const std::vector<int> mine = x;
            int total = 0, count = 1;
            allfold::together(comm, allfold::inclusive_scan.with(distributed(x, layout), sum()),
                              allfold::all_reduce.with(count, sum()),
                              allfold::all_reduce.with(distributed(mine, layout), total, sum()));
            expect(count == 3, "another collective");
            expect(total == 15, "all_reduce");
            expect(x == std::vector{r * (r + 1) / 2, (r + 3) * (r + 4) / 2}, "inclusive_scan");
        },
        roomy);
    const auto outcomes = outcomes_on_ranks(2, [](auto& comm) {
        const auto nosy = allfold::associative([&comm](int a, int b) {
            allfold::barrier(comm);
            return a + b;
        });
        std::vector<int> x(4, 1);
        allfold::inclusive_scan.start(comm, distributed(x, block_cyclic{4, 0, 8}), nosy).wait();
    });
    for (const outcome& each : outcomes) CHECK(each.says("calls it inside the operator of a collective"));
}

TEST_CASE("an exclusive scan in place reads each element before it stores the prefix there") {
    for (const int size : {1, 2, 3, 8})
        for (const block_cyclic layout : {block_cyclic{50, 3, 100}, block_cyclic{3, 1, 100}, block_cyclic{100, 0, 100}})
            on_ranks(size, [&](auto& comm) {
                const std::size_t held = layout.extent(comm.rank(), size);
                std::vector<std::string> letters(held);
                std::vector<std::size_t> numbers(held);
                for (std::size_t i = 0; i < held; ++i) {
                    numbers[i] = layout.global_index(comm.rank(), i, size);
                    letters[i] = std::string(1, static_cast<char>('a' + numbers[i] % 26));
                }
                allfold::exclusive_scan(comm, distributed(letters, layout), allfold::associative(std::plus<>()));
                allfold::exclusive_scan(comm, distributed(numbers, layout), sum());
                for (std::size_t i = 0; i < held; ++i) {
                    const std::size_t at = layout.global_index(comm.rank(), i, size);
                    std::string before;
                    for (std::size_t k = 0; k < at; ++k) before += static_cast<char>('a' + k % 26);
                    if (at > 0) expect(letters[i] == before, "letters before " + std::to_string(at));
                    expect(numbers[i] == at * (at - 1) / 2 || at == 0, "the sum before " + std::to_string(at));
                }
            });
    SUCCEED();
}
