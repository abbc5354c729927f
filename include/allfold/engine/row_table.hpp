// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "allfold/algebra/elementwise.hpp"
#include "allfold/algebra/operator.hpp"
#include "allfold/algebra/stretch.hpp"
#include "allfold/data/detail/heap_array.hpp"
#include "allfold/data/serializer.hpp"
#include "allfold/engine/detail/small_array.hpp"
#include "allfold/engine/rows.hpp"
#include "allfold/engine/store.hpp"
#include "allfold/error.hpp"
#include "allfold/schedule/canonical_tree.hpp"

/// @file
/// The loops over elements: instantiated once per (operator, element), behind a table.

namespace allfold::detail {

/// The types of the columns of a row: T for single values, Ts... for `row<Ts...>`.
template <class Element>
struct columns_of {
    using types = std::tuple<Element>;
};
template <class... Ts>
struct columns_of<row<Ts...>> {
    using types = std::tuple<Ts...>;
};
template <class Element>
inline constexpr std::size_t column_count = std::tuple_size_v<typename columns_of<Element>::types>;
template <class Element, std::size_t C>
using column_type = std::tuple_element_t<C, typename columns_of<Element>::types>;

template <class F, std::size_t... C>
constexpr void for_each_index(std::index_sequence<C...>, F f) {
    (f.template operator()<C>(), ...);
}
template <class Element, class F>
constexpr void for_each_column(F f) {
    for_each_index(std::make_index_sequence<column_count<Element>>(), f);
}

template <class Tuple>
struct every_column;
template <class... Ts>
struct every_column<std::tuple<Ts...>> {
    static constexpr bool copyable = (std::is_trivially_copyable_v<Ts> && ...);
    static constexpr std::size_t alignment = std::max({alignof(Ts)...});
};

/// Stands for an operator where nothing is folded.
struct no_fold {};

template <class T>
[[nodiscard]] T* elements_at(const row_layout& all, const place& at, std::size_t column) noexcept {
    return reinterpret_cast<T*>(all.address(at, column));
}
template <class Op>
[[nodiscard]] const Op& operation_of(const row_layout& all) noexcept {
    return *static_cast<const Op*>(all.operation);
}

/// Row i of some rows, as an operator sees it.
template <class Element, class Row>
struct row_reader;
template <class Element, class... Ts>
struct row_reader<Element, row<Ts...>> {
    static row<Ts...> at(const row_layout& all, const place& from, std::size_t i) {
        return read(all, from, i, std::index_sequence_for<Ts...>());
    }
    template <std::size_t... C>
    static row<Ts...> read(const row_layout& all, const place& from, std::size_t i, std::index_sequence<C...>) {
        return {std::span<Ts>(elements_at<std::remove_const_t<Ts>>(all, from + i, C),
                              all.bytes[C] / sizeof(std::remove_const_t<Ts>))...};
    }
};
template <class Row>
struct constant_row;
template <class... Ts>
struct constant_row<row<Ts...>> {
    using type = row<const Ts...>;
};
template <class Element>
[[nodiscard]] Element row_at(const row_layout& all, const place& from, std::size_t i) {
    return row_reader<Element, Element>::at(all, from, i);
}
template <class Element>
[[nodiscard]] typename constant_row<Element>::type constant_row_at(const row_layout& all, const place& from,
                                                                   std::size_t i) {
    return row_reader<Element, typename constant_row<Element>::type>::at(all, from, i);
}

/// How many elements of column C there are in `rows` rows.
template <class Element, std::size_t C>
[[nodiscard]] std::size_t elements_in(const row_layout& all, std::size_t rows) noexcept {
    if constexpr (std::same_as<Element, column_type<Element, C>>)
        return rows;  // single values
    else
        return rows * (all.bytes[C] / sizeof(column_type<Element, C>));
}

/// Rows as seen by operators that take many at once: of column C, or of all columns.
template <class Element, std::size_t C, class T = column_type<Element, C>>
[[nodiscard]] stretch<T> stretch_at(const row_layout& all, const place& from, std::size_t rows) {
    return {elements_at<std::remove_const_t<T>>(all, from, C), rows, detail::elements_in<Element, C>(all, 1)};
}
template <class Element, class... Ts, std::size_t... C>
[[nodiscard]] stretches<Ts...> stretches_at(const row_layout& all, const place& from, std::size_t rows,
                                            std::type_identity<row<Ts...>>, std::index_sequence<C...>) {
    return {detail::stretch_at<Element, C, Ts>(all, from, rows)...};
}
template <class Row, class Element>
[[nodiscard]] auto stretches_at(const row_layout& all, const place& from, std::size_t rows) {
    return detail::stretches_at<Element>(all, from, rows, std::type_identity<Row>(),
                                         std::make_index_sequence<column_count<Element>>());
}

/// Row i of them, as seen by operators that take one at a time.
template <class... Ts>
[[nodiscard]] row<Ts...> row_of(const std::tuple<stretch<Ts>...>& rows, std::size_t i) {
    return std::apply([i](const auto&... each) { return row<Ts...>(each.row(i)...); }, rows);
}

template <class Op, class T>
void fold_column(const void* operation, const std::byte* left, const std::byte* right, std::byte* to,
                 std::size_t count) {
    const Op& op = *static_cast<const Op*>(operation);
    const T* const a = reinterpret_cast<const T*>(left);
    const T* const b = reinterpret_cast<const T*>(right);
    T* const out = reinterpret_cast<T*>(to);
    if constexpr (!folds_stretches<Op, T>)
        elementwise<touches::anything>(a, b, out, count,
                                       [&op](const T& x, const T& y) -> T { return static_cast<T>(op(x, y)); });
    else if (count != 0)
        op(stretch<const T>(a, count), stretch<const T>(b, count), stretch<T>(out, count));
}

template <class Op, class T>
void fold_columns(const void* operation, std::span<const fold_node> tree, std::byte* const* values, std::byte* to,
                  std::size_t count) {
    for (const fold_node& node : tree.first(tree.size() - 1))
        fold_column<Op, T>(operation, values[node.left], values[node.right], values[node.into], count);
    fold_column<Op, T>(operation, values[tree.back().left], values[tree.back().right], to, count);
}

template <class Op, class Element>
void fold_rows(const row_layout& all, const place& left, const place& right, const place& to, std::size_t rows) {
    [[maybe_unused]] const Op& op = operation_of<Op>(all);
    if constexpr (folds_rows<Op, Element> && has_parts<Op>) {  // one span per row and part would take 2.5x the time
        for_each_column<Element>([&]<std::size_t C>() {
            using T = column_type<Element, C>;
            const auto& part = op.template part<C>();
            fold_column<std::remove_cvref_t<decltype(part)>, T>(std::addressof(part), all.address(left, C),
                                                                all.address(right, C), all.address(to, C),
                                                                detail::elements_in<Element, C>(all, rows));
        });
    } else if constexpr (folds_rows<Op, Element>) {
        using constant = typename constant_row<Element>::type;
        if (rows == 0) return;
        const auto x = detail::stretches_at<constant, Element>(all, left, rows);
        const auto y = detail::stretches_at<constant, Element>(all, right, rows);
        const auto out = detail::stretches_at<Element, Element>(all, to, rows);
        if constexpr (folds_stretches<Op, Element>)
            op(x, y, out);
        else  // looking up each row anew takes 1.15x the time (merges of softmax states of 264 bytes)
            for (std::size_t i = 0; i < rows; ++i)
                op(detail::row_of(x, i), detail::row_of(y, i), detail::row_of(out, i));
    } else {
        for_each_column<Element>([&]<std::size_t C>() {
            using T = column_type<Element, C>;
            if constexpr (folds_stretches<Op, T>) {
                if (rows != 0)
                    op(detail::stretch_at<Element, C, const T>(all, left, rows),
                       detail::stretch_at<Element, C, const T>(all, right, rows),
                       detail::stretch_at<Element, C>(all, to, rows));
            } else
                fold_column<Op, T>(all.operation, all.address(left, C), all.address(right, C), all.address(to, C),
                                   detail::elements_in<Element, C>(all, rows));
        });
    }
}

/// Whether an operator has an identity for rows: for whole rows, or for each of their elements.
template <class Op, class Element>
inline constexpr bool has_identity = operator_with_identity<Op, Element>;
template <class Op, class... Ts>
    requires(!folds_rows<Op, row<Ts...>>)
inline constexpr bool has_identity<Op, row<Ts...>> = (operator_with_identity<Op, Ts> && ...);
template <class Op, class... Ts>
    requires folds_rows<Op, row<Ts...>>
inline constexpr bool has_identity<Op, row<Ts...>> = requires(const Op& op, row<Ts...> out) { op.set_identity(out); };

template <class Op, class Element>
void set_identity_of_rows(const row_layout& all, const place& to, std::size_t rows) {
    const Op& op = operation_of<Op>(all);
    if constexpr (folds_rows<Op, Element>) {
        for (std::size_t i = 0; i < rows; ++i) op.set_identity(detail::row_at<Element>(all, to, i));
    } else {
        for_each_column<Element>([&]<std::size_t C>() {
            using T = column_type<Element, C>;
            std::fill_n(elements_at<T>(all, to, C), detail::elements_in<Element, C>(all, rows), identity_of<T>(op));
        });
    }
}

/// Whether folds are lowered to values of the same types: if so, the pass that completes them can do it.
template <class Op, class Element>
inline constexpr bool lowers_in_place = requires(const Op& op, const Element& state, int contributions) {
    { op.lower(state, contributions) } -> std::same_as<Element>;
};
template <class Op, class... Ts>
    requires(!folds_rows<Op, row<Ts...>>)
inline constexpr bool lowers_in_place<Op, row<Ts...>> = (lowers_in_place<Op, Ts> && ...);
template <class Op, class... Ts>
    requires folds_rows<Op, row<Ts...>>
inline constexpr bool lowers_in_place<Op, row<Ts...>> = requires(
    const Op& op, row<const Ts...> state, int contributions, row<Ts...> out) { op.lower(state, contributions, out); };

template <class Op, class Element>
void lower_rows(const row_layout& all, const place& at, std::size_t rows, int contributions) {
    const Op& op = operation_of<Op>(all);
    if constexpr (folds_rows<Op, Element>) {
        for (std::size_t i = 0; i < rows; ++i)
            op.lower(detail::constant_row_at<Element>(all, at, i), contributions, detail::row_at<Element>(all, at, i));
    } else {
        for_each_column<Element>([&]<std::size_t C>() {
            using T = column_type<Element, C>;
            T* const values = elements_at<T>(all, at, C);
            const std::size_t count = detail::elements_in<Element, C>(all, rows);
            for (std::size_t i = 0; i < count; ++i) values[i] = op.lower(values[i], contributions);
        });
    }
}

// Objects

template <class T>
[[nodiscard]] object_array own_objects(void* first, std::size_t count) noexcept {
    return {first, count, [](void* begin, std::size_t n) {
                std::destroy_n(static_cast<T*>(begin), n);
                ::operator delete(begin, std::align_val_t{alignof(T)});
            }};
}
template <class T>
[[nodiscard]] void* memory_for(std::size_t count) {
    return ::operator new(count * sizeof(T), std::align_val_t{alignof(T)});
}

template <class T>
[[nodiscard]] object_array make_objects(const std::byte* sample, std::size_t count) {
    void* const memory = memory_for<T>(count);
    try {
        std::uninitialized_fill_n(static_cast<T*>(memory), count, *reinterpret_cast<const T*>(sample));
    } catch (...) {
        ::operator delete(memory, std::align_val_t{alignof(T)});
        throw;
    }
    return own_objects<T>(memory, count);
}

template <class T>
void copy_objects(const std::byte* from, std::byte* to, std::size_t count) {
    std::copy_n(reinterpret_cast<const T*>(from), count, reinterpret_cast<T*>(to));
}

template <class Op, class T>
[[nodiscard]] T fold_tree_of_objects(const row_layout& all, std::span<const place> sources, int low, int high,
                                     std::size_t i) {
    if (high - low == 1) return *elements_at<T>(all, sources[static_cast<std::size_t>(low)] + i, 0);
    const int cut = canonical_cut(static_cast<int>(sources.size()), low, high);
    return detail::fold_two<T>(operation_of<Op>(all), fold_tree_of_objects<Op, T>(all, sources, low, cut, i),
                               fold_tree_of_objects<Op, T>(all, sources, cut, high, i));
}
template <class Op, class T>
void fold_objects(const row_layout& all, std::span<const place> sources, std::span<const place> targets,
                  std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
        const T value = fold_tree_of_objects<Op, T>(all, sources, 0, static_cast<int>(sources.size()), i);
        for (const place& target : targets) *elements_at<T>(all, target + i, 0) = value;
    }
}
template <class T>
void copy_to_all(const row_layout& all, std::span<const place> sources, std::span<const place> targets,
                 std::size_t count) {
    for (const place& target : targets)
        if (all.address(target, 0) != all.address(sources[0], 0))
            detail::copy_objects<T>(all.address(sources[0], 0), all.address(target, 0), count);
}

using encoded_size = std::uint64_t;

/// Appends elements, each as its size followed by its payload.
template <class T>
void encode_objects(const std::byte* from, std::size_t count, std::vector<std::byte>& to) {
    const T* const elements = reinterpret_cast<const T*>(from);
    for (std::size_t i = 0; i < count; ++i) {
        const encoded_size bytes = serializer<T>::bytes(elements[i]);
        const std::size_t at = to.size();
        to.resize(at + sizeof bytes + static_cast<std::size_t>(bytes));
        std::memcpy(to.data() + at, &bytes, sizeof bytes);
        serializer<T>::write(elements[i], to.data() + at + sizeof bytes);
    }
}

/// The bytes of the first element of a message, without its size.
[[nodiscard]] inline std::span<const std::byte> first_encoded(std::span<const std::byte> from) {
    encoded_size bytes = 0;
    if (from.size() >= sizeof bytes) std::memcpy(&bytes, from.data(), sizeof bytes);
    if (from.size() < sizeof bytes || from.size() - sizeof bytes < bytes)
        throw error(errc::truncated, text({"an element of ", bytes, " bytes does not fit into the ", from.size(),
                                           " bytes that remain of its message"}));
    return from.subspan(sizeof bytes, static_cast<std::size_t>(bytes));
}

/// Decodes the elements of a message.
template <class T>
[[nodiscard]] object_array decode_objects(std::span<const std::byte> from) {
    std::size_t count = 0;
    for (auto rest = from; !rest.empty(); ++count)
        rest = rest.subspan(sizeof(encoded_size) + first_encoded(rest).size());
    if (count == 0) return {};
    T* const memory = static_cast<T*>(memory_for<T>(count));
    std::size_t made = 0;
    try {
        for (; made < count; ++made) {
            const auto bytes = first_encoded(from);
            ::new (static_cast<void*>(memory + made)) T(serializer<T>::read(bytes));
            from = from.subspan(sizeof(encoded_size) + bytes.size());
        }
    } catch (...) {
        std::destroy_n(memory, made);
        ::operator delete(memory, std::align_val_t{alignof(T)});
        throw;
    }
    return own_objects<T>(memory, count);
}

template <class Op, class Element>
[[nodiscard]] consteval row_functions make_row_functions() {
    using every = every_column<typename columns_of<Element>::types>;
    row_functions table;
    table.columns = column_count<Element>;
    table.alignment = every::alignment;
    table.copyable = every::copyable;
    if constexpr (!std::same_as<Op, no_fold>) {
        table.fold = fold_rows<Op, Element>;
        if constexpr (column_count<Element> == 1 && std::same_as<Element, column_type<Element, 0>>) {
            table.fold_column = fold_column<Op, Element>;
            table.fold_columns = fold_columns<Op, Element>;
        }
        if constexpr (has_identity<Op, Element>) table.set_identity = set_identity_of_rows<Op, Element>;
        if constexpr (every::copyable && lowers_in_place<Op, Element>) table.lower = lower_rows<Op, Element>;
    }
    if constexpr (!every::copyable) {
        using T = column_type<Element, 0>;
        table.copy = copy_objects<T>;
        table.make = make_objects<T>;
        if constexpr (std::same_as<Op, no_fold>)
            table.fold_tree = copy_to_all<T>;
        else
            table.fold_tree = fold_objects<Op, T>;
        if constexpr (serializable<T>) {
            table.encode = encode_objects<T>;
            table.decode = decode_objects<T>;
        }
    }
    return table;
}

/// The table for (operator, element).
template <class Op, class Element>
inline constexpr row_functions functions_of_rows = make_row_functions<Op, Element>();

// Values

/// Folds values of one type that an operator lifts to another one, chunk by chunk: the intermediate states exist only
/// in the first-level cache.
template <class Op, class Value>
class fold_of_values {
    using state =
        std::remove_cvref_t<decltype(detail::lifted(std::declval<const Op&>(), std::declval<const Value&>()))>;

  public:
    static constexpr bool exists = std::is_trivially_copyable_v<Value> && std::default_initializable<Value> &&
                                   std::default_initializable<state> && std::is_copy_assignable_v<state>;

    fold_of_values(const row_layout& all, std::span<const place> sources, std::size_t count)
        : all_(all),
          op_(operation_of<Op>(all)),
          sources_(sources),
          size_(static_cast<int>(sources.size())),
          chunk_(std::min(max_at_once, count)) {
        if (const auto levels = static_cast<std::size_t>(power_of_two_fold(size_).rounds()) + 1; levels > nearby_levels)
            far_ = heap_array<state>(levels * chunk_);
    }

    static void run(const row_layout& all, std::span<const place> sources, std::span<const place> targets,
                    std::size_t rows, store_modes how) {
        const std::size_t count = detail::elements_in<row<Value>, 0>(all, rows);
        if constexpr (!folds_stretches<Op, state>)
            if (sources.size() == 2 && targets.size() == 1 && how[0] == store::plain)
                return fold_pair(operation_of<Op>(all), elements_at<Value>(all, sources[0], 0),
                                 elements_at<Value>(all, sources[1], 0), elements_at<Value>(all, targets[0], 0), count);
        fold_of_values folds(all, sources, count);
        const bool stores_once = targets.size() == 1 && how[0] == store::plain;
        for (std::size_t done = 0, now = 0; done < count; done += now) {
            now = std::min(folds.chunk_, count - done);
            const state* const folded = folds.tree(0, folds.size_, 0, done, now);
            if (stores_once)
                folds.lower(folded, elements_at<Value>(all, targets[0], 0) + done, now);
            else
                folds.store_in_all(folded, targets, done, now, how);
        }
        if (how.any_streams()) finish_streams();
    }

    static void run_pair(const row_layout& all, const place& left, const place& right, const place& to,
                         std::size_t rows) {
        run(all, std::array{left, right}, std::array{to}, rows, store::plain);
    }
    static void run_column(const void* operation, const std::byte* left, const std::byte* right, std::byte* to,
                           std::size_t count) {
        const std::array values{const_cast<std::byte*>(left), const_cast<std::byte*>(right)};
        run_columns(operation, std::array<fold_node, 1>{}, values.data(), to, count);
    }
    /// The tree is the canonical one, so its length is all that matters.
    static void run_columns(const void* operation, std::span<const fold_node> tree, std::byte* const* values,
                            std::byte* to, std::size_t count) {
        constexpr std::size_t bytes = sizeof(Value);
        small_array<place, 16> sources;
        sources.resize(tree.size() + 1);
        for (std::size_t k = 0; k <= tree.size(); ++k) sources[k] = {values + k, 0};
        run({nullptr, operation, &bytes, bytes}, sources.span(), std::array{place{&to, 0}}, count, store::plain);
    }

  private:
    static constexpr std::size_t max_bytes_at_once = 4096;
    static constexpr std::size_t max_at_once =
        std::clamp<std::size_t>(max_bytes_at_once / std::max(sizeof(state), sizeof(Value)), 1, 512);
    /// Enough for 16 operands; none if default construction of a state is not free, or if states are too large for the
    /// stack.
    static constexpr std::size_t nearby_levels =
        std::is_trivially_default_constructible_v<state> && sizeof(state) <= max_bytes_at_once ? 5 : 0;

    [[nodiscard]] static state lift(const Op& op, const Value& x) { return static_cast<state>(detail::lifted(op, x)); }
    /// Two operands, whose states never get to memory: reduce_scatter of 16 bits each, folded in float, takes 0.55x the
    /// time for 16 KiB, 0.33x for 4 MiB.
    static void fold_pair(const Op& op, const Value* left, const Value* right, Value* to, std::size_t count) {
        elementwise<touches::anything>(left, right, to, count, [&op](const Value& x, const Value& y) -> Value {
            return static_cast<Value>(detail::lowered(op, detail::fold_two<state>(op, lift(op, x), lift(op, y)), 2));
        });
    }
    [[nodiscard]] state* level(std::size_t depth) noexcept {
        if constexpr (nearby_levels > 0)
            if (far_.size() == 0) return nearby_.data() + depth * chunk_;
        return far_.data() + depth * chunk_;
    }
    /// The value of the tree's node [low, high) at level `depth`, for `count` elements from `first` on.
    const state* tree(int low, int high, std::size_t depth, std::size_t first, std::size_t count) {
        state* const to = level(depth);
        const auto operand = [&](int k) {
            return elements_at<Value>(all_, sources_[static_cast<std::size_t>(k)], 0) + first;
        };
        if (high - low == 1) {
            const Value* const from = operand(low);
            for (std::size_t i = 0; i < count; ++i) to[i] = lift(op_, from[i]);
            return to;
        }
        if constexpr (!folds_stretches<Op, state>)
            if (high - low == 2) {
                const Value *const left = operand(low), *const right = operand(low + 1);
                for (std::size_t i = 0; i < count; ++i)
                    to[i] = detail::fold_two<state>(op_, lift(op_, left[i]), lift(op_, right[i]));
                return to;
            }
        const int cut = canonical_cut(size_, low, high);
        tree(low, cut, depth, first, count);
        const state* const right = tree(cut, high, depth + 1, first, count);
        fold_column<Op, state>(std::addressof(op_), reinterpret_cast<const std::byte*>(to),
                               reinterpret_cast<const std::byte*>(right), reinterpret_cast<std::byte*>(to), count);
        return to;
    }
    void lower(const state* from, Value* to, std::size_t count) const {
        for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<Value>(detail::lowered(op_, from[i], size_));
    }
    void store_in_all(const state* from, std::span<const place> targets, std::size_t first, std::size_t count,
                      store_modes how) const {
        std::array<Value, max_at_once> values;
        lower(from, values.data(), count);
        for (std::size_t i = 0; i < targets.size(); ++i)
            store_bytes(reinterpret_cast<std::byte*>(elements_at<Value>(all_, targets[i], 0) + first),
                        reinterpret_cast<const std::byte*>(values.data()), count * sizeof(Value), how[i]);
    }

    const row_layout& all_;
    const Op& op_;
    std::span<const place> sources_;
    int size_;
    std::size_t chunk_;  // how many elements at a time
    struct nothing {};
    using nearby_states =
        std::conditional_t<(nearby_levels > 0), std::array<state, nearby_levels * max_at_once>, nothing>;
    [[no_unique_address]] nearby_states nearby_;  // NOLINT: written before it is read
    heap_array<state> far_;
};

template <class Op, class Value>
[[nodiscard]] consteval row_functions make_value_functions() {
    row_functions table;
    table.alignment = alignof(Value);
    table.fold = fold_of_values<Op, Value>::run_pair;
    table.fold_column = fold_of_values<Op, Value>::run_column;
    table.fold_columns = fold_of_values<Op, Value>::run_columns;
    table.fold_values = fold_of_values<Op, Value>::run;
    return table;
}
/// The table for values that an operator lifts.
template <class Op, class Value>
inline constexpr row_functions functions_of_values = make_value_functions<Op, Value>();

}  // namespace allfold::detail
