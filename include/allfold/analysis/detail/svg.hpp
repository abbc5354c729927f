// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "allfold/detail/legible.hpp"

/// @file
/// Writes the few shapes that pictures of schedules are made of. The colours are legible on white and on black.

namespace allfold::detail {

class svg {
  public:
    /// A piece of a line of text.
    struct part {
        std::string text;
        bool bold = false;
        int colour = -1;
    };
    enum class anchor { start, middle };

    static constexpr int line_height = 15, half_letter = 4;

    /// The width in a monospaced font.
    [[nodiscard]] static int width_of(const std::vector<part>& line) {
        int letters = 0;
        for (const part& each : line)
            for (const char c : each.text) letters += (static_cast<unsigned char>(c) & 0xC0) != 0x80 ? 1 : 0;
        return letters * 29 / 4;
    }

    void text(int x, int y, const std::vector<part>& line, anchor where = anchor::start) {
        body_ += "<text x='" + std::to_string(x) + "' y='" + std::to_string(y) + "'" +
                 (where == anchor::middle ? " text-anchor='middle'" : "") + ">";
        for (const part& each : line) {
            const std::string bold = each.bold ? " font-weight='bold'" : "";
            const std::string fill = each.colour < 0 ? "" : std::string(" fill='") + colour(each.colour) + "'";
            body_ += "<tspan" + bold + fill + ">" + escaped(each.text) + "</tspan>";
        }
        body_ += "</text>\n";
    }
    void life_line(int from, int to, int y) {
        body_ += "<path class='life' d='M" + std::to_string(from) + " " + std::to_string(y) + "H" + std::to_string(to) +
                 "'/>\n";
    }
    void arrow(int x1, int y1, int x2, int y2, int number) {
        body_ += std::string("<path stroke='") + colour(number) + "' marker-end='url(#head" +
                 std::to_string(number % colours) + ")' d='M" + std::to_string(x1) + " " + std::to_string(y1) + "L" +
                 std::to_string(x2) + " " + std::to_string(y2) + "'/>\n";
    }

    [[nodiscard]] std::string document(int width, int height) const {
        const std::string size = std::to_string(width) + " " + std::to_string(height);
        return "<svg xmlns='http://www.w3.org/2000/svg' xml:space='preserve' viewBox='0 0 " + size + "' width='" +
               std::to_string(width) + "' height='" + std::to_string(height) + "'>\n" + style() + body_ + "</svg>\n";
    }

  private:
    static constexpr int colours = 6;

    [[nodiscard]] static const char* colour(int number) {
        constexpr const char* values[colours] = {"#2f7fd6", "#c8651b", "#2e9b57", "#9a6ad6", "#cc4f7c", "#8c7a1a"};
        return values[number % colours];
    }
    /// Text as XML wants it, whatever an exception says.
    [[nodiscard]] static std::string escaped(std::string_view text) {
        std::string safe;
        for (const char c : legible(text)) {
            if (c == '<' || c == '&')
                safe += c == '<' ? "&lt;" : "&amp;";
            else if (c == '>' && safe.ends_with("]]"))
                safe += "&gt;";
            else
                safe += c;
        }
        return safe;
    }
    [[nodiscard]] static std::string style() {
        std::string heads;
        for (int i = 0; i < colours; ++i)
            heads += "<marker id='head" + std::to_string(i) +
                     "' viewBox='0 0 8 8' refX='8' refY='4' markerWidth='7' markerHeight='7' orient='auto'>"
                     "<path d='M0 0L8 4L0 8Z' style='fill:" +
                     colour(i) + "'/></marker>\n";
        return "<style>text{font:12px monospace;fill:#808080}path{fill:none;stroke-width:1.4}"
               ".life{stroke:#808080;stroke-opacity:.4}</style>\n<defs>" +
               heads + "</defs>\n";
    }

    std::string body_;
};

}  // namespace allfold::detail
