// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>

#include "allfold/analysis/detail/constexpr_array.hpp"
#include "allfold/analysis/detail/interpreter.hpp"
#include "allfold/analysis/proof.hpp"

namespace allfold::detail {

/// Reader of a run that counts what it costs.
class costs : public reader {
  public:
    constexpr explicit costs(int size) : ranks_(static_cast<std::size_t>(size)), first_(ranks_.data()) {}

    costs(const costs&) = delete;
    costs& operator=(const costs&) = delete;

    constexpr void receives(const running_rank& sender, const running_rank&, int blocks) {
        ++first_[sender.rank].messages;
        first_[sender.rank].blocks_sent += blocks;
    }
    constexpr void folds(const running_rank& self, const cell_at_rank&, const cell_at_rank&, const cell_at_rank&) {
        ++first_[self.rank].folds;
    }
    constexpr void folds_kept(const running_rank& self, int, int, int own, const cell_at_rank&) {
        first_[self.rank].folds += self.receiving.count() - (own < 0 ? 1 : 0);
    }
    constexpr void folds_prefix(const running_rank& self, int, int, int, int n, const cell_at_rank&) {
        if (n > 0) ++first_[self.rank].folds;
    }

    /// Adds the sums over all ranks, and what the busiest rank does.
    constexpr void add_to(proof& p) const {
        for (const rank_costs& each : ranks_) {
            p.messages += each.messages;
            p.blocks_sent += each.blocks_sent;
            p.folds += each.folds;
            p.busiest_blocks_sent = std::max(p.busiest_blocks_sent, each.blocks_sent);
            p.busiest_folds = std::max(p.busiest_folds, each.folds);
        }
    }

  private:
    struct rank_costs {
        long long messages = 0;
        long long blocks_sent = 0;
        long long folds = 0;
    };
    constexpr_array<rank_costs> ranks_;
    rank_costs* first_;
};

}  // namespace allfold::detail
