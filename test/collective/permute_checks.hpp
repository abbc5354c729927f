// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "allfold/collective/permute.hpp"
#include "test/support/algorithms.hpp"
#include "test/support/guarded.hpp"
#include "test/support/oracle.hpp"
#include "test/support/problems.hpp"

/// @file
/// What permute must do on any communicator.

namespace test {

/// Entry r is the destination of rank r's operand.
using permutation = std::vector<int>;

inline permutation shifted(int ranks, int by) {
    permutation to(static_cast<std::size_t>(ranks));
    for (int r = 0; r < ranks; ++r) to[static_cast<std::size_t>(r)] = ((r + by) % ranks + ranks) % ranks;
    return to;
}

/// No operand moves; all move in one cycle; pairs swap, and if P is odd the middle rank keeps its own; a random one.
inline std::vector<permutation> permutations_of(int ranks) {
    const permutation none = shifted(ranks, 0);
    permutation mirrored = none, any = none;
    std::ranges::reverse(mirrored);
    std::ranges::shuffle(any, std::mt19937(static_cast<unsigned>(ranks)));
    return {none, shifted(ranks, 1), mirrored, any};
}

inline int origin_of(const permutation& to, int rank) {
    return static_cast<int>(std::ranges::find(to, rank) - to.begin());
}

/// How many elements each rank has.
using rank_lengths = std::size_t (*)(int rank);

template <class Algebra>
std::vector<typename Algebra::element> operand_of(int rank, std::size_t count) {
    std::vector<typename Algebra::element> elements;
    elements.reserve(count);
    for (std::size_t i = 0; i < count; ++i) elements.push_back(Algebra::sample(rank, 7 * i));
    return elements;
}

/// One call out of place.
template <class Algebra, class Comm, class... Options>
void check_permute(Comm& comm, const permutation& to, rank_lengths lengths, const std::string& where,
                   const Options&... options) {
    using element = typename Algebra::element;
    const int origin = origin_of(to, comm.rank());
    const auto mine = operand_of<Algebra>(comm.rank(), lengths(comm.rank()));
    const auto expected = operand_of<Algebra>(origin, lengths(origin));
    guarded in(std::span<const element>(mine), Algebra::margin());
    guarded out(expected.size(), Algebra::margin());
    allfold::permute(comm, in.constant(), out.span(), options...);
    expect_equal(out.constant(), expected, where);
    expect_equal(in.constant(), mine, where + ": the input has been written");
    expect(in.margins_are_untouched() && out.margins_are_untouched(), where + ": written outside of the operands");
}

/// One call in place, with the same length on all ranks.
template <class Algebra, class Comm, class... Options>
void check_permute_in_place(Comm& comm, const permutation& to, std::size_t count, const std::string& where,
                            const Options&... options) {
    using element = typename Algebra::element;
    const auto mine = operand_of<Algebra>(comm.rank(), count);
    guarded x(std::span<const element>(mine), Algebra::margin());
    allfold::permute(comm, x.span(), options...);
    expect_equal(x.constant(), operand_of<Algebra>(origin_of(to, comm.rank()), count), where + ", in place");
    expect(x.margins_are_untouched(), where + ", in place: written outside of the operand");
}

inline std::size_t no_elements(int) { return 0; }
inline std::size_t one_element(int) { return 1; }
inline std::size_t some_elements(int) { return 259; }
inline std::size_t many_elements(int) { return 9000; }
inline std::size_t uneven_elements(int rank) { return static_cast<std::size_t>(3 * rank % 4 * 37); }

/// Checks operands of one length, out of place and in place.
template <class Algebra, class Comm, class... Options>
void check_permute_both_ways(Comm& comm, const permutation& to, rank_lengths lengths, const std::string& where,
                             const Options&... options) {
    check_permute<Algebra>(comm, to, lengths, where, options...);
    check_permute_in_place<Algebra>(comm, to, lengths(0), where, options...);
}

/// Checks lists and shifts, with operands of one length.
template <class Algebra, class Comm, class... Options>
void check_permutations(Comm& comm, const std::string& where, const Options&... options) {
    for (const rank_lengths lengths : {no_elements, one_element, some_elements}) {
        for (const auto& to : permutations_of(comm.size()))
            check_permute_both_ways<Algebra>(comm, to, lengths, where, allfold::destinations(to), options...);
        for (const int by : {1, -1, 2 * comm.size() + comm.size() / 2})
            check_permute_both_ways<Algebra>(comm, shifted(comm.size(), by), lengths, where, options...,
                                             allfold::shift{by});
    }
}

/// Checks lists, with operands of many lengths.
template <class Algebra, class Comm>
void check_uneven_permutations(Comm& comm, const std::string& where) {
    for (const auto& to : permutations_of(comm.size()))
        check_permute<Algebra>(comm, to, uneven_elements, where + ", uneven", allfold::destinations(to));
}

/// Checks every algorithm, with operands of one length and of many.
template <class Algebra, class Comm>
void check_permute_with_all_algorithms(Comm& comm, const std::string& where) {
    check_permutations<Algebra>(comm, where);
    for_each_algorithm(allfold::permute, comm.size(), [&](const char* name, auto... algorithm) {
        const std::string here = where + ", " + name;
        for (const auto& to : permutations_of(comm.size())) {
            const allfold::destinations list(to);
            check_permute_both_ways<Algebra>(comm, to, some_elements, here, algorithm..., list);
            if ((true && ... && !algorithm.needs_equal_blocks()))
                check_permute<Algebra>(comm, to, uneven_elements, here + ", uneven", list, algorithm...);
            if (std::is_trivially_copyable_v<typename Algebra::element> && comm.size() <= 4)
                check_permute_both_ways<Algebra>(comm, to, many_elements, here, list, algorithm...);
        }
    });
}

}  // namespace test
