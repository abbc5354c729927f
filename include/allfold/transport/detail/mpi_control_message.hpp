// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "allfold/error.hpp"
#include "allfold/transport/communicator.hpp"
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

/// The head of a message that has passed the checks of `for_each_control_message`.
[[nodiscard]] inline control_message head_of(std::span<const std::byte> raw) noexcept {
    control_message head;
    std::memcpy(&head, raw.data(), sizeof head);
    return head;
}

/// Calls visit(from, raw) for each control message that has arrived, and returns how many there were.
template <class Visit>
std::uint64_t for_each_control_message(MPI_Comm comm, Visit visit) {
    for (std::uint64_t count = 0;; ++count) {
        int there = 0;
        MPI_Status status;
        MPI_Message message;
        check(ALLFOLD_MPI(Improbe)(MPI_ANY_SOURCE, control_tag, comm, &there, &message, &status), "MPI_Improbe");
        if (there == 0) return count;
        std::array<std::byte, longest_control_message> buffer;
        check(ALLFOLD_MPI(Mrecv)(buffer.data(), static_cast<int>(buffer.size()), MPI_BYTE, &message, &status),
              "MPI_Mrecv");
        const std::span<const std::byte> raw(buffer.data(), bytes_of(status));
        if (raw.size() < sizeof(control_message)) refuse_foreign(status.MPI_SOURCE, control_tag);
        const control_message head = head_of(raw);
        if (raw.size() - sizeof head != std::size_t{head.introduced} + head.chars)
            refuse_foreign(status.MPI_SOURCE, control_tag);
        visit(status.MPI_SOURCE, raw);
    }
}

}  // namespace allfold::mpi::detail
