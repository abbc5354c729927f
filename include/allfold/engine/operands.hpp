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
/// What a call of a collective consists of, once its arguments have been understood: no types of the caller's are left.

namespace allfold::detail {

/// The memory of one slot. Rows are numbered over the whole operand; it may hold only some of them.
struct operand {
    place first{};              ///< where its first row lies
    std::size_t first_row = 0;  ///< the number of that row
};

/// The memory of one call at one rank.
struct operands {
    operand input{};
    operand result{};
    const partition* blocks = nullptr;         ///< of the input, and of what is on its way
    const partition* result_blocks = nullptr;  ///< the same, unless the collective cuts for pairs
    std::size_t window_rows = 0;               ///< rows of each block in one window; at least 1
    bool in_place = false;                     ///< row for row, input and result are the same memory
    std::optional<fused_pass> fused{};         ///< in which both steps of a schedule run
    bool copies = false;                       ///< all messages are copied, also those that are lent by default
    bool posts_notices = false;                ///< this rank writes each message once for all who get it, many mostly
    bool lends_notices = false;  ///< among them one with a part for each, which may be lent however short its part
    bool stage_input = false;    ///< copy the input of a window first: peers may read it while the result is written
    int contributions = 0;       ///< for how many operands a result of this rank's stands

    /// Whether what this rank sends, or gets, may lie in several pieces.
    [[nodiscard]] bool is_scattered() const noexcept {
        return input.first.pieces != nullptr || result.first.pieces != nullptr;
    }
};

/// One call at one rank: everything that does not change while it runs.
template <communicator Comm>
struct call {
    Comm& comm;
    const contract& goal;
    any_schedule schedule;
    row_layout rows;
    operands memory;
    signature agreed;
    std::uint32_t hash = 0;  ///< what messages bear: of this call and all before it on this communicator
    bool unordered = false;  ///< started again: ranks may start such calls in different orders

    /// Whether elements are objects that have to be turned into bytes.
    [[nodiscard]] bool encodes() const noexcept { return !Comm::shares_memory && !rows.functions->copyable; }

    /// Whether a message of so many bytes is read where it lies, after it has been posted.
    [[nodiscard]] bool lends(std::size_t bytes) const noexcept {
        return memory.lends_notices || (!memory.copies && comm.lends(bytes, rows.packable()));
    }
    /// One of those without whom a message to `to` cannot be posted now: peer number `next` is the first without it.
    [[nodiscard]] int waits_to_post(const peers& to, int next) const noexcept {
        if constexpr (Comm::has_notices)
            if (const int reader = memory.posts_notices ? comm.slowest_reader() : -1; reader >= 0) return reader;
        return to.at(next, comm.rank());
    }
    /// Posts as a notice.
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
    /// Throws unless a message has the length that this rank's blocks have: whatever a hash says, nothing is read
    /// beyond what was sent, nor written beyond what there is.
    void check_length(std::size_t found, std::size_t expected, int peer) const {
        if (found != expected) [[unlikely]]
            throw_other_length(agreed.what, comm.rank(), peer, found, expected, rows.row_bytes);
    }
};

}  // namespace allfold::detail
