// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <utility>

#include "allfold/transport/communicator.hpp"
#include "allfold/transport/thread.hpp"

namespace test {

/// Ranks that do not share memory, or behave like it: all messages are copied. Its group needs `roomy` buffers.
class remote {
  public:
    static constexpr bool shares_memory = false;
    using arrival_type = allfold::thread_communicator::arrival_type;

    explicit remote(allfold::thread_communicator& base) : base_(base) {}

    [[nodiscard]] int rank() const { return base_.rank(); }
    [[nodiscard]] int size() const { return base_.size(); }
    [[nodiscard]] allfold::background& background() { return base_.background(); }
    allfold::lane open(const allfold::signature& what, unsigned lanes) { return base_.open(what, lanes); }
    [[nodiscard]] std::optional<allfold::signature> announced(int peer, allfold::lane on) const {
        return base_.announced(peer, on);
    }
    [[nodiscard]] bool lends(std::size_t, bool) const { return false; }
    bool try_post(int to, allfold::lane on, const allfold::outgoing& message) {
        return base_.try_post(to, on, message);
    }
    template <class Sink>
    bool try_receive(int from, allfold::lane on, Sink&& sink) {
        return base_.try_receive(from, on, std::forward<Sink>(sink));
    }
    template <allfold::pending_work Work>
    void wait(Work& work, std::optional<std::chrono::steady_clock::time_point> deadline) {
        base_.wait(work, deadline);
    }
    void abandon() { base_.abandon(); }

  private:
    allfold::thread_communicator& base_;
};

static_assert(allfold::communicator<remote>);

inline constexpr allfold::thread_tuning roomy{.eager_bytes = std::size_t{1} << 20};

}  // namespace test
