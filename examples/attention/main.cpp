// SPDX-License-Identifier: BSL-1.0

/// @file
/// Exact attention over keys and values that are split over ranks.
///
/// Each rank attends to its own keys and has, for each query, the largest score m, the denominator l and the numerator
/// s. One all_reduce with `allfold::online_softmax` merges these; the usual way takes three collectives, which the
/// program runs as well and times beside it.

#include <concepts>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "examples/attention/attention.hpp"
#include "examples/attention/distributed.hpp"
#include "examples/attention/input.hpp"
#include "examples/attention/npy.hpp"
#include "examples/attention/options.hpp"
#include "examples/attention/report.hpp"
#include <allfold/error.hpp>
#include <allfold/transport/traced.hpp>
#ifdef ALLFOLD_ATTENTION_MPI
#include "examples/attention/processes.hpp"
#endif

#ifndef ALLFOLD_ATTENTION_DATA
#define ALLFOLD_ATTENTION_DATA "examples/attention/data"
#endif

namespace attention {
namespace {

const std::filesystem::path data = ALLFOLD_ATTENTION_DATA;

[[nodiscard]] input read_chosen(const options& chosen) {
    if (chosen.uses_demo_data()) return read_input(data / "q.npy", data / "k.npy", data / "v.npy");
    return read_input(chosen.q, chosen.k, chosen.v);
}

/// NumPy's result where there is one for what is computed.
[[nodiscard]] std::optional<npy::array> read_numpy_result(const options& chosen) {
    if (!chosen.uses_demo_data() || chosen.scale) return std::nullopt;
    return npy::read(data / (chosen.causal ? "o_numpy_causal.npy" : "o_numpy.npy"));
}

[[nodiscard]] std::string describe(const input& in, const options& chosen) {
    const auto shape = [](const input_file& file) {
        return npy::text_of(file.array.shape) + " " + npy::name_of(file.array.type);
    };
    return "attention of q " + shape(in.q) + " to k " + shape(in.k) + ", v " + shape(in.v) +
           (chosen.causal ? ", causal" : "") + ", on " + std::to_string(chosen.ranks) +
           (chosen.ranks == 1 ? " rank" : " ranks");
}

void write_trace(const std::string& file, const allfold::trace_recorder& recorder) {
    std::ofstream out(file);
    recorder.write_chrome_trace(out);
    if (!out.flush()) throw npy::file_error(file, "writing the trace failed");
}

/// Computes in T, writes what is asked for and completes the figures.
template <std::floating_point T>
[[nodiscard]] report solve(const input& in, const options& chosen, team ranks, report figures) {
    const auto numpy = read_numpy_result(chosen);
    for (const std::string& file : {chosen.out, chosen.trace})
        if (!file.empty()) npy::check_writable(file);

    auto p = make_problem<T>(in, chosen.scale, chosen.causal);
    allfold::trace_recorder recorder(chosen.ranks);
    const std::vector<T> result = attend_on_ranks(p, ranks, {chosen.algorithm, chosen.window}, figures, recorder);
    const npy::array stored = npy::make<T>(in.q.array.type, in.result_shape(), result);
    if (!chosen.out.empty()) figures.write = time_of([&] { npy::write(chosen.out, stored); });
    if (!chosen.trace.empty()) write_trace(chosen.trace, recorder);

    const auto written = npy::values_of<double>(stored);
    figures.from_reference = largest_deviation(written, reference(p));
    if (numpy) figures.from_numpy = largest_deviation(written, npy::values_of<double>(*numpy));
    figures.allowed = tolerance(p) + npy::storage_error(stored.type, longest_vector(p.v, 1));
    return figures;
}

[[nodiscard]] int run(const options& chosen, team ranks) {
    report figures;
    input in;
    figures.read = time_of([&] { in = read_chosen(chosen); });
    figures.problem = describe(in, chosen);
    figures = in.needs_double() ? solve<double>(in, chosen, ranks, figures) : solve<float>(in, chosen, ranks, figures);
    print(std::cout, figures);
    return figures.good() ? 0 : failed;
}

[[nodiscard]] int complain(const std::exception& error, int status) {
    std::cerr << "attention: " << error.what() << '\n';
    return status;
}

/// Turns what `work` throws into a line on standard error and an exit status.
template <class Work>
[[nodiscard]] int guarded(Work work) {
    try {
        return work();
    } catch (const bad_command_line& error) {
        return complain(error, bad_input);
    } catch (const npy::file_error& error) {
        return complain(error, bad_input);
    } catch (const allfold::error& error) {  // an algorithm that does not exist for this number of ranks, for one
        if (over_mpi && error.code() == allfold::errc::peer_failed) throw;  // the process that failed tells why
        return complain(error, error.code() == allfold::errc::bad_argument ? bad_input : failed);
    } catch (const std::exception& error) {
        return complain(error, failed);
    }
}

}  // namespace
}  // namespace attention

int main(int argc, char** argv) {
    using namespace attention;
#ifdef ALLFOLD_ATTENTION_MPI
    return lead([&](team ranks) {
        return guarded([&] {
            const auto chosen = parse(argc, argv, ranks.size());
            return chosen ? run(*chosen, ranks) : 0;
        });
    });
#else
    return guarded([&] {
        const auto chosen = parse(argc, argv);
        return chosen ? run(*chosen, chosen->ranks) : 0;
    });
#endif
}
