// SPDX-License-Identifier: BSL-1.0

/// @file
/// A mixture of experts that are distributed over ranks (expert parallelism), compared with one rank that has all
/// experts.

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "examples/common/command_line.hpp"
#include "examples/common/files.hpp"
#include "examples/common/words.hpp"
#include "examples/moe_dispatch/dispatch.hpp"
#include "examples/moe_dispatch/model.hpp"
#include <allfold/algebra/arithmetic.hpp>
#include <allfold/collective/gather.hpp>
#include <allfold/collective/reduce.hpp>
#include <allfold/transport/thread.hpp>

namespace examples {
namespace {

struct request {
    int ranks = 4;
    std::size_t experts = 8, tokens = 4096, top = 2, seed = 1;
};

/// The results of all ranks.
struct summary {
    std::vector<token> result;
    std::vector<std::size_t> counts;              ///< tokens of each expert
    std::vector<std::size_t> taken, from_others;  ///< for each rank
};

[[nodiscard]] summary run_on_threads(const model& m, const std::vector<token>& tokens, const request& asked) {
    const auto ranks = static_cast<std::size_t>(asked.ranks);
    const auto shares = allfold::partition::even(tokens.size(), asked.ranks);
    summary all{
        std::vector<token>(tokens.size()), {}, std::vector<std::size_t>(ranks), std::vector<std::size_t>(ranks)};
    allfold::run(asked.ranks, [&](auto& comm) {
        const std::span own = std::span(tokens).subspan(shares.offset(comm.rank()), shares.extent(comm.rank()));
        outcome mine = run_on_ranks(comm, m, own, asked.top);
        allfold::gather(comm, mine.result, all.result, shares);
        allfold::gather(comm, std::span(&mine.taken, 1), all.taken);
        allfold::gather(comm, std::span(&mine.from_others, 1), all.from_others);
        allfold::reduce(comm, mine.counts, allfold::sum{});
        if (comm.rank() == 0) all.counts = mine.counts;
    });
    return all;
}

// --- The output.

[[nodiscard]] std::string describe(const request& asked, const summary& all) {
    std::string text = counted(asked.tokens, "token") + " on " + counted(asked.ranks, "rank") + ", each to " +
                       std::to_string(asked.top) + " of " + counted(asked.experts, "expert") +
                       "\n\n  expert    rank  tokens\n";
    const auto homes = allfold::partition::even(asked.experts, asked.ranks);
    const std::size_t most = std::max<std::size_t>(1, *std::ranges::max_element(all.counts));
    for (int r = 0; r < asked.ranks; ++r)
        for (std::size_t e = homes.offset(r); e < homes.offset(r) + homes.extent(r); ++e) {
            char line[120];
            std::snprintf(line, sizeof line, "  %6zu  %6d  %6zu  %s\n", e, r, all.counts[e],
                          std::string((40 * all.counts[e] + most - 1) / most, '#').c_str());
            text += line;
        }
    const std::size_t busiest = static_cast<std::size_t>(std::ranges::max_element(all.taken) - all.taken.begin());
    std::size_t travelled = 0;
    for (const std::size_t each : all.from_others) travelled += each;
    return text + "\n  rank " + std::to_string(busiest) +
           " has the most work: " + counted(all.taken[busiest], "token") + " of " +
           std::to_string(asked.tokens * asked.top) + "; " + std::to_string(travelled) +
           " went to another rank and back\n";
}

/// The first token whose result is not bitwise equal, or the number of tokens if there is none.
[[nodiscard]] std::size_t first_difference(const std::vector<token>& a, const std::vector<token>& b) {
    std::size_t t = 0;
    while (t < a.size() && std::memcmp(&a[t], &b[t], sizeof(token)) == 0) ++t;
    return t;
}

[[nodiscard]] int run(int argc, char** argv) {
    request asked;
    command_line line("moe_dispatch",
                      "A mixture of experts that are spread over ranks: tokens travel to their experts and back, and "
                      "the result\nhas the bits of one rank that has all experts.");
    line.number(asked.ranks, "--ranks", "P", 1, 256, "how many threads have experts and tokens");
    line.number(asked.experts, "--experts", "N", 1, 1024, "how many experts there are; ranks may have none");
    line.number(asked.tokens, "--tokens", "N", 0, 1 << 20, "how many tokens there are");
    line.number(asked.top, "--top", "N", 1, most_chosen, "how many experts a token goes to: 1 or 2");
    line.number(asked.seed, "--seed", "N", 0, std::size_t{1} << 50, "selects the tokens, experts and gates");
    if (!line.read(argc, argv)) return 0;
    if (asked.top > asked.experts)
        throw bad_command_line("--top: a token cannot go to " + std::to_string(asked.top) + " of " +
                               counted(asked.experts, "expert"));
    numbers random(asked.seed);
    const model m = make_model(asked.experts, random);
    const std::vector<token> tokens = make_tokens(asked.tokens, random);
    const summary all = run_on_threads(m, tokens, asked);
    const std::size_t same = first_difference(all.result, run_sequentially(m, tokens, asked.top));
    files::print(describe(asked, all));
    if (same != tokens.size())
        throw std::runtime_error("token " + std::to_string(same) + " differs from its result on one rank");
    files::print("  the same bits as on one rank that has all experts\n");
    return 0;
}

}  // namespace
}  // namespace examples

int main(int argc, char** argv) {
    return examples::guarded("moe_dispatch", [&] { return examples::run(argc, argv); });
}
