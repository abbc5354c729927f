// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <span>
#include <string>
#include <type_traits>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/algebra/diagnose.hpp"
#include "allfold/algebra/operator.hpp"

/// @file
/// Tests the laws that an operator declares on sample elements, at run time or in a static_assert:
///
///     static_assert(check_laws(max{}, {-1, 0, 7}));
///     const law_report report = check_laws(my_operator, samples, within(1e-6));
///     if (!report) std::puts(report.text().c_str());
///
/// Samples cannot prove a law. Use those that tend to break laws: identities, opposites, extremes, equal values, NaN.

namespace allfold {

/// Equality by ==, except that values which differ from themselves (NaN) equal each other.
struct same_value {
    template <std::equality_comparable T>
    [[nodiscard]] constexpr bool operator()(const T& a, const T& b) const {
        return a == b || (a != a && b != b);
    }
};

/// Equality up to `tolerance`, relative to the larger of the two magnitudes if that is above 1, absolute otherwise. For
/// floating point and complex numbers and for ranges of them.
class within {
  public:
    constexpr explicit within(double tolerance) noexcept : tolerance_(tolerance) {}

    template <class T>
        requires detail::real_number<T> || detail::complex_number<T>
    [[nodiscard]] constexpr bool operator()(const T& a, const T& b) const {
        if (same_value{}(a, b)) return true;
        if (!finite(a) || !finite(b)) return false;
        return magnitude(a - b) <= tolerance_ * std::max({1.0, magnitude(a), magnitude(b)});
    }

    template <class Range>
        requires requires(const Range& r) { std::end(r); }
    [[nodiscard]] constexpr bool operator()(const Range& a, const Range& b) const {
        return std::equal(std::begin(a), std::end(a), std::begin(b), std::end(b), *this);
    }

  private:
    template <class T>
    [[nodiscard]] static constexpr bool finite(const T& x) {
        if constexpr (detail::complex_number<T>)
            return finite(x.real()) && finite(x.imag());
        else
            return x > detail::least_value<T>() && x < detail::greatest_value<T>();
    }

    template <class T>
    [[nodiscard]] static constexpr double magnitude(const T& x) {
        if constexpr (detail::complex_number<T>)
            return std::max(magnitude(x.real()), magnitude(x.imag()));
        else
            return static_cast<double>(x < 0 ? -x : x);
    }

    double tolerance_;
};

/// What samples can refute: the laws themselves, that a copy of the operator is the same operator, and that its
/// identity is one.
enum class broken_law { none, copyable, identity, idempotent, commutative, associative, exact };

/// The first declared law that the samples break, and which samples break it. Converts to true if all laws hold.
struct law_report {
    broken_law broken = broken_law::none;
    std::size_t at[3] = {};   ///< indices of the operands among the samples, as many as the law has operands
    std::size_t samples = 0;  ///< how many samples there were

    [[nodiscard]] constexpr explicit operator bool() const noexcept { return broken == broken_law::none; }

    /// A readable report: "not commutative: op(x[0], x[2]) differs from op(x[2], x[0])".
    [[nodiscard]] std::string text() const {
        const std::string a = operand(0), b = operand(1), c = operand(2);
        const auto op = [](const std::string& l, const std::string& r) { return "op(" + l + ", " + r + ")"; };
        const auto differ = [](const std::string& l, const std::string& r) { return l + " differs from " + r; };
        const std::string brackets = differ(op(op(a, b), c), op(a, op(b, c)));
        switch (broken) {
            case broken_law::none: break;
            case broken_law::copyable: return "not copyable: " + differ("a copy's " + op(a, b), op(a, b));
            case broken_law::identity: return "not the identity: " + differ(op("e", a) + " or " + op(a, "e"), a);
            case broken_law::idempotent: return "not idempotent: " + differ(op(a, a), a);
            case broken_law::commutative: return "not commutative: " + differ(op(a, b), op(b, a));
            case broken_law::associative: return "not associative: " + brackets;
            case broken_law::exact: return "not exact: " + brackets + " by a rounding error";
        }
        return "all declared laws hold on " + std::to_string(samples) + " samples";
    }

  private:
    [[nodiscard]] std::string operand(int i) const { return "x[" + std::to_string(at[i]) + "]"; }
};

namespace detail {

template <class Op, class T, class Equal>
class law_check {
  public:
    constexpr law_check(const Op& op, const Equal& equal) : op_(op), copy_(op), equal_(equal) {}

    [[nodiscard]] constexpr law_report operator()(std::span<const T> x) const {
        law_report report{.samples = x.size()};
        auto& [i, j, k] = report.at;
        for (i = 0; i < x.size(); ++i)
            if (report.broken = broken_by(x[i]); !report) return report;
        for (i = 0; i < x.size(); ++i)
            for (j = 0; j < x.size(); ++j)
                if (report.broken = broken_by(x[i], x[j]); !report) return report;
        for (i = 0; i < x.size(); ++i)
            for (j = 0; j < x.size(); ++j)
                for (k = 0; k < x.size(); ++k)
                    if (report.broken = broken_by(x[i], x[j], x[k]); !report) return report;
        return report;
    }

  private:
    static constexpr law_set laws = laws_of<Op, T>;

    [[nodiscard]] constexpr broken_law broken_by(const T& a) const {
        if constexpr (operator_with_identity<Op, T>) {
            const T e = identity_of<T>(op_);
            if (!equal_(fold(e, a), a) || !equal_(fold(a, e), a)) return broken_law::identity;
        }
        if (laws.has(law::idempotent) && !equal_(fold(a, a), a)) return broken_law::idempotent;
        return broken_law::none;
    }

    [[nodiscard]] constexpr broken_law broken_by(const T& a, const T& b) const {
        const T folded = fold(a, b);
        if (!equal_(detail::fold_two<T>(copy_, a, b), folded)) return broken_law::copyable;
        if (is_commutative() && !equal_(fold(b, a), folded)) return broken_law::commutative;
        return broken_law::none;
    }

    [[nodiscard]] constexpr broken_law broken_by(const T& a, const T& b, const T& c) const {
        const T left = fold(fold(a, b), c), right = fold(a, fold(b, c));
        if (!equal_(left, right)) return broken_law::associative;
        if constexpr (laws.has(law::exact) && std::equality_comparable<T>)
            if (!same_value{}(left, right)) return broken_law::exact;
        return broken_law::none;
    }

    [[nodiscard]] constexpr bool is_commutative() const {
        if constexpr (says_commutative<Op, T>)
            return commutes<T>(op_);
        else
            return laws.has(law::commutative);
    }
    [[nodiscard]] constexpr T fold(const T& a, const T& b) const { return detail::fold_two<T>(op_, a, b); }

    const Op& op_;
    Op copy_;
    const Equal& equal_;
};

/// Whether laws can be tested on such samples; if not, a one-line compile error says what to write.
template <class Op, class T, class Range, class Equal>
[[nodiscard]] consteval bool require_samples() {
    constexpr bool is_contiguous = std::convertible_to<const Range&, std::span<const T>>;
    static_assert(is_contiguous,
                  "allfold: the samples are not contiguous in memory: pass them in an array or in braces");
    constexpr bool is_compared = requires(const Equal& equal, const T& x) {
        { equal(x, x) } -> std::convertible_to<bool>;
    };
    static_assert(is_compared,
                  "allfold: these samples cannot be compared: give them an operator==, or pass after them a function "
                  "equal(a, b) or, for numbers and ranges of them, within(tolerance)");
    return is_contiguous && is_compared && require_associative<Op, T>();
}

}  // namespace detail

/// Tests every law that `op` declares on all samples, pairs and triples of samples: O(n³) folds for n samples. Results
/// are compared with `equal`, and those of an `exact` operator with == too. `samples` is a contiguous range.
template <class Op, class Range, class Equal = same_value>
[[nodiscard]] constexpr law_report check_laws(const Op& op, const Range& samples, const Equal& equal = {}) {
    using T = std::remove_cvref_t<decltype(*std::begin(samples))>;
    if constexpr (detail::require_samples<Op, T, Range, Equal>())
        return detail::law_check<Op, T, Equal>(op, equal)(samples);
    else
        return {};
}

/// The same with the samples in braces: `check_laws(max{}, {1, 2, 3})`.
template <class Op, class T, class Equal = same_value>
[[nodiscard]] constexpr law_report check_laws(const Op& op, std::initializer_list<T> samples, const Equal& equal = {}) {
    return check_laws(op, std::span<const T>(samples.begin(), samples.size()), equal);
}

}  // namespace allfold
