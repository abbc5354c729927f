// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "examples/common/files.hpp"

/// @file
/// Handwritten digits; the header of digits.txt names their source.

namespace examples {

inline constexpr std::size_t pixels = 64, classes = 10;

struct digit {
    std::array<float, pixels> shade{};  ///< from 0 to 1
    std::size_t shown = 0;
};

namespace detail {

/// Throws for anything but a digit, a space and 64 shades.
[[nodiscard]] inline digit digit_of(std::string_view line) {
    const auto number_of = [](char c) {
        constexpr std::string_view shades = "0123456789abcdefg";
        const std::size_t number = shades.find(c);
        if (number == std::string_view::npos) throw std::invalid_argument(std::string("'") + c + "' is not a shade");
        return number;
    };
    if (line.size() != pixels + 2 || line[1] != ' ' || line[0] < '0' || line[0] > '9')
        throw std::invalid_argument("is not a digit followed by " + std::to_string(pixels) + " shades");
    digit read{.shown = number_of(line[0])};
    for (std::size_t i = 0; i < pixels; ++i) read.shade[i] = static_cast<float>(number_of(line[i + 2])) / 16.0F;
    return read;
}

}  // namespace detail

/// @throws files::file_error with the number of the line that is wrong
[[nodiscard]] inline std::vector<digit> read_digits(const std::filesystem::path& name) {
    if (std::error_code none; std::filesystem::is_directory(name, none))
        throw files::file_error(name, "is a directory");
    std::ifstream file(name);
    if (!file) throw files::file_error(name, "cannot be read: " + std::generic_category().message(errno));
    std::vector<digit> digits;
    std::string line;
    for (std::size_t number = 1; std::getline(file, line); ++number) {
        if (line.ends_with('\r')) line.pop_back();
        if (line.empty() || line[0] == '#') continue;
        try {
            digits.push_back(detail::digit_of(line));
        } catch (const std::invalid_argument& error) {
            throw files::file_error(name, "line " + std::to_string(number) + ": " + error.what());
        }
    }
    if (digits.empty()) throw files::file_error(name, "has no digits");
    return digits;
}

}  // namespace examples
