// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>

#include "allfold/algebra/elementwise.hpp"
#include "allfold/algebra/laws.hpp"
#include "allfold/algebra/operator.hpp"
#include "allfold/algebra/row.hpp"

/// @file
/// Several operators combined into one, each for one tensor of records or one member of a tuple.

namespace allfold {
namespace detail {

template <class T>
inline constexpr bool is_tuple = requires { std::tuple_size<T>::value; };
template <class... Ts>
inline constexpr bool is_tuple<row<Ts...>> = false;

/// The types of the parts of an element, one part per operator: the tensors of rows, or the members of a tuple, pair or
/// array.
template <class T>
struct parts_of {
    using types = void;
};
template <class... Ts>
struct parts_of<row<Ts...>> {
    using types = std::tuple<Ts...>;
};
template <class T>
    requires is_tuple<T>
struct parts_of<T> {
    template <std::size_t... I>
    static std::tuple<std::tuple_element_t<I, T>...> list(std::index_sequence<I...>);
    using types = decltype(list(std::make_index_sequence<std::tuple_size_v<T>>()));
};

/// Whether the state has the type of the value: rows have no room for a state of another type.
template <class Op, class T>
inline constexpr bool keeps_type = true;
template <class Op, class T>
    requires lifting_operator<Op, T>
inline constexpr bool keeps_type<Op, T> = requires(const Op& op, const T& x) {
    { op.lift(x) } -> std::same_as<T>;
};

/// What several operators can do together on the parts of an element, with one operator per part.
template <class Parts, class... Ops>
struct fusion_on {
    static constexpr bool folds = false, folds_in_rows = false, lifts = false, lowers = false, has_identity = false,
                          says_commutative = false;
    static constexpr law_set laws{};
};
template <class... Ts, class... Ops>
    requires(sizeof...(Ts) == sizeof...(Ops))
struct fusion_on<std::tuple<Ts...>, Ops...> {
    static constexpr bool folds = (binary_operation<Ops, Ts> && ...);
    static constexpr bool folds_in_rows = folds && (keeps_type<Ops, Ts> && ...);
    static constexpr bool lifts =
        (lifting_operator<Ops, Ts> || ...) && ((lifting_operator<Ops, Ts> || binary_operation<Ops, Ts>) && ...);
    static constexpr bool lowers = folds && (lowering_operator<Ops, Ts> || ...);
    static constexpr bool has_identity = (operator_with_identity<Ops, Ts> && ...);
    static constexpr law_set laws = [] {
        law_set common = law::associative | law::commutative | law::idempotent | law::exact;
        ((common.bits &= laws_of<Ops, Ts>.bits), ...);
        return common;
    }();
    static constexpr bool says_commutative =
        (detail::says_commutative<Ops, Ts> || ...) &&
        ((detail::says_commutative<Ops, Ts> || commutative_operator<Ops, Ts>) && ...);
    [[nodiscard]] static constexpr bool commutes(const Ops&... operators) {
        return (detail::commutes<Ts>(operators) && ...);
    }
};

template <class T>
inline constexpr bool is_pair = false;
template <class First, class Second>
inline constexpr bool is_pair<std::pair<First, Second>> = true;

/// The parts as a T or, if the type of any part has changed, as a pair or tuple of the new types.
template <class T, class... Parts>
[[nodiscard]] constexpr auto gather_parts(Parts... parts) {
    if constexpr (std::same_as<typename parts_of<T>::types, std::tuple<Parts...>>)
        return T{std::move(parts)...};
    else if constexpr (is_pair<T>)
        return std::pair<Parts...>{std::move(parts)...};
    else
        return std::tuple<Parts...>{std::move(parts)...};
}

}  // namespace detail

/// Several operators as one: `fused{max(), sum()}` folds the first tensor of records with max and the second with sum,
/// so that both are sent in the same messages. The parts may also be the members of a std::pair, std::tuple or
/// std::array.
///
///     all_reduce(comm, records(extremes, totals), fused{max(), sum()});
///
/// Each tensor or member is folded as its own operator alone would fold it. The laws are those that every operator has
/// on its part; the identity consists of theirs, if all have one. Operators may lift and lower: members of pairs and
/// tuples to states of any type, members of arrays and elements of records only to states of their own type. An
/// operator that folds whole rows, such as `online_softmax`, cannot be a part.
template <class... Ops>
class fused {
  public:
    constexpr explicit fused(Ops... operators) : operators_(std::move(operators)...) {}

    /// The operator for part I.
    template <std::size_t I>
    [[nodiscard]] constexpr const auto& part() const noexcept {
        return std::get<I>(operators_);
    }

    template <class... Ts>
        requires detail::fusion_on<std::tuple<Ts...>, Ops...>::folds_in_rows
    constexpr void operator()(row<const Ts...> left, row<const Ts...> right, row<Ts...> out) const {
        for_each_part([&]<std::size_t I>(const auto& op) {
            using T = std::tuple_element_t<I, std::tuple<Ts...>>;
            const auto to = std::get<I>(out);
            detail::elementwise<detail::touches::anything>(
                std::get<I>(left).data(), std::get<I>(right).data(), to.data(), to.size(),
                [&op](const T& a, const T& b) -> T { return detail::fold_two<T>(op, a, b); });
        });
    }
    template <class T>
        requires(detail::is_tuple<T> && detail::fusion_on<typename detail::parts_of<T>::types, Ops...>::folds)
    [[nodiscard]] constexpr T operator()(const T& a, const T& b) const {
        return with_parts([&]<std::size_t... I>(const auto&... op) {
            return T{detail::fold_two<std::tuple_element_t<I, T>>(op, std::get<I>(a), std::get<I>(b))...};
        });
    }

    template <class T>
    static constexpr law_set laws_on = detail::fusion_on<typename detail::parts_of<T>::types, Ops...>::laws;

    /// Whether any of them has a member `lower`.
    static constexpr bool parts_lower = (detail::has_member_lower<Ops> || ...);

    /// Whether all are commutative, if any says so at run time.
    template <class T>
        requires detail::fusion_on<typename detail::parts_of<T>::types, Ops...>::says_commutative
    [[nodiscard]] constexpr bool commutative_on() const {
        return std::apply(detail::fusion_on<typename detail::parts_of<T>::types, Ops...>::commutes, operators_);
    }

    template <class T>
        requires(detail::is_tuple<T> && detail::fusion_on<typename detail::parts_of<T>::types, Ops...>::has_identity)
    [[nodiscard]] constexpr T identity() const {
        return with_parts(
            [&]<std::size_t... I>(const auto&... op) { return T{identity_of<std::tuple_element_t<I, T>>(op)...}; });
    }
    template <class... Ts>
        requires detail::fusion_on<std::tuple<Ts...>, Ops...>::has_identity
    constexpr void set_identity(row<Ts...> out) const {
        for_each_part([&]<std::size_t I>(const auto& op) {
            using T = std::tuple_element_t<I, std::tuple<Ts...>>;
            std::ranges::fill(std::get<I>(out), identity_of<T>(op));
        });
    }

    template <class T>
        requires(detail::is_tuple<T> && detail::fusion_on<typename detail::parts_of<T>::types, Ops...>::lifts)
    [[nodiscard]] constexpr auto lift(const T& value) const {
        return with_parts([&]<std::size_t... I>(const auto&... op) {
            return detail::gather_parts<T>(detail::lifted(op, std::get<I>(value))...);
        });
    }
    template <class... Ts>
        requires(detail::fusion_on<std::tuple<Ts...>, Ops...>::folds_in_rows &&
                 detail::fusion_on<std::tuple<Ts...>, Ops...>::lifts)
    constexpr void lift(row<const Ts...> value, row<Ts...> state) const {
        for_each_part([&]<std::size_t I>(const auto& op) {
            std::ranges::transform(std::get<I>(value), std::get<I>(state).begin(),
                                   [&op](const auto& x) { return detail::lifted(op, x); });
        });
    }

    template <class T>
        requires(detail::is_tuple<T> && detail::fusion_on<typename detail::parts_of<T>::types, Ops...>::lowers)
    [[nodiscard]] constexpr auto lower(const T& state, int contributions) const {
        return with_parts([&]<std::size_t... I>(const auto&... op) {
            return detail::gather_parts<T>(detail::lowered(op, std::get<I>(state), contributions)...);
        });
    }
    template <class... Ts>
        requires detail::fusion_on<std::tuple<Ts...>, Ops...>::lowers
    constexpr void lower(row<const Ts...> state, int contributions, row<Ts...> out) const {
        for_each_part([&]<std::size_t I>(const auto& op) {
            using T = std::tuple_element_t<I, std::tuple<Ts...>>;
            std::ranges::transform(std::get<I>(state), std::get<I>(out).begin(),
                                   [&](const T& x) { return static_cast<T>(detail::lowered(op, x, contributions)); });
        });
    }

  private:
    /// f<0, 1, ...>(operators...).
    template <class F>
    constexpr auto with_parts(F f) const {
        return [&]<std::size_t... I>(std::index_sequence<I...>) {
            return f.template operator()<I...>(std::get<I>(operators_)...);
        }(std::index_sequence_for<Ops...>());
    }
    /// f<0>(first operator), then f<1>(second operator), ...
    template <class F>
    constexpr void for_each_part(F f) const {
        [&]<std::size_t... I>(std::index_sequence<I...>) {
            (f.template operator()<I>(std::get<I>(operators_)), ...);
        }(std::index_sequence_for<Ops...>());
    }

    std::tuple<Ops...> operators_;
};

}  // namespace allfold
