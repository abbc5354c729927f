// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "allfold/engine/execution.hpp"
#include "allfold/engine/kernel.hpp"
#include "allfold/engine/task.hpp"
#include "allfold/error.hpp"
#include "allfold/schedule/dissemination.hpp"
#include "allfold/schedule/recursive_doubling.hpp"

/// @file
/// All ranks make sure that they make the same call, before it is left to a transport that does not ask.

namespace allfold::detail {

/// Equal, or 0 for ever.
struct equal_or_zero {
    [[nodiscard]] std::uint64_t operator()(const std::uint64_t& a, const std::uint64_t& b) const noexcept {
        return a == b ? a : 0;
    }
};

/// One collective that carries at most a word, with all that the engine has for one: failures, deadlines, mismatches.
template <schedule Schedule, class Comm, class Kernel>
void run_small(Comm& comm, Kernel kernel, const signature& what, std::uint32_t hash, std::uint64_t& mine,
               std::uint64_t& common, const std::optional<deadline>& limit) {
    execution<Comm, Schedule, Kernel> run([&] {
        call<Comm, Schedule, Kernel> all{comm, Schedule(comm.rank(), comm.size()), kernel, {}, what};
        all.hash = hash;
        all.memory.blocks = partition::even(1, 1);
        all.memory.window_rows = 1;
        all.memory.input = {reinterpret_cast<std::byte*>(&mine)};
        all.memory.result = {reinterpret_cast<std::byte*>(&common)};
        return all;
    });
    run_to_end(comm, run, limit);
}

/// Returns when all ranks have come to the call `what`; throws on every rank where one makes another call. Everybody
/// learns whether everybody agrees, so nobody goes on where another one has stopped.
template <communicator Comm>
void agree(Comm& comm, const signature& what, const std::optional<deadline>& limit) {
    constexpr std::uint32_t agreement = 0x61677265;  // what these messages bear: calls may differ, that is the question
    using word_kernel = kernel<equal_or_zero, std::uint64_t>;
    std::uint64_t mine = what.hash(), common = mine;
    run_small<recursive_doubling::all_reduce>(comm, word_kernel({}, {1}), what, agreement, mine, common, limit);
    if (common != 0) return;
    // Neighbours that differ find out here what it is; all others are told of them.
    using flag_kernel = kernel<no_fold, std::uint64_t>;
    run_small<dissemination::barrier>(comm, flag_kernel({}, {1}), what, what.hash(), mine, common, limit);
    throw error(errc::mismatch,
                text({name_of(what.what), ": rank ", comm.rank(), ": ranks do not make the same call"}));
}

}  // namespace allfold::detail
