// SPDX-License-Identifier: BSL-1.0
/// @file
/// allfold over MPI beside the MPI library's own collectives, between the same processes:
///
///     mpi RANKS ROW:BYTES,BYTES,... ...           ROW is one of those in `contests` below
///     mpi --peer RANKS ROW:BYTES,BYTES,... ...    the library's own collectives alone
///
/// The output is like that of bench/threads.cpp. Without arguments it prints the name of the library. Contestants:
///
///     ours         one of allfold's schedules
///     automatic    what a caller gets by default
///     agreed       MPI's own collective through allfold, once the ranks agree about the call
///     always       the same without agreement
///     MPI          MPI's own collective
///     MPI, one     for a merge: MPI's own collective with a user-defined operator, where MPI is three all-reduces

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <mpi.h>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

#include "bench/measure.hpp"
#include "bench/messages.hpp"
#include "bench/ours.hpp"
#include "bench/placement.hpp"
#include "bench/stage.hpp"
#include "bench/workload.hpp"
#include <allfold/allfold.hpp>
#include <allfold/transport/mpi.hpp>

namespace bench {
namespace {

class process_group {
  public:
    process_group() {
        MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
        MPI_Comm_size(MPI_COMM_WORLD, &size_);
    }
    [[nodiscard]] int rank() const { return rank_; }
    [[nodiscard]] int size() const { return size_; }
    void barrier() { MPI_Barrier(MPI_COMM_WORLD); }
    /// A barrier that leaves the CPUs to ranks that have not arrived yet, whatever priority this program has.
    void barrier_asleep() {
        MPI_Request all = MPI_REQUEST_NULL;
        MPI_Ibarrier(MPI_COMM_WORLD, &all);
        for (int there = 0; there == 0; MPI_Test(&all, &there, MPI_STATUS_IGNORE)) usleep(1000);
    }
    [[nodiscard]] double max(double value) {
        double greatest = 0;
        MPI_Allreduce(&value, &greatest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        return greatest;
    }

  private:
    int rank_ = 0, size_ = 0;
};

using communicator = allfold::mpi::communicator;
using allfold::delegate;

/// One rank of a cell: MPI's collectives on `MPI_COMM_WORLD`, ours on duplicates of it.
struct process_stage : stage<process_group> {
    process_stage(process_group& ranks, const cell& measured, bool without_ours)
        : stage(ranks, measured), peer_alone(without_ours) {}

    template <class Workload, class Call>
    void measure_ours(const std::string& contestant, Call call) {
        if (!peer_alone) measure<Workload>(contestant, call);
    }
    /// `call(comm, delegation)` is a collective that MPI has as well.
    template <class Workload, class Call>
    void measure_ours_and_delegated(Call call) {
        measure_ours<Workload>("ours", [&] { call(comm, delegate::never); });
        measure_ours<Workload>("automatic", [&] { call(comm, delegate::automatic); });
        measure_ours<Workload>("agreed", [&] { call(delegating, delegate::automatic); });
        measure_ours<Workload>("always", [&] { call(comm, delegate::always); });
    }

    bool peer_alone;
    communicator comm{MPI_COMM_WORLD};
    communicator delegating{MPI_COMM_WORLD,
                            allfold::mpi::duplicate,
                            {.native_from = 0, .native_all_reduce_from = 0, .native_reduce_from = 0}};
};

/// The operator of a workload in the form that MPI takes.
template <class Workload>
class user_operator {
  public:
    explicit user_operator(bool commutes) {
        using scalar = typename Workload::scalar;
        if constexpr (sizeof(element) < sizeof(scalar))
            MPI_Type_contiguous(sizeof(element), MPI_BYTE, &type);
        else
            MPI_Type_contiguous(sizeof(element) / sizeof(scalar), sizeof(scalar) == 4 ? MPI_FLOAT : MPI_DOUBLE, &type);
        MPI_Type_commit(&type);
        const auto fold = [](void* left, void* right, int* count, MPI_Datatype*) {
            auto* const to = static_cast<element*>(right);
            Workload::fold(to, static_cast<const element*>(left), to, static_cast<std::size_t>(*count));
        };
        MPI_Op_create(fold, commutes ? 1 : 0, &op);
    }
    user_operator(const user_operator&) = delete;
    user_operator& operator=(const user_operator&) = delete;
    ~user_operator() {
        MPI_Op_free(&op);
        MPI_Type_free(&type);
    }

    MPI_Datatype type = MPI_DATATYPE_NULL;
    MPI_Op op = MPI_OP_NULL;

  private:
    using element = typename Workload::element;
};

/// The operands of a row.
template <class Element>
struct operands {
    explicit operands(const process_stage& on) : operands(on.input.all<Element>(), on.output.all<Element>()) {}
    operands(std::span<const Element> in, std::span<Element> out) : input(in), output(out) {}

    void all_reduce(MPI_Datatype type, MPI_Op op) const {
        MPI_Allreduce(input.data(), output.data(), count(), type, op, MPI_COMM_WORLD);
    }
    void start_all_reduce(MPI_Request& request) const {
        MPI_Iallreduce(input.data(), output.data(), count(), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
    }
    void inclusive_scan(MPI_Datatype type, MPI_Op op) const {
        MPI_Scan(input.data(), output.data(), count(), type, op, MPI_COMM_WORLD);
    }
    void exclusive_scan(MPI_Datatype type, MPI_Op op) const {
        MPI_Exscan(input.data(), output.data(), count(), type, op, MPI_COMM_WORLD);
    }
    void reduce_scatter(MPI_Datatype type = MPI_FLOAT, MPI_Op op = MPI_SUM) const {
        MPI_Reduce_scatter_block(input.data(), output.data(), count(), type, op, MPI_COMM_WORLD);
    }
    void all_gather() const {
        MPI_Allgather(input.data(), count(), MPI_FLOAT, output.data(), count(), MPI_FLOAT, MPI_COMM_WORLD);
    }
    void all_to_all(int ranks) const {
        const int block = count() / ranks;
        MPI_Alltoall(input.data(), block, MPI_FLOAT, output.data(), block, MPI_FLOAT, MPI_COMM_WORLD);
    }
    /// Elements of the operand, or of a block if there are blocks.
    [[nodiscard]] int count() const { return static_cast<int>(std::min(input.size(), output.size())); }

    std::span<const Element> input;
    std::span<Element> output;
};

/// Followed by a barrier: in a loop of these alone, ranks that wait for nobody run ahead, which hides latency.
template <class Call>
[[nodiscard]] auto then_barrier(Call call) {
    return [call](auto&&... arguments) {
        call(arguments...);
        MPI_Barrier(MPI_COMM_WORLD);
    };
}

void all_reduce(process_stage& on) {
    const operands<float> x(on);
    on.measure_ours_and_delegated<sum_of_floats>(
        [&](communicator& comm, delegate how) { allfold::all_reduce(comm, x.input, x.output, allfold::sum{}, how); });
    on.measure<sum_of_floats>("MPI", [&] { x.all_reduce(MPI_FLOAT, MPI_SUM); });
}

void reduce_scatter(process_stage& on) {
    const operands<float> x(on);
    on.measure_ours_and_delegated<blocks_of_sums>([&](communicator& comm, delegate how) {
        allfold::reduce_scatter(comm, x.input, x.output, allfold::sum{}, how);
    });
    on.measure<blocks_of_sums>("MPI", [&] { x.reduce_scatter(); });
}

/// MPI folds with a user-defined operator, which rounds after each fold.
void reduce_scatter_bf16(process_stage& on) {
    const operands<bfloat16> x(on);
    const user_operator<blocks_of_short_sums> in_float(true);
    on.measure_ours<blocks_of_short_sums>(
        "ours", [&] { allfold::reduce_scatter(on.comm, x.input, x.output, allfold::widened<allfold::sum, float>()); });
    on.measure<blocks_of_short_sums>("MPI", [&] { x.reduce_scatter(in_float.type, in_float.op); });
}

void all_gather(process_stage& on) {
    const operands<float> x(on);
    on.measure_ours<blocks_of_floats>("ours", [&] { allfold::all_gather(on.comm, x.input, x.output); });
    on.measure<blocks_of_floats>("MPI", [&] { x.all_gather(); });
}

void broadcast(process_stage& on) {
    const operands<float> x(on);
    on.measure_ours<sum_of_floats>("ours", then_barrier([&] { allfold::broadcast(on.comm, x.output); }));
    on.measure<sum_of_floats>(
        "MPI", then_barrier([&] { MPI_Bcast(x.output.data(), x.count(), MPI_FLOAT, 0, MPI_COMM_WORLD); }));
}

void scatter(process_stage& on) {
    const operands<float> x(on);
    on.measure_ours<blocks_of_root>("ours", then_barrier([&] { allfold::scatter(on.comm, x.input, x.output); }));
    on.measure<blocks_of_root>("MPI", then_barrier([&] {
                                   MPI_Scatter(x.input.data(), x.count(), MPI_FLOAT, x.output.data(), x.count(),
                                               MPI_FLOAT, 0, MPI_COMM_WORLD);
                               }));
}

void gather(process_stage& on) {
    const operands<float> x(on);
    on.measure_ours<blocks_of_floats>("ours", then_barrier([&] { allfold::gather(on.comm, x.input, x.output); }));
    on.measure<blocks_of_floats>("MPI", then_barrier([&] {
                                     MPI_Gather(x.input.data(), x.count(), MPI_FLOAT, x.output.data(), x.count(),
                                                MPI_FLOAT, 0, MPI_COMM_WORLD);
                                 }));
}

void all_to_all(process_stage& on) {
    const operands<float> x(on);
    on.measure_ours<exchanged_blocks>("ours", [&] { allfold::all_to_all(on.comm, x.input, x.output); });
    on.measure<exchanged_blocks>("MPI", [&] { x.all_to_all(on.what.ranks); });
}

/// Receivers first learn how much they will receive, as with ours.
void all_to_all_by_sizes(process_stage& on) {
    const operands<float> x(on);
    const auto sizes = unequal_sizes(x.input.size(), on.group.rank(), on.what.ranks);
    std::vector<int> from(sizes.size()), come(sizes.size()), to(sizes.size());
    std::exclusive_scan(sizes.begin(), sizes.end(), from.begin(), 0);
    on.measure<unequal_blocks_of_floats>("MPI", [&] {
        MPI_Alltoall(sizes.data(), 1, MPI_INT, come.data(), 1, MPI_INT, MPI_COMM_WORLD);
        std::exclusive_scan(come.begin(), come.end(), to.begin(), 0);
        MPI_Alltoallv(x.input.data(), sizes.data(), from.data(), MPI_FLOAT, x.output.data(), come.data(), to.data(),
                      MPI_FLOAT, MPI_COMM_WORLD);
    });
}

void all_gather_uneven(process_stage& on) {
    const operands<float> x(on);
    const auto sizes = uneven_blocks(x.input.size(), on.what.ranks);
    std::vector<int> from(sizes.size());
    std::exclusive_scan(sizes.begin(), sizes.end(), from.begin(), 0);
    const auto rank = static_cast<std::size_t>(on.group.rank());
    on.measure<uneven_blocks_of_floats>("MPI", [&] {
        MPI_Allgatherv(x.input.data() + from[rank], sizes[rank], MPI_FLOAT, x.output.data(), sizes.data(), from.data(),
                       MPI_FLOAT, MPI_COMM_WORLD);
    });
}
void reduce_scatter_uneven(process_stage& on) {
    const operands<float> x(on);
    const auto sizes = uneven_blocks(x.input.size(), on.what.ranks);
    on.measure<uneven_blocks_of_sums>("MPI", [&] {
        MPI_Reduce_scatter(x.input.data(), x.output.data(), sizes.data(), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    });
}

/// A block arrives as columns: a vector type, whose next instance begins with the next column.
void all_gather_axis(process_stage& on) {
    const operands<float> x(on);
    const int rows = static_cast<int>(rows_of_matrix), width = x.count() / rows;
    MPI_Datatype vector = MPI_DATATYPE_NULL, columns = MPI_DATATYPE_NULL;
    MPI_Type_vector(rows, width, width * on.what.ranks, MPI_FLOAT, &vector);
    MPI_Type_create_resized(vector, 0, static_cast<MPI_Aint>(sizeof(float)) * width, &columns);
    MPI_Type_commit(&columns);
    on.measure<columns_of_floats>("MPI", [&] {
        MPI_Allgather(x.input.data(), x.count(), MPI_FLOAT, x.output.data(), 1, columns, MPI_COMM_WORLD);
    });
    MPI_Type_free(&columns);
    MPI_Type_free(&vector);
}

void images(process_stage& on) {
    const operands<float> x(on);
    on.measure<sums_of_images>("MPI", [&] {
        sums_of_images::fold_images(x.input, x.output);
        MPI_Allreduce(MPI_IN_PLACE, x.output.data(), x.count(), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    });
}

void team(process_stage& on) {
    const operands<float> x(on);
    MPI_Comm reversed = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, 0, -on.group.rank(), &reversed);
    on.measure<sum_of_floats>(
        "MPI", [&] { MPI_Allreduce(x.input.data(), x.output.data(), x.count(), MPI_FLOAT, MPI_SUM, reversed); });
    MPI_Comm_free(&reversed);
}

void permute(process_stage& on) {
    const operands<float> x(on);
    const int ranks = on.what.ranks, above = (on.group.rank() + 1) % ranks,
              below = (on.group.rank() + ranks - 1) % ranks;
    on.measure_ours<floats_of_one>("ours", [&] { allfold::permute(on.comm, x.input, x.output, allfold::shift{1}); });
    on.measure<floats_of_one>("MPI", [&] {
        MPI_Sendrecv(x.input.data(), x.count(), MPI_FLOAT, above, 0, x.output.data(), x.count(), MPI_FLOAT, below, 0,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    });
}

void reduce(process_stage& on) {
    const operands<float> x(on);
    on.measure_ours_and_delegated<sum_of_floats>(then_barrier(
        [&](communicator& comm, delegate how) { allfold::reduce(comm, x.input, x.output, allfold::sum{}, how); }));
    on.measure<sum_of_floats>("MPI", then_barrier([&] {
                                  MPI_Reduce(x.input.data(), x.output.data(), x.count(), MPI_FLOAT, MPI_SUM, 0,
                                             MPI_COMM_WORLD);
                              }));
}

void start(process_stage& on) {
    const operands<float> x(on);
    on.measure<sum_of_floats>("MPI", [&] {
        MPI_Request request;
        x.start_all_reduce(request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    });
}

void in_flight(process_stage& on) {
    on.measure_in_flight<sum_of_floats>("MPI", [](const auto& inputs, const auto& outputs) {
        std::array<MPI_Request, operations_in_flight> requests;
        for (std::size_t i = 0; i < requests.size(); ++i)
            operands<float>(inputs[i], outputs[i]).start_all_reduce(requests[i]);
        MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
    });
}

void inclusive_scan(process_stage& on) {
    const operands<float> x(on);
    on.measure_ours_and_delegated<sum_of_floats>(then_barrier([&](communicator& comm, delegate how) {
        allfold::inclusive_scan(comm, x.input, x.output, allfold::sum{}, how);
    }));
    on.measure<sum_of_floats>("MPI", then_barrier([&] { x.inclusive_scan(MPI_FLOAT, MPI_SUM); }));
}

void exclusive_scan(process_stage& on) {
    const operands<float> x(on);
    on.measure_ours_and_delegated<sum_of_floats>(then_barrier([&](communicator& comm, delegate how) {
        allfold::exclusive_scan(comm, x.input, x.output, allfold::sum{}, how);
    }));
    on.measure<sum_of_floats>("MPI", then_barrier([&] { x.exclusive_scan(MPI_FLOAT, MPI_SUM); }));
}

/// As it is done with MPI's own operators: first the common maximum, to which each rank then scales its states.
void merge_in_three(process_stage& on) {
    constexpr std::size_t depth = merge_of_tensors::depth;
    const buffer memory(on.what.bytes, 33);
    const merge_of_tensors input(on.input), output(on.output), scaled(memory);
    const auto all_reduce = [](const float* from, float* to, std::size_t n, MPI_Op op) {
        MPI_Allreduce(from, to, static_cast<int>(n), MPI_FLOAT, op, MPI_COMM_WORLD);
    };
    on.measure<merge_of_tensors>("MPI", [&] {
        all_reduce(input.m, output.m, input.n, MPI_MAX);
        for (std::size_t i = 0; i < input.n; ++i) {
            const float factor = std::exp(input.m[i] - output.m[i]);
            scaled.l[i] = input.l[i] * factor;
            for (std::size_t d = i * depth; d < (i + 1) * depth; ++d) scaled.s[d] = input.s[d] * factor;
        }
        all_reduce(scaled.l, output.l, input.n, MPI_SUM);
        all_reduce(scaled.s, output.s, input.n * depth, MPI_SUM);
    });
}

void merge(process_stage& on) {
    const auto input = records_of(on.input), output = records_of(on.output);
    on.measure_ours<merge_of_tensors>("ours",
                                      [&] { allfold::all_reduce(on.comm, input, output, allfold::online_softmax{}); });
    merge_in_three(on);
    if (on.peer_alone) return;
    const operands<merge_of_states::element> x(on);
    const user_operator<merge_of_states> by_mpi(true);
    on.measure<merge_of_states>("MPI, one", [&] { x.all_reduce(by_mpi.type, by_mpi.op); });
}

void product(process_stage& on) {
    const operands<product_of_matrices::element> x(on);
    on.measure_ours<product_of_matrices>("ours",
                                         [&] { allfold::all_reduce(on.comm, x.input, x.output, matrix_product); });
    const user_operator<product_of_matrices> by_mpi(false);
    on.measure<product_of_matrices>("MPI", [&] { x.all_reduce(by_mpi.type, by_mpi.op); });
}

void scan(process_stage& on) {
    const operands<product_of_matrices::element> x(on);
    on.measure_ours<product_of_matrices>(
        "ours", then_barrier([&] { allfold::inclusive_scan(on.comm, x.input, x.output, matrix_product); }));
    const user_operator<product_of_matrices> by_mpi(false);
    on.measure<product_of_matrices>("MPI", then_barrier([&] { x.inclusive_scan(by_mpi.type, by_mpi.op); }));
}

// --- What MPI has no operation for: its calls one by one.

/// Calls `call(x)` with the operands of each tensor.
template <class Pieces>
void list_with(process_stage& on, auto call) {
    const auto inputs = pieces_of(std::span<const float>(on.input.all<float>()));
    const auto outputs = pieces_of(on.output.all<float>());
    on.measure<Pieces>("MPI", [&] {
        for (std::size_t i = 0; i < tensors_of_list; ++i) call(operands<float>(inputs[i], outputs[i]));
    });
}
void list(process_stage& on) {
    list_with<sum_of_floats>(on, [](const operands<float>& x) { x.all_reduce(MPI_FLOAT, MPI_SUM); });
}
void reduce_scatter_list(process_stage& on) {
    list_with<lists_of_sums>(on, [](const operands<float>& x) { x.reduce_scatter(); });
}
void all_gather_list(process_stage& on) {
    list_with<lists_of_blocks>(on, [](const operands<float>& x) { x.all_gather(); });
}

void together(process_stage& on) {
    const thirds<const float> in(on.input.all<const float>(), on.what.ranks);
    const thirds<float> out(on.output.all<float>(), on.what.ranks);
    on.measure<thirds_of_floats>("MPI", [&] {
        operands<float>(in.first, out.first).all_reduce(MPI_FLOAT, MPI_SUM);
        operands<float>(in.second, out.second).all_to_all(on.what.ranks);
        operands<float>(in.block_of_third, out.third).all_gather();
    });
}

/// Each rank scans its blocks, and then learns the sums of all.
void distributed_scan(process_stage& on) {
    const operands<float> x(on);
    const auto ranks = static_cast<std::size_t>(on.what.ranks), rank = static_cast<std::size_t>(on.group.rank());
    const std::size_t block = prefixes_of_array::block_of(x.input.size()), blocks = x.input.size() / block;
    std::vector<float> sums(blocks), all(blocks * ranks);
    on.measure<prefixes_of_array>("MPI", then_barrier([&] {
                                      for (std::size_t k = 0; k < blocks; ++k) {
                                          const auto from = x.input.subspan(k * block, block);
                                          const auto to = x.output.subspan(k * block, block);
                                          std::partial_sum(from.begin(), from.end(), to.begin());
                                          sums[k] = to.back();
                                      }
                                      operands<float>(sums, all).all_gather();
                                      float before = 0;
                                      for (std::size_t k = 0; k < blocks; ++k)
                                          for (std::size_t r = 0; r < ranks; ++r) {
                                              if (r == rank)
                                                  for (float& each : x.output.subspan(k * block, block)) each += before;
                                              before += all[r * blocks + k];
                                          }
                                  }));
}

void barrier(process_stage& on) {
    on.measure_ours<sum_of_floats>("ours", [&] { allfold::barrier(on.comm); });
    on.measure<sum_of_floats>("MPI", [] { MPI_Barrier(MPI_COMM_WORLD); });
}

// --- Messages

void ping_pong(process_stage& on) {
    const operands<float> x(on);
    on.measure_ours<floats_of_one>("ours", [&] { ours::ping_pong(on.comm, x.input, x.output); });
    const int partner = partner_of(on.group.rank());
    const auto send = [&] { MPI_Send(x.input.data(), x.count(), MPI_FLOAT, partner, 0, MPI_COMM_WORLD); };
    const auto receive = [&] {
        MPI_Recv(x.output.data(), x.count(), MPI_FLOAT, partner, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    };
    on.measure<floats_of_one>("MPI", [&] {
        if (on.group.rank() < partner) send();
        receive();
        if (on.group.rank() > partner) send();
    });
}

/// Receives and sends of messages that are in flight at the same time.
template <std::size_t Count>
class requests {
  public:
    void receive(std::span<float> to, int from, int tag) {
        MPI_Irecv(to.data(), static_cast<int>(to.size()), MPI_FLOAT, from, tag, MPI_COMM_WORLD, &all_[count_++]);
    }
    void send(std::span<const float> from, int to, int tag) {
        MPI_Isend(from.data(), static_cast<int>(from.size()), MPI_FLOAT, to, tag, MPI_COMM_WORLD, &all_[count_++]);
    }
    void wait() { MPI_Waitall(static_cast<int>(count_), all_.data(), MPI_STATUSES_IGNORE); }

  private:
    std::array<MPI_Request, 2 * Count> all_;
    std::size_t count_ = 0;
};

void message_rate(process_stage& on) {
    if (!on.peer_alone)
        on.measure_in_flight<floats_of_one, messages_in_flight>(
            "ours", [&](const auto& inputs, const auto& outputs) { ours::message_rate(on.comm, inputs, outputs); });
    const int partner = partner_of(on.group.rank());
    on.measure_in_flight<floats_of_one, messages_in_flight>("MPI", [&](const auto& inputs, const auto& outputs) {
        requests<messages_in_flight> all;
        for (const auto& each : outputs) all.receive(each, partner, 0);
        for (const auto& each : inputs) all.send(each, partner, 0);
        all.wait();
    });
}

void halo(process_stage& on) {
    const operands<float> x(on);
    const neighbours around(on.group.rank(), on.group.size());
    on.measure_ours<faces_of_floats>("ours", [&] { ours::halo(on.comm, around, x.input, x.output); });
    on.measure<faces_of_floats>("MPI", [&] {
        requests<faces_of_a_cube> all;
        for (std::size_t face = 0; face < faces_of_a_cube; ++face)
            all.receive(face_of(x.output, face), around[face], static_cast<int>(opposite_of(face)));
        for (std::size_t face = 0; face < faces_of_a_cube; ++face)
            all.send(face_of(x.input, face), around[face], static_cast<int>(face));
        all.wait();
    });
}

struct contest {
    std::string_view row;
    void (*measure)(process_stage&);
};
constexpr std::array contests{
    contest{"all_reduce", all_reduce},
    contest{"merge", merge},
    contest{"product", product},
    contest{"all_gather", all_gather},
    contest{"reduce_scatter", reduce_scatter},
    contest{"reduce_scatter_bf16", reduce_scatter_bf16},
    contest{"broadcast", broadcast},
    contest{"scatter", scatter},
    contest{"gather", gather},
    contest{"all_to_all", all_to_all},
    contest{"all_to_all_by_sizes", all_to_all_by_sizes},
    contest{"permute", permute},
    contest{"reduce", reduce},
    contest{"inclusive_scan", inclusive_scan},
    contest{"exclusive_scan", exclusive_scan},
    contest{"scan", scan},
    contest{"distributed_scan", distributed_scan},
    contest{"all_gather_uneven", all_gather_uneven},
    contest{"reduce_scatter_uneven", reduce_scatter_uneven},
    contest{"all_gather_axis", all_gather_axis},
    contest{"images", images},
    contest{"team", team},
    contest{"start", start},
    contest{"in_flight", in_flight},
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

/// The placement as rank 0 sees it, while the others sleep so as not to disturb it.
[[nodiscard]] std::string placement_of(process_group& group) {
    std::string seen;
    group.barrier();
    if (group.rank() == 0) seen = placement();
    group.barrier_asleep();
    return seen;
}

void report(process_group& group, const cell& what, bool peer_alone) {
    const std::string before = placement_of(group);
    process_stage on(group, what, peer_alone);
    contest_of(what.of.name)->measure(on);
    const std::string after = placement_of(group);
    if (group.rank() == 0) print(what, before == after ? before : "moved", on.results);
}

void print_library() {
    std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text;
    int length = 0;
    MPI_Get_library_version(text.data(), &length);
    std::cout << text.data() << '\n';
}

void run(std::span<char* const> arguments) {
    process_group group;
    if (arguments.empty()) return print_library();
    const bool peer_alone = arguments[0] == std::string_view("--peer");
    const auto cells = cells_of(arguments.subspan(peer_alone ? 1 : 0), contest_of);
    if (cells.front().ranks != group.size())
        throw std::invalid_argument("RANKS is " + std::to_string(cells.front().ranks) + ", but there are " +
                                    std::to_string(group.size()) + " processes");
    pin(group.rank());
    for (const cell& what : cells) report(group, what, peer_alone);
}

}  // namespace
}  // namespace bench

int main(int count, char** arguments) {
    MPI_Init(&count, &arguments);
    try {
        bench::run(std::span(arguments, static_cast<std::size_t>(count)).subspan(1));
    } catch (const std::exception& e) {
        std::cerr << e.what() << '\n';
        MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    }
    MPI_Finalize();
}
