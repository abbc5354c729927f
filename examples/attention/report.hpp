// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <cstddef>
#include <iomanip>
#include <ios>
#include <optional>
#include <ostream>
#include <sstream>
#include <string>

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

/// The figures of one run. Times of phases are those of the slowest rank.
struct report {
    std::string problem;  ///< shapes, element type, ranks

    std::string schedule, why;
    int rounds = 0;
    std::size_t bytes_sent = 0;   ///< by the busiest rank
    std::size_t state_bytes = 0;  ///< of what every rank contributes

    seconds read{}, local{}, merge{}, normalise{};
    std::optional<seconds> write;

    seconds one_merge{}, three_collectives{};  ///< medians
    int repetitions = 0;

    double from_reference = 0;
    std::optional<double> from_numpy;
    double allowed = 0;

    [[nodiscard]] bool good() const noexcept {
        return from_reference <= allowed && (!from_numpy || *from_numpy <= allowed);
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

}  // namespace detail

inline void print(std::ostream& out, const report& r) {
    using detail::in_words;
    using detail::scientific;
    const detail::table table(out);

    out << r.problem << '\n' << "merged by " << r.schedule << ": " << r.why << '\n';

    table.title("the merge");
    table.row("rounds", std::to_string(r.rounds));
    table.row("state of each rank", in_words(r.state_bytes));
    table.row("sent by the busiest rank", in_words(r.bytes_sent));

    table.title("time of each phase, slowest rank");
    table.row("read", in_words(r.read));
    table.row("local attention", in_words(r.local));
    table.row("merge", in_words(r.merge), "the first one, cold");
    table.row("normalise", in_words(r.normalise));
    if (r.write) table.row("write", in_words(*r.write));

    table.title("the merge again, median of " + std::to_string(r.repetitions) + " by turns");
    table.row("one all_reduce, online softmax", in_words(r.one_merge));
    table.row("three: max m, sum l, sum s", in_words(r.three_collectives),
              detail::rounded(r.three_collectives / r.one_merge, 2) + " times as long");

    table.title("largest deviation, " + scientific(r.allowed) + " allowed");
    table.row("from one rank in float64", scientific(r.from_reference));
    if (r.from_numpy) table.row("from NumPy", scientific(*r.from_numpy));
    if (!r.good()) out << "\nThe result deviates by more than rounding explains.\n";
}

}  // namespace attention
