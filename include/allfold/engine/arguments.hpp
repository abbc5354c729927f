// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "allfold/algebra/operator.hpp"
#include "allfold/engine/binding.hpp"
#include "allfold/engine/detail/memory_in_use.hpp"
#include "allfold/engine/operands.hpp"
#include "allfold/engine/shape.hpp"

/// @file
/// The arguments of one call: bound to memory, checked, prepared before it and finished after it. The caller's types
/// are not known beyond this file.

namespace allfold::detail {

/// Stands for an argument that a call does not have.
struct absent {};

/// The operands of a call, where the caller has them. In the in-place form, `In` is `absent`.
template <class In, class Out>
struct operands_given {
    std::remove_reference_t<In>& in;
    std::remove_reference_t<Out>& out;
};
template <class Out>
struct operands_given<absent, Out> {
    std::remove_reference_t<Out>& out;
};

/// Whether arguments live for as long as the caller keeps what they refer to.
template <class... X>
[[nodiscard]] consteval bool require_lasting() {
    constexpr bool are_all = ((refers<X> || std::is_lvalue_reference_v<X> || std::same_as<X, absent>) && ...);
    static_assert(
        are_all, "allfold: this argument would be destroyed before the operation completes: pass a variable or a view");
    return are_all;
}

/// Stores views by value and everything else by reference, so that an operation in flight finds its data.
template <class X>
class retained {
  public:
    static constexpr bool is_lasting = require_lasting<X>();
    using type = std::remove_reference_t<X>;

    explicit retained(type& x) : x_(hold(x)) {}
    [[nodiscard]] type& get() noexcept {
        if constexpr (by_value)
            return x_;
        else
            return *x_;
    }
    [[nodiscard]] const type& get() const noexcept { return const_cast<retained&>(*this).get(); }

  private:
    static constexpr bool by_value = refers<X> || !std::is_lvalue_reference_v<X>;
    using held = std::conditional_t<by_value, std::remove_const_t<type>, type*>;
    /// A foreign type may be declared a view although its copies have elements of their own: the result would be lost.
    [[nodiscard]] static held hold(type& x) {
        if constexpr (by_value && tensor_view<std::remove_const_t<type>>) {
            held copy = x;
            using access = tensor_access<std::remove_const_t<type>>;
            if (access::data(copy) != access::data(x))
                throw error(
                    errc::bad_argument,
                    "this argument is declared a tensor view, but a copy of it has its own elements: pass a view "
                    "of it, such as allfold::tensor");
            return copy;
        } else if constexpr (by_value)
            return x;
        else
            return std::addressof(x);
    }
    held x_;
};

/// What the engine knows about the arguments of a call.
class bound_arguments {
  public:
    bound_arguments() = default;
    bound_arguments(const bound_arguments&) = delete;
    bound_arguments& operator=(const bound_arguments&) = delete;
    virtual ~bound_arguments() = default;

    [[nodiscard]] virtual row_layout rows() const = 0;
    /// Makes the rows the caller's values from now on, which the fold of several of them lifts and lowers; false if
    /// that is impossible. For schedules that fold only once.
    [[nodiscard]] virtual bool fold_values() { return false; }
    /// The size of a row of such values; 0 if that is impossible.
    [[nodiscard]] virtual std::size_t value_bytes() const { return 0; }
    /// Whether the rows are states in memory of their own.
    [[nodiscard]] virtual bool has_states() const { return false; }
    /// Throws unless the data is usable.
    virtual void check(const arguments_given& call, const shape& where) const = 0;
    /// Called before each start: reads what the engine cannot read itself.
    /// `contiguous`: the engine must not find the rows in several pieces.
    virtual void begin(bool contiguous) = 0;
    /// Called when the collective is complete: writes what the engine could not write itself. `is_lowered`: the folds
    /// have been lowered to values already.
    virtual void finish(bool is_lowered) = 0;
    /// Whether `finish` leaves alone what peers may still read.
    [[nodiscard]] virtual bool may_finish_early() const noexcept { return true; }
    /// Keeps copies of its own from being freed: somebody may still touch them.
    virtual void leak() noexcept = 0;
    /// Sets `m` to the memory that the engine works on. Valid after `begin`.
    virtual void memory(operands& m) const = 0;
    /// Adds the caller's memory, which nobody else may change meanwhile, unless it holds objects that are not bytes.
    /// `writes`: the output is written.
    virtual void add_memory(memory_in_use& all, bool writes) = 0;

    [[nodiscard]] const shape& where() const noexcept { return *laid_out; }

    std::size_t input_rows = 0, output_rows = 0;
    bool is_in_place = false;
    std::optional<shape> laid_out;  ///< constructed in place: every copy slows short calls
};

/// The type in which an operator folds values of type T: what `op.lift` returns for them, otherwise T.
template <class Op, class T>
struct state_of {
    using type = T;
};
template <class Op, class T>
    requires lifting_operator<Op, T>
struct state_of<Op, T> {
    using type = std::remove_cvref_t<decltype(std::declval<const Op&>().lift(std::declval<const T&>()))>;
};
template <class Op, class... Ts>
struct state_of<Op, row<Ts...>> {
    using type = std::conditional_t<folds_rows<Op, row<Ts...>>, row<Ts...>, row<typename state_of<Op, Ts>::type...>>;
};

/// Whether an operator lifts values of type T.
template <class Op, class T>
inline constexpr bool lifts = lifting_operator<Op, T>;
template <class Op, class... Ts>
    requires(!folds_rows<Op, row<Ts...>>)
inline constexpr bool lifts<Op, row<Ts...>> = (lifting_operator<Op, Ts> || ...);
template <class Op, class... Ts>
    requires folds_rows<Op, row<Ts...>>
inline constexpr bool lifts<Op, row<Ts...>> =
    requires(const Op& op, row<const Ts...> value, row<Ts...> state) { op.lift(value, state); };

/// Whether an operator's folds can become values of type T: by `lower`, or because they convert to T.
template <class Op, class State, class T>
inline constexpr bool lowerable = std::convertible_to<State, T>;
template <class Op, class State, class T>
    requires lowering_operator<Op, State>
inline constexpr bool lowerable<Op, State, T> =
    std::convertible_to<decltype(std::declval<const Op&>().lower(std::declval<const State&>(), 1)), T>;
template <class Op, class... States, class... Ts>
inline constexpr bool lowerable<Op, row<States...>, row<Ts...>> = (lowerable<Op, States, Ts> && ...);

template <class Op, class State>
inline constexpr bool lowers = lowering_operator<Op, State>;
template <class Op, class... States>
    requires(!folds_rows<Op, row<States...>>)
inline constexpr bool lowers<Op, row<States...>> = (lowering_operator<Op, States> || ...);
template <class Op, class... States>
    requires folds_rows<Op, row<States...>>
inline constexpr bool lowers<Op, row<States...>> = lowers_in_place<Op, row<States...>>;

/// Input and output must be the same memory, row for row of the whole operand, or must not overlap; and no two tensors
/// of what is written may overlap.
template <std::size_t InColumns, std::size_t OutColumns>
void require_apart(const arguments_given& call, const shape& where, const column_set<InColumns>& in,
                   const column_set<OutColumns>& out) {
    for (std::size_t o = 0; o < OutColumns; ++o)
        for (std::size_t i = 0; i < InColumns; ++i) {
            if (!in.range[i].shares(out.range[o])) continue;
            if (i != o)
                call.reject(errc::overlap,
                            {"input tensor ", i, " and output tensor ", o,
                             " share memory: each input tensor may share memory only with its own output tensor"});
            const auto rows_between = static_cast<std::ptrdiff_t>(where.input_first - where.result_first);
            const auto bytes_between = in.range[i].begin - out.range[o].begin;
            if (i == o && bytes_between == rows_between * static_cast<std::ptrdiff_t>(in.bytes[i])) {
                if (where.result_blocks.blocks() == 1 || where.result_blocks == where.blocks) continue;
                call.reject(errc::overlap, {"input and output are the same memory, but cut into different blocks: pass "
                                            "the same blocks or disjoint memory"});
            }
            call.reject(
                errc::overlap,
                {text_of_tensor(i, InColumns, "the input"), " and ", text_of_tensor(o, OutColumns, "the output"),
                 " overlap in part: the input begins ", bytes_between < 0 ? -bytes_between : bytes_between, " bytes ",
                 bytes_between < 0 ? "before" : "after", " the output; pass the same or disjoint memory"});
        }
}
template <std::size_t Columns>
void require_columns_apart(const arguments_given& call, const column_set<Columns>& written) {
    for (std::size_t a = 0; a < Columns; ++a)
        for (std::size_t b = a + 1; b < Columns; ++b)
            if (written.range[a].shares(written.range[b]))
                call.reject(errc::overlap, {"tensors ", a, " and ", b, " of the output share memory"});
}

/// What follows from the types of a call. In the in-place form, `In` is `absent` and `Out` is both arguments.
template <class Op, class In, class Out>
struct call_types {
    static constexpr bool in_place = std::same_as<In, absent>;
    using value = element_of<std::conditional_t<in_place, Out, In>>;
    using result = element_of<Out>;
    using state = typename state_of<Op, value>::type;
    static constexpr bool has_lower = lowers<Op, state>;
    /// Whether the caller states how rows are aligned.
    static constexpr bool is_raw =
        states_alignment<std::remove_cvref_t<In>> || states_alignment<std::remove_cvref_t<Out>>;
    /// Whether states need memory of their own: they are lifted from values, or lowered to a type other than theirs.
    static constexpr bool has_lift =
        lifts<Op, value> || (has_lower && !folds_rows<Op, value> && !std::same_as<state, result>);
    /// Whether rows may nevertheless be values of a single type, which are lifted and lowered wherever they are folded.
    static constexpr bool may_fold_values = [] {
        if constexpr (has_lift && std::same_as<value, result> && column_count<state> == 1 && !folds_rows<Op, value>)
            if constexpr (std::same_as<value, column_type<value, 0>>) return fold_of_values<Op, value>::exists;
        return false;
    }();
};

/// Whether elements can replace others: bytes that are only moved always can.
template <class Op, class T>
inline constexpr bool is_stored =
    std::is_copy_assignable_v<T> || (std::same_as<Op, no_fold> && std::is_trivially_copyable_v<T>);

/// Whether the arguments of a call fit together; if not, a one-line compiler error says what to write.
template <class Op, class In, class Out>
[[nodiscard]] consteval bool require_arguments() {
    using types = call_types<Op, In, Out>;
    constexpr bool is_writable = writable<std::remove_reference_t<Out>>;
    static_assert(is_writable, "allfold: the output of this collective must not be const");
    constexpr bool is_alike = column_count<typename types::result> == column_count<typename types::state> &&
                              (types::has_lift || std::same_as<typename types::value, typename types::result>);
    static_assert(is_alike, "allfold: input and output of this collective must have the same element type");
    constexpr bool is_memory = !is_volatile<std::remove_reference_t<In>> && !is_volatile<std::remove_reference_t<Out>>;
    static_assert(is_memory, "allfold: the elements are volatile: copy them to ordinary memory first");
    constexpr bool is_flat = !std::is_array_v<typename types::result>;
    static_assert(is_flat,
                  "allfold: the elements here are themselves arrays: pass a span or a tensor of what they contain");
    constexpr bool is_copied = !is_memory || !is_flat || std::copy_constructible<typename types::result>;
    static_assert(is_copied, "allfold: elements are copied from rank to rank, but this type cannot be copied");
    constexpr bool is_assigned = !is_memory || !is_flat || !is_copied ||
                                 (is_stored<Op, typename types::result> && is_stored<Op, typename types::state>);
    static_assert(is_assigned,
                  "allfold: received elements and folds are assigned, but this type cannot be: do without members that "
                  "are const or references");
    constexpr bool are_rows = column_count<typename types::state> == 1 ||
                              every_column<typename columns_of<typename types::state>::types>::copyable;
    static_assert(are_rows,
                  "allfold: records fold rows of trivially copyable elements; fold a range of structs instead when an "
                  "element owns memory");
    if constexpr (is_writable && is_alike && is_memory && is_flat && is_copied && is_assigned && are_rows) {
        constexpr bool uses_lower = types::has_lower || !has_member_lower<Op>;
        static_assert(uses_lower,
                      "allfold: this operator's lower cannot be called with what it folds: write lower(state, "
                      "contributions), which returns a value, or for rows lower(state, contributions, out)");
        if constexpr (uses_lower) {
            constexpr bool is_typed = !types::is_raw || !types::has_lift;
            static_assert(is_typed,
                          "allfold: raw rows are folded unconverted, but this operator has a lift: give them a type");
            constexpr bool is_storable = !is_typed || lowerable<Op, typename types::state, typename types::result>;
            static_assert(is_storable,
                          "allfold: what this operator folds cannot be stored in the output: give it lower(state, "
                          "contributions), which returns an element of the output");
            return is_typed && is_storable;
        }
    }
    return false;
}

/// A call's arguments bound to memory. In the in-place form, `In` is `absent` and `Out` is both arguments.
template <class Op, class In, class Out>
class arguments : public bound_arguments {
  public:
    using types = call_types<Op, In, Out>;
    static constexpr bool in_place = types::in_place, has_lift = types::has_lift, has_lower = types::has_lower;
    static constexpr bool may_fold_values = types::may_fold_values;
    using operation = Op;
    using value = typename types::value;
    using result = typename types::result;
    using state = typename types::state;
    static constexpr std::size_t columns = column_count<state>;

    arguments(const Op& op, const operands_given<In, Out>& data)
        requires(!in_place)
        : op_(op), in_(data.in), out_(data.out), input_(in_.get()), output_(out_.get()) {
        input_rows = input_.rows();
        output_rows = output_.rows();
        find_layout();
        const bool may_overlap = input_.shares_memory(output_);
        if (has_lift || may_overlap) input_.pack();
        if (has_lift || may_overlap || !may_lower_pieces) output_.pack();
    }
    arguments(const Op& op, const operands_given<In, Out>& data)
        requires in_place
        : op_(op), out_(data.out), output_(out_.get()) {
        input_rows = output_rows = output_.rows();
        is_in_place = true;
        find_layout();
        if (has_lift || !may_lower_pieces) output_.pack();
    }

    [[nodiscard]] bool fold_values() override {
        folds_values_ = may_fold_values;
        return may_fold_values;
    }

    [[nodiscard]] std::size_t value_bytes() const override { return may_fold_values ? source().bytes[0] : 0; }
    [[nodiscard]] bool has_states() const override { return has_lift && !folds_values_; }

    [[nodiscard]] row_layout rows() const override {
        if constexpr (may_fold_values)
            if (folds_values_)
                return {&functions_of_values<Op, value>, std::addressof(op_), source().bytes.data(), value_bytes()};
        row_layout all{&functions_of_rows<Op, state>, std::addressof(op_), bytes_.data(), row_bytes_};
        if constexpr (is_raw) all.alignment = alignment();
        return all;
    }

    void check(const arguments_given& call, const shape& w) const override {
        const char* const named = in_place ? "the operand" : "the input";
        if (w.contributes) require_data(call, source(), named);
        if (w.receives) require_data(call, output_.where(), in_place ? named : "the output");
        if (w.receives && !in_place && !output_.are_contiguous())  // in place, the same input becomes the same output
            detail::require_distinct_elements(
                out_.get(), "the output", [&call](const std::string& why) { call.reject(errc::bad_argument, {why}); });
        if (w.receives || in_place) {
            require_columns_apart(call, output_.where());
            if constexpr (is_tensors<std::remove_cvref_t<Out>>) require_tensors_apart(call);
        }
        if constexpr (is_raw) require_alignment(call);
        if constexpr (!in_place)
            if (w.contributes && w.receives) {
                require_apart(call, w, input_.where(), output_.where());
                if (input_.where().widths != output_.where().widths)
                    call.reject(errc::bad_argument, {"rows of input and output have different widths"});
            }
    }

    void begin(bool contiguous) override {
        if (contiguous) {
            if constexpr (!in_place) input_.pack();
            output_.pack();
        }
        if constexpr (!in_place) input_.load(in_.get(), true);
        if (where().receives || in_place) output_.load(out_.get(), in_place || !is_always_written());
        if constexpr (has_lift)
            if (has_states()) lift();
    }

    void finish(bool is_lowered) override {
        if (!where().receives && !in_place) return;
        if constexpr (has_lift) {
            if (has_states()) lower_states(is_lowered);
        } else if constexpr (has_lower)
            if (!is_lowered) lower_results();
        finish_values();
        if (where().receives && where().writes) output_.unload(out_.get());
    }

    /// Peers may read the folds until they are lowered where they lie, objects until they are moved elsewhere, and the
    /// input until something is written there.
    [[nodiscard]] bool may_finish_early() const noexcept override {
        constexpr bool lowers_in_place_only = has_lower && !has_lift;
        return !lowers_in_place_only && !(where().writes && (output_.moves_packed() || may_unpack_over_input()));
    }

    void leak() noexcept override {
        if constexpr (!in_place) input_.leak();
        output_.leak();
        if constexpr (has_lift) {
            detail::leak(states_);
            detail::leak(folds_);
        }
    }

    void memory(operands& m) const override {
        if (has_states()) {
            m.input = {{state_columns_.data(), 0}, where().input_first};
            m.result = {{fold_columns_.data(), 0}, where().result_first};
        } else {
            m.input = {source().at(), first_row(input_rows, where().input_first, where().input_rows)};
            m.result = {output_.where().at(), first_row(output_rows, where().result_first, where().result_rows)};
            m.in_place = is_in_place || is_same_memory(m);
        }
    }

    void add_memory(memory_in_use& all, bool writes) override {
        constexpr bool are_bytes = every_column<typename columns_of<value>::types>::copyable &&
                                   every_column<typename columns_of<result>::types>::copyable;
        if constexpr (are_bytes) {
            if constexpr (!in_place)
                if (where().contributes) input_.add_memory(in_.get(), all.read);
            if (where().receives || in_place) output_.add_memory(out_.get(), writes ? all.written : all.read);
        }
    }

  protected:
    [[nodiscard]] const auto& result_columns() const noexcept { return output_.where(); }
    virtual void finish_values() {}

  private:
    struct nothing {};
    static constexpr bool is_raw = types::is_raw;
    static constexpr bool may_lower_pieces = !has_lower || lowers_in_place<Op, state>;

    /// Whether the result is unpacked to where the input may lie, which peers may read there. Between the elements of a
    /// strided output there may be anything.
    [[nodiscard]] bool may_unpack_over_input() const noexcept {
        return !in_place && !output_.are_contiguous() && !output_.is_scattered();
    }

    /// As stated by the argument that every rank has: see `find_layout`.
    [[nodiscard]] std::size_t alignment() const noexcept {
        if constexpr (in_place || std::same_as<Op, no_fold>)
            return output_.alignment();
        else
            return input_.alignment();
    }
    void require_alignment(const arguments_given& call) const {
        require_aligned(call, output_, in_place ? "the operand" : "the output");
        if constexpr (!in_place) {
            require_aligned(call, input_, "the input");
            if (input_.alignment() != output_.alignment())
                call.reject(errc::bad_argument, {"the input is aligned to ", input_.alignment(),
                                                 " bytes, but the output to ", output_.alignment()});
        }
    }
    template <class X>
    static void require_aligned(const arguments_given& call, const bound_rows<X>& given, const char* name) {
        const std::size_t c = given.misaligned_column();
        if (c == columns) return;
        const std::size_t stated = given.alignment_of(c), size = given.where().bytes[c];
        const std::string which = text_of_tensor(c, columns, name);
        if (!std::has_single_bit(stated) || stated > raw_rows<std::byte>::max_alignment)
            call.reject(errc::bad_argument,
                        {which, " is aligned to ", stated, " bytes: pass a power of two of at most ",
                         raw_rows<std::byte>::max_alignment});
        if (size % stated != 0)
            call.reject(errc::bad_argument,
                        {which, " has elements of ", size, " bytes, which cannot all be aligned to ", stated});
        call.reject(errc::bad_argument,
                    {which, " does not begin at a multiple of its stated alignment of ", stated, " bytes"});
    }

    /// No element may be written twice.
    void require_tensors_apart(const arguments_given& call) const {
        using piece = std::remove_cvref_t<decltype(out_.get().pieces()[0])>;
        small_vector<piece, 8> pieces(out_.get().pieces());
        std::sort(pieces.begin(), pieces.end(), [](const auto& a, const auto& b) { return a.data() < b.data(); });
        for (std::size_t i = 1; i < pieces.size(); ++i)
            if (pieces[i].data() < pieces[i - 1].data() + pieces[i - 1].size())
                call.reject(errc::overlap, {"tensors of the output share memory"});
    }
    template <class Element>
    using states_for = typename packed_columns<typename columns_of<Element>::types>::type;

    [[nodiscard]] const auto& source() const noexcept {
        if constexpr (in_place)
            return output_.where();
        else
            return input_.where();
    }
    /// An argument that holds more than this rank's part holds the whole operand.
    [[nodiscard]] static std::size_t first_row(std::size_t has, std::size_t first, std::size_t part) noexcept {
        return has == part ? first : 0;
    }
    /// Whether input and output share any column: if so, what one rank writes may be what another one reads.
    [[nodiscard]] bool is_same_memory(const operands& m) const noexcept {
        if (!where().contributes || !where().receives) return false;
        const auto row_zero = [](const auto& set, std::size_t first, std::size_t column) {
            return reinterpret_cast<std::uintptr_t>(set.first[column]) - first * set.bytes[column];
        };
        for (std::size_t c = 0; c < columns; ++c)
            if (row_zero(source(), m.input.first_row, c) == row_zero(output_.where(), m.result.first_row, c))
                return true;
        return false;
    }

    void find_layout() {
        // If nothing is folded, every rank has an output, but not every rank has an input.
        const auto& widths = std::same_as<Op, no_fold> ? output_.where().widths : source().widths;
        for_each_column<state>([&]<std::size_t C>() { bytes_[C] = widths[C] * sizeof(column_type<state, C>); });
        for (const std::size_t each : bytes_) row_bytes_ += each;
    }

    template <std::size_t Columns>
    static void require_data(const arguments_given& call, const column_set<Columns>& bound, const char* name) {
        if (bound.has_null())
            call.reject(errc::bad_argument, {name, " has ", bound.rows, " elements but a null data pointer"});
    }

    /// Whether the engine writes every row of the result.
    [[nodiscard]] bool is_always_written() const noexcept {
        return where().contributions > 0 || functions_of_rows<Op, state>.set_identity != nullptr;
    }

    void lift() {
        const std::size_t first =
            in_place ? where().input_first - first_row(input_rows, where().input_first, where().input_rows) : 0;
        const row_layout values{nullptr, nullptr, source().bytes.data(), 0};
        if constexpr (folds_rows<Op, value>) {
            make_room<value>();
            const row_layout own{nullptr, nullptr, bytes_.data(), 0};
            for (std::size_t i = 0; i < where().input_rows; ++i)
                op_.lift(detail::constant_row_at<value>(values, source().at(first), i),
                         detail::row_at<state>(own, {state_columns_.data(), 0}, i));
        } else {
            for_each_column<value>([&]<std::size_t C>() {
                using T = column_type<value, C>;
                const T* const from = elements_at<T>(values, source().at(first), C);
                const std::size_t width = source().widths[C];
                auto& states = std::get<C>(states_);
                states.reserve(where().input_rows * width);
                for (std::size_t i = 0; i < where().input_rows * width; ++i)
                    states.put(i, detail::lifted(op_, from[i]));
                auto& folds = std::get<C>(folds_);
                folds.reserve(where().result_rows * width);
                if constexpr (!std::is_trivially_copyable_v<column_type<state, C>>)
                    for (std::size_t i = 0; i < where().result_rows * width && where().input_rows > 0; ++i)
                        folds.put(i, states.data()[0]);
            });
            find_columns();
        }
    }
    template <class Row>
    void make_room() {
        for_each_column<Row>([&]<std::size_t C>() {
            std::get<C>(states_).reserve(where().input_rows * source().widths[C]);
            std::get<C>(folds_).reserve(where().result_rows * source().widths[C]);
        });
        find_columns();
    }
    void find_columns() {
        for_each_column<state>([&]<std::size_t C>() {
            state_columns_[C] = reinterpret_cast<std::byte*>(std::get<C>(states_).data());
            fold_columns_[C] = reinterpret_cast<std::byte*>(std::get<C>(folds_).data());
        });
    }

    [[nodiscard]] std::size_t first_result() const noexcept {
        return where().result_first - first_row(output_rows, where().result_first, where().result_rows);
    }
    /// The folds lie in memory of our own: converts them to the caller's values.
    void lower_states(bool is_lowered) {
        const column_set<columns>& to = output_.where();
        const row_layout results{nullptr, nullptr, to.bytes.data(), 0};
        if (where().contributions == 0 && functions_of_rows<Op, state>.set_identity == nullptr) return set_identities();
        if constexpr (folds_rows<Op, state>) {
            const row_layout own{nullptr, nullptr, bytes_.data(), 0};
            const place folds{fold_columns_.data(), 0};
            for (std::size_t i = 0; i < where().result_rows; ++i)
                store_row(own, folds, results, to.at(first_result()), i, is_lowered);
        } else {
            for_each_column<state>([&]<std::size_t C>() {
                auto* const out = elements_at<column_type<result, C>>(results, to.at(first_result()), C);
                const column_type<state, C>* const folds = std::get<C>(folds_).data();
                const std::size_t count = where().result_rows * to.widths[C];
                if constexpr (std::convertible_to<column_type<state, C>, column_type<result, C>>)
                    if (is_lowered) {
                        std::transform(folds, folds + count, out,
                                       [](const auto& fold) { return static_cast<column_type<result, C>>(fold); });
                        return;
                    }
                for (std::size_t i = 0; i < count; ++i)
                    out[i] = static_cast<column_type<result, C>>(detail::lowered(op_, folds[i], where().contributions));
            });
        }
    }
    void store_row(const row_layout& own, const place& folds, const row_layout& results, const place& to, std::size_t i,
                   bool is_lowered) {
        if constexpr (has_lower)
            if (!is_lowered)
                return op_.lower(detail::constant_row_at<state>(own, folds, i), where().contributions,
                                 detail::row_at<result>(results, to, i));
        for_each_column<state>([&]<std::size_t C>() {
            const auto from = std::get<C>(detail::constant_row_at<state>(own, folds, i));
            std::copy(from.begin(), from.end(), std::get<C>(detail::row_at<result>(results, to, i)).begin());
        });
    }
    /// For the first rank of an exclusive scan: sets the identity, if the operator has one for values.
    void set_identities() {
        for_each_column<result>([&]<std::size_t C>() {
            using T = column_type<result, C>;
            if constexpr (operator_with_identity<Op, T>) {
                const column_set<columns>& to = output_.where();
                const row_layout results{nullptr, nullptr, to.bytes.data(), 0};
                std::fill_n(elements_at<T>(results, to.at(first_result()), C), where().result_rows * to.widths[C],
                            identity_of<T>(op_));
            }
        });
    }

    /// The folds lie where the values belong: lowers them in place.
    void lower_results() {
        if (where().contributions == 0 && functions_of_rows<Op, state>.set_identity == nullptr) return;
        if constexpr (lowers_in_place<Op, state>) {
            rows().in_runs(std::array{output_.where().at(first_result())}, where().result_rows,
                           [this](const auto& run, std::size_t count) {
                               detail::lower_rows<Op, state>(rows(), run[0], count, where().contributions);
                           });
        } else {
            for_each_column<state>([&]<std::size_t C>() {
                auto* const values = elements_at<column_type<result, C>>(rows(), output_.where().at(first_result()), C);
                const std::size_t count = where().result_rows * output_.where().widths[C];
                for (std::size_t i = 0; i < count; ++i)
                    values[i] =
                        static_cast<column_type<result, C>>(detail::lowered(op_, values[i], where().contributions));
            });
        }
    }

    Op op_;
    [[no_unique_address]] std::conditional_t<in_place, absent, retained<In>> in_;
    retained<Out> out_;
    [[no_unique_address]] std::conditional_t<in_place, absent, binding<std::remove_reference_t<In>>> input_;
    binding<std::remove_reference_t<Out>> output_;
    std::array<std::size_t, columns> bytes_{};  // of a row of states
    std::size_t row_bytes_ = 0;
    bool folds_values_ = false;
    [[no_unique_address]] std::conditional_t<has_lift, states_for<state>, absent> states_;
    [[no_unique_address]] std::conditional_t<has_lift, states_for<state>, nothing> folds_;
    std::array<std::byte*, columns> state_columns_{}, fold_columns_{};
};

}  // namespace allfold::detail
