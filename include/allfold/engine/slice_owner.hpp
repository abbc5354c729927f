// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <span>

#include "allfold/engine/detail/small_array.hpp"
#include "allfold/engine/operands.hpp"

/// @file
/// Both steps of a slice-owner schedule in one pass, for ranks that share memory.

namespace allfold::detail {

/// Every rank lends its input and its result to all others, reads its own block of all inputs, folds it in rank order,
/// and stores it in all results: each input is read once and each result written once, with one synchronisation before
/// and one after. In place as well, since no other rank touches this block.
template <communicator Comm, slice_owner_schedule Schedule, class Kernel>
    requires(Comm::shares_memory)
class slice_owner {
  public:
    using place_type = typename Kernel::place_type;
    using context = call<Comm, Schedule, Kernel>;
    static constexpr std::size_t columns = Kernel::columns;

    void begin(const context& all, lane on) {
        lane_ = on;
        posted_ = received_ = 0;
        folded_ = false;
        for (std::size_t c = 0; c < columns; ++c) {
            parts_[c] = {all.memory.input[c], 0};
            parts_[columns + c] = {all.memory.result[c], 0};
        }
        arrivals_.resize(static_cast<std::size_t>(all.comm.size() - 1));
    }

    bool advance(const context& all) {
        if (!folded_) {
            if (!post(all) || !receive(all)) return false;
            fold(all);
            folded_ = true;
            arrivals_.clear();
        }
        return lent_.load(std::memory_order_acquire) == 0;
    }

    [[nodiscard]] waiting blocked_on(const context& all) const {
        waiting where{name_of(all.plan.goal), folded_ ? 1 : 0, 2, -1, lane_};
        if (!folded_) where.peer = all_peers.at(posted_ < all.comm.size() - 1 ? posted_ : received_, all.comm.rank());
        return where;
    }

    void drop() noexcept { arrivals_.clear(); }

  private:
    static constexpr peers all_peers = peers::everyone();

    bool post(const context& all) {
        const outgoing message{parts_, 0, Kernel::alignment, false, all.hash, &lent_};
        for (; posted_ < all.comm.size() - 1; ++posted_)
            if (!all.comm.try_post(all_peers.at(posted_, all.comm.rank()), lane_, message)) return false;
        return true;
    }

    bool receive(const context& all) {
        for (; received_ < all.comm.size() - 1; ++received_) {
            const int peer = all_peers.at(received_, all.comm.rank());
            const bool came = all.comm.try_receive(peer, lane_, [&](typename Comm::arrival_type&& message) {
                all.check(message.signature(), peer, lane_);
                arrivals_[static_cast<std::size_t>(received_)] = std::move(message);
            });
            if (!came) return false;
        }
        return true;
    }

    void fold(const context& all) {
        const int self = all.comm.rank(), size = all.comm.size();
        const std::size_t row = all.memory.blocks.offset(self), rows = all.memory.blocks.extent(self);
        const step publish = all.plan[1];
        small_array<place_type, 8> sources, targets;
        sources.resize(static_cast<std::size_t>(size));
        targets.resize(static_cast<std::size_t>(size));
        std::size_t count = 0;
        for (int r = 0; r < size; ++r) {
            const std::span<const part> lent = r == self ? std::span<const part>(parts_) : lent_by(r, self);
            place_type input{}, result{};
            for (std::size_t c = 0; c < columns; ++c) {
                input[c] = lent[c].data;
                result[c] = lent[columns + c].data;
            }
            sources[static_cast<std::size_t>(r)] = all.kernel.advance(input, row);
            const bool gets_it = r == self ? all.plan[0].into == slot::result : publish.to.contains(r, self);
            if (gets_it) targets[count++] = all.kernel.advance(result, row);
        }
        all.kernel.fold(sources.span(), targets.first(count), rows, way_to_store(all, count));
    }

    [[nodiscard]] std::span<const part> lent_by(int rank, int self) {
        return arrivals_[static_cast<std::size_t>(rank < self ? rank : rank - 1)].parts();
    }

    /// Past the cache once inputs and results exceed it.
    [[nodiscard]] static store way_to_store(const context& all, std::size_t targets) noexcept {
        const std::size_t bytes = all.memory.blocks.total() * all.kernel.row_bytes();
        return bytes * (static_cast<std::size_t>(all.comm.size()) + targets) > streaming_bytes ? store::streaming
                                                                                               : store::plain;
    }
    static constexpr std::size_t streaming_bytes = std::size_t{24} << 20;

    lane lane_ = 0;
    int posted_ = 0;
    int received_ = 0;
    bool folded_ = false;
    std::array<part, 2 * columns> parts_{};
    std::atomic<int> lent_{0};
    small_array<typename Comm::arrival_type, 1> arrivals_;
};

}  // namespace allfold::detail
