// SPDX-License-Identifier: BSL-1.0
#pragma once

/// @file
/// Whether a message is likely to have arrived before its receive starts.

namespace allfold::detail {

/// Guesses from the last few looks whether the next one will find something, and tries again now and then.
class guess {
  public:
    [[nodiscard]] bool is_likely() noexcept {
        if (misses_ < few) return true;
        ++misses_;
        return misses_ == again;
    }
    void note(bool found) noexcept { misses_ = found ? 0 : misses_ < few ? misses_ + 1 : few; }

  private:
    static constexpr int few = 4, again = 32;
    int misses_ = 0;
};

}  // namespace allfold::detail
