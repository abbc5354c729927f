// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <vector>

#include "allfold/engine/detail/memory_cache.hpp"
#include "allfold/message/detail/chain.hpp"
#include "allfold/message/detail/matching.hpp"
#include "allfold/message/detail/message_data.hpp"
#include "allfold/message/detail/message_head.hpp"
#include "allfold/message/detail/shared_copy.hpp"
#include "allfold/message/options.hpp"
#include "allfold/transport/communicator.hpp"
#include "allfold/transport/detail/stream.hpp"

/// @file
/// A send operation, and a message in transit.

namespace allfold::detail {

class open_message;

/// A send operation.
struct sending {
    int receiver;
    int label;
    mode how;
    message_data data;
    std::uint32_t number = 0;
    bool is_copy = false;       // made by a buffered send
    bool is_held = true;        // by its receiver, unless analysis/explore says that it waits for its receive
    bool has_no_limit = false;  // held whatever its length, and however much is held already
    bool is_done = true;
    std::exception_ptr failure;
    open_message* owner = nullptr;
    record* carrier = nullptr;  // the message in transit
    std::vector<std::byte> encoded;
    std::uint64_t encoded_bytes = 0;
    std::byte* read_from = nullptr;  // where its receiver reads the data; of a long one, its shared_copy
    shared_copy copying;
    cached_memory staged;

    /// Copies the data with streaming (non-temporal) stores, and returns the copy.
    [[nodiscard]] std::byte* stage() {
        const std::size_t bytes = data.bytes();
        if (staged.bytes() < bytes) staged = cached_memory(bytes, memory_cache::usual_alignment);
        stream_bytes(staged.data(), data.data, bytes);
        finish_streams();
        return staged.data();
    }
    /// What is sent: the data, or its encoding.
    [[nodiscard]] part payload() noexcept {
        return data.type->is_encoded() ? part{encoded.data(), encoded.size()} : part{data.data, data.bytes()};
    }

    sending(int to_rank, int wanted_tag, mode when, const message_data& what)
        : receiver(to_rank), label(wanted_tag), how(when), data{what.data, what.elements, what.type} {}
};

/// A message in transit.
struct record : chain_link<record> {
    message_head head;
    std::array<part, 2> parts{};
    int receiver = 0;
    lane on = envelopes_lane;
    bool copyable = true;
    std::atomic<int> lent{0};
    sending* sent = nullptr;       // the send that is done when this has been read
    receiving* refused = nullptr;  // the receive that is done then
    sending* asks = nullptr;       // the send that waits for the answer to this
    std::array<char, longest_type_name> type_name{};
    std::array<part, 3> in_transport{};  // the parts, with the type name if that is sent too

    [[nodiscard]] bool has_head() const noexcept { return on == envelopes_lane; }
};

}  // namespace allfold::detail
