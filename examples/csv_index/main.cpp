// SPDX-License-Identifier: BSL-1.0

/// @file
/// Finds the records of a large CSV file in parallel, and compares the speed with that of a parser that reads from the
/// beginning to the end.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <unistd.h>
#include <vector>

#include "examples/common/command_line.hpp"
#include "examples/common/files.hpp"
#include "examples/common/words.hpp"
#include "examples/csv_index/index.hpp"
#include "examples/csv_index/text.hpp"
#include <allfold/transport/thread.hpp>

namespace examples {
namespace {

struct request {
    std::string file;
    std::optional<std::size_t> made, record;
    int ranks = static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1u, 256u)), stretches = 4, turns = 7;
    bool check = false;
};

using seconds = std::chrono::duration<double>;

struct timing {
    std::vector<seconds> sequential{}, parallel{};
};

template <class Work>
[[nodiscard]] seconds time_of(Work work) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    return std::chrono::steady_clock::now() - begin;
}

/// Alternates between the two methods. The first turn does not count, and is the only one if nothing is to be measured.
template <std::size_t N>
[[nodiscard]] timing measure(std::string_view text, const request& asked, file_index& parallel, file_index& alone) {
    timing times;
    allfold::run(asked.ranks, [&](auto& comm) {
        stretches_of_rank<N> stretches;
        for (int turn = 0; turn <= (asked.check || asked.record ? 0 : asked.turns); ++turn) {
            seconds sequential{};
            if (comm.rank() == 0) sequential = time_of([&] { make_index(text, alone); });
            allfold::barrier(comm);
            const seconds together = time_of([&] { make_index(comm, text, parallel, stretches); });
            if (comm.rank() != 0 || turn == 0) continue;
            times.sequential.push_back(sequential);
            times.parallel.push_back(together);
        }
    });
    return times;
}

[[nodiscard]] timing measure(std::string_view text, const request& asked, file_index& parallel, file_index& alone) {
    switch (asked.stretches) {
        case 1: return measure<1>(text, asked, parallel, alone);
        case 2: return measure<2>(text, asked, parallel, alone);
        case 4: return measure<4>(text, asked, parallel, alone);
        default: throw bad_command_line("--stretches: 1, 2 or 4, not " + std::to_string(asked.stretches));
    }
}

// --- The output.

struct spread {
    double low, median, high;
};

[[nodiscard]] spread spread_of(std::vector<double> values) {
    std::ranges::sort(values);
    return {values.front(), values[values.size() / 2], values.back()};
}

template <class Value>
[[nodiscard]] spread over_turns(const timing& times, Value value) {
    std::vector<double> values;
    for (std::size_t i = 0; i < times.parallel.size(); ++i)
        values.push_back(value(times.sequential[i].count(), times.parallel[i].count()));
    return spread_of(values);
}

[[nodiscard]] std::string line_of(const std::string& what, const char* format, const spread& figures) {
    char text[160];
    std::snprintf(text, sizeof text, format, what.c_str(), figures.median, figures.low, figures.high);
    return text;
}

[[nodiscard]] std::string describe(const request& asked, const file_index& index, std::string_view text) {
    std::size_t longest = 0;
    for (std::size_t i = 1; i < index.records(); ++i)
        if (index.starts[i + 1] - index.starts[i] > index.starts[longest + 1] - index.starts[longest]) longest = i;
    return (asked.file.empty() ? "a generated file" : asked.file) + ": " + counted(text.size(), "byte") + ", " +
           counted(index.records(), "record") + ", the longest is number " + std::to_string(longest + 1) + " with " +
           counted(index.starts[longest + 1] - index.starts[longest], "byte") + "\n";
}

[[nodiscard]] std::string describe(const request& asked, const timing& times, std::string_view text) {
    const double megabytes = static_cast<double>(text.size()) / 1e6;
    const std::string parallel =
        "on " + counted(asked.ranks, "rank") + ", " + counted(asked.stretches, "part") + " at a time each";
    const char* const speed = "  %-32s %8.0f MB/s  (%.0f to %.0f)\n";
    return line_of("sequentially", speed, over_turns(times, [&](double s, double) { return megabytes / s; })) +
           line_of(parallel, speed, over_turns(times, [&](double, double p) { return megabytes / p; })) +
           line_of("ratio of " + counted(times.parallel.size(), "turn"), "  %-32s %8.2f       (%.2f to %.2f)\n",
                   over_turns(times, [](double s, double p) { return s / p; }));
}

void require_closed(const std::string& name, const file_index& index) {
    if (index.is_closed) return;
    const std::size_t last = index.records();
    throw files::file_error(name, "record " + std::to_string(last) + ", which begins at byte " +
                                      std::to_string(index.starts[last - 1]) + ", has a quote that is never closed");
}

[[nodiscard]] std::string record_of(const request& asked, const file_index& index, std::string_view text) {
    if (*asked.record > index.records())
        throw bad_command_line("--record: there are " + counted(index.records(), "record"));
    const std::size_t begin = index.starts[*asked.record - 1];
    return std::string(text.substr(begin, index.starts[*asked.record] - begin));
}

[[nodiscard]] int index_file(const std::string& name, const request& asked) {
    const mapped_file file(name);
    const std::string_view text = file.text();
    if (text.size() == first_byte(text)) throw files::file_error(name, "is empty");
    file_index parallel, alone;
    const timing times = measure(text, asked, parallel, alone);
    if (parallel != alone) throw std::runtime_error("the two methods differ: this is a bug");
    require_closed(name, parallel);
    if (asked.record) {
        files::print(record_of(asked, parallel, text));
        return 0;
    }
    files::print(describe(asked, parallel, text) + (asked.check ? "" : describe(asked, times, text)) +
                 "  both methods find the same records\n");
    return 0;
}

// --- The command line.

/// A temporary file, which exists as long as this object.
class temporary_file {
  public:
    explicit temporary_file(std::size_t bytes)
        : name_(std::filesystem::temp_directory_path() / ("csv_index-" + std::to_string(::getpid()) + ".csv")) {
        files::write(name_, {make_text(bytes)});
    }
    temporary_file(const temporary_file&) = delete;
    temporary_file& operator=(const temporary_file&) = delete;
    ~temporary_file() { ::unlink(name_.c_str()); }
    [[nodiscard]] std::string name() const { return name_.string(); }

  private:
    std::filesystem::path name_;
};

[[nodiscard]] int run(int argc, char** argv) {
    request asked;
    command_line line("csv_index",
                      "Finds the records of a CSV file (RFC 4180) on several threads: an exclusive scan over what each "
                      "part of\nthe file does to the state of a parser tells every rank in which state it begins.");
    line.word(asked.file, "FILE",
              "a file, or where --make writes one; without it a file is generated, and removed afterwards");
    line.number(asked.made, "--make", "BYTES", 1, std::size_t{16} << 30, "generate a file of this size [64M]");
    line.number(asked.ranks, "--ranks", "P", 1, 256, "how many threads share the file");
    line.number(asked.stretches, "--stretches", "N", 1, 4, "how many parts a rank reads at a time: 1, 2 or 4");
    line.number(asked.turns, "--turns", "N", 1, 1000, "number of measurements");
    line.flag(asked.check, "--check", "compare with the sequential parser, and measure nothing");
    line.number(asked.record, "--record", "N", 1, std::size_t{1} << 50, "print that record, counted from 1");
    if (!line.read(argc, argv)) return 0;
    if (asked.file.empty()) return index_file(temporary_file(asked.made.value_or(std::size_t{64} << 20)).name(), asked);
    if (asked.made && std::filesystem::exists(asked.file))
        throw bad_command_line("--make: " + asked.file + " already exists");
    if (asked.made) files::write(asked.file, {make_text(*asked.made)});
    return index_file(asked.file, asked);
}

}  // namespace
}  // namespace examples

int main(int argc, char** argv) {
    return examples::guarded("csv_index", [&] { return examples::run(argc, argv); });
}
