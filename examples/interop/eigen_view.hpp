// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <type_traits>

#include <allfold/data/tensor_view.hpp>

/// @file
/// Lets dense Eigen types be arguments of collectives. Copy this file; it is all you need (tried with Eigen 3.4).
///
/// - An expression that refers to memory (Map, Ref, a block, row, column, transpose or diagonal) is an argument as it
///   is.
/// - An object that owns its memory (Matrix, Array) is not: write `eigen_view(m)`. An operation in flight keeps a copy
///   of its view, and the copy of a Matrix is another matrix.
/// - A vector has rank 1, everything else rank 2, rows first. Elements are matched by their indices, so a column-major
///   matrix is packed before the call and unpacked after it. If all ranks use the same storage order, avoid this with
///   `m.reshaped()`, all elements as they lie in memory, or with `m.transpose()`, whose rows are the columns of m.

template <class M>
concept eigen_dense =
    requires(M& m) { []<class D>(Eigen::DenseBase<D>&) {}(m); } && ((M::Flags & Eigen::DirectAccessBit) != 0);
template <class M>
concept eigen_owner = requires(M& m) { []<class D>(Eigen::PlainObjectBase<D>&) {}(m); };
template <class M>
concept eigen_reference = eigen_dense<M> && !eigen_owner<M>;

/// A const block or map may be written to, like a const span; one with const elements has no lvalues.
template <class M>
using eigen_element =
    std::conditional_t<(M::Flags & Eigen::LvalueBit) != 0, typename M::Scalar, const typename M::Scalar>;

template <eigen_reference M>
struct allfold::tensor_traits<M> {
    using element_type = eigen_element<M>;
    static constexpr std::size_t rank = M::IsVectorAtCompileTime ? 1 : 2;
    static std::size_t extent(const M& m, std::size_t i) {
        return static_cast<std::size_t>(rank == 1 ? m.size() : i == 0 ? m.rows() : m.cols());
    }
    static std::ptrdiff_t stride(const M& m, std::size_t i) {
        return rank == 1 ? m.innerStride() : i == 0 ? m.rowStride() : m.colStride();
    }
    static element_type* data(const M& m) { return const_cast<element_type*>(m.data()); }
};

/// A view of the elements of a matrix or array, which must outlive the view.
template <class D>
[[nodiscard]] auto eigen_view(Eigen::PlainObjectBase<D>& m) {
    return Eigen::Map<D>(m.data(), m.rows(), m.cols());
}
template <class D>
[[nodiscard]] auto eigen_view(const Eigen::PlainObjectBase<D>& m) {
    return Eigen::Map<const D>(m.data(), m.rows(), m.cols());
}
template <class D>
void eigen_view(const Eigen::PlainObjectBase<D>&&) = delete;  // it would be gone before it is used
