// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <type_traits>

#include "allfold/algebra/check_laws.hpp"
#include "allfold/algebra/operator.hpp"
#include "allfold/data/partition.hpp"
#include "allfold/error.hpp"

/// @file
/// Checks the shards that a reduce_scatter has left on all ranks: a testing aid for programs that have all inputs and
/// all shards in one place.

namespace allfold {

/// What `verify_reduce_scatter` found: true if everything is right.
struct shard_report {
    enum class fault { none, count, input, extent, value };

    fault what = fault::none;
    int rank = -1;            ///< whose shard is wrong, or whose input has another length than the partition
    std::size_t element = 0;  ///< of the whole operand; if lengths are wrong, how many elements there are
    std::size_t wanted = 0;   ///< if lengths are wrong, how many there should be

    [[nodiscard]] explicit operator bool() const noexcept { return what == fault::none; }
    [[nodiscard]] std::string text() const {
        switch (what) {
            case fault::none: return "all shards are right";
            case fault::count: return detail::text({"there are ", element, " shards for ", wanted, " inputs"});
            case fault::input:
                return detail::text({"the input of rank ", rank, " has ", element, " elements, not ", wanted});
            case fault::extent:
                return detail::text({"the shard of rank ", rank, " has ", element, " elements, not ", wanted});
            case fault::value: break;
        }
        return detail::text({"the shard of rank ", rank, " is wrong at element ", element, " of the whole"});
    }
};

namespace detail {

/// Element `i` of the fold of all inputs, in rank order.
template <class Inputs, class Op>
[[nodiscard]] auto folded_element(const Inputs& inputs, std::size_t i, const Op& op) {
    const auto operand = [&](const auto& input) {
        return lifted(op, *std::next(std::begin(input), static_cast<std::ptrdiff_t>(i)));
    };
    auto input = std::begin(inputs);
    auto folded = operand(*input);
    int contributions = 1;
    for (++input; input != std::end(inputs); ++input, ++contributions)
        folded = fold_two<decltype(folded)>(op, folded, operand(*input));
    return lowered(op, folded, contributions);
}

}  // namespace detail

/// Compares all shards with a fold of the inputs in rank order: shard r must be block r of that fold, and have its
/// length. `inputs` and `shards` are ranges, by rank, of ranges of elements; `blocks` is the partition of the
/// reduce_scatter, and `equal` says when two values are the same: `within(1e-5)` if order and bracketing were left to
/// the schedule.
///
///     const auto blocks = partition::ceil(n, ranks);
///     const shard_report report = verify_reduce_scatter(inputs, shards, sum(), blocks, within(1e-5));
///     REQUIRE(report);
///
/// It is for testing, and slow. The design that it comes from compares something else: each rank's shard with every
/// block of one rank's input, which has not been folded; and its ring leaves chunk r + 1 at rank r. Both errors are
/// found here.
template <class Inputs, class Shards, class Op, class Equal = same_value>
[[nodiscard]] shard_report verify_reduce_scatter(const Inputs& inputs, const Shards& shards, const Op& op,
                                                 const partition& blocks, const Equal& equal = {}) {
    using wrong = shard_report::fault;
    const auto length = [](const auto& range) {
        return static_cast<std::size_t>(std::distance(std::begin(range), std::end(range)));
    };
    const std::size_t ranks = length(inputs);
    if (length(shards) != ranks || blocks.blocks() != static_cast<int>(ranks))
        return {wrong::count, -1, length(shards), ranks};
    for (int r = 0; const auto& input : inputs) {
        if (length(input) != blocks.total()) return {wrong::input, r, length(input), blocks.total()};
        ++r;
    }
    for (int r = 0; const auto& shard : shards) {
        if (length(shard) != blocks.extent(r)) return {wrong::extent, r, length(shard), blocks.extent(r)};
        for (std::size_t i = blocks.offset(r); const auto& found : shard) {
            if (!equal(found, static_cast<std::remove_cvref_t<decltype(found)>>(detail::folded_element(inputs, i, op))))
                return {wrong::value, r, i, 0};
            ++i;
        }
        ++r;
    }
    return {};
}
/// The same for blocks that are as even as possible.
template <class Inputs, class Shards, class Op>
[[nodiscard]] shard_report verify_reduce_scatter(const Inputs& inputs, const Shards& shards, const Op& op) {
    std::size_t longest = 0;
    int ranks = 0;
    for (const auto& input : inputs) {
        longest = std::max(longest, static_cast<std::size_t>(std::distance(std::begin(input), std::end(input))));
        ++ranks;
    }
    return verify_reduce_scatter(inputs, shards, op, partition::even(longest, ranks));
}

}  // namespace allfold
