// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/collective/detail/verbs.hpp"

/// @file
/// Nobody leaves before everybody has come.

namespace allfold {
namespace detail {

struct barrier_verbs : verbs<barrier_verbs> {
    static constexpr collective goal = collective::barrier;

    template <communicator Comm, option... Options>
    void operator()(Comm& comm, const Options&... options) const {
        verbs::operator()(comm, nothing_to_move(), options...);
    }
    template <communicator Comm, option... Options>
    [[nodiscard]] operation start(Comm& comm, const Options&... options) const {
        return verbs::start(comm, nothing_to_move(), options...);
    }
    template <communicator Comm, option... Options>
    [[nodiscard]] persistent prepare(Comm& comm, const Options&... options) const {
        return verbs::prepare(comm, nothing_to_move(), options...);
    }

    template <class Comm, class Arguments>
    [[nodiscard]] static placed place(const Comm&, const Arguments&, int) {
        return {};
    }

  private:
    [[nodiscard]] static tensor<std::byte, 1> nothing_to_move() noexcept { return {nullptr, {0}}; }
};

}  // namespace detail

/// Returns when every rank has called it.
///
///     barrier(comm, options...)
///
/// - Cost: on shared memory up to 16 ranks 1 round of P-1 empty messages by each rank, else ceil(log2 P) rounds of one.
/// - What a rank wrote before the barrier is visible to every rank of the process behind it.
inline constexpr detail::barrier_verbs barrier{};

}  // namespace allfold
