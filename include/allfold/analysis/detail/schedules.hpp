// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <optional>
#include <type_traits>

#include "allfold/analysis/detail/constexpr_array.hpp"
#include "allfold/analysis/proof.hpp"
#include "allfold/schedule/fusion.hpp"
#include "allfold/schedule/step.hpp"

namespace allfold::detail {

/// The schedules of all ranks behind one interface, so that the interpreter is compiled once rather than for each type.
class schedules {
  public:
    [[nodiscard]] virtual constexpr int blocks(int rank) const = 0;
    [[nodiscard]] virtual constexpr int rounds(int rank) const = 0;
    [[nodiscard]] virtual constexpr scratch_blocks scratch(int rank) const = 0;
    [[nodiscard]] virtual constexpr step at(int rank, int round) const = 0;
    [[nodiscard]] virtual constexpr step also(int rank, int round) const = 0;
    [[nodiscard]] virtual constexpr block_set sent_to(int rank, int round, int peer) const = 0;
    [[nodiscard]] virtual constexpr block_set received_from(int rank, int round, int peer) const = 0;
    [[nodiscard]] virtual constexpr std::optional<fused_pass> fused(int rank) const = 0;
    [[nodiscard]] virtual constexpr bool fold_once() const = 0;
    /// How many consecutive ranks share memory; 1 for schedules that do not know.
    [[nodiscard]] virtual constexpr int group() const = 0;

  protected:
    constexpr ~schedules() = default;
};

/// The schedules that `make(rank)` returns for all ranks below `size`, each made once.
template <schedule S>
class schedules_of final : public schedules {
  public:
    template <class Make>
    constexpr schedules_of(int size, const Make& make)
        : each_(size > 0 ? static_cast<std::size_t>(size) : 0,
                [&make](std::size_t rank) { return make(static_cast<int>(rank)); }),
          first_(each_.data()) {}
    schedules_of(const schedules_of&) = delete;
    schedules_of& operator=(const schedules_of&) = delete;

    [[nodiscard]] constexpr int blocks(int rank) const override { return first_[rank].blocks(); }
    [[nodiscard]] constexpr int rounds(int rank) const override { return first_[rank].rounds(); }
    [[nodiscard]] constexpr scratch_blocks scratch(int rank) const override {
        return allfold::scratch_of(first_[rank]);
    }
    [[nodiscard]] constexpr step at(int rank, int round) const override { return first_[rank][round]; }
    [[nodiscard]] constexpr step also(int rank, int round) const override { return also_of(first_[rank], round); }
    [[nodiscard]] constexpr block_set sent_to(int rank, int round, int peer) const override {
        return allfold::sent_to(first_[rank], per_peer, round, peer);
    }
    [[nodiscard]] constexpr block_set received_from(int rank, int round, int peer) const override {
        return allfold::received_from(first_[rank], per_peer, round, peer);
    }
    [[nodiscard]] constexpr std::optional<fused_pass> fused(int rank) const override {
        return allfold::fused_pass_of(first_[rank]);
    }
    [[nodiscard]] constexpr bool fold_once() const override { return allfold::folds_once(first_[0]); }
    [[nodiscard]] constexpr int group() const override {
        if constexpr (grouped_schedule<S>)
            return first_[0].where().group;
        else if constexpr (requires { first_[0].is_grouped(); })
            return first_[0].is_grouped() ? first_[0].where().group : 1;
        else
            return 1;
    }

  private:
    static constexpr step per_peer{.sent = addressed::per_peer, .received = addressed::per_peer};

    constexpr_array<S> each_;
    const S* first_;
};

template <class Make>
schedules_of(int, const Make&) -> schedules_of<std::remove_cvref_t<std::invoke_result_t<const Make&, int>>>;

/// Checks that all ranks have the same number of rounds, which a run relies on; one rank alone has none.
[[nodiscard]] constexpr proof check_rounds(int size, const schedules& all) {
    const int rounds = size == 1 || all.rounds(0) < 0 ? 0 : all.rounds(0);
    for (int r = 0; r < size; ++r)
        if (all.rounds(r) != rounds)
            return {.what = fault::rounds_differ, .size = size, .rank = r, .found = all.rounds(r), .wanted = rounds};
    return {};
}

}  // namespace allfold::detail
