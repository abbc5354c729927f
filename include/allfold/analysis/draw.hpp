// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "allfold/analysis/detail/history.hpp"
#include "allfold/analysis/detail/svg.hpp"
#include "allfold/analysis/prove.hpp"
#include "allfold/schedule/step.hpp"

/// @file
/// Draws a schedule as a picture (SVG): ranks from top to bottom, rounds from left to right, an arrow for each message.
/// After each round it shows what a rank has folded, left operand first: "0..1 ∘ 2..3", with what was received in bold.
/// If the data is cut into blocks, "b2:" and the like say which ones; before the arrows, they are those that a rank
/// sends. An inconsistent schedule is drawn as far as it runs. Colours identify the senders.

namespace allfold {

namespace detail {

using text_line = std::vector<svg::part>;

/// "b0..1: 4 ∘ 5", or all ranks in one list if there are many operands.
[[nodiscard]] inline text_line line_of(const outcome& what, int blocks) {
    text_line line;
    if (blocks > 1) line.push_back({"b" + text_of_runs(what.blocks) + ": "});
    if (what.operands.size() > 4) {
        std::vector<int> all;
        for (const operand_shown& each : what.operands) all.insert(all.end(), each.ranks.begin(), each.ranks.end());
        line.push_back({text_of_runs(all), true});
        return line;
    }
    for (const operand_shown& each : what.operands) {
        if (&each != &what.operands.front()) line.push_back({" ∘ "});
        line.push_back({text_of_runs(each.ranks), each.received});
    }
    return line;
}

/// If there are too many to list: which blocks have arrived, or the number of folds.
[[nodiscard]] inline text_line short_line_of(const std::vector<outcome>& outcomes) {
    const auto folds = std::ranges::count_if(outcomes, [](const outcome& each) { return each.operands.size() > 1; });
    if (folds > 0) return {{std::to_string(folds) + " folds"}};
    std::vector<int> blocks;
    for (const outcome& each : outcomes) blocks.insert(blocks.end(), each.blocks.begin(), each.blocks.end());
    std::ranges::sort(blocks);
    return {{"b" + text_of_runs(blocks), true}};
}

[[nodiscard]] inline std::vector<text_line> lines_of(const std::vector<outcome>& outcomes, int blocks) {
    if (outcomes.size() > 4) return {short_line_of(outcomes)};
    std::vector<text_line> lines;
    lines.reserve(outcomes.size());
    for (const outcome& each : outcomes) lines.push_back(line_of(each, blocks));
    return lines;
}

/// The layout of ranks and rounds, and the picture itself. A round consists of the text before its arrows, the arrows,
/// and the text after them.
class picture {
  public:
    picture(const history& what, const std::string& title) : what_(what) {
        place_ranks();
        place_rounds();
        image_.text(margin, margin + svg::line_height, {{title, true}});
        for (int round = 0; round < what.rounds(); ++round)
            image_.text(arrows_[at(round)] + arrow_width / 2, top - svg::half_letter,
                        {{"round " + std::to_string(round)}}, svg::anchor::middle);
        for (int r = 0; r < what.size(); ++r) draw_rank(r);
        for (const drawn_message& each : what.messages())
            image_.arrow(arrows_[at(each.round)], y_[at(each.from)], arrows_[at(each.round)] + arrow_width,
                         y_[at(each.to)], each.from);
        image_width_ = std::max(x_.back(), 2 * margin + svg::width_of({{title}}));
    }
    [[nodiscard]] std::string text() const { return image_.document(image_width_ + margin, bottom_ + margin); }

  private:
    static constexpr int margin = 12, top = 56, arrow_width = 90, gap = 6;

    [[nodiscard]] static constexpr std::size_t at(int i) { return static_cast<std::size_t>(i); }

    [[nodiscard]] std::vector<text_line> before(int rank, int round) const {
        std::vector<text_line> lines = lines_of(what_.prepared(rank, round), what_.blocks());
        const std::vector<int> blocks = what_.sent(rank, round);
        if (lines.empty() && what_.blocks() > 1 && !blocks.empty())
            lines.push_back({{"b" + text_of_runs(blocks), false, rank}});
        return lines;
    }
    [[nodiscard]] std::vector<text_line> after(int rank, int round) const {
        std::vector<text_line> lines = lines_of(what_.received(rank, round), what_.blocks());
        if (const int peer = what_.waits_for(rank, round); peer >= 0)
            lines.push_back({{"waits for rank " + std::to_string(peer)}});
        return lines;
    }
    [[nodiscard]] static int width_of(const std::vector<text_line>& lines) {
        int widest = 0;
        for (const text_line& line : lines) widest = std::max(widest, svg::width_of(line) + gap);
        return widest;
    }

    void place_ranks() {
        bottom_ = top;
        for (int r = 0; r < what_.size(); ++r) {
            std::size_t lines = 1;
            for (int round = 0; round < what_.rounds(); ++round) lines = std::max(lines, after(r, round).size());
            const int height = svg::line_height * (static_cast<int>(lines) + 1);
            y_.push_back(bottom_ + height / 2);
            bottom_ += height;
        }
    }
    void place_rounds() {
        x_.push_back(margin + svg::width_of({{"rank 000 "}}));
        for (int round = 0; round < what_.rounds(); ++round) {
            int text_before = 0, text_after = 0;
            for (int r = 0; r < what_.size(); ++r) {
                text_before = std::max(text_before, width_of(before(r, round)));
                text_after = std::max(text_after, width_of(after(r, round)));
            }
            arrows_.push_back(x_.back() + text_before);
            x_.push_back(arrows_.back() + arrow_width + text_after + 3 * gap);
        }
    }

    void draw_rank(int r) {
        const int y = y_[at(r)];
        write({{{"rank " + std::to_string(r)}}}, margin, y);
        for (int round = 0; round < what_.rounds(); ++round) {
            const int arrow = arrows_[at(round)], end = arrow + arrow_width;
            const std::vector<text_line> sends = before(r, round), folds = after(r, round);
            write(sends, x_[at(round)], y);
            write(folds, end + gap, y);
            const bool text_follows = round + 1 < what_.rounds() && !before(r, round + 1).empty();
            image_.life_line(sends.empty() ? x_[at(round)] : arrow,
                             folds.empty() ? x_[at(round + 1)] - (text_follows ? gap : 0) : end, y);
        }
    }
    void write(const std::vector<text_line>& lines, int x, int y) {
        y += svg::half_letter - svg::line_height * (static_cast<int>(lines.size()) - 1) / 2;
        for (const text_line& line : lines) {
            image_.text(x, y, line);
            y += svg::line_height;
        }
    }

    const history& what_;
    std::vector<int> y_;       ///< of each rank
    std::vector<int> x_;       ///< where each round begins, and where the last one ends
    std::vector<int> arrows_;  ///< where the arrows of each round begin
    int bottom_ = 0;
    int image_width_ = 0;
    svg image_;
};

}  // namespace detail

/// The picture of the schedules that `make(rank)` returns for all ranks below `size`.
/// @throws error (bad_argument) if there are no ranks.
template <class Make>
    requires schedule<std::invoke_result_t<const Make&, int>>
[[nodiscard]] std::string draw(int size, const Make& make, const claim& claimed, const std::string& name) {
    if (size < 1) throw error(errc::bad_argument, detail::text({"draw: there are no schedules of ", size, " ranks"}));
    const detail::schedules_of all(size, make);
    const detail::history what(size, all, claimed);
    const contract& promise = *claimed.promise;
    const std::string title = name + " " + promise.name + ", P = " + std::to_string(size) + ": " +
                              std::to_string(what.rounds()) + (what.rounds() == 1 ? " round" : " rounds") +
                              (promise.folds ? std::string(", order::") + name_of(claimed.keeps) : "");
    return detail::picture(what, title).text();
}

/// The picture of the schedule that an algorithm has for a collective: `draw(all_reduce, ring{}, 4)`. A grouped one is
/// drawn for groups of `group`.
/// @throws error (bad_argument, bad_rank) if it does not exist for so many ranks, or has no such root.
template <class Collective, class Algorithm>
    requires schedule<schedule_in<Collective, Algorithm>>
[[nodiscard]] std::string draw(const Collective& what, const Algorithm& algorithm, int size, int root = 0,
                               int group = 1) {
    using S = schedule_in<Collective, Algorithm>;
    if (!supports<S>(size, group))
        throw error(errc::bad_argument, detail::text({"draw: ", Algorithm::name, " has no schedule for ", size,
                                                      " ranks in groups of ", group}));
    const setting where = detail::with_root("draw", Collective::promise, {0, size, root, group});
    const auto make = [&](int rank) { return make_schedule<S>(where.at(rank), algorithm); };
    return draw(size, make, claim_of(what, algorithm, where.root, group), Algorithm::name);
}

}  // namespace allfold
