// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <concepts>
#include <cstdint>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

#include "allfold/collective/barrier.hpp"
#include "allfold/collective/detail/issue.hpp"
#include "allfold/engine/composite.hpp"

/// @file
/// When the data of a collective may begin to move, and when a call to it may return: after D. Bonachea and others, the
/// collectives of GASNet (2003), "Synchronization modes", which are those of UPC.

namespace allfold {

/// When data may begin to move. Must be the same on all ranks.
enum class in_sync : std::uint8_t {
    none,  ///< as soon as any rank has entered the collective. In this library no data moves to or from a rank that
           ///< has not entered, so this is the same as `mine`
    mine,  ///< each block as soon as its source and its destination have entered: the default
    all    ///< when all ranks have entered: for inputs that other ranks may write until they enter. Costs a barrier, to
           ///< which a deadline applies separately
};

/// When a call may return and an operation is done. Must be the same on all ranks.
enum class out_sync : std::uint8_t {
    none,  ///< as soon as this rank has its result. Others may still read its memory, which must be neither written
           ///< nor freed before all of them have entered a later collective. A root need not wait for late ranks.
           ///< Gains nothing if ranks write each other's results, for operators with `lower`, or where objects that
           ///< lie in several places are packed
    mine,  ///< when no other rank uses this rank's memory any more: the default
    all    ///< when no rank uses any memory of the collective any more: for outputs that other ranks read as soon as
           ///< they have left. Costs a barrier, to which a deadline applies separately
};

namespace detail {

template <>
inline constexpr bool is_sync_mode<in_sync> = true;
template <>
inline constexpr bool is_sync_mode<out_sync> = true;
template <>
inline constexpr bool is_end_mode<out_sync> = true;

struct sync_modes {
    in_sync in = in_sync::mine;
    out_sync out = out_sync::mine;

    template <class Option>
    void take(const Option& given) noexcept {
        if constexpr (std::same_as<Option, in_sync>) in = given;
        if constexpr (std::same_as<Option, out_sync>) out = given;
    }
};

/// An option, unless it is a synchronisation mode.
template <class Option>
[[nodiscard]] auto unless_sync_mode(const Option& given) noexcept {
    if constexpr (is_sync_mode<Option>)
        return std::tuple<>();
    else
        return std::tuple<const Option&>(given);
}

template <class Comm>
[[nodiscard]] std::unique_ptr<pending> prepared_barrier(Comm& comm, const deadline* limit) {
    return handles::take(limit != nullptr ? barrier.prepare(comm, *limit) : barrier.prepare(comm));
}
template <class Comm>
void wait_in_barrier(Comm& comm, const deadline* limit) {
    if (limit != nullptr)
        barrier(comm, *limit);
    else
        barrier(comm);
}

template <class Comm, class Prepare>
[[nodiscard]] std::unique_ptr<pending> prepare_synchronised(Comm& comm, const char* name, const sync_modes& modes,
                                                            const deadline* limit, Prepare prepare) {
    typename composite<Comm>::tasks parts;
    if (modes.in == in_sync::all) parts.push_back(prepared_barrier(comm, limit));
    parts.push_back(prepare());
    if (modes.out == out_sync::none) {
        typename composite<Comm>::tasks only;
        only.push_back(std::move(parts.back()));
        parts.back() = std::make_unique<early_result_task<Comm>>(comm, name, std::move(only));
    }
    if (modes.out == out_sync::all) parts.push_back(prepared_barrier(comm, limit));
    if (parts.size() == 1) return std::move(parts.front());
    return std::make_unique<sequential_task<Comm>>(comm, name, std::move(parts));
}

/// The size of an operand in bytes.
template <class X>
[[nodiscard]] std::size_t bytes_of(const X& x) {
    if constexpr (is_records<X>)
        return std::apply([](const auto&... views) { return (detail::bytes_of(views) + ...); }, x.views());
    else if constexpr (tensor_view<X>)
        return detail::count_of(x) * sizeof(element_of<X>);
    else if constexpr (is_tensors<X>)
        return x.size() * sizeof(element_of<X>);
    else if constexpr (element_range<X>)
        return static_cast<std::size_t>(std::ranges::size(x)) * sizeof(element_of<X>);
    else
        return sizeof(X);
}
/// Whether no rank reads another rank's memory, so that there is nothing to wait for at the end: a plain call then
/// returns just as early and is cheapest. Asked only if all ranks have operands of the same length, so that all get the
/// same answer. With two threads, an all_reduce of 8 bytes takes 0.38x the time of a call that ends early, and one of 4
/// KiB takes 0.7x.
template <class Collective, class Comm, class In, class Out>
[[nodiscard]] bool only_copies(const Comm& comm, const operands_given<In, Out>& data) {
    const auto copies = [&comm]<class X>(const X& x) {
        return !comm.lends(detail::bytes_of(x), std::is_trivially_copyable_v<element_of<X>>);
    };
    if constexpr (Collective::promise.cut != cut_for::schedule)
        return false;
    else if constexpr (std::same_as<In, absent>)
        return copies(data.out);
    else
        return copies(data.in) && copies(data.out);
}

template <verb V, class Collective, class In, class Out, class Comm, class Op, class... Options>
outcome_of<V> issue_synchronised(Comm& comm, const Op& op, const operands_given<In, Out>& data,
                                 const Options&... options) {
    sync_modes modes;
    (modes.take(options), ...);
    const deadline* const limit = find_option<deadline>(options...);
    const auto others = std::tuple_cat(unless_sync_mode(options)...);
    const auto issue_as = [&]<verb W>(std::integral_constant<verb, W>, const auto&... more) {
        return std::apply([&](const auto&... kept) { return issue<W, Collective>(comm, op, data, kept..., more...); },
                          others);
    };
    const auto prepare = [&] {
        constexpr std::integral_constant<verb, verb::prepare> as_prepared;
        return handles::take(modes.out == out_sync::none ? issue_as(as_prepared, ends_early{}) : issue_as(as_prepared));
    };
    const auto prepare_all = [&] {
        return detail::make_or_abort(comm, [&] {
            const background::preparing_parts preparing;
            return detail::prepare_synchronised(comm, Collective::promise.name, modes, limit, prepare);
        });
    };
    if (modes.out == out_sync::none && only_copies<Collective>(comm, data)) modes.out = out_sync::mine;
    if (modes.in != in_sync::all && modes.out == out_sync::mine) return issue_as(std::integral_constant<verb, V>{});
    if constexpr (V == verb::call) {
        if (modes.out == out_sync::none) return hand_out<verb::start>(prepare_all()).wait();
        if (modes.in == in_sync::all) wait_in_barrier(comm, limit);
        issue_as(std::integral_constant<verb, verb::call>{});
        if (modes.out == out_sync::all) wait_in_barrier(comm, limit);
    } else {
        return hand_out<V>(prepare_all());
    }
}

}  // namespace detail
}  // namespace allfold
