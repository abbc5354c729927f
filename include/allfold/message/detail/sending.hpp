// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <vector>

#include "allfold/engine/detail/kept_memory.hpp"
#include "allfold/message/detail/matching.hpp"
#include "allfold/message/detail/message_data.hpp"
#include "allfold/message/detail/message_head.hpp"
#include "allfold/message/detail/shared_copy.hpp"
#include "allfold/message/options.hpp"
#include "allfold/transport/communicator.hpp"
#include "allfold/transport/detail/stream.hpp"

/// @file
/// A send, and what is on its way.

namespace allfold::detail {

class open_message;

/// A send.
struct sending {
    int receiver;
    int label;
    mode how;
    message_data data;
    std::uint32_t number = 0;
    bool may_wait = true;       // in standard mode: analysis/explore decides whether it
    bool is_held = true;        // is held by its receiver, or waits
    bool has_no_limit = false;  // and is so however long it is, and however much is held already
    bool is_done = true;
    std::exception_ptr failure;
    open_message* owner = nullptr;
    record* carrier = nullptr;  // on its way
    std::vector<std::byte> encoded;
    std::uint64_t encoded_bytes = 0;
    std::byte* to_be_read = nullptr;  // where its receiver reads it; of a long one, how it is copied
    shared_copy copying;
    kept_bytes staged;

    /// A copy past all caches.
    [[nodiscard]] std::byte* stage() {
        const std::size_t bytes = data.bytes();
        if (staged.bytes() < bytes) staged = kept_bytes(bytes, kept_memory::usual_alignment);
        stream_bytes(staged.data(), data.data, bytes);
        finish_streams();
        return staged.data();
    }
    /// What goes: the data, or what it is encoded as.
    [[nodiscard]] part payload() noexcept {
        return data.type->is_encoded() ? part{encoded.data(), encoded.size()} : part{data.data, data.bytes()};
    }

    sending(int to_rank, int under, mode when, const message_data& what)
        : receiver(to_rank), label(under), how(when), data{what.data, what.elements, what.type} {}
};

/// A message on its way.
struct record {
    message_head head;
    std::array<part, 2> parts{};
    int receiver = 0;
    lane on = envelopes_lane;
    bool copyable = true;
    std::atomic<int> lent{0};
    sending* sent = nullptr;       // done when this has been read
    receiving* refused = nullptr;  // the same
    sending* asks = nullptr;       // whose request it is
    std::array<char, longest_type_name> type_name{};
    std::array<part, 3> in_transport{};  // the parts, with the name, where that goes too

    [[nodiscard]] bool has_head() const noexcept { return on == envelopes_lane; }
};

}  // namespace allfold::detail
