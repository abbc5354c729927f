// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "allfold/error.hpp"
#include "allfold/transport/communicator.hpp"
#include "allfold/transport/detail/bounce.hpp"
#include "allfold/transport/detail/envelope.hpp"
#include "allfold/transport/detail/mpi_calls.hpp"
#include "allfold/transport/detail/mpi_handle.hpp"

/// @file
/// The messages that ranks send each other outside their collectives, as they travel through MPI.

namespace allfold::mpi::detail {

/// The head of a control message. An introduction of the call may follow, then a text.
struct control_message {
    /// `other_call` answers a rank that is blocked in a call that this one has not made.
    /// `farewell` is sent in a team that has failed, and expects the same from the other rank.
    enum class kind : std::uint32_t { failed, blocked, other_call, departed, farewell };
    kind what = kind::failed;
    errc code = errc::peer_failed;  ///< of a failure; the text is its reason
    std::int32_t round = 0;         ///< of a blocked rank; the text names its collective
    std::int32_t rounds = 0;
    lane on = 0;
    std::uint32_t call = 0;        ///< hash of the blocked call, or of the other one
    std::uint32_t team = 0;        ///< number among the teams that share a carrier
    std::uint32_t list = 0;        ///< mark of its list of members, as the sender gave it
    std::uint32_t introduced = 0;  ///< bytes of the introduction
    std::uint32_t chars = 0;       ///< length of the text
};
inline constexpr std::size_t longest_text = 2048;
inline constexpr std::size_t longest_control_message =
    sizeof(control_message) + allfold::detail::longest_introduction + longest_text;

/// The head of a message that is at least that long.
[[nodiscard]] inline control_message head_of(std::span<const std::byte> raw) noexcept {
    control_message head;
    std::memcpy(&head, raw.data(), sizeof head);
    return head;
}

[[nodiscard]] inline bool is_control_message(std::span<const std::byte> raw) noexcept {
    if (raw.size() < sizeof(control_message)) return false;
    const control_message head = head_of(raw);
    return raw.size() - sizeof head == std::size_t{head.introduced} + head.chars;
}

/// Calls visit(from, raw) for each control message that has arrived, and returns how many there were. Calls
/// refuse(from) for each other message with their tag, which is the program's.
template <class Visit, class Refuse>
std::uint64_t for_each_control_message(MPI_Comm comm, Visit visit, Refuse refuse) {
    for (std::uint64_t count = 0;;) {
        int there = 0;
        MPI_Status status;
        MPI_Message message;
        check(ALLFOLD_MPI(Improbe)(MPI_ANY_SOURCE, control_tag, comm, &there, &message, &status), "MPI_Improbe");
        if (there == 0) return count;
        const std::size_t bytes = bytes_of(status);  // the program's may be of any length
        const allfold::detail::bounce_buffer buffer(std::max<std::size_t>(1, bytes));
        check(ALLFOLD_MPI(Mrecv)(buffer.data(), static_cast<int>(bytes), MPI_BYTE, &message, &status), "MPI_Mrecv");
        const std::span<const std::byte> raw(buffer.data(), bytes);
        if (!is_control_message(raw)) {
            refuse(status.MPI_SOURCE);
            continue;
        }
        visit(status.MPI_SOURCE, raw);
        ++count;
    }
}

}  // namespace allfold::mpi::detail
