// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>

/// @file
/// How much a rank may send to another one, and that one has to hold until somebody receives it.

namespace allfold::detail {

/// What two ranks owe each other, as one of them knows it. Both count in units, from the first message on; each message
/// tells how many its sender has let go of.
class credit {
  public:
    static constexpr std::uint32_t unit = 64, most_held = 4096;  // 256 KiB of each rank
    static constexpr std::size_t longest_message = std::size_t{unit} * most_held / 4;

    /// Whether the other one has room for so many bytes more; of `units` in all.
    [[nodiscard]] bool has_room(std::size_t bytes, std::uint32_t units = most_held) const noexcept {
        return sent_ - heard_ + units_of(bytes) <= units;
    }
    void note_sent(std::size_t bytes) noexcept { sent_ += units_of(bytes); }
    void note_withdrawn(std::size_t bytes) noexcept { sent_ -= units_of(bytes); }
    /// What the other one has told.
    void hear(std::uint16_t freed) noexcept {
        heard_ += static_cast<std::uint16_t>(freed - static_cast<std::uint16_t>(heard_));
    }

    /// This rank has let go of a message of the other one; true if that one should hear of it soon.
    [[nodiscard]] bool free(std::size_t bytes) noexcept {
        freed_ += units_of(bytes);
        if (freed_ - told_ < most_held / 4) return false;
        note_told();
        return true;
    }
    /// What is told, modulo 2^16.
    [[nodiscard]] std::uint16_t freed() const noexcept { return static_cast<std::uint16_t>(freed_); }
    void note_told() noexcept { told_ = freed_; }

  private:
    [[nodiscard]] static std::uint32_t units_of(std::size_t bytes) noexcept {
        return 1 + static_cast<std::uint32_t>((bytes + unit - 1) / unit);
    }
    std::uint32_t sent_ = 0, heard_ = 0, freed_ = 0, told_ = 0;
};

}  // namespace allfold::detail
