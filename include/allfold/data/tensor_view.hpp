// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <array>
#include <concepts>
#include <cstddef>
#include <iterator>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

/// @file
/// Where data is in memory: the tensor view concept, and a small view for when `std::mdspan` is not available.

namespace allfold {

/// Makes a third-party type a tensor view. Specialise with `element_type`, `rank` and the static functions `extent(v,
/// i)`, `stride(v, i)` (in elements) and `data(v)` (the address of element 0, 0, ...).
template <class V>
struct tensor_traits {};

namespace detail {

template <class V>
concept has_tensor_traits = requires { typename tensor_traits<V>::element_type; };

template <class P, class T>
concept points_to = std::same_as<std::remove_cvref_t<P>, T*>;

template <class V>
concept has_tensor_members = requires(const V& v, std::size_t i) {
    typename V::element_type;
    { V::rank() } -> std::convertible_to<std::size_t>;
    { v.extent(i) } -> std::convertible_to<std::size_t>;
    { v.stride(i) } -> std::convertible_to<std::ptrdiff_t>;
    requires requires { requires points_to<decltype(v.data()), typename V::element_type>; } ||
                 requires { requires points_to<decltype(v.data_handle()), typename V::element_type>; };  // std::mdspan
};

/// Uniform access to a tensor view, through the trait if there is one, otherwise through the members.
template <class V>
struct tensor_access {
    using element_type = typename V::element_type;
    static constexpr std::size_t rank = V::rank();
    static constexpr std::size_t extent(const V& v, std::size_t i) { return static_cast<std::size_t>(v.extent(i)); }
    static constexpr std::ptrdiff_t stride(const V& v, std::size_t i) {
        if constexpr (rank == 0)  // an mdspan of rank 0 has no strides
            return 0;
        else
            return static_cast<std::ptrdiff_t>(v.stride(i));
    }
    static constexpr element_type* data(const V& v) {
        if constexpr (requires { v.data(); })
            return v.data();
        else
            return v.data_handle();
    }
};
template <has_tensor_traits V>
struct tensor_access<V> : tensor_traits<V> {};

}  // namespace detail

/// A non-owning view of elements in memory.
///
/// 1. `element_type`;
/// 2. static `rank()`;
/// 3. `extent(i)`;
/// 4. `stride(i)`, in elements;
/// 5. `data()` or `data_handle()`.
///
/// Alternatively, a specialisation of `tensor_traits`. `std::mdspan` with a strided layout models it. Contiguous ranges
/// and single objects need not: every collective accepts them as tensors of rank 1 and 0.
///
/// Elements may share memory, as those along an axis with stride 0 do, in an input and in place, where they are read
/// before anything is written; an output of such elements is a `bad_argument`.
template <class V>
concept tensor_view =
    detail::has_tensor_traits<std::remove_cvref_t<V>> || detail::has_tensor_members<std::remove_cvref_t<V>>;

/// A view with `Rank` extents and a stride, in elements, for each of them. Non-owning.
///
///     std::vector<float> memory(6);
///     allfold::tensor<float, 2> matrix(memory.data(), {2, 3});              // 2 contiguous rows of 3
///     allfold::tensor<float, 2> transposed(memory.data(), {3, 2}, {1, 3});  // the same elements
///     allfold::tensor<float, 1> column(&matrix(0, 1), {2}, {3});
///
/// `std::mdspan` works as well; see `tensor_view`, and `tensor_traits` for the tensors of other libraries.
template <class T, std::size_t Rank>
class tensor {
  public:
    using element_type = T;
    using extents_type = std::array<std::size_t, Rank>;
    using strides_type = std::array<std::ptrdiff_t, Rank>;

    /// Row-major and contiguous.
    constexpr tensor(T* data, const extents_type& extents) : tensor(data, extents, row_major(extents)) {}
    constexpr tensor(T* data, const extents_type& extents, const strides_type& strides)
        : data_(data), extents_(extents), strides_(strides) {}

    [[nodiscard]] static constexpr std::size_t rank() noexcept { return Rank; }
    [[nodiscard]] constexpr std::size_t extent(std::size_t i) const noexcept { return extents_[i]; }
    [[nodiscard]] constexpr std::ptrdiff_t stride(std::size_t i) const noexcept { return strides_[i]; }
    [[nodiscard]] constexpr T* data() const noexcept { return data_; }

    [[nodiscard]] constexpr T& operator()(std::convertible_to<std::size_t> auto... index) const noexcept
        requires(sizeof...(index) == Rank)
    {
        std::size_t axis = 0;
        std::ptrdiff_t offset = 0;
        ((offset += static_cast<std::ptrdiff_t>(index) * strides_[axis++]), ...);
        return data_[offset];
    }

  private:
    [[nodiscard]] static constexpr strides_type row_major(const extents_type& extents) noexcept {
        strides_type strides{};
        std::ptrdiff_t step = 1;
        for (std::size_t i = Rank; i-- > 0; step *= static_cast<std::ptrdiff_t>(extents[i])) strides[i] = step;
        return strides;
    }

    T* data_;
    extents_type extents_;
    strides_type strides_;
};

namespace detail {

template <class X>
inline constexpr bool is_string = false;
template <class C, class Traits, class Allocator>
inline constexpr bool is_string<std::basic_string<C, Traits, Allocator>> = true;

/// What a range's iterators refer to. (This needs only the part of the standard ranges that `<iterator>` has:
/// `<ranges>` takes longer to compile than a collective.)
template <class X>
using range_reference = std::iter_reference_t<decltype(std::ranges::begin(std::declval<X&>()))>;
template <class X>
using range_element = std::iter_value_t<decltype(std::ranges::begin(std::declval<X&>()))>;

/// A contiguous range of elements; a string is one value, not a range of characters.
template <class X>
concept element_range = requires(std::remove_reference_t<X>& x) {
    { std::ranges::begin(x) } -> std::contiguous_iterator;
    std::ranges::end(x);
    { std::ranges::size(x) } -> std::integral;
} && !is_string<std::remove_cvref_t<X>> && !tensor_view<X>;

/// A range that counts as a single object because its elements are not contiguous.
template <class X>
concept scattered_range = requires { typename range_element<std::remove_cvref_t<X>>; } && !element_range<X> &&
                          !tensor_view<X> && !is_string<std::remove_cvref_t<X>>;

/// Rejects such a range where its elements are meant.
template <class X>
[[nodiscard]] consteval bool require_contiguous() {
    constexpr bool is_contiguous = !scattered_range<X>;
    static_assert(is_contiguous,
                  "allfold: the elements of this range are not contiguous in memory: copy them to a std::vector, of "
                  "char if they are bools");
    return is_contiguous;
}

/// Whether X is a tensor view or a contiguous range; if not, a one-line compile error says what to write.
template <class X>
[[nodiscard]] consteval bool require_tensor() {
    constexpr bool is_contiguous = require_contiguous<X>();
    constexpr bool is_tensor = !is_contiguous || tensor_view<X> || element_range<X>;
    static_assert(is_tensor,
                  "allfold: this argument is neither a contiguous range nor a tensor view: pass a single element as "
                  "std::span(&x, 1)");
    return is_contiguous && is_tensor;
}

/// The type of the elements of a tensor view or range, const if they are. That of what is neither, or not contiguous,
/// is one with which `require_tensor` gives the only compile error.
template <class X>
struct element_type_of {
    using type = std::remove_cvref_t<X>;
};
template <scattered_range X>
struct element_type_of<X> {
    using type = range_element<std::remove_reference_t<X>>;
};
template <element_range X>
struct element_type_of<X> {
    using type = std::remove_reference_t<range_reference<std::remove_reference_t<X>>>;
};
template <tensor_view X>
struct element_type_of<X> {
    using type = typename tensor_access<std::remove_cvref_t<X>>::element_type;
};

/// The number of elements of a tensor view.
template <tensor_view V>
[[nodiscard]] constexpr std::size_t count_of(const V& v) {
    using access = tensor_access<std::remove_cvref_t<V>>;
    std::size_t count = 1;
    for (std::size_t i = 0; i < access::rank; ++i) count *= access::extent(v, i);
    return count;
}

/// Whether the elements are contiguous in row-major order.
template <tensor_view V>
[[nodiscard]] constexpr bool is_contiguous(const V& v) {
    using access = tensor_access<std::remove_cvref_t<V>>;
    std::ptrdiff_t step = 1;
    for (std::size_t i = access::rank; i-- > 0;) {
        const std::size_t extent = access::extent(v, i);
        if (extent == 0) return true;
        if (extent != 1 && access::stride(v, i) != step) return false;
        step *= static_cast<std::ptrdiff_t>(extent);
    }
    return true;
}

/// The number of leading axes that do not collapse into contiguous runs.
template <tensor_view V>
[[nodiscard]] constexpr std::size_t outer_axes(const V& v) {
    using access = tensor_access<std::remove_cvref_t<V>>;
    std::size_t run = 1, outer = access::rank;
    for (; outer > 0; --outer) {
        const std::size_t extent = access::extent(v, outer - 1);
        if (extent != 1 && access::stride(v, outer - 1) != static_cast<std::ptrdiff_t>(run)) break;
        run *= extent;
    }
    return outer;
}
/// The number of elements in one contiguous run.
template <tensor_view V>
[[nodiscard]] constexpr std::size_t run_length(const V& v) {
    using access = tensor_access<std::remove_cvref_t<V>>;
    std::size_t run = 1;
    for (std::size_t i = detail::outer_axes(v); i < access::rank; ++i) run *= access::extent(v, i);
    return run;
}

/// Calls visit(first, count) for each contiguous run of elements, in row-major order.
template <tensor_view V, class Visit>
constexpr void for_each_run(const V& v, Visit visit) {
    using access = tensor_access<std::remove_cvref_t<V>>;
    if (detail::count_of(v) == 0) return;
    const std::size_t run = detail::run_length(v), outer = detail::outer_axes(v);
    std::array<std::size_t, access::rank> index{};
    auto* at = access::data(v);
    for (std::size_t left = detail::count_of(v) / run; left > 0; --left) {
        visit(at, run);
        for (std::size_t i = outer; i-- > 0;) {
            at += access::stride(v, i);
            if (++index[i] < access::extent(v, i)) break;
            at -= access::stride(v, i) * static_cast<std::ptrdiff_t>(index[i]);
            index[i] = 0;
        }
    }
}

/// Whether the strides are nested, which guarantees that no two elements share memory.
template <tensor_view V>
[[nodiscard]] constexpr bool is_nested(const V& v) {
    using access = tensor_access<std::remove_cvref_t<V>>;
    for (std::size_t i = 0; i < access::rank; ++i) {
        std::size_t inside = 1;  // the extent covered by the axes with smaller strides
        const auto size_of = [&v](std::size_t axis) {
            const std::ptrdiff_t stride = access::stride(v, axis);
            return static_cast<std::size_t>(stride < 0 ? -stride : stride);
        };
        for (std::size_t j = 0; j < access::rank; ++j)
            if (j != i && access::extent(v, j) > 1 && (size_of(j) < size_of(i) || (size_of(j) == size_of(i) && j < i)))
                inside += (access::extent(v, j) - 1) * size_of(j);
        if (access::extent(v, i) > 1 && size_of(i) < inside) return false;
    }
    return true;
}

/// Calls visit(element) for every element in row-major order.
template <tensor_view V, class Visit>
constexpr void for_each_element(const V& v, Visit visit) {
    using access = tensor_access<std::remove_cvref_t<V>>;
    std::array<std::size_t, access::rank> index{};
    auto* at = access::data(v);
    for (std::size_t left = detail::count_of(v); left > 0; --left) {
        visit(*at);
        for (std::size_t i = access::rank; i-- > 0;) {
            at += access::stride(v, i);
            if (++index[i] < access::extent(v, i)) break;
            at -= access::stride(v, i) * static_cast<std::ptrdiff_t>(index[i]);
            index[i] = 0;
        }
    }
}

}  // namespace detail
}  // namespace allfold
