// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <new>
#include <tuple>
#include <type_traits>
#include <utility>

#include "allfold/algebra/diagnose.hpp"
#include "allfold/algebra/operator.hpp"
#include "allfold/engine/arguments.hpp"
#include "allfold/engine/short_list.hpp"
#include "allfold/engine/short_pair.hpp"
#include "allfold/engine/short_task.hpp"
#include "allfold/engine/short_together.hpp"

/// @file
/// The arguments of a call that may repeat an earlier one, bound to memory where they lie.

namespace allfold::detail {

/// The type of the rows in such calls: what is folded, or values that are lifted when they are folded.
template <class Types>
using short_element = std::conditional_t<Types::may_fold_values, typename Types::value, typename Types::state>;

// The bodies of what follows are functions rather than lambdas: g++ warns (-Wshadow) if a lambda there has a type with
// the name of one of the program's.
template <class Op, class In, class Out>
[[nodiscard]] consteval bool find_may_be_short() {
    using types = call_types<Op, In, Out>;
    using element = short_element<types>;
    using every = every_column<typename columns_of<element>::types>;
    constexpr bool has_list = is_tensors<std::remove_cvref_t<In>> || is_tensors<std::remove_cvref_t<Out>>;
    return every::copyable && every::alignment <= 64 && alignof(Op) <= task_memory::alignment &&
           types::has_lift == types::may_fold_values && !(has_list && (types::has_lift || types::has_lower)) &&
           std::same_as<element, typename types::result> &&
           (types::has_lift || !types::has_lower || lowers_in_place<Op, element>) &&
           column_count<element> <= short_call::max_columns;
}
/// Types whose calls may be remembered: contiguous rows of bytes, in the form in which the caller has them.
template <class Op, class In, class Out>
inline constexpr bool may_be_short = detail::find_may_be_short<Op, In, Out>();

/// The most bytes of states that such a call keeps on the stack; more are left to the engine, whose memory does not
/// matter then. all_reduce of halves, two ranks, relative to the engine: 0.67x the time for 16 B of states, 0.85x for 4
/// KiB.
inline constexpr std::size_t max_state_bytes = 4096;

template <class Op, class In, class Out>
[[nodiscard]] consteval bool find_may_lift_short() {
    using types = call_types<Op, In, Out>;
    using value = typename types::value;
    using state = typename types::state;
    if constexpr (!types::has_lift || is_row<value> || is_row<state>)
        return false;
    else
        return std::is_trivially_copyable_v<state> && alignof(state) <= alignof(std::max_align_t) &&
               sizeof(state) <= max_state_bytes && !is_tensors<std::remove_cvref_t<In>> &&
               !is_tensors<std::remove_cvref_t<Out>>;
}
/// Types whose calls may be remembered unless they run in the background: values are lifted to states on the stack.
template <class Op, class In, class Out>
inline constexpr bool may_lift_short = detail::find_may_lift_short<Op, In, Out>();

/// Where the rows of an argument lie: found as by `bound_rows`, but in few instructions for a plain range.
template <class X>
class short_operand : public bound_rows<X> {
  public:
    using bound_rows<X>::bound_rows;
    [[nodiscard]] std::size_t bytes(std::size_t column) const noexcept { return this->where().bytes[column]; }
    [[nodiscard]] short_memory memory() const noexcept { return {this->where().first.data()}; }
    [[nodiscard]] const memory_range& range(std::size_t column) const noexcept { return this->where().range[column]; }
    [[nodiscard]] bool is_plain() const noexcept {
        if (!this->are_contiguous() || this->where().has_null()) return false;
        if (this->misaligned_column() < bound_rows<X>::columns) return false;
        for (std::size_t a = 0; a < bound_rows<X>::columns; ++a)
            for (std::size_t b = a + 1; b < bound_rows<X>::columns; ++b)
                if (range(a).shares(range(b))) return false;
        return true;
    }
};
template <class X>
    requires(!tensor_view<X> && !is_records<std::remove_cv_t<X>> && !is_tensors<std::remove_cv_t<X>>)
class short_operand<X> {
  public:
    explicit short_operand(X& x) {
        const void* first = nullptr;
        if constexpr (element_range<X>) {
            first = std::ranges::data(x);
            rows_ = static_cast<std::size_t>(std::ranges::size(x));
        } else {
            first = std::addressof(x);
        }
        first_ = static_cast<std::byte*>(const_cast<void*>(first));
    }
    [[nodiscard]] std::size_t rows() const noexcept { return rows_; }
    [[nodiscard]] static std::size_t bytes(std::size_t) noexcept { return sizeof(element_of<X>); }
    [[nodiscard]] short_memory memory() const noexcept { return {&first_}; }
    [[nodiscard]] memory_range range(std::size_t) const noexcept {
        return {first_, first_ + rows_ * sizeof(element_of<X>)};
    }
    [[nodiscard]] bool is_plain() const noexcept { return first_ != nullptr || rows_ == 0; }

  private:
    std::byte* first_;
    std::size_t rows_ = 1;
};

/// A list of a few tensors, or a tensor that is cut, used in place.
template <class X>
    requires is_tensors<std::remove_cv_t<X>>
class short_operand<X> : public few_pieces<typename X::element_type> {
  public:
    using few_pieces<typename X::element_type>::few_pieces;
};

/// In the in-place form, `In` is `absent`.
template <class Op, class In, class Out>
class short_arguments {
  public:
    using types = call_types<Op, In, Out>;
    static constexpr bool in_place = types::in_place;
    using operation = Op;
    using state = typename types::state;
    using element = short_element<types>;
    using given = std::conditional_t<types::has_lift, std::tuple<typename types::value, typename types::result>, state>;
    static constexpr std::size_t columns = column_count<element>;
    static constexpr bool is_raw = types::is_raw;
    static constexpr bool has_list = is_tensors<std::remove_cvref_t<In>> || is_tensors<std::remove_cvref_t<Out>>;

    explicit short_arguments(const operands_given<In, Out>& data)
        requires(!in_place)
        : input_(data.in), output_(data.out) {}
    explicit short_arguments(const operands_given<In, Out>& data)
        requires in_place
        : output_(data.out) {}

    /// Called before they are used in the background: throws if something that has to be retained would be gone.
    static void require_retained(const operands_given<In, Out>& data) {
        if constexpr (!in_place) static_cast<void>(retained<In>(data.in));
        static_cast<void>(retained<Out>(data.out));
    }

    /// Whether it is obvious that nothing is wrong with them; otherwise the engine finds out what is.
    [[nodiscard]] bool are_plain() const noexcept {
        if (!output_.is_plain()) return false;
        if constexpr (!in_place) {
            if (!input_.is_plain()) return false;
            if constexpr (is_raw)
                if (input_.alignment() != output_.alignment()) return false;
            for (std::size_t a = 0; a < columns; ++a) {
                if (!types::has_lift && input_.bytes(a) != output_.bytes(a)) return false;
                for (std::size_t b = 0; b < columns; ++b)
                    if (input_.range(a).shares(output_.range(b)) && may_share_memory()) return false;
            }
        }
        return true;
    }

    [[nodiscard]] call_key key(const void* mark, const call_options& options) const noexcept {
        const std::uint64_t form = call_key::form_of(options.root, in_place, has_list, options.delegation);
        if constexpr (in_place)
            return {mark, output_.rows(), output_.rows(), form, options.mark_of_lists()};
        else
            return {mark, input_.rows(), output_.rows(), form, options.mark_of_lists()};
    }
    /// The alignment of rows.
    [[nodiscard]] std::size_t alignment() const noexcept
        requires(is_raw)
    {
        return output_.alignment();
    }
    /// Runs a call like this again, if the communicator remembers one; otherwise false.
    template <class Comm>
    [[nodiscard]] bool run(Comm& comm, const Op& op, const call_key& key) const {
        if constexpr (may_lift_short<Op, In, Out>)
            if (run_in_states(comm, op, key)) return true;
        if constexpr (may_be_short<Op, In, Out>)
            return run_as_it_lies(comm, op, key);
        else
            return false;
    }
    /// The same in the background; null if the communicator remembers none. Not for lists.
    template <class Comm>
    [[nodiscard]] std::unique_ptr<pending> prepare(Comm& comm, const Op& op, const call_key& key) const {
        const short_call* const known = short_calls::find(comm.background(), key, row_bytes());
        if (known == nullptr) return nullptr;
        return std::make_unique<short_task_with<Comm, Op>>(comm, *known, layout(*known, functions, op), input().columns,
                                                           output_.memory().columns, op);
    }

    /// The call that the communicator remembers, with these operands; nothing if it remembers none. Not for lists.
    template <class Comm>
    [[nodiscard]] recalled_call recall(Comm& comm, const Op& op, const call_key& key) const {
        recalled_call found;
        found.what = short_calls::find(comm.background(), key, row_bytes());
        if (found.what == nullptr) return found;
        found.rows = layout(*found.what, functions, op);
        std::copy_n(input().columns, columns, found.input.begin());
        std::copy_n(output_.memory().columns, columns, found.result.begin());
        return found;
    }

  private:
    template <class Comm>
    [[nodiscard]] bool run_as_it_lies(Comm& comm, const Op& op, const call_key& key) const {
        const short_call* const known = short_calls::find(comm.background(), key, row_bytes());
        if (known == nullptr) return false;
        run_known(comm, *known, functions, op, input(), output_.memory());
        if constexpr (!has_list && !types::has_lift && lowers_in_place<Op, element>)
            known->lower(layout(*known, functions, op), output_.memory().columns);
        return true;
    }
    /// Folds states that lie on the stack, if they are few. A rank whose result is a fold of nothing, or only a part of
    /// its output, leaves the call to the engine.
    template <class Comm>
    [[nodiscard]] bool run_in_states(Comm& comm, const Op& op, const call_key& key) const {
        constexpr std::size_t bytes = sizeof(state), most = max_state_bytes / bytes;
        if (key.input_rows > most || key.output_rows > most) return false;
        const short_call* const known = short_calls::find(comm.background(), key.of_states(), std::array{bytes});
        if (known == nullptr || known->contributions == 0) return false;
        const std::size_t results = known->result.count;
        if (results != 0 && results != key.output_rows) return false;
        alignas(64) std::byte states[max_state_bytes], folds[max_state_bytes];
        std::byte* const operands = states;
        std::byte* const outcomes = folds;
        lift(op, key.input_rows, operands);
        run_known(comm, *known, functions_of_rows<Op, state>, op, {&operands}, {&outcomes});
        lower(op, outcomes, results, known->contributions);
        return true;
    }
    void lift(const Op& op, std::size_t rows, std::byte* to) const {
        const auto* const values = reinterpret_cast<const typename types::value*>(input().columns[0]);
        for (std::size_t i = 0; i < rows; ++i)
            ::new (static_cast<void*>(to + i * sizeof(state))) state(detail::lifted(op, values[i]));
    }
    void lower(const Op& op, const std::byte* from, std::size_t rows, int contributions) const {
        using result = typename types::result;
        const auto* const folds = reinterpret_cast<const state*>(from);
        auto* const results = reinterpret_cast<result*>(output_.memory().columns[0]);
        for (std::size_t i = 0; i < rows; ++i)
            results[i] = static_cast<result>(detail::lowered(op, folds[i], contributions));
    }

    static constexpr const row_functions& functions = []() -> const row_functions& {
        if constexpr (types::may_fold_values)
            return functions_of_values<Op, element>;
        else
            return functions_of_rows<Op, element>;
    }();

    template <class Comm>
    void run_known(Comm& comm, const short_call& known, const row_functions& folds, const Op& op,
                   const short_memory& from, const short_memory& to) const {
        if (columns == 1 && !has_list && known.is_pair && known.is_flat)
            detail::run_flat_pair(comm, known, folds, std::addressof(op), from.columns[0], to.columns[0]);
        else
            (known.is_pair ? run_pair_of_rows<Comm> : run_again<Comm>)(comm, known, layout(known, folds, op), from, to);
    }
    [[nodiscard]] std::array<std::size_t, columns> row_bytes() const noexcept {
        std::array<std::size_t, columns> bytes;
        for (std::size_t c = 0; c < columns; ++c) bytes[c] = output_.bytes(c);
        return bytes;
    }
    [[nodiscard]] row_layout layout(const short_call& known, const row_functions& folds, const Op& op) const noexcept {
        std::size_t all = 0;
        for (std::size_t c = 0; c < columns; ++c) all += known.bytes[c];
        row_layout rows{&folds, std::addressof(op), known.bytes.data(), all};
        if constexpr (is_raw) rows.alignment = output_.alignment();
        return rows;
    }
    /// Whether they may share elements, given that the memory they span, gaps included, overlaps.
    [[nodiscard]] bool may_share_memory() const noexcept {
        if constexpr (is_tensors<std::remove_cvref_t<In>> && is_tensors<std::remove_cvref_t<Out>>)
            return detail::share_memory(input_.ranges(), output_.ranges());
        else
            return true;
    }
    [[nodiscard]] short_memory input() const noexcept {
        if constexpr (in_place)
            return output_.memory();
        else
            return input_.memory();
    }

    [[no_unique_address]] std::conditional_t<in_place, absent, short_operand<std::remove_reference_t<In>>> input_;
    short_operand<std::remove_reference_t<Out>> output_;
};

}  // namespace allfold::detail
