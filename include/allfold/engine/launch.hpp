// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "allfold/algebra/diagnose.hpp"
#include "allfold/engine/agreement.hpp"
#include "allfold/engine/any_plan.hpp"
#include "allfold/engine/arguments.hpp"
#include "allfold/engine/choose.hpp"
#include "allfold/engine/detail/type_name.hpp"
#include "allfold/engine/options.hpp"
#include "allfold/engine/task.hpp"
#include "allfold/engine/wire.hpp"

/// @file
/// From the arguments of a collective to a running call: which schedule, which blocks, which windows.

namespace allfold::detail {

/// The order level of a call: what the caller asked for; else rank order unless the operator is commutative.
template <class Op, class Element, class OrderOption>
[[nodiscard]] constexpr order level_of() noexcept {
    if constexpr (!std::is_void_v<OrderOption>)
        return OrderOption{};
    else if constexpr (commutative_operator<Op, Element>)
        return order::any;
    else
        return order::rank;
}

/// Whether operator and schedule fit what is asked for; where not, one line of the compiler says what to write.
template <class Schedule, class Op, class Element, class OrderOption>
[[nodiscard]] consteval bool fits() {
    constexpr order keeps = Schedule::keeps;
    if constexpr (!folds(Schedule::goal)) {
        return true;
    } else if constexpr (keeps == order::any && !commutative_operator<Op, Element>) {
        return require_commutative<Op, Element>();
    } else {
        constexpr bool enough = keeps >= level_of<Op, Element, OrderOption>();
        static_assert(enough,
                      "allfold: this schedule cannot give the order level that the call asks for: see `keeps` of "
                      "the schedule, or name none and let allfold choose");
        return enough;
    }
}

/// What ranks can do for each other.
enum class reach : std::uint8_t {
    memory,    ///< all share memory
    messages,  ///< they exchange messages
    levels     ///< groups share memory, and only the first ones of groups exchange messages
};

template <class Comm>
inline constexpr reach reach_of = Comm::has_groups      ? reach::levels
                                  : Comm::shares_memory ? reach::memory
                                                        : reach::messages;

/// Runs `use.operator()<Schedule>(reason)` with the schedule that the options name, or the chosen one.
template <collective Goal, reach Reach, class Op, class Element, class Options, class Use>
decltype(auto) with_schedule(const problem& p, Use&& use) {
    using algorithm = typename Options::algorithm_type;
    if constexpr (std::same_as<algorithm, automatic>) {
        constexpr order level = level_of<Op, Element, typename Options::order_type>();
        constexpr bool rotates = commutative_operator<Op, Element> && level == order::any;
        constexpr bool one_tree = level == order::tree;
        if constexpr (Reach == reach::levels)
            return choose_in_levels<Goal>(p, use);
        else
            return choose < Goal, Reach == reach::memory, rotates, one_tree > (p, use);
    } else {
        constexpr bool has = algorithm_for<algorithm, Goal>;
        static_assert(has, "allfold: this algorithm has no schedule for this collective: name another one, or none");
        if constexpr (has) {
            using chosen = typename schedule_in<algorithm, Goal>::type;
            constexpr bool reaches = Reach != reach::levels || grouped_schedule<chosen>;
            static_assert(reaches,
                          "allfold: between processes only their first threads talk: name two_level, "
                          "two_level_halving or no algorithm");
            if constexpr (reaches) return use.template operator()<chosen>("named by the caller");
        }
    }
}

template <schedule Schedule>
void require_support(collective goal, int rank, int size, int group) {
    if (supports<Schedule>(size, group)) return;
    const char* const name = Schedule::algorithm::name;
    if (group > 1)
        reject(errc::bad_argument, goal, rank, {name, " has no schedule for ", size, " ranks in groups of ", group});
    reject(errc::bad_argument, goal, rank, {name, " has no schedule for ", size, " ranks"});
}

/// Blocks of whole cache lines, so that no line has two writers.
template <class Kernel>
[[nodiscard]] partition cut_evenly(const Kernel& kernel, std::size_t rows, int blocks) {
    constexpr std::size_t line = 64;
    const std::size_t grain = std::max<std::size_t>(1, line / std::max<std::size_t>(1, kernel.row_bytes()));
    return partition::even_grains(rows, blocks, grain);
}

/// Rows of a block in one window; 0 asks for both steps of a slice owner in one pass.
template <class Schedule, class Comm, class Kernel>
[[nodiscard]] std::size_t rows_of_window(const Comm& comm, const Schedule& plan, const Kernel& kernel,
                                         const partition& blocks, std::optional<std::size_t> window_bytes) {
    const std::size_t largest = std::max<std::size_t>(1, blocks.largest());
    const std::size_t row_bytes = std::max<std::size_t>(1, kernel.row_bytes());
    const bool lent = comm.lends(largest * row_bytes, Kernel::packable);
    if constexpr (slice_owner_schedule<Schedule>)
        if (Comm::shares_memory && plan.owns_slices() && lent && !window_bytes) return 0;
    const bool pipelines = plan.rounds() > 1 || !plan.stays_right_in_place();
    const std::size_t bytes = window_bytes.value_or(lent && pipelines ? default_window_bytes : largest * row_bytes);
    return largest * row_bytes <= bytes ? largest : std::max<std::size_t>(1, bytes / row_bytes);
}

template <collective Goal, class Op, class Element, class Options>
[[nodiscard]] signature make_signature(const Options& options, std::size_t rows) {
    signature s;
    s.what = name_of(Goal);
    s.root = options.root;
    s.elements = rows;
    s.type_id = type_hash<Element> ^ (type_hash<Op> * 31) ^ (type_hash<typename Options::algorithm_type> * 1009);
    s.element_type = type_name<Element>;
    s.operator_type = type_name<Op>;
    s.schedule = Options::algorithm_type::name;
    if constexpr (folds(Goal)) s.level = level_of<Op, Element, typename Options::order_type>();
    return s;
}

/// What must agree besides: blocks, widths of rows and windows.
template <class Kernel>
[[nodiscard]] std::uint64_t layout_hash(const Kernel& kernel, const partition& blocks, std::size_t window_rows) {
    std::uint64_t h = window_rows;
    const auto mix = [&h](std::uint64_t x) { h = (h ^ x) * 0x100000001b3u; };
    for (std::size_t c = 0; c < Kernel::columns; ++c) mix(kernel.row_bytes(c));
    mix(static_cast<std::uint64_t>(blocks.blocks()));
    if (blocks.is_irregular())
        for (int b = 0; b < blocks.blocks(); ++b) mix(blocks.extent(b));
    else
        mix(blocks.largest());
    return h;
}

/// Whether a transport's own collective could do what a call asks for.
template <class Comm, collective Goal, class Op, class Element, class Options>
[[nodiscard]] consteval bool can_delegate() {
    if constexpr (folds(Goal))
        return Comm::template native<Op, Element>(name_of(Goal)) != nullptr &&
               std::same_as<typename Options::algorithm_type, automatic> &&
               level_of<Op, Element, typename Options::order_type>() == order::any;
    else
        return false;
}

/// Why a call is left to the transport; null where it is not.
template <collective Goal, class Comm, class Op, class Element, class Options>
[[nodiscard]] const char* reason_to_delegate([[maybe_unused]] const Comm& comm, [[maybe_unused]] const problem& p,
                                             [[maybe_unused]] const Options& options) {
    if constexpr (can_delegate<Comm, Goal, Op, Element, Options>()) {
        constexpr std::size_t most = std::numeric_limits<int>::max();  // how such transports count
        if (p.size < 2 || p.bytes == 0 || p.bytes / sizeof(Element) > most || options.window_bytes ||
            options.delegation == delegate::never)
            return nullptr;
        const char* const why = comm.prefers_native(name_of(Goal), p.bytes);
        if (options.delegation == delegate::always) return "delegated because the caller wants it";
        return why;
    }
    return nullptr;
}

/// Everything about a call but the choice of its schedule.
template <collective Goal, class Comm, class Op, class Arguments, class Options>
class launcher {
  public:
    using kernel_type = typename Arguments::kernel_type;
    using element = typename Arguments::state;
    using plan_type = any_plan<Goal>;

    /// `blocks`: of the caller's data, where the collective cuts it; null elsewhere. It must outlive the launcher.
    launcher(Comm& comm, const Options& options, std::size_t rows, const partition* blocks)
        : comm_(comm), options_(options), rows_(rows), blocks_(blocks) {}

    /// Blocking.
    void run(Arguments& arguments) {
        if (reason_to_delegate<Goal, Comm, Op, element, Options>(comm_, problem_of(arguments), options_))
            return run_native(arguments);
        if (const std::optional<plan_type> plan = plan_of(arguments)) {
            execution<Comm, plan_type, kernel_type> run([&] { return make_call(*plan, arguments); });
            try {
                run_to_end(comm_, run, options_.deadline);
            } catch (...) {
                if (comm_.holds_memory()) arguments.leave_behind();
                throw;
            }
        }
        arguments.finish();
    }

    /// In the background, not started.
    [[nodiscard]] std::unique_ptr<pending> prepare(std::unique_ptr<Arguments> arguments) {
        const std::optional<plan_type> plan = plan_of(*arguments);
        if (!plan) return nullptr;  // the compiler has refused the call
        Arguments& bound = *arguments;
        return std::make_unique<task<Comm, execution<Comm, plan_type, kernel_type>, Arguments>>(
            comm_, std::move(arguments), [&] { return make_call(*plan, bound); }, options_.deadline);
    }

  private:
    [[nodiscard]] problem problem_of(const Arguments& arguments) const {
        return {comm_.size(), rows_ * arguments.make_kernel().row_bytes(), comm_.processors()};
    }

    /// The transport's own collective, once all ranks agree.
    void run_native(Arguments& arguments) {
        if constexpr (can_delegate<Comm, Goal, Op, element, Options>()) {
            const kernel_type kernel = arguments.make_kernel();
            operands<kernel_type> memory;
            arguments.memory(kernel, memory);
            const partition whole = partition::even(rows_, 1);
            const partition& cut = blocks_ ? *blocks_ : whole;
            if (options_.delegation != delegate::always) {
                signature agreed = make_signature<Goal, Op, element>(options_, rows_);
                agreed.layout = layout_hash(kernel, cut, 0);
                agree(comm_, agreed, options_.deadline);
            }
            try {
                const typename Comm::native_function own = Comm::template native<Op, element>(name_of(Goal));
                own(comm_,
                    {name_of(Goal), memory.input[0], memory.result[0], rows_, options_.root, &cut, memory.in_place});
            } catch (...) {
                give_up(comm_);
                throw;
            }
            arguments.finish_native();
        }
    }

    [[nodiscard]] std::optional<plan_type> plan_of(const Arguments& arguments) {
        const int rank = comm_.rank(), size = comm_.size(), group = comm_.group();
        std::optional<plan_type> plan;
        with_schedule<Goal, reach_of<Comm>, Op, element, Options>(
            problem_of(arguments), [&]<class Schedule>(const char*) {
                if constexpr (require_carried<Comm, kernel_type>() &&
                              fits<Schedule, Op, element, typename Options::order_type>()) {
                    require_support<Schedule>(Goal, rank, size, group);
                    plan.emplace(make_schedule<Schedule>(rank, size, options_.root, group), options_.root, group);
                }
            });
        return plan;
    }

    [[nodiscard]] call<Comm, plan_type, kernel_type> make_call(const plan_type& plan, Arguments& arguments) {
        call<Comm, plan_type, kernel_type> all{comm_, plan, arguments.make_kernel(), operands<kernel_type>(),
                                               make_signature<Goal, Op, element>(options_, rows_)};
        const partition& cut = all.memory.blocks = cut_for(all.plan.blocks(), all.kernel);
        arguments.memory(all.kernel, all.memory);
        all.memory.window_rows = rows_of_window(comm_, all.plan, all.kernel, cut, options_.window_bytes);
        all.agreed.layout = layout_hash(all.kernel, blocks_ ? *blocks_ : cut, all.memory.window_rows);
        if constexpr (Comm::has_groups)  // processes may have different numbers of threads, by mistake
            all.agreed.layout ^= static_cast<std::uint64_t>(comm_.size()) << 32;
        all.hash = all.agreed.hash();
        all.stage_input = must_stage(all);
        return all;
    }
    [[nodiscard]] partition cut_for(int blocks, const kernel_type& kernel) const {
        if (blocks <= 1) return partition::even(rows_, 1);
        return blocks_ ? *blocks_ : cut_evenly(kernel, rows_, blocks);
    }

    /// In place, a schedule that was not made for it needs a copy of the input, unless its only messages are copied
    /// when they are posted.
    [[nodiscard]] bool must_stage(const call<Comm, plan_type, kernel_type>& all) const {
        if (!all.memory.in_place || all.plan.stays_right_in_place() || all.plan.rounds() == 0) return false;
        const std::size_t message = all.kernel.packed_bytes(all.memory.window_rows);
        return all.plan.rounds() > 1 || comm_.lends(message, kernel_type::packable);
    }

    Comm& comm_;
    const Options& options_;
    std::size_t rows_;
    const partition* blocks_;
};

}  // namespace allfold::detail
