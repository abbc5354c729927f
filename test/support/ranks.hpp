// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "allfold/error.hpp"
#include "allfold/transport/thread.hpp"
#include "test/support/watchdog.hpp"

/// @file
/// Groups of threads that cannot hang.

namespace test {

/// A function of a communicator, as one type: what starts threads would otherwise be compiled for each test.
template <class Comm>
class program_on {
  public:
    template <class Fn>
    explicit program_on(Fn& fn) noexcept : fn_(&fn), call_(&call<Fn>) {}
    void operator()(Comm& comm) const { call_(fn_, comm); }

  private:
    template <class Fn>
    static void call(const void* fn, Comm& comm) {
        (*static_cast<Fn*>(const_cast<void*>(fn)))(comm);
    }
    const void* fn_;
    void (*call_)(const void*, Comm&);
};

/// `allfold::run` under a watchdog.
template <class Fn>
void on_ranks(int size, Fn&& fn, const allfold::thread_tuning& tuning = {}) {
    const watchdog watch(std::to_string(size) + " ranks");
    allfold::run(size, program_on<allfold::thread_communicator>(fn), tuning);
}

/// How a rank's part of a test ended.
struct outcome {
    std::optional<allfold::errc> code;  ///< of an allfold::error
    std::string text;                   ///< of any exception; empty if there was none

    [[nodiscard]] bool succeeded() const { return text.empty(); }
    [[nodiscard]] bool says(std::string_view part) const { return text.find(part) != std::string::npos; }
};

/// To be called in an exception handler.
[[nodiscard]] inline outcome outcome_of_exception() {
    try {
        throw;
    } catch (const allfold::error& e) {
        return {e.code(), e.what()};
    } catch (const std::exception& e) {
        return {std::nullopt, e.what()};
    }
}

template <class Body>
[[nodiscard]] outcome outcome_of(Body body) {
    try {
        body();
    } catch (...) {
        return outcome_of_exception();
    }
    return {};
}

/// Runs `fn` on all ranks, and returns how it ended on each. Exceptions propagate after they have been recorded.
template <class Fn>
std::vector<outcome> outcomes_on_ranks(int size, Fn&& fn, const allfold::thread_tuning& tuning = {}) {
    std::vector<outcome> outcomes(static_cast<std::size_t>(size));
    const auto body = [&](allfold::thread_communicator& comm) {
        outcome& mine = outcomes[static_cast<std::size_t>(comm.rank())];
        try {
            fn(comm);
        } catch (...) {
            mine = outcome_of_exception();
            throw;
        }
    };
    try {
        on_ranks(size, body, tuning);
    } catch (const std::exception&) {  // already recorded
    }
    return outcomes;
}

/// A call that one rank makes only after it has ended on all others: whatever their deadlines are, this call is too
/// late.
class late_call {
  public:
    explicit late_call(int rank) : late_(rank) {}

    /// Called on each rank. The late rank runs `meanwhile()` until the others have ended.
    template <class Comm, class Call, class Meanwhile>
    void operator()(const Comm& comm, Call call, Meanwhile meanwhile) {
        if (comm.rank() == late_) {
            while (ended_ < comm.size() - 1) meanwhile();
            return call();
        }
        try {
            call();
        } catch (...) {
            ++ended_;
            throw;
        }
        ++ended_;
    }
    template <class Comm, class Call>
    void operator()(const Comm& comm, Call call) {
        (*this)(comm, call, [] { std::this_thread::yield(); });
    }

  private:
    int late_;
    std::atomic<int> ended_ = 0;
};

/// Buffers of 64 bytes, so that messages of only a few elements are already lent; and ranks that go to sleep at once.
inline constexpr allfold::thread_tuning impatient{.eager_bytes = 64, .spins = 0, .yields = 1};
/// The same, but each message to all other ranks is written once for all of them, as it is with many ranks.
inline constexpr allfold::thread_tuning noticing{.eager_bytes = 64, .spins = 0, .yields = 1, .notice_readers = 1};
/// Every core counts as far from every other core, wherever threads run, and is reached with streaming stores.
inline constexpr allfold::thread_tuning scattered{.far_latency = std::chrono::nanoseconds::min(),
                                                  .far_streamed_bytes = 0};

}  // namespace test
