// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "allfold/engine/operands.hpp"

/// @file
/// Detects changes to memory that is in flight. Only a communicator that asks for this pays for it.

namespace allfold::detail {

/// A communicator that wants to know of operations whose memory the program has changed.
template <class Comm>
concept watching_memory = requires(Comm& comm, const waiting& where) { comm.note_changed(where); };

/// A hash of some bytes, chained onto the hash `before`.
[[nodiscard]] inline std::uint64_t hash_of_memory(const std::byte* data, std::size_t bytes, std::uint64_t before = 0) {
    std::uint64_t all = before ^ 0xcbf29ce484222325u;
    for (std::size_t i = 0; i < bytes; ++i) all = (all ^ std::to_integer<std::uint64_t>(data[i])) * 0x100000001b3u;
    return all;
}
/// A hash of the input of a collective whose rows are plain bytes; 0 if the input is also written.
[[nodiscard]] inline std::uint64_t hash_of_input(const row_layout& rows, const operands& memory, std::size_t count) {
    if (memory.in_place || count == 0 || !rows.functions->copyable) return 0;
    std::uint64_t all = 0;
    for (std::size_t row = 0; row < count; ++row)
        for (std::size_t column = 0; column < rows.columns(); ++column)
            all = hash_of_memory(rows.address(memory.input.first + row, column), rows.bytes[column], all);
    return all;
}

}  // namespace allfold::detail
