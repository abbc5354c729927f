// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <optional>

#include "allfold/schedule/fusion.hpp"
#include "allfold/schedule/step.hpp"

namespace allfold::detail {

/// The schedules of all ranks behind one interface, so that the interpreter is compiled once and not for each of them.
class schedules {
  public:
    [[nodiscard]] virtual constexpr int blocks(int rank) const = 0;
    [[nodiscard]] virtual constexpr int rounds(int rank) const = 0;
    /// How many blocks of a scratch slot belong to one of the others.
    [[nodiscard]] virtual constexpr int scratch_copies(int rank) const = 0;
    [[nodiscard]] virtual constexpr step at(int rank, int round) const = 0;
    [[nodiscard]] virtual constexpr step also(int rank, int round) const = 0;
    [[nodiscard]] virtual constexpr block_set sent_to(int rank, int round, int peer) const = 0;
    [[nodiscard]] virtual constexpr block_set received_from(int rank, int round, int peer) const = 0;
    [[nodiscard]] virtual constexpr std::optional<fused_pass> fused(int rank) const = 0;

  protected:
    constexpr ~schedules() = default;
};

template <class Make>
class schedules_made_by final : public schedules {
  public:
    constexpr explicit schedules_made_by(const Make& make) : make_(make) {}
    [[nodiscard]] constexpr int blocks(int rank) const override { return make_(rank).blocks(); }
    [[nodiscard]] constexpr int rounds(int rank) const override { return make_(rank).rounds(); }
    [[nodiscard]] constexpr int scratch_copies(int rank) const override { return scratch_copies_of(make_(rank)); }
    [[nodiscard]] constexpr step at(int rank, int round) const override { return make_(rank)[round]; }
    [[nodiscard]] constexpr step also(int rank, int round) const override { return also_of(make_(rank), round); }
    [[nodiscard]] constexpr block_set sent_to(int rank, int round, int peer) const override {
        return allfold::sent_to(make_(rank), per_peer, round, peer);
    }
    [[nodiscard]] constexpr block_set received_from(int rank, int round, int peer) const override {
        return allfold::received_from(make_(rank), per_peer, round, peer);
    }
    [[nodiscard]] constexpr std::optional<fused_pass> fused(int rank) const override {
        return allfold::fused(make_(rank));
    }

  private:
    static constexpr step per_peer{.sent = addressed::per_peer, .received = addressed::per_peer};

    const Make& make_;
};

}  // namespace allfold::detail
