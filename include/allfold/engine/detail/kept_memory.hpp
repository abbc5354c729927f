// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <new>
#include <utility>

#include "allfold/transport/detail/per_thread.hpp"

/// @file
/// Memory of a long operation that has ended, for the next one of its thread: what an allocator has given back to the
/// system takes as long to touch again as to copy.

namespace allfold::detail {

class kept_memory : public per_thread<kept_memory> {
  public:
    struct block {
        std::byte* first = nullptr;
        std::size_t bytes = 0;
        std::size_t alignment = 64;
    };
    static constexpr std::size_t most_bytes = std::size_t{8} << 20;  // of what is longer nothing is kept

    /// At least so many bytes.
    [[nodiscard]] static block allocate(std::size_t bytes, std::size_t alignment) {
        kept_memory& own = mine();
        if (own.kept_.bytes >= bytes && own.kept_.alignment >= alignment) return std::exchange(own.kept_, block{});
        return {static_cast<std::byte*>(::operator new(bytes, std::align_val_t{alignment})), bytes, alignment};
    }
    /// In any thread.
    static void free(block given) noexcept {
        kept_memory* const own = of_this_thread;
        if (own != nullptr && given.bytes <= most_bytes && given.bytes > own->kept_.bytes) std::swap(given, own->kept_);
        release(given);
    }
    /// Its thread ends.
    void retire() noexcept { release(std::exchange(kept_, block{})); }

  private:
    static void release(const block& given) noexcept {
        if (given.first != nullptr) ::operator delete(given.first, std::align_val_t{given.alignment});
    }

    block kept_;
};

}  // namespace allfold::detail
