// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstring>
#include <exception>
#include <span>

#include "allfold/message/detail/matching.hpp"
#include "allfold/message/detail/message_data.hpp"
#include "allfold/message/detail/message_head.hpp"
#include "allfold/message/detail/sending.hpp"
#include "allfold/message/detail/shared_copy.hpp"
#include "allfold/transport/detail/stream.hpp"

/// @file
/// Messages that the receiver reads straight from the sender's memory, between ranks that share memory.

namespace allfold::detail {

/// How a rank reads another rank's data in place, if it can. A rank that abandons the communicator waits for everyone
/// who is reading; `begin` throws if a rank has abandoned it.
struct direct_read {
    void* communicator = nullptr;
    void (*begin)(void*) = nullptr;
    void (*end)(void*) noexcept = nullptr;
};
/// Longer messages are read in the sender's memory: one copy rather than two, but at the price of an answer. Two cores
/// near each other, relative to copies up to 32 KiB and to three messages beyond: a ping-pong of 6 KiB takes 0.93x the
/// time, 8 KiB 0.71x, 16 KiB 0.53x, 64 KiB 0.86x; 64 messages each way of 8 KiB 0.70x, of 16 KiB 0.36x, of 64 KiB 0.7x;
/// halos of six faces of 4, 6, 8, 16 and 256 KiB 1.18x, 1.12x, 1.03x, 0.88x, 0.85x. A ping-pong of 4 KiB takes 1.16x.
inline constexpr std::size_t longest_copied = 6 << 10;
/// The same limit for a send that waits for confirmation that it has been received, which also confirms that it has
/// been read. A Xeon (Granite Rapids), ping-pong with copies instead: 8 bytes take 0.79x the time, 64 bytes 0.93x, 256
/// bytes 0.98x, 512 bytes 1.04x, 4 KiB 1.07x, 16 KiB 1.46x.
inline constexpr std::size_t longest_copied_synchronous = 256;
/// Up to this length a distant core reads a copy made with streaming (non-temporal) stores instead
/// (transport/detail/distance.hpp). AMD Zen 4: a ping-pong of 8 KiB takes 0.8x the time, 16 KiB 0.7x, 64 KiB and 512
/// KiB 0.6x, 4 MiB 0.75x; a halo of six faces of 8 to 256 KiB 0.8x to 0.55x; 64 messages each way of 8 KiB 0.85x to
/// 1.25x, of 16 to 64 KiB 0.6x to 0.9x.
inline constexpr std::size_t longest_staged = std::size_t{4} << 20;

/// Puts the received data of a message into its destination buffer. `streams`: with streaming stores.
inline void put_in_place(receiving& r, const std::byte* from_place, std::size_t bytes, bool streams) noexcept {
    const std::size_t elements = r.found.elements;
    const message_type& type = *r.place.type;
    if (elements == 0 || from_place == r.place.data) return;
    try {
        if (type.is_encoded())
            type.decode({from_place, bytes}, r.place.data, elements);
        else if (type.assign != nullptr)
            type.assign(r.place.data, from_place, elements);
        else if (streams)
            stream_or_move(r.place.data, from_place, bytes);
        else
            std::memmove(r.place.data, from_place, bytes);
    } catch (...) {  // decoding and assigning run the caller's code
        r.failure = std::current_exception();
    }
}

/// What a rank reads from others in this way, and they from it.
class direct_reader {
  public:
    direct_reader(int rank, const direct_read& how) noexcept : rank_(rank), how_(how) {}
    direct_reader(const direct_reader&) = delete;
    direct_reader& operator=(const direct_reader&) = delete;

    [[nodiscard]] bool is_possible() const noexcept { return how_.begin != nullptr; }
    [[nodiscard]] bool reaches(int peer) const noexcept { return is_possible() && peer != rank_; }

    // The sender

    /// Sets where its receiver reads it. `is_far(bytes)`: whether the receiver's core is far away, and that much data
    /// is in a cache there or here. (A halo of six faces of 4 MiB, eight ranks on two cores, takes 0.33x the time of
    /// one that stages what exceeds the caches: then a line arrives slowly from a near core too, and the copies are
    /// long.)
    template <class IsFar>
    void offer(sending& s, IsFar is_far) {
        const std::size_t bytes = s.data.bytes();
        const bool stages = s.data.type->assign == nullptr && bytes <= longest_staged && is_far(bytes);
        std::byte* const data = stages ? s.stage() : s.data.data;
        s.read_from = data;
        if (!is_copied_by_both(s.receiver, *s.data.type, bytes)) return;
        s.copying.offer(data, bytes, stages ? nullptr : &to_help_);
        s.read_from = reinterpret_cast<std::byte*>(&s.copying);
    }
    /// Called by a waiting rank: if another rank is reading one of its sends, helps it copy.
    void help() noexcept {
        if (helps_) to_help_.help();
    }
    /// The rank abandons its communicator: a rank that still reads one of its sends may call for help, and the send may
    /// be gone by then.
    void help_no_more() noexcept { helps_ = false; }
    void withdraw(sending& s) noexcept { to_help_.withdraw(s.copying); }

    // The receiver

    /// Whether what followed the head of a message is the address of its data.
    [[nodiscard]] bool has_address(const message_head& head, std::span<const std::byte> rest) const noexcept {
        return is_possible() && head.what == message_head::kind::request && !head.is_encoded() && !rest.empty();
    }
    [[nodiscard]] static std::byte* address_in(std::span<const std::byte> rest) noexcept {
        std::byte* there = nullptr;
        std::memcpy(&there, rest.data(), sizeof there);
        return there;
    }
    void read(receiving& r, int source, std::byte* there, bool streams) const {
        const std::size_t bytes = r.found.elements * r.place.type->element_bytes;
        how_.begin(how_.communicator);
        if (is_copied_by_both(source, *r.place.type, bytes))
            reinterpret_cast<shared_copy*>(there)->copy_to(r.place.data, streams);
        else
            put_in_place(r, there, bytes, streams);
        how_.end(how_.communicator);
    }

  private:
    [[nodiscard]] bool is_copied_by_both(int peer, const message_type& type, std::size_t bytes) const noexcept {
        return type.copies_bytes() && bytes >= shared_copy::min_bytes && peer != rank_;
    }

    int rank_;
    direct_read how_;
    shared_copy::call to_help_;
    bool helps_ = true;
};

}  // namespace allfold::detail
