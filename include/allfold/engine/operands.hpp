// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "allfold/data/partition.hpp"
#include "allfold/engine/mismatch.hpp"
#include "allfold/engine/rows.hpp"
#include "allfold/schedule/any_schedule.hpp"
#include "allfold/schedule/fusion.hpp"
#include "allfold/schedule/step.hpp"
#include "allfold/transport/communicator.hpp"

/// @file
/// What a call of a collective consists of once its arguments have been bound: the caller's types are gone.

namespace allfold::detail {

/// The memory of one slot. Rows are numbered over the whole operand, of which it may hold only some.
struct operand {
    place first{};              ///< where its first row lies
    std::size_t first_row = 0;  ///< the number of that row
};

/// The memory of one call on one rank.
struct operands {
    operand input{};
    operand result{};
    const partition* blocks = nullptr;         ///< of the input, and of data in transit
    const partition* result_blocks = nullptr;  ///< the same, unless the collective cuts for pairs or owners
    std::size_t window_rows = 0;               ///< rows of each block in one window; at least 1
    bool in_place = false;                     ///< input and result are the same memory, row for row
    std::optional<fused_pass> fused{};         ///< the single pass in which both steps of a schedule run
    bool copies = false;                       ///< all messages are copied, including those that are lent by default
    bool posts_notices = false;  ///< this rank writes each message once for all of its readers, usually many
    bool lends_notices = false;  ///< one of them has a part per reader, which may be lent however short it is
    bool stage_input = false;    ///< copy the input of a window first: peers may read it while the result is written
    int contributions = 0;       ///< how many operands a result of this rank stands for

    /// Whether what this rank sends or receives may lie in several pieces.
    [[nodiscard]] bool is_scattered() const noexcept {
        return input.first.pieces != nullptr || result.first.pieces != nullptr;
    }
};

/// One call on one rank: everything that does not change while it runs.
template <communicator Comm>
struct call {
    Comm& comm;
    const contract& goal;
    any_schedule schedule;
    row_layout rows;
    operands memory;
    signature agreed;
    std::uint32_t hash = 0;  ///< in all messages: covers this call and all earlier ones on this communicator
    bool unordered = false;  ///< started again: ranks may start such calls in different orders

    /// Whether elements are objects that have to be encoded as bytes.
    [[nodiscard]] bool encodes() const noexcept { return !Comm::shares_memory && !rows.functions->copyable; }

    /// Whether a message of this many bytes is read in place after it has been posted.
    [[nodiscard]] bool lends(std::size_t bytes) const noexcept {
        return memory.lends_notices || (!memory.copies && comm.lends(bytes, rows.packable()));
    }
    /// One of the ranks that a post to `to` has to wait for; peer number `next` is the first that has not been posted
    /// to.
    [[nodiscard]] int waits_to_post(const peers& to, int next) const noexcept {
        if constexpr (Comm::has_notices)
            if (const int reader = memory.posts_notices ? comm.slowest_reader() : -1; reader >= 0) return reader;
        return to.at(next, comm.rank());
    }
    /// Posts a message as a notice.
    [[nodiscard]] bool post_to_all(const peers& to, lane on, const outgoing& message,
                                   std::span<const std::size_t> ends = {}) const {
        if constexpr (Comm::has_notices)
            return comm.try_post_notice(to, on, message, ends);
        else
            return false;
    }

    /// Throws unless the message of `peer` belongs to the same call.
    void check(std::uint32_t signature, int peer, lane on) const {
        if (signature != hash) [[unlikely]]
            disagree(peer, on);
    }
    [[noreturn, gnu::cold]] void disagree(int peer, lane on) const { throw_disagreement(comm, agreed, peer, on); }
    /// Throws unless a message has the length of this rank's blocks: whatever its hash says, nothing is read beyond
    /// what was sent, or written beyond what there is.
    void check_length(std::size_t found, std::size_t expected, int peer) const {
        if (found != expected) [[unlikely]]
            throw_other_length(agreed.what, comm.rank(), peer, found, expected, rows.row_bytes);
    }
};

}  // namespace allfold::detail
