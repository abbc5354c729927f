// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "examples/csv_index/parser.hpp"
#include <allfold/collective/barrier.hpp>
#include <allfold/collective/broadcast.hpp>
#include <allfold/collective/exclusive_scan.hpp>
#include <allfold/data/partition.hpp>

/// @file
/// The index of a file, made by all ranks together or by a single one.

namespace examples {

/// Where each record begins, and where the last one ends: record i is the bytes from starts[i] to starts[i + 1].
struct file_index {
    std::vector<std::uint64_t> starts{};
    bool is_closed = true;  ///< no quote is left open at the end

    [[nodiscard]] std::size_t records() const { return starts.size() - 1; }
    friend bool operator==(const file_index&, const file_index&) = default;
};

/// Excel and other programs put the byte order mark of UTF-8 at the beginning of a file; it is not part of the first
/// field.
[[nodiscard]] inline std::size_t first_byte(std::string_view text) { return text.starts_with("\xEF\xBB\xBF") ? 3 : 0; }

/// Whether the last record has no line break, which is allowed.
[[nodiscard]] inline bool ends_within_record(std::string_view text, state at_end) {
    return at_end == state::quoted || text.back() != '\n';
}

/// Makes the index sequentially; reuses the memory of `index`.
inline void make_index(std::string_view text, file_index& index) {
    const std::size_t begin = first_byte(text);
    index.starts.assign(1, begin);
    const state at_end = read_sequentially(text, begin, index.starts);
    if (ends_within_record(text, at_end)) index.starts.push_back(text.size());
    index.is_closed = at_end != state::quoted;
}

/// The stretches of a rank, whose memory it keeps from one file to the next.
template <std::size_t N>
using stretches_of_rank = std::array<stretch, N>;

/// Makes the index on all ranks of `comm`, which share `index`. Every rank reads its part of the text once.
template <class Communicator, std::size_t N>
void make_index(Communicator& comm, std::string_view text, file_index& index, stretches_of_rank<N>& stretches) {
    using allfold::partition;
    const int last = comm.size() - 1;
    const std::size_t begin = first_byte(text);
    const auto own = partition::even(text.size() - begin, comm.size()).bounds_of(comm.rank());
    const partition cut = partition::even(own.end - own.begin, static_cast<int>(N));
    for (std::size_t k = 0; k < N; ++k) {
        const auto [from, to] = cut.bounds_of(static_cast<int>(k));
        stretches[k].clear(begin + own.begin + from, begin + own.begin + to);
    }
    read(text, stretches);
    piece mine;
    for (const stretch& each : stretches) mine = then(mine, each.does);

    // Tells each rank in which state it begins, and in which record.
    const piece before = allfold::exclusive_scan(comm, std::as_const(mine), composition);
    piece whole = then(before, mine);
    if (comm.rank() == last) {
        const state at_end = whole.to[index_of(state::field_start)];
        const bool is_open = ends_within_record(text, at_end);
        index.starts.resize(whole.records[index_of(state::field_start)] + 1 + (is_open ? 1 : 0));
        index.starts.back() = text.size();
        index.is_closed = at_end != state::quoted;
    }
    allfold::broadcast(comm, whole, allfold::root{last});  // now the index has its length

    if (comm.rank() == 0) index.starts[0] = begin;
    state now = before.to[index_of(state::field_start)];
    std::uint64_t* next = index.starts.data() + before.records[index_of(state::field_start)];
    for (const stretch& each : stretches) {
        for (const line_break& at : each.breaks)
            if (at.ends_record(now)) *++next = at.offset() + 1;
        now = each.does.to[index_of(now)];
    }
    allfold::barrier(comm);
}

}  // namespace examples
