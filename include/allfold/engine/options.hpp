// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "allfold/data/partition.hpp"
#include "allfold/schedule/contract.hpp"
#include "allfold/schedule/step.hpp"

/// @file
/// What a caller may add behind the arguments of a collective, in any order: `all_reduce(comm, x, op, ring{},
/// deadline{2s})`.

namespace allfold {

/// The rank from which a broadcast comes, or to which a reduce goes; 0 where nothing is said.
struct root {
    int rank = 0;
};

/// Cuts a long operand into windows with messages of about this many bytes, which follow each other through the
/// schedule; 0 leaves it to allfold. All ranks must say the same.
struct window {
    std::size_t bytes;
};

/// How long a rank waits. When it passes, every rank of the communicator throws `errc::timeout`.
///
/// A duration counts from each call, or start, that it is given to: `deadline{2s}` may be kept and used again. A
/// hundred years or more, infinity among them, are for ever; nothing, less than nothing or not a number passes at once.
/// A time point is what it is.
class deadline {
  public:
    using clock = std::chrono::steady_clock;

    template <class Rep, class Period>
    constexpr explicit deadline(std::chrono::duration<Rep, Period> after) : after_(in_range(after)) {}
    constexpr explicit deadline(clock::time_point when) : at_(when) {}

    /// When it passes for what begins now; nothing where it never does.
    [[nodiscard]] std::optional<clock::time_point> from_now() const {
        if (at_) return *at_ == clock::time_point::max() ? std::nullopt : at_;
        if (after_ == clock::duration::max()) return std::nullopt;
        return clock::now() + after_;
    }

  private:
    template <class Duration>
    [[nodiscard]] static constexpr clock::duration in_range(Duration after) noexcept {
        constexpr double for_ever = 100.0 * 365 * 24 * 60 * 60;
        const double seconds = std::chrono::duration<double>(after).count();
        if (!(seconds > 0)) return clock::duration::zero();
        return seconds < for_ever ? std::chrono::duration_cast<clock::duration>(after) : clock::duration::max();
    }

    clock::duration after_{};
    std::optional<clock::time_point> at_;
};

/// Whether a transport's own collective may run instead of a schedule of allfold's, where it has one for the operator
/// and the elements, the order level is `order::any`, and the call is a blocking one without an algorithm or window.
/// All ranks must say the same.
enum class delegate : std::uint8_t {
    automatic,  ///< where it was measured to be faster; all ranks agree about the call beforehand
    never,
    always  ///< wherever it can be, and without agreement: a mismatch, or an operation in flight, is the caller's
            ///< affair
};

namespace detail {

/// The schedule that an algorithm has for a collective: its nested type of that name.
template <class A, collective Goal>
struct schedule_in {};
template <class A>
    requires requires { typename A::barrier; }
struct schedule_in<A, collective::barrier> {
    using type = typename A::barrier;
};
template <class A>
    requires requires { typename A::broadcast; }
struct schedule_in<A, collective::broadcast> {
    using type = typename A::broadcast;
};
template <class A>
    requires requires { typename A::reduce; }
struct schedule_in<A, collective::reduce> {
    using type = typename A::reduce;
};
template <class A>
    requires requires { typename A::all_reduce; }
struct schedule_in<A, collective::all_reduce> {
    using type = typename A::all_reduce;
};
template <class A>
    requires requires { typename A::reduce_scatter; }
struct schedule_in<A, collective::reduce_scatter> {
    using type = typename A::reduce_scatter;
};
template <class A>
    requires requires { typename A::all_gather; }
struct schedule_in<A, collective::all_gather> {
    using type = typename A::all_gather;
};
template <class A>
    requires requires { typename A::inclusive_scan; }
struct schedule_in<A, collective::inclusive_scan> {
    using type = typename A::inclusive_scan;
};
template <class A>
    requires requires { typename A::exclusive_scan; }
struct schedule_in<A, collective::exclusive_scan> {
    using type = typename A::exclusive_scan;
};

/// An algorithm that can do this collective.
template <class A, collective Goal>
concept algorithm_for = requires { typename schedule_in<A, Goal>::type; };

template <class T>
inline constexpr bool is_order = false;
template <int Level>
inline constexpr bool is_order<order::constant<Level>> = true;

/// An algorithm: an empty type with a name and nested schedules, such as `ring`.
template <class T>
concept algorithm = std::is_empty_v<T> && requires {
    { T::name } -> std::convertible_to<const char*>;
};

template <class T>
concept option = std::same_as<T, root> || std::same_as<T, window> || std::same_as<T, deadline> ||
                 std::same_as<T, partition> || std::same_as<T, delegate> || is_order<T> || algorithm<T>;

/// No algorithm was named: `choose` picks one.
struct automatic {
    static constexpr const char* name = "automatic";
};

/// The type of the first option for which `Is` holds, or Default.
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
using is_algorithm_type = std::bool_constant<algorithm<T>>;
template <class T>
using is_order_type = std::bool_constant<is_order<T>>;

/// The options of one call, understood.
template <class... Options>
struct option_set {
    using algorithm_type = typename first_option<is_algorithm_type, automatic, Options...>::type;
    /// void where the caller asked for no level.
    using order_type = typename first_option<is_order_type, void, Options...>::type;

    int root = 0;
    std::optional<std::size_t> window_bytes;
    std::optional<allfold::deadline> deadline;
    std::optional<partition> blocks;
    allfold::delegate delegation = delegate::automatic;

    explicit option_set(const Options&... options) { (take(options), ...); }

  private:
    void take(const allfold::root& r) { root = r.rank; }
    void take(const allfold::window& w) {
        if (w.bytes != 0) window_bytes = w.bytes;
    }
    void take(const allfold::deadline& d) { deadline = d; }
    void take(const partition& p) { blocks = p; }
    void take(allfold::delegate d) { delegation = d; }
    template <class T>
        requires(algorithm<T> || is_order<T>)
    void take(const T&) {}
};

}  // namespace detail
}  // namespace allfold
