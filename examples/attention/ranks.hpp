// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <span>
#include <vector>

#include "examples/attention/attention.hpp"
#include "examples/attention/distributed.hpp"
#include "examples/attention/report.hpp"
#include <allfold/allfold.hpp>
#include <allfold/schedule/neighbour_exchange.hpp>

/// @file
/// What the ranks do: all uses of the library's collectives.

namespace attention {
namespace detail {

/// Calls `use(options...)` with the library's options for these ones; for "auto" it chooses the schedule itself.
template <class Use>
void with_options(const merge_options& options, Use use) {
    const allfold::window window{options.window.value_or(0)};  // 0: allfold chooses
    const auto named = [&](const char* name, auto algorithm) {
        if (options.algorithm != name) return false;
        use(algorithm, window);
        return true;
    };
    const bool found = named("recursive_doubling", allfold::recursive_doubling{}) || named("ring", allfold::ring{}) ||
                       named("halving", allfold::halving{}) || named("direct", allfold::direct{}) ||
                       named("neighbour_exchange", allfold::neighbour_exchange{}) ||
                       named("all_read", allfold::all_read{}) || named("flat_tree", allfold::flat_tree{});
    if (!found) use(window);
}

/// The rows of a partial result: m, l and s travel as one packet.
template <class T>
[[nodiscard]] auto rows_of(partial<T>& state) {
    return allfold::records{std::span(state.m), std::span(state.l),
                            allfold::tensor<T, 2>(state.s.data(), {state.rows(), state.depth})};
}

/// The one collective: afterwards every rank has the state over all keys.
template <class Communicator, class T>
void merge(Communicator& comm, partial<T>& state, const merge_options& options) {
    with_options(options, [&](auto... chosen) {
        auto rows = rows_of(state);
        allfold::all_reduce(comm, rows, allfold::online_softmax{}, chosen...);
    });
}

/// The usual way, for comparison: agree on the maximum, rescale to it, then sum the denominators and the numerators.
/// `common` is room for the maximum.
template <class Communicator, class T>
void merge_by_three(Communicator& comm, partial<T>& state, std::vector<T>& common, const merge_options& options) {
    with_options(options, [&](auto... chosen) {
        allfold::all_reduce(comm, state.m, common, allfold::max{}, chosen...);
        rescale<T>(state, common);
        allfold::all_reduce(comm, state.l, allfold::sum{}, chosen...);
        allfold::all_reduce(comm, state.s, allfold::sum{}, chosen...);
    });
}

/// What one rank measures.
struct rank_times {
    seconds local{}, merge{}, normalise{};
    std::vector<seconds> one_merge, three_collectives;
};

/// Merges copies of the same partial result in both ways by turns, each started together with all other ranks.
template <class Communicator, class T>
void compare_ways(Communicator& comm, const partial<T>& own, const merge_options& options, int repetitions,
                  rank_times& times) {
    partial<T> copy = own;
    std::vector<T> common = own.m;
    const auto measure = [&](auto way) {
        copy = own;
        allfold::barrier(comm);
        return time_of(way);
    };
    for (int i = 0; i < repetitions; ++i) {
        times.one_merge.push_back(measure([&] { merge(comm, copy, options); }));
        times.three_collectives.push_back(measure([&] { merge_by_three(comm, copy, common, options); }));
    }
}

/// The median over the repetitions of the slowest rank's time in each.
[[nodiscard]] inline seconds median_of_slowest(const std::vector<rank_times>& ranks,
                                               std::vector<seconds> rank_times::* series) {
    std::vector<seconds> slowest = ranks.front().*series;
    for (const rank_times& rank : ranks)
        for (std::size_t i = 0; i < slowest.size(); ++i) slowest[i] = std::max(slowest[i], (rank.*series)[i]);
    const auto middle = slowest.begin() + static_cast<std::ptrdiff_t>(slowest.size() / 2);
    std::nth_element(slowest.begin(), middle, slowest.end());
    return *middle;
}

[[nodiscard]] inline seconds slowest(const std::vector<rank_times>& ranks, seconds rank_times::* phase) {
    seconds most{};
    for (const rank_times& rank : ranks) most = std::max(most, rank.*phase);
    return most;
}

inline void enter_times(report& figures, const std::vector<rank_times>& ranks) {
    figures.local = slowest(ranks, &rank_times::local);
    figures.merge = slowest(ranks, &rank_times::merge);
    figures.normalise = slowest(ranks, &rank_times::normalise);
    figures.one_merge = median_of_slowest(ranks, &rank_times::one_merge);
    figures.three_collectives = median_of_slowest(ranks, &rank_times::three_collectives);
    figures.repetitions = static_cast<int>(ranks.front().one_merge.size());
}

/// Enters the schedule that the merge of such a problem uses.
template <class T>
void enter_plan(report& figures, const sizes& size, int ranks, const merge_options& options) {
    figures.state_bytes = size.rows() * (size.value_depth + 2) * sizeof(T);
    with_options(options, [&](auto... chosen) {
        const auto plan = allfold::all_reduce.plan<allfold::row<T, T, T>>(ranks, figures.state_bytes,
                                                                          allfold::online_softmax{}, chosen...);
        figures.schedule = plan.name();
        figures.why = plan.why();
        figures.rounds = plan.rounds();
        figures.bytes_sent = plan.bytes_sent();
    });
}

}  // namespace detail

template <std::floating_point T>
std::vector<T> attend_on_ranks(const problem<T>& p, int ranks, const merge_options& options, report& figures,
                               allfold::trace_recorder& recorder) {
    constexpr int repetitions = 21;
    detail::enter_plan<T>(figures, p.size, ranks, options);  // throws where the named algorithm cannot do it
    const auto keys = allfold::partition::even(p.size.keys, ranks);
    const auto rows = allfold::partition::even(p.size.rows(), ranks);
    std::vector<T> result(p.size.rows() * p.size.value_depth);
    std::vector<detail::rank_times> times(static_cast<std::size_t>(ranks));

    allfold::run(ranks, [&](auto& untraced) {
        allfold::traced comm(untraced, recorder);
        const int rank = comm.rank();
        const auto phase = [&](const char* name, auto work) {
            const auto begin = std::chrono::steady_clock::now();
            work();
            const auto end = std::chrono::steady_clock::now();
            recorder.span(rank, name, begin, end);
            return seconds(end - begin);
        };
        detail::rank_times& own = times[static_cast<std::size_t>(rank)];

        partial<T> state(p.size);
        own.local = phase("local attention", [&] { state = attend(p, {keys.offset(rank), keys.offset(rank + 1)}); });
        const partial<T> before_merge = state;
        allfold::barrier(comm);
        own.merge = phase("merge", [&] { detail::merge(comm, state, options); });
        own.normalise =
            phase("normalise", [&] { normalise<T>(state, rows.offset(rank), rows.offset(rank + 1), result); });
        detail::compare_ways(untraced, before_merge, options, repetitions, own);
    });

    detail::enter_times(figures, times);
    return result;
}

}  // namespace attention
