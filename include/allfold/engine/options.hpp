// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <array>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "allfold/data/partition.hpp"
#include "allfold/engine/deadline.hpp"
#include "allfold/engine/detail/type_name.hpp"
#include "allfold/engine/list_text.hpp"
#include "allfold/error.hpp"
#include "allfold/schedule/any_schedule.hpp"
#include "allfold/schedule/contract.hpp"
#include "allfold/schedule/step.hpp"

/// @file
/// What a caller may pass after the arguments of a collective, in any order: `all_reduce(comm, x, op, ring{},
/// deadline{2s})`.

namespace allfold {

/// The rank that a broadcast comes from, or that a reduce goes to; 0 by default.
struct root {
    int rank = 0;
};

/// A permutation of ranks: the operand of rank r goes to rank (r + by) mod P. All ranks must pass the same value.
struct shift {
    int by;
};

/// A permutation of ranks: the operand of rank r goes to the rank that is entry r of the list, which must be the same
/// on all ranks: `destinations{2, 0, 1}`, or constructed from any range of integers.
class destinations {
  public:
    destinations(std::initializer_list<int> ranks) : ranks_(ranks) {}
    template <class Ranks>
        requires std::integral<std::remove_cvref_t<decltype(*std::begin(std::declval<const Ranks&>()))>>
    explicit destinations(const Ranks& ranks) {  // + since in_range takes no characters
        for (const auto rank : ranks) ranks_.push_back(std::in_range<int>(+rank) ? static_cast<int>(rank) : -1);
    }
    [[nodiscard]] const std::vector<int>& ranks() const noexcept { return ranks_; }

  private:
    std::vector<int> ranks_;
};

/// Cuts a long operand into windows with messages of about this many bytes, which follow one another through the
/// schedule; 0 leaves the choice to allfold. All ranks must pass the same value.
struct window {
    std::size_t bytes;
};

/// How an input is cut into blocks for the ranks, if each rank cuts its own: block r goes to rank r.
struct input_blocks {
    partition blocks;
};
/// How an output is cut into blocks, if each rank cuts its own: block r comes from rank r.
struct output_blocks {
    partition blocks;
};

/// The axis along which a collective cuts a tensor into blocks for the ranks; the first one by default. A `partition`
/// counts along that axis.
struct axis {
    std::size_t number;
};
/// The axis along which an all_to_all cuts its input: block r goes to rank r. `input_blocks` count along it.
struct split_axis {
    std::size_t number;
};
/// The axis along which an all_to_all concatenates its output: block r comes from rank r. `output_blocks` count along
/// it.
struct concat_axis {
    std::size_t number;
};

/// Which block belongs to which rank: that of rank r is entry r of the list, which must be the same on all ranks and
/// name each block once: `shards{1, 2, 0}`, or constructed from any range of integers. A rank that knows only its own
/// block k obtains those of all ranks once, with `all_gather(comm, k, list)`, and passes `shards(list)` from then on.
class shards {
  public:
    shards(std::initializer_list<int> blocks) : blocks_(blocks) {}
    template <class Blocks>
        requires std::integral<std::remove_cvref_t<decltype(*std::begin(std::declval<const Blocks&>()))>>
    explicit shards(const Blocks& blocks) {
        for (const auto block : blocks) blocks_.push_back(std::in_range<int>(+block) ? static_cast<int>(block) : -1);
    }
    [[nodiscard]] const std::vector<int>& blocks() const noexcept { return blocks_; }

  private:
    std::vector<int> blocks_;
};

/// Where the blocks of a cut operand lie in it: that of rank r begins at the element given by entry r of the list, and
/// has the length given by a `partition`, which must be passed as well. What lies between blocks is left untouched.
/// Each rank has its own list: `displacements{0, 100, 250}`, or constructed from any range of integers.
class displacements {
  public:
    displacements(std::initializer_list<std::size_t> first) : first_(first) {}
    template <class Elements>
        requires std::integral<std::remove_cvref_t<decltype(*std::begin(std::declval<const Elements&>()))>>
    explicit displacements(const Elements& elements) {
        for (const auto first : elements) {
            if (!std::in_range<std::size_t>(+first))
                throw error(errc::bad_argument, detail::text({"displacements: ", +first, " is below 0"}));
            first_.push_back(static_cast<std::size_t>(first));
        }
    }
    [[nodiscard]] const std::vector<std::size_t>& elements() const noexcept { return first_; }

  private:
    std::vector<std::size_t> first_;
};
/// The same for the input of an all_to_all, whose block lengths are given by `input_blocks`.
struct input_displacements {
    displacements blocks;
};
/// The same for the output of an all_to_all, whose block lengths are given by `output_blocks`.
struct output_displacements {
    displacements blocks;
};

/// Moves the block that an in-place reduce_scatter leaves to this rank to the front of its operand.
struct at_front {};

/// Whether a transport's own collective may run instead of a schedule of allfold's, if it has one for the operator and
/// the elements, the order level is `order::any`, and the call is a blocking one without an algorithm or window. All
/// ranks must pass the same value.
enum class delegate : std::uint8_t {
    automatic,  ///< if it was measured to be faster; all ranks agree about the call beforehand, so that all must call
                ///< it and none start it
    never,
    always  ///< whenever possible, and without agreement: a mismatch, or an operation in flight, is the caller's
            ///< responsibility
};

namespace detail {

template <class T>
inline constexpr bool is_order = false;
template <int Level>
inline constexpr bool is_order<order::constant<Level>> = true;

template <class T>
concept has_static_name = std::is_trivially_copyable_v<T> && requires {
    { T::name } -> std::convertible_to<const char*>;
};

/// Whether a type is an operator, which declares its laws as a member.
template <class T>
concept declares_laws = requires { T::laws; } || requires { T::template laws_on<int>; };

/// An algorithm: a small value with a name and nested schedules, such as `ring`. Elements and operators may have names,
/// too: a type with members is an algorithm only if it declares `has_parameters`, and one that declares laws never is.
template <class T>
concept algorithm =
    has_static_name<T> && !declares_laws<T> && (std::is_empty_v<T> || requires { requires T::has_parameters; });

/// Whether an option is an algorithm that was chosen at run time: see collective/any_algorithm.hpp.
template <class T>
inline constexpr bool is_any_algorithm = false;

template <class T>
concept names_algorithm = algorithm<T> || is_any_algorithm<T>;

/// Something that examines the schedule of a call before it runs, such as `proved_first` of analysis/proved_first.hpp.
template <class T>
concept schedule_check = requires(const contract& goal, const any_schedule& s) { T::check(goal, s); };

/// Identifies a list of tensors, or a list of shards; it must be the same on all ranks.
struct list_mark {
    std::uint64_t value = 0;
    const char* text = "";  ///< looked up by other ranks if theirs differs
};

/// The axes along which operands are cut, stored in the last bits of such a mark, so that a difference can be named.
struct axes_given {
    std::uint8_t input = 0, output = 0;  // axis numbers counted from 1; 0 if none is given

    [[nodiscard]] static constexpr std::uint8_t known(std::size_t number) noexcept {
        return static_cast<std::uint8_t>(number < 254 ? number + 1 : 255);
    }
    static constexpr std::uint64_t bits = 0xffff;
    [[nodiscard]] static constexpr axes_given in(std::uint64_t mark) noexcept {
        return {static_cast<std::uint8_t>(mark & 0xff), static_cast<std::uint8_t>(mark >> 8 & 0xff)};
    }
    [[nodiscard]] constexpr std::uint64_t added_to(std::uint64_t mark) const noexcept {
        return (mark & ~bits) | static_cast<std::uint64_t>(output) << 8 | input;
    }
};

/// Whether an option says where blocks lie in an operand.
template <class T>
inline constexpr bool is_arrangement =
    std::same_as<T, axis> || std::same_as<T, split_axis> || std::same_as<T, concat_axis> || std::same_as<T, shards> ||
    std::same_as<T, displacements> || std::same_as<T, input_displacements> || std::same_as<T, output_displacements> ||
    std::same_as<T, list_mark>;

/// Whether an option says when data may begin to move, or when a call may end: `in_sync` and `out_sync` of
/// collective/sync.hpp.
template <class T>
inline constexpr bool is_sync_mode = false;
/// Whether it is `out_sync`: others may then read this rank's memory after the end.
template <class T>
inline constexpr bool is_end_mode = false;
/// The call ends as soon as its result is available.
struct ends_early {};

class pending;
/// For blocks with lengths of their own that are not known yet. Prepared without an operation, a collective opens its
/// lanes, with placeholders for the blocks; prepared again with that operation, it makes no new one, but gives it
/// blocks and memory for its next start.
struct deferred_blocks {
    pending* of = nullptr;
};

template <class T>
concept option =
    std::same_as<T, root> || std::same_as<T, window> || std::same_as<T, deadline> || std::same_as<T, partition> ||
    std::same_as<T, shift> || std::same_as<T, destinations> || std::same_as<T, input_blocks> ||
    std::same_as<T, output_blocks> || std::same_as<T, delegate> || is_arrangement<T> || is_sync_mode<T> ||
    std::same_as<T, ends_early> || std::same_as<T, deferred_blocks> || std::same_as<T, at_front> || is_order<T> ||
    names_algorithm<T> || schedule_check<T>;

/// No algorithm was named: `choose` picks one.
struct automatic {
    static constexpr const char* name = "automatic";
};

/// The first of the types for which `Is` holds, or Default.
template <template <class> class Is, class Default, class... Options>
struct first_option {
    using type = Default;
};
template <template <class> class Is, class Default, class Head, class... Tail>
struct first_option<Is, Default, Head, Tail...> {
    using type = typename std::conditional_t<Is<Head>::value, std::type_identity<Head>,
                                             first_option<Is, Default, Tail...>>::type;
};
template <class T>
using is_algorithm_type = std::bool_constant<names_algorithm<T>>;
template <class T>
using is_order_type = std::bool_constant<is_order<T>>;

template <class... Options>
using algorithm_among = typename first_option<is_algorithm_type, automatic, Options...>::type;
/// void if the caller asked for no level.
template <class... Options>
using order_among = typename first_option<is_order_type, void, Options...>::type;

/// Whether no two options are of the same kind.
template <class... Options>
inline constexpr bool all_different = [] {
    const auto at_most_one = [](auto... is) { return (0 + ... + (is ? 1 : 0)) <= 1; };
    return at_most_one(std::same_as<Options, root>...) && at_most_one(std::same_as<Options, window>...) &&
           at_most_one(std::same_as<Options, deadline>...) && at_most_one(std::same_as<Options, partition>...) &&
           at_most_one((std::same_as<Options, shift> || std::same_as<Options, destinations>)...) &&
           at_most_one(std::same_as<Options, input_blocks>...) &&
           at_most_one(std::same_as<Options, output_blocks>...) && at_most_one(std::same_as<Options, delegate>...) &&
           at_most_one(std::same_as<Options, axis>...) && at_most_one(std::same_as<Options, split_axis>...) &&
           at_most_one(std::same_as<Options, concat_axis>...) && at_most_one(std::same_as<Options, shards>...) &&
           at_most_one(std::same_as<Options, displacements>...) &&
           at_most_one(std::same_as<Options, input_displacements>...) &&
           at_most_one(std::same_as<Options, output_displacements>...) && at_most_one(is_order<Options>...) &&
           at_most_one((is_sync_mode<Options> && !is_end_mode<Options>)...) && at_most_one(is_end_mode<Options>...) &&
           at_most_one(schedule_check<Options>...) && at_most_one(names_algorithm<Options>...);
}();

/// The decoded options of one call; the algorithm and the order level remain types.
struct call_options {
    int root = 0;
    std::optional<std::size_t> window_bytes;
    std::optional<allfold::deadline> deadline;
    std::optional<int> shift;
    const allfold::destinations* destinations = nullptr;
    const partition* blocks = nullptr;
    const partition* input_blocks = nullptr;
    const partition* output_blocks = nullptr;
    allfold::delegate delegation = delegate::automatic;
    std::uint64_t list_mark = 0;
    std::array<const char*, 2> list_texts{"", ""};
    axes_given axes;
    void (*check)(const contract&, const any_schedule&) = nullptr;
    pending* prepared_before = nullptr;
    bool has_placeholders = false;  // for blocks whose lengths are not known yet

    template <class... Options>
    explicit call_options(const Options&... options) {
        (take(options), ...);
    }

    /// What all ranks must agree about in lists and axes, as a single number.
    [[nodiscard]] std::uint64_t mark_of_lists() const noexcept { return axes.added_to(list_mark); }
    /// What can be reported about them if ranks differ.
    [[nodiscard]] const char* text_of_lists() const {
        const auto [first, second] = list_texts;
        return *second == '\0' ? first : text_of_both(list_mark, first, second);
    }
    /// The setting of rank `rank` out of `size`, in groups of `group`, with the caller's list, which may not be a
    /// permutation.
    [[nodiscard]] setting setting_of(int rank, int size, int group) const noexcept {
        const int first = shift ? (*shift % size + size) % size : root;
        return {rank, size, first, group, destinations == nullptr ? nullptr : destinations->ranks().data()};
    }

  private:
    void take(const allfold::root& r) { root = r.rank; }
    void take(const allfold::shift& s) { shift = s.by; }
    void take(const allfold::destinations& d) { destinations = &d; }
    void take(const allfold::window& w) {
        if (w.bytes != 0) window_bytes = w.bytes;
    }
    void take(const allfold::deadline& d) { deadline = d; }
    void take(const partition& p) { blocks = &p; }
    void take(const allfold::input_blocks& b) { input_blocks = &b.blocks; }
    void take(const allfold::output_blocks& b) { output_blocks = &b.blocks; }
    void take(allfold::delegate d) { delegation = d; }
    void take(const deferred_blocks& b) {
        prepared_before = b.of;
        has_placeholders = b.of == nullptr;
    }
    template <class T>
        requires(names_algorithm<T> || is_order<T> || schedule_check<T> || is_arrangement<T> || is_sync_mode<T> ||
                 std::same_as<T, ends_early> || std::same_as<T, at_front>)
    void take([[maybe_unused]] const T& given) {
        if constexpr (schedule_check<T>) check = &T::check;
        if constexpr (std::same_as<T, detail::list_mark>) {
            list_mark = (list_mark ^ given.value) * 0x9e3779b97f4a7c15u;
            list_texts[*list_texts[0] == '\0' ? 0 : 1] = given.text;
        }
        if constexpr (std::same_as<T, axis> || std::same_as<T, split_axis>)
            axes.input = axes_given::known(given.number);
        if constexpr (std::same_as<T, concat_axis>) axes.output = axes_given::known(given.number);
    }
};

}  // namespace detail
}  // namespace allfold
