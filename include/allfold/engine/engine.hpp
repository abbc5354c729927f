// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "allfold/engine/agreement.hpp"
#include "allfold/engine/arguments.hpp"
#include "allfold/engine/request.hpp"
#include "allfold/engine/short_task.hpp"
#include "allfold/engine/task.hpp"

/// @file
/// Turns what a call asks for into a running collective: decides which schedule, which blocks and which windows. One
/// per transport; the caller's types are not known here.

namespace allfold::detail {

/// The default length of a message in one window: short enough for the memory of the transport and for the cache.
inline constexpr std::size_t default_window_bytes = std::size_t{256} << 10;

/// For the choice of a schedule: stands for a size that each rank knows only of itself.
inline constexpr std::size_t unknown_bytes = std::size_t{1} << 62;

template <communicator Comm>
class engine {
  public:
    using native = typename Comm::native_function;

    /// Runs a collective, and returns when this rank's part in it is complete. `own`: the transport's own collective,
    /// if it has one.
    static void run(Comm& comm, const request& what, bound_arguments& arguments, native own);

    /// Prepares a collective for the background, without starting it. Null for an operation that was prepared earlier
    /// and receives late blocks.
    [[nodiscard]] static std::unique_ptr<pending> prepare(Comm& comm, const request& what,
                                                          std::unique_ptr<bound_arguments> arguments);

    /// Why a call is left to the transport; null if it is not.
    [[nodiscard]] static const char* reason_to_delegate(const Comm& comm, const char* name, std::size_t bytes,
                                                        std::size_t elements, const call_options& options) {
        constexpr std::size_t most = std::numeric_limits<int>::max();  // such transports count in int
        if (comm.size() < 2 || bytes == 0 || elements > most || options.window_bytes ||
            options.delegation == delegate::never || !comm.may_delegate())
            return nullptr;
        if (options.delegation == delegate::always) return "delegated at the caller's request";
        return comm.prefers_native(name, bytes);
    }

  private:
    static arguments_given lay_out(Comm& comm, const request& what, bound_arguments& arguments) {
        arguments_given call{
            what.collective.promise->name, what.options.setting_of(comm.rank(), comm.size(), comm.group()),
            arguments.is_in_place,         arguments.input_rows,
            arguments.output_rows,         &what.options};
        struct asked {  // converted where the shape is stored
            const request& what;
            const arguments_given& call;
            operator shape() const { return what.collective.lay_out(call); }
        };
        arguments.laid_out.emplace(asked{what, call});
        const std::vector<int>& list = arguments.where().destinations;  // the caller's own may be gone by the end
        call.where.destinations = list.empty() ? nullptr : list.data();
        arguments.check(call, arguments.where());
        return call;
    }

    [[nodiscard]] static bool delegates(const Comm& comm, const request& what, const bound_arguments& arguments) {
        const std::size_t rows = arguments.where().rows;
        return reason_to_delegate(comm, what.collective.promise->name, rows * arguments.rows().row_bytes, rows,
                                  what.options) != nullptr;
    }

    /// Runs the transport's own collective, once all ranks agree.
    static void run_native(Comm& comm, const request& what, bound_arguments& arguments, native own) {
        const shape& where = arguments.where();
        const row_layout rows = arguments.rows();
        operands memory;
        arguments.memory(memory);
        const partition blocks =
            what.collective.promise->cut == cut_for::ranks ? where.blocks : partition::even(where.rows, 1);
        if (what.options.delegation != delegate::always) {
            signature agreed;
            sign(agreed, comm, what, where.rows, rows);
            sign_blocks(agreed, blocks);
            agreed.largest_block = blocks.largest();
            agreed.permutation = what.options.mark_of_lists();
            agreed.lists = what.options.text_of_lists();
            agree(comm, agreed, what.options.deadline);
        }
        const auto row_of = [](const operand& o, std::size_t row) { return o.first + (row - o.first_row); };
        const place input = row_of(memory.input, where.input_first), result = row_of(memory.result, where.result_first);
        try {
            own(comm, {what.collective.promise->name, rows.address(input, 0), rows.address(result, 0), where.rows,
                       what.options.root, &blocks, memory.in_place});
        } catch (...) {
            abort_communicator(comm);
            throw;
        }
        // Such collectives leave the output of a rank whose result is a fold of nothing untouched.
        if (where.contributions == 0 && rows.functions->set_identity != nullptr)
            rows.functions->set_identity(rows, result, where.result_rows);
        arguments.finish(false);
    }

    /// A hash of what is known about the types only at run time; 0 if all of it is known at compile time.
    [[nodiscard]] static std::uint64_t hash_of_values(const request& what, const row_layout& rows) noexcept {
        const std::size_t stated = rows.alignment ^ rows.functions->alignment;
        return (stated << 2 ^ static_cast<std::size_t>(what.commutative)) * 0x9e3779b97f4a7c15u;
    }
    static void sign(signature& s, const Comm& comm, const request& what, std::size_t elements,
                     const row_layout& rows) {
        s.what = what.collective.promise->name;
        s.root = what.options.root;
        s.elements = elements;
        s.row_bytes = rows.row_bytes;
        s.ranks = static_cast<std::uint32_t>(comm.size());
        s.type_id = what.type_hash ^ what.algorithm_hash ^ hash_of_values(what, rows);
        s.alignment = static_cast<std::uint16_t>(rows.alignment);
        s.commutative = what.commutative;
        s.element_type = what.element_type;
        s.operator_type = what.operator_type;
        s.schedule = what.named != nullptr ? what.named->name : automatic::name;
        s.level = what.level;
    }

    [[nodiscard]] static call<Comm> make_call(Comm& comm, const request& what, const arguments_given& given,
                                              bound_arguments& arguments) {
        const contract& goal = *what.collective.promise;
        const shape& where = arguments.where();
        row_layout rows = arguments.rows();
        const bool of_result = goal.cut == cut_for::pairs || goal.cut == cut_for::owner;
        problem p{comm.size(), where.rows * rows.row_bytes, comm.processors(), what.level};
        p.short_values = are_short(arguments.value_bytes(), rows.row_bytes);
        if (where.own_lengths) {  // all ranks must make the same choice
            p.equal_blocks = false;
            p.bytes = unknown_bytes;
        }
        call<Comm> all{comm, goal, schedule_for(what, given, p), rows, {}, {}};  // constructed in place
        if (all.schedule.folds_once && all.schedule.rounds() > 0 && arguments.fold_values())
            all.rows = rows = arguments.rows();
        if (goal.cut == cut_for::schedule) cut_for_schedule(*arguments.laid_out, all);
        if (all.schedule.equal_blocks() &&
            !(where.blocks.is_uniform() && (!of_result || where.blocks == where.result_blocks)))
            given.reject(errc::bad_partition, {all.schedule.name(), " needs blocks of equal length, but ", where.rows,
                                               " elements are cut into ", where.blocks.blocks(), " blocks of up to ",
                                               where.blocks.largest()});
        if (what.options.check != nullptr) what.options.check(goal, all.schedule);
        sign(all.agreed, comm, what, where.own_lengths ? 0 : where.rows, rows);
        operands& memory = all.memory;
        memory.contributions = where.contributions;
        memory.blocks = &where.blocks;
        memory.result_blocks = of_result ? &where.result_blocks : &where.blocks;
        arguments.memory(memory);
        find_windows(all, what.options.window_bytes, where.own_lengths);
        find_notices(all);
        memory.stage_input = must_stage(all);
        all.agreed.window_rows = where.own_lengths || memory.fused ? 0 : memory.window_rows;
        all.agreed.largest_block = where.own_lengths ? 0 : where.blocks.largest();
        if (goal.cut == cut_for::ranks) sign_blocks(all.agreed, where.blocks);
        if (!where.own_lengths && rows.packable()) all.agreed.max_bytes = rows.packed_bytes(where.rows);
        all.agreed.permutation =
            goal.cut == cut_for::owner ? hash_of_setting(given.where) : what.options.mark_of_lists();
        all.agreed.lists = what.options.text_of_lists();
        return all;
    }
    static void cut_for_schedule(shape& where, const call<Comm>& all) {
        const int blocks = std::max(1, all.schedule.blocks());
        const bool are_equal = blocks == 1 || all.schedule.equal_blocks();
        where.blocks =
            are_equal ? partition::even(where.rows, blocks) : cut_evenly(where.rows, blocks, all.rows.row_bytes);
    }

    /// Decides how many rows of a block one window holds, or that both steps of a schedule run as a single pass.
    static void find_windows(call<Comm>& all, std::optional<std::size_t> window_bytes, bool own_lengths) {
        operands& memory = all.memory;
        const std::size_t largest =
            std::max<std::size_t>(1, std::max(memory.blocks->largest(), memory.result_blocks->largest()));
        const std::size_t row_bytes = std::max<std::size_t>(1, all.rows.row_bytes);
        memory.window_rows = largest;
        if (own_lengths) {  // no rank knows how many windows the others would have
            memory.copies = Comm::shares_memory && all.rows.packable() && all.comm.lends(largest * row_bytes, true) &&
                            copies_whole(all.comm.size(), all.comm.processors(), largest * row_bytes);
            return;
        }
        const bool lent = all.comm.lends(largest * row_bytes, all.rows.packable());
        if (!window_bytes && all.rows.packable() && all.goal.cut != cut_for::pairs &&
            detail::both_store(all.comm, all.schedule, all.goal.folds, largest * row_bytes)) {
            memory.fused = fused_pass_of(all.schedule);
            return;
        }
        const std::size_t copied =
            Comm::shares_memory && lent && !window_bytes && all.rows.packable()
                ? copied_window(all.schedule, all.goal.folds, all.comm.processors(), largest * row_bytes)
                : 0;
        memory.copies = copied > 0;
        if (Comm::shares_memory && !window_bytes && all.goal.folds)
            if (const auto pass = fused_pass_of(all.schedule);
                pass && (lent || pass->each != share::fold || lends_short_blocks(problem_of(all)))) {
                // A short scan is a single pass too: otherwise P - 1 prefixes would be copied into messages.
                if (!memory.copies) memory.fused = pass;
                return;
            }
        const bool pipelines = all.goal.cut != cut_for::pairs && (all.schedule.rounds() > 1 || !all.schedule.in_place);
        const std::size_t most = memory.copies       ? copied
                                 : lent && pipelines ? default_window_bytes
                                                     : largest * row_bytes;
        const std::size_t bytes = window_bytes.value_or(most);
        if (largest * row_bytes > bytes) memory.window_rows = std::max<std::size_t>(1, bytes / row_bytes);
    }

    [[nodiscard]] static problem problem_of(const call<Comm>& all) {
        return {all.comm.size(), all.memory.blocks->total() * all.rows.row_bytes, all.comm.processors()};
    }

    /// With many ranks: decides whether this rank posts notices. As soon as one of its messages is for many ranks, all
    /// of them are notices, so that messages on a lane stay in order.
    static void find_notices(call<Comm>& all) {
        if constexpr (Comm::has_notices && Comm::shares_memory) {
            operands& memory = all.memory;
            const int self = all.comm.rank(), size = all.comm.size();
            if (!all.comm.posts_notices(size - 1)) return;
            if (memory.fused) memory.posts_notices = true;
            bool lends = false;
            for (int r = 0; !memory.fused && r < all.schedule.rounds(); ++r) {
                const step now = all.schedule[r];
                memory.posts_notices |= all.comm.posts_notices(now.to.count(self, size));
                lends |= now.sent != addressed::alike && all.comm.lends(max_bytes_sent(all, r), all.rows.packable());
            }
            memory.lends_notices = memory.posts_notices && lends;
        }
    }
    /// An upper bound of what is sent to all peers together, if each of them gets blocks of its own.
    [[nodiscard]] static std::size_t max_bytes_sent(const call<Comm>& all, int round) {
        const int self = all.comm.rank();
        const peers to = all.schedule[round].to;
        std::size_t blocks = 0;
        for (int i = 0; i < to.count(self, all.comm.size()); ++i)
            blocks += static_cast<std::size_t>(all.schedule.sent_to(round, to.at(i, self)).size());
        const std::size_t most = all.rows.packed_bytes(all.memory.window_rows);
        return blocks * (most + all.rows.columns() * all.rows.alignment);
    }

    /// In place, a schedule that was not made for it needs a copy of the input, unless it has a single round whose
    /// messages are copied when they are posted.
    [[nodiscard]] static bool must_stage(const call<Comm>& all) {
        const int rounds = all.schedule.rounds();
        if (!all.memory.in_place || all.schedule.in_place || rounds == 0) return false;
        return rounds > 1 || all.lends(static_cast<std::size_t>(longest_message(all)) *
                                       all.rows.packed_bytes(all.memory.window_rows));
    }
    /// In blocks, of those that the only round sends; at least 1, so that a rank that only receives has a copy too.
    [[nodiscard]] static int longest_message(const call<Comm>& all) {
        const int self = all.comm.rank();
        const step now = all.schedule[0];
        int most = now.sent == addressed::alike ? now.send.size() : 0;
        for (int i = 0; now.sent == addressed::per_peer && i < now.to.count(self, all.comm.size()); ++i)
            most = std::max(most, all.schedule.sent_to(0, now.to.at(i, self)).size());
        return std::max(1, most + (now.has_more ? all.schedule.also(0).send.size() : 0));
    }
};

// Defined outside the class, where they would be inline: a precompiled engine must not be compiled again.

template <communicator Comm>
void engine<Comm>::run(Comm& comm, const request& what, bound_arguments& arguments, [[maybe_unused]] native own) {
    const arguments_given call = lay_out(comm, what, arguments);
    bool is_native = false;
    if constexpr (Comm::has_native) is_native = own != nullptr && delegates(comm, what, arguments);
    if constexpr (Comm::has_native)
        if (is_native) {
            require_outside_operator(comm, call.collective);
            arguments.begin(true);
            return run_native(comm, what, arguments, own);
        }
    execution<Comm> running([&] { return make_call(comm, what, call, arguments); });
    arguments.begin(false);
    try {
        run_to_end(comm, running, what.options.deadline);
    } catch (...) {
        if (comm.holds_memory()) arguments.leak();
        throw;
    }
    if constexpr (Comm::has_short_path)
        if (what.key != nullptr)
            short_calls::remember(arguments.has_states() ? what.key->of_states() : *what.key, running.about(),
                                  arguments.where());
    arguments.finish(running.lowers());
}

template <communicator Comm>
std::unique_ptr<pending> engine<Comm>::prepare(Comm& comm, const request& what,
                                               std::unique_ptr<bound_arguments> arguments) {
    bound_arguments& bound = *arguments;
    const arguments_given call = lay_out(comm, what, bound);
    if (pending* const before = what.options.prepared_before) {
        static_cast<execution_task<Comm>&>(*before).take_arguments(std::move(arguments),
                                                                   make_call(comm, what, call, bound));
        return nullptr;
    }
    auto made = std::make_unique<execution_task<Comm>>(
        comm, call.collective, std::move(arguments), [&] { return make_call(comm, what, call, bound); },
        what.options.deadline);
    if constexpr (Comm::has_short_path)
        if (what.key != nullptr && !bound.has_states() &&
            !delegates(comm, what, bound))  // delegated calls are delegated whatever is remembered
            if (const short_call* const known = short_calls::remember(*what.key, made->about(), bound.where()))
                return std::make_unique<bound_short_task<Comm>>(comm, *known, made->about().memory,
                                                                made->give_arguments());
    made->open();
    return made;
}

}  // namespace allfold::detail
