// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <cstddef>
#include <cstdint>

#include "allfold/engine/rows.hpp"
#include "allfold/engine/short_call.hpp"
#include "allfold/engine/short_program.hpp"
#include "allfold/engine/short_run.hpp"
#include "allfold/transport/background.hpp"
#include "allfold/transport/communicator.hpp"
#include "allfold/transport/detail/copy.hpp"

/// @file
/// Runs a remembered call that has at most one message each way, as most calls between two ranks do: straight through,
/// without loops over rounds or messages. What `short_run` decides when a call has to wait is still decided there.

namespace allfold::detail {

/// The rest of a call with at most one message each way, if that does not arrive at once, or is not as expected.
template <communicator Comm>
[[gnu::noinline]] void finish_pair(const short_operands<Comm>& all, bool has_posted) {
    const short_program::round& now = all.what.program[0];
    const std::size_t posted = has_posted ? now.to.size() : 0;
    const std::size_t received = has_posted ? take_messages(all, now) : 0;
    if (!has_posted || received < now.from.size()) wait_for_rest(all, 0, posted, received, false);
}

/// Runs a call again that has at most one message each way, as most calls between two ranks do. As little as possible
/// happens between the arrival of one message and the departure of the next: everything else is done while they are in
/// transit. Its operands provide `write(message, memory)`, `work(round)`, `combine(round, data)` and `finish(lane,
/// hash, has_posted)`. All of it is a single function, and operands are never copied, so that they stay in registers.
template <communicator Comm, class Operands>
[[gnu::always_inline]] inline void run_pair(Comm& comm, const short_call& what, const Operands& operands) {
    const short_program::round& now = what.program[0];
    const lane on = comm.open_again(what.agreed, what.hash);
    const std::uint32_t hash = comm.background().chain(what.hash);
    bool has_posted = true;
    if (!now.to.empty()) {
        const short_program::message& to = now.to[0];
        has_posted =
            comm.post_copy(to.peer, on, false, hash, to.bytes, true,
                           [&](destination memory) __attribute__((always_inline)) { operands.write(to, memory); });
    }
    comm.background().note_call(on);
    comm.announce_again(on, what.agreed, what.hash);
    if (has_posted && now.local != local_work::kind::none) operands.work(now);
    if (has_posted && now.from.empty()) return;
    if (has_posted) [[likely]]
        if (const short_program::message& from = now.from[0]; comm.use_in_place(
                from.peer, on, hash, from.bytes,
                [&](const std::byte* data) __attribute__((always_inline)) { operands.combine(now, data); })) [[likely]]
            return;
    operands.finish(on, hash, has_posted);
}

/// Operands with a single column.
template <communicator Comm>
struct flat_operands {
    Comm& comm;
    const short_call& what;
    const row_functions& functions;
    const void* operation;
    std::byte* input;
    std::byte* result;

    using round = short_program::round;
    using message = short_program::message;

    [[gnu::always_inline]] void write(const message& to, destination memory) const {
        copy_to_shared(memory, input + to.first_byte, to.bytes);
    }
    [[gnu::always_inline]] void combine(const round& now, const std::byte* data) const {
        const message& from = now.from[0];
        std::byte* const to = result + from.first_byte;
        if (now.how == fold::store) return copy_short(to, data, from.bytes);
        const std::byte* const own = (now.folds_result ? result : input) + now.own_first_byte;
        const background::running inside(comm.background());
        functions.fold_column(operation, now.how == fold::left ? data : own, now.how == fold::left ? own : data, to,
                              from.rows.count);
    }
    [[gnu::always_inline]] void work(const round& now) const {
        work(comm, what, functions, operation, input, result, now);
    }
    [[gnu::always_inline]] void finish(lane on, std::uint32_t hash, bool has_posted) const {
        finish(comm, what, functions, operation, input, result, on, hash, has_posted);
    }

  private:
    // Rare cases are passed each member separately: a whole object would have to be assembled for every call.
    [[gnu::noinline]] static void work(Comm& comm, const short_call& what, const row_functions& functions,
                                       const void* operation, std::byte* input, std::byte* result, const round& now) {
        const row_layout rows = layout(what, functions, operation);
        short_operands<Comm>{comm, what, rows, {&input}, {&result}, 0, 0}.work(now);
    }
    [[gnu::noinline]] static void finish(Comm& comm, const short_call& what, const row_functions& functions,
                                         const void* operation, std::byte* input, std::byte* result, lane on,
                                         std::uint32_t hash, bool has_posted) {
        const row_layout rows = layout(what, functions, operation);
        finish_pair(short_operands<Comm>{comm, what, rows, {&input}, {&result}, on, hash}, has_posted);
    }
    [[nodiscard]] static row_layout layout(const short_call& what, const row_functions& functions,
                                           const void* operation) {
        return {&functions, operation, what.bytes.data(), what.bytes[0], what.alignment};
    }
};
template <communicator Comm>
[[gnu::noinline]] void run_flat_pair(Comm& comm, const short_call& what, const row_functions& functions,
                                     const void* operation, std::byte* input, std::byte* result) {
    run_pair(comm, what, flat_operands<Comm>{comm, what, functions, operation, input, result});
}

/// Operands with several columns.
template <communicator Comm>
struct row_operands {
    Comm& comm;
    const short_call& what;
    const row_layout& rows;
    const short_memory& input;
    const short_memory& result;

    [[nodiscard]] short_operands<Comm> all(lane on = 0, std::uint32_t hash = 0) const {
        return {comm, what, rows, input, result, on, hash};
    }
    void write(const short_program::message& to, destination memory) const { all().write(to, input, memory); }
    void work(const short_program::round& now) const { all().work(now); }
    void combine(const short_program::round& now, const std::byte* data) const {
        all().combine(now, now.from[0], const_cast<std::byte*>(data));
    }
    void finish(lane on, std::uint32_t hash, bool has_posted) const { finish_pair(all(on, hash), has_posted); }
};
template <communicator Comm>
[[gnu::noinline]] void run_pair_of_rows(Comm& comm, const short_call& what, const row_layout& rows,
                                        const short_memory& input, const short_memory& result) {
    run_pair(comm, what, row_operands<Comm>{comm, what, rows, input, result});
}

}  // namespace allfold::detail
