// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <cstddef>
#include <span>
#include <utility>

#include "allfold/engine/rows.hpp"
#include "allfold/transport/communicator.hpp"
#include "allfold/transport/detail/copy.hpp"

/// @file
/// Messages as the engine reads them: bytes in place, or objects decoded from bytes.

namespace allfold::detail {

/// Splits a message into the pieces that the sender put into it (one per column and block, all blocks of a column
/// together), wherever they lie.
class pieces {
  public:
    /// `packed`: all pieces, contiguous and each aligned; null if the pieces are the parts as they were posted.
    pieces(std::byte* packed, std::span<const part> parts, std::size_t alignment)
        : packed_(packed), parts_(parts), alignment_(alignment) {}

    [[nodiscard]] std::byte* next(std::size_t bytes) noexcept {
        if (packed_ == nullptr) return parts_[index_++].data;
        at_ = align_up(at_, alignment_);
        std::byte* const piece = packed_ + at_;
        at_ += bytes;
        return piece;
    }

    /// Whether some of the `expected` pieces were posted in several parts.
    [[nodiscard]] bool is_scattered(std::size_t expected) const noexcept {
        return packed_ == nullptr && parts_.size() > expected;
    }
    /// If so: the next piece, of `rows` rows. An empty piece is a single empty part.
    [[nodiscard]] scattered next_pieces(std::size_t rows, std::size_t row_bytes) {
        scattered found;
        for (std::size_t left = rows * row_bytes;;) {
            const part& next = parts_[index_++];
            found.add(next.data, next.bytes / row_bytes);
            left -= next.bytes;
            if (left == 0) return found;
        }
    }

  private:
    std::byte* packed_;
    std::span<const part> parts_;
    std::size_t alignment_;
    std::size_t index_ = 0;
    std::size_t at_ = 0;
};

/// What a peer has sent: the message itself, or the objects decoded from it.
template <class Comm>
class delivery {
  public:
    delivery() = default;
    explicit delivery(typename Comm::arrival_type&& message) : message_(std::move(message)) {}
    explicit delivery(object_array&& objects) : objects_(std::move(objects)), is_decoded_(true) {}

    [[nodiscard]] detail::pieces pieces(std::size_t alignment) const noexcept {
        static std::byte nothing;  // non-null even without objects: null would mean parts, and there are none
        if (is_decoded_) return {objects_.data() != nullptr ? objects_.data() : &nothing, {}, alignment};
        return {message_.packed(), message_.parts(), alignment};
    }

  private:
    typename Comm::arrival_type message_;
    object_array objects_;
    bool is_decoded_ = false;
};

}  // namespace allfold::detail
