// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>

#include "allfold/algebra/elementwise.hpp"
#include "allfold/algebra/operator.hpp"
#include "allfold/engine/store.hpp"
#include "allfold/schedule/canonical_tree.hpp"

/// @file
/// The one loop under every collective: fold k sources in order, store to l targets.

namespace allfold::detail {

template <class Element>
struct columns_of {
    using types = std::tuple<Element>;
};
template <class... Ts>
struct columns_of<row<Ts...>> {
    using types = std::tuple<Ts...>;
};

/// Where some rows lie: the address of the first of them in each column. Typed only inside the kernel, so that all
/// else is compiled once for all element types with the same number of columns.
template <std::size_t Columns>
using place = std::array<std::byte*, Columns>;

/// The operation that only moves.
struct no_fold {};

/// Folds and copies rows of `Element`: single values of type T, or `row<Ts...>` with `width[c]` values in column c.
template <class Op, class Element>
class kernel {
  public:
    using types = typename columns_of<Element>::types;
    static constexpr std::size_t columns = std::tuple_size_v<types>;
    using place_type = place<columns>;
    using widths = std::array<std::size_t, columns>;

    template <std::size_t C>
    using column_type = std::tuple_element_t<C, types>;

    /// Whether rows are bytes to a transport, rather than objects.
    static constexpr bool copyable = []<std::size_t... C>(std::index_sequence<C...>) {
        return (std::is_trivially_copyable_v<column_type<C>> && ...);
    }(std::make_index_sequence<columns>{});
    static constexpr std::size_t alignment = []<std::size_t... C>(std::index_sequence<C...>) {
        return std::max({alignof(column_type<C>)...});
    }(std::make_index_sequence<columns>{});
    /// Whether a transport may pack rows into memory of its own, which is aligned to a cache line.
    static constexpr bool packable = copyable && alignment <= 64;
    static_assert(copyable || columns == 1,
                  "allfold: records fold rows of trivially copyable elements; fold a range of "
                  "structs instead when an element owns memory");

    kernel(const Op& op, const widths& width) : op_(op), width_(width) {
        for_each_column([&]<std::size_t C>() {
            bytes_[C] = width_[C] * sizeof(column_type<C>);
            row_bytes_ += bytes_[C];
        });
    }

    [[nodiscard]] const Op& operation() const noexcept { return op_; }
    [[nodiscard]] std::size_t row_bytes(std::size_t column) const noexcept { return bytes_[column]; }
    [[nodiscard]] std::size_t row_bytes() const noexcept { return row_bytes_; }
    /// Of a message of so many rows: the columns one behind the other, each aligned.
    [[nodiscard]] std::size_t packed_bytes(std::size_t rows) const noexcept {
        std::size_t bytes = 0;
        for (std::size_t c = 0; c < columns; ++c) bytes += align_up(rows * bytes_[c], alignment);
        return bytes;
    }
    [[nodiscard]] place_type advance(place_type at, std::size_t rows) const noexcept {
        for (std::size_t c = 0; c < columns; ++c)
            if (at[c]) at[c] += rows * bytes_[c];
        return at;
    }

    /// to ← from, which may be the same place.
    void copy(const place_type& from, const place_type& to, std::size_t rows, store how = store::plain) const {
        if (from == to || rows == 0) return;
        for_each_column([&]<std::size_t C>() {
            if constexpr (copyable)
                store_bytes(to[C], from[C], rows * bytes_[C], how);
            else
                std::copy_n(typed<C>(from), rows * width_[C], typed<C>(to));
        });
    }

    /// to ← left ∘ right, where `to` may be `left` or `right`.
    void fold(const place_type& left, const place_type& right, const place_type& to, std::size_t rows) const {
        if constexpr (folds_rows<Op, Element>)
            fold_rows(left, right, to, rows);
        else
            for_each_column(
                [&]<std::size_t C>() { fold_values(typed<C>(left), typed<C>(right), typed<C>(to), rows * width_[C]); });
    }

    /// to ← the identity in every row, where the operator knows one.
    void set_identity(const place_type& to, std::size_t rows) const {
        if constexpr (folds_rows<Op, Element>)
            for_each_row(to, rows, [&](auto out) {
                if constexpr (requires { op_.set_identity(out); }) op_.set_identity(out);
            });
        else if constexpr (operator_with_identity<Op, Element>)
            std::fill_n(typed<0>(to), rows * width_[0], identity_of<Element>(op_));
    }

    /// Every target ← the canonical tree of the sources. A target may be a source.
    void fold(std::span<const place_type> sources, std::span<const place_type> targets, std::size_t rows,
              store how = store::plain) const {
        if (rows * row_bytes_ == 0) return;
        if (sources.size() == 1) {
            for (const place_type& target : targets) copy(sources[0], target, rows, how);
        } else if (sources.size() == 2 && targets.size() == 1 && how == store::plain) {
            fold(sources[0], sources[1], targets[0], rows);
        } else if constexpr (copyable) {
            fold_in_chunks(sources, targets, rows, how);
        } else {
            for (std::size_t i = 0; i < rows; ++i) {
                auto value = fold_tree_of_objects(sources, 0, static_cast<int>(sources.size()), i);
                for (const place_type& target : targets) typed<0>(target)[i] = value;
            }
        }
    }

  private:
    template <class F>
    static constexpr void for_each_column(F f) {
        [&]<std::size_t... C>(std::index_sequence<C...>) {
            (f.template operator()<C>(), ...);
        }(std::make_index_sequence<columns>{});
    }
    template <std::size_t C>
    [[nodiscard]] static column_type<C>* typed(const place_type& at) noexcept {
        return reinterpret_cast<column_type<C>*>(at[C]);
    }

    template <class T>
    void fold_values(const T* left, const T* right, T* to, std::size_t count) const {
        elementwise<touches::anything>(left, right, to, count,
                                       [this](const T& a, const T& b) -> T { return op_(a, b); });
    }

    void fold_rows(const place_type& left, const place_type& right, const place_type& to, std::size_t rows) const {
        [&]<std::size_t... C>(std::index_sequence<C...>) {
            for (std::size_t i = 0; i < rows; ++i)
                op_(std::tuple(std::span<const column_type<C>>(typed<C>(left) + i * width_[C], width_[C])...),
                    std::tuple(std::span<const column_type<C>>(typed<C>(right) + i * width_[C], width_[C])...),
                    std::tuple(std::span<column_type<C>>(typed<C>(to) + i * width_[C], width_[C])...));
        }(std::make_index_sequence<columns>{});
    }

    template <class Visit>
    void for_each_row(const place_type& at, std::size_t rows, Visit visit) const {
        [&]<std::size_t... C>(std::index_sequence<C...>) {
            for (std::size_t i = 0; i < rows; ++i)
                visit(std::tuple(std::span<column_type<C>>(typed<C>(at) + i * width_[C], width_[C])...));
        }(std::make_index_sequence<columns>{});
    }

    [[nodiscard]] auto fold_tree_of_objects(std::span<const place_type> sources, int low, int high,
                                            std::size_t i) const {
        using value = column_type<0>;
        const int size = static_cast<int>(sources.size());
        const auto recurse = [&](const auto& self, int from, int to) -> value {
            if (to - from == 1) return typed<0>(sources[static_cast<std::size_t>(from)])[i];
            const int cut = canonical_cut(size, from, to);
            return op_(self(self, from, cut), self(self, cut, to));
        };
        return recurse(recurse, low, high);
    }

    /// A few kilobytes at a time, so that partial folds stay in the first-level cache and go to memory once.
    void fold_in_chunks(std::span<const place_type> sources, std::span<const place_type> targets, std::size_t rows,
                        store how) const {
        const int size = static_cast<int>(sources.size());
        const auto levels = static_cast<std::size_t>(power_of_two_fold(size).rounds());
        const std::size_t chunk_rows = std::max<std::size_t>(1, chunk_bytes / row_bytes_);
        const std::size_t buffer_bytes = buffer_size(chunk_rows);
        alignas(buffer_alignment) std::byte nearby[stack_bytes];
        std::unique_ptr<std::byte[]> far;
        std::byte* memory = nearby;
        if (levels * buffer_bytes > stack_bytes) {
            far = std::make_unique_for_overwrite<std::byte[]>(levels * buffer_bytes + buffer_alignment);
            memory = far.get() + (buffer_alignment - reinterpret_cast<std::uintptr_t>(far.get()) % buffer_alignment);
        }
        std::size_t count = std::min(rows, rows_to_line_border(targets, chunk_rows));
        for (std::size_t done = 0; done < rows; done += count, count = std::min(chunk_rows, rows - done)) {
            const chunk all{sources, done, count, memory, buffer_bytes};
            const place_type value = fold_tree(all, 0, size, 0);
            for (const place_type& target : targets) copy(value, advance(target, done), count, how);
        }
        if (how == store::streaming) finish_streams();
    }

    /// How many rows make the first chunk end where a cache line of the first target does, so that all other chunks
    /// store whole lines.
    [[nodiscard]] std::size_t rows_to_line_border(std::span<const place_type> targets,
                                                  std::size_t chunk_rows) const noexcept {
        constexpr std::size_t line = 64;
        if (columns > 1 || targets.empty() || line % row_bytes_ != 0 || chunk_rows * row_bytes_ % line != 0)
            return chunk_rows;
        const std::size_t behind = reinterpret_cast<std::uintptr_t>(targets[0][0]) % line;
        return behind == 0 ? chunk_rows : (line - behind) / row_bytes_ + chunk_rows - line / row_bytes_;
    }

    struct chunk {
        std::span<const place_type> sources;
        std::size_t first;
        std::size_t rows;
        std::byte* memory;
        std::size_t buffer_bytes;
    };
    /// The value of the tree's node [low, high): a source, or buffer `depth`. The left child uses its parent's buffer.
    [[nodiscard]] place_type fold_tree(const chunk& all, int low, int high, std::size_t depth) const {
        if (high - low == 1) return advance(all.sources[static_cast<std::size_t>(low)], all.first);
        const int cut = canonical_cut(static_cast<int>(all.sources.size()), low, high);
        const place_type left = fold_tree(all, low, cut, depth);
        const place_type right = fold_tree(all, cut, high, depth + 1);
        const place_type to = buffer(all, depth);
        fold(left, right, to, all.rows);
        return to;
    }
    [[nodiscard]] place_type buffer(const chunk& all, std::size_t depth) const noexcept {
        place_type at{};
        std::byte* next = all.memory + depth * all.buffer_bytes;
        for (std::size_t c = 0; c < columns; ++c) {
            at[c] = next;
            next += align_up(all.rows * bytes_[c], buffer_alignment);
        }
        return at;
    }
    [[nodiscard]] std::size_t buffer_size(std::size_t rows) const noexcept {
        std::size_t bytes = 0;
        for (std::size_t c = 0; c < columns; ++c) bytes += align_up(rows * bytes_[c], buffer_alignment);
        return bytes;
    }

    static constexpr std::size_t buffer_alignment = std::max<std::size_t>(64, alignment);
    static constexpr std::size_t chunk_bytes = 4096;
    static constexpr std::size_t stack_bytes = 16384;

    [[no_unique_address]] Op op_;
    widths width_;
    std::array<std::size_t, columns> bytes_{};
    std::size_t row_bytes_ = 0;
};

/// The kernel of the collectives that move elements and fold none.
template <class Element>
using moving_kernel = kernel<no_fold, Element>;

}  // namespace allfold::detail
