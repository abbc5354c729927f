// SPDX-License-Identifier: BSL-1.0
/// @file
/// The collectives of an MPI library between processes: arguments and output are those of bench/threads.cpp. Without
/// arguments it prints the name of the library.

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <mpi.h>
#include <span>
#include <string>
#include <unistd.h>

#include "bench/measure.hpp"
#include "bench/placement.hpp"
#include "bench/stage.hpp"
#include "bench/workload.hpp"

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
    [[nodiscard]] double max(double value) {
        double greatest = 0;
        MPI_Allreduce(&value, &greatest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        return greatest;
    }

  private:
    int rank_ = 0, size_ = 0;
};

using process_stage = stage<process_group>;

void all_reduce(const float* input, float* output, std::size_t n, MPI_Op op) {
    MPI_Allreduce(input, output, static_cast<int>(n), MPI_FLOAT, op, MPI_COMM_WORLD);
}

void all_reduce(process_stage& on) {
    const auto input = on.input.all<float>(), output = on.output.all<float>();
    on.measure<sum_of_floats>("MPI", [&] { all_reduce(input.data(), output.data(), input.size(), MPI_SUM); });
}

/// As it is done with the operators that MPI has: the common maximum first, to which each rank scales its own states.
void merge(process_stage& on) {
    constexpr std::size_t depth = merge_of_tensors::depth;
    const buffer memory(on.what.bytes, 33);
    const merge_of_tensors input(on.input), output(on.output), scaled(memory);
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

void reduce_scatter(process_stage& on) {
    const auto input = on.input.all<float>(), output = on.output.all<float>();
    on.measure<sum_of_floats>("MPI", [&] {
        MPI_Reduce_scatter_block(input.data(), output.data(), static_cast<int>(output.size()), MPI_FLOAT, MPI_SUM,
                                 MPI_COMM_WORLD);
    });
}

// NOLINTNEXTLINE(readability-non-const-parameter): MPI's signature
extern "C" void multiply(void* left, void* right, int* count, MPI_Datatype*) {
    auto* const product = static_cast<product_of_matrices::element*>(right);
    product_of_matrices::fold(product, static_cast<product_of_matrices::element*>(left), product,
                              static_cast<std::size_t>(*count));
}

void scan(process_stage& on) {
    MPI_Datatype matrix;
    MPI_Type_contiguous(4, MPI_DOUBLE, &matrix);
    MPI_Type_commit(&matrix);
    MPI_Op product;
    MPI_Op_create(&multiply, 0, &product);
    const auto input = on.input.all<product_of_matrices::element>();
    const auto output = on.output.all<product_of_matrices::element>();
    on.measure<product_of_matrices>("MPI", [&] {
        MPI_Scan(input.data(), output.data(), static_cast<int>(input.size()), matrix, product, MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
    });
    MPI_Op_free(&product);
    MPI_Type_free(&matrix);
}

void barrier(process_stage& on) {
    on.measure<sum_of_floats>("MPI", [] { MPI_Barrier(MPI_COMM_WORLD); });
}

/// Seen by rank 0; the others sleep, so as not to disturb it.
[[nodiscard]] std::string placement_of(process_group& group) {
    std::string seen;
    group.barrier();
    if (group.rank() == 0)
        seen = placement();
    else
        usleep(5000);
    group.barrier();
    return seen;
}

void report(process_group& group, const cell& what) {
    const std::string before = placement_of(group);
    process_stage on(group, what);
    if (what.row == "all_reduce") all_reduce(on);
    if (what.row == "merge") merge(on);
    if (what.row == "reduce_scatter") reduce_scatter(on);
    if (what.row == "scan") scan(on);
    if (what.row == "barrier") barrier(on);
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
    if (arguments.size() < 2) print_library();
    if (!oversubscribed(group.size())) pin(group.rank());
    for (const cell& what : cells_of(arguments)) report(group, what);
}

}  // namespace
}  // namespace bench

int main(int count, char** arguments) {
    MPI_Init(&count, &arguments);
    try {
        bench::run({arguments, static_cast<std::size_t>(count)});
    } catch (const std::exception& e) {
        std::cerr << e.what() << '\n';
        MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    }
    MPI_Finalize();
}
