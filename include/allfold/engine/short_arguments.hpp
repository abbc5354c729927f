// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <type_traits>

#include "allfold/engine/arguments.hpp"
#include "allfold/engine/short_list.hpp"
#include "allfold/engine/short_pair.hpp"
#include "allfold/engine/short_task.hpp"

/// @file
/// The arguments of a call that may be one that was made before, bound to memory as they lie there.

namespace allfold::detail {

/// Types whose calls may be remembered: contiguous rows of bytes, folded as they are.
template <class Op, class In, class Out>
inline constexpr bool may_be_short = [] {
    using types = call_types<Op, In, Out>;
    using every = every_column<typename columns_of<typename types::state>::types>;
    constexpr bool has_list = is_tensors<std::remove_cvref_t<In>> || is_tensors<std::remove_cvref_t<Out>>;
    return every::copyable && every::alignment <= 64 && alignof(Op) <= spare_memory::alignment && !types::has_lift &&
           !(has_list && types::has_lower) && std::same_as<typename types::state, typename types::result> &&
           (!types::has_lower || lowers_in_place<Op, typename types::state>) &&
           column_count<typename types::state> <= short_call::most_columns;
}();

/// Where the rows of an argument lie: as `bound_rows` finds it, but in few instructions where it is a plain range.
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
            rows_ = std::ranges::size(x);
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

/// A list of few tensors: as they lie.
template <class X>
    requires is_tensors<std::remove_cv_t<X>>
class short_operand<X> : public few_pieces<typename X::element_type> {
  public:
    using few_pieces<typename X::element_type>::few_pieces;
};

/// In the in-place form `In` is `absent`.
template <class Op, class In, class Out>
class short_arguments {
  public:
    static constexpr bool in_place = std::same_as<In, absent>;
    using operation = Op;
    using state = typename call_types<Op, In, Out>::state;
    static constexpr std::size_t columns = column_count<state>;
    static constexpr bool is_raw = call_types<Op, In, Out>::is_raw;
    static constexpr bool has_list = is_tensors<std::remove_cvref_t<In>> || is_tensors<std::remove_cvref_t<Out>>;

    short_arguments(std::remove_reference_t<In>& in, std::remove_reference_t<Out>& out) : input_(in), output_(out) {}
    explicit short_arguments(std::remove_reference_t<Out>& out) : output_(out) {}

    /// Before they are used in the background: throws where what is to be retained would be gone.
    static void require_retained(std::remove_reference_t<In>& in, std::remove_reference_t<Out>& out) {
        static_cast<void>(retained<In>(in));
        static_cast<void>(retained<Out>(out));
    }
    static void require_retained(std::remove_reference_t<Out>& out) { static_cast<void>(retained<Out>(out)); }

    /// Whether it is plain that nothing is wrong with them; else the engine finds out what.
    [[nodiscard]] bool are_plain() const noexcept {
        if (!output_.is_plain()) return false;
        if constexpr (!in_place) {
            if (!input_.is_plain()) return false;
            if constexpr (is_raw)
                if (input_.alignment() != output_.alignment()) return false;
            for (std::size_t a = 0; a < columns; ++a) {
                if (input_.bytes(a) != output_.bytes(a)) return false;
                for (std::size_t b = 0; b < columns; ++b)
                    if (input_.range(a).shares(output_.range(b)) && may_share_memory()) return false;
            }
        }
        return true;
    }

    [[nodiscard]] call_key key(const void* types, const call_options& options) const noexcept {
        const std::uint64_t form = call_key::form_of(options.root, in_place, has_list, options.delegation);
        if constexpr (in_place)
            return {types, output_.rows(), output_.rows(), form, options.mark_of_lists()};
        else
            return {types, input_.rows(), output_.rows(), form, options.mark_of_lists()};
    }
    /// Of rows.
    [[nodiscard]] std::size_t alignment() const noexcept
        requires(is_raw)
    {
        return output_.alignment();
    }
    /// If the communicator remembers a call like this: runs it again.
    template <class Comm>
    [[nodiscard]] bool run(Comm& comm, const Op& op, const call_key& key) const {
        const std::array<std::size_t, columns> bytes = row_bytes();
        const short_call* const known = short_calls::find(comm.background(), key, bytes);
        if (known == nullptr) return false;
        if (columns == 1 && !has_list && known->is_pair && known->is_flat)
            run_flat_pair(comm, *known, functions_of_rows<Op, state>, std::addressof(op), input().columns[0],
                          output_.memory().columns[0]);
        else
            (known->is_pair ? run_pair_of_rows<Comm> : run_again<Comm>)(comm, *known, layout(op, bytes), input(),
                                                                        output_.memory());
        if constexpr (!has_list && functions_of_rows<Op, state>.lower != nullptr)
            known->lower(layout(op, bytes), output_.memory().columns);
        return true;
    }
    /// The same in the background; null where the communicator remembers none. Not of lists.
    template <class Comm>
    [[nodiscard]] std::unique_ptr<pending> prepare(Comm& comm, const Op& op, const call_key& key) const {
        const std::array<std::size_t, columns> bytes = row_bytes();
        const short_call* const known = short_calls::find(comm.background(), key, bytes);
        if (known == nullptr) return nullptr;
        return std::make_unique<short_task_with<Comm, Op>>(comm, *known, layout(op, bytes), input().columns,
                                                           output_.memory().columns, op);
    }

  private:
    [[nodiscard]] std::array<std::size_t, columns> row_bytes() const noexcept {
        std::array<std::size_t, columns> bytes;
        for (std::size_t c = 0; c < columns; ++c) bytes[c] = output_.bytes(c);
        return bytes;
    }
    [[nodiscard]] row_layout layout(const Op& op, const std::array<std::size_t, columns>& bytes) const noexcept {
        std::size_t all = 0;
        for (const std::size_t each : bytes) all += each;
        row_layout rows{&functions_of_rows<Op, state>, std::addressof(op), bytes.data(), all};
        if constexpr (is_raw) rows.alignment = output_.alignment();
        return rows;
    }
    /// Where what each lies in, with what is between its pieces, is partly the same.
    [[nodiscard]] bool may_share_memory() const noexcept {
        if constexpr (is_tensors<std::remove_cvref_t<In>> && is_tensors<std::remove_cvref_t<Out>>)
            return share_memory(input_.ranges(), output_.ranges());
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
