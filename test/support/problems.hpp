// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <numeric>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "allfold/collective/broadcast.hpp"
#include "allfold/data/partition.hpp"
#include "allfold/engine/options.hpp"
#include "test/support/oracle.hpp"
#include "test/support/sanitized.hpp"

/// @file
/// The operand sizes, windows, roots and partitions with which every collective is tested on any transport.

namespace test {

/// A transport that lends messages instead of copying them lends all that are longer than this. (Its tests assert
/// that.)
inline constexpr std::size_t copied_bytes = std::size_t{32} << 10;

/// A number of elements large enough that each block is lent, not copied, if the operand has one block per rank.
template <class T>
std::size_t long_enough_to_lend(int ranks) {
    return static_cast<std::size_t>(ranks) * (copied_bytes / sizeof(T) + 100);
}

inline constexpr int most_that_lend = fewer_if_sanitized(8, 3), most_with_all_roots = fewer_if_sanitized(5, 3);
inline constexpr std::size_t long_operand = fewer_if_sanitized(259, 67);

/// Few elements and many: none, around the number of ranks, more; for plain bytes, also enough to be lent.
template <class Algebra>
std::vector<problem<Algebra>> problems_for(int ranks) {
    const auto P = static_cast<std::size_t>(ranks);
    std::vector<problem<Algebra>> problems;
    for (const std::size_t n : {std::size_t{0}, std::size_t{1}, P - 1, P, P + 1, long_operand})
        problems.emplace_back(ranks, n);
    using element = typename Algebra::element;
    if (std::is_trivially_copyable_v<element> && ranks <= most_that_lend && (ranks == 2 || ranks == 3 || ranks == 8))
        problems.emplace_back(ranks, long_enough_to_lend<element>(ranks));
    return problems;
}

template <class Comm, class Algebra>
std::string place_of(const Comm& comm, const problem<Algebra>& p) {
    return std::string(Algebra::name) + ", rank " + std::to_string(comm.rank()) + " of " + std::to_string(comm.size()) +
           ", n = " + std::to_string(p.size());
}

/// Windows of a few elements if the operand is short; about twenty windows if it is long.
template <class Algebra>
allfold::window narrow(const problem<Algebra>& p) {
    return {std::max<std::size_t>(64, p.size() * sizeof(typename Algebra::element) / 20)};
}

/// All roots of a small group, or of one with just enough elements for blocks of two lengths; otherwise some.
inline std::vector<int> roots_of(int ranks, std::size_t elements = 0) {
    if (ranks > most_with_all_roots && elements != static_cast<std::size_t>(ranks) + 1)
        return {0, ranks / 2, ranks - 1};
    std::vector<int> all(static_cast<std::size_t>(ranks));
    std::iota(all.begin(), all.end(), 0);
    return all;
}

/// Blocks of equal and of unequal sizes, some of them empty.
inline std::vector<allfold::partition> partitions_of(std::size_t n, int ranks) {
    std::vector<std::size_t> gaps(static_cast<std::size_t>(ranks)), one(gaps);
    for (std::size_t i = 0, left = n; i < gaps.size(); i += 2) {
        gaps[i] = i + 2 < gaps.size() ? std::min(left, 3 * i + 1) : left;
        left -= gaps[i];
    }
    one[one.size() / 2] = n;
    return {allfold::partition::even(n, ranks), allfold::partition::ceil(n, ranks), allfold::partition::sizes(gaps),
            allfold::partition::sizes(one)};
}

/// Whether both are equal to the last bit, if an element is its bytes; not meant for elements with padding.
template <class T>
bool same_bits(std::span<const T> a, std::span<const T> b) {
    if constexpr (std::is_trivially_copyable_v<T>)
        return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
    else
        return std::ranges::equal(a, b);
}

/// Throws unless all ranks hold the same elements, to the last bit. Every rank must call it at the same points. Rank
/// 0's elements are broadcast into memory that held others, because ranks may not share memory, and a broadcast that
/// does nothing must not pass.
template <class Comm, class T>
void expect_agreement(Comm& comm, std::span<const T> mine, const std::string& where) {
    std::vector<T> first(mine.size());
    allfold::broadcast(comm, mine, first);
    expect(same_bits(mine, std::span<const T>(first)), where + ": other bits than at rank 0");
}

}  // namespace test
