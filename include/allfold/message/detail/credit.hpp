// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>

/// @file
/// How much a rank may send to another one, which has to hold it until it is received.

namespace allfold::detail {

/// The mutual credit of two ranks, as one of them knows it. Both count units from the first message on; each message
/// reports how many its sender has released.
class credit {
  public:
    static constexpr std::uint32_t unit = 64, max_held = 4096;  // 256 KiB from each rank
    static constexpr std::size_t longest_message = std::size_t{unit} * max_held / 4;

    /// Whether the other rank has room for that many more bytes, out of `units` in all.
    [[nodiscard]] bool has_room(std::size_t bytes, std::uint32_t units = max_held) const noexcept {
        return sent_ - acknowledged_ + units_of(bytes) <= units;
    }
    void note_sent(std::size_t bytes) noexcept { sent_ += units_of(bytes); }
    void note_withdrawn(std::size_t bytes) noexcept { sent_ -= units_of(bytes); }
    /// Takes in the count that the other rank has reported.
    void note_freed(std::uint16_t freed) noexcept {
        acknowledged_ += static_cast<std::uint16_t>(freed - static_cast<std::uint16_t>(acknowledged_));
    }

    /// This rank has released a message from the other rank; true if the other rank should be told soon.
    [[nodiscard]] bool free(std::size_t bytes) noexcept {
        freed_ += units_of(bytes);
        if (freed_ - reported_ < max_held / 4) return false;
        note_reported();
        return true;
    }
    /// The count to report, modulo 2^16.
    [[nodiscard]] std::uint16_t freed() const noexcept { return static_cast<std::uint16_t>(freed_); }
    void note_reported() noexcept {
        if (reported_ != freed_) reported_ = freed_;
    }

  private:
    [[nodiscard]] static std::uint32_t units_of(std::size_t bytes) noexcept {
        return 1 + static_cast<std::uint32_t>((bytes + unit - 1) / unit);
    }
    std::uint32_t sent_ = 0, acknowledged_ = 0, freed_ = 0, reported_ = 0;
};

/// Between threads, messages up to this length are held too, as long as little is held, although they could be read
/// where they are: a rank copies one message while its peer copies another. Relative to reading them, of 8 and of 16
/// KiB: a Xeon (Granite Rapids), a ping-pong takes 0.57x and 0.67x the time, a halo of six faces 0.71x, 64 messages
/// each way 1.02x and 1.2x. AMD Zen 5, two cores near each other: 0.56x and 0.75x, 0.78x and 0.85x, 64 messages of 16
/// KiB 1.03x; far apart: 0.88x and 0.87x, 0.87x and 0.97x, 64 messages 1.0x, but up to 5x if as much is held as between
/// near cores.
inline constexpr std::size_t longest_held = 16 << 10;
inline constexpr std::uint32_t units_held_near = credit::max_held * 3 / 8, units_held_far = credit::max_held / 8;

}  // namespace allfold::detail
