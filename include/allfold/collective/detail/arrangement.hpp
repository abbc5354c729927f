// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <numeric>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "allfold/data/partition.hpp"
#include "allfold/data/tensor_view.hpp"
#include "allfold/data/tensors.hpp"
#include "allfold/engine/binding.hpp"
#include "allfold/engine/options.hpp"
#include "allfold/error.hpp"

/// @file
/// Operands whose blocks do not follow each other in memory: lists of tensors, tensors cut along an axis, and blocks
/// that belong to ranks in another order. They become lists of pieces, block by block.

namespace allfold::detail {

/// A collective says which of its arguments it cuts into blocks for the ranks, each of which has all of them.
template <class Collective>
inline constexpr bool cuts_input = requires { requires Collective::cuts_input; };
template <class Collective>
inline constexpr bool cuts_output = requires { requires Collective::cuts_output; };

/// An operand in the order of its blocks, and how long they are.
template <class T>
struct arranged {
    tensors<T> list;
    partition blocks = partition::even(0, 1);
};

/// Where a rank says which collective has what wrong with it.
struct arrangement_place {
    const char* collective;
    int rank;
    int size;

    [[noreturn, gnu::cold]] void reject(errc code, std::initializer_list<text_piece> about) const {
        const std::string words = text(about);
        throw error(code, text({collective, ": rank ", rank, ": ", words}));
    }
};

/// The block of each rank, in the order of the ranks.
[[nodiscard]] inline std::vector<int> block_order(const arrangement_place& at, const shards* given) {
    std::vector<int> order(static_cast<std::size_t>(at.size));
    std::iota(order.begin(), order.end(), 0);
    if (given == nullptr) return order;
    const std::vector<int>& blocks = given->blocks();
    if (blocks.size() != order.size())
        at.reject(errc::bad_argument, {"the list of shards has ", blocks.size(), " entries for ", at.size, " ranks"});
    std::vector<int> owners(order.size(), -1);
    for (int r = 0; r < at.size; ++r) {
        const int block = blocks[static_cast<std::size_t>(r)];
        if (block < 0 || block >= at.size)
            at.reject(errc::bad_rank, {"shard ", block, " of rank ", r, " is not in [0, ", at.size, ")"});
        int& owner = owners[static_cast<std::size_t>(block)];
        if (owner >= 0) at.reject(errc::bad_rank, {"shard ", block, " is that of ranks ", owner, " and ", r});
        owner = r;
    }
    return blocks;
}

/// Adds what lies in [first, first + count) of a view along one axis.
template <class T, tensor_view V>
void add_slice(tensors<T>& to, const V& view, std::size_t along, std::size_t first, std::size_t count) {
    using access = tensor_access<V>;
    constexpr std::size_t rank = access::rank;
    std::array<std::size_t, rank> extents;
    std::array<std::ptrdiff_t, rank> strides;
    for (std::size_t i = 0; i < rank; ++i) {
        extents[i] = access::extent(view, i);
        strides[i] = access::stride(view, i);
    }
    extents[along] = count;
    T* const from = access::data(view);
    const bool is_empty = std::find(extents.begin(), extents.end(), std::size_t{0}) != extents.end();
    to.add(
        tensor<T, rank>(is_empty || from == nullptr ? from : from + static_cast<std::ptrdiff_t>(first) * strides[along],
                        extents, strides));
}

/// A range as a tensor of rank 1.
template <class X>
[[nodiscard]] auto viewed(X& x) {
    if constexpr (tensor_view<X>)
        return std::remove_const_t<X>(x);
    else
        return tensor<std::remove_reference_t<range_reference<X>>, 1>(std::ranges::data(x),
                                                                      {static_cast<std::size_t>(std::ranges::size(x))});
}

/// A tensor, cut along an axis. `blocks`: of what is along it; evenly where null.
template <class X>
[[nodiscard]] auto arrange_along(const arrangement_place& at, X& x, std::size_t along, const partition* blocks,
                                 const shards* order) {
    const auto view = viewed(x);
    using access = tensor_access<std::remove_const_t<decltype(view)>>;
    if (along >= access::rank) at.reject(errc::bad_argument, {"axis ", along, " of a tensor that has ", access::rank});
    const std::size_t extent = access::extent(view, along);
    const partition cut = blocks != nullptr ? *blocks : partition::even(extent, at.size);
    if (cut.blocks() != at.size)
        at.reject(errc::bad_partition, {"the partition has ", cut.blocks(), " blocks for ", at.size, " ranks"});
    if (cut.total() != extent)
        at.reject(errc::bad_partition,
                  {"the partition adds up to ", cut.total(), ", but axis ", along, " is ", extent, " long"});
    arranged<typename access::element_type> made;
    std::vector<std::size_t> sizes;
    for (const int block : block_order(at, order)) {
        const std::size_t before = made.list.size();
        add_slice(made.list, view, along, cut.offset(block), cut.extent(block));
        sizes.push_back(made.list.size() - before);
    }
    made.blocks = partition::sizes(sizes);
    return made;
}

/// Adds [first, first + count) of the elements of a tensor.
template <class T>
void add_elements(tensors<T>& to, std::span<const std::span<T>> tensor, std::size_t first, std::size_t count) {
    for (std::size_t at = 0; const std::span<T>& piece : tensor) {
        const std::size_t begin = std::max(first, at), end = std::min(first + count, at + piece.size());
        if (begin < end) to.add(piece.subspan(begin - at, end - begin));
        at += piece.size();
    }
}

/// A list of tensors, each of which is cut: as the list says, or as `blocks` does where that is not null.
template <class T>
[[nodiscard]] arranged<T> arrange_list(const arrangement_place& at, const tensors<T>& list, const partition* blocks,
                                       const shards* order) {
    std::vector<partition> cuts;
    for (std::size_t i = 0; i < list.lengths().size(); ++i) {
        cuts.push_back(blocks != nullptr ? *blocks : list.cut(i, at.size));
        if (cuts.back().blocks() != at.size || cuts.back().total() != list.lengths()[i])
            at.reject(errc::bad_partition, {"tensor ", i, " of ", list.lengths()[i], " elements is cut into ",
                                            cuts.back().blocks(), " blocks of ", cuts.back().total()});
    }
    arranged<T> made;
    std::vector<std::size_t> sizes;
    for (const int block : block_order(at, order)) {
        const std::size_t before = made.list.size();
        for (std::size_t i = 0; i < cuts.size(); ++i)
            add_elements(made.list, list.pieces_of(i), cuts[i].offset(block), cuts[i].extent(block));
        sizes.push_back(made.list.size() - before);
    }
    made.blocks = partition::sizes(sizes);
    return made;
}

/// Where a list is one block of another list: that its tensors are as long as the blocks of those.
template <class T, class Whole>
void require_block(const arrangement_place& at, const tensors<T>& block, const tensors<Whole>& whole,
                   const shards* order, const char* name) {
    if (block.lengths().size() != whole.lengths().size())
        at.reject(errc::bad_argument, {name, " has ", block.lengths().size(), " tensors, and the list that is cut ",
                                       whole.lengths().size()});
    const int own = block_order(at, order)[static_cast<std::size_t>(at.rank)];
    for (std::size_t i = 0; i < block.lengths().size(); ++i)
        if (const std::size_t needed = whole.cut(i, at.size).extent(own); block.lengths()[i] != needed)
            at.reject(errc::mismatch,
                      {name, ": tensor ", i, " has ", block.lengths()[i], " elements, but ", needed, " are needed"});
}
template <class Collective, class In, class Out>
void require_shards(const arrangement_place& at, const tensors<In>& in, const tensors<Out>& out, const shards* order) {
    if constexpr (cuts_input<Collective> && !cuts_output<Collective>)
        require_block(at, out, in, order, "the output");
    else if constexpr (cuts_output<Collective> && !cuts_input<Collective>)
        require_block(at, in, out, order, "the input");
}

template <class Wanted>
[[nodiscard]] constexpr const Wanted* find_option() noexcept {
    return nullptr;
}
template <class Wanted, class Head, class... Tail>
[[nodiscard]] constexpr const Wanted* find_option(const Head& head, const Tail&... tail) noexcept {
    if constexpr (std::same_as<Wanted, Head>)
        return &head;
    else
        return find_option<Wanted>(tail...);
}

/// Whether the blocks of an argument that a collective cuts have to be brought in order. `Axis`: what says along which
/// axis this one is cut.
template <class X, class Axis, class... Options>
inline constexpr bool needs_arrangement = is_tensors<std::remove_cvref_t<X>> || (std::same_as<Options, Axis> || ...) ||
                                          (std::same_as<Options, shards> || ...);

/// Whether what a caller says of blocks has a meaning; where not, one line of the compiler says what to write.
template <class Collective, class In, class Out, class... Options>
[[nodiscard]] consteval bool require_arrangement() {
    constexpr bool cuts_both = cuts_input<Collective> && cuts_output<Collective>;
    constexpr bool cuts_one = cuts_input<Collective> != cuts_output<Collective>;
    constexpr bool has_axis = (std::same_as<Options, axis> || ...) || (std::same_as<Options, shards> || ...);
    constexpr bool has_axes = (std::same_as<Options, split_axis> || ...) || (std::same_as<Options, concat_axis> || ...);
    static_assert(
        !has_axis || cuts_one,
        "allfold: axis{} and shards{} are for reduce_scatter and all_gather, which cut an operand into a block "
        "for each rank; all_to_all has split_axis{} and concat_axis{}");
    static_assert(!has_axes || cuts_both, "allfold: split_axis{} and concat_axis{} are for all_to_all");
    constexpr bool has_list = is_tensors<std::remove_cvref_t<In>> || is_tensors<std::remove_cvref_t<Out>>;
    constexpr bool may_list = Collective::promise.cut != cut_for::ranks || cuts_one;
    static_assert(
        !has_list || may_list,
        "allfold: this collective takes no list of tensors, since only its root has all blocks: make one call "
        "for each");
    constexpr bool list_has_axis = has_list && (has_axis || has_axes) && !(std::same_as<Options, shards> || ...);
    static_assert(!list_has_axis, "allfold: a list of tensors is cut tensor by tensor, and not along an axis");
    constexpr bool list_has_blocks =
        has_list && ((std::same_as<Options, partition> || std::same_as<Options, input_blocks> ||
                      std::same_as<Options, output_blocks>) ||
                     ...);
    static_assert(!list_has_blocks,
                  "allfold: a list of tensors is cut tensor by tensor: say how with tensors{...}.by(partition::ceil)");
    return (!has_axis || cuts_one) && (!has_axes || cuts_both) && (!has_list || may_list) && !list_has_axis &&
           !list_has_blocks;
}

/// What all ranks must say alike.
template <class X>
[[nodiscard]] list_mark mark_of_lists([[maybe_unused]] const X& list, const shards* order) {
    std::uint64_t mark = 0;
    const auto mix = [&mark](std::uint64_t value) { mark = (mark ^ value) * 0x9e3779b97f4a7c15u + 1; };
    if constexpr (is_tensors<std::remove_cvref_t<X>>)
        for (const std::size_t length : list.lengths()) mix(length);
    if (order != nullptr)
        for (const int block : order->blocks()) mix(static_cast<std::uint64_t>(block));
    return {mark};
}

/// One argument that a collective cuts, in the order of its blocks. `Axis` and `Blocks`: the options that speak of it.
template <class Axis, class Blocks, class X, class... Options>
[[nodiscard]] auto arrange(const arrangement_place& at, X& x, const Options&... options) {
    const shards* const order = find_option<shards>(options...);
    if constexpr (is_tensors<std::remove_const_t<X>>) {
        return arrange_list(at, x, nullptr, order);
    } else {
        const partition* blocks = find_option<partition>(options...);
        if constexpr (!std::same_as<Blocks, partition>)
            if (const Blocks* const own = find_option<Blocks>(options...)) blocks = &own->blocks;
        if constexpr ((std::same_as<Options, Axis> || ...))
            return arrange_along(at, x, find_option<Axis>(options...)->number, blocks, order);
        else
            return arrange_list(at, tensors(x), blocks, order);
    }
}

/// A partition of blocks that nobody has described has to be uniform where ranks do not know each other's.
template <class T>
void require_uniform(const arrangement_place& at, const arranged<T>& made, const char* name) {
    if (!made.blocks.is_uniform())
        at.reject(errc::bad_partition, {"the axis along which the ", name, " is cut is no ", at.size,
                                        " blocks of one length: give input_blocks{} and output_blocks{}"});
}

}  // namespace allfold::detail
