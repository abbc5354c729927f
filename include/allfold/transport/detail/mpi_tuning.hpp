// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "allfold/transport/detail/envelope.hpp"
#include "allfold/transport/detail/mpi_calls.hpp"

/// @file
/// The numbers of the MPI transport.

namespace allfold::mpi {

/// What a library takes over at once between processes of one node is limited, by default, to 4040 bytes (Open MPI 4.1)
/// or 8248 (MPICH 4.0).
#if defined(OPEN_MPI)
inline constexpr std::size_t default_chunk_bytes = 4040, default_eager_bytes = std::size_t{64} << 10;
inline constexpr std::size_t default_native_reduce = std::size_t{128} << 10;
#elif defined(MPICH_VERSION)
inline constexpr std::size_t default_chunk_bytes = 8248, default_eager_bytes = std::size_t{160} << 10;
inline constexpr std::size_t default_native_reduce = std::size_t{1} << 62;
#else
inline constexpr std::size_t default_chunk_bytes = 0, default_eager_bytes = std::size_t{64} << 10;
inline constexpr std::size_t default_native_reduce = std::size_t{1} << 62;
#endif

/// The numbers of the MPI transport, with what was measured for each.
struct tuning {
    /// Up to here a message is copied and comes with its envelope. Open MPI 4.1: with a limit of 16 KiB messages of 32
    /// and 64 KiB take 1.3 to 1.9 times as long, 128 KiB is no gain. MPICH 4.0, in chunks: 160 KiB rather than 64 makes
    /// messages in between 1.1 to 2 times faster; with 256 KiB all_reduce of 1 and 4 MiB takes 1.3 to 1.7 times as
    /// long. Two processes.
    std::size_t eager_bytes = default_eager_bytes;
    /// Where a message that is copied has more bytes than this, envelope included, it goes in chunks of so many: what
    /// the library takes over at once. 0: as a whole. Two processes of one node, all_reduce of 4 KiB over Open MPI: 0.9
    /// us in two chunks, 3.1 as a whole; of 16 KiB 2.4 and 4.5, over MPICH 1.8 and 4.8; broadcast of 64 KiB 6.0
    /// and 8.9, 3.6 and 9.0. Slower: from 32 KiB, over Open MPI, by up to 1.6 times, where processors share no cache.
    std::size_t chunk_bytes = default_chunk_bytes;
    /// Parts from here on go by themselves where the message as a whole does not come with its envelope.
    std::size_t long_bytes = std::size_t{4} << 10;
    /// The longest message that MPI is given; longer ones go in pieces. Counts are `int` before MPI-4.
    std::size_t piece_bytes = MPI_VERSION >= 4 ? std::size_t{1} << 62 : std::size_t{1} << 30;
    /// Tags to use; 0: as many as MPI has.
    int tags = 0;
    /// Polls before a waiting rank begins to give its turns away; with more ranks on a node than processors it does so
    /// from the first.
    unsigned spins = 20000;
    /// A rank that is stuck for so long notifies the one that it waits for.
    std::chrono::milliseconds notice{100};
    /// After a failure a rank waits at most so long for others to let go of its memory.
    std::chrono::milliseconds patience{3000};

    /// Operands from so many bytes on are left to MPI's own collective, for operators that it knows. Two processes:
    /// after an agreement of 0.3 to 1 us MPI's own is faster in few cells (Open MPI: reduce of 256 KiB to 4 MiB 1.1 to
    /// 1.2 times, exclusive scans from 1 MiB 1.1 times), and slower in others by far (MPICH: scans 17 times, reduce
    /// from 64 KiB 1.3 to 6 times; Open MPI: reduce_scatter 2 to 20 times).
    std::size_t native_from = std::size_t{1} << 62;
    std::size_t native_all_reduce_from = std::size_t{1} << 62;
    std::size_t native_reduce_from = default_native_reduce;

    friend bool operator==(const tuning&, const tuning&) = default;
};

namespace detail {

/// How a payload that is copied is cut.
class chunks {
  public:
    chunks(const tuning& numbers, std::size_t bytes) noexcept : numbers_(numbers), bytes_(bytes) {}

    [[nodiscard]] bool are_several() const noexcept {
        return bytes_ + allfold::detail::envelope_bytes > numbers_.chunk_bytes && numbers_.chunk_bytes >= shortest &&
               bytes_ <= numbers_.eager_bytes;
    }
    /// What comes along with the envelope.
    [[nodiscard]] std::size_t first() const noexcept {
        using namespace allfold::detail;
        return whole_lines(numbers_.chunk_bytes - envelope_bytes - payload_table::padded_bytes(0));
    }
    /// Of the others but for the last.
    [[nodiscard]] std::size_t next() const noexcept { return whole_lines(numbers_.chunk_bytes); }

  private:
    [[nodiscard]] static std::size_t whole_lines(std::size_t bytes) noexcept {
        constexpr std::size_t line = allfold::detail::line_of_message;
        return bytes / line * line;
    }
    static constexpr std::size_t shortest = 256;
    const tuning& numbers_;
    std::size_t bytes_;
};

/// The longest payload that is copied and comes along as a whole, and whose length its envelope tells exactly.
[[nodiscard]] inline std::size_t longest_plain(const tuning& numbers) noexcept {
    std::size_t bytes = std::min<std::size_t>(numbers.eager_bytes, UINT16_MAX - allfold::detail::envelope_bytes);
    if (chunks(numbers, bytes).are_several())
        bytes = std::min(bytes, numbers.chunk_bytes - allfold::detail::envelope_bytes);
    return bytes;
}

}  // namespace detail
}  // namespace allfold::mpi
