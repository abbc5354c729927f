// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <limits>
#include <optional>
#include <ostream>
#include <ranges>
#include <sstream>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "allfold/error.hpp"

/// @file
/// Whether the ranks of a program return the same values in each execution.

namespace allfold::detail {

template <class T>
concept printable = requires(std::ostream& out, const T& value) { out << value; };

/// A value as text, if it can be printed: numbers with so many digits that different ones have different texts.
template <class T>
[[nodiscard]] std::string value_text(const T& value) {
    if constexpr (printable<T>) {
        using number = std::conditional_t<std::is_floating_point_v<T>, T, double>;
        std::ostringstream out;
        out.precision(std::numeric_limits<number>::max_digits10);
        out << value;
        return out.str();
    } else if constexpr (std::ranges::input_range<const T>) {
        std::string all = "{";
        for (const auto& each : value) all += (all.size() > 1 ? ", " : "") + value_text(each);
        return all + "}";
    } else {
        return "a value that cannot be printed";
    }
}

#if defined(__has_builtin)
#if __has_builtin(__builtin_clear_padding)
#define ALLFOLD_CLEARS_PADDING
#endif
#endif

/// Whether two values differ in bytes that are not padding. False where compilers cannot tell: no fault is invented.
template <class T>
[[nodiscard]] bool have_other_bytes([[maybe_unused]] const T& x, [[maybe_unused]] const T& y) noexcept {
#ifdef ALLFOLD_CLEARS_PADDING  // g++
    if constexpr (std::is_trivially_copyable_v<T> && std::copy_constructible<T>) {
        T a = x, b = y;
        __builtin_clear_padding(&a);
        __builtin_clear_padding(&b);
        return std::memcmp(&a, &b, sizeof(T)) != 0;
    }
#endif
    return false;
}

/// Whether two values are the same: equal, or alike in what is not equal to itself (NaN).
template <class T>
[[nodiscard]] bool is_alike(const T& a, const T& b) {
    if (a == b) return true;
    if (a == a || b == b) return false;
    if constexpr (std::is_floating_point_v<T>) {
        return true;
    } else if constexpr (std::ranges::input_range<const T>) {
        using element = std::ranges::range_value_t<const T>;
        return std::ranges::equal(a, b, [](const element& x, const element& y) { return is_alike(x, y); });
    } else if constexpr (requires { std::tuple_size<T>::value; }) {
        return [&]<std::size_t... I>(std::index_sequence<I...>) {
            return (is_alike(std::get<I>(a), std::get<I>(b)) && ...);
        }(std::make_index_sequence<std::tuple_size_v<T>>());
    } else if constexpr (printable<T>) {
        return value_text(a) == value_text(b);
    } else {
        return !have_other_bytes(a, b);
    }
}

/// What the ranks of a program return, compared with what they returned in the first execution.
class explored_values {
  public:
    virtual ~explored_values() = default;
    virtual void begin() = 0;
    /// How the execution that has just ended differs from the first one, whose values it keeps. Empty if nothing
    /// differs.
    [[nodiscard]] virtual std::string difference() = 0;
    virtual void forget() = 0;
};

class no_values final : public explored_values {
  public:
    void begin() override {}
    [[nodiscard]] std::string difference() override { return {}; }
    void forget() override {}
};

template <class T>
class values_of final : public explored_values {
  public:
    explicit values_of(int size) : now_(static_cast<std::size_t>(size)), first_(now_) {}
    void begin() override {
        for (auto& each : now_) each.reset();
    }
    void set(int rank, T value) { now_[static_cast<std::size_t>(rank)].emplace(std::move(value)); }
    [[nodiscard]] std::string difference() override {
        if (!std::exchange(has_first_, true)) first_.swap(now_);
        for (std::size_t r = 0; r < now_.size(); ++r)
            if (now_[r] && first_[r] && !is_alike(*now_[r], *first_[r]))
                return text({"rank ", r, " returns ", value_text(*now_[r]), ", but ", value_text(*first_[r]),
                             " in the first execution"});
        return {};
    }
    void forget() override { has_first_ = false; }

  private:
    std::vector<std::optional<T>> now_, first_;
    bool has_first_ = false;
};

}  // namespace allfold::detail
