// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <new>
#include <utility>

/// @file
/// How memory is kept that a failure leaves in the hands of a transport.

namespace allfold::detail {

/// Takes from an object the memory that it owns, and never frees it.
template <class T>
void leave_behind(T& object) noexcept {
    static_cast<void>(new (std::nothrow) T(std::move(object)));
}

}  // namespace allfold::detail
