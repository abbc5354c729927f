// SPDX-License-Identifier: BSL-1.0

/// @file
/// Exact attention over keys and values that are split over ranks.
///
/// Each rank attends to its own keys and has, for each query, the largest score m, the denominator l and the numerator
/// s. One all_reduce with `allfold::online_softmax` merges these. The usual way takes three collectives, which the
/// program also runs and times for comparison.

#include <chrono>
#include <concepts>
#include <exception>
#include <filesystem>
#include <iostream>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "examples/attention/attention.hpp"
#include "examples/attention/distributed.hpp"
#include "examples/attention/input.hpp"
#include "examples/attention/npy.hpp"
#include "examples/attention/options.hpp"
#include "examples/attention/plot.hpp"
#include "examples/attention/reference.hpp"
#include "examples/attention/report.hpp"
#include "examples/common/files.hpp"
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

/// NumPy's result, if there is one for this problem.
[[nodiscard]] std::optional<npy::array> read_numpy_result(const options& chosen) {
    if (!chosen.uses_demo_data() || chosen.scale || chosen.causal_from == "top-left") return std::nullopt;
    return npy::read(data / (chosen.causal ? "o_numpy_causal.npy" : "o_numpy.npy"));
}

[[nodiscard]] std::string describe(const input& in, const options& chosen) {
    const auto shape = [](const input_file& file) {
        return npy::text_of(file.array.shape) + " " + npy::name_of(file.array.type);
    };
    return "attention of q " + shape(in.q) + " to k " + shape(in.k) + ", v " + shape(in.v) +
           (!chosen.causal                     ? ""
            : chosen.causal_from == "top-left" ? ", causal from the top left"
                                               : ", causal") +
           ", on " + std::to_string(chosen.ranks) + (chosen.ranks == 1 ? " rank" : " ranks");
}

/// A file named on the command line.
struct named_file {
    const char* option;
    std::filesystem::path name;
};

[[nodiscard]] std::vector<named_file> inputs_of(const options& chosen) {
    if (!chosen.uses_demo_data()) return {{"--q", chosen.q}, {"--k", chosen.k}, {"--v", chosen.v}};
    std::vector<named_file> files;
    for (const auto& name : {"q.npy", "k.npy", "v.npy", "o_numpy.npy", "o_numpy_causal.npy"})
        files.push_back({"the demo's data", data / name});
    return files;
}

[[nodiscard]] std::vector<named_file> outputs_of(const options& chosen) {
    std::vector<named_file> files{{"--out", chosen.out}, {"--trace", chosen.trace}, {"--plot", chosen.plot}};
    std::erase_if(files, [](const named_file& file) { return file.name.empty(); });
    return files;
}

/// Throws unless each output is a separate file that can be written.
void require_outputs(const options& chosen) {
    std::vector<named_file> taken = inputs_of(chosen);
    for (const named_file& file : outputs_of(chosen)) {
        const std::string text = std::string(file.option) + " " + file.name.string();
        for (const named_file& other : taken)
            if (files::are_same(file.name, other.name))
                throw bad_command_line(text + " is the same file as " + other.option + " " + other.name.string());
        files::require_writable(file.name);
        taken.push_back(file);
    }
}

/// Writes the output of `write(stream)` to a file, completely or not at all.
template <class Write>
void write_text(const std::string& file, Write write) {
    std::ostringstream text;
    write(text);
    files::write(file, {text.str()});
}

/// Writes the requested files.
void write_outputs(const options& chosen, const npy::array& result, const allfold::trace_recorder& recorder,
                   const std::string& title) {
    if (!chosen.out.empty()) npy::write(chosen.out, result);
    if (!chosen.trace.empty()) write_text(chosen.trace, [&](std::ostream& out) { recorder.write_chrome_trace(out); });
    if (!chosen.plot.empty())
        write_text(chosen.plot, [&](std::ostream& out) { out << plot(recorder, chosen.ranks, title, over_mpi); });
}

/// Computes in T, writes the requested files and completes the figures.
template <std::floating_point T>
[[nodiscard]] report solve(const input& in, const options& chosen, team ranks, report figures) {
    std::optional<npy::array> numpy;
    problem<T> p;
    figures.read += time_of([&] {
        numpy = read_numpy_result(chosen);
        p = make_problem<T>(in, chosen.scale, chosen.causal);
        p.from_top_left = chosen.causal_from == "top-left";
    });
    allfold::trace_recorder recorder(chosen.ranks);
    const rank_options told{chosen.algorithm, chosen.window, !chosen.unchecked, in.q.array.type};
    const std::vector<T> result = attend_on_ranks(p, ranks, told, figures, recorder);
    const auto write = [&] {
        write_outputs(chosen, npy::make<T>(told.stored, in.result_shape(), result), recorder, figures.problem);
    };
    if (!outputs_of(chosen).empty()) figures.write = time_of(write);
    const auto compare = [&] {
        return compare_with_known(p, std::span(result), told.stored, npy::values_of<double>(*numpy), chosen.ranks);
    };
    if (numpy) figures.numpy = time_of([&] { figures.from_numpy = compare(); });
    return figures;
}

[[nodiscard]] int run(const options& chosen, team ranks, std::chrono::steady_clock::time_point begin) {
    report figures;
    require_outputs(chosen);
    figures.start = std::chrono::steady_clock::now() - begin;
    input in;
    figures.read = time_of([&] { in = read_chosen(chosen); });
    figures.problem = describe(in, chosen);
    figures.size = in.size();
    figures.ranks = chosen.ranks;
    figures = in.needs_double() ? solve<double>(in, chosen, ranks, figures) : solve<float>(in, chosen, ranks, figures);
    figures.total = std::chrono::steady_clock::now() - begin;
    std::ostringstream text;
    print(text, figures);
    files::print(text.str());
    return figures.good() ? 0 : failed;
}

[[nodiscard]] int complain(const std::exception& error, int status) {
    std::cerr << "attention: " + std::string(error.what()) + '\n';  // in one write: other processes write too
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
    } catch (const allfold::error& error) {  // for example, an algorithm that does not exist for this number of ranks
        if (over_mpi && error.code() == allfold::errc::peer_failed) throw;  // the process that failed says why
        return complain(error, error.code() == allfold::errc::bad_argument ? bad_input : failed);
    } catch (const std::exception& error) {
        return complain(error, failed);
    }
}

}  // namespace
}  // namespace attention

int main(int argc, char** argv) {
    using namespace attention;
    const auto begin = std::chrono::steady_clock::now();
#ifdef ALLFOLD_ATTENTION_MPI
    return lead([&](team ranks) {
        return guarded([&] {
            const auto chosen = parse(argc, argv, ranks.size());
            return chosen ? run(*chosen, ranks, begin) : 0;
        });
    });
#else
    return guarded([&] {
        const auto chosen = parse(argc, argv);
        return chosen ? run(*chosen, chosen->ranks, begin) : 0;
    });
#endif
}
