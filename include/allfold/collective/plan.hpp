// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "allfold/data/partition.hpp"
#include "allfold/engine/request.hpp"
#include "allfold/error.hpp"
#include "allfold/schedule/any_schedule.hpp"
#include "allfold/schedule/contract.hpp"
#include "allfold/schedule/step.hpp"

/// @file
/// The schedule that a collective would run, for inspection before it runs.

namespace allfold {

/// What a collective would do for a given number of ranks and bytes, as returned by `plan`.
class plan {
  public:
    /// `kept`: keeps alive what the schedule refers to.
    plan(const contract& goal, const any_schedule& steps, std::string why, std::size_t bytes,
         std::shared_ptr<const void> kept = nullptr)
        : goal_(&goal),
          steps_(steps),
          name_(steps.name()),
          why_(std::move(why)),
          bytes_(bytes),
          kept_(std::move(kept)) {}

    [[nodiscard]] const contract& goal() const noexcept { return *goal_; }  ///< what the collective promises
    [[nodiscard]] order keeps() const noexcept { return steps_.keeps; }     ///< the order level that the schedule gives
    [[nodiscard]] const std::string& name() const noexcept { return name_; }  ///< the name of the algorithm
    [[nodiscard]] const std::string& why() const noexcept { return why_; }    ///< the reason for the choice
    /// Whether the transport's own collective, named by `name()`, would run. Rounds, bytes and steps are those of the
    /// schedule that `delegate::never` runs instead.
    [[nodiscard]] bool delegated() const noexcept { return delegated_; }
    [[nodiscard]] plan delegated_to(std::string name, std::string why) const {
        plan other = *this;
        other.name_ = std::move(name);
        other.why_ = std::move(why);
        other.delegated_ = true;
        return other;
    }
    void add_reason(const char* more) { why_ += more; }
    [[nodiscard]] int size() const noexcept { return steps_.size(); }
    [[nodiscard]] int rounds() const noexcept { return steps_.rounds(); }
    /// The steps of one rank. Throws `bad_rank` if there is no such rank.
    [[nodiscard]] any_schedule schedule(int rank) const {
        if (rank < 0 || rank >= size())
            throw error(errc::bad_rank, detail::text({"plan: rank ", rank, " is not in [0, ", size(), ")"}));
        return steps_.at(rank);
    }

    /// The number of bytes that one rank sends. Throws `bad_rank` if there is no such rank.
    [[nodiscard]] std::size_t bytes_sent_by(int rank) const {
        const any_schedule mine = schedule(rank);
        const partition blocks = blocks_of(mine);
        std::size_t sum = 0;
        const auto add = [&](const block_set& sent, slot source) {
            const bool in_scratch = is_scratch(source);
            for (int b = 0; b < sent.size(); ++b)
                sum += blocks.extent(in_scratch ? mine.scratch().copied(sent[b]) : sent[b]);
        };
        for (int round = 0; round < mine.rounds(); ++round) {
            const step s = mine[round];
            for (int i = 0; i < s.to.count(rank, size()); ++i) {
                add(sent_to(mine, s, round, s.to.at(i, rank)), s.source);
                if (s.has_more) add(mine.also(round).send, mine.also(round).source);
            }
        }
        return sum;
    }
    /// The number of bytes that the busiest rank sends.
    [[nodiscard]] std::size_t bytes_sent() const {
        std::size_t most = 0;
        for (int r = 0; r < size(); ++r) most = std::max(most, bytes_sent_by(r));
        return most;
    }

  private:
    /// As the engine cuts, for elements whose size divides that of a cache line.
    [[nodiscard]] partition blocks_of(const any_schedule& mine) const {
        const int blocks = std::max(1, mine.blocks());
        const bool in_lines = goal_->cut == cut_for::schedule && !mine.equal_blocks();
        return in_lines ? detail::cut_evenly(bytes_, blocks, 1) : partition::even(bytes_, blocks);
    }

    const contract* goal_;
    any_schedule steps_;
    std::string name_;
    std::string why_;
    std::size_t bytes_;
    std::shared_ptr<const void> kept_;
    bool delegated_ = false;
};

}  // namespace allfold
