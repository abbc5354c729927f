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
    /// Null where there is none.
    [[nodiscard, gnu::always_inline]] const short_call* find(const call_key& key) const noexcept {
        const short_call* const first = &calls_[set_of(key) * ways];
        for (std::size_t way = 0; way < ways; ++way)
            if (first[way].key == key && first[way].hash != 0) return first + way;
        return nullptr;
    }
    void add(const short_call& call) {
        if (find(call.key) != nullptr) return;
        const std::size_t set = set_of(call.key);
        calls_[set * ways + next_[set]++ % ways] = call;
    }

  private:
    static constexpr std::size_t ways = 4, sets = 8;
    [[nodiscard, gnu::always_inline]] static std::size_t set_of(const call_key& key) noexcept {
        const std::uint64_t all = key.types ^ key.input_rows * 3 ^ key.output_rows * 5;
        return static_cast<std::size_t>(all * 0x9e3779b97f4a7c15u >> 32) % sets;
    }
    std::array<short_call, ways * sets> calls_;
    std::array<std::uint8_t, sets> next_{};
};

/// A transport with which they are kept. `open_again(signature, hash)` does what `open` does for one lane.
template <class C>
concept remembers_calls = communicator<C> && requires(C& comm, const signature& what) {
    { comm.kept_by_engine() } -> std::same_as<std::unique_ptr<kept>&>;
    { comm.open_again(what, std::uint32_t{}) } -> std::same_as<lane>;
};

}  // namespace allfold::detail
