// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <thread>

#include "allfold/error.hpp"
#include "allfold/transport/background.hpp"
#include "allfold/transport/communicator.hpp"

/// @file
/// The smallest transport: a single rank, which has no peers.

namespace allfold {

/// A communicator of one rank. Collectives copy their input to their output.
class self : public transport_defaults {
  public:
    static constexpr bool shares_memory = true;

    /// Never created: there is no other rank to send anything.
    struct arrival_type {
        [[nodiscard]] std::uint32_t signature() const noexcept { return 0; }
        [[nodiscard]] std::size_t bytes() const noexcept { return 0; }
        [[nodiscard]] std::byte* packed() const noexcept { return nullptr; }
        [[nodiscard]] std::span<const part> parts() const noexcept { return {}; }
    };

    self() = default;
    ~self() { background_.end(); }

    [[nodiscard]] int rank() const noexcept { return 0; }
    [[nodiscard]] int size() const noexcept { return 1; }
    [[nodiscard]] allfold::background& background() noexcept { return background_; }
    lane open(const signature&, unsigned lanes) noexcept { return next_ += lanes; }
    [[nodiscard]] std::optional<signature> announced(int, lane) const noexcept { return std::nullopt; }
    bool try_post(int, lane, const outgoing&) { nobody(); }
    template <class Sink>
    bool try_receive(int, lane, Sink&&) {
        nobody();
    }
    [[nodiscard]] bool lends(std::size_t, bool) const noexcept { return false; }
    template <pending_work Work>
    void wait(Work& work, std::optional<std::chrono::steady_clock::time_point> deadline) {
        for (;;) {
            // Asked for first: once a deadline has passed, the next poll throws.
            const bool is_timed = allfold::background::next_due() != std::chrono::steady_clock::time_point::max();
            if (work.poll()) return;
            work.check();
            if (deadline && std::chrono::steady_clock::now() >= *deadline)
                throw error(errc::timeout, "self: the deadline of rank 0 of 1 has passed");
            if (!is_timed && !background_.in_flight_elsewhere()) nobody();
            std::this_thread::yield();  // what it waits for may be sent at the end of an operation elsewhere
        }
    }
    template <pending_work Work>
    bool look_around(Work& work, std::optional<std::chrono::steady_clock::time_point>) {
        work.check();
        return false;
    }
    void abandon() noexcept {}

  private:
    [[noreturn]] static void nobody() { throw error(errc::bad_rank, "self: rank 0 of 1 has no peers"); }

    lane next_ = 0;
    allfold::background background_;
};

static_assert(communicator<self>);

}  // namespace allfold
