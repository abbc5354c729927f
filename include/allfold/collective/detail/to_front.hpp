// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <numeric>
#include <type_traits>

#include "allfold/data/tensors.hpp"
#include "allfold/engine/arguments.hpp"
#include "allfold/engine/options.hpp"
#include "allfold/engine/row_table.hpp"

/// @file
/// Results of an in-place call that the caller wants at the front of the operand.

namespace allfold::detail {

template <class Collective>
concept leaves_one_block = requires { Collective::leaves_one_block; };

template <class Collective, class In, class Out, class... Options>
[[nodiscard]] consteval bool require_front() {
    constexpr bool is_named = (std::same_as<Options, at_front> || ...);
    constexpr bool has_front =
        !is_named || (leaves_one_block<Collective> && std::same_as<In, absent> &&
                      !is_tensors<std::remove_cvref_t<Out>> && !(is_arrangement<Options> || ...));
    static_assert(has_front,
                  "allfold: at_front{} is for reduce_scatter in place, of a single operand without axis{}, shards{} or "
                  "displacements{}: out of place, the output holds only the block");
    return has_front;
}

/// Arguments whose result is moved to the front when the collective is complete.
template <class Op, class Out>
class arguments_to_front final : public arguments<Op, absent, Out> {
  public:
    using arguments<Op, absent, Out>::arguments;
    [[nodiscard]] bool may_finish_early() const noexcept override { return false; }

  private:
    /// Moves at most as many rows at a time as precede them, so that no row is overwritten before it is read.
    void finish_values() override {
        const auto& all = this->result_columns();
        const row_layout values{&functions_of_rows<no_fold, typename arguments_to_front::result>, nullptr,
                                all.bytes.data(), std::accumulate(all.bytes.begin(), all.bytes.end(), std::size_t{0})};
        const std::size_t before = this->where().result_first, rows = this->where().result_rows;
        for (std::size_t done = 0; before > 0 && done < rows; done += before)
            values.copy(all.at(before + done), all.at(done), std::min(before, rows - done));
    }
};

template <class Op, class In, class Out, class... Options>
using arguments_for =
    std::conditional_t<(std::same_as<Options, at_front> || ...), arguments_to_front<Op, Out>, arguments<Op, In, Out>>;

}  // namespace allfold::detail
