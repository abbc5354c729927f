// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <cstddef>

/// @file
/// The loop out[i] = f(a[i], b[i]), written so that compilers vectorise it even when it runs in place.

namespace allfold::detail {

/// What f may touch besides its operands: anything, in which case its calls stay in order, or nothing.
enum class touches { anything, nothing };

/// Computes out[i] = f(a[i], b[i]). `out` may be `a` or `b`, but must not overlap them in any other way.
///
/// If `out` is one of the operands, the loop reads that operand through `out` itself, because clang enters its
/// vectorised loop only if no operand overlaps the output: otherwise an in-place merge of 64 floats takes 40 ns instead
/// of 15. With `touches::nothing`, g++ vectorises at -O2 too (20 ns instead of 42), and does better still on blocks of
/// a length known at compile time: merging rows of three tensors on a Xeon, combined with the technique described in
/// `row_table.hpp`, takes 12 ns instead of 29, and 6.7 instead of 10.8 at -O3. For a function with state, that promise
/// miscompiles (a histogram counted one call in eight). clang's counterpart of the pragma is not used, because it
/// warns users about every loop that clang cannot vectorise.
template <touches What, class T, class F>
void elementwise(const T* a, const T* b, T* out, std::size_t count, F f) {
    const auto loop = [count, &f, out](const T* x, const T* y) {
#if defined(__GNUC__) && !defined(__clang__)
        if constexpr (What == touches::nothing) {
            constexpr std::size_t block = 64;
            std::size_t i = 0;
            for (; i + block <= count; i += block) {
#pragma GCC ivdep
                for (std::size_t j = i; j < i + block; ++j) out[j] = f(x[j], y[j]);
            }
#pragma GCC ivdep
            for (; i < count; ++i) out[i] = f(x[i], y[i]);
            return;
        }
#endif
        for (std::size_t i = 0; i < count; ++i) out[i] = f(x[i], y[i]);
    };
    if (a == out)
        loop(out, b);
    else if (b == out)
        loop(a, out);
    else
        loop(a, b);
}

}  // namespace allfold::detail
