// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "allfold/algebra/operator.hpp"
#include "allfold/algebra/stretch.hpp"

/// @file
/// Operators made of callbacks that fold into their second operand.

namespace allfold {
namespace detail {

/// Scratch for rows that a callback cannot write to their destination, at least as strictly aligned as any memory that
/// it is given.
template <class T>
class row_buffer {
  public:
    static constexpr std::size_t alignment = std::max<std::size_t>(64, alignof(T));

    explicit row_buffer(std::size_t row_bytes) {
        if (row_bytes > sizeof nearby_) far_.reset(::operator new(row_bytes, std::align_val_t{alignment}));
        rows_ = far_ || row_bytes == 0 ? 1 : sizeof nearby_ / row_bytes;
    }
    [[nodiscard]] std::size_t rows() const noexcept { return rows_; }
    [[nodiscard]] T* data() noexcept { return static_cast<T*>(far_ ? far_.get() : nearby_); }

  private:
    struct release {
        void operator()(void* memory) const noexcept { ::operator delete(memory, std::align_val_t{alignment}); }
    };
    alignas(alignment) std::byte nearby_[4096];
    std::unique_ptr<void, release> far_;
    std::size_t rows_;
};

template <class F>
struct in_out_operator : as_base<F> {
    template <class T>
        requires(std::is_trivially_copyable_v<T> &&
                 requires(const as_base<F>& f, stretch<const T> in, stretch<T> in_out) { f(in, in_out); })
    void operator()(stretch<const T> left, stretch<const T> right, stretch<T> out) const {
        const as_base<F>& f = *this;
        if (out.data() == left.data()) return fold_through_buffer<T>(left, right, out);
        copy<T>(right, out);
        f(left, out);
    }

  private:
    template <class T>
    static void copy(stretch<const T> from, stretch<T> to) {
        if (from.data() != to.data() && from.size() != 0) std::memcpy(to.data(), from.data(), from.size() * sizeof(T));
    }
    /// The result goes where the left operand is, which is read until the end.
    template <class T>
    void fold_through_buffer(stretch<const T> left, stretch<const T> right, stretch<T> out) const {
        const as_base<F>& f = *this;
        const std::size_t length = out.row_length();
        row_buffer<T> memory(length * sizeof(T));
        for (std::size_t done = 0, count = 0; done < out.rows(); done += count) {
            count = std::min(memory.rows(), out.rows() - done);
            const std::size_t at = done * length;
            const stretch<T> buffer(memory.data(), count, length);
            copy<T>({right.data() + at, count, length}, buffer);
            f(stretch<const T>(left.data() + at, count, length), buffer);
            copy<T>(buffer, {out.data() + at, count, length});
        }
    }
};

}  // namespace detail

/// An operator on stretches made of `f(in, in_out)`, which writes in ∘ in_out to in_out, row by row, as the callbacks
/// of MPI and of many C interfaces do. Elements must be trivially copyable; `in_out` always satisfies their alignment.
/// Laws are declared around it:
///
///     const auto op = commutative_if(flag, in_out([=](stretch<const std::byte> in, stretch<std::byte> in_out) {
///         int count = static_cast<int>(in.rows());
///         callback(in.data(), in_out.data(), &count, context);
///     }));
///     all_reduce(comm, raw_rows(data, count, size, alignment), op);
///
/// If the result overwrites the left operand, or neither, the right operand is copied first. This costs about as much
/// as an in-cache copy of the same number of bytes.
template <class F>
[[nodiscard]] constexpr auto in_out(F f) {
    return detail::in_out_operator<F>{{std::move(f)}};
}

}  // namespace allfold
