// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <optional>
#include <string>

#include "allfold/error.hpp"
#include "allfold/transport/communicator.hpp"

/// @file
/// What to say when two ranks do not call the same collective.

namespace allfold::detail {

/// The first difference between two signatures, "here" against "there".
[[nodiscard, gnu::cold]] inline std::string difference_text(const signature& here, const signature& there, int rank,
                                                            int peer) {
    const auto say = [&](const char* mine, text_piece a, const char* its, text_piece b, const char* end = "") {
        return text({"rank ", rank, mine, a, end, ", but rank ", peer, its, b});
    };
    if (told_of(here.what) != told_of(there.what)) {
        const auto call = [](const signature& s) {
            return *s.schedule ? text({s.what, " (", s.schedule, ")"}) : std::string(s.what);
        };
        return say(" calls ", call(here), " calls ", call(there));
    }
    if (here.elements != there.elements) return say(" has ", here.elements, " has ", there.elements, " elements");
    if (here.root != there.root) return say(" names root ", here.root, " names root ", there.root);
    if (told_of(here.element_type) != told_of(there.element_type))
        return say(" has elements of type ", told_of(here.element_type), " of type ", told_of(there.element_type));
    if (told_of(here.operator_type) != told_of(there.operator_type))
        return say(" folds with ", told_of(here.operator_type), " with ", told_of(there.operator_type));
    if (!(here.level == there.level))
        return say(" asks for order ", name_of(here.level), " for ", name_of(there.level));
    if (std::string_view(here.schedule) != there.schedule)
        return say(" runs the schedule ", here.schedule, " runs ", there.schedule);
    return say(" cuts its elements ", "into other blocks, rows or windows", "", " does");
}

/// Throws for a message whose signature is not ours.
[[noreturn, gnu::cold]] inline void throw_mismatch(const signature& here, const std::optional<signature>& there,
                                                   int rank, int peer, int size) {
    const std::string what = there ? difference_text(here, *there, rank, peer)
                                   : text({"rank ", rank, " and rank ", peer, " do not make the same call"});
    throw error(errc::mismatch, text({here.what, " of ", size, " ranks: ", what}));
}

}  // namespace allfold::detail
