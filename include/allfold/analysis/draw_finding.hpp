// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "allfold/analysis/detail/latest_steps.hpp"
#include "allfold/analysis/detail/svg.hpp"
#include "allfold/analysis/exploration.hpp"

/// @file
/// Draws a fault that `explore` has found as a picture (SVG): ranks from top to bottom, time from left to right, the
/// calls that each rank makes, an arrow for each message, and what becomes of each rank at the end, in bold. The arrow
/// of a message that was never delivered ends half way. Colours identify the senders. Of a long history it shows the
/// latest steps of each rank.

namespace allfold {

namespace detail {

/// Everything is placed as far to the left as possible: after what its rank has done before and, for a message
/// received, after that was posted.
class picture_of_finding {
  public:
    explicit picture_of_finding(const finding& what)
        : replay_("replay: " + shortened(what.schedule)), steps_(latest_steps(what.history)) {
        for (const happening& each : what.history) {
            ranks_ = std::max({ranks_, each.rank + 1, each.peer + 1});
            if (each.what == happening::kind::gets) received_.insert(each.message);
        }
        free_.assign(at(ranks_), margin + svg::width_of({{"rank 00 "}}));
        image_.text(margin, margin + svg::line_height, {{name_of(what.what), true}});
        image_.text(margin, margin + 2 * svg::line_height, {{replay_}});
        for (const happening& each : steps_)
            if (each.what != happening::kind::ends) place(each);
        for (const posted& each : posted_)
            if (!received_.contains(each.message)) draw_lost(each);
        end_ = free_.empty() ? margin : *std::ranges::max_element(free_);
        for (const happening& each : steps_)
            if (each.what == happening::kind::ends) draw_end(each);
    }
    [[nodiscard]] std::string text() const {
        const int title = margin + svg::width_of({{replay_}});
        return image_.document(std::max(width_, title) + margin, top + ranks_ * height + margin);
    }

  private:
    static constexpr int margin = 12, top = 64, height = 60, gap = 8, travel = 36;

    struct posted {
        std::size_t message;
        int from, to, x;
    };
    static std::string shortened(const std::string& schedule) {
        constexpr std::size_t most = 120;
        if (schedule.size() <= most) return schedule;
        return detail::text({schedule.substr(0, most), "... (", schedule.size(), " characters)"});
    }

    [[nodiscard]] static std::size_t at(int i) { return static_cast<std::size_t>(i); }
    [[nodiscard]] static int y_of(int rank) { return top + rank * height + height / 2; }

    void place(const happening& each) {
        int& x = free_[at(each.rank)];
        switch (each.what) {
            case happening::kind::posts:
                posted_.push_back({each.message, each.rank, each.peer, x});
                x += gap;
                break;
            case happening::kind::gets: draw_arrow(each); break;
            default: write(each.rank, each.text); break;
        }
    }
    void draw_arrow(const happening& each) {
        const auto found = std::ranges::find(posted_, each.message, &posted::message);
        if (found == posted_.end()) return;
        int& x = free_[at(each.rank)];
        x = std::max(x, found->x + travel);
        image_.arrow(found->x, y_of(found->from), x, y_of(each.rank), found->from);
        x += gap;
    }
    void draw_lost(const posted& each) {
        image_.arrow(each.x, y_of(each.from), each.x + travel / 2, (y_of(each.from) + y_of(each.to)) / 2, each.from);
        free_[at(each.from)] = std::max(free_[at(each.from)], each.x + travel);
    }
    void write(int rank, const std::string& words) {
        int& x = free_[at(rank)];
        image_.text(x, y_of(rank) - gap, {{words}});
        x += svg::width_of({{words}}) + gap;
    }
    void draw_end(const happening& each) {
        const int y = y_of(each.rank);
        image_.text(margin, y + svg::half_letter, {{"rank " + std::to_string(each.rank)}});
        image_.life_line(margin + svg::width_of({{"rank 00 "}}), end_, y);
        image_.text(end_ + gap, y + svg::half_letter, {{each.text, true}});
        width_ = std::max(width_, end_ + gap + svg::width_of({{each.text}}));
    }

    std::string replay_;
    std::vector<happening> steps_;
    std::set<std::size_t> received_;  // messages
    int ranks_ = 0, end_ = 0, width_ = 0;
    std::vector<int> free_;  ///< for each rank, where the next thing may be placed
    std::vector<posted> posted_;
    svg image_;
};

}  // namespace detail

/// The picture of a fault. If that has no history (as for a program that depends on something other than messages), the
/// picture has only a title.
[[nodiscard]] inline std::string draw(const finding& what) { return detail::picture_of_finding(what).text(); }

/// The picture of the fault with the shortest schedule. Throws `bad_argument` if there is none.
[[nodiscard]] inline std::string draw(const exploration& found) { return draw(found.first()); }

}  // namespace allfold
