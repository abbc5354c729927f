// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <bit>
#include <cstdint>

/// @file
/// IEEE 754 half precision in software: 1 sign, 5 exponent and 10 mantissa bits, held in a `std::uint16_t`.

namespace half {

/// The float of the same value. Exact for every bit pattern; a NaN keeps its sign and payload.
[[nodiscard]] constexpr float to_float(std::uint16_t bits) noexcept {
    const std::uint32_t sign = (bits & 0x8000u) << 16;
    const std::uint32_t exponent = (bits >> 10) & 0x1fu;
    const std::uint32_t mantissa = bits & 0x3ffu;
    if (exponent == 0) {  // zero or subnormal: a multiple of 2^-24, which a float holds as a normal number
        const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
        return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
    }
    const std::uint32_t widened = exponent == 0x1fu ? 0xffu : exponent + (127 - 15);
    return std::bit_cast<float>(sign | widened << 23 | mantissa << 13);
}

/// The nearest half, ties to even; values that are too large become infinity. A NaN keeps its sign and the upper part
/// of its payload.
[[nodiscard]] constexpr std::uint16_t from_float(float value) noexcept {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = (bits >> 16) & 0x8000u;
    const std::uint32_t magnitude = bits & 0x7fffffffu;
    const auto with_sign = [sign](std::uint32_t half) { return static_cast<std::uint16_t>(sign | half); };

    if (magnitude > 0x7f800000u) {  // a payload that is only in the lower bits must not become infinity
        const std::uint32_t payload = (magnitude >> 13) & 0x3ffu;
        return with_sign(0x7c00u | (payload ? payload : 0x200u));
    }
    if (magnitude >= 0x477ff000u) return with_sign(0x7c00u);  // from 65520 on, half way to the next power of two
    if (magnitude < 0x38800000u) {                            // below 2^-14: subnormal
        // Adding 0.5 leaves the multiple of 2^-24, rounded to nearest even, in the lowest bits of the sum.
        const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
        return with_sign(std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(0.5f));
    }
    const std::uint32_t odd = (magnitude >> 13) & 1u;
    const std::uint32_t rounded = magnitude + 0xfffu + odd;  // a carry out of the mantissa rightly raises the exponent
    return with_sign((rounded >> 13) - ((127u - 15u) << 10));
}

}  // namespace half
