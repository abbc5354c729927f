// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "allfold/engine/list_text.hpp"
#include "allfold/engine/options.hpp"
#include "allfold/error.hpp"
#include "allfold/transport/background.hpp"
#include "allfold/transport/communicator.hpp"

/// @file
/// What to report if two ranks do not call the same collective.

namespace allfold::detail {

/// The axes along which operands are cut.
[[nodiscard, gnu::cold]] inline std::string axes_text(const signature& s) {
    const axes_given axes = axes_given::in(s.permutation);
    const auto one = [](std::uint8_t known) {
        return known == 0 ? std::string("no axis") : text({"axis ", known - 1});
    };
    const bool is_one = std::string_view(s.what) != "all_to_all";
    return is_one ? one(axes.input) : text({one(axes.input), " and concatenates along ", one(axes.output)});
}
/// Where a permutation takes the operands of ranks 0, 1, ...; for more than 16 ranks only a hash is known.
[[nodiscard, gnu::cold]] inline std::string permutation_text(const signature& s) {
    if (s.ranks > 16) return text({"by a list with hash ", s.permutation});
    std::string words = "to {";
    for (std::uint32_t r = 0; r < s.ranks; ++r) words += text({r == 0 ? "" : ", ", s.permutation >> (4 * r) & 15U});
    return words + "}";
}

/// The first difference in what two signatures say about types and laws; empty if there is none.
template <class Say>
[[nodiscard, gnu::cold]] std::string type_difference_text(const signature& here, const signature& there, Say say) {
    if (comparable_part_of(here.element_type) != comparable_part_of(there.element_type))
        return say(" has elements of type ", comparable_part_of(here.element_type), " of type ",
                   comparable_part_of(there.element_type));
    if (comparable_part_of(here.operator_type) != comparable_part_of(there.operator_type))
        return say(" folds with ", comparable_part_of(here.operator_type), " with ",
                   comparable_part_of(there.operator_type));
    const auto law = [](const signature& s) {
        return s.commutative == law_known::holds ? "an operator declared commutative"
                                                 : "an operator declared not commutative";
    };
    return here.commutative == there.commutative ? "" : say(" folds with ", law(here), " with ", law(there));
}

/// The first difference in axes or lists; empty if there is none, or none is known.
template <class Say>
[[nodiscard, gnu::cold]] std::string arrangement_difference_text(const signature& here, const signature& there,
                                                                 Say say) {
    if (here.permutation == there.permutation || std::string_view(here.what) == "permute") return "";
    const std::string own = axes_text(here), others = axes_text(there);
    return own != others ? say(" cuts along ", own, " cuts along ", others)
                         : list_difference_text(here.lists, there.lists, say);
}

[[nodiscard, gnu::cold]] inline std::string call_text(const signature& s) {
    const char* const verb = s.prepared ? "prepares " : "calls ";
    return *s.schedule ? text({verb, s.what, " (", s.schedule, ")"}) : text({verb, s.what});
}
[[nodiscard, gnu::cold]] inline std::string blocks_text(const signature& s) {
    return text({s.smallest_block, " to ", s.largest_block});
}
[[nodiscard, gnu::cold]] inline std::string windows_text(const signature& s) {
    return s.window_rows == 0 ? std::string("no windows") : text({"windows of ", s.window_rows, " elements"});
}

/// The first difference between two signatures, "here" against "there".
[[nodiscard, gnu::cold]] inline std::string difference_text(const signature& here, const signature& there, int rank,
                                                            int peer) {
    const auto say = [&](const char* mine, text_piece a, const char* its, text_piece b, const char* end = "") {
        return text({"rank ", rank, mine, a, ", but rank ", peer, its, b, end});
    };
    if (comparable_part_of(here.what) != comparable_part_of(there.what) || here.prepared != there.prepared)
        return say(" ", call_text(here), " ", call_text(there));
    if (here.ranks != there.ranks) return say(" runs with ", here.ranks, " with ", there.ranks, " ranks");
    if (std::string words = arrangement_difference_text(here, there, say); !words.empty()) return words;
    if (here.elements != there.elements) return say(" has ", here.elements, " has ", text_of_elements(there.elements));
    if (here.root != there.root) return say(" names root ", here.root, " names root ", there.root);
    if (std::string words = type_difference_text(here, there, say); !words.empty()) return words;
    if (!(here.level == there.level))
        return say(" asks for order ", name_of(here.level), " for ", name_of(there.level));
    if (std::string_view(here.schedule) != there.schedule)
        return say(" runs the schedule ", here.schedule, " runs ", there.schedule);
    if (here.row_bytes != there.row_bytes)
        return say(" has rows of ", here.row_bytes, " has rows of ", there.row_bytes, " bytes");
    if (here.alignment != there.alignment)
        return say(" has rows aligned to ", here.alignment, " has rows aligned to ", there.alignment, " bytes");
    if (here.largest_block != there.largest_block)
        return say(" cuts blocks of up to ", here.largest_block, " cuts blocks of up to ", there.largest_block,
                   " elements");
    if (here.borders != there.borders)
        return say(" cuts blocks of ", blocks_text(here), " cuts blocks of ", blocks_text(there),
                   here.smallest_block != there.smallest_block ? " elements" : " elements in another order");
    if (here.permutation != there.permutation && std::string_view(here.what) != "permute") {
        const char* const what =
            " pass tensor lists of different lengths, different shard lists, or tensors with different extents before "
            "the axis along which they are cut";
        return text({"rank ", rank, " and rank ", peer, what});
    }
    if (here.permutation != there.permutation)
        return say(" permutes ", permutation_text(here), " permutes ", permutation_text(there));
    if (here.window_rows != there.window_rows) return say(" has ", windows_text(here), " has ", windows_text(there));
    const std::string_view operation = comparable_part_of(here.operator_type);
    const bool is_lambda = operation.find("lambda") != std::string_view::npos;
    if (!is_lambda && std::string_view(here.schedule) != "automatic")
        return say(" runs the schedule ", here.schedule, " runs ", here.schedule, " with other parameters");
    return say(" folds with ", operation, " folds with a different type of the same name: ", operation,
               is_lambda ? " (each lambda expression is a distinct operator: define one and use it on all ranks)" : "");
}

/// Announces that a call is only prepared: each start has lanes of its own, so a rank that calls it instead waits for
/// messages on these lanes for ever. Parts of an operation may start here, and are not.
template <class Comm>
void announce_as_prepared(Comm& comm, lane first, unsigned lanes, signature what) {
    if (background::prepares_parts()) return;
    if (comm.restart_lane(first, lanes) == first) return;  // the transport has no others
    what.prepared = true;
    comm.announce(first, lanes, what);
}

/// Throws for a message whose signature differs from ours.
[[noreturn, gnu::cold]] inline void throw_mismatch(const signature& here, const std::optional<signature>& there,
                                                   int rank, int peer, int size) {
    const std::string what = there ? difference_text(here, *there, rank, peer)
                                   : text({"rank ", rank, " and rank ", peer, " do not make the same call"});
    throw error(errc::mismatch, text({here.what, " of ", size, " ranks: ", what}));
}

/// Throws for a message of a rank that makes the same call now, but has made a different one before.
template <class Comm>
[[noreturn, gnu::cold]] void throw_earlier_mismatch(Comm& comm, const signature& here, int peer) {
    std::string what = text({"rank ", comm.rank(), " and rank ", peer, " have made different calls before this one"});
    comm.background().for_each_call([&](std::uint64_t number, lane on) {
        const auto mine = comm.announced(comm.rank(), on), theirs = comm.announced(peer, on);
        if (!mine || !theirs || mine->hash() == theirs->hash()) return false;
        what = text({"call ", number, " on this communicator (", mine->what,
                     "): ", difference_text(*mine, *theirs, comm.rank(), peer)});
        return true;
    });
    throw error(errc::mismatch, text({here.what, " of ", comm.size(), " ranks: ", what}));
}

/// Throws for a message whose hash differs from that of this rank's call `here`.
template <class Comm>
[[noreturn, gnu::cold]] void throw_disagreement(Comm& comm, const signature& here, int peer, lane on) {
    auto theirs = comm.announced(peer, on);
    for (int turn = 0; !theirs && turn < 100; ++turn) {  // a short call is announced after its first message
        std::this_thread::yield();
        theirs = comm.announced(peer, on);
    }
    if (theirs && theirs->hash() == here.hash()) throw_earlier_mismatch(comm, here, peer);
    throw_mismatch(here, theirs, comm.rank(), peer, comm.size());
}

/// Throws if a rank that this one waits for is known to have made another call on the lane. Nobody else may find out:
/// it may have completed that call without this rank.
template <class Comm>
void check_call_of(Comm& comm, int peer, lane on, const signature& here, std::uint32_t hash) {
    const auto known = comm.announced(peer, on);
    const std::uint32_t theirs = known ? known->hash() : comm.announced_hash(peer, on);
    if (theirs != 0 && theirs != hash) throw_disagreement(comm, here, peer, on);
}

/// Throws for a message whose length differs from that of this rank's blocks.
[[noreturn, gnu::cold]] inline void throw_other_length(const char* collective, int rank, int peer, std::size_t found,
                                                       std::size_t expected, std::size_t row_bytes) {
    const bool whole = row_bytes > 0 && found % row_bytes == 0 && expected % row_bytes == 0;
    const std::size_t unit = whole ? row_bytes : 1;
    throw error(errc::mismatch,
                text({collective, ": rank ", rank, " expects ", expected / unit, whole ? " elements" : " bytes",
                      " from rank ", peer, ", which sends ", found / unit}));
}

}  // namespace allfold::detail
