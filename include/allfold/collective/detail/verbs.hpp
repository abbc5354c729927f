// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "allfold/collective/plan.hpp"
#include "allfold/engine/launch.hpp"
#include "allfold/engine/operation.hpp"
#include "allfold/transport/detail/processors.hpp"

/// @file
/// The verbs that every collective has: call, `start`, `prepare` and `plan`.

namespace allfold::detail {

/// Where the rows of a call's arguments lie; what each collective says about its own.
struct placed {
    shape where{};
    int contributions = 1;    ///< for how many operands the result stands
    bool contributes = true;  ///< whether this rank's input matters
    bool receives = true;     ///< whether this rank gets a result
};

/// The shape of collectives whose arguments are all whole operands.
[[nodiscard]] constexpr shape whole(std::size_t rows) noexcept { return {rows, 0, rows, 0, rows}; }

template <class Comm>
void require_rows(collective goal, const Comm& comm, const char* what, std::size_t has, std::size_t needs) {
    if (has != needs)
        reject(errc::mismatch, goal, comm.rank(), {what, " has ", has, " elements, but ", needs, " are needed"});
}

template <class Comm>
void require_root(collective goal, const Comm& comm, int root) {
    if (root < 0 || root >= comm.size())
        reject(errc::bad_rank, goal, comm.rank(), {"root ", root, " is not in [0, ", comm.size(), ")"});
}

/// The blocks of a reduce_scatter or all_gather: the caller's partition, checked, or an even one.
template <class Comm>
[[nodiscard]] partition blocks_of(collective goal, const Comm& comm, const std::optional<partition>& given,
                                  std::size_t rows) {
    if (!given) return partition::even(rows, comm.size());
    if (given->blocks() != comm.size())
        reject(errc::bad_partition, goal, comm.rank(),
               {"the partition has ", given->blocks(), " blocks for ", comm.size(), " ranks"});
    if (given->total() != rows)
        reject(errc::bad_partition, goal, comm.rank(),
               {"the partition adds up to ", given->total(), " elements, but there are ", rows});
    return *given;
}

/// The arguments that a tuple of references to one (in place) or two makes.
template <collective Goal, class Op, class Data>
struct bound_to;
template <collective Goal, class Op, class X>
struct bound_to<Goal, Op, std::tuple<X>> {
    using type = arguments<Goal, Op, absent, X>;
};
template <collective Goal, class Op, class In, class Out>
struct bound_to<Goal, Op, std::tuple<In, Out>> {
    using type = arguments<Goal, Op, In, Out>;
};

enum class verb { call, start, prepare };

/// The function object behind the name of a collective. `Collective` has a `goal` and a static `place(comm, arguments,
/// root)` that returns `placed`; one that cuts its operand into blocks for the ranks `rows_to_cut(arguments)`, and
/// `place(comm, arguments, blocks)`.
///
/// Arguments are `(comm, x, op, options...)` in place or `(comm, in, out, op, options...)`; without `op` where nothing
/// is folded. The options come in any order: `root{r}`, `window{bytes}`, `deadline{2s}`, a `partition`, an order level,
/// an algorithm such as `ring{}`.
template <class Collective>
class verbs {
  public:
    /// Runs the collective and returns when this rank's part in it is complete.
    template <communicator Comm, class X, class... Rest>
    void operator()(Comm& comm, X&& x, Rest&&... rest) const {
        understand<verb::call>(comm, std::forward<X>(x), std::forward<Rest>(rest)...);
    }
    /// Starts the collective; the operation completes it.
    template <communicator Comm, class X, class... Rest>
    [[nodiscard]] operation start(Comm& comm, X&& x, Rest&&... rest) const {
        return understand<verb::start>(comm, std::forward<X>(x), std::forward<Rest>(rest)...);
    }
    /// Prepares the collective, to be started again and again with the same memory.
    template <communicator Comm, class X, class... Rest>
    [[nodiscard]] persistent prepare(Comm& comm, X&& x, Rest&&... rest) const {
        return understand<verb::prepare>(comm, std::forward<X>(x), std::forward<Rest>(rest)...);
    }
    /// The schedule that would run on `size` ranks that share memory, for an operand of `bytes` bytes at each of them.
    /// The laws are those of the operator on `Element`: name it where it is not float, `row<float, float>` of records.
    template <class Element = float, class Op, class... Options>
        requires(folds(Collective::goal) && !option<Op>)
    [[nodiscard]] allfold::plan plan(int size, std::size_t bytes, const Op&, const Options&... options) const {
        return make_plan<Element, Op>({size, bytes, usable_processors()}, option_set<Options...>(options...));
    }
    template <class... Options>
        requires(!folds(Collective::goal))
    [[nodiscard]] allfold::plan plan(int size, std::size_t bytes, const Options&... options) const {
        return make_plan<std::byte, no_fold>({size, bytes, usable_processors()}, option_set<Options...>(options...));
    }
    /// What would run on the ranks of a communicator: over its transport, or as its own collective.
    template <class Element = float, communicator Comm, class Op, class... Options>
        requires(folds(Collective::goal) && !option<Op>)
    [[nodiscard]] allfold::plan plan(const Comm& comm, std::size_t bytes, const Op&, const Options&... options) const {
        const option_set<Options...> understood(options...);
        const problem p{comm.size(), bytes, comm.processors()};
        const char* const why = reason_to_delegate<Collective::goal, Comm, Op, Element>(comm, p, understood);
        const allfold::plan own = make_plan<Element, Op, reach_of<Comm>>(p, understood, comm.group());
        if constexpr (can_delegate<Comm, Collective::goal, Op, Element, option_set<Options...>>())
            if (why) return own.delegated_to(Comm::native_name(name_of(Collective::goal)), why);
        return own;
    }
    template <communicator Comm, class... Options>
        requires(!folds(Collective::goal))
    [[nodiscard]] allfold::plan plan(const Comm& comm, std::size_t bytes, const Options&... options) const {
        return make_plan<std::byte, no_fold, reach_of<Comm>>({comm.size(), bytes, comm.processors()},
                                                             option_set<Options...>(options...), comm.group());
    }

  private:
    static constexpr collective goal = Collective::goal;
    static constexpr std::size_t operators = folds(goal) ? 1 : 0;

    /// Out of place when there is something behind the operator's place that is no option.
    template <class... Rest>
    [[nodiscard]] static consteval bool out_of_place() {
        if constexpr (sizeof...(Rest) <= operators)
            return false;
        else
            return !option<std::remove_cvref_t<std::tuple_element_t<operators, std::tuple<Rest...>>>>;
    }

    template <verb V, class Comm, class X, class... Rest>
    static auto understand(Comm& comm, X&& x, Rest&&... rest) {
        if constexpr (sizeof...(Rest) < operators)
            static_assert(sizeof...(Rest) >= operators,
                          "allfold: this collective folds: give it an operator: sum{}, ...");
        else if constexpr (out_of_place<Rest...>())
            return with_output<V>(comm, std::forward<X>(x), std::forward<Rest>(rest)...);
        else
            return add_operator<V>(comm, std::forward_as_tuple(std::forward<X>(x)), rest...);
    }
    template <verb V, class Comm, class In, class Out, class... Rest>
    static auto with_output(Comm& comm, In&& in, Out&& out, Rest&&... rest) {
        return add_operator<V>(comm, std::forward_as_tuple(std::forward<In>(in), std::forward<Out>(out)), rest...);
    }
    template <verb V, class Comm, class Data, class... Rest>
    static auto add_operator(Comm& comm, const Data& data, const Rest&... rest) {
        if constexpr (operators == 1)
            return with_options<V>(comm, data, rest...);
        else
            return with_options<V>(comm, data, no_fold{}, rest...);
    }
    template <verb V, class Comm, class Data, class Op, class... Options>
    static auto with_options(Comm& comm, const Data& data, const Op& op, const Options&... options) {
        constexpr bool known = (option<Options> && ...);
        static_assert(
            known,
            "allfold: unknown argument: behind the data and the operator come options: root{}, window{}, "
            "deadline{}, a partition, order::any, order::rank, order::tree, delegate::never, an algorithm such as "
            "ring{}");
        using bound = typename bound_to<goal, Op, Data>::type;
        if constexpr (known && is_foldable<Op, typename bound::state>())
            return issue<V, bound>(comm, data, op, option_set<Options...>(options...));
        else
            return result_of<V>();
    }

    /// A rank that finds its arguments wrong breaks the communicator, so that nobody waits for it.
    template <class Comm, class Body>
    static void breaking(Comm& comm, Body body) {
        try {
            body();
        } catch (...) {
            give_up(comm);
            throw;
        }
    }

    /// The end of the line: checks the arguments, finds schedule and memory, and does what the verb says.
    template <verb V, class Bound, class Comm, class Data, class Op, class Options>
    static auto issue(Comm& comm, const Data& data, const Op& op, const Options& options) {
        const auto go = [&](Bound& arguments, auto run_or_prepare) {
            const auto launch = [&](const placed& where, const partition* blocks) {
                arguments.check(where.where, comm.rank(), where.contributes, where.receives);
                arguments.place(where.where, where.contributions);
                run_or_prepare(launcher<goal, Comm, Op, Bound, Options>(comm, options, where.where.rows, blocks));
            };
            if constexpr (requires { Collective::rows_to_cut(arguments); }) {
                const partition blocks = blocks_of(goal, comm, options.blocks, Collective::rows_to_cut(arguments));
                launch(Collective::place(comm, std::as_const(arguments), blocks), &blocks);
            } else {
                launch(Collective::place(comm, std::as_const(arguments), options.root), nullptr);
            }
        };
        if constexpr (V == verb::call) {
            breaking(comm, [&] {
                auto arguments = std::apply([&](auto&... x) { return Bound(op, x...); }, data);
                go(arguments, [&](auto launch) { launch.run(arguments); });
            });
        } else {
            std::unique_ptr<pending> work;
            breaking(comm, [&] {
                auto arguments = std::apply([&](auto&... x) { return std::make_unique<Bound>(op, x...); }, data);
                go(*arguments, [&](auto launch) { work = launch.prepare(std::move(arguments)); });
                if constexpr (V == verb::start) work->start();
            });
            return std::conditional_t < V == verb::start, operation, persistent > (std::move(work));
        }
    }

    template <class Op, class Element>
    [[nodiscard]] static consteval bool is_foldable() {
        if constexpr (operators == 1)
            return require_associative<Op, Element>();
        else
            return true;
    }
    template <verb V>
    [[nodiscard]] static auto result_of() {
        if constexpr (V == verb::start)
            return operation();
        else if constexpr (V == verb::prepare)
            return persistent();
    }

    template <class Element, class Op, reach Reach = reach::memory, class Options>
    [[nodiscard]] static allfold::plan make_plan(const problem& p, const Options& options, int group = 1) {
        if (p.size < 1) reject(errc::bad_argument, goal, 0, {"a plan for ", p.size, " ranks"});
        std::optional<allfold::plan> made;
        with_schedule<goal, Reach, Op, Element, Options>(p, [&]<class Schedule>(const char* why) {
            if constexpr (fits<Schedule, Op, Element, typename Options::order_type>()) {
                require_support<Schedule>(goal, 0, p.size, group);
                made.emplace(
                    goal, Schedule::keeps, Schedule::algorithm::name, why, p.bytes,
                    any_schedule::of(make_schedule<Schedule>(0, p.size, options.root, group), options.root, group));
            }
        });
        return *made;
    }
};

}  // namespace allfold::detail
