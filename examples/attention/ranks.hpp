// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "examples/attention/attend.hpp"
#include "examples/attention/attention.hpp"
#include "examples/attention/distributed.hpp"
#include "examples/attention/progress.hpp"
#include "examples/attention/reference.hpp"
#include "examples/attention/report.hpp"
#include <allfold/allfold.hpp>
#include <allfold/schedule/mirrored_doubling.hpp>
#ifdef ALLFOLD_ATTENTION_MPI
#include "examples/attention/processes.hpp"
#endif

/// @file
/// The work of the ranks: all uses of the library's collectives.

namespace attention {
namespace detail {

/// Calls `use(options...)` with the library's options for these ones; for "auto", the library chooses the schedule
/// itself.
template <class Use>
void with_options(const rank_options& options, Use use) {
    const allfold::window window{options.window.value_or(0)};  // 0: allfold chooses
    const auto named = [&](const char* name, auto algorithm) {
        if (options.algorithm != name) return false;
        use(algorithm, window);
        return true;
    };
    const bool found = named("recursive_doubling", allfold::recursive_doubling{}) || named("ring", allfold::ring{}) ||
                       named("recursive_halving", allfold::recursive_halving{}) || named("direct", allfold::direct{}) ||
                       named("mirrored_doubling", allfold::mirrored_doubling{}) ||
                       named("all_read", allfold::all_read{}) || named("flat_tree", allfold::flat_tree{});
    if (!found) use(window);
}

/// The rows of a partial result: m, l and s travel as one message.
template <class T>
[[nodiscard]] auto rows_of(partial<T>& state) {
    return allfold::records{std::span(state.m), std::span(state.l),
                            allfold::tensor<T, 2>(state.s.data(), {state.rows(), state.depth})};
}

/// The one collective: afterwards every rank has the state over all keys.
template <class Communicator, class T>
void merge(Communicator& comm, partial<T>& state, const rank_options& options) {
    with_options(options, [&](auto... chosen) {
        auto rows = rows_of(state);
        allfold::all_reduce(comm, rows, allfold::online_softmax{}, chosen...);
    });
}

/// The usual way, for comparison: agree on the maximum, rescale to it, then sum the denominators and the numerators.
/// `common` is a buffer for the maximum.
template <class Communicator, class T>
void merge_by_three(Communicator& comm, partial<T>& state, std::vector<T>& common, const rank_options& options) {
    with_options(options, [&](auto... chosen) {
        allfold::all_reduce(comm, state.m, common, allfold::max{}, chosen...);
        rescale<T>(state, common);
        allfold::all_reduce(comm, state.l, allfold::sum{}, chosen...);
        allfold::all_reduce(comm, state.s, allfold::sum{}, chosen...);
    });
}

/// The times that one rank measures, and in the end those of the slowest rank.
struct rank_times {
    seconds local{}, merge{}, normalise{}, gather{}, check{}, repeats{};
    std::vector<seconds> one_merge, three_collectives;
};

/// Merges copies of the same partial result, alternating between the two ways. All ranks start each merge together.
template <class Communicator, class T>
void compare_ways(Communicator& comm, const partial<T>& own, const rank_options& options, int repetitions,
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

/// Compares the result with the reference. Every rank computes a share of the reference's rows.
template <class Communicator, class T>
[[nodiscard]] finding check(Communicator& comm, const problem<T>& p, const std::vector<T>& result, npy::dtype stored,
                            progress& bar) {
    const auto worse = allfold::associative([](const finding& a, const finding& b) { return a | b; });
    finding found = compare_with_reference(p, std::span(result), stored, comm.rank(), comm.size(),
                                           [&](std::size_t rows) { bar.check.step(rows); });
    allfold::all_reduce(comm, found, worse);
    return found;
}

template <class Communicator>
void agree_on_slowest(Communicator& comm, rank_times& times) {
    const auto slower = allfold::commutative([](seconds a, seconds b) { return std::max(a, b); });
    const auto slowest_of = [&](auto&... figures) { (allfold::all_reduce(comm, figures, slower), ...); };
    slowest_of(times.local, times.merge, times.normalise, times.gather, times.check, times.repeats, times.one_merge,
               times.three_collectives);
}

[[nodiscard]] inline seconds median(std::vector<seconds> times) {
    const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
    std::nth_element(times.begin(), middle, times.end());
    return *middle;
}

inline void enter_times(report& figures, const rank_times& slowest) {
    figures.local = slowest.local;
    figures.merge = slowest.merge;
    figures.normalise = slowest.normalise;
    figures.gather = slowest.gather;
    figures.check = slowest.check;
    figures.repeats = slowest.repeats;
    if (slowest.one_merge.empty()) return;
    figures.one_merge = median(slowest.one_merge);
    figures.three_collectives = median(slowest.three_collectives);
    figures.repetitions = static_cast<int>(slowest.one_merge.size());
}

/// Enters the schedule that the merge of a problem of this size uses.
template <class T>
void enter_plan(report& figures, const sizes& size, team ranks, const rank_options& options) {
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

/// What every rank has in the end.
template <class T>
struct outcome {
    std::vector<T> result;
    std::chrono::steady_clock::time_point started{};  ///< when all ranks had arrived
    finding found{};
    rank_times slowest{};
    cpu_load around{};
};

#ifndef ALLFOLD_ATTENTION_MPI
template <class Communicator>
[[nodiscard]] cpu_load cpu_load_of(const Communicator& comm) {
    return {comm.size(), comm.processors()};
}
#endif

/// The work of one rank, for any kind of ranks.
template <class Communicator, class T>
[[nodiscard]] outcome<T> attend_on_rank(Communicator& untraced, const problem<T>& p, const rank_options& options,
                                        allfold::trace_recorder& recorder, progress& bar) {
    constexpr int repetitions = 21;
    allfold::traced comm(untraced, recorder);
    const int rank = comm.rank();
    const auto keys = allfold::partition::even(p.size.keys, comm.size());
    const auto rows = allfold::partition::even(p.size.rows(), comm.size());
    const auto together = [&](auto work) {  // so that no phase pays for the one before it
        allfold::barrier(untraced);
        return time_of(work);
    };
    const auto phase = [&](const char* name, auto work) {
        return together([&] {
            const auto begin = std::chrono::steady_clock::now();
            work();
            recorder.span(rank, name, begin, std::chrono::steady_clock::now());
        });
    };
    rank_times times;
    outcome<T> own{.result = std::vector<T>(p.size.rows() * p.size.value_depth), .around = cpu_load_of(untraced)};
    allfold::barrier(untraced);
    own.started = std::chrono::steady_clock::now();

    partial<T> state(p.size);
    times.local = phase("local attention", [&] {
        state = attend(p, {keys.offset(rank), keys.offset(rank + 1)}, [&](std::size_t n) { bar.local.step(n); });
    });
    const partial<T> before_merge = state;
    if (comm.size() > 1) times.merge = phase("merge", [&] { merge(comm, state, options); });
    times.normalise =
        phase("normalise", [&] { normalise<T>(state, rows.offset(rank), rows.offset(rank + 1), own.result); });
    const auto grains = allfold::partition::even_grains(own.result.size(), comm.size(), p.size.value_depth);
    if (comm.size() > 1) times.gather = phase("gather", [&] { allfold::all_gather(comm, own.result, grains); });

    if (options.check) times.check = together([&] { own.found = check(untraced, p, own.result, options.stored, bar); });
    if (comm.size() > 1)
        times.repeats = together([&] { compare_ways(untraced, before_merge, options, repetitions, times); });
    agree_on_slowest(untraced, times);
    own.slowest = std::move(times);
    return own;
}

/// The progress of this process on its part of the work. One of all processes shows it.
template <class T>
[[nodiscard]] progress progress_of(const problem<T>& p, int ranks, bool check, bool shown) {
    const auto part = [&](std::size_t all) { return over_mpi ? all / static_cast<std::size_t>(ranks) : all; };
    return {part(p.size.heads * p.size.keys), check ? part(p.size.rows()) : 0, shown};
}

/// Calls `work(comm)` on all ranks, each of which gets the problem and the options given here. Returns how long it took
/// to send these to other processes.
template <class T, class Work>
seconds on_all(team ranks, [[maybe_unused]] problem<T>& p, [[maybe_unused]] rank_options& options, Work work) {
#ifdef ALLFOLD_ATTENTION_MPI
    const seconds share_time = time_of([&] {
        static_cast<void>(agree(ranks, std::same_as<T, float> ? order::attend_in_float : order::attend_in_double));
        share(ranks, p, options);
    });
    work(ranks);
    return share_time;
#else
    allfold::run(ranks, work);
    return {};
#endif
}

}  // namespace detail

template <std::floating_point T>
std::vector<T> attend_on_ranks(problem<T>& p, team ranks, rank_options options, report& figures,
                               allfold::trace_recorder& recorder) {
    detail::enter_plan<T>(figures, p.size, ranks, options);  // throws if the named algorithm cannot do it
    detail::outcome<T> all;
    const auto begin = std::chrono::steady_clock::now();
    {
        progress bar = detail::progress_of(p, figures.ranks, options.check, true);
        figures.share = detail::on_all(ranks, p, options, [&](auto& comm) {
            auto own = detail::attend_on_rank(comm, p, options, recorder, bar);
            if (comm.rank() == 0) all = std::move(own);
        });
    }
    detail::enter_times(figures, all.slowest);
    figures.ranks_start = all.started - begin - figures.share;
    if (options.check) figures.from_reference = all.found;
    figures.around = all.around;
    return std::move(all.result);
}

#ifdef ALLFOLD_ATTENTION_MPI
template <std::floating_point T>
void attend_with_rank_0(team ranks) {
    problem<T> p;
    rank_options options;
    allfold::trace_recorder recorder(ranks.size());
    share(ranks, p, options);
    progress bar = detail::progress_of(p, ranks.size(), options.check, false);
    static_cast<void>(detail::attend_on_rank(ranks, p, options, recorder, bar));
}
#endif

}  // namespace attention
