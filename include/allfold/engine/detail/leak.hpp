// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <new>
#include <utility>

/// @file
/// Leaks, on purpose, memory that a transport may still use after a failure.

namespace allfold::detail {

/// Takes the memory that an object owns away from it, and never frees it.
template <class T>
void leak(T& object) noexcept {
    static_cast<void>(new (std::nothrow) T(std::move(object)));
}

}  // namespace allfold::detail
