// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <array>
#include <cstddef>
#include <optional>
#include <utility>

#include "allfold/engine/rows.hpp"
#include "allfold/engine/short_call.hpp"
#include "allfold/engine/short_run.hpp"
#include "allfold/transport/background.hpp"
#include "allfold/transport/communicator.hpp"

/// @file
/// Runs several remembered calls at once: all of them send before any of them waits.

namespace allfold::detail {

/// A remembered call and its operands, which the caller keeps in place; nothing if the call is not remembered.
struct recalled_call {
    const short_call* what = nullptr;
    row_layout rows;
    std::array<std::byte*, short_call::max_columns> input, result;  ///< the columns that it has
};

/// Models `pending_work`: done when all of its calls are.
template <communicator Comm, std::size_t Calls>
class short_runs {
  public:
    short_runs(Comm& comm, const std::array<recalled_call, Calls>& calls)
        : short_runs(comm, calls, std::make_index_sequence<Calls>()) {}
    short_runs(const short_runs&) = delete;
    short_runs& operator=(const short_runs&) = delete;

    /// This thread has nothing else in flight.
    void run() {
        for (part& each : parts_) {
            static_cast<void>(each.run.post_first());
            comm_.announce_again(each.all.on, each.all.what.agreed, each.all.what.hash);  // while they are in transit
        }
        while (done_ < Calls && parts_[done_].run.wait_briefly()) ++done_;
        if (done_ < Calls) comm_.wait(*this, std::nullopt);
        for (const part& each : parts_) each.all.what.lower(each.all.rows, each.all.result.columns);
    }

    [[nodiscard]] bool poll() {
        for (std::size_t i = done_; i < Calls; ++i) {  // none waits for another
            part& each = parts_[i];
            if (!each.is_done) each.is_done = each.run.poll();
            if (each.is_done && i == done_) ++done_;
        }
        return done_ == Calls;
    }
    [[nodiscard]] waiting blocked_on() const { return parts_[done_].run.blocked_on(); }
    void check() const { parts_[done_].run.check(); }

  private:
    struct part {
        part(Comm& comm, const recalled_call& call)
            : all{comm,
                  *call.what,
                  call.rows,
                  {call.input.data()},
                  {call.result.data()},
                  comm.open_again(call.what->agreed, call.what->hash),
                  0},
              run(all) {
            all.hash = comm.background().follow(call.what->hash, all.on);
        }
        part(const part&) = delete;
        part& operator=(const part&) = delete;

        short_operands<Comm> all;
        short_run<Comm> run;
        bool is_done = false;
    };

    template <std::size_t... I>
    short_runs(Comm& comm, const std::array<recalled_call, Calls>& calls, std::index_sequence<I...>)
        : comm_(comm), parts_{part(comm, calls[I])...} {}

    Comm& comm_;
    part parts_[Calls];
    std::size_t done_ = 0;  // how many of the first ones
};

template <communicator Comm, std::size_t Calls>
[[gnu::noinline]] void run_together(Comm& comm, const std::array<recalled_call, Calls>& calls) {
    short_runs<Comm, Calls>(comm, calls).run();
}

}  // namespace allfold::detail
