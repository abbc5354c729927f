// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <random>
#include <string>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/algebra/standard_functors.hpp"
#include "allfold/collective.hpp"
#include "test/support/oracle.hpp"

namespace test {

/// The operands and results of several collectives, of lengths chosen by a seed: on any transport, some are bundled and
/// some are not.
struct mixed_parts {
    mixed_parts(int own, int ranks, unsigned seed)
        : self(own),
          size(ranks),
          dice(seed),
          letters(pick(), letter(own)),
          sums(pick(), own + 1),
          from_root(pick(), own == root ? 42 : -1),
          mine(pick(), own),
          all(mine.size() * at(ranks), -1),
          to_scan(pick(), letter(own)),
          scanned(to_scan.size()),
          folded(letters.size()) {}

    template <class Comm>
    void call(Comm& comm) {
        allfold::together(comm, allfold::all_reduce.with(letters, folded, std::plus()),
                          allfold::all_reduce.with(sums, allfold::sum()),
                          allfold::broadcast.with(from_root, allfold::root{root}), allfold::barrier.with(),
                          allfold::all_gather.with(mine, all),
                          allfold::inclusive_scan.with(to_scan, scanned, std::plus()));
    }
    template <class Comm>
    [[nodiscard]] allfold::operation start(Comm& comm) {
        return allfold::together.start(
            comm, allfold::inclusive_scan.with(to_scan, scanned, std::plus()),
            allfold::broadcast.with(from_root, allfold::root{root}), allfold::all_reduce.with(sums, allfold::sum()),
            allfold::all_gather.with(mine, all), allfold::all_reduce.with(letters, folded, std::plus()));
    }
    template <class Comm>
    [[nodiscard]] allfold::persistent prepare(Comm& comm) {
        return allfold::together.prepare(comm, allfold::all_gather.with(mine, all),
                                         allfold::all_reduce.with(letters, folded, std::plus()),
                                         allfold::inclusive_scan.with(to_scan, scanned, std::plus()));
    }
    void expect_results(bool all_of_them) const {
        std::string total, prefix;
        for (int r = 0; r < size; ++r) {
            total += letter(r);
            if (r <= self) prefix += letter(r);
        }
        for (const auto& x : folded) expect(x == total, "all_reduce: " + x);
        for (const auto& x : scanned) expect(x == prefix, "inclusive_scan: " + x);
        for (std::size_t i = 0; i < all.size(); ++i)
            expect(all[i] == static_cast<int>(i / mine.size()), "all_gather: " + std::to_string(all[i]));
        if (!all_of_them) return;
        for (const int x : sums) expect(x == size * (size + 1) / 2, "all_reduce of ints: " + std::to_string(x));
        for (const int x : from_root) expect(x == 42, "broadcast: " + std::to_string(x));
    }
    void forget() {
        folded.assign(folded.size(), "?");
        scanned.assign(scanned.size(), "?");
        all.assign(all.size(), -1);
    }

    static std::string letter(int rank) { return std::string(1, static_cast<char>('a' + rank % 26)); }
    static std::size_t at(int r) { return static_cast<std::size_t>(r); }
    std::size_t pick() {
        constexpr std::size_t lengths[] = {0, 1, 2, 7, 100, 500, 600, 5000};
        return lengths[dice() % 8];
    }
    static constexpr int root = 0;
    int self, size;
    std::mt19937 dice;
    std::vector<std::string> letters;
    std::vector<int> sums, from_root, mine, all;
    std::vector<std::string> to_scan, scanned, folded;
};

/// Calls, starts and prepares collectives together. Two of these bundles are in flight at the same time.
template <class Comm>
void check_together(Comm& comm, unsigned seed) {
    mixed_parts called(comm.rank(), comm.size(), seed), first(comm.rank(), comm.size(), seed + 1),
        second(comm.rank(), comm.size(), seed + 2), again(comm.rank(), comm.size(), seed + 3);
    called.call(comm);
    called.expect_results(true);
    allfold::persistent prepared = again.prepare(comm);
    allfold::operation one = first.start(comm);
    prepared.start();
    allfold::operation other = second.start(comm);
    const bool reversed = (comm.rank() + static_cast<int>(seed)) % 2 == 0;
    (reversed ? other : one).wait();
    (reversed ? one : other).wait();
    first.expect_results(true);
    second.expect_results(true);
    for (int turn = 0; turn < 3; ++turn) {
        if (turn > 0) prepared.start();
        prepared.wait();
        again.expect_results(false);
        again.forget();
    }
}

}  // namespace test
