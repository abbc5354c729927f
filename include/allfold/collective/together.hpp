// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

#include "allfold/collective/detail/issue.hpp"
#include "allfold/engine/bundle.hpp"
#include "allfold/engine/composite.hpp"
#include "allfold/engine/operation.hpp"

/// @file
/// Several different collectives as one operation.

namespace allfold {
namespace detail {

/// A collective and the arguments of a call to it: what `with` of a collective returns. Refers to variables and keeps
/// everything else, so it may be used as long as the variables live.
template <class Collective, class... Arguments>
class bound_call {
  public:
    explicit bound_call(Arguments&&... arguments) : arguments_(std::forward<Arguments>(arguments)...) {}

    template <communicator Comm>
    [[nodiscard]] std::unique_ptr<pending> prepare(Comm& comm) {
        return handles::take(std::apply(
            [&](auto&&... each) { return Collective{}.prepare(comm, std::forward<decltype(each)>(each)...); },
            std::move(arguments_)));
    }
    /// The call as the communicator remembers it; nothing if it does not.
    template <communicator Comm>
    [[nodiscard]] recalled_call recall(Comm& comm) {
        return std::apply(
            [&](auto&... each) {
                if constexpr (requires { Collective{}.recall(comm, each...); })
                    return Collective{}.recall(comm, each...);
                else
                    return recalled_call{};
            },
            arguments_);
    }

  private:
    std::tuple<Arguments...> arguments_;
};
template <class T>
inline constexpr bool is_bound_call = false;
template <class... Types>
inline constexpr bool is_bound_call<bound_call<Types...>> = true;

inline constexpr const char* name_of_together = "together";

/// All parts are in flight at the same time.
template <communicator Comm>
class at_once : public composite<Comm> {
  public:
    using composite<Comm>::composite;
    ~at_once() override { this->leave_for_good(); }

    void wait_briefly() noexcept override {
        for (std::size_t i = 0; i < this->count(); ++i)
            if (!this->part(i).done()) this->part(i).wait_briefly();
        this->progress();
    }

  protected:
    void begin_run() override {
        for (std::size_t i = 0; i < this->count(); ++i) this->start_part(i);
    }
};

/// Short messages of the parts share packets.
template <communicator Comm>
class bundled final : public at_once<Comm> {
  public:
    bundled(Comm& comm, typename composite<Comm>::tasks parts, std::unique_ptr<bundle<Comm>> through)
        : at_once<Comm>(comm, name_of_together, std::move(parts)), shared_(through.get()) {
        this->keep(std::move(through));
    }
    ~bundled() override {
        this->leave_for_good();
        if (this->comm_ != nullptr) this->comm_->background().end(shared_);  // of parts that ended early
    }

    void check() const override {
        at_once<Comm>::check();
        if (const waiting where = this->blocked_on(); where.peer >= 0) shared_->check(where.peer);
    }
    void leak() noexcept override { shared_->leak(); }

  private:
    void announce_run() override {
        at_once<Comm>::announce_run();
        shared_->announce_packets();
    }
    void begin_run() override {
        at_once<Comm>::begin_run();
        shared_->flush();
    }
    bool poll_run() override { return shared_->flush() && at_once<Comm>::poll_run(); }

    bundle<Comm>* shared_;
};

struct together_verbs {
    template <communicator Comm, class... Parts>
    void operator()(Comm& comm, Parts&&... parts) const {
        if constexpr (Comm::shares_memory && (is_bound_call<std::remove_cvref_t<Parts>> && ...)) {
            const auto run = [&](auto&... each) { return run_recalled(comm, each...); };
            if (with_own(comm, run, std::forward<Parts>(parts)...)) return;
        }
        begin(comm, std::forward<Parts>(parts)...).wait();
    }
    template <communicator Comm, class... Parts>
    [[nodiscard]] operation start(Comm& comm, Parts&&... parts) const {
        return begin(comm, std::forward<Parts>(parts)...);
    }
    template <communicator Comm, class... Parts>
    [[nodiscard]] persistent prepare(Comm& comm, Parts&&... parts) const {
        return hand_out<verb::prepare>(make_all(comm, std::forward<Parts>(parts)...));
    }

  private:
    /// What a call may use up: a temporary part, or a copy of one that is kept in a variable.
    template <class Part>
    using own = std::conditional_t<std::is_same_v<Part, std::remove_cvref_t<Part>>, Part&&, std::remove_cvref_t<Part>>;

    /// Calls use(part...); other ranks are told if that fails, or copying does.
    template <communicator Comm, class Use, class... Parts>
    static auto with_own(Comm& comm, Use use, Parts&&... parts) {
        return detail::make_or_abort(comm, [&] {
            std::tuple<own<Parts>...> all(std::forward<Parts>(parts)...);
            return std::apply([&](auto&... each) { return use(each...); }, all);
        });
    }
    template <communicator Comm, class... Parts>
    static std::unique_ptr<pending> make_all(Comm& comm, Parts&&... parts) {
        return with_own(comm, [&](auto&... each) { return make(comm, each...); }, std::forward<Parts>(parts)...);
    }
    template <communicator Comm, class... Parts>
    [[nodiscard]] static operation begin(Comm& comm, Parts&&... parts) {
        return hand_out<verb::start>(make_all(comm, std::forward<Parts>(parts)...));
    }
    /// Runs the parts if the communicator remembers all of them; otherwise false.
    template <communicator Comm, class... Parts>
    [[nodiscard]] static bool run_recalled(Comm& comm, Parts&... parts) {
        if constexpr (Comm::has_short_path && sizeof...(Parts) > 0) {
            if (comm.background().is_running() || background::in_flight()) return false;
            const std::array<recalled_call, sizeof...(Parts)> calls{parts.recall(comm)...};
            for (const recalled_call& each : calls)
                if (each.what == nullptr) return false;
            run_together(comm, calls);
            return true;
        }
        return false;
    }

    template <communicator Comm, class... Parts>
    static std::unique_ptr<pending> make(Comm& comm, Parts&... parts) {
        constexpr bool are_calls = (is_bound_call<Parts> && ...);
        static_assert(are_calls,
                      "allfold: together takes calls: all_reduce.with(x, op), broadcast.with(y, root{1}), ...");
        if constexpr (are_calls) {
            require_outside_operator(comm, name_of_together);
            const background::preparing_parts preparing;
            typename composite<Comm>::tasks prepared;
            prepared.reserve(sizeof...(Parts));
            if constexpr (Comm::shares_memory) {
                (prepared.push_back(parts.prepare(comm)), ...);
                return std::make_unique<at_once<Comm>>(comm, name_of_together, std::move(prepared));
            } else {
                signature what;
                what.what = name_of_together;
                what.elements = sizeof...(Parts);
                what.ranks = static_cast<std::uint32_t>(comm.size());
                auto shared = std::make_unique<bundle<Comm>>(comm, what);
                (prepared.push_back(parts.prepare(*shared)), ...);
                return std::make_unique<bundled<Comm>>(comm, std::move(prepared), std::move(shared));
            }
        } else {
            return nullptr;
        }
    }
};

}  // namespace detail

/// Runs several collectives of one communicator as one operation: all are in flight at the same time, and the short
/// messages that a rank sends to a peer in the meantime are combined into one packet (D. Bonachea and others, the
/// collectives of GASNet, 2003, "Aggregation").
///
///     together(comm, all_reduce.with(loss, sum{}), broadcast.with(step), all_gather.with(mine, all))
///     operation op = together.start(comm, ...);
///     persistent op = together.prepare(comm, ...);
///
/// - Afterwards each rank holds what the collectives would have given it if called one after another. All ranks name
///   the same collectives in the same order.
/// - A part is any collective with any arguments and options; no part may use what another part writes. It may be kept
///   in a variable and used again: it refers to the variables that it was made with, and keeps all other arguments.
/// - Cost: the rounds of the longest part, not the sum over all parts. If ranks do not share memory, messages of parts
///   with at most 2 KiB in all are copied into packets; those of longer parts, and of objects, are sent on their own.
///   If they do, short parts that are called together again cost hardly more than their messages.
/// - Errors: those of the parts, and `mismatch` if ranks name different numbers of parts; on shared memory the latter
///   behaves as if one rank made one call fewer.
/// - Example: examples/collectives.cpp
inline constexpr detail::together_verbs together{};

}  // namespace allfold
