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

class memory_cache : public per_thread<memory_cache> {
  public:
    static constexpr std::size_t usual_alignment = 64;
    struct block {
        std::byte* first = nullptr;
        std::size_t bytes = 0;
        std::size_t alignment = usual_alignment;
    };
    // Shorter and longer blocks are not kept.
    static constexpr std::size_t min_bytes = std::size_t{64} << 10, max_bytes = std::size_t{8} << 20;

    /// Returns at least `bytes` bytes.
    [[nodiscard]] static block allocate(std::size_t bytes, std::size_t alignment) {
        memory_cache& own = mine();
        const bool fits = bytes <= own.kept_.bytes && alignment <= own.kept_.alignment;
        if (fits && bytes >= min_bytes) return std::exchange(own.kept_, block{});
        return {static_cast<std::byte*>(::operator new(bytes, std::align_val_t{alignment})), bytes, alignment};
    }
    /// May be called on any thread.
    static void free(block given) noexcept {
        memory_cache* const own = of_this_thread;
        if (own != nullptr && given.bytes >= min_bytes && given.bytes <= max_bytes && given.bytes > own->kept_.bytes)
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
class cached_memory {
  public:
    cached_memory() = default;
    cached_memory(std::size_t bytes, std::size_t alignment) : held_(memory_cache::allocate(bytes, alignment)) {}
    cached_memory(cached_memory&& other) noexcept : held_(std::exchange(other.held_, memory_cache::block{})) {}
    cached_memory& operator=(cached_memory&& other) noexcept {
        std::swap(held_, other.held_);
        return *this;
    }
    ~cached_memory() { memory_cache::free(held_); }

    [[nodiscard]] std::byte* data() const noexcept { return held_.first; }
    [[nodiscard]] std::size_t bytes() const noexcept { return held_.bytes; }

  private:
    memory_cache::block held_;
};

}  // namespace allfold::detail
