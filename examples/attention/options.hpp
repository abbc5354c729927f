// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "examples/common/files.hpp"

/// @file
/// The command line.

namespace attention {

/// Exit statuses: 0, `failed` for a wrong result or a run that failed, `bad_input` for files and command lines.
inline constexpr int failed = 1;
inline constexpr int bad_input = 2;

struct options {
    std::string q, k, v;  ///< empty: the data set that comes with the program
    std::string out;      ///< empty: the result is checked but not written
    std::string trace;    ///< empty: no trace
    std::string plot;     ///< empty: no picture
    int ranks = 4;
    bool causal = false;
    std::string causal_from = "bottom-right";
    bool unchecked = false;
    std::optional<double> scale;  ///< 1/sqrt(depth) unless given
    std::string algorithm = "auto";
    std::optional<std::size_t> window;  ///< bytes; the library chooses unless given

    [[nodiscard]] bool uses_demo_data() const noexcept { return q.empty(); }
};

namespace detail {

/// Checks the value of a file option: an unset shell variable must not pass for "not given".
[[nodiscard]] inline std::string require_name(const std::string& file) {
    return file.empty() ? "the name of the file is empty" : "";
}

/// Rejects `--out=` with nothing after it, for which CLI11 would take the next argument.
inline void require_values(int argc, char** argv) {
    for (int i = 1; i < argc; ++i)
        if (const std::string_view word = argv[i]; word.starts_with("--") && word.find('=') == word.size() - 1)
            throw CLI::ValidationError(std::string(word.substr(0, word.size() - 1)), "there is no value after the =");
}

inline void describe(CLI::App& app, options& chosen, std::optional<int> ranks) {
    auto* q = app.add_option("--q", chosen.q, "queries: .npy, [T, D], [H, T, D] or [B, H, T, D]");
    auto* k = app.add_option("--k", chosen.k, "keys, with the D of the queries; T may differ");
    auto* v = app.add_option("--v", chosen.v, "values, with the T of the keys; D may differ");
    q->needs(k)->needs(v)->check(require_name);
    k->needs(q)->needs(v)->check(require_name);
    v->needs(q)->needs(k)->check(require_name);
    app.add_option("--out", chosen.out, "where to write the result, in the element type of the queries")
        ->check(require_name);
    if (ranks) chosen.ranks = *ranks;
    app.add_option("--ranks", chosen.ranks,
                   ranks ? "how many ranks share the keys and values: as many as mpirun has started"
                         : "how many ranks (threads) share the keys and values")
        ->check(ranks ? CLI::Range(*ranks, *ranks) : CLI::Range(1, 1024))
        ->capture_default_str();
    auto* causal = app.add_flag("--causal", chosen.causal, "a query sees no keys after its own position");
    app.add_option("--causal-from", chosen.causal_from,
                   "which corner the causal mask starts from. bottom-right: query i sees keys\n"
                   "j <= i + T(keys) - T(queries), and one that sees none gives 0; top-left: keys j <= i")
        ->check(CLI::IsMember({"bottom-right", "top-left"}))
        ->needs(causal)
        ->capture_default_str();
    app.add_option("--scale", chosen.scale, "factor of the scores [1/sqrt(D)]");
    app.add_option("--algorithm", chosen.algorithm, "schedule of the merge")
        ->check(CLI::IsMember({"auto", "recursive_doubling", "ring", "recursive_halving", "mirrored_doubling", "direct",
                               "all_read", "flat_tree"}))
        ->capture_default_str();
    // CLI11 takes numbers beyond an int64 for the largest one: that must be out of range.
    app.add_option("--window", chosen.window, "cut the merge into windows of this many bytes")
        ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 62));
    app.add_option("--trace", chosen.trace,
                   ranks ? "where to write a time line of rank 0 for ui.perfetto.dev"
                         : "where to write a time line for ui.perfetto.dev")
        ->check(require_name);
    app.add_option("--plot", chosen.plot,
                   ranks ? "where to write a picture (SVG) of what rank 0 sent and received, and when"
                         : "where to write a picture (SVG) of who sent what to whom, and when")
        ->check(require_name);
    app.add_flag("--no-check", chosen.unchecked, "do not compare the result with attention in float64");
}

}  // namespace detail

/// A command line that cannot be understood.
class bad_command_line : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// Reads the command line; returns nothing if it asks for help. `ranks`: how many ranks exist already.
[[nodiscard]] inline std::optional<options> parse(int argc, char** argv, std::optional<int> ranks = {}) {
    options chosen;
    CLI::App app(
        "Exact attention with the keys and values split over ranks, merged by one all_reduce with online softmax.\n"
        "Without --q, --k and --v it runs on the data set that comes with it, and compares with NumPy's result.");
    detail::describe(app, chosen, ranks);
    try {
        detail::require_values(argc, argv);
        app.parse(argc, argv);
        if (chosen.scale && !std::isfinite(*chosen.scale)) throw CLI::ValidationError("--scale", "must be finite");
    } catch (const CLI::CallForHelp&) {
        files::print(app.help());
        return std::nullopt;
    } catch (const CLI::ParseError& error) {
        throw bad_command_line(error.what());
    }
    return chosen;
}

}  // namespace attention
