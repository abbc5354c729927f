// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "allfold/engine/rows.hpp"
#include "allfold/engine/scratch.hpp"
#include "allfold/engine/store.hpp"

/// @file
/// All prefixes of the operands in a single pass: each operand is read once, and each prefix is written once.

namespace allfold::detail {

/// Whether some target i is also source i + 1.
[[nodiscard]] inline bool overwrites_next(const row_layout& all, std::span<const place> sources,
                                          std::span<const place> targets) noexcept {
    for (std::size_t i = 0; i + 1 < sources.size(); ++i)
        for (std::size_t c = 0; c < all.columns(); ++c)
            if (all.address(targets[i], c) == all.address(sources[i + 1], c)) return true;
    return false;
}

/// Target i ← source 0 ∘ ... ∘ source i, folded from left to right. Target i may be source i, or source i + 1. Works on
/// a few kilobytes at a time, so that the previous prefix is still in the first-level cache.
///
/// With streaming stores, each prefix is stored before the next one is folded: the other order took 1.3 times as long
/// where cores are far from each other.
inline void fold_prefixes(const row_layout& all, std::span<const place> sources, std::span<const place> targets,
                          std::size_t rows, store_modes how = {}) {
    if (sources.empty() || rows * all.row_bytes == 0) return;
    if (row_layout::are_scattered(sources) || row_layout::are_scattered(targets)) [[unlikely]]
        return all.in_runs(sources, targets, rows,
                           [&](std::span<const place> from, std::span<const place> to, std::size_t count) {
                               fold_prefixes(all, from, to, count, how);
                           });
    const bool stores_later = overwrites_next(all, sources, targets);  // only once the next source has been read
    const bool in_buffers = stores_later || how.any_streams();
    const std::size_t chunk_rows = all.chunk_rows();
    std::array<scratch, 2> buffers;
    if (in_buffers && sources.size() > 1)
        for (scratch& each : buffers) each.allocate(all, std::min(rows, chunk_rows), sources[0]);
    std::size_t count = std::min(rows, all.rows_to_line_border(targets, chunk_rows));
    for (std::size_t done = 0; done < rows; done += count, count = std::min(chunk_rows, rows - done)) {
        const auto put = [&](const place& prefix, std::size_t i) {
            all.copy(prefix, targets[i] + done, count, how[i]);
        };
        place prefix = sources[0] + done;
        if (!stores_later) put(prefix, 0);
        for (std::size_t i = 1; i < sources.size(); ++i) {
            const place next = in_buffers ? buffers[i % 2].first() : targets[i] + done;
            all.fold(prefix, sources[i] + done, next, count);
            if (stores_later)
                put(prefix, i - 1);
            else
                put(next, i);
            prefix = next;
        }
        if (stores_later) put(prefix, sources.size() - 1);
    }
    if (how.any_streams()) finish_streams();
}

/// Sets rows to the identity, if the operator has one.
inline void fill_with_identity(const row_layout& all, const place& to, std::size_t rows, store how) {
    if (all.functions->set_identity == nullptr || rows * all.row_bytes == 0) return;
    if (how != store::streaming) return all.set_identity(to, rows);
    const std::size_t chunk_rows = std::min(rows, all.chunk_rows());
    scratch identity;
    identity.allocate(all, chunk_rows, to);
    all.functions->set_identity(all, identity.first(), chunk_rows);
    for (std::size_t done = 0; done < rows; done += chunk_rows)
        all.copy(identity.first(), to + done, std::min(chunk_rows, rows - done), how);
    finish_streams();
}

}  // namespace allfold::detail
