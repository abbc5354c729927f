// SPDX-License-Identifier: BSL-1.0
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "examples/attention/half.hpp"
#include "test/support/catch.hpp"

namespace {

constexpr int patterns = 65536;
constexpr std::uint16_t infinity = 0x7c00;

/// The value of a bit pattern, straight from the definition of the format.
double meaning(int bits) {
    const int exponent = (bits >> 10) & 0x1f, mantissa = bits & 0x3ff;
    const double sign = bits & 0x8000 ? -1.0 : 1.0;
    if (exponent == 31) return mantissa ? std::nan("") : sign * std::numeric_limits<double>::infinity();
    if (exponent == 0) return sign * std::ldexp(mantissa, -24);
    return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

bool is_nan(int bits) { return (bits & 0x7fff) > infinity; }

static_assert(half::to_float(0x3c00) == 1.0F);
static_assert(half::from_float(-2.0F) == 0xc000);

}  // namespace

TEST_CASE("every half has the value that its format defines") {
    int wrong = 0;
    for (int bits = 0; bits < patterns; ++bits) {
        const float value = half::to_float(static_cast<std::uint16_t>(bits));
        const bool same = is_nan(bits) ? std::isnan(value) : static_cast<double>(value) == meaning(bits);
        const bool same_sign = std::signbit(value) == ((bits & 0x8000) != 0);
        wrong += !(same && same_sign);
    }
    CHECK(wrong == 0);
}

TEST_CASE("every half comes back from float with the same bits, NaN payloads included") {
    int wrong = 0;
    for (int bits = 0; bits < patterns; ++bits) {
        const auto pattern = static_cast<std::uint16_t>(bits);
        wrong += half::from_float(half::to_float(pattern)) != pattern;
    }
    CHECK(wrong == 0);
}

TEST_CASE("a float between two halves becomes the nearer one, at the middle the even one") {
    int wrong = 0;
    for (std::uint16_t low = 0; low < infinity; ++low) {
        const auto high = static_cast<std::uint16_t>(low + 1);
        // Beyond the largest half the next step would be 65536, which stands for infinity.
        const double above = high == infinity ? 65536.0 : meaning(high);
        const auto middle = static_cast<float>((meaning(low) + above) / 2);
        const std::uint16_t even = low % 2 == 0 ? low : high;
        for (const std::uint16_t sign : {std::uint16_t{0}, std::uint16_t{0x8000}}) {
            const auto rounded = [sign](float value) { return half::from_float(sign ? -value : value) ^ sign; };
            wrong += rounded(middle) != even;
            wrong += rounded(std::nextafter(middle, 0.0F)) != low;
            wrong += rounded(std::nextafter(middle, 1e9F)) != high;
        }
    }
    CHECK(wrong == 0);
}

TEST_CASE("floats beyond the range of a half become infinity and zero with their sign") {
    CHECK(half::from_float(1e30F) == infinity);
    CHECK(half::from_float(-1e30F) == (infinity | 0x8000));
    CHECK(half::from_float(std::numeric_limits<float>::infinity()) == infinity);
    CHECK(half::from_float(std::numeric_limits<float>::denorm_min()) == 0);
    CHECK(half::from_float(-1e-30F) == 0x8000);
}

TEST_CASE("a NaN whose payload is only in the bits that a half lacks stays a NaN") {
    CHECK(is_nan(half::from_float(std::bit_cast<float>(0x7f800001u))));
    CHECK(is_nan(half::from_float(std::bit_cast<float>(0xff800001u))));
}
