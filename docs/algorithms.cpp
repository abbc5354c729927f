// SPDX-License-Identifier: BSL-1.0

/// @file
/// Writes algorithms.md, the table of all algorithms and collectives, to the given folder, and a picture of each
/// algorithm to its subfolder `algorithms`. Everything comes from the types that the library's headers declare, and
/// from the prover; the source of an algorithm comes from the comment in its header.

#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "allfold/analysis/draw.hpp"
#include "allfold/analysis/prove.hpp"
#include "allfold/schedule/contract.hpp"
#include "allfold/schedule/step.hpp"
#include "every_algorithm.hpp"  // both generated from the library's headers: see cmake/listed_types.cmake
#include "every_collective.hpp"

namespace {

constexpr int max_ranks = 64;           // up to which algorithms are queried
constexpr int shown_ranks[]{4, 6, 16};  // the numbers of ranks whose costs are shown

/// What one algorithm does for one collective.
struct entry {
    std::string algorithm;
    std::string order;  ///< that it keeps; empty if nothing is folded
    std::string ranks;
    bool equal_blocks = false;
    bool in_levels = false;
    std::vector<std::string> costs{};  ///< one for each of shown_ranks
};

/// What one algorithm is, and its picture.
struct portrait {
    std::string algorithm;
    std::string collective;  ///< that the picture shows
    int size = 0;
    bool in_levels = false;
    std::string drawing{};
};

struct chapter {
    std::string collective;
    bool folds = false;
    std::vector<entry> entries{};
    std::vector<std::string> chosen{};  ///< in memory, by messages, in levels
};

template <class T>
std::string name_of_type() {
    const std::string_view text = __PRETTY_FUNCTION__;
    const std::string_view before = "T = allfold::";
    const std::size_t first = text.find(before) + before.size();
    return std::string(text.substr(first, text.find_first_of(";]", first) - first));
}

std::string code(const std::string& text) { return "`" + text + "`"; }

/// A link to the source and the picture of an algorithm.
std::string link(const std::string& algorithm) { return "[" + code(algorithm) + "](#" + algorithm + ")"; }

/// The rule that describes the numbers of ranks for which `exists` holds.
template <class Exists>
std::string rule_of(Exists exists) {
    struct rule {
        const char* name;
        bool (*holds)(int);
    };
    constexpr rule rules[]{{"any", [](int) { return true; }},
                           {"powers of two", [](int n) { return (n & (n - 1)) == 0; }},
                           {"even", [](int n) { return n % 2 == 0; }}};
    for (const rule& each : rules) {
        bool same = true;
        for (int n = 1; n <= max_ranks; ++n) same = same && exists(n) == each.holds(n);
        if (same) return each.name;
    }
    std::string listed;
    for (int n = 1; n <= max_ranks; ++n)
        if (exists(n)) listed += (listed.empty() ? "" : ", ") + std::to_string(n);
    return listed;
}

/// Converts a number of blocks, each 1/`blocks` of an operand, to whole operands.
std::string in_operands(long long count, int blocks) {
    char text[32];
    std::snprintf(text, sizeof text, "%.3g", static_cast<double>(count) / std::max(blocks, 1));
    return text;
}

std::string costs(const allfold::proof& p) {
    if (!p.ok()) return "";
    std::string text = std::to_string(p.rounds);
    if (p.blocks > 0) text += " · " + in_operands(p.busiest_blocks_sent, p.blocks);
    if (p.folds > 0) text += " · " + in_operands(p.busiest_folds, p.blocks);
    return text;
}

template <class Collective, class Algorithm>
entry entry_of(const Collective& collective, const Algorithm& algorithm) {
    using schedule = typename Collective::template schedule_in<Algorithm>;
    entry made{.algorithm = name_of_type<Algorithm>(),
               .order = Collective::promise.folds ? allfold::name_of(schedule::keeps) : "",
               .ranks = rule_of([](int n) { return allfold::supports<schedule>(n); }),
               .equal_blocks = allfold::needs_equal_blocks<schedule>,
               .in_levels = allfold::grouped_schedule<schedule>};
    const int group = made.in_levels ? 2 : 1;
    const int root = Collective::promise.cut == allfold::cut_for::owner ? 1 : 0;  // with root 0, no operand would move
    for (const int n : shown_ranks) made.costs.push_back(costs(allfold::prove(collective, algorithm, n, root, group)));
    return made;
}

/// The type of the algorithm whose name is `name`.
template <class... Algorithms>
std::string type_named(std::string_view name, test::algorithm_list<Algorithms...>) {
    std::string found;
    ((name == Algorithms::name ? void(found = name_of_type<Algorithms>()) : void()), ...);
    return found;
}

std::string chosen_among(std::span<const allfold::candidate> candidates) {
    std::string text;
    for (const auto& each : candidates)
        text += (text.empty() ? "" : "; else ") + code(type_named(each.schedule->name, test::every_algorithm())) +
                " (" + each.why + ")";
    return text;
}

template <class Collective, class... Algorithms>
chapter chapter_of(const Collective& collective, test::algorithm_list<Algorithms...>) {
    chapter made{.collective = Collective::promise.name,
                 .folds = Collective::promise.folds,
                 .entries = {},
                 .chosen = {chosen_among(Collective::in_memory), chosen_among(Collective::by_messages),
                            chosen_among(Collective::in_levels)}};
    const auto add = [&]<class Algorithm>(const Algorithm& algorithm) {
        if constexpr (allfold::detail::algorithm_for<Algorithm, Collective>)
            made.entries.push_back(entry_of(collective, algorithm));
    };
    (add(Algorithms()), ...);
    return made;
}

template <class... Collectives>
std::vector<chapter> chapters_of(test::collective_list<Collectives...>) {
    return {chapter_of(Collectives(), test::every_algorithm())...};
}

template <class... Algorithms>
std::vector<std::string> names_of(test::algorithm_list<Algorithms...>) {
    return {name_of_type<Algorithms>()...};
}

int width_of(const std::string& drawing) { return std::stoi(drawing.substr(drawing.find(" width='") + 8)); }

/// Draws the first of these collectives that the algorithm has and whose picture is legible: one that folds says the
/// most about it.
template <class Algorithm, class... Collectives>
portrait portrait_of(const Algorithm& algorithm, const Collectives&... collectives) {
    constexpr int page_width = 1150;  // in a wider picture, the text is too small on a page
    portrait made{.algorithm = name_of_type<Algorithm>(), .collective = ""};
    const auto draw_of = [&]<class Collective>(const Collective& collective, int size) {
        if constexpr (allfold::detail::algorithm_for<Algorithm, Collective>) {
            using schedule = typename Collective::template schedule_in<Algorithm>;
            const bool in_levels = allfold::grouped_schedule<schedule>;
            const int group = in_levels ? 2 : 1;
            if (!made.drawing.empty() || !allfold::supports<schedule>(size) || size % group != 0) return;
            std::string drawing = allfold::draw(collective, algorithm, size, 0, group);
            if (width_of(drawing) > page_width) return;
            made = {made.algorithm, Collective::promise.name, size, in_levels, std::move(drawing)};
        }
    };
    // Powers of two only if nothing else can be shown: they hide how other numbers of ranks are handled.
    ((draw_of(collectives, 6), draw_of(collectives, 5)), ...);
    ((draw_of(collectives, 8), draw_of(collectives, 4)), ...);
    if (made.drawing.empty()) throw std::runtime_error("no legible picture of " + made.algorithm);
    return made;
}

template <class... Algorithms>
std::vector<portrait> portraits_of(test::algorithm_list<Algorithms...>) {
    return {portrait_of(Algorithms(), allfold::all_reduce, allfold::reduce_scatter, allfold::inclusive_scan,
                        allfold::exclusive_scan, allfold::reduce, allfold::broadcast, allfold::all_gather,
                        allfold::gather, allfold::scatter, allfold::all_to_all, allfold::permute, allfold::barrier)...};
}

/// The text from "Source" to the end of the comment, in the header that declares the algorithm. Throws if there is
/// none.
std::string source_of(const std::string& algorithm, const std::filesystem::path& headers) {
    for (const auto& header : std::filesystem::directory_iterator(headers)) {
        std::ifstream file(header.path());
        std::string text, line;
        bool is_source = false, is_of_it = false;
        while (std::getline(file, line)) {
            const bool is_comment = line.starts_with("/// ");
            if (is_comment && line.find("Source") == 4) is_source = true;
            if (!is_comment) is_source = false;
            if (is_source) text += (text.empty() ? "" : " ") + line.substr(4);
            is_of_it = is_of_it || line == "struct " + algorithm + " {";
        }
        if (is_of_it && !text.empty()) return text;
    }
    throw std::runtime_error("no header in " + headers.string() + " says where " + algorithm +
                             " is from: /// Source: ...");
}

// --- The text.

void row(std::ostream& out, const std::vector<std::string>& cells) {
    for (const std::string& cell : cells) out << "| " << cell << (cell.empty() ? "" : " ");
    out << "|\n";
}

void head(std::ostream& out, const std::vector<std::string>& cells) {
    row(out, cells);
    for (std::size_t i = 0; i < cells.size(); ++i) out << "|---";
    out << "|\n";
}

std::string short_cell(const chapter& all, const std::string& algorithm) {
    const auto found = std::ranges::find(all.entries, algorithm, &entry::algorithm);
    if (found == all.entries.end()) return "";
    std::string cell = all.folds ? found->order : "yes";
    if (found->ranks != "any") cell += ", P: " + found->ranks;
    if (found->equal_blocks) cell += ", equal blocks";
    return cell;
}

void write_overview(std::ostream& out, const std::vector<chapter>& chapters) {
    std::vector<std::string> titles{""};
    for (const chapter& each : chapters) titles.push_back(code(each.collective));
    head(out, titles);
    for (const std::string& algorithm : names_of(test::every_algorithm())) {
        std::vector<std::string> cells{link(algorithm)};
        for (const chapter& each : chapters) cells.push_back(short_cell(each, algorithm));
        row(out, cells);
    }
}

void write_chapter(std::ostream& out, const chapter& all) {
    out << "\n## " << all.collective << "\n\n";
    std::vector<std::string> titles{"algorithm", "P", "order", "blocks", "threads in processes"};
    for (const int n : shown_ranks) titles.push_back("cost at P = " + std::to_string(n));
    head(out, titles);
    for (const entry& each : all.entries) {
        std::vector<std::string> cells{link(each.algorithm), each.ranks, all.folds ? each.order : "-",
                                       each.equal_blocks ? "equal" : "any", each.in_levels ? "yes" : "no"};
        cells.insert(cells.end(), each.costs.begin(), each.costs.end());
        row(out, cells);
    }
    out << "\nChosen if the call names none:\n";
    const char* where[]{"shared memory", "messages", "threads in processes"};
    for (std::size_t i = 0; i < all.chosen.size(); ++i) out << "- " << where[i] << ": " << all.chosen[i] << "\n";
}

/// The source of an algorithm, and its picture.
void write_portrait(std::ostream& out, const portrait& all, const std::string& source) {
    out << "\n### " << all.algorithm << "\n\n" << source << "\n\n";
    out << "![" << all.algorithm << ", " << all.collective << " of " << all.size << " ranks"
        << (all.in_levels ? " in groups of 2" : "") << "](algorithms/" << all.algorithm << ".svg)\n";
}

constexpr const char* introduction = R"(# Algorithms and collectives

Generated from the code by `./dev docs`: do not edit.

This table shows which algorithm can perform which collective, as in `all_reduce(comm, x, op, ring{})`, and the
strongest order that it keeps: `any` needs a commutative operator, `rank` folds in rank order, `tree` gives the same
bits for every schedule, position and size. An algorithm that keeps one order also keeps the weaker ones. "yes": nothing
is folded, so there is no order. Empty: the algorithm does not perform this collective, and a call that names it does
not compile. P is the number of ranks, any unless the cell says otherwise; blocks may be uneven unless it says "equal
blocks". To choose an algorithm when the program runs, by name or by any other rule, use `any_algorithm`.

)";

constexpr const char* explanation = R"(
The tables below say more about each collective. "Threads in processes": whether the algorithm runs on two levels, with
several ranks (threads) per process; calls on such ranks can name no other. A `permute` that names none, and an
`all_to_all` with blocks of different lengths, go from thread to thread there, as over messages. The last columns are
costs, as the prover counts them: rounds · what the busiest rank sends · what the busiest rank folds, in operands. One
operand is all that a rank contributes or gets, whichever is more. What ranks with shared memory read from each other
counts as sent. Two-level costs are for two threads per process.
)";

constexpr const char* portraits_introduction = R"(
## Where they are from, and how they look

Ranks run from top to bottom, rounds from left to right. An arrow is a message, in the colour of its sender. If data is
cut into blocks, "b2" before the arrow says which block it carries. The text after the arrow says what its receiver
makes of it: the ranks whose operands the result contains, those folded first on the left, what has just arrived in
bold. The same before the arrow, as in "0 ∘ 1" or "b2: 0 ∘ 1", is what a rank has folded by itself before it sends. In a
round without arrows, ranks only move or fold blocks of their own. Two-level pictures have two threads per process.
)";

std::string page(const std::vector<portrait>& portraits, const std::filesystem::path& headers) {
    const std::vector<chapter> chapters = chapters_of(test::every_collective());
    std::ostringstream out;
    out << introduction;
    write_overview(out, chapters);
    out << explanation;
    for (const chapter& each : chapters) write_chapter(out, each);
    out << portraits_introduction;
    for (const portrait& each : portraits) write_portrait(out, each, source_of(each.algorithm, headers));
    return out.str();
}

bool write(const std::filesystem::path& path, const std::string& text) {
    std::ofstream file(path);
    file << text;
    file.close();
    if (!file) std::cerr << "cannot write " << path.string() << "\n";
    return static_cast<bool>(file);
}

bool write_all(const std::filesystem::path& folder, const std::filesystem::path& headers) {
    const std::filesystem::path pictures = folder / "algorithms";
    std::filesystem::create_directories(pictures);
    const std::vector<portrait> portraits = portraits_of(test::every_algorithm());
    bool is_written = write(folder / "algorithms.md", page(portraits, headers));
    for (const portrait& each : portraits)
        is_written = is_written && write(pictures / (each.algorithm + ".svg"), each.drawing);
    return is_written;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 3) {
        std::cerr << "usage: algorithms FOLDER HEADERS\n";
        return 2;
    }
    try {
        return write_all(argv[1], argv[2]) ? 0 : 1;
    } catch (const std::exception& error) {
        std::cerr << error.what() << "\n";
        return 1;
    }
}
