// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <ranges>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "allfold/algebra/operator.hpp"
#include "test/support/catch.hpp"

/// @file
/// The expected results of collectives: a sequential fold in rank order.

namespace test {

/// Thrown by a rank that finds something wrong. (Catch's macros work on one thread only.)
struct wrong : std::logic_error {
    using std::logic_error::logic_error;
};

inline void expect(bool fine, const std::string& text) {
    if (!fine) throw wrong(text);
}
inline void expect(bool fine, const char* text) {  // makes no string for each of many elements
    if (!fine) throw wrong(text);
}

/// Operands for a group of ranks, and the folds of all their prefixes.
template <class Algebra>
class problem {
  public:
    using element = typename Algebra::element;
    using operation = decltype(Algebra::operation());

    problem(int ranks, std::size_t n) : op(Algebra::operation()) {
        for (int r = 0; r < ranks; ++r) {
            auto& x = operands_.emplace_back();
            for (std::size_t i = 0; i < n; ++i) x.push_back(Algebra::sample(r, i));
            auto& fold = prefixes_.emplace_back(x);
            for (std::size_t i = 0; r > 0 && i < n; ++i) fold[i] = op(prefixes_[at(r - 1)][i], x[i]);
        }
    }

    [[nodiscard]] int ranks() const { return static_cast<int>(operands_.size()); }
    [[nodiscard]] std::size_t size() const { return operands_[0].size(); }
    [[nodiscard]] std::span<const element> operand(int rank) const { return operands_[at(rank)]; }
    /// x0 ∘ ... ∘ x(rank).
    [[nodiscard]] std::span<const element> prefix(int rank) const { return prefixes_[at(rank)]; }
    [[nodiscard]] std::span<const element> total() const { return prefixes_.back(); }

    /// The order level that the operator needs, as a number.
    static constexpr int level = allfold::commutative_operator<operation, element> ? 0 : 1;
    operation op;

  private:
    static std::size_t at(int rank) { return static_cast<std::size_t>(rank); }
    std::vector<std::vector<element>> operands_, prefixes_;
};

/// Whether both have the same bytes, and so equal elements, none of which is a NaN: the fastest way to compare many of
/// them in an unoptimised build.
template <class A, class B>
bool same_bytes(const A& a, const B& b) {
    if constexpr (std::ranges::contiguous_range<A> && std::ranges::contiguous_range<B>) {
        using element = std::ranges::range_value_t<A>;
        if constexpr (std::is_same_v<element, std::ranges::range_value_t<B>> && std::is_trivially_copyable_v<element>) {
            const std::size_t n = std::ranges::size(a);
            return n == std::ranges::size(b) &&
                   (n == 0 || std::memcmp(std::ranges::data(a), std::ranges::data(b), n * sizeof(element)) == 0);
        }
    }
    return false;
}

template <class Algebra, class T>
bool same(const T& got, const T& expected) {
    if constexpr (Algebra::exact)
        return got == expected;
    else
        return std::abs(got - expected) <= 1e-4F * std::abs(expected);
}

/// Throws unless `got` equals `expected`, up to rounding if the algebra has any.
template <class Algebra>
void expect_same(std::span<const typename Algebra::element> got, std::span<const typename Algebra::element> expected,
                 const std::string& where) {
    expect(got.size() == expected.size(), where + ": wrong number of elements");
    if (same_bytes(got, expected)) return;
    for (std::size_t i = 0; i < got.size(); ++i)
        if (!same<Algebra>(got[i], expected[i]))
            throw wrong(where + ": element " + std::to_string(i) + " of " + std::to_string(got.size()) + " is " +
                        Catch::Detail::stringify(got[i]) + ", expected " + Catch::Detail::stringify(expected[i]));
}

/// Throws unless both have equal elements.
template <std::ranges::input_range A, std::ranges::input_range B>
void expect_equal(const A& got, const B& expected, const std::string& where) {
    if (!same_bytes(got, expected) && !std::ranges::equal(got, expected)) throw wrong(where);
}

}  // namespace test
