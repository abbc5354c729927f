// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <new>
#include <utility>

#include "allfold/transport/detail/per_thread.hpp"

/// @file
/// Memory of a long operation that has ended, kept for the next one on the same thread: touching memory again that the
/// allocator has returned to the system costs as much as copying it.

namespace allfold::detail {

class kept_memory : public per_thread<kept_memory> {
  public:
    static constexpr std::size_t usual_alignment = 64;
    struct block {
        std::byte* first = nullptr;
        std::size_t bytes = 0;
        std::size_t alignment = usual_alignment;
    };
    // Shorter and longer blocks are not kept.
    static constexpr std::size_t least_bytes = std::size_t{64} << 10, most_bytes = std::size_t{8} << 20;

    /// Returns at least `bytes` bytes.
    [[nodiscard]] static block allocate(std::size_t bytes, std::size_t alignment) {
        kept_memory& own = mine();
        const bool fits = bytes <= own.kept_.bytes && alignment <= own.kept_.alignment;
        if (fits && bytes >= least_bytes) return std::exchange(own.kept_, block{});
        return {static_cast<std::byte*>(::operator new(bytes, std::align_val_t{alignment})), bytes, alignment};
    }
    /// May be called on any thread.
    static void free(block given) noexcept {
        kept_memory* const own = of_this_thread;
        if (own != nullptr && given.bytes >= least_bytes && given.bytes <= most_bytes && given.bytes > own->kept_.bytes)
            std::swap(given, own->kept_);
        release(given);
    }
    /// Called when its thread ends.
    void retire() noexcept { release(std::exchange(kept_, block{})); }

  private:
    static void release(const block& given) noexcept {
        if (given.first != nullptr) ::operator delete(given.first, std::align_val_t{given.alignment});
    }

    block kept_;
};

/// Owns a block of kept memory.
class kept_bytes {
  public:
    kept_bytes() = default;
    kept_bytes(std::size_t bytes, std::size_t alignment) : held_(kept_memory::allocate(bytes, alignment)) {}
    kept_bytes(kept_bytes&& other) noexcept : held_(std::exchange(other.held_, kept_memory::block{})) {}
    kept_bytes& operator=(kept_bytes&& other) noexcept {
        std::swap(held_, other.held_);
        return *this;
    }
    ~kept_bytes() { kept_memory::free(held_); }

    [[nodiscard]] std::byte* data() const noexcept { return held_.first; }
    [[nodiscard]] std::size_t bytes() const noexcept { return held_.bytes; }

  private:
    kept_memory::block held_;
};

}  // namespace allfold::detail
