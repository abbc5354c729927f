// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "allfold/collective/all_to_all.hpp"
#include "allfold/data/partition.hpp"
#include "allfold/engine/deadline.hpp"
#include "allfold/engine/operation.hpp"
#include "allfold/schedule/pairwise.hpp"
#include "test/support/algorithms.hpp"
#include "test/support/guarded.hpp"
#include "test/support/oracle.hpp"

/// @file
/// What all_to_all must do on any communicator.

namespace test {

/// How many elements rank `from` sends to rank `to`.
using pair_lengths = std::size_t (*)(int from, int to);

/// What rank `from` sends to rank `to`: elements that are different for each pair of ranks.
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

/// One call in place, for lengths that are the same in both directions.
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

/// Blocks of several lengths; each rank knows its own.
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

/// Block lengths of an exchange in which each rank knows only what it sends. They are different in each `turn`: in one
/// turn the blocks from rank 1 are long, and in some turns there are none.
inline std::size_t length_in_turn(int turn, int from, int to) {
    const int unit = turn == 2 && from == 1 ? 2500 : from;
    return turn % 4 == 3 ? 0 : static_cast<std::size_t>((from * 3 + to * 7 + turn) % 5 * unit);
}
template <class Algebra>
struct exchange_by_sizes {
    using element = typename Algebra::element;
    std::vector<int> sizes;
    std::vector<element> in, out, expected;
    allfold::partition layout = allfold::partition::even(0, 1);

    void begin(int turn, int rank, int ranks) {
        sizes.clear(), in.clear(), expected.clear();
        out.assign(3, Algebra::margin());
        for (int r = 0; r < ranks; ++r) {
            const auto sent = sent_between<Algebra>(rank, r, length_in_turn(turn, rank, r));
            const auto received = sent_between<Algebra>(r, rank, length_in_turn(turn, r, rank));
            sizes.push_back(static_cast<int>(sent.size()));
            in.insert(in.end(), sent.begin(), sent.end());
            expected.insert(expected.end(), received.begin(), received.end());
        }
    }
    void require(int turn, int rank, const std::string& where) const {
        expect_equal(std::span<const element>(out), expected, where + ", by sizes");
        expect(layout.blocks() == static_cast<int>(sizes.size()), where + ": how many blocks have arrived");
        for (int r = 0; r < layout.blocks(); ++r)
            expect(layout.extent(r) == length_in_turn(turn, r, rank), where + ": what has arrived");
    }
};

/// Checks called, started and prepared exchanges. Several are in flight, and ranks wait for them in different orders.
template <class Algebra, class Comm, class... Options>
void check_all_to_all_by_sizes(Comm& comm, const std::string& where, const Options&... options) {
    using allfold::all_to_all;
    const int rank = comm.rank(), ranks = comm.size();
    exchange_by_sizes<Algebra> mine;
    for (int turn = 0; turn < 4; ++turn) {
        mine.begin(turn, rank, ranks);
        mine.layout = all_to_all(comm, mine.in, mine.sizes, mine.out);
        mine.require(turn, rank, where);
    }
    std::vector<exchange_by_sizes<Algebra>> many(4);
    std::vector<allfold::operation> started;
    for (int turn = 0; auto& each : many) {
        each.begin(turn++, rank, ranks);
        const auto known_now = each.sizes;
        started.push_back(
            all_to_all.start(comm, std::as_const(each.in), std::vector(known_now), each.out, each.layout));
    }
    for (std::size_t i = 0; i < many.size(); ++i) {
        const std::size_t turn = (i * 3 + static_cast<std::size_t>(rank)) % many.size();
        started[turn].wait();
        many[turn].require(static_cast<int>(turn), rank, where + ", started");
    }
    auto first = all_to_all.prepare(comm, mine.in, mine.sizes, mine.out, mine.layout);
    auto second = all_to_all.prepare(comm, many[0].in, many[0].sizes, many[0].out, many[0].layout,
                                     allfold::deadline{std::chrono::seconds(60)}, options...);
    for (int turn = 0; turn < 6; ++turn) {
        mine.begin(turn, rank, ranks);
        many[0].begin(turn + 1, rank, ranks);
        rank % 2 == 0 ? first.start() : second.start();
        rank % 2 == 0 ? second.start() : first.start();
        first.wait();
        second.wait();
        mine.require(turn, rank, where + ", prepared");
        many[0].require(turn + 1, rank, where + ", prepared, too");
    }
}

/// Checks every algorithm, with blocks of one length and of many.
template <class Algebra, class Comm>
void check_all_to_all_with_all_algorithms(Comm& comm, const std::string& where) {
    for_each_algorithm(allfold::all_to_all, comm, [&](const char* name, auto... algorithm) {
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
        if ((true && ... && !algorithm.needs_equal_blocks()))
            check_uneven_all_to_all<Algebra>(comm, here, algorithm...);
    });
    if constexpr (Comm::has_groups)
        check_all_to_all_by_sizes<Algebra>(comm, where);
    else
        check_all_to_all_by_sizes<Algebra>(comm, where, allfold::pairwise());
}

}  // namespace test
