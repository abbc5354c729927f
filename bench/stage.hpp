// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "bench/measure.hpp"
#include "bench/workload.hpp"

/// @file
/// What the programs for threads and for processes have in common: arguments, measurements, output.

namespace bench {

inline constexpr std::size_t messages_in_flight = 64;

/// What can be measured.
struct row {
    std::string_view name;
    std::size_t element;  ///< bytes; 0 where there is no operand
    std::string_view type, fold;
    bool in_blocks = false;     ///< every rank has an equal block of the operand, before or after
    bool with_barrier = false;  ///< timed with a barrier, since ranks do not all wait for each other

    [[nodiscard]] bool is_in_pairs() const { return name == "ping_pong" || name == "message_rate"; }
    /// Whether every rank has a block of the operand, with an element at least. Where blocks are uneven, the bound has
    /// equal ones.
    [[nodiscard]] bool is_cut() const { return in_blocks || name.ends_with("_uneven"); }
};
inline constexpr std::array rows{
    row{"all_reduce", 4, "float", "sum"},
    row{"merge", sizeof(merge_of_states::element), "state", "merge"},
    row{"product", sizeof(product_of_matrices::element), "2x2", "prod"},
    row{"all_gather", 4, "float", "none", true},
    row{"reduce_scatter", 4, "float", "sum", true},
    row{"reduce_scatter_bf16", 2, "bf16", "sum", true},
    row{"broadcast", 4, "float", "none", false, true},
    row{"scatter", 4, "float", "none", true, true},
    row{"gather", 4, "float", "none", true, true},
    row{"all_to_all", 4, "float", "none", true},
    row{"all_to_all_by_sizes", 4, "float", "none"},
    row{"all_gather_uneven", 4, "float", "none"},
    row{"reduce_scatter_uneven", 4, "float", "sum"},
    row{"all_gather_axis", 4 * rows_of_matrix, "float", "none", true},
    row{"permute", 4, "float", "none"},
    row{"reduce", 4, "float", "sum", false, true},
    row{"inclusive_scan", 4, "float", "sum", false, true},
    row{"exclusive_scan", 4, "float", "sum", false, true},
    row{"scan", sizeof(product_of_matrices::element), "2x2", "prod", false, true},
    row{"distributed_scan", 4, "float", "sum", false, true},
    row{"images", 4 * images_of_rank, "4 float", "sum"},
    row{"team", 4, "float", "sum"},
    row{"start", 4, "float", "sum"},
    row{"in_flight", 4, "float", "sum"},
    row{"persistent", 4, "float", "sum"},
    row{"list", 4 * tensors_of_list, "8 float", "sum"},
    row{"reduce_scatter_list", 4 * tensors_of_list, "8 float", "sum", true},
    row{"all_gather_list", 4 * tensors_of_list, "8 float", "none", true},
    row{"together", 4 * 3, "3 float", "sum", true},
    row{"barrier", 0, "none", "none"},
    row{"ping_pong", 4, "float", "none"},
    row{"message_rate", 4, "float", "none"},
    row{"halo", 4 * faces_of_a_cube, "6 float", "none"},
};

/// What is measured at one time: the contestants of one row of the table, at one size of the operand.
struct cell {
    row of;
    int ranks;
    std::size_t bytes;
    bool ours_alone = false;

    [[nodiscard]] std::size_t blocks() const { return of.in_blocks ? static_cast<std::size_t>(ranks) : 1; }
    [[nodiscard]] std::size_t input_bytes() const {
        return of.name == "gather" || of.name.starts_with("all_gather") ? bytes / blocks() : bytes;
    }
    [[nodiscard]] std::size_t output_bytes() const {
        if (of.name == "images") return bytes / images_of_rank;
        return of.name == "scatter" || of.name.starts_with("reduce_scatter") ? bytes / blocks() : bytes;
    }
    /// Whether the operand that a rank starts with is in the output buffer.
    [[nodiscard]] bool is_in_place(int rank) const { return of.name == "broadcast" && rank == 0; }
    /// How many ranks' inputs are folded in a rank's output; if it is the input of one rank, that rank's number plus 1.
    [[nodiscard]] int folded(int rank) const {
        if (of.name == "broadcast") return 1;
        if (of.name == "permute") return (rank + ranks - 1) % ranks + 1;
        if (of.is_in_pairs()) return (rank ^ 1) + 1;
        if (of.name == "reduce" || of.name == "gather") return rank == 0 ? ranks : 0;
        if (of.name == "exclusive_scan") return rank;
        return of.name == "inclusive_scan" || of.name == "scan" ? rank + 1 : ranks;
    }
};

inline constexpr std::size_t operations_in_flight = 16;

/// Throws `std::invalid_argument` for anything but a number from `least` to `most`.
[[nodiscard]] inline std::size_t number_of(std::string_view text, std::size_t least, std::size_t most) {
    std::size_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || end != text.data() + text.size() || number < least || number > most)
        throw std::invalid_argument("'" + std::string(text) + "' is not a number from " + std::to_string(least) +
                                    " to " + std::to_string(most));
    return number;
}

/// Throws `std::invalid_argument` if a size is not a whole number of elements, in each block.
[[nodiscard]] inline cell cell_of(const row& of, int ranks, std::string_view size) {
    cell what{of, ranks, number_of(size, of.element, of.element == 0 ? 0 : std::size_t{1} << 40)};
    const std::size_t unit = of.element * (of.is_cut() ? static_cast<std::size_t>(ranks) : 1);
    if (unit != 0 && (what.bytes < unit || what.bytes % unit != 0))
        throw std::invalid_argument(std::string(of.name) + ": " + std::string(size) + " bytes are not a multiple of " +
                                    std::to_string(unit));
    if (of.is_in_pairs() && ranks % 2 != 0)
        throw std::invalid_argument(std::string(of.name) + ": needs an even number of ranks");
    return what;
}

/// The cells given by the arguments RANKS ROW:BYTES,BYTES,... ...; `has_row` tells which rows the program has.
[[nodiscard]] inline std::vector<cell> cells_of(std::span<char* const> arguments, auto has_row) {
    std::vector<cell> cells;
    if (arguments.size() < 2) throw std::invalid_argument("missing arguments: RANKS ROW:BYTES,BYTES,...");
    const int ranks = static_cast<int>(number_of(arguments[0], 1, max_ranks));
    for (const std::string_view argument : arguments.subspan(1)) {
        const std::string_view name = argument.substr(0, argument.find(':'));
        const auto* const of = std::ranges::find(rows, name, &row::name);
        if (of == rows.end() || !has_row(name)) throw std::invalid_argument("there is no row " + std::string(name));
        std::istringstream sizes{std::string(argument.substr(std::min(argument.size(), name.size() + 1)))};
        if (sizes.peek() == EOF) throw std::invalid_argument(std::string(name) + ": sizes are missing");
        for (std::string bytes; std::getline(sizes, bytes, ',');) cells.push_back(cell_of(*of, ranks, bytes));
    }
    return cells;
}

struct result {
    std::string contestant;
    summary time;
};

/// Prints a line for each contestant; the driver knows the columns.
inline void print(const cell& what, const std::string& placement, const std::vector<result>& results) {
    for (const auto& [contestant, time] : results)
        std::printf("%s;%s;%d;%zu;%s;%.5f;%.5f;%.5f;%d\n", std::string(what.of.name).c_str(), contestant.c_str(),
                    what.ranks, what.bytes, placement.c_str(), time.median * 1e6, time.low * 1e6, time.high * 1e6,
                    time.samples);
    std::fflush(stdout);
}

/// One rank as it measures the contestants of a cell, one after the other, with the same two buffers.
template <class Group>
class stage {
  public:
    stage(Group& ranks, const cell& measured)
        : group(ranks), what(measured), input(what.input_bytes(), 1), output(what.output_bytes(), 18) {}

    template <class Workload, class Call>
    void measure(const std::string& contestant, Call call) {
        if (what.ours_alone && contestant != "ours") return;
        const buffer& written = what.is_in_place(group.rank()) ? output : input;
        output.clear();
        fill<Workload>(written);
        const summary time = bench::measure(group, [&] {
            use<typename Workload::scalar>(written, output);
            call();
        });
        const bool right = is_right<Workload>();
        const bool answers = answers_each_call<Workload>(call);
        if (group.max(right && answers ? 0 : 1) > 0)
            throw std::runtime_error(std::string(what.of.name) + ": the result of " + contestant + " is wrong");
        results.push_back({contestant, time});
    }

    /// `call(inputs, outputs)` is several operations at once, each of the size of the cell; a sample is the time of
    /// one.
    template <class Workload, std::size_t Count = operations_in_flight, class Call>
    void measure_in_flight(const std::string& contestant, Call call) {
        using element = typename Workload::element;
        cell all = what;
        all.bytes *= Count;
        stage many(group, all);
        std::array<std::span<const element>, Count> inputs;
        std::array<std::span<element>, Count> outputs;
        for (std::size_t i = 0, n = what.bytes / sizeof(element); i < Count; ++i) {
            inputs[i] = many.input.template all<element>().subspan(i * n, n);
            outputs[i] = many.output.template all<element>().subspan(i * n, n);
        }
        many.template measure<Workload>(contestant, [&] { call(inputs, outputs); });
        for (auto& [name, time] : many.results) {
            constexpr double calls = Count;
            results.push_back({name, {time.median / calls, time.low / calls, time.high / calls, time.samples}});
        }
    }

    Group& group;
    const cell what;
    const buffer input;
    const buffer output;
    std::vector<result> results;

  private:
    template <class Workload>
    void fill(const buffer& memory) const {
        if constexpr (requires { Workload::fill(memory, 0, 1); })
            Workload::fill(memory, group.rank(), group.size());
        else
            Workload::fill(memory, group.rank());
    }
    template <class Workload>
    [[nodiscard]] bool is_right() const {
        if constexpr (requires { Workload::right(output, 0, 1); })
            return Workload::right(output, group.rank(), group.size());
        else
            return Workload::right(output, what.folded(group.rank()));
    }
    /// Timed calls repeat themselves, and would give right results even if nobody waited for anybody. Here each input
    /// is new: what earlier calls left behind is zero, some ranks arrive late, and a rank overwrites its input as soon
    /// as its call ends.
    template <class Workload, class Call>
    [[nodiscard]] bool answers_each_call(Call call) {
        const buffer& written = what.is_in_place(group.rank()) ? output : input;
        bool right = true;
        for (const int late : {0, 1}) {
            written.clear();
            for (std::size_t i = 0; i < calls_that_leave_traces(); ++i) call();
            output.clear();
            fill<Workload>(written);
            group.barrier();
            if (group.rank() % 2 == late) std::this_thread::sleep_for(std::chrono::microseconds(200));
            call();
            if (&written == &input) overwrite(input);
            right = is_right<Workload>() && right;
        }
        return right;
    }
    /// From the end, which others read last.
    static void overwrite(const buffer& memory) {
        const auto x = memory.template all<float>();
        std::fill(x.rbegin(), x.rend(), 0.0f);
    }
    /// As many calls as there are cells or slots that alternate. Longer operands have none.
    [[nodiscard]] std::size_t calls_that_leave_traces() const {
        return what.bytes > 8 << 20 ? 0
                                    : std::clamp<std::size_t>((1 << 20) / std::max<std::size_t>(what.bytes, 1), 2, 64);
    }
};

}  // namespace bench
