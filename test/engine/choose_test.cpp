// SPDX-License-Identifier: BSL-1.0
#include "allfold/engine/choose.hpp"

#include <cstddef>
#include <string>

#include "allfold/analysis/prove.hpp"
#include "test/support/catch.hpp"

namespace {

using allfold::collective;
using allfold::problem;

struct choice {
    std::string name;
    std::string why;
};

/// What is chosen, which must give the order that the call asks for and be proved for so many ranks.
template <collective Goal, bool Shared, bool Rotates = false, bool OneTree = false>
choice chosen(const problem& p) {
    choice c;
    allfold::detail::choose<Goal, Shared, Rotates, OneTree>(p, [&]<class Schedule>(const char* why) {
        CHECK(Schedule::goal == Goal);
        if (allfold::folds(Goal)) CHECK(Schedule::keeps.level() >= (OneTree ? 2 : Rotates ? 0 : 1));
        CHECK(allfold::supports<Schedule>(p.size));
        if (p.size <= 64) CHECK(allfold::proved<Schedule>(p.size));
        c = {Schedule::algorithm::name, why};
    });
    CHECK(!c.why.empty());
    return c;
}

template <collective Goal>
void check_all_laws(const problem& p) {
    static_cast<void>(chosen<Goal, false, false, false>(p));
    static_cast<void>(chosen<Goal, false, false, true>(p));
    static_cast<void>(chosen<Goal, false, true, false>(p));
    static_cast<void>(chosen<Goal, true, false, false>(p));
    static_cast<void>(chosen<Goal, true, false, true>(p));
    static_cast<void>(chosen<Goal, true, true, false>(p));
}

constexpr std::size_t KiB = 1024, MiB = 1024 * KiB;

}  // namespace

TEST_CASE("whatever is chosen does what is asked for, on every number of ranks") {
    for (const int size : {1, 2, 3, 4, 5, 6, 7, 8, 12, 13, 16, 17, 64, 1000})
        for (const std::size_t bytes : {std::size_t{0}, std::size_t{8}, 16 * KiB, 1 * MiB, 64 * MiB})
            for (const int processors : {0, 2, 16}) {
                const problem p{size, bytes, processors};
                INFO("P = " << size << ", " << bytes << " bytes, " << processors << " processors");
                check_all_laws<collective::barrier>(p);
                check_all_laws<collective::broadcast>(p);
                check_all_laws<collective::reduce>(p);
                check_all_laws<collective::all_reduce>(p);
                check_all_laws<collective::reduce_scatter>(p);
                check_all_laws<collective::all_gather>(p);
                check_all_laws<collective::inclusive_scan>(p);
                check_all_laws<collective::exclusive_scan>(p);
            }
}

TEST_CASE("all_reduce where ranks share memory") {
    const auto name = [](const problem& p) { return chosen<collective::all_reduce, true, true>(p).name; };
    CHECK(name({2, 8}) == "all-read");
    CHECK(name({2, 32 * KiB}) == "all-read");
    CHECK(name({2, 33 * KiB}) == "direct");
    CHECK(name({8, 8}) == "all-read");
    CHECK(name({8, 8, 8}) == "all-read");
    CHECK(name({8, 8, 4}) == "all-read");
    CHECK(name({8, 8, 2}) == "flat tree");
    CHECK(name({8, 256 * KiB, 2}) == "flat tree");
    CHECK(name({8, 257 * KiB, 2}) == "direct");
    CHECK(name({4, 8, 2}) == "all-read");
    CHECK(name({33, 4 * KiB, 16}) == "flat tree");
    CHECK(name({33, 5 * KiB, 16}) == "direct");
}

TEST_CASE("all_reduce by messages: few rounds, then little volume, in rank order unless it may rotate") {
    const auto in_order = [](const problem& p) { return chosen<collective::all_reduce, false>(p).name; };
    const auto rotated = [](const problem& p) { return chosen<collective::all_reduce, false, true>(p).name; };
    CHECK(in_order({6, 8}) == "recursive doubling");
    CHECK(rotated({6, 8}) == "recursive doubling");
    CHECK(in_order({6, 1 * MiB}) == "recursive halving");
    CHECK(rotated({6, 1 * MiB}) == "ring");
}
