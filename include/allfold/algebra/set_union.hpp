// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <algorithm>
#include <compare>
#include <concepts>
#include <functional>
#include <iterator>
#include <type_traits>
#include <utility>

#include "allfold/algebra/laws.hpp"

/// @file
/// The union of sets, each of which is one element.

namespace allfold {
namespace detail {

template <class Compare, class T>
concept order_by_less = std::same_as<Compare, std::less<>> || std::same_as<Compare, std::less<T>> ||
                        std::same_as<Compare, std::greater<>> || std::same_as<Compare, std::greater<T>>;

/// std::set and types like it: ordered, with unique keys.
template <class S>
concept ordered_set = std::same_as<typename S::key_type, typename S::value_type> && requires(S s, const S& other) {
    typename S::key_compare;
    { s.insert(*other.begin()) } -> std::same_as<std::pair<typename S::iterator, bool>>;
    s.insert(other.begin(), other.end());
};

/// std::vector and types like it, with ordered elements. A string is a word, not a set of letters.
template <class S>
concept sorted_list =
    !requires { typename S::key_type; } && !requires { typename S::traits_type; } && requires(S s, const S& other) {
        s.reserve(other.size());
        s.push_back(*other.begin());
        { *other.begin() < *other.begin() } -> std::convertible_to<bool>;
    };

/// A default-constructed set has the same order as all others of its type: its comparator is stateless.
template <class S>
concept set_of_one_order = ordered_set<S> && std::is_empty_v<typename S::key_compare>;

/// Elements that are equivalent but not equal expose the order of the operands; under a partial order no law holds.
template <class S>
inline constexpr law_set union_laws{};
template <class S, class T>
inline constexpr law_set union_laws_by_less =
    std::three_way_comparable<T, std::strong_ordering>
        ? law::associative | law::commutative | law::idempotent | law::exact
    : std::three_way_comparable<T, std::weak_ordering> ? law::associative | law::idempotent | law::exact
                                                       : law_set{};
template <sorted_list S>
inline constexpr law_set union_laws<S> = union_laws_by_less<S, typename S::value_type>;
/// Whoever gives a set its own comparator has promised that it is an order.
template <ordered_set S>
inline constexpr law_set union_laws<S> =
    order_by_less<typename S::key_compare, typename S::value_type> ? union_laws_by_less<S, typename S::value_type>
                                                                   : law::associative | law::idempotent | law::exact;

}  // namespace detail

/// The union of two sets. Elements are whole sets: std::set, or vectors sorted by <, in which an element occurs as
/// often as in the operand where it occurs more often. Of equivalent elements the left one is kept. The identity is the
/// empty set; sets with a stateful comparator, such as a function pointer, have none. The union of unsorted vectors is
/// undefined.
///
///     std::set<std::string> seen = words_of(comm.rank());
///     all_reduce(comm, seen, set_union());
///     all_reduce(comm, std::span(&sorted, 1), set_union());  // a vector: as the one element of a span
///
/// Between ranks that do not share memory, it needs a `serializer` for the set. Cost: one pass over both operands per
/// fold.
struct set_union {
    template <detail::ordered_set S>
    [[nodiscard]] S operator()(const S& a, const S& b) const {
        S both = a;
        both.insert(b.begin(), b.end());
        return both;
    }
    template <detail::sorted_list S>
    [[nodiscard]] S operator()(const S& a, const S& b) const {
        S both;
        both.reserve(a.size() + b.size());
        std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
        return both;
    }

    template <class S>
    static constexpr law_set laws_on = detail::union_laws<S>;

    template <class S>
        requires detail::set_of_one_order<S> || detail::sorted_list<S>
    [[nodiscard]] static S identity() {
        return {};
    }
};

}  // namespace allfold
