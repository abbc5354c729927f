// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "allfold/error.hpp"
#include "allfold/message/detail/post_office.hpp"
#include "allfold/transport/communicator.hpp"

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
    lane first = 0;
    unsigned lanes = 0;
    std::uint32_t number = 0;  // of its send, on its communicator
    source_place at;
};

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
    words += " (its " + ordinal(number) + " call";
    if (call.at.file != nullptr) words += ", " + text_of(call.at);
    return words + ")";
}

}  // namespace allfold::detail
