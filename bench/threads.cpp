// SPDX-License-Identifier: BSL-1.0
/// @file
/// allfold, and what is possible, on threads:
///
///     threads RANKS ROW:BYTES,BYTES,... ...        ROW is all_reduce, merge, reduce_scatter, scan or barrier
///
/// prints one line for each contestant and size; bench/run.py makes a table of them.

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/bound.hpp"
#include "bench/measure.hpp"
#include "bench/ours.hpp"
#include "bench/placement.hpp"
#include "bench/stage.hpp"
#include "bench/workload.hpp"
#include <allfold/allfold.hpp>

namespace bench {
namespace {

/// What the ranks of a cell share besides what they measure.
struct meeting_place {
    std::atomic<int> waiting{0};
    std::atomic<int> generation{0};
    std::array<double, bound_board::most_ranks> values{};
};

class thread_group {
  public:
    thread_group(meeting_place& place, int rank, int size) : place_(place), rank_(rank), size_(size) {}
    [[nodiscard]] int rank() const { return rank_; }
    [[nodiscard]] int size() const { return size_; }

    void barrier() {
        const int generation = place_.generation.load();
        if (place_.waiting.fetch_add(1) + 1 == size_) {
            place_.waiting = 0;
            place_.generation = generation + 1;
        }
        for (int i = 0; place_.generation.load() == generation; ++i)
            oversubscribed(size_) || i > 20000 ? std::this_thread::yield() : relax();
    }
    [[nodiscard]] double max(double value) {
        place_.values[static_cast<std::size_t>(rank_)] = value;
        barrier();
        const double greatest = *std::max_element(place_.values.begin(), place_.values.begin() + size_);
        barrier();
        return greatest;
    }

  private:
    meeting_place& place_;
    int rank_, size_;
};

using thread_stage = stage<thread_group>;
using communicator = allfold::thread_communicator;

/// Measures `call(hands)` for a way of doing a row by hand.
template <class Workload>
class bounds {
  public:
    bounds(thread_stage& on, bound_board& board)
        : on_(on), hands_(board, on.group.rank(), on.group.size(), on.input, on.output, has_slots()) {
        on.group.barrier();
    }
    template <class Call>
    void measure(const char* way, Call call) {
        on_.template measure<Workload>(std::string("bound: ") + way, [&] { call(hands_); });
    }
    /// Above, copies into slots only cost.
    [[nodiscard]] bool has_slots() const { return on_.what.bytes <= 8 << 20; }

  private:
    thread_stage& on_;
    bound<Workload> hands_;
};

template <class Workload>
void bounds_of_all_reduce(thread_stage& on, bound_board& board) {
    using enum stores;
    const std::size_t bytes = on.what.bytes;
    bounds<Workload> by_hand(on, board);
    if constexpr (sizeof(typename Workload::element) == 4) {
        if (bytes == 8) by_hand.measure("cells", [](auto& hands) { hands.template in_cells<2>(); });
        if (bytes == 64) by_hand.measure("cells", [](auto& hands) { hands.template in_cells<16>(); });
    }
    const bool folds_all = on.what.ranks == 2 || bytes <= 16 << 10;  // otherwise there is too much to fold
    if (folds_all && bytes <= 256 << 10) {
        by_hand.measure("slots", [](auto& hands) { hands.template through_slots<plain>(); });
        if (bytes >= 256) by_hand.measure("slots, string", [](auto& hands) { hands.template through_slots<string>(); });
    }
    if (bytes < 4 << 10) return;

    if (folds_all) by_hand.measure("everything", [](auto& hands) { hands.template everything<plain>(); });
    by_hand.measure("push", [](auto& hands) { hands.template push<plain>(); });
    by_hand.measure("push, string", [](auto& hands) { hands.template push<string>(); });
    by_hand.measure("pull", [](auto& hands) { hands.template pull<plain>(); });
    if (by_hand.has_slots())
        by_hand.measure("pull from slots", [](auto& hands) { hands.template pull_from_slots<string>(); });
    if (bytes >= 1 << 20) {
        if (folds_all)
            by_hand.measure("everything, streaming", [](auto& hands) { hands.template everything<streaming>(); });
        by_hand.measure("push, streaming", [](auto& hands) { hands.template push<streaming>(); });
    }
}

void all_reduce(thread_stage& on, communicator& comm, bound_board& board) {
    const std::span<const float> input = on.input.all<float>();
    const std::span<float> output = on.output.all<float>();
    on.measure<sum_of_floats>("ours", [&] { allfold::all_reduce(comm, input, output, allfold::sum{}); });
    bounds_of_all_reduce<sum_of_floats>(on, board);
}

void merge(thread_stage& on, communicator& comm, bound_board& board) {
    const auto input = records_of(on.input), output = records_of(on.output);
    on.measure<merge_of_tensors>("ours", [&] { allfold::all_reduce(comm, input, output, allfold::online_softmax{}); });
    bounds_of_all_reduce<merge_of_states>(on, board);
}

void reduce_scatter(thread_stage& on, communicator& comm, bound_board& board) {
    using enum stores;
    const std::span<const float> input = on.input.all<float>();
    const std::span<float> output = on.output.all<float>();
    on.measure<sum_of_floats>("ours", [&] { allfold::reduce_scatter(comm, input, output, allfold::sum{}); });

    bounds<sum_of_floats> by_hand(on, board);
    by_hand.measure("inputs", [](auto& hands) { hands.scatter(); });
    if (by_hand.has_slots()) {
        by_hand.measure("slots", [](auto& hands) { hands.template scatter_through_slots<plain>(); });
        by_hand.measure("slots, string", [](auto& hands) { hands.template scatter_through_slots<string>(); });
    }
}

/// With a barrier behind each: a loop of scans alone runs ahead in the lower ranks, and has no latency to measure.
void scan(thread_stage& on, communicator& comm, bound_board& board) {
    using enum stores;
    const std::span<const product_of_matrices::element> input = on.input.all<product_of_matrices::element>();
    const std::span<product_of_matrices::element> output = on.output.all<product_of_matrices::element>();
    on.measure<product_of_matrices>("ours", [&] {
        allfold::inclusive_scan(comm, input, output, matrix_product);
        allfold::barrier(comm);
    });

    bounds<product_of_matrices> by_hand(on, board);
    by_hand.measure("inputs", [](auto& hands) { hands.scan(); });
    by_hand.measure("slots", [](auto& hands) { hands.template scan_through_slots<plain>(), hands.meet(); });
    by_hand.measure("slots, string", [](auto& hands) { hands.template scan_through_slots<string>(), hands.meet(); });
}

void barrier(thread_stage& on, communicator& comm, bound_board& board, std::barrier<>& standard) {
    on.measure<sum_of_floats>("ours", [&] { allfold::barrier(comm); });
    bounds<sum_of_floats>(on, board).measure("flags", [](auto& hands) { hands.meet(); });
    on.measure<sum_of_floats>("std::barrier", [&] { standard.arrive_and_wait(); });
}

[[nodiscard]] std::vector<result> measure(const cell& what) {
    meeting_place place;
    const auto board = std::make_unique<bound_board>();
    std::barrier standard(what.ranks);
    std::vector<result> results;
    allfold::run(what.ranks, [&](communicator& comm) {
        if (!oversubscribed(comm.size())) pin(comm.rank());
        thread_group group(place, comm.rank(), comm.size());
        stage on(group, what);
        if (what.row == "all_reduce") all_reduce(on, comm, *board);
        if (what.row == "merge") merge(on, comm, *board);
        if (what.row == "reduce_scatter") reduce_scatter(on, comm, *board);
        if (what.row == "scan") scan(on, comm, *board);
        if (what.row == "barrier") barrier(on, comm, *board, standard);
        if (comm.rank() == 0) results = std::move(on.results);
    });
    return results;
}

/// Once more where the processors were moved meanwhile.
void report(const cell& what) {
    for (int attempt = 0; attempt < 3; ++attempt) {
        const std::string before = placement();
        const auto results = measure(what);
        if (before != placement()) continue;
        print(what, before, results);
        return;
    }
}

}  // namespace
}  // namespace bench

int main(int count, char** arguments) {
    try {
        for (const bench::cell& what : bench::cells_of({arguments, static_cast<std::size_t>(count)}))
            bench::report(what);
    } catch (const std::exception& e) {
        std::cerr << e.what() << '\n';
        return EXIT_FAILURE;
    }
}
