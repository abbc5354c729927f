// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>

/// @file
/// The command line.

namespace attention {

/// Exit statuses: 0, `failed` for a result or a run that went wrong, `bad_input` for files and command lines.
inline constexpr int failed = 1;
inline constexpr int bad_input = 2;

struct options {
    std::string q, k, v;  ///< empty: the data set that comes with the program
    std::string out;      ///< empty: the result is checked but not written
    std::string trace;    ///< empty: no trace
    int ranks = 4;
    bool causal = false;
    std::optional<double> scale;  ///< 1/sqrt(depth) unless given
    std::string algorithm = "auto";
    std::optional<std::size_t> window;  ///< bytes; the library chooses unless given

    [[nodiscard]] bool uses_demo_data() const noexcept { return q.empty(); }
};

namespace detail {

inline void describe(CLI::App& app, options& chosen, std::optional<int> ranks) {
    auto* q = app.add_option("--q", chosen.q, "queries: .npy, [T, D], [H, T, D] or [B, H, T, D]");
    auto* k = app.add_option("--k", chosen.k, "keys, with the D of the queries; T may differ");
    auto* v = app.add_option("--v", chosen.v, "values, with the T of the keys; D may differ");
    q->needs(k)->needs(v);
    k->needs(q)->needs(v);
    v->needs(q)->needs(k);
    app.add_option("--out", chosen.out, "where to write the result, in the element type of the queries");
    if (ranks) chosen.ranks = *ranks;
    app.add_option("--ranks", chosen.ranks,
                   ranks ? "how many ranks share the keys and values: as many as mpirun has started"
                         : "how many ranks (threads) share the keys and values")
        ->check(ranks ? CLI::Range(*ranks, *ranks) : CLI::Range(1, 1024))
        ->capture_default_str();
    app.add_flag("--causal", chosen.causal,
                 "query i sees keys j <= i + T(keys) - T(queries); one that sees none gives 0");
    app.add_option("--scale", chosen.scale, "factor of the scores [1/sqrt(D)]");
    app.add_option("--algorithm", chosen.algorithm, "schedule of the merge")
        ->check(CLI::IsMember({"auto", "recursive_doubling", "ring", "recursive_halving", "mirrored_doubling", "direct",
                               "all_read", "flat_tree"}))
        ->capture_default_str();
    app.add_option("--window", chosen.window, "cut the merge into windows of that many bytes")
        ->check(CLI::Range(std::int64_t{1}, std::numeric_limits<std::int64_t>::max()));
    app.add_option("--trace", chosen.trace,
                   ranks ? "where to write a time line of rank 0 for ui.perfetto.dev"
                         : "where to write a time line for ui.perfetto.dev");
}

}  // namespace detail

/// A command line that cannot be understood.
class bad_command_line : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// Reads the command line; nothing is left to do where it asks for help. `ranks`: how many there are already.
[[nodiscard]] inline std::optional<options> parse(int argc, char** argv, std::optional<int> ranks = {}) {
    options chosen;
    CLI::App app(
        "Exact attention with the keys and values split over ranks, merged by one all_reduce with online softmax.\n"
        "Without --q, --k and --v it runs on the data set that comes with it, and compares with NumPy's result.");
    detail::describe(app, chosen, ranks);
    try {
        app.parse(argc, argv);
        if (chosen.scale && !std::isfinite(*chosen.scale)) throw CLI::ValidationError("--scale", "must be finite");
    } catch (const CLI::Success& help) {
        app.exit(help);
        return std::nullopt;
    } catch (const CLI::ParseError& error) {
        throw bad_command_line(error.what());
    }
    return chosen;
}

}  // namespace attention
