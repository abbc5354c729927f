// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/algebra/laws.hpp"

/// @file
/// Sums of floating point numbers without rounding errors.
///
///     double:  2^1024 ┬───────────────┬───────────────┬─ ... ─┬───────────────┐ 2^-1074
///     sign, headroom ─┘  one two's complement integer, whose last bit is the least significant bit of any double
///                  ▲ a double is added to two words, and carries ripple upwards; a state is added word by word
///
/// Kulisch, "Very fast and exact accumulation of products", Computing 91, 2011: the long fixed point register. Neal,
/// "Fast exact summation using small and large superaccumulators", 2015, and Collange, Defour, Graillat and Iakymchuk,
/// "Numerical reproducibility for the parallel reduction on multi- and many-core architectures", Parallel Computing 49,
/// 2015: the same in software. Departure from both: words do not overlap and carries are never deferred. A sum
/// therefore has a single representation, and equal sums have equal bytes, however they were computed.

namespace allfold {

/// The exact sum of floating point numbers: an integer with one bit for every power of two of T and enough headroom for
/// 2^64 addends of any magnitude. Takes 280 bytes for double, 56 for float.
///
///     exact_accumulator<double> mine;
///     for (const double x : values) mine += x;
///     const double total = all_reduce(comm, mine, exact_sum<double>());
///
/// Converts to T with a single rounding: to nearest, ties to even, regardless of the rounding mode; a sum greater than
/// the greatest T becomes infinite. An empty sum is +0. Two accumulators compare equal if they hold the same sum of the
/// same kinds of numbers (below), and then have the same bytes.
template <class T>
    requires std::same_as<T, float> || std::same_as<T, double>
class exact_accumulator {
  public:
    using value_type = T;

    constexpr exact_accumulator() = default;
    constexpr explicit exact_accumulator(T x) noexcept { *this += x; }

    constexpr exact_accumulator& operator+=(T x) noexcept {
        const std::uint64_t bits = std::bit_cast<detail::bits_of<T>>(x);
        const std::uint64_t exponent = (bits >> fraction_bits) & all_exponents;
        const std::uint64_t fraction = bits & (implicit_one - 1);
        const bool negative = bits >> sign_bit != 0;
        if (exponent == all_exponents) {
            seen_ |= fraction != 0 ? kind::nan : negative ? kind::negative_infinity : kind::infinity;
        } else if (exponent == 0 && fraction == 0) {
            seen_ |= negative ? kind::negative_zero : kind::other_number;
        } else {
            seen_ |= kind::other_number;
            // The least significant bit of subnormal numbers and of the smallest normal ones is the same: bit 0.
            add(exponent == 0 ? fraction : fraction | implicit_one,
                static_cast<std::size_t>(exponent == 0 ? 0 : exponent - 1), negative);
        }
        return *this;
    }

    constexpr exact_accumulator& operator+=(const exact_accumulator& other) noexcept {
        std::uint64_t carry = 0;
        for (std::size_t i = 0; i < words; ++i) {
            const std::uint64_t theirs = other.words_[i];  // which may be this very word
            const std::uint64_t both = words_[i] + theirs;
            words_[i] = both + carry;
            carry = static_cast<std::uint64_t>(both < theirs) | static_cast<std::uint64_t>(words_[i] < both);
        }
        seen_ |= other.seen_;
        return *this;
    }

    constexpr operator T() const noexcept {
        constexpr std::uint64_t both = kind::infinity | kind::negative_infinity;
        if ((seen_ & kind::nan) != 0 || (seen_ & both) == both) return std::numeric_limits<T>::quiet_NaN();
        if ((seen_ & both) != 0) return from(infinite, (seen_ & kind::infinity) == 0);
        if ((words_.back() >> (word_bits - 1)) == 0) return from(rounded(words_), seen_ == kind::negative_zero);
        return from(rounded(negated(words_)), true);
    }

    friend constexpr bool operator==(const exact_accumulator&, const exact_accumulator&) = default;

  private:
    using limits = std::numeric_limits<T>;
    static_assert(limits::is_iec559);

    /// What kinds of numbers have been added, as a bit set kept beside the sum.
    enum kind : std::uint64_t { negative_zero = 1, other_number = 2, infinity = 4, negative_infinity = 8, nan = 16 };

    static constexpr std::size_t word_bits = 64;
    static constexpr std::size_t number_bits = limits::max_exponent - limits::min_exponent + limits::digits;
    static constexpr std::size_t words = (number_bits + 64 + 1 + word_bits - 1) / word_bits;  // headroom and a sign
    using long_integer = std::array<std::uint64_t, words>;

    static constexpr std::size_t digits = limits::digits;
    static constexpr std::size_t fraction_bits = digits - 1;
    static constexpr std::size_t sign_bit = 8 * sizeof(T) - 1;
    static constexpr std::uint64_t implicit_one = std::uint64_t{1} << fraction_bits;
    static constexpr std::uint64_t all_exponents = 2 * limits::max_exponent - 1;
    static constexpr std::uint64_t infinite = all_exponents << fraction_bits;

    /// Adds or subtracts mantissa · 2^shift.
    constexpr void add(std::uint64_t mantissa, std::size_t shift, bool negative) noexcept {
        const std::size_t at = shift % word_bits;
        const std::uint64_t low = mantissa << at, high = at == 0 ? 0 : mantissa >> (word_bits - at);
        std::size_t i = shift / word_bits;
        if (negative) {
            const bool borrow = words_[i] < low;
            words_[i] -= low;
            const std::uint64_t rest = high + (borrow ? 1 : 0);  // a mantissa is too short for this to wrap around
            bool more = words_[++i] < rest;
            words_[i] -= rest;
            while (more && ++i < words) more = words_[i]-- == 0;
        } else {
            words_[i] += low;
            const std::uint64_t rest = high + (words_[i] < low ? 1 : 0);
            words_[++i] += rest;
            bool more = words_[i] < rest;
            while (more && ++i < words) more = ++words_[i] == 0;
        }
    }

    [[nodiscard]] static constexpr long_integer negated(long_integer x) noexcept {
        bool carry = true;
        for (std::uint64_t& word : x) {
            word = ~word + (carry ? 1 : 0);
            carry = carry && word == 0;
        }
        return x;
    }

    /// One word's worth of bits, starting at bit `first`.
    [[nodiscard]] static constexpr std::uint64_t bits_from(const long_integer& x, std::size_t first) noexcept {
        const std::size_t i = first / word_bits, at = first % word_bits;
        const std::uint64_t above = i + 1 < words && at != 0 ? x[i + 1] << (word_bits - at) : 0;
        return (x[i] >> at) | above;
    }

    /// The bits of the T nearest to x; x must not be negative.
    [[nodiscard]] static constexpr std::uint64_t rounded(const long_integer& x) noexcept {
        std::size_t used = words;
        while (used > 0 && x[used - 1] == 0) --used;
        if (used == 0) return 0;
        const std::size_t length = used * word_bits - static_cast<std::size_t>(std::countl_zero(x[used - 1]));
        if (length <= digits) return x[0];  // a number this short, normal or subnormal, is encoded as its mantissa
        const std::size_t dropped = length - digits;
        std::uint64_t mantissa = bits_from(x, dropped) & (2 * implicit_one - 1);
        if (rounds_up(x, dropped, mantissa % 2 != 0)) ++mantissa;
        // The implicit one adds to the exponent, and so does a mantissa rounded up to a power of two.
        return std::min((std::uint64_t{dropped} << fraction_bits) + mantissa, infinite);
    }
    /// Whether the last `dropped` bits are more than half a unit of the bit above them, or exactly half and that bit is
    /// 1.
    [[nodiscard]] static constexpr bool rounds_up(const long_integer& x, std::size_t dropped, bool odd) noexcept {
        const std::size_t half = dropped - 1, i = half / word_bits;
        const std::uint64_t bit = std::uint64_t{1} << (half % word_bits);
        if ((x[i] & bit) == 0) return false;
        if (odd || (x[i] & (bit - 1)) != 0) return true;
        for (std::size_t below = 0; below < i; ++below)
            if (x[below] != 0) return true;
        return false;
    }

    [[nodiscard]] static constexpr T from(std::uint64_t magnitude, bool negative) noexcept {
        const std::uint64_t sign = std::uint64_t{negative} << sign_bit;
        return std::bit_cast<T>(static_cast<detail::bits_of<T>>(magnitude | sign));
    }

    long_integer words_{};  // least significant first
    std::uint64_t seen_ = 0;
};

/// The sum as if computed with unlimited precision and rounded once, to nearest. The bits are the same for every P,
/// order, schedule and partition, even if numbers cancel (1e300 + 1 - 1e300 is 1) or partial sums exceed the greatest
/// T. Folds numbers of type T, which are sent as `exact_accumulator`s, or `exact_accumulator`s into which a rank has
/// already added many numbers of its own. The latter is faster, because only one accumulator is sent.
///
/// NaN, or infinities of both signs, give NaN, always the same one; infinities of one sign give that infinity; a sum
/// greater than the greatest T is infinite, too. A zero sum is +0, or -0 if nothing but -0 was added, as with +. The
/// sum of no contributions is +0.
///
/// Cost: 35 words of 8 bytes per double, 7 per float, both on the wire and, twice, in memory for the duration of the
/// call; one addition with carry per word and fold.
template <class T>
    requires std::same_as<T, float> || std::same_as<T, double>
struct exact_sum {
    using state = exact_accumulator<T>;

    [[nodiscard]] constexpr state operator()(const state& a, const state& b) const noexcept {
        state both = a;
        both += b;
        return both;
    }

    static constexpr law_set laws = law::associative | law::commutative | law::exact;

    [[nodiscard]] static constexpr state identity() noexcept { return {}; }

    /// A template, so that an accumulator is not converted to T, and thereby rounded, in order to be lifted.
    template <std::same_as<T> Number>
    [[nodiscard]] static constexpr state lift(const Number& x) noexcept {
        return state(x);
    }
};

}  // namespace allfold
