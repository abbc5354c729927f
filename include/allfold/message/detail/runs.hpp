// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "allfold/data/records.hpp"
#include "allfold/data/tensor_view.hpp"
#include "allfold/data/tensors.hpp"
#include "allfold/error.hpp"
#include "allfold/message/detail/message_data.hpp"
#include "allfold/transport/communicator.hpp"

/// @file
/// Message data in more than one piece: its pieces are sent one after another.

namespace allfold::detail {

/// Whether data of this type may be non-contiguous.
template <class X>
inline constexpr bool may_have_gaps = tensor_view<X> || is_records<X> || is_tensors<X>;

template <class X>
[[nodiscard]] bool has_gaps([[maybe_unused]] const X& x) {
    if constexpr (tensor_view<X>)
        return !detail::is_contiguous(x);
    else if constexpr (is_tensors<X>)
        return x.pieces().size() > 1;
    else
        return is_records<X>;
}

class run_list {
  public:
    template <class T>
    void add(T* first, std::size_t count) {
        if constexpr (!std::is_trivially_copyable_v<std::remove_cv_t<T>>)
            throw error(errc::bad_argument,
                        "message: the elements of a tensor view with gaps, or of a list of tensors, must be trivially "
                        "copyable");
        auto* const bytes = const_cast<std::byte*>(reinterpret_cast<const std::byte*>(first));
        if (!runs_.empty() && runs_.back().data + runs_.back().bytes == bytes)
            runs_.back().bytes += count * sizeof(T);
        else if (count != 0)
            runs_.push_back({bytes, count * sizeof(T)});
    }
    [[nodiscard]] std::vector<part> take() && { return std::move(runs_); }

  private:
    std::vector<part> runs_;
};

/// Row i of a view that has at least i rows.
template <class V>
[[nodiscard]] auto row_of(const V& v, std::size_t i) {
    using access = tensor_access<V>;
    using element = typename access::element_type;
    constexpr std::size_t inner = access::rank > 1 ? access::rank - 1 : 1;
    std::array<std::size_t, inner> extents{1};
    std::array<std::ptrdiff_t, inner> strides{1};
    for (std::size_t axis = 1; axis < access::rank; ++axis) {
        extents[axis - 1] = access::extent(v, axis);
        strides[axis - 1] = access::stride(v, axis);
    }
    element* first = access::data(v);
    if constexpr (access::rank > 0)
        if (i > 0) first += static_cast<std::ptrdiff_t>(i) * access::stride(v, 0);
    return tensor<element, inner>(first, extents, strides);
}
/// The number of bytes in a row of a view.
template <class V>
[[nodiscard]] std::size_t row_bytes_of(const V& v) {
    using element = typename tensor_access<V>::element_type;
    return detail::count_of(detail::row_of(v, 0)) * sizeof(element);
}

/// The contiguous runs of elements, in row-major order; for records, each row consists of that row of each tensor.
/// Empty if there are no gaps.
template <class X>
[[nodiscard]] std::vector<part> runs_of([[maybe_unused]] X& x) {
    using data = std::remove_cv_t<X>;
    run_list runs;
    const auto add = [&runs](auto* first, std::size_t count) { runs.add(first, count); };
    if (!detail::has_gaps(x)) return {};
    if constexpr (tensor_view<data>) {
        detail::for_each_run(x, add);
    } else if constexpr (is_tensors<data>) {
        for (const auto& piece : x.pieces()) add(piece.data(), piece.size());
    } else if constexpr (is_records<data>) {
        const std::size_t rows = detail::message_data_of<true>(x).elements;
        for (std::size_t i = 0; i < rows; ++i)
            std::apply([&](const auto&... views) { (detail::for_each_run(detail::row_of(views, i), add), ...); },
                       x.views());
    }
    return std::move(runs).take();
}

/// For records, the type of a row with its length, which only the tensors know.
template <class X>
[[nodiscard]] std::optional<message_type> row_type_of([[maybe_unused]] const X& x) {
    if constexpr (is_records<X>) {
        message_type rows = *detail::message_data_of<true>(x).type;
        rows.element_bytes =
            std::apply([](const auto&... views) { return (detail::row_bytes_of(views) + ...); }, x.views());
        if (rows.element_bytes == 0)
            throw error(errc::bad_argument, "message: the rows of these records have no elements");
        return rows;
    }
    return std::nullopt;
}

/// Scatters the first `bytes` bytes, received contiguously, over runs with gaps between them.
inline void distribute(std::span<const part> runs, const std::byte* from, std::size_t bytes) noexcept {
    for (const part& run : runs) {
        const std::size_t n = std::min(run.bytes, bytes);
        std::memcpy(run.data, from, n);
        from += n;
        bytes -= n;
    }
}

}  // namespace allfold::detail
