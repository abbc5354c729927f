// SPDX-License-Identifier: BSL-1.0
#pragma once

namespace test {

/// A number of repetitions, or of elements: the second one with sanitizers, under which a test takes ten times as long.
/// They find a fault in what few elements run through as well; what comes out is checked by other builds.
template <class T>
constexpr T fewer_if_sanitized([[maybe_unused]] T all, [[maybe_unused]] T fewer) {
#ifdef ALLFOLD_TEST_SANITIZED
    return fewer;
#else
    return all;
#endif
}

}  // namespace test
