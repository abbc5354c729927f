// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "allfold/collective/all_to_all.hpp"
#include "allfold/data/partition.hpp"
#include "test/support/algorithms.hpp"
#include "test/support/guarded.hpp"
#include "test/support/oracle.hpp"

/// @file
/// What all_to_all must do on any communicator.

namespace test {

/// How many elements rank `from` sends to rank `to`.
using pair_lengths = std::size_t (*)(int from, int to);

/// What rank `from` sends to rank `to`: elements of its own, told apart by where they go.
template <class Algebra>
std::vector<typename Algebra::element> sent_between(int from, int to, std::size_t count) {
    std::vector<typename Algebra::element> elements;
    for (std::size_t i = 0; i < count; ++i)
        elements.push_back(Algebra::sample(from, 31 * static_cast<std::size_t>(to) + 7 * i));
    return elements;
}

template <class Algebra>
struct block_exchange {
    std::vector<typename Algebra::element> in, out;
    std::vector<std::size_t> in_sizes, out_sizes;

    block_exchange(int rank, int ranks, pair_lengths lengths) {
        for (int other = 0; other < ranks; ++other) {
            in_sizes.push_back(lengths(rank, other));
            out_sizes.push_back(lengths(other, rank));
            const auto sent = sent_between<Algebra>(rank, other, in_sizes.back());
            const auto received = sent_between<Algebra>(other, rank, out_sizes.back());
            in.insert(in.end(), sent.begin(), sent.end());
            out.insert(out.end(), received.begin(), received.end());
        }
    }
};

/// One call out of place.
template <class Algebra, class Comm, class... Options>
void check_all_to_all(Comm& comm, pair_lengths lengths, const std::string& where, const Options&... options) {
    using element = typename Algebra::element;
    const block_exchange<Algebra> expected(comm.rank(), comm.size(), lengths);
    guarded in(std::span<const element>(expected.in), Algebra::margin());
    guarded out(expected.out.size(), Algebra::margin());
    allfold::all_to_all(comm, in.constant(), out.span(), options...);
    expect_equal(out.constant(), expected.out, where);
    expect_equal(in.constant(), expected.in, where + ": the input has been written");
    expect(in.margins_are_untouched() && out.margins_are_untouched(), where + ": written outside of the operands");
}

/// And one in place, for lengths that are the same in both directions.
template <class Algebra, class Comm, class... Options>
void check_all_to_all_in_place(Comm& comm, pair_lengths lengths, const std::string& where, const Options&... options) {
    using element = typename Algebra::element;
    const block_exchange<Algebra> expected(comm.rank(), comm.size(), lengths);
    guarded x(std::span<const element>(expected.in), Algebra::margin());
    allfold::all_to_all(comm, x.span(), options...);
    expect_equal(x.constant(), expected.out, where + ", in place");
    expect(x.margins_are_untouched(), where + ", in place: written outside of the operand");
}

inline std::size_t none_between(int, int) { return 0; }
inline std::size_t one_between(int, int) { return 1; }
inline std::size_t some_between(int, int) { return 37; }
inline std::size_t many_between(int, int) { return 9000; }
inline std::size_t mirrored_between(int a, int b) { return static_cast<std::size_t>((a + b) % 5 * 7); }
inline std::size_t uneven_between(int from, int to) { return static_cast<std::size_t>((3 * from + 5 * to) % 7 * 11); }

/// Blocks of several lengths, of which each rank knows its own.
template <class Algebra, class Comm, class... Options>
void check_uneven_all_to_all(Comm& comm, const std::string& where, const Options&... options) {
    using allfold::partition;
    for (const pair_lengths lengths : {mirrored_between, uneven_between}) {
        const block_exchange<Algebra> mine(comm.rank(), comm.size(), lengths);
        check_all_to_all<Algebra>(comm, lengths, where + ", uneven", options...,
                                  allfold::output_blocks{partition::sizes(mine.out_sizes)},
                                  allfold::input_blocks{partition::sizes(mine.in_sizes)});
    }
    const block_exchange<Algebra> mine(comm.rank(), comm.size(), mirrored_between);
    check_all_to_all_in_place<Algebra>(comm, mirrored_between, where + ", uneven",
                                       allfold::input_blocks{partition::sizes(mine.in_sizes)}, options...);
}

/// With every algorithm, blocks of one length and of many.
template <class Algebra, class Comm>
void check_all_to_all_with_all_algorithms(Comm& comm, const std::string& where) {
    for_each_algorithm(allfold::all_to_all, comm.size(), [&](const char* name, auto... algorithm) {
        const std::string here = where + ", " + name;
        for (const pair_lengths lengths : {none_between, one_between, some_between}) {
            check_all_to_all<Algebra>(comm, lengths, here, algorithm...);
            check_all_to_all_in_place<Algebra>(comm, lengths, here, algorithm...);
        }
        const allfold::window five{5 * sizeof(typename Algebra::element)};
        check_all_to_all<Algebra>(comm, some_between, here + ", windows", five, algorithm...);
        check_all_to_all_in_place<Algebra>(comm, some_between, here + ", windows", five, algorithm...);
        if (std::is_trivially_copyable_v<typename Algebra::element> && comm.size() <= 4) {
            check_all_to_all<Algebra>(comm, many_between, here, algorithm...);
            check_all_to_all_in_place<Algebra>(comm, many_between, here, algorithm...);
        }
        if constexpr ((true && ... && !allfold::needs_equal_blocks<typename decltype(algorithm)::all_to_all>)) {
            check_uneven_all_to_all<Algebra>(comm, here, algorithm...);
        }
    });
}

}  // namespace test
