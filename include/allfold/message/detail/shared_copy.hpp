// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <thread>

#include "allfold/transport/detail/copy.hpp"
#include "allfold/transport/detail/doorbell.hpp"
#include "allfold/transport/detail/stream.hpp"

/// @file
/// A message that the receiver copies straight from the sender's memory, with the sender's help.

namespace allfold::detail {

/// Copies the bytes of a long send to their destination. The receiver does so piece by piece, and calls for help; a
/// sender that is only waiting for this copies some of the pieces, since two cores copy twice as fast as one. Each
/// takes the next free piece, so a rank that is late or busy takes fewer, or none. Two cores of an Intel Xeon,
/// ping-pong relative to copies by the receiver alone: 64 KiB takes 0.65x the time, 256 KiB to 1 MiB 0.55x, 4 MiB
/// 0.45x, 64 MiB 0.5x; both ways at once, where neither rank is only waiting, 1.0x.
///
/// The receiver returns once all pieces have been copied; the sender keeps this object until it is notified.
class shared_copy {
  public:
    /// The minimum length. A shorter message is copied before its sender has noticed that the copy has begun.
    static constexpr std::size_t min_bytes = 64 << 10;

    /// Where receivers call a rank to help with one of its sends. There is one slot however many sends are in flight:
    /// if several receivers call, they are helped one after another.
    class call {
      public:
        [[nodiscard]] bool is_called() const noexcept { return of_.load(std::memory_order_acquire) != nullptr; }
        void help() noexcept {
            shared_copy* const begun = of_.load(std::memory_order_acquire);
            if (begun == nullptr) return;
            begun->help();
            withdraw(*begun);
        }
        /// The copy is over.
        void withdraw(shared_copy& which) noexcept {
            shared_copy* expected = &which;
            if (of_.load(std::memory_order_relaxed) == expected)
                of_.compare_exchange_strong(expected, nullptr, std::memory_order_relaxed);
        }

      private:
        friend class shared_copy;
        std::atomic<shared_copy*> of_{nullptr};
    };

    shared_copy() = default;
    shared_copy(const shared_copy&) noexcept {}  // a send that has not started shares nothing
    shared_copy& operator=(const shared_copy&) = delete;
    ~shared_copy() = default;

    // The sender

    /// Called before the receiver knows about the copy. `helper`: where to call the sender; null: the receiver copies
    /// everything in one go.
    void offer(const std::byte* from, std::size_t bytes, call* helper) noexcept {
        from_ = from;
        bytes_ = bytes;
        helper_ = helper;
        piece_ = helper != nullptr ? std::clamp(bytes / 4, min_piece, max_piece) : bytes;
        taken_.store(0, std::memory_order_relaxed);
        helped_.store(0, std::memory_order_relaxed);
    }
    /// Called once the receiver has asked for help: copies pieces until none are left, and returns how many.
    std::uint32_t help() noexcept {
        std::uint32_t count = 0;
        for (; copy_piece(copy_long_to_shared); ++count) helped_.fetch_add(1, std::memory_order_release);
        return count;
    }

    // The receiver

    /// `streams`: with streaming (non-temporal) stores.
    void copy_to(std::byte* to, bool streams = false) noexcept {
        to_ = to;
        streams_ = streams;
        std::uint32_t own = 0;
        do {
            if (helper_ != nullptr && helper_->of_.load(std::memory_order_relaxed) == nullptr)
                helper_->of_.store(this, std::memory_order_release);
        } while (copy_piece(std::memcpy) && ++own != pieces());
        // A sender that is still copying a piece needs a core, which may be this one.
        for (int i = 0; own + helped_.load(std::memory_order_acquire) != pieces(); ++i)
            i < 10000 ? relax() : std::this_thread::yield();
    }

  private:
    static constexpr std::size_t min_piece = 16 << 10, max_piece = 64 << 10;

    [[nodiscard]] std::uint32_t pieces() const noexcept {
        return static_cast<std::uint32_t>((bytes_ + piece_ - 1) / piece_);
    }
    template <class Copy>
    [[nodiscard]] bool copy_piece(Copy copy) noexcept {
        if (taken_.load(std::memory_order_relaxed) >= pieces()) return false;  // a load leaves the cache line shared
        const std::size_t begin = taken_.fetch_add(1, std::memory_order_relaxed) * piece_;
        if (begin >= bytes_) return false;
        const std::size_t bytes = std::min(piece_, bytes_ - begin);
        if (streams_) {
            stream_bytes(to_ + begin, from_ + begin, bytes);
            finish_streams();
        } else {
            copy(to_ + begin, from_ + begin, bytes);
        }
        return true;
    }

    const std::byte* from_ = nullptr;
    std::size_t bytes_ = 0, piece_ = 1;
    std::byte* to_ = nullptr;  // set once the receiver has begun
    bool streams_ = false;     // likewise
    call* helper_ = nullptr;
    std::atomic<std::uint32_t> taken_{0};   // pieces claimed so far; may exceed pieces()
    std::atomic<std::uint32_t> helped_{0};  // pieces that the sender has copied
};

}  // namespace allfold::detail
