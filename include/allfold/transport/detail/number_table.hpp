// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "allfold/data/detail/heap_array.hpp"

/// @file
/// A table of numbers that are looked up by key.

namespace allfold::detail {

/// A number for each key, with open addressing, at most half full; keys are never removed. `std::unordered_map` can do
/// more, at the price of a longer compile time for every includer.
class number_table {
  public:
    /// How many keys have numbers.
    [[nodiscard]] std::size_t size() const noexcept { return count_; }
    /// Null if the key has no number.
    [[nodiscard]] const std::uint32_t* find(std::uint64_t key) const noexcept {
        if (count_ == 0) return nullptr;
        const entry& there = entries_[place_of(key, entries_)];
        return there.used ? &there.number : nullptr;
    }
    /// The number of the key; if it has none, it gets `number`.
    std::uint32_t find_or_add(std::uint64_t key, std::uint32_t number) {
        if (2 * count_ >= entries_.size()) grow();
        entry& there = entries_[place_of(key, entries_)];
        if (!there.used) {
            there = {key, number, true};
            ++count_;
        }
        return there.number;
    }

  private:
    struct entry {
        std::uint64_t key = 0;
        std::uint32_t number = 0;
        bool used = false;
    };
    /// The index of the key's entry, or of the free entry where it belongs. The length of the table is a power of two.
    [[nodiscard]] static std::size_t place_of(std::uint64_t key, const heap_array<entry>& in) noexcept {
        auto at = static_cast<std::size_t>(key * 0x9e3779b97f4a7c15u >> 32);
        for (;; ++at) {
            const entry& there = in[at &= in.size() - 1];
            if (!there.used || there.key == key) return at;
        }
    }
    void grow() {
        heap_array<entry> larger(entries_.size() == 0 ? 16 : 2 * entries_.size());
        for (const entry& each : entries_)
            if (each.used) larger[place_of(each.key, larger)] = each;
        entries_ = std::move(larger);
    }

    heap_array<entry> entries_;
    std::size_t count_ = 0;
};

}  // namespace allfold::detail
