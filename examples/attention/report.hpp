// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <iomanip>
#include <ios>
#include <optional>
#include <ostream>
#include <sstream>
#include <string>

#include "examples/attention/reference.hpp"

/// @file
/// What the program measures, and the table that it prints.

namespace attention {

using seconds = std::chrono::duration<double>;

/// Runs `work` and returns how long it took.
template <class Work>
[[nodiscard]] seconds time_of(Work work) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    return std::chrono::steady_clock::now() - begin;
}

/// The ranks on one machine and the cores that they share; 0: unknown.
struct cpu_load {
    int ranks = 1;
    int processors = 0;

    [[nodiscard]] bool is_oversubscribed() const noexcept { return processors != 0 && ranks > processors; }
};

/// The figures of one run. Times of phases are those of the slowest rank.
struct report {
    std::string problem;  ///< shapes, element type, ranks
    sizes size;
    int ranks = 1;
    cpu_load around;

    std::string schedule, why;
    int rounds = 0;
    std::size_t bytes_sent = 0;   ///< by the busiest rank
    std::size_t state_bytes = 0;  ///< of the contribution of each rank

    seconds start{};  ///< of the program, and of MPI
    seconds read{}, share{}, ranks_start{}, local{}, merge{}, normalise{}, gather{}, check{}, repeats{};
    std::optional<seconds> write, numpy;
    seconds total{};  ///< since the program began

    seconds one_merge{}, three_collectives{};  ///< medians
    int repetitions = 0;

    std::optional<finding> from_reference, from_numpy;

    [[nodiscard]] bool good() const noexcept {
        const auto agrees = [](const auto& found) { return !found || found->good(); };
        return agrees(from_reference) && agrees(from_numpy);
    }
};

namespace detail {

[[nodiscard]] inline std::string rounded(double value, int digits) {
    std::ostringstream text;
    text << std::fixed << std::setprecision(digits) << value;
    return text.str();
}

[[nodiscard]] inline std::string in_words(seconds time) {
    if (time < std::chrono::milliseconds(1)) return rounded(time.count() * 1e6, 1) + " us";
    if (time < std::chrono::seconds(1)) return rounded(time.count() * 1e3, 2) + " ms";
    return rounded(time.count(), 2) + " s";
}

[[nodiscard]] inline std::string in_words(std::size_t bytes) {
    if (bytes < 1024) return std::to_string(bytes) + " B";
    const double kib = static_cast<double>(bytes) / 1024;
    return kib < 1024 ? rounded(kib, 1) + " KiB" : rounded(kib / 1024, 1) + " MiB";
}

[[nodiscard]] inline std::string scientific(double value) {
    std::ostringstream text;
    text << std::scientific << std::setprecision(1) << value;
    return text.str();
}

[[nodiscard]] inline std::string general(double value) {
    if (std::isnan(value)) return "nan";  // of either sign
    std::ostringstream text;
    text << std::setprecision(6) << value;
    return text.str();
}

/// A percentage with as many digits as matter.
[[nodiscard]] inline std::string percent(double share) {
    std::ostringstream text;
    text << std::setprecision(2) << 100 * share;
    return text.str() + " %";
}

/// Lines of two columns, the second one right-aligned.
class table {
  public:
    explicit table(std::ostream& out) : out_(out) {}
    void title(const std::string& text) const { out_ << '\n' << text << '\n'; }
    void row(const std::string& name, const std::string& figure, const std::string& remark = {}) const {
        out_ << "  " << std::left << std::setw(34) << name << std::right << std::setw(12) << figure;
        out_ << (remark.empty() ? "" : "   ") << remark << '\n';
    }

  private:
    std::ostream& out_;
};

inline void print_merge(const table& table, const report& r) {
    table.title("the merge");
    table.row("rounds", std::to_string(r.rounds));
    table.row("state of each rank", in_words(r.state_bytes));
    table.row("sent by the busiest rank", in_words(r.bytes_sent));
}

/// Rows that add up to the time that the program took.
inline void print_times(const table& table, const report& r) {
    const std::string all = std::to_string(r.repetitions) + " of each kind";
    seconds rest = r.total;
    const auto row = [&](const char* name, std::optional<seconds> time, const std::string& remark = {}) {
        if (!time) return;
        rest -= *time;
        table.row(name, in_words(*time), remark);
    };
    const auto among_ranks = [&](seconds time) { return r.ranks > 1 ? std::optional(time) : std::nullopt; };
    const auto if_any = [](seconds time) { return time > seconds{} ? std::optional(time) : std::nullopt; };

    table.title(r.ranks > 1 ? "time of each phase, slowest rank" : "time of each phase");
    row("start", r.start);
    row("read", r.read);
    row("share", if_any(r.share), "the problem with all processes");
    row("start of the ranks", among_ranks(r.ranks_start));
    row("local attention", r.local);
    row("merge", among_ranks(r.merge), "the first one, cold");
    row("normalise", r.normalise);
    row("gather", among_ranks(r.gather), "the result, to all ranks");
    if (r.from_reference) row("float64 reference", r.check, "the check below; --no-check leaves it out");
    row("merges for the medians below", among_ranks(r.repeats), all);
    row("write", r.write);
    row("comparison with NumPy", r.numpy);
    table.row("the rest", in_words(std::max(rest, seconds{})), "between the phases");
    table.row("total", in_words(r.total), "since the program began");
}

inline void print_medians(const table& table, const report& r) {
    table.title("the merge again, median of " + std::to_string(r.repetitions) + ", interleaved");
    table.row("one all_reduce, online softmax", in_words(r.one_merge));
    table.row("three: max m, sum l, sum s", in_words(r.three_collectives),
              detail::rounded(r.three_collectives / r.one_merge, 2) + " times as long");
}

/// The largest share that any element has used of what it is allowed.
[[nodiscard]] inline std::string share_in_words(const finding& found) {
    if (std::isinf(found.share)) return "not finite where it should be, or the other way round";
    if (!found.good()) return scientific(found.share) + " times what rounding allows for its row";
    return "at most " + percent(found.share) + " of what rounding allows for its row";
}

inline void print_deviation(const table& table, const char* from, const finding& found) {
    table.row(from, scientific(found.deviation), share_in_words(found));
}

/// Which element is wrong, and in which row.
inline void print_worst(std::ostream& out, const report& r, const finding& found) {
    const std::size_t row = found.element / r.size.value_depth;
    out << "element " << found.element % r.size.value_depth << " of query " << row % r.size.queries << ", head "
        << row / r.size.queries << ", is " << general(found.found) << "; " << general(found.expected) << " +- "
        << scientific(found.allowed) << " is expected\n";
}

}  // namespace detail

inline void print(std::ostream& out, const report& r) {
    const detail::table table(out);
    out << r.problem << '\n';
    if (r.around.is_oversubscribed())
        out << r.around.ranks << " ranks take turns on " << r.around.processors
            << (r.around.processors == 1 ? " core" : " cores")
            << ": times are not those of a machine with one core per rank\n";
    if (r.ranks == 1)
        out << "one rank: there is nothing to merge\n";
    else
        out << "merged by " << r.schedule << ": " << r.why << '\n';

    if (r.ranks > 1) detail::print_merge(table, r);
    detail::print_times(table, r);
    if (r.ranks > 1) detail::print_medians(table, r);

    table.title("largest deviation");
    if (r.from_reference)
        detail::print_deviation(table, "from the float64 reference", *r.from_reference);
    else
        table.row("from the float64 reference", "not checked");
    if (r.from_numpy) detail::print_deviation(table, "from NumPy", *r.from_numpy);
    if (r.good()) return;

    out << "\nThe result deviates by more than rounding explains: ";
    detail::print_worst(out, r, r.from_reference && !r.from_reference->good() ? *r.from_reference : *r.from_numpy);
}

}  // namespace attention
