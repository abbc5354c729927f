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
/// A message that its receiver copies from where its sender has it, and its sender helps.

namespace allfold::detail {

/// The copy of a long send's bytes to their place. The receiver makes it, piece by piece, and calls for help; a sender
/// that only waits for that makes some of the pieces, since two cores copy twice as fast as one. Either takes the next
/// piece that nobody has taken, so whoever is late or busy takes fewer, or none. Two cores of an Intel Xeon, messages
/// there and back, to copies by the receiver alone: 64 KiB 0.65 of the time, 256 KiB to 1 MiB 0.55, 4 MiB 0.45, 64 MiB
/// 0.5; both ways at once, where nobody only waits, 1.0.
///
/// The receiver returns from it when all pieces are there; the sender keeps it until it hears of that.
class shared_copy {
  public:
    /// From so many bytes on. Less is copied before a sender has seen that it has begun.
    static constexpr std::size_t least_bytes = 64 << 10;

    /// Where a rank is called to help with one of its sends. There is one place however many are in flight: of several
    /// receivers who call one is helped, and then the next.
    class call {
      public:
        [[nodiscard]] bool is_called() const noexcept { return of_.load(std::memory_order_acquire) != nullptr; }
        void help() noexcept {
            shared_copy* const begun = of_.load(std::memory_order_acquire);
            if (begun == nullptr) return;
            begun->help();
            withdraw(*begun);
        }
        /// It is over.
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
    shared_copy(const shared_copy&) noexcept {}  // of a send that has not started
    shared_copy& operator=(const shared_copy&) = delete;
    ~shared_copy() = default;

    // The sender

    /// Before the receiver knows of it. `helper`: who can be called; null: the receiver copies all at once.
    void offer(const std::byte* from, std::size_t bytes, call* helper) noexcept {
        from_ = from;
        bytes_ = bytes;
        helper_ = helper;
        piece_ = helper != nullptr ? std::clamp(bytes / 4, least_piece, most_piece) : bytes;
        taken_.store(0, std::memory_order_relaxed);
        helped_.store(0, std::memory_order_relaxed);
    }
    /// Once it has been called: copies pieces until there is none left; returns how many.
    std::uint32_t help() noexcept {
        std::uint32_t count = 0;
        for (; copy_piece(copy_long_to_shared); ++count) helped_.fetch_add(1, std::memory_order_release);
        return count;
    }

    // The receiver

    /// `streams`: past all caches.
    void copy_to(std::byte* to, bool streams = false) noexcept {
        to_ = to;
        streams_ = streams;
        std::uint32_t own = 0;
        do {
            if (helper_ != nullptr && helper_->of_.load(std::memory_order_relaxed) == nullptr)
                helper_->of_.store(this, std::memory_order_release);
        } while (copy_piece(std::memcpy) && ++own != pieces());
        // A sender in the midst of a piece needs a processor, which may be this one.
        for (int i = 0; own + helped_.load(std::memory_order_acquire) != pieces(); ++i)
            i < 10000 ? relax() : std::this_thread::yield();
    }

  private:
    static constexpr std::size_t least_piece = 16 << 10, most_piece = 64 << 10;

    [[nodiscard]] std::uint32_t pieces() const noexcept {
        return static_cast<std::uint32_t>((bytes_ + piece_ - 1) / piece_);
    }
    template <class Copy>
    [[nodiscard]] bool copy_piece(Copy copy) noexcept {
        if (taken_.load(std::memory_order_relaxed) >= pieces()) return false;  // without taking its line over
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
    std::byte* to_ = nullptr;  // once the receiver has begun
    bool streams_ = false;     // the same
    call* helper_ = nullptr;
    std::atomic<std::uint32_t> taken_{0};   // pieces that somebody copies or has copied, and some that there are not
    std::atomic<std::uint32_t> helped_{0};  // pieces that the sender has copied
};

}  // namespace allfold::detail
