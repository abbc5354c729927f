// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "allfold/analysis/exploration.hpp"

/// @file
/// The faults that an exploration has found so far.

namespace allfold::detail {

/// Each fault once, with the shortest schedule that leads to it, and not more of them than wanted.
class found_faults {
  public:
    explicit found_faults(std::size_t most) : most_(most) {}

    void add(finding&& fault) {
        if (fault.what == verdict::deadlock || fault.what == verdict::never_received) has_lost_or_deadlock_ = true;
        if (is_known(fault)) return;
        if (all_.size() < most_)
            all_.push_back(std::move(fault));
        else
            ++left_out_;
    }
    void leave_out(verdict what) {
        std::erase_if(all_, [what](const finding& each) { return each.what == what; });
    }
    /// Another exploration, which this one continues, has found so many more.
    void add_left_out(std::size_t more) noexcept { left_out_ += more; }
    void add_lost_or_deadlock() noexcept { has_lost_or_deadlock_ = true; }

    [[nodiscard]] std::vector<finding>& all() noexcept { return all_; }
    [[nodiscard]] const std::vector<finding>& all() const noexcept { return all_; }
    [[nodiscard]] std::size_t left_out() const noexcept { return left_out_; }
    /// Whether a deadlock or a lost message was found, even if it is not kept.
    [[nodiscard]] bool has_lost_or_deadlock() const noexcept { return has_lost_or_deadlock_; }

  private:
    /// A schedule without the number of ranks and, if two executions differ, without the first one.
    [[nodiscard]] static std::size_t length_of(const std::string& schedule) {
        return schedule.size() - schedule.find_last_of(":/") - 1;
    }
    /// A deadlock needs no sends that wait, even if it was first found with some.
    [[nodiscard]] bool is_known(const finding& fault) {
        for (finding& known : all_) {
            if (known.text != fault.text) continue;
            if (known.what == fault.what && length_of(fault.schedule) < length_of(known.schedule))
                known.schedule = fault.schedule;
            if (known.what == fault.what || known.what == verdict::deadlock) return true;
            if (known.what != verdict::deadlock_unless_held) continue;
            known = fault;
            return true;
        }
        return false;
    }

    std::size_t most_;
    std::vector<finding> all_;
    std::size_t left_out_ = 0;
    bool has_lost_or_deadlock_ = false;
};

}  // namespace allfold::detail
