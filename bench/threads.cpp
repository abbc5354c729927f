// SPDX-License-Identifier: BSL-1.0
/// @file
/// allfold, and what the machine allows, on threads:
///
///     threads RANKS ROW:BYTES,BYTES,... ...            ROW is one of those in `contests` below
///     threads --table RANKS ROW:BYTES,BYTES,... ...    allfold alone
///
/// prints one line for each contestant and size, from which bench/run.py makes tables; or a table with the columns of
/// nccl-tests (bench/table.hpp).

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "bench/bound.hpp"
#include "bench/measure.hpp"
#include "bench/message_bound.hpp"
#include "bench/messages.hpp"
#include "bench/ours.hpp"
#include "bench/placement.hpp"
#include "bench/stage.hpp"
#include "bench/table.hpp"
#include "bench/workload.hpp"
#include <allfold/allfold.hpp>

namespace bench {
namespace {

/// What the ranks of a cell share, apart from what they measure.
struct barrier_state {
    std::atomic<int> waiting{0};
    std::atomic<int> generation{0};
    std::array<double, max_ranks> values{};
};

class thread_group {
  public:
    thread_group(barrier_state& place, int rank, int size) : place_(place), rank_(rank), size_(size) {}
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
    barrier_state& place_;
    int rank_, size_;
};

/// What the ranks of a cell share for the hand-written contestants.
struct boards : bound_board {
    using bound_board::bound_board;
    message_board messages;
};

using thread_stage = stage<thread_group>;
using communicator = allfold::thread_communicator;

/// Measures `call(hands)` for each way of doing a row by hand.
template <class Workload>
class bounds {
  public:
    bounds(thread_stage& on, boards& board)
        : on_(on), hands_(board, on.group.rank(), on.group.size(), on.input, on.output, has_slots()) {
        on.group.barrier();
    }
    /// Ranks that share CPUs wait at a counter, which is never slower; for short operands at flags as well.
    template <class Call>
    void measure(const std::string& way, Call call) {
        const bool crowded = oversubscribed(on_.what.ranks);
        const auto measure_with = [&](sync_method at, const std::string& name) {
            hands_.use_sync(at);
            on_.template measure<Workload>("bound: " + name, [&] { call(hands_); });
        };
        if (crowded) measure_with(sync_method::counter, way + ", counter");
        if (!crowded || on_.what.bytes <= 1 << 10) measure_with(sync_method::flags, way);
    }
    /// Measures `call(hands, count)` if the input has few elements, as many as a cell can hold.
    template <class Call>
    void measure_in_cells(Call call) {
        const std::size_t n = on_.input.bytes() / sizeof(element);
        const auto try_count = [&]<std::size_t Count>(std::integral_constant<std::size_t, Count> count) {
            if constexpr (Count * sizeof(element) <= sizeof(bound_board::cell::value))
                if (n == Count) measure("cells", [&](auto& hands) { call(hands, count); });
        };
        [&]<std::size_t... Counts>(std::index_sequence<Counts...>) {
            (try_count(std::integral_constant<std::size_t, Counts>{}), ...);
        }(std::index_sequence<1, 2, 4, 8, 16>{});
    }
    /// Measures `call(hands, how)` for each way to fill slots.
    template <class Call>
    void measure_slots(const std::string& way, Call call) {
        using enum stores;
        if (!has_slots()) return;
        measure(way, [&](auto& hands) { call(hands, std::integral_constant<stores, plain>{}); });
        if (on_.what.bytes < 256) return;
        measure(way + ", string", [&](auto& hands) { call(hands, std::integral_constant<stores, string>{}); });
        measure(way + ", streaming", [&](auto& hands) { call(hands, std::integral_constant<stores, streaming>{}); });
    }
    /// For longer operands, copies into slots only cost time.
    [[nodiscard]] bool has_slots() const { return on_.what.bytes <= 8 << 20; }

  private:
    using element = typename Workload::element;

    thread_stage& on_;
    bound<Workload> hands_;
};

template <class Workload>
void bounds_of_all_reduce(thread_stage& on, boards& board) {
    using enum stores;
    const std::size_t bytes = on.what.bytes;
    bounds<Workload> by_hand(on, board);
    by_hand.measure_in_cells([](auto& hands, auto count) { hands.template in_cells<count()>(); });
    const bool folds_all = on.what.ranks == 2 || bytes <= 16 << 10;  // otherwise there is too much to fold
    if (folds_all) by_hand.measure_slots("slots", [](auto& hands, auto how) { hands.template through_slots<how()>(); });
    if (bytes < 4 << 10) return;

    if (folds_all) by_hand.measure("everything", [](auto& hands) { hands.template everything<plain>(); });
    by_hand.measure("push", [](auto& hands) { hands.template push<plain>(); });
    by_hand.measure("push, string", [](auto& hands) { hands.template push<string>(); });
    by_hand.measure("pull", [](auto& hands) { hands.template pull<plain>(); });
    by_hand.measure("push, streaming", [](auto& hands) { hands.template push<streaming>(); });
    by_hand.measure_slots("pull from slots", [](auto& hands, auto how) { hands.template pull_from_slots<how()>(); });
    by_hand.measure_slots("push from slots", [](auto& hands, auto how) { hands.template push_from_slots<how()>(); });
    if (bytes >= 1 << 20 && folds_all)
        by_hand.measure("everything, streaming", [](auto& hands) { hands.template everything<streaming>(); });
}

void all_reduce(thread_stage& on, communicator& comm, boards& board) {
    const std::span<const float> input = on.input.all<float>();
    const std::span<float> output = on.output.all<float>();
    on.measure<sum_of_floats>("ours", [&] { allfold::all_reduce(comm, input, output, allfold::sum{}); });
    bounds_of_all_reduce<sum_of_floats>(on, board);
}

void merge(thread_stage& on, communicator& comm, boards& board) {
    const auto input = records_of(on.input), output = records_of(on.output);
    on.measure<merge_of_tensors>("ours", [&] { allfold::all_reduce(comm, input, output, allfold::online_softmax{}); });
    bounds_of_all_reduce<merge_of_states>(on, board);
}

void reduce_scatter(thread_stage& on, communicator& comm, boards& board) {
    using enum stores;
    const std::span<const float> input = on.input.all<float>();
    const std::span<float> output = on.output.all<float>();
    on.measure<blocks_of_sums>("ours", [&] { allfold::reduce_scatter(comm, input, output, allfold::sum{}); });

    bounds<blocks_of_sums> by_hand(on, board);
    by_hand.measure("inputs", [](auto& hands) { hands.scatter(); });
    by_hand.measure_slots("slots", [](auto& hands, auto how) { hands.template scatter_through_slots<how()>(); });
}

/// Elements of 16 bits, folded in float and rounded once.
void reduce_scatter_bf16(thread_stage& on, communicator& comm, boards& board) {
    const std::span<const bfloat16> input = on.input.all<bfloat16>();
    const std::span<bfloat16> output = on.output.all<bfloat16>();
    const allfold::widened<allfold::sum, float> in_float;
    on.measure<blocks_of_short_sums>("ours", [&] { allfold::reduce_scatter(comm, input, output, in_float); });

    bounds<blocks_of_short_sums> by_hand(on, board);
    by_hand.measure("inputs", [](auto& hands) { hands.scatter(); });
    by_hand.measure_slots("slots", [](auto& hands, auto how) { hands.template scatter_through_slots<how()>(); });
}

void all_gather(thread_stage& on, communicator& comm, boards& board) {
    using enum stores;
    const std::span<const float> input = on.input.all<float>();
    const std::span<float> output = on.output.all<float>();
    on.measure<blocks_of_floats>("ours", [&] { allfold::all_gather(comm, input, output); });

    bounds<blocks_of_floats> by_hand(on, board);
    by_hand.measure_in_cells([](auto& hands, auto count) { hands.template gather_in_cells<count()>(); });
    by_hand.measure_slots("slots", [](auto& hands, auto how) { hands.template gather_through_slots<how()>(); });
    if (on.what.bytes < 4 << 10) return;
    by_hand.measure("pull", [](auto& hands) { hands.template gather<plain>(); });
    by_hand.measure("push, string", [](auto& hands) { hands.template gather_by_push<string>(); });
    by_hand.measure("pull, streaming", [](auto& hands) { hands.template gather<streaming>(); });
    by_hand.measure("push, streaming", [](auto& hands) { hands.template gather_by_push<streaming>(); });
}

// --- Blocks of different lengths, blocks of columns, several operands of each rank, and teams. The bound is our own
// call without any of these.

void all_gather_uneven(thread_stage& on, communicator& comm, boards&) {
    const std::span<const float> input = on.input.all<float>();
    const std::span<float> output = on.output.all<float>();
    const auto sizes = uneven_blocks(input.size(), comm.size());
    const auto blocks = allfold::partition::sizes(sizes);
    const auto own = input.subspan(begin_of(sizes, comm.rank()), blocks.extent(comm.rank()));
    on.measure<uneven_blocks_of_floats>("ours", [&] { allfold::all_gather(comm, own, output, blocks); });
    const std::size_t n = input.size() / static_cast<std::size_t>(comm.size());
    on.measure<blocks_of_floats>("bound: call", [&] { allfold::all_gather(comm, input.first(n), output); });
}
void reduce_scatter_uneven(thread_stage& on, communicator& comm, boards&) {
    const std::span<const float> input = on.input.all<float>();
    const std::span<float> output = on.output.all<float>();
    const auto blocks = allfold::partition::sizes(uneven_blocks(input.size(), comm.size()));
    const auto own = output.first(blocks.extent(comm.rank()));
    on.measure<uneven_blocks_of_sums>("ours",
                                      [&] { allfold::reduce_scatter(comm, input, own, allfold::sum{}, blocks); });
    const auto even = output.first(input.size() / static_cast<std::size_t>(comm.size()));
    on.measure<first_block_of_sums>("bound: call", [&] { allfold::reduce_scatter(comm, input, even, allfold::sum{}); });
}
void all_gather_axis(thread_stage& on, communicator& comm, boards&) {
    const std::span<const float> input = on.input.all<float>();
    const std::span<float> output = on.output.all<float>();
    const allfold::tensor<const float, 2> block(input.data(), {rows_of_matrix, input.size() / rows_of_matrix});
    const allfold::tensor<float, 2> all(output.data(), {rows_of_matrix, output.size() / rows_of_matrix});
    on.measure<columns_of_floats>("ours", [&] { allfold::all_gather(comm, block, all, allfold::axis{1}); });
    on.measure<blocks_of_floats>("bound: call", [&] { allfold::all_gather(comm, input, output); });
}
void images(thread_stage& on, communicator& comm, boards&) {
    const std::span<const float> input = on.input.all<float>();
    const std::span<float> output = on.output.all<float>();
    const auto image = [&](std::size_t k) { return sums_of_images::image(input, k); };
    on.measure<sums_of_images>("ours", [&] {
        allfold::all_reduce(comm, allfold::images(image(0), image(1), image(2), image(3)), output, allfold::sum{});
    });
    on.measure<sums_of_images>("bound: fold, call", [&] {
        sums_of_images::fold_images(input, output);
        allfold::all_reduce(comm, output, allfold::sum{});
    });
}
void team(thread_stage& on, communicator& comm, boards&) {
    const std::span<const float> input = on.input.all<float>();
    const std::span<float> output = on.output.all<float>();
    auto reversed = allfold::split(comm, allfold::color{0}, -comm.rank());
    on.measure<sum_of_floats>("ours", [&] { allfold::all_reduce(*reversed, input, output, allfold::sum{}); });
    on.measure<sum_of_floats>("bound: call", [&] { allfold::all_reduce(comm, input, output, allfold::sum{}); });
}

void permute(thread_stage& on, communicator& comm, boards& board) {
    using enum stores;
    const std::span<const float> input = on.input.all<float>();
    const std::span<float> output = on.output.all<float>();
    on.measure<floats_of_one>("ours", [&] { allfold::permute(comm, input, output, allfold::shift{1}); });

    bounds<floats_of_one> by_hand(on, board);
    by_hand.measure_in_cells([](auto& hands, auto count) { hands.template shift_in_cells<count()>(); });
    by_hand.measure("pull", [](auto& hands) { hands.template shift<plain>(); });
    by_hand.measure_slots("slots", [](auto& hands, auto how) { hands.template shift_through_slots<how()>(); });
    if (on.what.bytes >= 1 << 20)
        by_hand.measure("pull, streaming", [](auto& hands) { hands.template shift<streaming>(); });
}

void all_to_all(thread_stage& on, communicator& comm, boards& board) {
    using enum stores;
    const std::span<const float> input = on.input.all<float>();
    const std::span<float> output = on.output.all<float>();
    on.measure<exchanged_blocks>("ours", [&] { allfold::all_to_all(comm, input, output); });

    bounds<exchanged_blocks> by_hand(on, board);
    by_hand.measure_in_cells([](auto& hands, auto count) { hands.template exchange_in_cells<count()>(); });
    by_hand.measure_slots("slots", [](auto& hands, auto how) { hands.template exchange_through_slots<how()>(); });
    if (on.what.bytes < 4 << 10) return;
    by_hand.measure("pull", [](auto& hands) { hands.template exchange<plain>(); });
    by_hand.measure("push, string", [](auto& hands) { hands.template exchange_by_push<string>(); });
    by_hand.measure("pull, streaming", [](auto& hands) { hands.template exchange<streaming>(); });
    by_hand.measure("push, streaming", [](auto& hands) { hands.template exchange_by_push<streaming>(); });
}

void all_to_all_by_sizes(thread_stage& on, communicator& comm, boards& board) {
    using enum stores;
    const std::span<const float> input = on.input.all<float>();
    const std::span<float> output = on.output.all<float>();
    const std::vector<int> sizes = unequal_sizes(input.size(), comm.rank(), comm.size());
    on.measure<unequal_blocks_of_floats>("ours", [&] { allfold::all_to_all(comm, input, sizes, output); });

    bounds<unequal_blocks_of_floats> by_hand(on, board);
    if (on.what.bytes + sizes.size() * sizeof(int) <= sizeof(bound_board::cell::value))
        by_hand.measure("cells", [&](auto& hands) { hands.exchange_by_sizes_in_cells(sizes); });
    by_hand.measure_slots("slots",
                          [&](auto& hands, auto how) { hands.template exchange_by_sizes_through_slots<how()>(sizes); });
    if (on.what.bytes < 4 << 10) return;
    by_hand.measure("pull", [&](auto& hands) { hands.template exchange_by_sizes<plain>(sizes); });
    by_hand.measure("pull, string", [&](auto& hands) { hands.template exchange_by_sizes<string>(sizes); });
    by_hand.measure("pull, streaming", [&](auto& hands) { hands.template exchange_by_sizes<streaming>(sizes); });
}

// --- Each followed by a barrier: in a loop of these alone, ranks that wait for nobody run ahead, which hides latency.

void broadcast(thread_stage& on, communicator& comm, boards& board) {
    using enum stores;
    const std::span<float> x = on.output.all<float>();
    on.measure<sum_of_floats>("ours", [&] {
        allfold::broadcast(comm, x);
        allfold::barrier(comm);
    });

    bounds<sum_of_floats> by_hand(on, board);
    by_hand.measure_in_cells([](auto& hands, auto count) { hands.template broadcast_in_cells<count()>(); });
    by_hand.measure("root", [](auto& hands) { hands.broadcast(); });
    by_hand.measure_slots("slot", [](auto& hands, auto how) { hands.template broadcast_through_slot<how()>(); });
    if (on.what.bytes < 16 << 10) return;
    by_hand.measure("slices", [](auto& hands) { hands.template broadcast_in_slices<plain>(); });
    by_hand.measure("slices, string", [](auto& hands) { hands.template broadcast_in_slices<string>(); });
    by_hand.measure("slices, streaming", [](auto& hands) { hands.template broadcast_in_slices<streaming>(); });
}

void scatter(thread_stage& on, communicator& comm, boards& board) {
    using enum stores;
    const std::span<const float> input = on.input.all<float>();
    const std::span<float> output = on.output.all<float>();
    on.measure<blocks_of_root>("ours", [&] {
        allfold::scatter(comm, input, output);
        allfold::barrier(comm);
    });

    bounds<blocks_of_root> by_hand(on, board);
    by_hand.measure_in_cells([](auto& hands, auto count) { hands.template deal_in_cells<count()>(); });
    by_hand.measure("root", [](auto& hands) { hands.deal(); });
    by_hand.measure_slots("slot", [](auto& hands, auto how) { hands.template deal_through_slot<how()>(); });
}

void gather(thread_stage& on, communicator& comm, boards& board) {
    using enum stores;
    const std::span<const float> input = on.input.all<float>();
    const std::span<float> output = on.output.all<float>();
    on.measure<blocks_of_floats>("ours", [&] {
        allfold::gather(comm, input, output);
        allfold::barrier(comm);
    });

    bounds<blocks_of_floats> by_hand(on, board);
    by_hand.measure_in_cells([](auto& hands, auto count) { hands.template collect_in_cells<count()>(); });
    by_hand.measure("root", [](auto& hands) { hands.collect(); });
    by_hand.measure_slots("slots", [](auto& hands, auto how) { hands.template collect_through_slots<how()>(); });
    if (on.what.bytes < 4 << 10) return;
    by_hand.measure("push", [](auto& hands) { hands.template collect_by_push<plain>(); });
    by_hand.measure("push, string", [](auto& hands) { hands.template collect_by_push<string>(); });
    by_hand.measure("push, streaming", [](auto& hands) { hands.template collect_by_push<streaming>(); });
}

void reduce(thread_stage& on, communicator& comm, boards& board) {
    using enum stores;
    const std::span<const float> input = on.input.all<float>();
    const std::span<float> output = on.output.all<float>();
    on.measure<sum_of_floats>("ours", [&] {
        allfold::reduce(comm, input, output, allfold::sum{});
        allfold::barrier(comm);
    });

    bounds<sum_of_floats> by_hand(on, board);
    by_hand.measure_in_cells([](auto& hands, auto count) { hands.template reduce_in_cells<count()>(); });
    by_hand.measure("inputs", [](auto& hands) { hands.reduce(); });
    by_hand.measure_slots("slots", [](auto& hands, auto how) { hands.template reduce_through_slots<how()>(); });
    if (on.what.bytes < 16 << 10) return;
    by_hand.measure("slices", [](auto& hands) { hands.template reduce_in_slices<plain>(); });
    by_hand.measure("slices, string", [](auto& hands) { hands.template reduce_in_slices<string>(); });
    by_hand.measure("slices, streaming", [](auto& hands) { hands.template reduce_in_slices<streaming>(); });
}

/// `own`: how many of its own inputs a rank gets folded.
template <class Workload>
void scan_with(thread_stage& on, communicator& comm, boards& board, const auto& verb, const auto& op, std::size_t own) {
    using enum stores;
    const auto input = std::span<const typename Workload::element>(on.input.all<typename Workload::element>());
    const auto output = on.output.all<typename Workload::element>();
    on.measure<Workload>("ours", [&] {
        verb(comm, input, output, op);
        allfold::barrier(comm);
    });

    bounds<Workload> by_hand(on, board);
    by_hand.measure_in_cells([=](auto& hands, auto count) { hands.template scan_in_cells<count()>(own); });
    by_hand.measure("inputs", [=](auto& hands) { hands.scan(own); });
    by_hand.measure_slots("slots", [=](auto& hands, auto how) { hands.template scan_through_slots<how()>(own); });
    if (on.what.bytes < 4 << 10) return;
    by_hand.measure("slices", [=](auto& hands) { hands.template scan_in_slices<plain>(own); });
    by_hand.measure("slices, string", [=](auto& hands) { hands.template scan_in_slices<string>(own); });
    by_hand.measure("slices, streaming", [=](auto& hands) { hands.template scan_in_slices<streaming>(own); });
}

void inclusive_scan(thread_stage& on, communicator& comm, boards& board) {
    scan_with<sum_of_floats>(on, comm, board, allfold::inclusive_scan, allfold::sum{}, 1);
}
void exclusive_scan(thread_stage& on, communicator& comm, boards& board) {
    // Rank 0 writes nothing, as with MPI and by hand.
    scan_with<sum_of_floats>(on, comm, board, allfold::exclusive_scan, allfold::without_identity(allfold::sum{}), 0);
}
void scan(thread_stage& on, communicator& comm, boards& board) {
    scan_with<product_of_matrices>(on, comm, board, allfold::inclusive_scan, matrix_product, 1);
}

void distributed_scan(thread_stage& on, communicator& comm, boards& board) {
    const std::span<const float> input = on.input.all<float>();
    const std::span<float> output = on.output.all<float>();
    const std::size_t n = input.size(), block = prefixes_of_array::block_of(n);
    const allfold::block_cyclic layout{.block = block, .offset = 0, .count = n * static_cast<std::size_t>(comm.size())};
    on.measure<prefixes_of_array>("ours", [&] {
        allfold::inclusive_scan(comm, allfold::distributed(input, layout), allfold::distributed(output, layout),
                                allfold::sum{});
        allfold::barrier(comm);
    });

    bounds<prefixes_of_array> by_hand(on, board);
    if (!by_hand.has_slots()) return;
    by_hand.measure("sums", [=](auto& hands) { hands.scan_of_array_by_sums(block); });
    by_hand.measure("scans", [=](auto& hands) { hands.scan_of_array_by_scans(block); });
}

// --- The same all_reduce, but not as a blocking call, which is the bound here.

void measure_call(thread_stage& on, communicator& comm) {
    on.measure<sum_of_floats>("bound: call", [&, in = on.input.all<float>(), out = on.output.all<float>()] {
        allfold::all_reduce(comm, in, out, allfold::sum{});
    });
}

void start(thread_stage& on, communicator& comm, boards&) {
    on.measure<sum_of_floats>("ours", [&, in = on.input.all<float>(), out = on.output.all<float>()] {
        allfold::all_reduce.start(comm, in, out, allfold::sum{}).wait();
    });
    measure_call(on, comm);
}

void in_flight(thread_stage& on, communicator& comm, boards&) {
    on.measure_in_flight<sum_of_floats>("ours", [&](const auto& inputs, const auto& outputs) {
        std::array<allfold::operation, operations_in_flight> started;
        for (std::size_t i = 0; i < started.size(); ++i)
            started[i] = allfold::all_reduce.start(comm, inputs[i], outputs[i], allfold::sum{});
        allfold::wait_all(started);
    });
    measure_call(on, comm);
}

void persistent(thread_stage& on, communicator& comm, boards&) {
    auto prepared = allfold::all_reduce.prepare(comm, on.input.all<float>(), on.output.all<float>(), allfold::sum{});
    on.measure<sum_of_floats>("ours", [&] { prepared(); });
    measure_call(on, comm);
}

/// A list of tensors of equal length, beside one call for each, and one call for a tensor as long as all of them.
/// `verb(input, output)` is the collective.
template <class Workload, class Pieces>
void list_with(thread_stage& on, auto verb) {
    const auto input = std::span<const float>(on.input.all<float>());
    const auto output = on.output.all<float>();
    const auto inputs = pieces_of(input);
    const auto outputs = pieces_of(output);
    allfold::tensors<const float> from;
    allfold::tensors<float> to;
    for (const auto& each : inputs) from.add(each);
    for (const auto& each : outputs) to.add(each);
    on.measure<Pieces>("ours", [&] { verb(from, to); });
    on.measure<Pieces>("one by one", [&] {
        for (std::size_t i = 0; i < tensors_of_list; ++i) verb(inputs[i], outputs[i]);
    });
    on.measure<Workload>("bound: call", [&] { verb(input, output); });
}

void list(thread_stage& on, communicator& comm, boards&) {
    list_with<sum_of_floats, sum_of_floats>(
        on, [&](const auto& in, const auto& out) { allfold::all_reduce(comm, in, out, allfold::sum{}); });
}
void reduce_scatter_list(thread_stage& on, communicator& comm, boards&) {
    list_with<blocks_of_sums, lists_of_sums>(
        on, [&](const auto& in, const auto& out) { allfold::reduce_scatter(comm, in, out, allfold::sum{}); });
}
void all_gather_list(thread_stage& on, communicator& comm, boards&) {
    list_with<blocks_of_floats, lists_of_blocks>(
        on, [&](const auto& in, const auto& out) { allfold::all_gather(comm, in, out); });
}

/// Three collectives on a third of the bytes each, beside one call for each.
void together(thread_stage& on, communicator& comm, boards& board) {
    const thirds<const float> in(on.input.all<const float>(), comm.size());
    const thirds<float> out(on.output.all<float>(), comm.size());
    on.measure<thirds_of_floats>("ours", [&] {
        allfold::together(comm, allfold::all_reduce.with(in.first, out.first, allfold::sum{}),
                          allfold::all_to_all.with(in.second, out.second),
                          allfold::all_gather.with(in.block_of_third, out.third));
    });
    on.measure<thirds_of_floats>("one by one", [&] {
        allfold::all_reduce(comm, in.first, out.first, allfold::sum{});
        allfold::all_to_all(comm, in.second, out.second);
        allfold::all_gather(comm, in.block_of_third, out.third);
    });

    bounds<thirds_of_floats> by_hand(on, board);
    if (in.first.size() == 2) by_hand.measure("cells", [](auto& hands) { hands.template together_in_cells<6>(); });
    if (in.first.size() == 8) by_hand.measure("cells", [](auto& hands) { hands.template together_in_cells<24>(); });
    by_hand.measure("inputs", [](auto& hands) { hands.together(); });
    by_hand.measure_slots("slots", [](auto& hands, auto how) { hands.template together_through_slots<how()>(); });
    if (on.what.bytes < 16 << 10) return;
    by_hand.measure("push", [](auto& hands) { hands.template together_by_push<stores::plain>(); });
    by_hand.measure("push, string", [](auto& hands) { hands.template together_by_push<stores::string>(); });
}

void barrier(thread_stage& on, communicator& comm, boards& board) {
    on.measure<sum_of_floats>("ours", [&] { allfold::barrier(comm); });
    bounds<sum_of_floats>(on, board).measure("flags", [](auto& hands) { hands.sync(); });
    on.measure<sum_of_floats>("std::barrier", [&] { board.standard.arrive_and_wait(); });
}

// --- Messages

/// Measures ways to pass messages of equal length.
class bounds_of_messages {
  public:
    bounds_of_messages(thread_stage& on, boards& board, std::size_t bytes, std::size_t count)
        : hands_(board.messages, on.group.rank(), on.group.size(), bytes, count), bytes_(bytes) {
        on.group.barrier();
    }
    /// Calls `measure(hands, contestant, way)` for each way that suits such messages in both directions at once.
    template <class Measure>
    void measure_each(Measure measure) {
        using enum stores;
        using hands = message_bound;
        const auto try_way = [&]<class Way>(const char* name, std::type_identity<Way> way) {
            measure(hands_, std::string("bound: ") + name, way);
        };
        if (bytes_ == 4) try_way("cells", std::type_identity<hands::cells<plain, 4>>{});
        if (bytes_ == 8) try_way("cells", std::type_identity<hands::cells<plain, 8>>{});
        if (bytes_ == 64) try_way("cells", std::type_identity<hands::cells<plain, 64>>{});
        if (hands_.has_cells()) try_way("cells of any length", std::type_identity<hands::cells<plain>>{});
        if (hands_.has_cells() && bytes_ >= 256) {
            try_way("cells, string", std::type_identity<hands::cells<string>>{});
            try_way("cells, streaming", std::type_identity<hands::cells<streaming>>{});
        }
        try_way("read", std::type_identity<hands::read<plain>>{});
        try_way("write", std::type_identity<hands::write<plain>>{});
        if (bytes_ < 512) return;
        try_way("read, string", std::type_identity<hands::read<string>>{});
        try_way("write, string", std::type_identity<hands::write<string>>{});
        if (bytes_ < 1 << 20) return;
        try_way("read, streaming", std::type_identity<hands::read<streaming>>{});
        try_way("write, streaming", std::type_identity<hands::write<streaming>>{});
    }
    /// Also those in which both ranks copy one message, which pays off only if the other direction is idle.
    template <class Measure>
    void measure_each_in_turns(Measure measure) {
        using enum stores;
        measure_each(measure);
        if (bytes_ < 4 << 10) return;
        measure(hands_, "bound: halves", std::type_identity<message_bound::halves<plain>>{});
        measure(hands_, "bound: halves, string", std::type_identity<message_bound::halves<string>>{});
        if (bytes_ >= 1 << 20)
            measure(hands_, "bound: halves, streaming", std::type_identity<message_bound::halves<streaming>>{});
    }

  private:
    message_bound hands_;
    std::size_t bytes_;
};

void ping_pong(thread_stage& on, communicator& comm, boards& board) {
    const std::array input{on.input.all<const float>()};
    const std::array output{on.output.all<float>()};
    on.measure<floats_of_one>("ours", [&] { ours::ping_pong(comm, input[0], output[0]); });

    const pair_traffic there_and_back{input, output, static_cast<std::size_t>(partner_of(comm.rank()))};
    bounds_of_messages by_hand(on, board, on.what.bytes, 1);
    by_hand.measure_each_in_turns([&]<class Way>(auto& hands, const std::string& name, std::type_identity<Way>) {
        on.measure<floats_of_one>(name, [&] { hands.template ping_pong<Way>(there_and_back); });
    });
}

void message_rate(thread_stage& on, communicator& comm, boards& board) {
    on.measure_in_flight<floats_of_one, messages_in_flight>(
        "ours", [&](const auto& inputs, const auto& outputs) { ours::message_rate(comm, inputs, outputs); });

    const auto partner = static_cast<std::size_t>(partner_of(comm.rank()));
    bounds_of_messages by_hand(on, board, on.what.bytes, messages_in_flight);
    by_hand.measure_each([&]<class Way>(auto& hands, const std::string& name, std::type_identity<Way>) {
        on.measure_in_flight<floats_of_one, messages_in_flight>(name, [&](const auto& inputs, const auto& outputs) {
            hands.template exchange<Way>(pair_traffic{inputs, outputs, partner});
        });
    });
}

void halo(thread_stage& on, communicator& comm, boards& board) {
    const neighbours around(comm.rank(), comm.size());
    const auto input = on.input.all<const float>();
    const auto output = on.output.all<float>();
    on.measure<faces_of_floats>("ours", [&] { ours::halo(comm, around, input, output); });

    const halo_traffic six_faces{around, input, output, comm.rank()};
    bounds_of_messages by_hand(on, board, on.what.bytes / faces_of_a_cube, faces_of_a_cube);
    by_hand.measure_each([&]<class Way>(auto& hands, const std::string& name, std::type_identity<Way>) {
        on.measure<faces_of_floats>(name, [&] { hands.template exchange<Way>(six_faces); });
    });
}

struct contest {
    std::string_view row;
    void (*measure)(thread_stage&, communicator&, boards&);
};
constexpr std::array contests{
    contest{"all_reduce", all_reduce},
    contest{"merge", merge},
    contest{"all_gather", all_gather},
    contest{"reduce_scatter", reduce_scatter},
    contest{"reduce_scatter_bf16", reduce_scatter_bf16},
    contest{"broadcast", broadcast},
    contest{"scatter", scatter},
    contest{"gather", gather},
    contest{"all_to_all", all_to_all},
    contest{"all_to_all_by_sizes", all_to_all_by_sizes},
    contest{"all_gather_uneven", all_gather_uneven},
    contest{"reduce_scatter_uneven", reduce_scatter_uneven},
    contest{"all_gather_axis", all_gather_axis},
    contest{"permute", permute},
    contest{"reduce", reduce},
    contest{"scan", scan},
    contest{"inclusive_scan", inclusive_scan},
    contest{"exclusive_scan", exclusive_scan},
    contest{"distributed_scan", distributed_scan},
    contest{"images", images},
    contest{"team", team},
    contest{"start", start},
    contest{"in_flight", in_flight},
    contest{"persistent", persistent},
    contest{"list", list},
    contest{"reduce_scatter_list", reduce_scatter_list},
    contest{"all_gather_list", all_gather_list},
    contest{"together", together},
    contest{"barrier", barrier},
    contest{"ping_pong", ping_pong},
    contest{"message_rate", message_rate},
    contest{"halo", halo},
};
[[nodiscard]] const contest* contest_of(std::string_view row) {
    const auto* const found = std::ranges::find(contests, row, &contest::row);
    return found == contests.end() ? nullptr : found;
}

[[nodiscard]] std::vector<result> measure(const cell& what) {
    barrier_state place;
    const auto board = std::make_unique<boards>(what.ranks);
    std::vector<result> results;
    allfold::run(what.ranks, [&](communicator& comm) {
        pin(comm.rank());
        thread_group group(place, comm.rank(), comm.size());
        stage on(group, what);
        contest_of(what.of.name)->measure(on, comm, *board);
        if (comm.rank() == 0) results = std::move(on.results);
    });
    return results;
}

/// Measures again if the CPUs were moved meanwhile.
void report(const cell& what, auto&& print) {
    for (int attempt = 0; attempt < 3; ++attempt) {
        const std::string before = placement();
        const auto results = measure(what);
        if (before != placement()) continue;
        print(what, before, results);
        return;
    }
    std::cerr << what.of.name << ", " << what.bytes << " bytes: left out, since the CPUs were moved during each try\n";
}

void run(std::span<char* const> arguments) {
    const bool as_table = !arguments.empty() && arguments[0] == std::string_view("--table");
    const auto cells = cells_of(arguments.subspan(as_table ? 1 : 0), contest_of);
    table_printer table;
    for (cell what : cells) {
        what.ours_alone = as_table;
        if (as_table)
            report(what, table);
        else
            report(what, print);
    }
}

}  // namespace
}  // namespace bench

int main(int count, char** arguments) {
    try {
        bench::run(std::span(arguments, static_cast<std::size_t>(count)).subspan(1));
    } catch (const std::invalid_argument& e) {
        std::cerr << e.what() << '\n';
        return 2;
    } catch (const std::exception& e) {
        std::cerr << e.what() << '\n';
        return EXIT_FAILURE;
    }
}
