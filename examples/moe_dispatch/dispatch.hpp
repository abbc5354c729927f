// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "examples/moe_dispatch/model.hpp"
#include <allfold/collective/all_to_all.hpp>
#include <allfold/data/partition.hpp>

/// @file
/// Experts and tokens are both distributed over the ranks, but not each token with its own experts: tokens travel to
/// their experts and back.
///
///     counts    all_to_all: the number of tokens for each expert; now every rank knows what it will receive
///     tokens    all_to_all: block r for the experts of rank r, sorted by expert
///     outputs   all_to_all: the same blocks, in the other direction

namespace examples {

/// Where the tokens of a rank go in a buffer that is sorted by expert, so that all tokens for one rank are adjacent.
struct routes {
    std::vector<choices> chosen;                             ///< by each token
    std::vector<std::array<std::size_t, most_chosen>> slot;  ///< in the buffer, of each token and choice
    std::vector<std::size_t> counts;                         ///< for each expert
};

[[nodiscard]] inline routes route(const model& m, std::span<const token> tokens, std::size_t top) {
    routes r{std::vector<choices>(tokens.size()), std::vector<std::array<std::size_t, most_chosen>>(tokens.size()),
             std::vector<std::size_t>(m.experts.size())};
    for (std::size_t t = 0; t < tokens.size(); ++t) {
        r.chosen[t] = choose(m, tokens[t], top);
        for (std::size_t k = 0; k < top; ++k) ++r.counts[r.chosen[t][k].expert];
    }
    std::vector<std::size_t> next(r.counts.size());
    std::exclusive_scan(r.counts.begin(), r.counts.end(), next.begin(), std::size_t{0});
    for (std::size_t t = 0; t < tokens.size(); ++t)
        for (std::size_t k = 0; k < top; ++k) r.slot[t][k] = next[r.chosen[t][k].expert]++;
    return r;
}

/// A block of tokens for each rank, whose lengths are the sums of the blocks of `counts`.
[[nodiscard]] inline allfold::partition sums_of(const std::vector<std::size_t>& counts,
                                                const allfold::partition& blocks) {
    std::vector<std::size_t> sums;
    for (int r = 0; r < blocks.blocks(); ++r) {
        const auto [begin, end] = blocks.bounds_of(r);
        sums.push_back(std::accumulate(counts.begin() + static_cast<std::ptrdiff_t>(begin),
                                       counts.begin() + static_cast<std::ptrdiff_t>(end), std::size_t{0}));
    }
    return allfold::partition::sizes(sums);
}

/// The results of one rank.
struct outcome {
    std::vector<token> result;        ///< for its tokens
    std::vector<std::size_t> counts;  ///< how many of its tokens went to each expert
    std::size_t taken = 0;            ///< tokens that arrived at its experts,
    std::size_t from_others = 0;      ///< and how many of them from other ranks
};

/// The layer, for the tokens of this rank. Of the experts, it uses only its own.
template <class Communicator>
[[nodiscard]] outcome run_on_ranks(Communicator& comm, const model& m, std::span<const token> tokens, std::size_t top) {
    using allfold::input_blocks, allfold::output_blocks, allfold::partition;
    const partition homes = partition::even(m.experts.size(), comm.size());  // of the experts
    const std::size_t first = homes.offset(comm.rank()), own = homes.extent(comm.rank());
    const routes r = route(m, tokens, top);

    // How many tokens arrive from each rank for each expert of this rank.
    const partition from_each = partition::even(own * static_cast<std::size_t>(comm.size()), comm.size());
    std::vector<std::size_t> coming(from_each.total());
    allfold::all_to_all(comm, r.counts, coming, input_blocks{homes}, output_blocks{from_each});

    const partition sent = sums_of(r.counts, homes), taken = sums_of(coming, from_each);
    std::vector<token> buffer(sent.total()), visitors(taken.total());
    for (std::size_t t = 0; t < tokens.size(); ++t)
        for (std::size_t k = 0; k < top; ++k) buffer[r.slot[t][k]] = tokens[t];
    allfold::all_to_all(comm, buffer, visitors, input_blocks{sent}, output_blocks{taken});

    auto visitor = visitors.begin();
    for (std::size_t i = 0; i < coming.size(); ++i)  // by rank, and for each rank by expert
        for (std::size_t n = 0; n < coming[i]; ++n, ++visitor)
            *visitor = output_of(m.experts[first + i % own], *visitor);
    allfold::all_to_all(comm, visitors, buffer, input_blocks{taken}, output_blocks{sent});

    std::vector<token> result(tokens.size());
    for (std::size_t t = 0; t < tokens.size(); ++t)
        for (std::size_t k = 0; k < top; ++k) add(result[t], r.chosen[t][k].weight, buffer[r.slot[t][k]]);
    return {std::move(result), r.counts, taken.total(), taken.total() - taken.extent(comm.rank())};
}

}  // namespace examples
