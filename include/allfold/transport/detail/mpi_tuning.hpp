// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "allfold/transport/detail/envelope.hpp"
#include "allfold/transport/detail/mpi_calls.hpp"

/// @file
/// The tuning of the MPI transport.

namespace allfold::mpi {

/// The longest message that a library takes over at once between processes of one node: by default 4040 bytes (Open MPI
/// 4.1) or 8248 (MPICH 4.0).
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

/// The tuning of the MPI transport, with the measurements behind each number.
struct tuning {
    /// Messages up to this size are copied and sent along with their envelope. Open MPI 4.1: with a limit of 16 KiB,
    /// messages of 32 and 64 KiB take 1.3x to 1.9x the time; 128 KiB gains nothing. MPICH 4.0, in chunks: 160 KiB
    /// rather than 64 makes messages in between 1.1x to 2x faster; with 256 KiB, all_reduce of 1 and 4 MiB takes 1.3x
    /// to 1.7x the time. Two processes.
    std::size_t eager_bytes = default_eager_bytes;
    /// A copied message of more bytes than this, envelope included, is sent in chunks of this size, which the library
    /// takes over at once. 0: as a whole. Two processes of one node: over Open MPI, all_reduce of 4 KiB takes 0.9 us in
    /// two chunks and 3.1 us as a whole; of 16 KiB 2.4 and 4.5 us, over MPICH 1.8 and 4.8 us; broadcast of 64 KiB takes
    /// 6.0 and 8.9 us, over MPICH 3.6 and 9.0 us. Chunks are slower over Open MPI from 32 KiB on, by up to 1.6x, if the
    /// cores share no cache.
    std::size_t chunk_bytes = default_chunk_bytes;
    /// Parts of at least this size are sent by themselves if the message as a whole does not fit with its envelope.
    std::size_t long_bytes = std::size_t{4} << 10;
    /// The longest message that MPI is given; longer ones are sent in pieces. Counts are `int` before MPI-4.
    std::size_t piece_bytes = MPI_VERSION >= 4 ? std::size_t{1} << 62 : std::size_t{1} << 30;
    /// Tags to use; 0: as many as MPI has.
    int tags = 0;
    /// Polls before a waiting rank begins to yield; with more ranks than CPUs on a node it yields from the first on.
    unsigned spins = 20000;
    /// A rank that has been stuck for this long notifies the one that it waits for.
    std::chrono::milliseconds notice{100};
    /// The longest time that a rank waits, after a failure, for others to let go of its memory.
    std::chrono::milliseconds patience{3000};

    /// From this many bytes on, operands are left to MPI's own collective, for operators that MPI knows. Two processes:
    /// after an agreement of 0.3 to 1 us, MPI's own is faster in few cases (Open MPI: reduce of 256 KiB to 4 MiB by
    /// 1.1x to 1.2x, exclusive scans from 1 MiB by 1.1x), and far slower in others (MPICH: scans by 17x, reduce from 64
    /// KiB by 1.3x to 6x; Open MPI: reduce_scatter by 2x to 20x).
    std::size_t native_from = std::size_t{1} << 62;
    std::size_t native_all_reduce_from = std::size_t{1} << 62;
    std::size_t native_reduce_from = default_native_reduce;

    friend bool operator==(const tuning&, const tuning&) = default;
};

namespace detail {

/// How a copied payload is cut into chunks.
class chunks {
  public:
    chunks(const tuning& numbers, std::size_t bytes) noexcept : numbers_(numbers), bytes_(bytes) {}

    [[nodiscard]] bool are_several() const noexcept {
        return bytes_ + allfold::detail::envelope_bytes > numbers_.chunk_bytes && numbers_.chunk_bytes >= shortest &&
               bytes_ <= numbers_.eager_bytes;
    }
    /// Bytes sent along with the envelope.
    [[nodiscard]] std::size_t first() const noexcept {
        using namespace allfold::detail;
        return whole_lines(numbers_.chunk_bytes - envelope_bytes - payload_table::padded_bytes(0));
    }
    /// Bytes of each of the others but the last.
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

/// The longest payload that is copied and sent along as a whole.
[[nodiscard]] inline std::size_t longest_whole(const tuning& numbers) noexcept {
    const std::size_t most = numbers.eager_bytes;
    if (!chunks(numbers, most).are_several()) return most;
    return std::min(most, numbers.chunk_bytes - allfold::detail::envelope_bytes);
}
/// The longest of those whose exact length their envelopes state.
[[nodiscard]] inline std::size_t longest_plain(const tuning& numbers) noexcept {
    return std::min<std::size_t>(longest_whole(numbers), UINT16_MAX - allfold::detail::envelope_bytes);
}

}  // namespace detail
}  // namespace allfold::mpi
