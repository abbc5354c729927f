// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <new>
#include <utility>

#include "allfold/transport/detail/per_thread.hpp"

/// @file
/// Memory of short operations that have ended, kept for the next ones on the same thread: more of them are in flight at
/// once than an allocator caches.

namespace allfold::detail {

/// Recycles blocks of `BlockBytes` bytes; longer ones are not kept.
template <std::size_t BlockBytes>
class block_pool : public per_thread<block_pool<BlockBytes>> {
  public:
    static constexpr std::size_t alignment = 64;
    static constexpr std::size_t block_bytes = BlockBytes;

    [[nodiscard]] static void* allocate(std::size_t bytes) {
        block_pool& own = block_pool::mine();
        if (bytes > block_bytes || own.first_ == nullptr)
            return ::operator new(bytes > block_bytes ? bytes : block_bytes, std::align_val_t{alignment});
        --own.count_;
        return std::exchange(own.first_, own.first_->next);
    }
    /// May be called on any thread.
    static void free(void* memory, std::size_t bytes) noexcept {
        block_pool* const own = block_pool::of_this_thread;
        if (own == nullptr || bytes > block_bytes || own->count_ == most)
            return ::operator delete(memory, std::align_val_t{alignment});
        ++own->count_;
        own->first_ = ::new (memory) block{own->first_};
    }
    /// Called when its thread ends.
    void retire() noexcept {
        while (first_ != nullptr) ::operator delete(std::exchange(first_, first_->next), std::align_val_t{alignment});
        count_ = 0;
    }

  private:
    static constexpr int most = 160;  // 64 messages in each direction
    struct block {
        block* next;
    };

    block* first_ = nullptr;
    int count_ = 0;
};
using task_memory = block_pool<768>;

}  // namespace allfold::detail
