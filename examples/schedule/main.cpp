// SPDX-License-Identifier: BSL-1.0

/// @file
/// Lists, proves, prices and draws the library's schedules.
///
/// A schedule is a value: who sends which blocks to whom, and how they are folded, for any rank and round. Nothing runs
/// here: a proof traces what each value is made of, a price counts, a picture is a loop over rounds.

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "examples/common/command_line.hpp"
#include "examples/common/files.hpp"
#include "examples/common/words.hpp"
#include "examples/schedule/catalogue.hpp"
#include "examples/schedule/price.hpp"
#include "examples/schedule/steps.hpp"
#include <allfold/analysis/draw.hpp>
#include <allfold/analysis/prove.hpp>

namespace examples {
namespace {

constexpr int max_ranks = 1 << 20;
constexpr int most_ranks_drawn = 64;
constexpr int most_lines = 100;            // of steps, unless requested
constexpr long long most_steps = 2000000;  // that a price counts: a fraction of a second

struct request {
    std::string collective, algorithm, picture;
    int ranks = 8, group = 1, proved_ranks = 128;
    std::optional<int> root;
    std::size_t bytes = 0;
    bool steps = false;
};

/// The schedules of all ranks, and what they claim.
struct subject {
    const entry& what;
    allfold::setting where;
    allfold::claim claim;

    subject(const entry& e, const request& asked)
        : what(e), where{0, asked.ranks, *asked.root, asked.group}, claim(e.claim(*asked.root, asked.group)) {}
    [[nodiscard]] int size() const { return where.size; }
    [[nodiscard]] allfold::any_schedule operator()(int rank) const { return what.schedule(where.at(rank)); }
};

// --- The catalogue.

[[nodiscard]] bool is_permutation(const entry& e) { return e.promise->cut == allfold::cut_for::owner; }

/// The width of a column with the names of algorithms.
[[nodiscard]] int width_of(const std::vector<entry>& entries) {
    std::size_t longest = std::string_view("algorithm").size();
    for (const entry& e : entries) longest = std::max(longest, e.algorithm.size());
    return static_cast<int>(longest);
}

/// "any", or the first few numbers of ranks for which there is a schedule.
[[nodiscard]] std::string ranks_of(const entry& e) {
    std::string listed;
    int missing = 0;
    for (int n = 1; n <= 32; ++n)
        if (e.supports(n, 1))
            listed += (listed.empty() ? "" : ", ") + std::to_string(n);
        else
            ++missing;
    return missing == 0 ? "any" : listed + ", ...";
}

[[nodiscard]] std::string list(const std::vector<entry>& all) {
    std::string text;
    const int width = width_of(all);
    const auto row = [&](const char* collective, const std::string& algorithm, const char* order, const char* blocks,
                         const std::string& ranks) {
        char line[200];
        std::snprintf(line, sizeof line, "%-16s %-*s %-6s %-7s %s\n", collective, width, algorithm.c_str(), order,
                      blocks, ranks.c_str());
        text += line;
    };
    row("collective", "algorithm", "order", "blocks", "ranks");
    const entry* before = nullptr;
    for (const entry& e : all) {
        const bool is_next = before == nullptr || before->promise != e.promise;
        row(is_next ? e.promise->name : "", e.algorithm, e.promise->folds ? allfold::name_of(e.keeps) : "-",
            e.equal_blocks ? "equal" : "any", ranks_of(e));
        before = &e;
    }
    return text +
           "\nschedule COLLECTIVE compares its algorithms; with --algorithm it proves one, and shows its steps.\n";
}

/// The chosen algorithms of one collective, perhaps only one.
[[nodiscard]] std::vector<entry> chosen(const std::vector<entry>& all, const request& asked) {
    std::vector<entry> found;
    std::string names;
    for (const entry& e : all)
        if (e.collective() == asked.collective) {
            names += (names.empty() ? "" : ", ") + e.algorithm;
            if (asked.algorithm.empty() || e.algorithm == asked.algorithm) found.push_back(e);
        }
    if (names.empty())
        throw bad_command_line("unknown collective '" + asked.collective + "'; without arguments, all are listed");
    if (found.empty())
        throw bad_command_line(asked.collective + " has no algorithm '" + asked.algorithm + "', but " + names);
    return found;
}

// --- Proof and price.

[[nodiscard]] std::string text_of_bytes(double bytes) {
    const char* const units[]{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    std::size_t i = 0;
    for (; bytes >= 1024 && i + 1 < std::size(units); ++i) bytes /= 1024;
    char text[32];
    std::snprintf(text, sizeof text, "%.4g %s", bytes, units[i]);
    return text;
}

/// The volume of `sent` blocks, each 1/`blocks` of an operand: in operands, or in bytes if the size of an operand is
/// given.
[[nodiscard]] std::string volume(long long sent, int blocks, std::size_t bytes) {
    const double operands = static_cast<double>(sent) / std::max(blocks, 1);
    if (bytes != 0) return text_of_bytes(operands * static_cast<double>(bytes));
    char text[32];
    std::snprintf(text, sizeof text, "%.4g", operands);
    return text;
}

struct findings {
    bool tried = false;  ///< whether a proof was attempted
    allfold::proof proof{};
    price costs{};
    int blocks = 1;

    [[nodiscard]] bool good() const { return proof.ok(); }
    [[nodiscard]] const char* verdict() const { return !tried ? "not tried" : good() ? "proved" : "WRONG"; }
};

[[nodiscard]] findings look_at(const subject& all, const request& asked) {
    findings found;
    found.tried = all.size() <= asked.proved_ranks;
    found.costs = price_of(all.size(), *asked.root, all, most_steps);
    found.blocks = all(0).blocks();
    if (!found.tried) return found;
    found.proof = allfold::prove(all.size(), all, all.claim);
    if (found.good() && found.costs.ranks == all.size() &&
        (found.costs.messages != found.proof.messages || found.costs.blocks != found.proof.blocks_sent))
        throw std::logic_error(all.what.algorithm + ": the price counts differently from the proof");
    return found;
}

[[nodiscard]] std::string compare(const std::vector<entry>& entries, const request& asked, bool& good) {
    std::string text = asked.collective + " of " + counted(asked.ranks, "rank") + "\n\n";
    const int width = width_of(entries);
    char line[200];
    std::snprintf(line, sizeof line, "%-*s %-6s %8s %10s %15s\n", width, "algorithm", "order", "rounds", "messages",
                  asked.bytes == 0 ? "operands sent" : "bytes sent");
    text += line;
    bool all_counted = true;
    for (const entry& e : entries) {
        const char* const order = e.promise->folds ? allfold::name_of(e.keeps) : "-";
        if (!e.supports(asked.ranks, asked.group)) {
            std::snprintf(line, sizeof line, "%-*s %-6s %8s\n", width, e.algorithm.c_str(), order, "none");
        } else {
            const findings found = look_at(subject(e, asked), asked);
            good = good && found.good();
            all_counted = all_counted && found.costs.ranks == asked.ranks;
            std::snprintf(line, sizeof line, "%-*s %-6s %8d %10lld %15s  %s\n", width, e.algorithm.c_str(), order,
                          found.costs.rounds, found.costs.busiest_messages,
                          volume(found.costs.busiest_blocks, found.blocks, asked.bytes).c_str(), found.verdict());
        }
        text += line;
    }
    return text +
           "\nMessages and volume are those of the rank that sends most. An operand is all that a rank contributes or "
           "gets.\n" +
           (all_counted ? "" : "Not all ranks were counted: only the root, the rank before it, and some others.\n");
}

[[nodiscard]] std::string describe(const subject& all, const findings& found, const request& asked) {
    const entry& e = all.what;
    const price& costs = found.costs;
    const std::string unit = asked.bytes == 0 ? ", in operands" : "";
    std::string text = std::string(e.name) + " " + e.promise->name + " of " + counted(all.size(), "rank") + "\n\n";
    const auto row = [&](std::string name, const std::string& value) {
        name.resize(16, ' ');
        text += "  " + name + value + "\n";
    };
    if (found.tried)
        row("proof", found.good() ? "proved: partners, no deadlock, results and order, for these ranks"
                                  : allfold::explain(found.proof));
    else
        row("proof", "not tried for more than " + std::to_string(asked.proved_ranks) + " ranks; see --prove");
    if (e.promise->folds) row("order", allfold::name_of(e.keeps));
    row("rounds", std::to_string(costs.rounds));
    const std::string all_counted =
        costs.ranks == all.size()
            ? " in all"
            : " of " + counted(costs.ranks, "rank") + (costs.ranks == 1 ? " that was counted" : " that were counted");
    row("messages", std::to_string(costs.busiest_messages) + " of the rank that sends most, " +
                        std::to_string(costs.messages) + all_counted);
    if (found.blocks > 0)
        row("volume", volume(costs.busiest_blocks, found.blocks, asked.bytes) + " of the rank that sends most, " +
                          volume(costs.blocks, found.blocks, asked.bytes) + all_counted + unit);
    if (e.promise->folds && found.tried)
        row("folds", volume(found.proof.busiest_folds, found.blocks, 0) + " of the rank that folds most, " +
                         volume(found.proof.folds, found.blocks, 0) + " in all, in operands");
    if (found.blocks > 1)
        row("blocks", std::to_string(found.blocks) + (e.equal_blocks ? " of equal length" : "") + " in an operand");
    return text;
}

[[nodiscard]] int show(const subject& all, const request& asked) {
    const findings found = look_at(all, asked);
    std::string text = describe(all, found, asked);
    const long long lines = static_cast<long long>(found.costs.rounds) * (all.size() + 1);
    if (asked.steps || lines <= most_lines) text += steps_of(all.size(), all);
    if (!asked.picture.empty()) {
        files::write(asked.picture, {allfold::draw(all.size(), all, all.claim, all.what.name)});
        text += "\ndrawn: " + asked.picture + "\n";
    }
    files::print(text);
    return found.good() ? 0 : failed;
}

// --- The command line.

void require_ranks(const request& asked) {
    if (*asked.root >= asked.ranks)
        throw bad_command_line("--root: rank " + std::to_string(*asked.root) + " is outside [0, " +
                               std::to_string(asked.ranks) + ")");
    if (asked.ranks % asked.group != 0)
        throw bad_command_line("--group: " + std::to_string(asked.ranks) + " ranks cannot be divided into groups of " +
                               std::to_string(asked.group));
    if (asked.picture.empty()) return;
    if (asked.ranks > most_ranks_drawn)
        throw bad_command_line("--draw: a picture has at most " + std::to_string(most_ranks_drawn) + " ranks");
    files::require_writable(asked.picture);
}

[[nodiscard]] int answer(request asked) {
    const std::vector<entry> all = catalogue();
    if (asked.collective.empty()) {
        files::print(list(all));
        return 0;
    }
    const std::vector<entry> entries = chosen(all, asked);
    if (asked.root && !entries.front().promise->rooted)
        throw bad_command_line("--root: " + asked.collective + " has no root");
    if (!asked.root)
        asked.root = is_permutation(entries.front()) && asked.ranks > 1 ? 1 : 0;  // with 0, nothing would move
    require_ranks(asked);
    if (asked.algorithm.empty()) {
        bool good = true;
        files::print(compare(entries, asked, good));
        return good ? 0 : failed;
    }
    if (!entries.front().supports(asked.ranks, asked.group))
        throw bad_command_line(asked.algorithm + " has no schedule for " + counted(asked.ranks, "rank") +
                               (asked.group > 1 ? " in groups of " + std::to_string(asked.group) : ""));
    return show(subject(entries.front(), asked), asked);
}

[[nodiscard]] int run(int argc, char** argv) {
    request asked;
    command_line line("schedule",
                      "Lists the collectives and their algorithms; compares those of a collective; proves, prices, "
                      "shows and draws one.");
    line.word(asked.collective, "COLLECTIVE", "all_reduce, all_to_all, ...; without it all are listed");
    line.text(asked.algorithm, "--algorithm", "NAME",
              "ring, bruck, ...; without it all of the collective are compared");
    line.number(asked.ranks, "--ranks", "P", 1, max_ranks, "how many ranks");
    line.text(asked.picture, "--draw", "FILE", "draw the schedule as a picture (SVG)");
    line.flag(asked.steps, "--steps", "show the steps even if there are many");
    line.number(asked.bytes, "--bytes", "N", 0, std::size_t{1} << 50,
                "size of an operand, all that a rank contributes or gets: volumes are then in bytes");
    line.number(asked.proved_ranks, "--prove", "P", 0, 4096, "prove for at most P ranks");
    line.number(asked.root, "--root", "R", 0, max_ranks - 1,
                "root of collectives that have one [0]; for permute, how far operands are shifted [1]");
    line.number(asked.group, "--group", "N", 1, max_ranks,
                "number of ranks that share memory, for two-level schedules");
    if (!line.read(argc, argv)) return 0;
    if (asked.collective.empty() && argc > 1) throw bad_command_line("options need a collective: which one?");
    if (!asked.picture.empty() && asked.algorithm.empty())
        throw bad_command_line("--draw: one algorithm is drawn at a time: which one?");
    return answer(asked);
}

}  // namespace
}  // namespace examples

int main(int argc, char** argv) {
    return examples::guarded("schedule", [&] { return examples::run(argc, argv); });
}
