// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <array>
#include <concepts>
#include <cstddef>
#include <type_traits>

#include "allfold/engine/arguments.hpp"
#include "allfold/engine/short_call.hpp"

/// @file
/// The arguments of a call that may be one that was made before, bound to memory as they lie there.

namespace allfold::detail {

/// Types whose calls may be remembered: contiguous rows of bytes, folded as they are.
template <class Op, class In, class Out>
inline constexpr bool may_be_short = [] {
    using types = call_types<Op, In, Out>;
    using every = every_column<typename columns_of<typename types::state>::types>;
    return every::copyable && every::alignment <= 64 && !types::has_lift && std::same_as<typename types::state, typename types::result> &&
           (!types::has_lower || lowers_in_place<Op, typename types::state>) &&
           column_count<typename types::state> <= short_call::most_columns;
}();

/// In the in-place form `In` is `absent`.
template <class Op, class In, class Out>
class short_arguments {
  public:
    static constexpr bool in_place = std::same_as<In, absent>;
    using state = typename call_types<Op, In, Out>::state;
    static constexpr std::size_t columns = column_count<state>;

    short_arguments(std::remove_reference_t<In>& in, std::remove_reference_t<Out>& out) : input_(in), output_(out) {}
    explicit short_arguments(std::remove_reference_t<Out>& out) : output_(out) {}

    /// Whether it is plain that nothing is wrong with them; else the engine finds out what.
    [[nodiscard]] bool are_plain() const noexcept {
        const auto& out = output_.where();
        if (!output_.needs_no_copy() || out.has_null()) return false;
        for (std::size_t a = 0; a < columns; ++a)
            for (std::size_t b = a + 1; b < columns; ++b)
                if (out.range[a].shares(out.range[b])) return false;
        if constexpr (!in_place) {
            const auto& in = input_.where();
            if (!input_.needs_no_copy() || in.has_null() || in.widths != out.widths) return false;
            for (std::size_t a = 0; a < columns; ++a)
                for (std::size_t b = 0; b < columns; ++b)
                    if (in.range[a].shares(out.range[b])) return false;
        }
        return true;
    }

    [[nodiscard]] call_key key(const void* types, int root) const noexcept {
        if constexpr (in_place)
            return {types, output_.where().rows, output_.where().rows, root};
        else
            return {types, input_.where().rows, output_.where().rows, root};
    }
    /// If the communicator remembers a call like this: runs it again.
    template <class Comm>
    [[nodiscard]] bool run(Comm& comm, const Op& op, const call_key& key) const {
        std::array<std::size_t, columns> bytes;
        std::size_t row_bytes = 0;
        for_each_column<state>([&]<std::size_t C>() {
            bytes[C] = output_.where().widths[C] * sizeof(column_type<state, C>);
            row_bytes += bytes[C];
        });
        const row_layout rows{&functions_of_rows<Op, state>, &op, bytes.data(), row_bytes};
        const short_call* const known = short_calls::find(comm.background(), key, rows);
        if (known == nullptr) return false;
        std::byte* const* const result = output_.where().first.data();
        run_again(comm, *known, rows, input(), result);
        if (rows.functions->lower != nullptr && known->contributions > 0 && known->result.count > 0)
            rows.functions->lower(rows, {result, known->result.first}, known->result.count, known->contributions);
        return true;
    }

  private:
    [[nodiscard]] std::byte* const* input() const noexcept {
        if constexpr (in_place)
            return output_.where().first.data();
        else
            return input_.where().first.data();
    }

    [[no_unique_address]] std::conditional_t<in_place, absent, binding<std::remove_reference_t<In>>> input_;
    binding<std::remove_reference_t<Out>> output_;
};

}  // namespace allfold::detail
