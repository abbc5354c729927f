// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <numeric>
#include <optional>
#include <string>

#include "examples/attention/attention.hpp"
#include "examples/attention/npy.hpp"

/// @file
/// The three files of a problem, read and checked against each other before any rank starts.

namespace attention {

struct input_file {
    std::filesystem::path name;
    npy::array array;

    /// An extent, counted from the last axis: 0 is the depth, 1 the position.
    [[nodiscard]] std::size_t from_last(std::size_t axis) const { return array.shape[array.shape.size() - 1 - axis]; }
    [[nodiscard]] npy::extents batch() const { return {array.shape.begin(), array.shape.end() - 2}; }
};

struct input {
    input_file q, k, v;

    [[nodiscard]] sizes size() const {
        const npy::extents batch = q.batch();
        return {.heads = std::accumulate(batch.begin(), batch.end(), std::size_t{1}, std::multiplies<>()),
                .queries = q.from_last(1),
                .keys = k.from_last(1),
                .depth = q.from_last(0),
                .value_depth = v.from_last(0)};
    }
    /// Shaped like q, with the depth of v.
    [[nodiscard]] npy::extents result_shape() const {
        npy::extents shape = q.array.shape;
        shape.back() = v.array.shape.back();
        return shape;
    }
    /// float64 if any file is float64; otherwise float32, even for float16.
    [[nodiscard]] bool needs_double() const {
        return std::max({q.array.type, k.array.type, v.array.type}) == npy::dtype::float64;
    }
};

namespace detail {

/// Throws if an array without elements has other extents for which there is no time or memory. (Those of an array with
/// elements are no larger than its file.)
inline void require_moderate(const input_file& file) {
    constexpr std::size_t most = std::size_t{1} << 26;
    npy::extents others = file.array.shape;
    std::erase(others, std::size_t{0});
    const auto bytes = npy::detail::bytes_of(others, file.array.type);
    if (file.array.size() == 0 && (!bytes || *bytes > most))
        throw npy::file_error(file.name, "shape " + npy::text_of(file.array.shape) +
                                             " has no elements, but its other extents are too large");
}

[[nodiscard]] inline input_file read_checked(const std::filesystem::path& name) {
    input_file file{name, npy::read(name)};
    const std::size_t axes = file.array.shape.size();
    if (axes < 2 || axes > 4)
        throw npy::file_error(name, "shape " + npy::text_of(file.array.shape) + " has " + std::to_string(axes) +
                                        " axes; [T, D], [H, T, D] or [B, H, T, D] is expected");
    if (file.from_last(0) == 0)
        throw npy::file_error(name, "shape " + npy::text_of(file.array.shape) + ": the last axis, the depth, is 0");
    require_moderate(file);
    return file;
}

template <class Figure>
void require_equal(const input_file& a, const input_file& b, const char* what, Figure figure) {
    if (figure(a) == figure(b)) return;
    throw npy::file_error(b.name, std::string("shape ") + npy::text_of(b.array.shape) + " does not fit " +
                                      a.name.string() + ", shape " + npy::text_of(a.array.shape) + ": " + what +
                                      " must be equal");
}

}  // namespace detail

/// Reads q, k and v. Throws `npy::file_error`, which names the file, for a file that cannot be used or does not fit.
[[nodiscard]] inline input read_input(const std::filesystem::path& q, const std::filesystem::path& k,
                                      const std::filesystem::path& v) {
    input in{detail::read_checked(q), detail::read_checked(k), detail::read_checked(v)};
    const auto batch = [](const input_file& file) { return file.batch(); };
    detail::require_equal(in.q, in.k, "the axes before the last two", batch);
    detail::require_equal(in.k, in.v, "the axes before the last two", batch);
    detail::require_equal(in.q, in.k, "the depths (last axis)", [](const input_file& f) { return f.from_last(0); });
    detail::require_equal(in.k, in.v, "the numbers of keys (last but one axis)",
                          [](const input_file& f) { return f.from_last(1); });
    return in;
}

/// The problem in T; the scale is 1/sqrt(depth) unless given.
template <std::floating_point T>
[[nodiscard]] problem<T> make_problem(const input& in, std::optional<double> scale, bool causal) {
    const sizes size = in.size();
    return {.size = size,
            .scale = scale.value_or(1 / std::sqrt(static_cast<double>(size.depth))),
            .causal = causal,
            .q = npy::values_of<T>(in.q.array),
            .k = npy::values_of<T>(in.k.array),
            .v = npy::values_of<T>(in.v.array)};
}

}  // namespace attention
