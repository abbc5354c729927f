// SPDX-License-Identifier: BSL-1.0
#include "allfold/engine/choose.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "allfold/analysis/prove.hpp"
#include "test/support/catch.hpp"
#include "test/support/collectives.hpp"

namespace {

using allfold::candidate;
using allfold::contract;
using allfold::order;
using allfold::problem;
using allfold::reach;
using allfold::setting;

constexpr std::size_t KiB = 1024, MiB = 1024 * KiB;

/// The candidates of one collective for ranks with one kind of `reach`.
struct place_to_choose {
    const contract* promise;
    std::span<const candidate> candidates;
    bool in_groups;

    [[nodiscard]] std::string text() const { return promise->name + std::string(in_groups ? ", in groups" : ""); }
    [[nodiscard]] bool can_give(order level) const {
        return !promise->folds ||
               std::ranges::any_of(candidates, [&](const candidate& c) { return c.schedule->keeps >= level; });
    }
};

std::vector<place_to_choose> everywhere() {
    std::vector<place_to_choose> all;
    test::for_each_collective([&]<class C>(const C&) {
        all.push_back({&C::promise, allfold::detail::candidates_of<C, reach::memory>(), false});
        all.push_back({&C::promise, allfold::detail::candidates_of<C, reach::messages>(), false});
        all.push_back({&C::promise, allfold::detail::candidates_of<C, reach::levels>(), true});
    });
    return all;
}

/// Proves each schedule only once.
bool is_proved(const contract& promise, const candidate& c, int size, int group) {
    static std::map<std::tuple<const contract*, const candidate*, int, int>, bool> known;
    const auto [found, is_new] = known.try_emplace({&promise, &c, size, group});
    if (is_new) {
        const int root = promise.rooted ? size / 3 : 0;
        const auto make = [&](int rank) { return c.schedule->make(setting{rank, size, root, group}, nullptr); };
        const auto first = make(0);
        const allfold::claim claimed{.promise = &promise,
                                     .keeps = first.keeps,
                                     .scratch_slots = first.scratch_slots,
                                     .in_place = first.in_place,
                                     .equal_blocks = first.equal_blocks(),
                                     .root = root,
                                     .group = group};
        const auto outcome = allfold::prove(size, make, claimed);
        UNSCOPED_INFO(allfold::explain(outcome));
        found->second = outcome.ok();
    }
    return found->second;
}

/// The choice must keep the order that is asked for, exist for this P, and be proved.
void check_choice(const place_to_choose& where, const problem& p, int group) {
    const candidate* const chosen = allfold::detail::choose(where.candidates, p, group, where.promise->folds);
    REQUIRE((chosen != nullptr) == where.can_give(p.level));
    if (chosen == nullptr) return;
    if (where.promise->folds) CHECK(chosen->schedule->keeps >= p.level);
    CHECK(chosen->schedule->supports(p.size, group));
    CHECK(!std::string(chosen->why).empty());
    if (p.size > 17) return;
    INFO(chosen->schedule->name);
    CHECK(is_proved(*where.promise, *chosen, p.size, group));
}

template <class Collective>
std::string chosen_for(const Collective&, std::span<const candidate> among, const problem& p) {
    const candidate* const c = allfold::detail::choose(among, p, 1, Collective::promise.folds);
    return c == nullptr ? "none" : c->schedule->name;
}

}  // namespace

TEST_CASE("whatever is chosen does what is asked for, on every number of ranks") {
    for (const auto& where : everywhere())
        for (const int group : {1, 2, 4})
            for (const int size : {1, 2, 3, 4, 5, 6, 7, 8, 12, 13, 16, 17, 64, 1000})
                for (const std::size_t bytes : {std::size_t{0}, std::size_t{8}, 16 * KiB, 1 * MiB, 64 * MiB})
                    for (const int processors : {0, 2, 16})
                        for (const order level : {order(order::any), order(order::rank), order(order::tree)}) {
                            if ((group > 1) != where.in_groups || size % group != 0) continue;
                            INFO(where.text() << ", P = " << size << ", " << bytes << " bytes, " << processors
                                              << " processors, order::" << name_of(level));
                            check_choice(where, {size, bytes, processors, level}, group);
                        }
}

TEST_CASE("the last candidate of every list is one for all sizes and lengths") {
    for (const auto& where : everywhere()) {
        INFO(where.text());
        REQUIRE(!where.candidates.empty());
        const candidate& last = where.candidates.back();
        CHECK(last.when == &allfold::detail::always);
        for (int groups = 1; groups <= 100; ++groups)
            CHECK(last.schedule->supports(where.in_groups ? 4 * groups : groups, where.in_groups ? 4 : 1));
        for (const candidate& each : where.candidates) {
            INFO(each.why);
            CHECK(each.schedule->keeps <= order::tree);
            CHECK(each.why != nullptr);
        }
    }
}

TEST_CASE("where blocks have lengths of their own, no schedule is chosen that needs equal ones") {
    for (const auto& where : everywhere())
        for (const int size : {2, 3, 8, 16})
            for (const std::size_t bytes : {std::size_t{8}, 16 * KiB, std::size_t{1} << 62}) {
                if (where.in_groups) continue;
                problem p{size, bytes};
                p.equal_blocks = false;
                const candidate* const chosen = allfold::detail::choose(where.candidates, p, 1, where.promise->folds);
                REQUIRE(chosen != nullptr);
                CHECK(!chosen->schedule->make(setting{0, size}, nullptr).equal_blocks());
            }
}

TEST_CASE("all_reduce where ranks share memory") {
    const auto name = [](const problem& p) {
        return chosen_for(allfold::all_reduce, decltype(allfold::all_reduce)::in_memory, p);
    };
    CHECK(name({2, 8}) == "all-read");
    CHECK(name({2, 32 * KiB}) == "all-read");
    CHECK(name({2, 64 * KiB}) == "all-read");
    CHECK(name({2, 65 * KiB}) == "direct");
    CHECK(name({8, 8}) == "all-read");
    CHECK(name({8, 8, 8}) == "all-read");
    CHECK(name({8, 8, 4}) == "all-read");
    CHECK(name({8, 8, 2}) == "all-read");
    CHECK(name({8, 12 * KiB, 2}) == "all-read");
    CHECK(name({8, 13 * KiB, 2}) == "direct");
    CHECK(name({4, 8, 2}) == "all-read");
    CHECK(name({4, 24 * KiB, 2}) == "all-read");
    CHECK(name({4, 24 * KiB, 4}) == "direct");
    CHECK(name({17, 8, 2}) == "flat tree");
    CHECK(name({17, 256 * KiB, 2}) == "flat tree");
    CHECK(name({17, 257 * KiB, 2}) == "direct");
    CHECK(name({33, 4 * KiB, 16}) == "flat tree");
    CHECK(name({33, 5 * KiB, 16}) == "direct");
}

TEST_CASE("broadcast where ranks share memory: two that run at the same time share a long one") {
    const auto name = [](const problem& p) {
        return chosen_for(allfold::broadcast, decltype(allfold::broadcast)::in_memory, p);
    };
    const std::size_t most = allfold::detail::has_groups_of_cores() ? 1 * MiB : 32 * KiB;
    CHECK(name({2, most, 2}) == "direct");
    CHECK(name({2, most + 4, 2}) == "scatter and all-gather");
    CHECK(name({2, 16 * MiB, 1}) == "direct");
    CHECK(name({3, 16 * MiB, 4}) == "direct");
}

TEST_CASE("scans where ranks share memory") {
    const auto name = [](const auto& scan, const problem& p) {
        return chosen_for(scan, std::remove_cvref_t<decltype(scan)>::in_memory, p);
    };
    CHECK(name(allfold::inclusive_scan, {2, 32 * KiB}) == "all-read");
    CHECK(name(allfold::inclusive_scan, {2, 512 * KiB}) == "dissemination");
    CHECK(name(allfold::inclusive_scan, {2, 513 * KiB}) == "direct");
    CHECK(name(allfold::exclusive_scan, {2, 512 * KiB}) == "dissemination");
    CHECK(name(allfold::exclusive_scan, {2, 513 * KiB}) == "direct");
    CHECK(name(allfold::inclusive_scan, {8, 8 * KiB}) == "all-read");
    CHECK(name(allfold::inclusive_scan, {8, 32 * KiB}) == "dissemination");
    CHECK(name(allfold::inclusive_scan, {8, 33 * KiB}) == "direct");
    CHECK(name(allfold::exclusive_scan, {3, 33 * KiB}) == "direct");
    CHECK(name(allfold::inclusive_scan, {8, 33 * KiB, 0, order::rank}) == "direct");
    CHECK(name(allfold::inclusive_scan, {8, 33 * KiB, 0, order::tree}) == "all-read");
}

TEST_CASE("all_reduce by messages: few rounds, then little volume, in rank order unless it may rotate") {
    const auto name = [](std::size_t bytes, order level) {
        return chosen_for(allfold::all_reduce, decltype(allfold::all_reduce)::by_messages, {6, bytes, 0, level});
    };
    CHECK(name(8, order::rank) == "recursive doubling");
    CHECK(name(8, order::any) == "recursive doubling");
    CHECK(name(1 * MiB, order::rank) == "recursive halving");
    CHECK(name(384 * KiB, order::any) == "circulant");
    CHECK(name(1 * MiB, order::any) == "ring");
    CHECK(name(1 * MiB, order::tree) == "recursive halving");
}

TEST_CASE("all_gather and reduce_scatter by messages: one round, few rounds, then neighbours only") {
    const auto name = [](const auto& collective, int size, std::size_t bytes, order level = order::any) {
        return chosen_for(collective, std::remove_cvref_t<decltype(collective)>::by_messages, {size, bytes, 0, level});
    };
    for (const int size : {2, 6, 16}) {
        const std::size_t long_blocks = static_cast<std::size_t>(size) * 65 * KiB;
        CHECK(name(allfold::all_gather, size, 64 * KiB) == "direct");
        CHECK(name(allfold::all_gather, size, 65 * KiB) == "circulant");
        CHECK(name(allfold::all_gather, size, long_blocks) == "direct");
        CHECK(name(allfold::reduce_scatter, size, 64 * KiB) == "direct");
        CHECK(name(allfold::reduce_scatter, size, 65 * KiB) == "circulant");
        CHECK(name(allfold::reduce_scatter, size, long_blocks) == "ring");
        CHECK(name(allfold::reduce_scatter, size, 64 * KiB, order::tree) == "direct");
        CHECK(name(allfold::reduce_scatter, size, 65 * KiB, order::rank) == "recursive halving");
    }
    CHECK(name(allfold::all_gather, 17, 8) == "circulant");
    CHECK(name(allfold::all_gather, 17, 2 * MiB) == "ring");
    CHECK(name(allfold::reduce_scatter, 17, 8) == "circulant");
    CHECK(name(allfold::reduce_scatter, 17, 8, order::rank) == "recursive halving");
}
