// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>

/// @file
/// Pseudorandom numbers, the same on every machine.

namespace examples {

/// splitmix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
class numbers {
  public:
    explicit numbers(std::uint64_t seed) : state_(seed) {}

    [[nodiscard]] std::uint64_t next() {
        std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return z ^ (z >> 31);
    }
    /// In [-1, 1).
    [[nodiscard]] float next_float() { return static_cast<float>(next() >> 40) / static_cast<float>(1 << 23) - 1.0F; }

  private:
    std::uint64_t state_;
};

}  // namespace examples
