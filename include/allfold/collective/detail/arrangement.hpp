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

#include "allfold/algebra/diagnose.hpp"
#include "allfold/data/detail/small_vector.hpp"
#include "allfold/data/partition.hpp"
#include "allfold/data/tensor_view.hpp"
#include "allfold/data/tensors.hpp"
#include "allfold/engine/arguments.hpp"
#include "allfold/engine/binding.hpp"
#include "allfold/engine/list_text.hpp"
#include "allfold/engine/options.hpp"
#include "allfold/engine/short_list.hpp"
#include "allfold/error.hpp"

/// @file
/// Operands whose blocks are not in order in memory: lists of tensors, tensors cut along an axis, and blocks assigned
/// to ranks in another order. They are turned into lists of pieces, block by block.

namespace allfold::detail {

/// A collective declares which of its arguments it cuts into one block per rank; every rank has all blocks of these.
template <class Collective>
inline constexpr bool cuts_input = requires { requires Collective::cuts_input; };
template <class Collective>
inline constexpr bool cuts_output = requires { requires Collective::cuts_output; };

/// An operand in block order, and the lengths of its blocks.
template <class T>
struct arranged {
    tensors<T> list;
    partition blocks = partition::even(0, 1);
};

/// Where an error occurred, to name the collective and the rank in its message.
struct arrangement_place {
    const char* collective;
    int rank;
    int size;

    [[noreturn, gnu::cold]] void reject(errc code, std::initializer_list<text_piece> about) const {
        const std::string words = text(about);
        throw error(code, text({collective, ": rank ", rank, ": ", words}));
    }
};

/// For so many ranks, nothing is allocated to arrange the blocks.
inline constexpr std::size_t inline_ranks = 16;

/// The block of each rank, in rank order.
[[nodiscard]] inline small_vector<int, inline_ranks> block_order(const arrangement_place& at, const shards* given) {
    small_vector<int, inline_ranks> order(static_cast<std::size_t>(at.size), 0);
    if (given == nullptr) {
        std::iota(order.begin(), order.end(), 0);
        return order;
    }
    const std::vector<int>& blocks = given->blocks();
    if (blocks.size() != order.size())
        at.reject(errc::bad_argument, {"the list of shards has ", blocks.size(), " entries for ", at.size, " ranks"});
    small_vector<int, inline_ranks> owners(order.size(), -1);
    for (int r = 0; r < at.size; ++r) {
        const int block = blocks[static_cast<std::size_t>(r)];
        if (block < 0 || block >= at.size)
            at.reject(errc::bad_rank, {"shard ", block, " of rank ", r, " is not in [0, ", at.size, ")"});
        int& owner = owners[static_cast<std::size_t>(block)];
        if (owner >= 0)
            at.reject(errc::bad_rank, {"shard ", block, " is assigned to both rank ", owner, " and rank ", r});
        owner = r;
        order[static_cast<std::size_t>(r)] = block;
    }
    return order;
}

/// Adds the slice [first, first + count) of a view along one axis.
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

/// The number of contiguous runs in a block that is cut along an axis, which must exist.
template <class X>
[[nodiscard]] std::size_t runs_of_block([[maybe_unused]] X& x, std::size_t along) {
    std::size_t runs = 1;
    if constexpr (tensor_view<X>)
        for (std::size_t i = 0; i < along; ++i) runs *= tensor_access<std::remove_const_t<X>>::extent(x, i);
    return runs;
}

/// A tensor, cut along an axis. `blocks` divides the extent of that axis; evenly if null.
template <class X>
[[nodiscard]] auto arrange_along(const arrangement_place& at, X& x, std::size_t along, const partition* blocks,
                                 const shards* order) {
    const auto view = detail::viewed(x);
    using access = tensor_access<std::remove_const_t<decltype(view)>>;
    if (along >= access::rank)
        at.reject(errc::bad_argument,
                  {"axis ", along, " of a tensor with ", access::rank, access::rank == 1 ? " axis" : " axes"});
    const std::size_t extent = access::extent(view, along);
    const partition cut = blocks != nullptr ? *blocks : partition::even(extent, at.size);
    if (cut.blocks() != at.size)
        at.reject(errc::bad_partition, {"the partition has ", cut.blocks(), " blocks for ", at.size, " ranks"});
    if (cut.total() != extent)
        at.reject(errc::bad_partition,
                  {"the partition adds up to ", cut.total(), ", but axis ", along, " has extent ", extent});
    arranged<typename access::element_type> made;
    const auto ranks = static_cast<std::size_t>(at.size);
    made.list.reserve(ranks, ranks * detail::runs_of_block(view, along));
    small_vector<std::size_t, inline_ranks> sizes;
    for (const int block : block_order(at, order)) {
        const std::size_t before = made.list.size();
        detail::add_slice(made.list, view, along, cut.offset(block), cut.extent(block));
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

template <class T>
void require_cut(const arrangement_place& at, const tensors<T>& list, std::size_t i, const partition& cut) {
    if (cut.blocks() != at.size || cut.total() != list.lengths()[i])
        at.reject(errc::bad_partition, {"tensor ", i, " of ", list.lengths()[i], " elements is cut into ", cut.blocks(),
                                        " blocks of ", cut.total(), " elements in total"});
}

/// A list of tensors, each of which is cut: as `blocks` says, or as the list says if `blocks` is null.
template <class T>
[[nodiscard]] arranged<T> arrange_list(const arrangement_place& at, const tensors<T>& list, const partition* blocks,
                                       const shards* order) {
    const std::size_t tensors = list.lengths().size(), ranks = static_cast<std::size_t>(at.size);
    small_vector<partition::bounds, inline_ranks> cuts;  // of each tensor in turn
    cuts.reserve(tensors * ranks);
    const auto add_cut = [&](std::size_t i, const partition& cut) {
        detail::require_cut(at, list, i, cut);
        for (int block = 0; block < at.size; ++block) cuts.push_back(cut.bounds_of(block));
    };
    for (std::size_t i = 0; i < tensors; ++i)
        blocks != nullptr ? add_cut(i, *blocks) : add_cut(i, list.cut(i, at.size));
    arranged<T> made;
    made.list.reserve(list.pieces().size() * ranks);
    small_vector<std::size_t, inline_ranks> sizes;
    sizes.reserve(ranks);
    for (const int block : block_order(at, order)) {
        const std::size_t before = made.list.size();
        for (std::size_t i = 0; i < tensors; ++i) {
            const partition::bounds& of = cuts[i * ranks + static_cast<std::size_t>(block)];
            detail::add_elements(made.list, list.pieces_of(i), of.begin, of.end - of.begin);
        }
        sizes.push_back(made.list.size() - before);
    }
    made.blocks = partition::sizes(sizes);
    return made;
}

/// Throws if a block extends beyond the operand, or overlaps another.
inline void require_apart(const arrangement_place& at, const partition& blocks, const std::vector<std::size_t>& first,
                          std::size_t elements) {
    small_vector<int, inline_ranks> order(first.size(), 0);
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, {}, [&first](int block) { return first[static_cast<std::size_t>(block)]; });
    int before = -1;
    for (std::size_t end = 0; const int block : order) {
        const std::size_t begin = first[static_cast<std::size_t>(block)], length = blocks.extent(block);
        if (length == 0) continue;
        if (begin > elements || length > elements - begin)
            at.reject(errc::bad_partition, {"block ", block, " of ", length, " elements from element ", begin,
                                            " exceeds the operand of ", elements, " elements"});
        if (begin < end)
            at.reject(errc::bad_partition, {"blocks ", before, " and ", block, " overlap at element ", begin});
        end = begin + length;
        before = block;
    }
}

/// A tensor whose blocks may be anywhere in it.
template <class T>
[[nodiscard]] arranged<T> arrange_displaced(const arrangement_place& at, const tensors<T>& all, const partition& blocks,
                                            const displacements& where, const shards* order) {
    const std::vector<std::size_t>& first = where.elements();
    if (blocks.blocks() != at.size || first.size() != static_cast<std::size_t>(at.size))
        at.reject(errc::bad_partition, {"a partition of ", blocks.blocks(), " blocks and ", first.size(),
                                        " displacements for ", at.size, " ranks"});
    require_apart(at, blocks, first, all.size());
    arranged<T> made;
    small_vector<std::size_t, inline_ranks> sizes;
    for (const int block : block_order(at, order)) {
        sizes.push_back(blocks.extent(block));
        detail::add_elements(made.list, all.pieces_of(0), first[static_cast<std::size_t>(block)], sizes.back());
    }
    made.blocks = partition::sizes(sizes);
    return made;
}

/// For a list that is one block of another list: throws unless its tensors are as long as the corresponding blocks.
template <class T, class Whole>
void require_block(const arrangement_place& at, const tensors<T>& block, const tensors<Whole>& whole,
                   const shards* order, const char* name) {
    if (block.lengths().size() != whole.lengths().size())
        at.reject(errc::bad_argument, {name, " has ", block.lengths().size(), " tensors, but the list that is cut has ",
                                       whole.lengths().size()});
    const int own = block_order(at, order)[static_cast<std::size_t>(at.rank)];
    for (std::size_t i = 0; i < block.lengths().size(); ++i) {
        const partition cut = whole.cut(i, at.size);
        detail::require_cut(at, whole, i, cut);
        if (const std::size_t needed = cut.extent(own); block.lengths()[i] != needed)
            at.reject(errc::mismatch,
                      {name, ": tensor ", i, " has ", block.lengths()[i], " elements, but ", needed, " are needed"});
    }
}
template <class Collective, class In, class Out>
void require_shards(const arrangement_place& at, const tensors<In>& in, const tensors<Out>& out, const shards* order) {
    if constexpr (cuts_input<Collective> && !cuts_output<Collective>)
        detail::require_block(at, out, in, order, "the output");
    else if constexpr (cuts_output<Collective> && !cuts_input<Collective>)
        detail::require_block(at, in, out, order, "the input");
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

template <class Wanted, class... Options>
inline constexpr bool has_option = (std::same_as<Options, Wanted> || ...);

/// The options for an argument: for the only one that is cut into blocks for all ranks, or for one of two.
struct options_of_one {
    using along = axis;
    using blocks = partition;
    using displaced = displacements;
};
struct options_of_input {
    using along = split_axis;
    using blocks = input_blocks;
    using displaced = input_displacements;
};
struct options_of_output {
    using along = concat_axis;
    using blocks = output_blocks;
    using displaced = output_displacements;
};

/// Whether the blocks of an argument that a collective cuts have to be arranged in order.
template <class X, class Said, class... Options>
inline constexpr bool needs_arrangement =
    is_tensors<std::remove_cvref_t<X>> || has_option<typename Said::along, Options...> ||
    has_option<typename Said::displaced, Options...> || has_option<shards, Options...>;

/// Rejects options for the output of a call in place, which is cut as the input is.
template <class In, class... Options>
[[nodiscard]] consteval bool require_one_cut() {
    constexpr bool is_cut_once =
        !std::same_as<In, absent> || !(has_option<concat_axis, Options...> ||
                                       (has_option<split_axis, Options...> && has_option<output_blocks, Options...>));
    static_assert(is_cut_once,
                  "allfold: in place, the output is cut as the input is: pass only split_axis{} and input_blocks{}");
    return is_cut_once;
}

/// Whether what a caller specifies about blocks makes sense; if not, a one-line compile error says what to write.
template <class Collective, class In, class Out, class... Options>
[[nodiscard]] consteval bool require_arrangement() {
    constexpr bool cuts_both = cuts_input<Collective> && cuts_output<Collective>;
    constexpr bool cuts_one = cuts_input<Collective> != cuts_output<Collective>;
    constexpr bool has_places = has_option<displacements, Options...>;
    constexpr bool has_both_places =
        has_option<input_displacements, Options...> || has_option<output_displacements, Options...>;
    constexpr bool has_axis = has_places || has_option<axis, Options...> || has_option<shards, Options...>;
    constexpr bool has_axes =
        has_both_places || has_option<split_axis, Options...> || has_option<concat_axis, Options...>;
    static_assert(!has_axis || cuts_one,
                  "allfold: axis{}, shards{} and displacements{} are for reduce_scatter and all_gather, which cut an "
                  "operand into a block for each rank; all_to_all has split_axis{}, concat_axis{}, "
                  "input_displacements{} and output_displacements{}");
    static_assert(!has_axes || cuts_both,
                  "allfold: split_axis{}, concat_axis{}, input_displacements{} and output_displacements{} are for "
                  "all_to_all");
    constexpr bool has_single_elements = !is_row<element_of<In>> && !is_row<element_of<Out>>;
    static_assert(
        has_single_elements,
        "allfold: records and raw rows cannot be cut along an axis, into shards or at displacements: make one "
        "call for each tensor, of elements with a type; if raw rows are only moved, pass their bytes, and "
        "count bytes");
    constexpr bool has_lengths =
        (!has_places || has_option<partition, Options...>) &&
        (!has_option<input_displacements, Options...> || has_option<input_blocks, Options...>) &&
        (!has_option<output_displacements, Options...> || has_option<output_blocks, Options...>);
    static_assert(has_lengths,
                  "allfold: displacements specify only where blocks begin: specify their lengths with a partition, or "
                  "input_blocks{} and output_blocks{}");
    constexpr bool says_one_place =
        !(has_places && has_option<axis, Options...>) &&
        !(has_option<input_displacements, Options...> && has_option<split_axis, Options...>) &&
        !(has_option<output_displacements, Options...> && has_option<concat_axis, Options...>);
    static_assert(says_one_place, "allfold: an operand is cut along an axis, or at displacements, but not both");
    constexpr bool says_own_place = !std::same_as<In, absent> || !has_option<output_displacements, Options...>;
    static_assert(says_own_place,
                  "allfold: in place, the blocks of the output are where those of the input are: pass only "
                  "input_displacements{}");
    constexpr bool has_list = is_tensors<std::remove_cvref_t<In>> || is_tensors<std::remove_cvref_t<Out>>;
    constexpr bool may_list = Collective::promise.cut != cut_for::ranks || cuts_one;
    static_assert(
        !has_list || may_list,
        "allfold: this collective takes no list of tensors, since only its root has all blocks: make one call "
        "for each tensor");
    constexpr bool list_has_axis = has_list && (has_places || has_option<axis, Options...> || has_axes);
    static_assert(!list_has_axis,
                  "allfold: a list of tensors is cut tensor by tensor, not along an axis or at displacements");
    constexpr bool list_has_blocks =
        has_list && (has_option<partition, Options...> || has_option<input_blocks, Options...> ||
                     has_option<output_blocks, Options...>);
    static_assert(
        !list_has_blocks,
        "allfold: a list of tensors is cut tensor by tensor: specify how with tensors{...}.by(partition::ceil)");
    return (!has_axis || cuts_one) && (!has_axes || cuts_both) && has_lengths && says_one_place && says_own_place &&
           has_single_elements && (!has_list || may_list) && !list_has_axis && !list_has_blocks &&
           require_one_cut<In, Options...>();
}

/// Hashes what must be the same on all ranks.
class list_hash {
  public:
    template <class Numbers>
    list_hash& add(const Numbers& numbers) noexcept {
        for (const auto number : numbers) add_one(static_cast<std::uint64_t>(number));
        return *this;
    }
    void add_one(std::uint64_t number) noexcept { value_ = (value_ ^ number) * 0x9e3779b97f4a7c15u + 1; }
    [[nodiscard]] list_mark mark() const noexcept { return {value_}; }

  private:
    std::uint64_t value_ = 0;
};
template <class X>
[[nodiscard]] std::string text_of_lists([[maybe_unused]] const X& list, const shards* order, const axis* along) {
    std::string all;
    append_number(all, along != nullptr ? detail::runs_of_block(list, along->number) : 0);
    if constexpr (is_tensors<std::remove_cvref_t<X>>) {
        append_number(all, list.lengths().size());
        append_numbers(all, list.lengths());
    } else {
        append_number(all, 0);
    }
    if (order != nullptr) append_numbers(all, order->blocks());
    return std::string(first_numbers(all, longest_name));
}
template <class X>
[[nodiscard]] list_mark mark_of_lists([[maybe_unused]] const X& list, const shards* order,
                                      const partition* blocks = nullptr, const axis* along = nullptr) {
    list_hash hash;
    if (along != nullptr) hash.add_one(detail::runs_of_block(list, along->number));
    if constexpr (is_tensors<std::remove_cvref_t<X>>) hash.add(list.lengths());
    if (order != nullptr) hash.add(order->blocks());
    for (int block = 0; blocks != nullptr && block < blocks->blocks(); ++block) hash.add_one(blocks->extent(block));
    const std::uint64_t value = hash.mark().value;
    return {value, kept_texts::find_or_make(value, [&] { return detail::text_of_lists(list, order, along); })};
}
/// The same for a list, or a tensor, whose blocks have not been arranged in order.
template <class T>
[[nodiscard]] list_mark mark_of_cut(const cut_list<T>& cut) noexcept {
    return list_hash().add(cut.list().lengths()).add(cut.extents()).mark();
}
template <class T>
[[nodiscard]] list_mark mark_of_cut(const cut_tensor<T>& cut) noexcept {
    return list_hash().add(std::array{cut.runs()}).add(cut.extents()).mark();
}

/// One argument that a collective cuts, arranged in block order.
template <class Said, class X, class... Options>
[[nodiscard]] auto arrange(const arrangement_place& at, X& x, const Options&... options) {
    const shards* const order = find_option<shards>(options...);
    if constexpr (is_tensors<std::remove_const_t<X>>) {
        return detail::arrange_list(at, x, nullptr, order);
    } else {
        using blocks_type = typename Said::blocks;
        using displaced = typename Said::displaced;
        const partition* blocks = find_option<partition>(options...);
        if constexpr (!std::same_as<blocks_type, partition>)
            if (const blocks_type* const own = find_option<blocks_type>(options...)) blocks = &own->blocks;
        if constexpr (has_option<typename Said::along, Options...>)
            return detail::arrange_along(at, x, find_option<typename Said::along>(options...)->number, blocks, order);
        else if constexpr (!has_option<displaced, Options...>)
            return detail::arrange_list(at, tensors(x), blocks, order);
        else if constexpr (std::same_as<displaced, displacements>)
            return detail::arrange_displaced(at, tensors(x), *blocks, *find_option<displaced>(options...), order);
        else
            return detail::arrange_displaced(at, tensors(x), *blocks, find_option<displaced>(options...)->blocks,
                                             order);
    }
}

/// Blocks whose lengths no option specifies must all have the same length if ranks do not know each other's partitions.
template <class T>
void require_uniform(const arrangement_place& at, const arranged<T>& made, const char* name) {
    if (!made.blocks.is_uniform())
        at.reject(errc::bad_partition, {"the axis along which the ", name, " is cut cannot be divided into ", at.size,
                                        " blocks of equal length: pass input_blocks{} and output_blocks{}"});
}

}  // namespace allfold::detail
