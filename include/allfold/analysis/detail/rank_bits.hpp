// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "allfold/analysis/detail/constexpr_array.hpp"
#include "allfold/schedule/step.hpp"

/// @file
/// Sets of ranks whose size is known only at run time: which peers have been met in a step, which ranks have been heard
/// of in a barrier.

namespace allfold::detail {

/// A set of numbers below `size`. Those below 64 are fast, as most are: proofs at compile time spend much of their time
/// here.
class rank_bits {
  public:
    constexpr rank_bits() = default;
    constexpr explicit rank_bits(int size) : more_(size > 64 ? (static_cast<std::size_t>(size) - 1) / 64 : 0) {}

    constexpr void insert(int i) noexcept { (i < 64 ? few_ : more_[word_of(i)]) |= std::uint64_t{1} << i % 64; }
    [[nodiscard]] constexpr bool contains(int i) const noexcept {
        return ((i < 64 ? few_ : more_[word_of(i)]) >> i % 64 & 1) != 0;
    }
    constexpr void unite(const rank_bits& other) noexcept {
        few_ |= other.few_;
        for (std::size_t i = 0; i < more_.size(); ++i) more_[i] |= other.more_[i];
    }
    [[nodiscard]] constexpr int count() const noexcept {
        int n = std::popcount(few_);
        for (const std::uint64_t each : more_) n += std::popcount(each);
        return n;
    }

  private:
    [[nodiscard]] static constexpr std::size_t word_of(int i) noexcept { return static_cast<std::size_t>(i) / 64 - 1; }

    std::uint64_t few_ = 0;
    constexpr_array<std::uint64_t> more_;
};

/// The sending side of a step in progress: how many peers it has, and which of them have taken their message.
class pending_sends {
  public:
    constexpr void open(const peers& who, int self, int size) {
        count_ = open_ = who.count(self, size);
        if (count_ > 1) met_ = rank_bits(count_);
    }
    constexpr void complete_one(const peers& who, int peer, int self) noexcept {
        if (count_ > 1) met_.insert(who.index_of(peer, self));
        --open_;
    }
    [[nodiscard]] constexpr int count() const noexcept { return count_; }
    [[nodiscard]] constexpr bool over() const noexcept { return open_ == 0; }
    [[nodiscard]] constexpr bool awaits(const peers& who, int peer, int self) const noexcept {
        return open_ > 0 && who.contains(peer, self) && (count_ == 1 || !met_.contains(who.index_of(peer, self)));
    }

  private:
    int count_ = 0;
    int open_ = 0;
    rank_bits met_{};
};

/// The receiving side of a step in progress: messages are taken in the order of its peers.
class pending_receives {
  public:
    constexpr void open(const peers& who, int self, int size) {
        count_ = who.count(self, size);
        met_ = 0;
    }
    constexpr void complete_one() noexcept { ++met_; }
    [[nodiscard]] constexpr int count() const noexcept { return count_; }
    [[nodiscard]] constexpr int met() const noexcept { return met_; }
    [[nodiscard]] constexpr bool over() const noexcept { return met_ == count_; }
    [[nodiscard]] constexpr bool awaits(const peers& who, int peer, int self) const noexcept {
        return met_ < count_ && who.at(met_, self) == peer;
    }

  private:
    int count_ = 0;
    int met_ = 0;
};

}  // namespace allfold::detail
