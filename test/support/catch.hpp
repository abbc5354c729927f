// SPDX-License-Identifier: BSL-1.0
#pragma once

/// @file
/// Catch2, whichever of versions 2 and 3 is installed. Tests use version 3's names.

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#else
#include <catch2/catch.hpp>
#include <string>

namespace Catch {

using Detail::Approx;

namespace Matchers {
inline auto ContainsSubstring(const std::string& text) { return Contains(text); }
}  // namespace Matchers

}  // namespace Catch
#endif
