// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "allfold/data/detail/heap_array.hpp"
#include "allfold/engine/detail/small_array.hpp"
#include "allfold/engine/store.hpp"
#include "allfold/schedule/canonical_tree.hpp"
#include "allfold/transport/detail/copy.hpp"

/// @file
/// Rows as the engine sees them: their length, and a table of what can be done to them. This is the only seam between
/// typed code (the call, and the loops over elements) and untyped code.

namespace allfold::detail {

/// Rows of one column that lie in several pieces of memory.
class scattered {
  public:
    struct piece {
        std::byte* first;
        std::size_t end;  ///< one past the number of its last row
    };
    /// Rows from a given one on that are contiguous.
    struct run {
        std::byte* first;
        std::size_t rows;
    };

    scattered() = default;
    /// Pieces that are owned elsewhere, none of them empty.
    explicit scattered(std::span<piece> all) noexcept : pieces_(all) {}

    void reserve(std::size_t pieces) {
        if (pieces > own_.size()) grow(pieces);
    }
    void add(std::byte* first, std::size_t rows) {
        if (rows == 0) return;
        if (pieces_.size() >= own_.size()) grow(std::max<std::size_t>(4, 2 * pieces_.size()));
        const std::size_t end = (pieces_.empty() ? 0 : pieces_.back().end) + rows;
        pieces_ = {own_.data(), pieces_.size() + 1};
        pieces_.back() = {first, end};
    }
    [[nodiscard]] run at(std::size_t row, std::size_t row_bytes) const noexcept {
        return run_from(find(row), row, row_bytes);
    }
    [[nodiscard]] std::size_t size() const noexcept { return pieces_.size(); }
    /// Calls visit(first, rows) for each piece.
    template <class Visit>
    void for_each(Visit visit) const {
        std::size_t begin = 0;
        for (const piece& each : pieces_) visit(each.first, each.end - std::exchange(begin, each.end));
    }
    /// Calls visit(first, rows) for each contiguous run of the rows from a given one on.
    template <class Visit>
    void for_each_run(std::size_t row, std::size_t rows, std::size_t row_bytes, Visit visit) const {
        if (rows == 0) return;
        const piece* each = find(row);
        for (run here = run_from(each, row, row_bytes);; ++each, here = {each->first, each->end - each[-1].end}) {
            const std::size_t count = std::min(rows, here.rows);
            visit(here.first, count);
            rows -= count;
            if (rows == 0) return;
        }
    }

  private:
    friend class run_cursor;

    /// The piece that contains a row.
    [[nodiscard]] const piece* find(std::size_t row) const noexcept {
        const piece* const first = pieces_.data();
        if (!pieces_.empty() && row < first->end) return first;
        return std::upper_bound(first, end(), row, [](std::size_t r, const piece& one) { return r < one.end; });
    }
    [[nodiscard]] run run_from(const piece* found, std::size_t row, std::size_t row_bytes) const noexcept {
        if (found == end()) return {nullptr, 0};
        const std::size_t begin = found == pieces_.data() ? 0 : std::prev(found)->end;
        return {found->first + (row - begin) * row_bytes, found->end - row};
    }
    [[nodiscard]] const piece* end() const noexcept { return pieces_.data() + pieces_.size(); }
    [[gnu::cold, gnu::noinline]] void grow(std::size_t pieces) {
        heap_array<piece> larger(pieces);
        std::copy(pieces_.begin(), pieces_.end(), larger.data());
        own_ = std::move(larger);
        pieces_ = {own_.data(), pieces_.size()};
    }

    std::span<piece> pieces_;
    heap_array<piece> own_;
};

/// Where some rows lie: the beginning of each column, and the number of the first row relative to it.
struct place {
    std::byte* const* columns;
    std::size_t row;
    const scattered* pieces = nullptr;  ///< used instead if they lie in several pieces, which form a single column

    [[nodiscard]] friend place operator+(place at, std::size_t rows) noexcept {
        return {at.columns, at.row + rows, at.pieces};
    }
};

/// Visits rows of a single column from some place on, one contiguous run at a time.
class run_cursor {
  public:
    run_cursor() = default;
    run_cursor(const place& at, std::size_t row_bytes) noexcept : row_bytes_(row_bytes) {
        if (at.pieces == nullptr) {
            now_ = {at.columns[0] + at.row * row_bytes, static_cast<std::size_t>(-1)};
            piece_ = end_ = nullptr;
        } else {
            const scattered::piece* const found = at.pieces->find(at.row);
            now_ = at.pieces->run_from(found, at.row, row_bytes);
            piece_ = found;
            end_ = at.pieces->end();
        }
    }
    /// The address of the current row. The address of the pointer itself does not change.
    [[nodiscard]] std::byte* const& first() const noexcept { return now_.first; }
    /// How many rows are left in the run, this one included.
    [[nodiscard]] std::size_t rows() const noexcept { return now_.rows; }
    /// Skips `rows` of these.
    void advance(std::size_t rows) noexcept {
        now_.first += rows * row_bytes_;
        now_.rows -= rows;
        if (now_.rows != 0 || ++piece_ == end_) return;
        now_ = {piece_->first, piece_->end - std::prev(piece_)->end};
    }

  private:
    scattered::run now_;
    std::size_t row_bytes_;
    const scattered::piece* piece_;  // null if all rows are a single run
    const scattered::piece* end_;
};

struct row_layout;

/// Elements that are objects, in memory of our own, which are destroyed with it.
class object_array {
  public:
    using destroy_function = void (*)(void* first, std::size_t count);

    object_array() = default;
    object_array(void* first, std::size_t count, destroy_function destroy) noexcept
        : first_(first), count_(count), destroy_(destroy) {}
    object_array(object_array&& other) noexcept { *this = std::move(other); }
    object_array& operator=(object_array&& other) noexcept {
        std::swap(first_, other.first_);
        std::swap(count_, other.count_);
        std::swap(destroy_, other.destroy_);
        return *this;
    }
    ~object_array() {
        if (first_ != nullptr) destroy_(first_, count_);
    }
    [[nodiscard]] std::byte* data() const noexcept { return static_cast<std::byte*>(first_); }
    [[nodiscard]] std::size_t size() const noexcept { return count_; }

  private:
    void* first_ = nullptr;
    std::size_t count_ = 0;
    destroy_function destroy_ = nullptr;
};

/// A node of a tree of folds: which two values are folded, and where the outcome is stored.
struct fold_node {
    std::uint8_t left, right, into;
};

/// What an operator does to rows of one type: one constant object per (operator, element).
struct row_functions {
    std::size_t columns = 1;
    std::size_t alignment = 1;
    bool copyable = true;  ///< to a transport, rows are bytes rather than objects

    /// to ← left ∘ right, where `to` may be `left` or `right`. Null in tables that only move data. If values are
    /// lifted, these two are all operands.
    void (*fold)(const row_layout&, const place& left, const place& right, const place& to, std::size_t rows) = nullptr;
    /// The same for elements that form a single column; null for all others.
    void (*fold_column)(const void* operation, const std::byte* left, const std::byte* right, std::byte* to,
                        std::size_t count) = nullptr;
    /// The same along a tree of such elements, whose last fold is stored in `to`; null for all others.
    void (*fold_columns)(const void* operation, std::span<const fold_node> tree, std::byte* const* values,
                         std::byte* to, std::size_t count) = nullptr;
    /// to ← the identity. Null if the operator has none.
    void (*set_identity)(const row_layout&, const place& to, std::size_t rows) = nullptr;
    /// Only for rows that are values as the caller has them; null for all others. Every target ← the canonical tree of
    /// the lifted sources, lowered.
    void (*fold_values)(const row_layout&, std::span<const place> sources, std::span<const place> targets,
                        std::size_t rows, store_modes how) = nullptr;
    /// Lowers folds to values in place. Null if they are the same, or of different types.
    void (*lower)(const row_layout&, const place& at, std::size_t rows, int contributions) = nullptr;

    // For objects, which form a single column.
    void (*copy)(const std::byte* from, std::byte* to, std::size_t count) = nullptr;
    void (*fold_tree)(const row_layout&, std::span<const place> sources, std::span<const place> targets,
                      std::size_t count) = nullptr;
    object_array (*make)(const std::byte* sample, std::size_t count) = nullptr;  ///< copies of the sample
    void (*encode)(const std::byte* from, std::size_t count, std::vector<std::byte>& to) = nullptr;
    object_array (*decode)(std::span<const std::byte> from) = nullptr;
};

/// The rows of one call. Everything it refers to belongs to the call's arguments.
struct row_layout {
    const row_functions* functions = nullptr;
    const void* operation = nullptr;
    const std::size_t* bytes = nullptr;  ///< of a row, for each column
    std::size_t row_bytes = 0;           ///< of a row, over all columns
    /// The alignment of each column, wherever rows lie: what their types require, or what the caller states for raw
    /// ones.
    std::size_t alignment = functions == nullptr ? 1 : functions->alignment;

    [[nodiscard]] std::size_t columns() const noexcept { return functions->columns; }
    /// Whether a transport may pack rows into its own memory, which is aligned to a cache line.
    [[nodiscard]] bool packable() const noexcept { return functions->copyable && alignment <= 64; }
    [[nodiscard]] std::byte* address(const place& at, std::size_t column) const noexcept {
        if (at.pieces != nullptr) [[unlikely]]
            return at.pieces->at(at.row, bytes[0]).first;
        return at.columns[column] + at.row * bytes[column];
    }
    /// Calls visit(address, rows) for each run of rows that are contiguous in a single column.
    template <class Visit>
    void for_each_run(const place& at, std::size_t rows, Visit visit) const {
        if (rows == 0) return;
        if (at.pieces == nullptr) return visit(address(at, 0), rows);
        at.pieces->for_each_run(at.row, rows, bytes[0], visit);
    }
    /// How many of these rows are contiguous, from the first one on.
    [[nodiscard]] std::size_t run(const place& at, std::size_t rows) const noexcept {
        return at.pieces == nullptr ? rows : std::min(rows, at.pieces->at(at.row, bytes[0]).rows);
    }
    /// The size of a message of `rows` rows: one column after another, each aligned.
    [[nodiscard]] std::size_t packed_bytes(std::size_t rows) const noexcept {
        std::size_t all = 0;
        for (std::size_t c = 0; c < columns(); ++c) all += align_up(rows * bytes[c], alignment);
        return all;
    }

    /// to ← from, which may be the same place.
    void copy(const place& from, const place& to, std::size_t rows, store how = store::plain) const {
        if (from.pieces != nullptr || to.pieces != nullptr) [[unlikely]]
            return copy_pieces(from, to, rows, how);
        for (std::size_t c = 0; rows > 0 && c < columns(); ++c)
            copy_run(address(from, c), address(to, c), rows, c, how);
    }
    void fold(const place& left, const place& right, const place& to, std::size_t rows) const {
        if (left.pieces != nullptr || right.pieces != nullptr || to.pieces != nullptr) [[unlikely]]
            return along_runs(
                std::array{run_cursor(left, bytes[0]), run_cursor(right, bytes[0]), run_cursor(to, bytes[0])}, rows,
                [&](const auto& all, std::size_t count) {
                    functions->fold_column(operation, all[0].first(), all[1].first(), all[2].first(), count);
                });
        functions->fold(*this, left, right, to, rows);
    }
    void set_identity(const place& to, std::size_t rows) const {
        in_runs(std::array{to}, rows,
                [&](const auto& run, std::size_t count) { functions->set_identity(*this, run[0], count); });
    }
    void lower(const place& at, std::size_t rows, int contributions) const {
        in_runs(std::array{at}, rows,
                [&](const auto& run, std::size_t count) { functions->lower(*this, run[0], count, contributions); });
    }
    /// Every target ← the canonical tree of the sources. A target may be a source.
    /// `contributions`: if it is more than 0, the fold is complete, and is lowered if the operator can do that in
    /// place.
    void fold(std::span<const place> sources, std::span<const place> targets, std::size_t rows, store_modes how = {},
              int contributions = 0) const {
        if (rows * row_bytes == 0) return;
        if (are_scattered(sources) || are_scattered(targets)) [[unlikely]]
            return in_runs(sources, targets, rows,
                           [&](std::span<const place> from, std::span<const place> to, std::size_t count) {
                               fold(from, to, count, how, contributions);
                           });
        if (functions->fold_values != nullptr) return functions->fold_values(*this, sources, targets, rows, how);
        if (!functions->copyable) return functions->fold_tree(*this, sources, targets, rows);
        const bool lowers = contributions > 0 && functions->lower != nullptr;
        if (sources.size() == 1 && !lowers) {
            for (std::size_t i = 0; i < targets.size(); ++i) copy(sources[0], targets[i], rows, how[i]);
        } else if (sources.size() == 2 && targets.size() == 1 && how[0] == store::plain && !lowers) {
            fold(sources[0], sources[1], targets[0], rows);
        } else {
            fold_in_chunks(sources, targets, rows, how, lowers ? contributions : 0);
        }
    }

    [[nodiscard]] static bool are_scattered(std::span<const place> places) noexcept {
        return std::any_of(places.begin(), places.end(), [](const place& each) { return each.pieces != nullptr; });
    }
    /// Calls visit(sources, targets, rows) for each run of rows that are contiguous at all of these places.
    template <class Visit>
    void in_runs(std::span<const place> sources, std::span<const place> targets, std::size_t rows, Visit visit) const {
        small_array<place, 16> all;
        all.resize(sources.size() + targets.size());
        std::copy(sources.begin(), sources.end(), all.data());
        std::copy(targets.begin(), targets.end(), all.data() + sources.size());
        small_array<place, 16> runs;
        small_array<run_cursor, 16> cursors;
        runs.resize(all.size());
        cursors.resize(all.size());
        in_runs_of(all.span(), runs.span(), cursors.data(), rows, [&](std::size_t count) {
            visit(std::span<const place>(runs.data(), sources.size()),
                  std::span<const place>(runs.data() + sources.size(), targets.size()), count);
        });
    }

    /// The same for a few places.
    template <std::size_t Places, class Visit>
    void in_runs(const std::array<place, Places>& places, std::size_t rows, Visit visit) const {
        if (!are_scattered(places)) return visit(places, rows);
        std::array<place, Places> runs{};
        std::array<run_cursor, Places> cursors;
        in_runs_of(places, runs, cursors.data(), rows, [&](std::size_t count) { visit(runs, count); });
    }

    /// How many rows are processed at a time, so that intermediate results stay in the first-level cache.
    [[nodiscard]] std::size_t chunk_rows() const noexcept { return std::max<std::size_t>(1, chunk_bytes / row_bytes); }
    /// How many rows the first chunk must have to end at a cache line boundary of the first target, so that all other
    /// chunks store whole lines.
    [[nodiscard]] std::size_t rows_to_line_border(std::span<const place> targets,
                                                  std::size_t chunk_rows) const noexcept;

  private:
    /// Calls visit(rows) with `runs` set. `cursors`: used for the places that are scattered.
    template <class Visit>
    void in_runs_of(std::span<const place> places, std::span<place> runs, run_cursor* cursors, std::size_t rows,
                    Visit visit) const {
        for (std::size_t i = 0; i < places.size(); ++i) {
            runs[i] = places[i];
            if (places[i].pieces == nullptr) continue;
            cursors[i] = run_cursor(places[i], bytes[0]);
            runs[i] = {&cursors[i].first(), 0};
        }
        for (std::size_t done = 0, count = 0; done < rows; done += count) {
            count = rows - done;
            for (std::size_t i = 0; i < places.size(); ++i)
                if (places[i].pieces != nullptr) count = std::min(count, cursors[i].rows());
            visit(count);
            for (std::size_t i = 0; i < places.size(); ++i)
                if (places[i].pieces != nullptr)
                    cursors[i].advance(count);
                else
                    runs[i].row += count;
        }
    }
    /// Calls visit(cursors, rows) for each run of rows that are contiguous at all of them.
    template <std::size_t Cursors, class Visit>
    static void along_runs(std::array<run_cursor, Cursors> all, std::size_t rows, Visit visit) {
        while (rows > 0) {
            std::size_t count = rows;
            for (const run_cursor& each : all) count = std::min(count, each.rows());
            visit(all, count);
            for (run_cursor& each : all) each.advance(count);
            rows -= count;
        }
    }
    void copy_pieces(const place& from, const place& to, std::size_t rows, store how) const {
        if (from.pieces == nullptr || to.pieces == nullptr) return copy_one_run(from, to, rows, how);
        along_runs(
            std::array{run_cursor(from, bytes[0]), run_cursor(to, bytes[0])}, rows,
            [&](const auto& all, std::size_t count) { copy_run(all[0].first(), all[1].first(), count, 0, how); });
    }
    /// The same if one of the places is contiguous.
    void copy_one_run(const place& from, const place& to, std::size_t rows, store how) const {
        const bool collects = from.pieces != nullptr, are_bytes = functions->copyable && how != store::streaming;
        const place& pieces = collects ? from : to;
        const std::size_t each = bytes[0];
        std::byte* at = address(collects ? to : from, 0);
        pieces.pieces->for_each_run(pieces.row, rows, each, [&, each](std::byte* piece, std::size_t count) {
            const std::size_t length = count * each;
            std::byte* const source = collects ? piece : at;
            std::byte* const target = collects ? at : piece;
            if (are_bytes && length <= max_short)
                copy_short(target, source, length);
            else
                copy_run(source, target, count, 0, how);
            at += length;
        });
    }
    /// Copies contiguous rows of column c.
    void copy_run(const std::byte* from, std::byte* to, std::size_t rows, std::size_t c, store how) const {
        if (from == to) return;
        if (functions->copyable)
            store_bytes(to, from, rows * bytes[c], how);
        else
            functions->copy(from, to, rows);
    }

    struct chunk {
        std::span<const place> sources;
        std::size_t first;
        std::size_t rows;
        std::byte* const* buffers;  ///< where the columns of each buffer begin, buffer by buffer
    };

    static constexpr std::size_t chunk_bytes = 4096;
    static constexpr std::size_t stack_bytes = 16384;
    static constexpr std::size_t buffer_alignment = 64;

    void fold_in_chunks(std::span<const place> sources, std::span<const place> targets, std::size_t rows,
                        store_modes how, int contributions) const;
    [[nodiscard]] place fold_tree(const chunk& all, int low, int high, std::size_t depth,
                                  const place* into = nullptr) const;
};

/// Works on a few kilobytes at a time, so that partial folds stay in the first-level cache, and memory is written only
/// once.
inline void row_layout::fold_in_chunks(std::span<const place> sources, std::span<const place> targets, std::size_t rows,
                                       store_modes how, int contributions) const {
    const int size = static_cast<int>(sources.size());
    const auto levels = std::max<std::size_t>(1, static_cast<std::size_t>(power_of_two_fold(size).rounds()));
    const std::size_t chunk_rows = this->chunk_rows();
    const std::size_t line = std::max(buffer_alignment, alignment);
    std::size_t buffer_bytes = 0;
    for (std::size_t c = 0; c < columns(); ++c) buffer_bytes += align_up(chunk_rows * bytes[c], line);
    alignas(buffer_alignment) std::byte nearby[stack_bytes];
    heap_array<std::byte> far_memory;
    std::byte* next = nearby;
    if (levels * buffer_bytes > stack_bytes || line > buffer_alignment) {
        far_memory = heap_array<std::byte>(levels * buffer_bytes + line);
        next = far_memory.data() + (line - reinterpret_cast<std::uintptr_t>(far_memory.data()) % line);
    }
    small_array<std::byte*, 16> buffers;
    buffers.resize(levels * columns());
    for (std::size_t i = 0; i < buffers.size(); ++i) {
        buffers[i] = next;
        next += align_up(chunk_rows * bytes[i % columns()], line);
    }
    const std::size_t nearest = how.nearest(targets.size());
    const bool goes_there = nearest < targets.size() && contributions == 0;
    std::size_t count = std::min(rows, rows_to_line_border(targets, chunk_rows));
    for (std::size_t done = 0; done < rows; done += count, count = std::min(chunk_rows, rows - done)) {
        const chunk all{sources, done, count, buffers.data()};
        const place there = goes_there ? targets[nearest] + done : place{};
        place value = fold_tree(all, 0, size, 0, goes_there ? &there : nullptr);
        if (contributions > 0) {
            const place own{buffers.data(), 0};
            copy(value, own, count);
            functions->lower(*this, own, count, contributions);
            value = own;
        }
        for (std::size_t i = 0; i < targets.size(); ++i) copy(value, targets[i] + done, count, how[i]);
    }
    if (how.any_streams()) finish_streams();
}

/// The value of the tree's node [low, high): a source, `into`, or buffer `depth`. The left child uses its parent's
/// buffer.
inline place row_layout::fold_tree(const chunk& all, int low, int high, std::size_t depth, const place* into) const {
    if (high - low == 1) return all.sources[static_cast<std::size_t>(low)] + all.first;
    const int cut = canonical_cut(static_cast<int>(all.sources.size()), low, high);
    const place left = fold_tree(all, low, cut, depth);
    const place right = fold_tree(all, cut, high, depth + 1);
    const place to = into != nullptr ? *into : place{all.buffers + depth * columns(), 0};
    fold(left, right, to, all.rows);
    return to;
}

inline std::size_t row_layout::rows_to_line_border(std::span<const place> targets,
                                                   std::size_t chunk_rows) const noexcept {
    constexpr std::size_t line = 64;
    if (columns() > 1 || targets.empty() || line % row_bytes != 0 || chunk_rows * row_bytes % line != 0)
        return chunk_rows;
    const std::size_t past = reinterpret_cast<std::uintptr_t>(address(targets[0], 0)) % line;
    return past == 0 ? chunk_rows : (line - past) / row_bytes + chunk_rows - line / row_bytes;
}

}  // namespace allfold::detail
