// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "allfold/data/partition.hpp"
#include "allfold/engine/choose.hpp"
#include "allfold/engine/options.hpp"
#include "allfold/engine/shape.hpp"
#include "allfold/transport/communicator.hpp"

/// @file
/// What a call asks of the engine: everything that its types say, as values.

namespace allfold::detail {

/// What the engine knows about a collective: its contract, which rows its arguments hold, and its schedules.
struct collective_facts {
    const contract* promise;
    shape (*lay_out)(const arguments_given&);
    std::span<const candidate> candidates;  ///< for how ranks can reach each other here
};

struct call_key;

struct request {
    collective_facts collective;
    const schedule_maker* named = nullptr;  ///< of the algorithm named by the caller
    const void* algorithm = nullptr;        ///< that algorithm
    std::uint64_t algorithm_hash = 0;
    order level = order::any;
    call_options options;
    const char* element_type = "";
    const char* operator_type = "";
    std::uint64_t type_hash = 0;
    law_known commutative = law_known::by_type;
    const call_key* key = nullptr;  ///< of a call that is to be remembered if it is short
};

/// Cuts into blocks of whole cache lines, so that no line has two writers.
[[nodiscard]] inline partition cut_evenly(std::size_t rows, int blocks, std::size_t row_bytes) {
    constexpr std::size_t line = 64;
    return partition::even_grains(rows, blocks, row_bytes == 0 || row_bytes > line ? 1 : line / row_bytes);
}

/// Signs the borders of blocks, however these were specified.
inline void sign_blocks(signature& s, const partition& blocks) noexcept {
    auto h = static_cast<std::uint64_t>(blocks.blocks());
    s.smallest_block = blocks.total();
    std::size_t begin = 0;
    for (int b = 1; b <= blocks.blocks(); ++b) {
        const std::size_t end = blocks.offset(b);
        h = (h ^ end) * 0x9e3779b97f4a7c15u;
        s.smallest_block = std::min<std::uint64_t>(s.smallest_block, end - begin);
        begin = end;
    }
    s.borders = h ^ (h >> 32);
}

/// Distinguishes a permutation from others: exactly for up to 16 ranks, with four bits per rank.
[[nodiscard]] inline std::uint64_t hash_of_setting(const setting& where) noexcept {
    std::uint64_t mark = 0;
    for (int r = 0; r < where.size; ++r) {
        const auto to = static_cast<std::uint64_t>(where.destination_of(r));
        mark = where.size <= 16 ? mark | to << (4 * r) : (mark ^ to) * 0x9e3779b97f4a7c15u;
        if (where.size > 16) mark ^= mark >> 29;
    }
    return mark;
}

/// Rejects a named algorithm that cannot do what the call asks for. What its type says was checked by the compiler,
/// unless the algorithm was chosen at run time.
inline void require_named(const arguments_given& call, const schedule_maker& named, bool folds, order level) {
    const int size = call.where.size, group = call.where.group;
    if (group > 1 && !named.grouped)
        call.reject(errc::bad_argument,
                    {named.name, " has no schedule for ranks in groups of ", group,
                     ", of which only the first communicates with other groups; two_level has one"});
    if (folds && named.keeps < level)
        call.reject(errc::bad_argument, {named.name, " keeps order::", name_of(named.keeps),
                                         ", but the call needs order::", name_of(level)});
    if (named.supports(size, group)) return;
    std::string sizes;
    for (int some = 1; some <= 64 && sizes.size() < 24; ++some) {
        if (!named.supports(some, group)) continue;
        if (!sizes.empty()) sizes += ", ";
        sizes += std::to_string(some);
    }
    const std::string groups = group > 1 ? text({" in groups of ", group}) : std::string();
    call.reject(errc::bad_argument,
                {named.name, " has no schedule for ", size, " ranks", groups, "; it supports ", sizes, ", ... ranks"});
}

/// The schedule that the caller names, or the chosen one, and the reason.
[[nodiscard]] inline any_schedule schedule_for(const request& what, const arguments_given& call, const problem& p,
                                               const char** why = nullptr) {
    const setting& where = call.where;
    if (what.named != nullptr) {
        require_named(call, *what.named, what.collective.promise->folds, p.level);
        if (why != nullptr) *why = "named by the caller";
        return what.named->make(where, what.algorithm);
    }
    const candidate* const chosen = choose(what.collective.candidates, p, where.group, what.collective.promise->folds);
    if (chosen == nullptr)
        call.reject(errc::bad_argument,
                    {"no schedule provides order::", name_of(p.level), " for ", where.size, " ranks"});
    if (why != nullptr) *why = chosen->why;
    return chosen->schedule->make(where, nullptr);
}

}  // namespace allfold::detail
