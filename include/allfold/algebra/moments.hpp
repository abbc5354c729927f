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
/// STAN-CS-79-773, 1979. Departure: the mean is computed as a correction to the mean of the part with more numbers, or,
/// for parts of equal size, halfway between their means, so that a merge is commutative to the last bit.

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

/// The type in which narrow numbers are squared and counted: half precision ends at 65504.
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

/// (a + b) / 2. Halving the sum rounds less; if the sum overflows, each is halved first.
template <divisible T>
[[nodiscard]] constexpr T halfway(const T& a, const T& b) {
    const auto half = static_cast<typename real_part_of<T>::type>(0.5);
    const T sum = static_cast<T>(a + b);
    if (static_cast<T>(sum - sum) == T{}) return static_cast<T>(half * sum);
    return static_cast<T>(static_cast<T>(half * a) + static_cast<T>(half * b));
}

}  // namespace detail

/// How many numbers there are, their mean, and m2, the sum of their squared distances from the mean.
template <detail::divisible T>
struct moments_state {
    using real = typename detail::real_part_of<T>::type;

    std::int64_t count = 0;
    T mean{};
    real m2{};

    constexpr moments_state() = default;
    constexpr moments_state(std::int64_t numbers, const T& mean_of_them, const real& m2_of_them)
        : count(numbers), mean(mean_of_them), m2(m2_of_them) {}
    /// The state of one number.
    constexpr explicit moments_state(const T& x) : count(1), mean(x) {}

    /// The population variance: the mean squared distance from the mean. NaN if there are no numbers.
    [[nodiscard]] constexpr real variance() const { return m2_over(count); }
    /// The sample variance: an estimate of the variance of the distribution that the numbers were drawn from. NaN for
    /// fewer than two numbers.
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
/// rank has built from its own numbers; the result is a `moments_state`:
///
///     moments_state<double> mine;
///     for (const double x : values) mine = moments()(mine, moments_state(x));
///     all_reduce(comm, mine, moments());  // mine.mean, mine.variance()
///
/// Commutative to the last bit, associative up to rounding; the count is exact. Only differences are squared, so that
/// numbers far from 0 lose no precision. The variance of equal numbers is 0. A part without numbers is the identity. If
/// any of several numbers is NaN or infinite, neither mean nor m2 is finite.
struct moments {
    template <detail::divisible T>
    [[nodiscard]] constexpr moments_state<T> operator()(const moments_state<T>& a, const moments_state<T>& b) const {
        using real = typename moments_state<T>::real;
        if (a.count == 0) return b;
        if (b.count == 0) return a;
        const auto& more = a.count < b.count ? b : a;
        const auto& less = a.count < b.count ? a : b;
        const std::int64_t count = a.count + b.count;
        using wide = detail::at_least_double<real>;
        const wide share = static_cast<wide>(less.count) / static_cast<wide>(count);
        const T apart = static_cast<T>(less.mean - more.mean);
        const T middle = a.count == b.count ? detail::halfway(a.mean, b.mean)
                                            : static_cast<T>(more.mean + static_cast<real>(share) * apart);
        const wide weight = share * static_cast<wide>(more.count);
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

/// The variance of the numbers of all ranks, element by element: `moments` with the division done inside the
/// collective, from numbers or `moments_state`s to numbers. This is the population variance; for the sample variance,
/// fold with `moments` and call `sample_variance()`.
struct variance : moments {
    template <detail::divisible T>
    [[nodiscard]] static constexpr typename moments_state<T>::real lower(const moments_state<T>& state,
                                                                         int /*contributions*/) {
        return state.variance();
    }
};

}  // namespace allfold
