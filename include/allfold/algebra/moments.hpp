// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <concepts>
#include <cstdint>
#include <type_traits>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/algebra/laws.hpp"
#include "allfold/algebra/mean.hpp"

/// @file
/// Count, mean and variance of floating point or complex numbers.
///
///     n = n1 + n2     mean = mean1 + (mean2 - mean1)·n2/n     m2 = m2_1 + m2_2 + |mean2 - mean1|²·n1·n2/n
///
/// Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", Stanford
/// STAN-CS-79-773, 1979. Departure: the mean is corrected from that of the part with more numbers, and is halfway
/// between those of equal parts, so that a merge is commutative to the last bit.

namespace allfold {
namespace detail {

template <class T>
struct real_part_of {
    using type = T;
};
template <complex_number T>
struct real_part_of<T> {
    using type = typename T::value_type;
};

/// Where short numbers are squared and counted: half of them end at 65504.
template <class Real>
using at_least_double = std::conditional_t<sizeof(Real) < sizeof(double), double, Real>;

/// |x|².
template <divisible T>
[[nodiscard]] constexpr auto squared(const T& x) {
    using wide = at_least_double<typename real_part_of<T>::type>;
    if constexpr (complex_number<T>)
        return static_cast<wide>(x.real()) * static_cast<wide>(x.real()) +
               static_cast<wide>(x.imag()) * static_cast<wide>(x.imag());
    else
        return static_cast<wide>(x) * static_cast<wide>(x);
}

/// Their sum may be greater than all numbers; it is rounded less where it is not.
template <divisible T>
[[nodiscard]] constexpr T halfway(const T& a, const T& b) {
    const auto half = static_cast<typename real_part_of<T>::type>(0.5);
    const T sum = static_cast<T>(a + b);
    if (static_cast<T>(sum - sum) == T{}) return static_cast<T>(half * sum);
    return static_cast<T>(static_cast<T>(half * a) + static_cast<T>(half * b));
}

}  // namespace detail

/// How many numbers there were, their mean, and m2, the sum of the squares of their distances from it.
template <detail::divisible T>
struct moments_state {
    using real = typename detail::real_part_of<T>::type;

    std::int64_t count = 0;
    T mean{};
    real m2{};

    constexpr moments_state() = default;
    constexpr moments_state(std::int64_t numbers, const T& mean_of_them, const real& m2_of_them)
        : count(numbers), mean(mean_of_them), m2(m2_of_them) {}
    /// Of one number.
    constexpr explicit moments_state(const T& x) : count(1), mean(x) {}

    /// The mean square of the distances from the mean: of the numbers as they are. NaN of none.
    [[nodiscard]] constexpr real variance() const { return m2_over(count); }
    /// What the numbers, as a sample, tell of the variance of what they were drawn from. NaN of one or none.
    [[nodiscard]] constexpr real sample_variance() const { return m2_over(count - 1); }

    friend constexpr bool operator==(const moments_state&, const moments_state&) = default;

  private:
    [[nodiscard]] constexpr real m2_over(std::int64_t numbers) const {
        using wide = detail::at_least_double<real>;
        return static_cast<real>(static_cast<wide>(m2) / static_cast<wide>(numbers));
    }
};

namespace detail {

template <class T>
inline constexpr bool is_moments_state = false;
template <class T>
inline constexpr bool is_moments_state<moments_state<T>> = true;

}  // namespace detail

/// Merges counts, means and sums of squared distances. Folds numbers, each as a part of one, or `moments_state`s that a
/// rank has made of numbers of its own; the outcome is a `moments_state`:
///
///     moments_state<double> mine;
///     for (const double x : values) mine = moments()(mine, moments_state(x));
///     all_reduce(comm, mine, moments());  // mine.mean, mine.variance()
///
/// Commutative to the last bit, associative up to rounding; the count is exact. Nothing is squared that is not a
/// difference, so that numbers far from 0 lose nothing. Of equal numbers the variance is 0. A part without numbers is
/// the identity. Where a number is NaN or infinite, neither mean nor m2 is finite.
struct moments {
    template <detail::divisible T>
    [[nodiscard]] constexpr moments_state<T> operator()(const moments_state<T>& a, const moments_state<T>& b) const {
        using real = typename moments_state<T>::real;
        if (a.count == 0) return b;
        if (b.count == 0) return a;
        const auto& more = a.count < b.count ? b : a;
        const auto& less = a.count < b.count ? a : b;
        const std::int64_t count = a.count + b.count;
        const double share = static_cast<double>(less.count) / static_cast<double>(count);
        const T apart = static_cast<T>(less.mean - more.mean);
        const T middle = a.count == b.count ? detail::halfway(a.mean, b.mean)
                                            : static_cast<T>(more.mean + static_cast<real>(share) * apart);
        const auto weight = static_cast<detail::at_least_double<real>>(share * static_cast<double>(more.count));
        const auto between = static_cast<real>(detail::squared(apart) * weight);
        return {count, middle, static_cast<real>(static_cast<real>(a.m2 + b.m2) + between)};
    }

    template <class State>
    static constexpr law_set laws_on =
        detail::is_moments_state<State> ? law::associative | law::commutative : law_set{};

    template <class State>
        requires detail::is_moments_state<State>
    [[nodiscard]] static constexpr State identity() {
        return {};
    }

    template <detail::divisible T>
    [[nodiscard]] static constexpr moments_state<T> lift(const T& x) {
        return moments_state<T>(x);
    }
};

/// The variance of the numbers of all ranks, element by element: `moments` with the division inside the collective, of
/// numbers or of `moments_state`s to numbers. It is that of the numbers as they are; of a sample, fold with `moments`
/// and ask for its `sample_variance()`.
struct variance : moments {
    template <detail::divisible T>
    [[nodiscard]] static constexpr typename moments_state<T>::real lower(const moments_state<T>& state,
                                                                         int /*contributions*/) {
        return state.variance();
    }
};

}  // namespace allfold
