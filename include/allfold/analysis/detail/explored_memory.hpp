// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "allfold/engine/detail/memory_in_use.hpp"

/// @file
/// The memory of the operations that one explored rank has in flight, on all of its communicators.

namespace allfold::detail {

/// The engine changes the memory of an operation only while it works on it. What has changed when it comes back to the
/// operation has been changed by the program.
class explored_memory {
  public:
    /// A change of memory by the program or, if `other` is not 0, a second operation that uses the same memory.
    struct change {
        std::size_t call, other = 0;  ///< calls of the rank, from 1; 0: unknown
        friend bool operator==(const change&, const change&) = default;
    };

    void clear() noexcept {
        all_.clear();
        changes_.clear();
    }
    /// An operation begins to use memory. If another one in flight writes it too, or reads what this one writes, that
    /// is noted here, and what they do to each other is not noted later.
    void enter(const void* operation, std::size_t call, memory_in_use&& memory) {
        leave(operation);
        sort_ranges(memory);
        all_.push_back({operation, call, std::move(memory)});
        watched& own = all_.back();
        for (watched& each : all_)
            if (each.operation != operation && conflict(each.memory, own.memory)) {
                each.is_shared = own.is_shared = true;
                note({each.call, call});
            }
        look(own);
    }
    /// Notes whether the program has changed what the operation reads and, if `also_written`, what it writes.
    void check(const void* operation, bool also_written) {
        watched* const own = find(operation);
        if (own == nullptr || own->is_shared) return;
        if (hash_of(own->memory.read) == own->read_hash &&
            (!also_written || hash_of(own->memory.written) == own->written_hash))
            return;
        note({own->call});
        look(*own);
    }
    /// The operation has written its memory itself.
    void refresh(const void* operation) noexcept {
        if (watched* const own = find(operation)) look(*own);
    }
    /// The call that has started an operation in flight; 0 if unknown.
    [[nodiscard]] std::size_t call_of(const void* operation) const noexcept {
        const auto found = std::ranges::find(all_, operation, &watched::operation);
        return found == all_.end() ? 0 : found->call;
    }
    void leave(const void* operation) noexcept {
        std::erase_if(all_, [operation](const watched& each) { return each.operation == operation; });
    }
    [[nodiscard]] const std::vector<change>& changes() const noexcept { return changes_; }

  private:
    struct watched {
        const void* operation;
        std::size_t call;
        memory_in_use memory;
        std::uint64_t read_hash = 0, written_hash = 0;
        bool is_shared = false;
    };
    [[nodiscard]] watched* find(const void* operation) noexcept {
        const auto found = std::ranges::find(all_, operation, &watched::operation);
        return found == all_.end() ? nullptr : &*found;
    }
    static void look(watched& own) noexcept {
        own.read_hash = hash_of(own.memory.read);
        own.written_hash = hash_of(own.memory.written);
    }
    void note(const change& one) {
        if (std::ranges::find(changes_, one) == changes_.end()) changes_.push_back(one);
    }

    std::vector<watched> all_;
    std::vector<change> changes_;
};

}  // namespace allfold::detail
