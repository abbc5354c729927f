// SPDX-License-Identifier: BSL-1.0
/// @file
/// A view class of another library needs only one specialisation of tensor_traits. This one looks like Kokkos::View:
/// layouts are types, the object knows its strides, and a subview refers to the memory of the whole.
#include <array>
#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <allfold/allfold.hpp>

namespace theirs {

struct LayoutLeft {};   // the first index is contiguous
struct LayoutRight {};  // the last index is contiguous
struct LayoutStride {};

/// Has two extents, and no memory of its own.
template <class T, class Layout>
class View {
  public:
    using value_type = T;
    using array_layout = Layout;
    static constexpr std::size_t rank = 2;

    View(T* data, std::size_t rows, std::size_t columns)
        requires(!std::same_as<Layout, LayoutStride>)
        : data_(data), extents_{rows, columns}, strides_{columns, 1} {
        if constexpr (std::same_as<Layout, LayoutLeft>) strides_ = {1, rows};
    }
    View(T* data, std::array<std::size_t, 2> extents, std::array<std::size_t, 2> strides)
        requires std::same_as<Layout, LayoutStride>
        : data_(data), extents_(extents), strides_(strides) {}

    T* data() const { return data_; }
    std::size_t extent(std::size_t i) const { return extents_[i]; }
    std::size_t stride(std::size_t i) const { return strides_[i]; }
    T& operator()(std::size_t i, std::size_t j) const { return data_[i * strides_[0] + j * strides_[1]]; }

  private:
    T* data_;
    std::array<std::size_t, 2> extents_;
    std::array<std::size_t, 2> strides_;
};

/// Two rows and two columns of a view, starting at (i, j).
template <class T, class Layout>
View<T, LayoutStride> subview(const View<T, Layout>& v, std::size_t i, std::size_t j) {
    return {&v(i, j), {2, 2}, {v.stride(0), v.stride(1)}};
}

}  // namespace theirs

/// This is all that you have to write. The same lines work for Kokkos::View in host space (tried with Kokkos 3.4.1 and
/// 4.6.99).
template <class V>
    requires requires { typename V::array_layout; }
struct allfold::tensor_traits<V> {
    using element_type = typename V::value_type;
    static constexpr std::size_t rank = V::rank;
    static std::size_t extent(const V& v, std::size_t i) { return v.extent(i); }
    static std::ptrdiff_t stride(const V& v, std::size_t i) { return static_cast<std::ptrdiff_t>(v.stride(i)); }
    static element_type* data(const V& v) { return v.data(); }
};

int main() {
    constexpr int ranks = 3;
    std::atomic<int> right = 0;
    allfold::run(ranks, [&](auto& comm) {
        std::vector<int> cells(12, 7);
        const theirs::View<int, theirs::LayoutLeft> matrix(cells.data(), 3, 4);
        const auto part = theirs::subview(matrix, 1, 1);
        part(0, 0) = comm.rank(), part(0, 1) = 1, part(1, 0) = 2, part(1, 1) = 3;
        allfold::all_reduce(comm, part, allfold::sum{});  // in place; the rest of the matrix is unchanged

        const std::vector<int> in{0, 1, 2, 3};
        std::vector<int> out(4);  // layouts may differ: elements are matched by their indices
        allfold::all_reduce(comm, theirs::View<const int, theirs::LayoutLeft>(in.data(), 2, 2),
                            theirs::View<int, theirs::LayoutRight>(out.data(), 2, 2), allfold::sum{});

        const bool good = cells == std::vector{7, 7, 7, 7, 3, 6, 7, 3, 9, 7, 7, 7} && out == std::vector{0, 6, 3, 9};
        if (good) ++right;
    });
    std::printf("interop/kokkos_like: %d of %d ranks hold what they should\n", right.load(), ranks);
    return right == ranks ? EXIT_SUCCESS : EXIT_FAILURE;
}
