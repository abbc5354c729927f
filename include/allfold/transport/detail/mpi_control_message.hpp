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
/// What ranks let each other know outside of their collectives, as it travels through MPI.

namespace allfold::mpi::detail {

/// How a control message begins. An introduction of the blocked call may follow, then a text.
struct control_message {
    /// The last one is said in a team that has failed, and wants the other rank to say the same.
    enum class kind : std::uint32_t { failed, blocked, departed, farewell };
    kind what = kind::failed;
    errc code = errc::peer_failed;  ///< of a failure, whose reason is the text
    std::int32_t round = 0;         ///< of a blocked rank, whose collective the text names
    std::int32_t rounds = 0;
    lane on = 0;
    std::uint32_t call = 0;        ///< hash of the blocked call
    std::uint32_t team = 0;        ///< of those that share a carrier
    std::uint32_t list = 0;        ///< mark of its members, as the sender has given them
    std::uint32_t introduced = 0;  ///< bytes of the introduction
    std::uint32_t chars = 0;       ///< of the text
};
inline constexpr std::size_t longest_text = 2048;
inline constexpr std::size_t longest_control_message =
    sizeof(control_message) + allfold::detail::longest_introduction + longest_text;

/// Of a message that `for_each_control_message` has let through.
[[nodiscard]] inline control_message head_of(std::span<const std::byte> raw) noexcept {
    control_message head;
    std::memcpy(&head, raw.data(), sizeof head);
    return head;
}

/// Calls visit(from, raw) for all that are there, and returns how many.
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
