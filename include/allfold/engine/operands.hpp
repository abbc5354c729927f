// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "allfold/data/partition.hpp"
#include "allfold/engine/kernel.hpp"
#include "allfold/engine/mismatch.hpp"
#include "allfold/schedule/step.hpp"
#include "allfold/transport/communicator.hpp"

/// @file
/// What a call of a collective consists of, once its arguments have been understood.

namespace allfold::detail {

/// The memory of one call at one rank. Rows are numbered over the whole operand; a slot may hold only some of them.
template <class Kernel>
struct operands {
    typename Kernel::place_type input{};
    typename Kernel::place_type result{};
    std::size_t input_first = 0;   ///< the row at `input`
    std::size_t result_first = 0;  ///< the row at `result`
    partition blocks = partition::even(0, 1);
    std::size_t window_rows = 0;  ///< rows of each block in one window; at least 1
    bool in_place = false;        ///< row for row, input and result are the same memory
};

/// One call at one rank: everything that does not change while it runs.
template <communicator Comm, schedule Schedule, class Kernel>
struct call {
    Comm& comm;
    Schedule plan;
    Kernel kernel;
    operands<Kernel> memory;
    signature agreed;
    std::uint32_t hash = 0;    ///< what messages bear: the signature's
    bool stage_input = false;  ///< copy the input of a window first: peers may read it while the result is written

    /// Throws unless the message of `peer` belongs to the same call.
    void check(std::uint32_t signature, int peer, lane on) const {
        if (signature != hash) [[unlikely]]
            disagree(peer, on);
    }
    [[noreturn]] void disagree(int peer, lane on) const {
        throw_mismatch(agreed, comm.announced(peer, on), comm.rank(), peer, comm.size());
    }
};

}  // namespace allfold::detail
