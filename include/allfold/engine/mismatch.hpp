// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <optional>
#include <string>

#include "allfold/error.hpp"
#include "allfold/transport/communicator.hpp"

/// @file
/// What to say when two ranks do not call the same collective.

namespace allfold::detail {

[[nodiscard]] inline std::string call_text(const signature& s) {
    std::string text = name_of(s.what);
    if (*s.schedule) text += std::string(" (") + s.schedule + ")";
    return text;
}

/// The first difference between two signatures, "here" against "there".
[[nodiscard]] inline std::string difference_text(const signature& here, const signature& there, const std::string& rank,
                                                 const std::string& peer) {
    const auto text = [&](const std::string& what, const std::string& a, const std::string& b) {
        return rank + " " + what + " " + a + ", but " + peer + " " + b;
    };
    if (here.what != there.what) return text("calls", call_text(here), "calls " + call_text(there));
    if (here.elements != there.elements)
        return text("has", std::to_string(here.elements) + " elements", "has " + std::to_string(there.elements));
    if (here.root != there.root)
        return text("names root", std::to_string(here.root), "names root " + std::to_string(there.root));
    const std::string my_element(told_of(here.element_type)), its_element(told_of(there.element_type));
    if (my_element != its_element) return text("has elements of type", my_element, "of type " + its_element);
    const std::string my_operator(told_of(here.operator_type)), its_operator(told_of(there.operator_type));
    if (my_operator != its_operator) return text("folds with", my_operator, "with " + its_operator);
    if (!(here.level == there.level))
        return text("asks for order", name_of(here.level), std::string("for ") + name_of(there.level));
    if (std::string(here.schedule) != there.schedule)
        return text("runs the schedule", here.schedule, std::string("runs ") + there.schedule);
    return text("cuts its elements", "into other blocks, rows or windows", "does");
}

/// Throws for a message whose signature is not ours.
[[noreturn]] inline void throw_mismatch(const signature& here, const std::optional<signature>& there, int rank,
                                        int peer, int size) {
    const std::string me = "rank " + std::to_string(rank), it = "rank " + std::to_string(peer);
    throw error(errc::mismatch,
                std::string(name_of(here.what)) + " of " + std::to_string(size) + " ranks: " +
                    (there ? difference_text(here, *there, me, it) : me + " and " + it + " do not make the same call"));
}

}  // namespace allfold::detail
