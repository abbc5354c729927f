// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "examples/attention/report.hpp"
#include <allfold/transport/traced.hpp>

/// @file
/// A picture (SVG) of one run: who sent what to whom, and when. Time runs from left to right; each rank has a lane,
/// each phase a bar and each message an arrow, from where its sender posts it to where its receiver takes it. The whole
/// run is at the top; the merge and the gather, which take microseconds of it, are enlarged below.

namespace attention {
namespace detail {

/// Shapes, in the fonts and colours of the pictures of schedules, which are legible on white and on black.
class drawing {
  public:
    static constexpr double letter = 7.25, line = 15;
    static constexpr std::array colours{"#2f7fd6", "#c8651b", "#2e9b57", "#9a6ad6", "#cc4f7c", "#8c7a1a"};

    [[nodiscard]] static const char* colour(int number) {
        return colours[static_cast<std::size_t>(number) % colours.size()];
    }
    [[nodiscard]] static double width_of(std::string_view text) { return letter * static_cast<double>(text.size()); }

    void text(double x, double y, std::string_view words, const char* attributes = "") {
        body_ << "<text x='" << x << "' y='" << y << "' " << attributes << '>' << escaped(words) << "</text>\n";
    }
    void bar(double x, double y, double width, double height, const char* fill, std::string_view tip) {
        body_ << "<rect x='" << x << "' y='" << y << "' width='" << width << "' height='" << height << "' fill='"
              << fill << "'><title>" << escaped(tip) << "</title></rect>\n";
    }
    /// A line of one of the classes lane, grid, lens or message.
    void path(const char* what, double x1, double y1, double x2, double y2) {
        body_ << "<path class='" << what << "' d='M" << x1 << ' ' << y1 << 'L' << x2 << ' ' << y2 << "'/>\n";
    }
    void arrow(const char* what, double x1, double y1, double x2, double y2, int number, bool head,
               std::string_view tip) {
        const auto index = static_cast<std::size_t>(number) % colours.size();
        body_ << "<path class='" << what << "' stroke='" << colours[index] << "' d='M" << x1 << ' ' << y1 << 'L' << x2
              << ' ' << y2 << '\'';
        if (head) body_ << " marker-end='url(#head" << index << ")'";
        body_ << "><title>" << escaped(tip) << "</title></path>\n";
    }

    [[nodiscard]] std::string document(double width, double height) const {
        std::ostringstream whole = stream();
        whole << "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 " << width << ' ' << height << "' width='"
              << width << "' height='" << height << "'>\n"
              << "<style>text{font:12px monospace;fill:#808080}path{fill:none}rect{fill-opacity:.35}"
                 ".lane,.grid,.lens{stroke:#808080;stroke-opacity:.4}.grid{stroke-opacity:.2}"
                 ".lens{stroke-dasharray:2 3}.message{stroke-width:1.4}.faint{stroke-width:.6;stroke-opacity:.5}"
                 ".half{stroke-width:1.4;stroke-dasharray:4 3}</style>\n<defs>";
        for (std::size_t i = 0; i < colours.size(); ++i)
            whole << "<marker id='head" << i
                  << "' viewBox='0 0 8 8' refX='8' refY='4' markerWidth='7' markerHeight='7' orient='auto' "
                     "markerUnits='userSpaceOnUse'><path d='M0 0L8 4L0 8Z' style='fill:"
                  << colours[i] << "'/></marker>\n";
        whole << "</defs>\n" << body_.str() << "</svg>\n";
        return whole.str();
    }

  private:
    [[nodiscard]] static std::ostringstream stream() {
        std::ostringstream out;
        out << std::fixed << std::setprecision(1);
        return out;
    }
    [[nodiscard]] static std::string escaped(std::string_view text) {
        std::string safe;
        for (const char c : text) safe += c == '<' ? "&lt;" : c == '&' ? "&amp;" : std::string(1, c);
        return safe;
    }

    std::ostringstream body_ = stream();
};

/// Times in seconds since the first event of the run.
struct interval {
    double begin = 0;
    double end = 0;

    [[nodiscard]] double length() const { return end - begin; }
    [[nodiscard]] bool holds(double t) const { return begin <= t && t <= end; }
};

struct bar {
    int rank;
    std::size_t phase;
    interval time;
};

/// Over MPI, one of its times is unknown: that of the other process.
struct arrow {
    int from, to;
    std::size_t bytes;
    std::optional<double> posted, taken;

    [[nodiscard]] double begin() const { return posted ? *posted : *taken; }
    [[nodiscard]] double end() const { return taken ? *taken : *posted; }
};

/// The phases and messages of a trace.
class history {
  public:
    static constexpr std::array<std::string_view, 4> phases{"local attention", "merge", "normalise", "gather"};

    history(const allfold::trace_recorder& trace, int ranks) {
        const auto each_event = [&](auto use) {
            for (int r = 0; r < ranks; ++r)
                for (const event& each : trace.line_of(r)) use(r, each);
        };
        each_event([&](int, const event& e) { first_ = std::min(first_, e.begin); });
        each_event([&](int rank, const event& e) { e.is_message() ? add_sent(rank, e) : add_bar(rank, e); });
        each_event([&](int rank, const event& e) { add_taken(rank, e); });
    }

    std::vector<bar> bars;
    std::vector<arrow> arrows;

    /// From the first rank's begin to the last rank's end, of one phase or of all.
    [[nodiscard]] std::optional<interval> time_of(std::optional<std::size_t> phase = {}) const {
        std::optional<interval> all;
        for (const bar& each : bars) {
            if (phase && each.phase != *phase) continue;
            if (!all) all = each.time;
            all->begin = std::min(all->begin, each.time.begin);
            all->end = std::max(all->end, each.time.end);
        }
        return all;
    }

  private:
    using event = allfold::trace_recorder::event;
    using time_point = allfold::trace_recorder::clock::time_point;

    [[nodiscard]] double since_first(time_point t) const { return seconds(t - first_).count(); }

    void add_bar(int rank, const event& e) {
        for (std::size_t i = 0; i < phases.size(); ++i)
            if (phases[i] == e.name) bars.push_back({rank, i, {since_first(e.begin), since_first(e.end)}});
    }
    void add_sent(int rank, const event& e) {
        if (e.name != "send") return;
        on_their_way_[{rank, e.peer, e.on}].push_back(arrows.size());
        arrows.push_back({rank, e.peer, e.bytes, since_first(e.begin), {}});
    }
    void add_taken(int rank, const event& e) {
        if (!e.is_message() || e.name != "receive") return;
        auto& sent = on_their_way_[{e.peer, rank, e.on}];
        if (sent.empty()) return arrows.push_back({e.peer, rank, e.bytes, {}, since_first(e.begin)});
        arrow& message = arrows[sent.front()];
        sent.pop_front();
        message.taken = since_first(e.begin);
        message.posted = std::min(*message.posted, *message.taken);  // a post is recorded after it is done
    }

    time_point first_ = time_point::max();
    std::map<std::tuple<int, int, allfold::lane>, std::deque<std::size_t>>
        on_their_way_;  ///< by sender, receiver, lane
};

/// A step of 1, 2 or 5 times a power of ten, no smaller than `least`.
[[nodiscard]] inline double round_step(double least) {
    const double power = std::pow(10, std::floor(std::log10(least)));
    for (const double factor : {1, 2, 5})
        if (factor * power >= least * (1 - 1e-9)) return factor * power;
    return 10 * power;
}

/// A time, in the unit that suits an interval of this length.
[[nodiscard]] inline std::string tick_text(double time, double length) {
    const auto [factor, unit] = length < 1e-3 ? std::pair(1e6, " us")
                                : length < 1  ? std::pair(1e3, " ms")
                                              : std::pair(1.0, " s");
    return general(std::round(time * factor * 1e6) / 1e6) + unit;
}

class picture {
  public:
    picture(const history& what, int ranks, bool of_rank_0_alone)
        : what_(what),
          ranks_(ranks),
          alone_(of_rank_0_alone),
          lane_(ranks <= 16   ? 26
                : ranks <= 40 ? 15
                              : 8) {}

    [[nodiscard]] std::string text(const std::string& title) {
        image_.text(margin, y_ += drawing::line, title, "style='font-weight:bold'");
        if (alone_)
            image_.text(margin, y_ += drawing::line,
                        "as rank 0 saw it: when its messages left or reached other processes is not known (dashed)");
        legend();
        const auto whole = what_.time_of(), merge = what_.time_of(1), gather = what_.time_of(3);
        if (!whole) return image_.document(right + margin, y_ + margin);

        panel("the whole run, after reading", *whole, false);
        if (merge) {
            lens(*whole, *merge);
            panel("the merge, from " + in_words(seconds(merge->begin)) + " on" + messages_in(*merge), *merge);
        }
        if (gather)
            panel("the gather of the result, from " + in_words(seconds(gather->begin)) + " on" + messages_in(*gather),
                  *gather);
        const double widest = std::max(right + 2 * margin, drawing::width_of(title) + 2 * margin);
        return image_.document(widest, y_ + margin);
    }

  private:
    static constexpr double margin = 12, left = 80, right = 1040, gap = 6;

    [[nodiscard]] double bar_height() const { return lane_ * .7; }
    [[nodiscard]] double y_of(double top, int rank) const { return top + lane_ * (rank + .5); }
    [[nodiscard]] static double x_of(interval shown, double t) {
        return left + (right - left) * (t - shown.begin) / std::max(shown.length(), 1e-9);
    }

    void legend() {
        double x = margin;
        y_ += 1.5 * drawing::line;
        for (std::size_t i = 0; i < history::phases.size(); ++i) {
            image_.bar(x, y_ - 10, 12, 12, drawing::colours[i], history::phases[i]);
            image_.text(x + 18, y_, history::phases[i]);
            x += 18 + drawing::width_of(history::phases[i]) + 3 * gap;
        }
        if (ranks_ == 1) return;
        image_.arrow("message", x, y_ - 4, x + 24, y_ - 4, 5, true, "a message");
        image_.text(x + 30, y_, "a message, from its post to its receipt, in the colour of its sender");
    }

    /// ": 12 messages of 8.0 KiB". Ranks that share memory may fold where the data lies, and only signal that it is
    /// there.
    [[nodiscard]] std::string messages_in(interval shown) const {
        std::size_t count = 0, least = SIZE_MAX, most = 0;
        for (const arrow& each : what_.arrows)
            if (shown.holds(each.begin())) {
                ++count;
                least = std::min(least, each.bytes);
                most = std::max(most, each.bytes);
            }
        if (count == 0) return "";
        if (most == 0) return ": " + std::to_string(count) + " signals; the data is read in place";
        return ": " + std::to_string(count) + (count == 1 ? " message of " : " messages of ") +
               (least == most ? "" : in_words(least) + " to ") + in_words(most);
    }

    void panel(const std::string& title, interval shown, bool enlarged = true) {
        image_.text(margin, y_ += 2 * drawing::line, title);
        const double top = y_ += gap;
        y_ += lane_ * ranks_;
        axis(shown, top);
        lanes(top, enlarged);
        for (const bar& each : what_.bars)
            if (each.time.begin <= shown.end && shown.begin <= each.time.end) draw(each, shown, top);
        if (enlarged) draw_arrows(shown, top);
    }
    void axis(interval shown, double top) {
        const double unit = (right - left) / std::max(shown.length(), 1e-9);
        const double step = round_step(90 / unit);
        for (int i = 0; i * step <= shown.length(); ++i) {
            const double x = left + i * step * unit;
            image_.path("grid", x, top, x, y_ + 4);
            image_.text(x, y_ + drawing::line + 2, tick_text(i * step, shown.length()), "text-anchor='middle'");
        }
        y_ += drawing::line + 2;
    }
    /// If lanes are too narrow, not all of them have a label.
    void lanes(double top, bool coloured) {
        const int every = static_cast<int>(std::ceil(drawing::line / lane_));
        for (int r = 0; r < ranks_; ++r) {
            image_.path("lane", left, y_of(top, r), right, y_of(top, r));
            if (r % every != 0) continue;
            const std::string fill = std::string("style='fill:") + drawing::colour(r) + "'";
            image_.text(margin, y_of(top, r) + 4, "rank " + std::to_string(r), coloured ? fill.c_str() : "");
        }
    }
    void draw(const bar& each, interval shown, double top) {
        const double begin = x_of(shown, std::max(each.time.begin, shown.begin));
        const double end = x_of(shown, std::min(each.time.end, shown.end));
        const std::string tip = "rank " + std::to_string(each.rank) + ": " + std::string(history::phases[each.phase]) +
                                ", " + in_words(seconds(each.time.length()));
        image_.bar(begin, y_of(top, each.rank) - bar_height() / 2, std::max(end - begin, .5), bar_height(),
                   drawing::colours[each.phase], tip);
    }
    void draw_arrows(interval shown, double top) {
        const auto in_panel = [&](const arrow& each) { return shown.holds(each.begin()); };
        const bool many = std::count_if(what_.arrows.begin(), what_.arrows.end(), in_panel) > 400;
        for (const arrow& each : what_.arrows) {
            if (!in_panel(each)) continue;
            const bool half = !each.posted || !each.taken;
            const char* look = many ? "faint" : half ? "half" : "message";
            image_.arrow(look, x_of(shown, each.begin()), y_of(top, each.from),
                         x_of(shown, std::min(each.end(), shown.end)), y_of(top, each.to), each.from, !many,
                         tip_of(each, shown));
        }
    }
    [[nodiscard]] static std::string tip_of(const arrow& each, interval shown) {
        const auto at = [&](double t) { return in_words(seconds(t - shown.begin)); };
        return "rank " + std::to_string(each.from) + " to rank " + std::to_string(each.to) + ": " +
               in_words(each.bytes) + (each.posted ? ", posted at " + at(*each.posted) : "") +
               (each.taken ? ", received at " + at(*each.taken) : "");
    }
    /// Draws lines from a part of the panel above to the whole width of the one below.
    void lens(interval above, interval below) {
        const double top = y_ + gap;
        y_ += 2 * drawing::line;
        image_.path("lens", x_of(above, below.begin), top, left, y_);
        image_.path("lens", x_of(above, below.end), top, right, y_);
        y_ -= drawing::line / 2;
    }

    const history& what_;
    int ranks_;
    bool alone_;
    double lane_;
    double y_ = margin;
    drawing image_;
};

}  // namespace detail

/// The picture of a run on `ranks` ranks; over MPI, the trace is that of rank 0 alone.
[[nodiscard]] inline std::string plot(const allfold::trace_recorder& trace, int ranks, const std::string& title,
                                      bool of_rank_0_alone) {
    const detail::history what(trace, ranks);
    return detail::picture(what, ranks, of_rank_0_alone).text(title);
}

}  // namespace attention
