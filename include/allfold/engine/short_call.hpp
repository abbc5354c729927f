// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "allfold/engine/shape.hpp"
#include "allfold/schedule/step.hpp"
#include "allfold/transport/communicator.hpp"
#include "allfold/transport/detail/kept.hpp"

/// @file
/// What is remembered of short calls, so that the next ones that are alike begin at once.

namespace allfold::detail {

/// All that tells one call from another, but for where its memory lies.
struct call_key {
    std::uint64_t types = 0;  ///< hash of all types, and of the algorithm
    std::size_t input_rows = 0, output_rows = 0, row_bytes = 0;
    int root = 0;
    order level = order::any;
    delegate delegation = delegate::automatic;
    bool in_place = false;

    friend constexpr bool operator==(const call_key&, const call_key&) = default;
};

/// Some rows of an argument, from its first one on.
struct some_rows {
    std::size_t first = 0;
    std::size_t count = 0;
};

/// A call of one round in which this rank sends at most one message, which is copied, and gets at most one.
struct short_call {
    call_key key;
    shape where;
    bool in_place = false;  ///< input and result are the same memory, whatever the caller says
    signature agreed;
    std::uint32_t hash = 0;  ///< of the signature
    int to = -1, from = -1;  ///< -1: nobody
    fold how = fold::store;
    some_rows sent;      ///< of the input
    some_rows received;  ///< of the result
    some_rows mine;      ///< of the input: what is folded with that
    some_rows kept;      ///< of the input: what is copied to the result
    std::size_t kept_at = 0;
    some_rows identity;  ///< of the result, which gets the identity, last of all
};

/// The latest ones of a communicator.
class recent_calls final : public kept {
  public:
    /// Null where there is none. (In registers: a key that has just been written piece by piece is slow to compare.)
    [[nodiscard, gnu::always_inline]] const short_call* find(const call_key& key) const noexcept {
        const short_call& there = calls_[place_of(key)];
        return there.hash != 0 && there.key == key ? &there : nullptr;
    }
    void add(const short_call& call) { calls_[place_of(call.key)] = call; }

  private:
    static constexpr std::size_t most = 16;
    [[nodiscard]] static std::size_t place_of(const call_key& key) noexcept {
        const std::uint64_t all = key.types ^ key.input_rows * 3 ^ key.output_rows * 5;
        return static_cast<std::size_t>(all * 0x9e3779b97f4a7c15u >> 60);
    }
    std::array<short_call, most> calls_;
};

/// A transport with which they are kept. `open_again(signature, hash)` does what `open` does for one lane.
template <class C>
concept remembers_calls = communicator<C> && requires(C& comm, const signature& what) {
    { comm.kept_by_engine() } -> std::same_as<std::unique_ptr<kept>&>;
    { comm.open_again(what, std::uint32_t{}) } -> std::same_as<lane>;
};

}  // namespace allfold::detail
