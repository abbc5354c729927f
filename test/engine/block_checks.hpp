// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "allfold/collective/all_gather.hpp"
#include "allfold/collective/reduce_scatter.hpp"
#include "allfold/data/partition.hpp"
#include "allfold/transport/thread.hpp"
#include "test/support/algebras.hpp"
#include "test/support/oracle.hpp"

/// @file
/// Collectives with a block for each rank, whose calls are made again.

namespace test {

/// Checks the collectives with blocks; `options` name them unless they are those of a call that names none. The data
/// depends on `salt`.
template <class... Options>
void check_blocks(allfold::thread_communicator& comm, const allfold::partition& blocks, int salt,
                  const std::string& where, const Options&... options) {
    const auto P = static_cast<std::size_t>(comm.size()), self = static_cast<std::size_t>(comm.rank());
    const std::size_t n = blocks.total();
    const auto sample = [&](std::size_t rank, std::size_t i) {
        return matrices::sample(static_cast<int>(rank), i + static_cast<std::size_t>(salt));
    };
    std::vector<matrix> in(n), block(blocks.extent(comm.rank())), all(n);
    for (std::size_t i = 0; i < n; ++i) in[i] = sample(self, i);
    allfold::reduce_scatter(comm, in, block, matrices::operation(), options...);
    for (std::size_t i = 0; i < block.size(); ++i) {
        const std::size_t at = blocks.offset(comm.rank()) + i;
        matrix wanted = sample(0, at);
        for (std::size_t r = 1; r < P; ++r) wanted = wanted * sample(r, at);
        expect(block[i] == wanted, where + ": reduce_scatter");
    }
    allfold::all_gather(comm, block, all, options...);
    allfold::reduce_scatter(comm, in, matrices::operation(), options...);
    for (std::size_t i = 0; i < block.size(); ++i)
        expect(in[blocks.offset(comm.rank()) + i] == block[i], where + ": reduce_scatter in place");
    for (std::size_t i = 0; i < n; ++i) {
        matrix wanted = sample(0, i);
        for (std::size_t r = 1; r < P; ++r) wanted = wanted * sample(r, i);
        expect(all[i] == wanted, where + ": all_gather");
    }
}

}  // namespace test
