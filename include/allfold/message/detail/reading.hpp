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
/// Messages that their receiver reads where their sender has them: ranks that share memory.

namespace allfold::detail {

/// How a rank reads where another one has its data, if it can: who gives up waits for all who do. To begin throws where
/// somebody has given up.
struct reading_there {
    void* communicator = nullptr;
    void (*begin)(void*) = nullptr;
    void (*end)(void*) noexcept = nullptr;
};
/// What is longer is read there: one copy rather than two, but an answer. Two cores near each other, against copies up
/// to 32 KiB and three messages beyond: there and back 6 KiB 0.93 of the time, 8 KiB 0.71, 16 KiB 0.53, 64 KiB 0.86; 64
/// messages each way, of 8 KiB 0.70, of 16 KiB 0.36, of 64 KiB 0.7; halos of six faces of 4, 6, 8, 16 and 256 KiB 1.18,
/// 1.12, 1.03, 0.88, 0.85. 4 KiB there and back 1.16.
inline constexpr std::size_t longest_not_read_there = 6 << 10;
/// Of one whose sender waits to hear that it has been received, which says as well that it has been read. A Xeon
/// (Granite Rapids), there and back as a copy: 8 bytes 0.79 of the time, 64 bytes 0.93, 256 bytes 0.98, 512 bytes 1.04,
/// 4 KiB 1.07, 16 KiB 1.46.
inline constexpr std::size_t longest_not_read_there_of_synchronous = 256;
/// Up to here a core that is far reads a copy of that, past all caches (transport/detail/distance.hpp). AMD Zen 4:
/// there and back 8 KiB 0.8 of the time, 16 KiB 0.7, 64 KiB and 512 KiB 0.6, 4 MiB 0.75; halo of six faces of 8 to 256
/// KiB 0.8 to 0.55; 64 messages each way 8 KiB 0.85 to 1.25, 16 to 64 KiB 0.6 to 0.9.
inline constexpr std::size_t longest_staged = std::size_t{4} << 20;

/// What has come of a message, where it belongs. `streams`: past all caches.
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
    } catch (...) {  // what it makes of them is the caller's
        r.failure = std::current_exception();
    }
}

/// What a rank reads of others so, and they of it.
class reading_of_messages {
  public:
    reading_of_messages(int rank, const reading_there& how) noexcept : rank_(rank), how_(how) {}
    reading_of_messages(const reading_of_messages&) = delete;
    reading_of_messages& operator=(const reading_of_messages&) = delete;

    [[nodiscard]] bool is_possible() const noexcept { return how_.begin != nullptr; }
    [[nodiscard]] bool reaches(int peer) const noexcept { return is_possible() && peer != rank_; }

    // The sender

    /// Says where its receiver reads it. `is_far(bytes)`: whether that one's core is.
    template <class IsFar>
    void offer(sending& s, IsFar is_far) {
        const std::size_t bytes = s.data.bytes();
        const bool stages = s.data.type->assign == nullptr && bytes <= longest_staged && is_far(bytes);
        std::byte* const data = stages ? s.stage() : s.data.data;
        s.to_be_read = data;
        if (!is_copied_by_both(s.receiver, *s.data.type, bytes)) return;
        s.copying.offer(data, bytes, stages ? nullptr : &to_help_);
        s.to_be_read = reinterpret_cast<std::byte*>(&s.copying);
    }
    /// Of a rank that waits: copies what another one is reading here, if it is, together with it.
    void help() noexcept {
        if (helps_) to_help_.help();
    }
    /// It gives up with its communicator: who still reads one of its sends may call, and that may be gone by then.
    void help_no_more() noexcept { helps_ = false; }
    void withdraw(sending& s) noexcept { to_help_.withdraw(s.copying); }

    // The receiver

    /// Whether what came behind the head of a message says where it lies.
    [[nodiscard]] bool is_there(const message_head& head, std::span<const std::byte> rest) const noexcept {
        return is_possible() && head.what == message_head::kind::request && !head.is_encoded() && !rest.empty();
    }
    [[nodiscard]] static std::byte* place_in(std::span<const std::byte> rest) noexcept {
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
        return type.copies_bytes() && bytes >= shared_copy::least_bytes && peer != rank_;
    }

    int rank_;
    reading_there how_;
    shared_copy::call to_help_;
    bool helps_ = true;
};

}  // namespace allfold::detail
