// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

#include "bench/measure.hpp"
#include "bench/messages.hpp"
#include "bench/stage.hpp"

/// @file
/// What the machine allows for messages: between two ranks that have processors of their own, written by hand. Each
/// message gets from the sender's memory to the receiver's place, and the sender may write its memory again. There is
/// no matching, since both know what comes next and how long it is; and none of tags, types, waiting rooms, errors, or
/// ranks that sleep.

namespace bench {

/// How the bytes of a message get across.
enum class carried {
    in_cells,    ///< in one line with the number that says that they are there, or two
    in_buffers,  ///< copied twice, behind a number
    lent,        ///< the receiver reads the sender's memory, and says so
    lent_halves  ///< the same, and the sender writes the second half where the receiver wants it
};

/// One direction. Messages are numbered from 1.
struct hand_channel {
    static constexpr std::uint32_t places = 64;
    struct alignas(128) cell {
        std::atomic<std::uint32_t> number{0};
        alignas(8) std::array<std::byte, 120> value;
    };
    struct alignas(128) count {
        std::atomic<std::uint32_t> value{0};
    };
    std::array<cell, places> cells;
    count taken, wanted, written;
    void* place = nullptr;  // of the message that is wanted
    std::unique_ptr<std::byte[]> buffers;
};

inline void wait_until(const std::atomic<std::uint32_t>& number, std::uint32_t least) {
    while (static_cast<std::int32_t>(number.load(std::memory_order_acquire) - least) < 0) relax();
}

/// One rank of the two.
class message_hands {
  public:
    message_hands(hand_channel& out, hand_channel& in) : out_(out), in_(in) {}

    template <carried How>
    void post(const void* data, std::size_t bytes) {
        wait_until(out_.taken.value, ++sent_ - hand_channel::places);
        hand_channel::cell& c = out_.cells[sent_ % hand_channel::places];
        if constexpr (How == carried::in_cells) std::memcpy(c.value.data(), data, bytes);
        if constexpr (How == carried::in_buffers) std::memcpy(buffer(out_, sent_, bytes), data, bytes);
        if constexpr (How >= carried::lent) std::memcpy(c.value.data(), &data, sizeof data);
        c.number.store(sent_, std::memory_order_release);
    }
    template <carried How>
    void take(void* place, std::size_t bytes) {
        ++received_;
        if constexpr (How == carried::lent_halves) {
            in_.place = place;
            in_.wanted.value.store(received_, std::memory_order_release);
        }
        const hand_channel::cell& c = in_.cells[received_ % hand_channel::places];
        wait_until(c.number, received_);
        if constexpr (How == carried::in_cells) {
            std::memcpy(place, c.value.data(), bytes);
        } else if constexpr (How == carried::in_buffers) {
            std::memcpy(place, buffer(in_, received_, bytes), bytes);
        } else {
            const void* from = nullptr;
            std::memcpy(&from, c.value.data(), sizeof from);
            std::memcpy(place, from, How == carried::lent ? bytes : bytes / 2);
        }
        in_.taken.value.store(received_, std::memory_order_release);
        if constexpr (How == carried::lent_halves) wait_until(in_.written.value, received_);
    }
    /// The memory of what has been posted may be written again.
    template <carried How>
    void finish(const void* latest, std::size_t bytes) {
        if constexpr (How == carried::lent_halves) {
            wait_until(out_.wanted.value, sent_);
            std::memcpy(static_cast<std::byte*>(out_.place) + bytes / 2,
                        static_cast<const std::byte*>(latest) + bytes / 2, bytes - bytes / 2);
            out_.written.value.store(sent_, std::memory_order_release);
        }
        if constexpr (How >= carried::lent) wait_until(out_.taken.value, sent_);
    }

  private:
    [[nodiscard]] static std::byte* buffer(hand_channel& c, std::uint32_t number, std::size_t bytes) {
        return c.buffers.get() + number % hand_channel::places * bytes;
    }
    hand_channel& out_;
    hand_channel& in_;
    std::uint32_t sent_ = 0, received_ = 0;
};

/// What two ranks share.
struct message_board {
    std::array<hand_channel, 2> to;

    explicit message_board(std::size_t buffered_bytes) {
        for (hand_channel& each : to)
            each.buffers = std::make_unique<std::byte[]>(hand_channel::places * buffered_bytes);
    }
    [[nodiscard]] message_hands hands(int rank) {
        return {to[static_cast<std::size_t>(1 - rank)], to[static_cast<std::size_t>(rank)]};
    }
};

namespace by_hand {

template <carried How>
void ping_pong(message_hands& hands, int rank, std::span<const float> input, std::span<float> output) {
    const auto send = [&] {
        hands.post<How>(input.data(), input.size_bytes());
        hands.finish<How>(input.data(), input.size_bytes());
    };
    if (rank == 0) send();
    hands.take<How>(output.data(), output.size_bytes());
    if (rank != 0) send();
}
template <carried How>
void message_rate(message_hands& hands, const auto& inputs, const auto& outputs) {
    for (const auto& each : inputs) hands.post<How>(each.data(), each.size_bytes());
    for (const auto& each : outputs) hands.take<How>(each.data(), each.size_bytes());
    hands.finish<How>(nullptr, 0);
}
/// A face of a rank that is its own neighbour is copied.
template <carried How>
void halo(message_hands& hands, int rank, const neighbours& around, std::span<const float> input,
          std::span<float> output) {
    for (std::size_t face = 0; face < faces_of_a_cube; ++face)
        if (const auto from = face_of(input, face); around[face] != rank)
            hands.post<How>(from.data(), from.size_bytes());
    for (std::size_t face = 0; face < faces_of_a_cube; ++face) {
        const auto from = face_of(input, face);
        const auto place = face_of(output, opposite_of(face));
        if (around[face] == rank)
            std::memcpy(place.data(), from.data(), from.size_bytes());
        else
            hands.take<How>(place.data(), place.size_bytes());
    }
    hands.finish<How>(nullptr, 0);
}

}  // namespace by_hand
}  // namespace bench
