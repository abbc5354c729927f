// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "allfold/error.hpp"
#include "allfold/message/detail/post_office.hpp"
#include "allfold/transport/communicator.hpp"
#include "allfold/transport/rank_list.hpp"

/// @file
/// The calls of an explored rank, and how they are put into words.

namespace allfold::detail {

/// A position in the source of a program; no file if it is not known.
struct source_place {
    const char* file = nullptr;
    unsigned line = 0;
};

/// A call of a rank, or another start of an operation that it has prepared.
struct explored_call {
    const char* what = "collective";
    int to = -1, from = -1;  // of a message: ranks of the whole program; -2: from any
    int label = 0;           // its tag; -2: any
    bool is_message = false;
    std::uint64_t group = 0;
    const rank_list* team = nullptr;  // the members, if it is not on the communicator of the whole program
    lane first = 0;
    unsigned lanes = 0;
    std::uint32_t number = 0;  // of its send, on its communicator
    source_place at;
};

/// "the team of ranks 5, 0..2, 7"
[[nodiscard]] inline std::string text_of_team(const rank_list& members) {
    std::string words = members.size() == 1 ? "the team of rank " : "the team of ranks ";
    for (int first = 0; first < members.size();) {
        int last = first;
        while (last + 1 < members.size() && members[last + 1] == members[last] + 1) ++last;
        if (last == first + 1) last = first;  // two numbers are as short as a range
        words += text({first == 0 ? "" : ", ", members[first]});
        if (last != first) words += text({"..", members[last]});
        first = last + 1;
    }
    return words;
}
/// Whether ranks have other numbers in a team than in the program.
[[nodiscard]] inline bool is_renumbered(const rank_list& members) noexcept {
    for (int i = 0; i < members.size(); ++i)
        if (members[i] != i) return true;
    return false;
}
/// "1st", "2nd".
[[nodiscard]] inline std::string ordinal(std::size_t number) {
    const bool is_teen = number / 10 % 10 == 1;
    const char* const ends[] = {"th", "st", "nd", "rd"};
    return text({number, ends[!is_teen && number % 10 < 4 ? number % 10 : 0]});
}
/// "program.cpp:34"
[[nodiscard]] inline std::string text_of(const source_place& at) {
    const std::string_view path = at.file;
    return text({path.substr(path.find_last_of('/') + 1), ":", at.line});
}
/// "receive from rank 2, tag 7 (its 3rd call, program.cpp:34)"
[[nodiscard]] inline std::string text_of(const explored_call& call, std::size_t number) {
    std::string words = call.what;
    if (call.to >= 0) words += text({" to rank ", call.to});
    if (call.from >= 0) words += text({" from rank ", call.from});
    if (call.from == -2) words += " from any rank";
    if (call.is_message && call.label == -2) words += ", any tag";
    if (call.is_message && call.label > 0) words += text({", tag ", call.label});
    if (call.team != nullptr) words += (call.is_message ? " in " : " of ") + text_of_team(*call.team);
    words += " (its " + ordinal(number) + " call";
    if (call.at.file != nullptr) words += ", " + text_of(call.at);
    return words + ")";
}

}  // namespace allfold::detail
