// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <charconv>
#include <concepts>
#include <cstddef>
#include <exception>
#include <functional>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "examples/common/files.hpp"

/// @file
/// Command lines of the examples: `--option value`, `--option=value`, `--flag`, and positional arguments in the order
/// in which they are declared.

namespace examples {

/// Exit statuses: 0, `failed` for a wrong result or a run that failed, `bad_input` for files and command lines.
inline constexpr int failed = 1;
inline constexpr int bad_input = 2;

/// A command line that cannot be understood, or asks for something that does not exist.
class bad_command_line : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

namespace detail {

/// "64M" is 64 times 1024 times 1024.
[[nodiscard]] inline std::size_t factor_of(char suffix) {
    switch (suffix) {
        case 'K': return std::size_t{1} << 10;
        case 'M': return std::size_t{1} << 20;
        case 'G': return std::size_t{1} << 30;
        default: return 0;
    }
}

/// A number, which may end in K, M or G. Throws for anything else, and for a number outside the bounds.
[[nodiscard]] inline std::size_t number_of(std::string_view text, std::size_t least, std::size_t most) {
    const char *const begin = text.data(), *const end = begin + text.size();
    std::size_t number = 0;
    const auto [rest, error] = std::from_chars(begin, end, number);
    const std::size_t factor = rest == end ? 1 : rest + 1 == end ? factor_of(*rest) : 0;
    if (error != std::errc{} || factor == 0 || number > most / factor || number * factor < least)
        throw bad_command_line("'" + std::string(text) + "' is not a number from " + std::to_string(least) + " to " +
                               std::to_string(most));
    return number * factor;
}

}  // namespace detail

/// The arguments that a program takes, and the variables that they set.
class command_line {
  public:
    command_line(std::string program, std::string purpose)
        : program_(std::move(program)), purpose_(std::move(purpose)) {}

    /// A positional argument, which is optional.
    void word(std::string& target, std::string name, std::string help) {
        words_.push_back({std::move(name), "", std::move(help), [&](std::string_view text) { target = text; }});
    }
    void flag(bool& target, std::string name, std::string help) {
        options_.push_back({std::move(name), "", std::move(help), [&](std::string_view) { target = true; }});
    }
    void text(std::string& target, std::string name, std::string value, std::string help) {
        options_.push_back(
            {std::move(name), std::move(value), std::move(help), [&](std::string_view text) { target = text; }});
    }
    template <std::integral Number>
    void number(Number& target, std::string name, std::string value, std::size_t least, std::size_t most,
                std::string help) {
        add_number<Number>(target, std::move(name), std::move(value), least, most,
                           std::move(help) + " [" + std::to_string(target) + "]");
    }
    /// The same, but the variable stays empty if the option is not given.
    template <std::integral Number>
    void number(std::optional<Number>& target, std::string name, std::string value, std::size_t least, std::size_t most,
                std::string help) {
        add_number<Number>(target, std::move(name), std::move(value), least, most, std::move(help));
    }

    /// Reads the command line; returns false if it asks for help, which has then been printed.
    /// @throws bad_command_line
    [[nodiscard]] bool read(int argc, char** argv) {
        const std::vector<std::string_view> arguments(argv + 1, argv + argc);
        if (std::ranges::find(arguments, "--help") != arguments.end()) {
            files::print(help());
            return false;
        }
        for (std::size_t i = 0; i < arguments.size(); ++i)
            if (arguments[i].starts_with("-"))
                i += take_option(arguments[i], i + 1 < arguments.size() ? arguments[i + 1] : std::string_view());
            else
                take_word(arguments[i]);
        return true;
    }

  private:
    struct item {
        std::string name, value, help;
        std::function<void(std::string_view)> take;
        bool taken = false;
    };

    /// `target` is a `Number`, or an optional one.
    template <class Number, class Target>
    void add_number(Target& target, std::string name, std::string value, std::size_t least, std::size_t most,
                    std::string help) {
        options_.push_back(
            {std::move(name), std::move(value), std::move(help), [&target, least, most](std::string_view text) {
                 target = static_cast<Number>(detail::number_of(text, least, most));
             }});
        has_numbers_ = true;
    }

    /// Returns how many of the following arguments belong to this option.
    std::size_t take_option(std::string_view argument, std::string_view next) {
        const std::size_t equals = argument.find('=');
        const std::string name(argument.substr(0, equals));
        const auto found = std::ranges::find(options_, name, &item::name);
        if (found == options_.end()) throw bad_command_line("unknown option '" + name + "'; --help lists all");
        const bool is_joined = equals != std::string_view::npos, is_flag = found->value.empty();
        if (is_flag && is_joined) throw bad_command_line(name + " takes no value");
        const std::string_view value = is_joined ? argument.substr(equals + 1) : is_flag ? "" : next;
        if (!is_flag && (value.empty() || (!is_joined && value.starts_with("--"))))
            throw bad_command_line(name + ": " + found->value + " is missing");
        give(*found, value);
        return is_flag || is_joined ? 0 : 1;
    }
    void take_word(std::string_view argument) {
        if (argument.empty()) throw bad_command_line("an argument is empty");
        const auto next = std::ranges::find(words_, false, &item::taken);
        if (next == words_.end()) throw bad_command_line("unexpected argument '" + std::string(argument) + "'");
        give(*next, argument);
    }
    static void give(item& to, std::string_view value) {
        if (std::exchange(to.taken, true)) throw bad_command_line(to.name + " is given twice");
        try {
            to.take(value);
        } catch (const bad_command_line& error) {
            throw bad_command_line(to.name + ": " + error.what());
        }
    }

    [[nodiscard]] std::string help() const {
        std::string text = purpose_ + "\n\n    " + program_;
        for (const item& each : words_) text += " [" + each.name + "]";
        if (!options_.empty()) text += " [OPTION...]";
        text += "\n\n";
        for (const item& each : words_) text += line_of(each.name, each.help);
        for (const item& each : options_)
            text += line_of(each.name + (each.value.empty() ? "" : " " + each.value), each.help);
        text += line_of("--help", "print this");
        return text + (has_numbers_ ? "\nNumbers may end in K, M or G: 2K is 2 times 1024.\n" : "");
    }
    [[nodiscard]] static std::string line_of(std::string name, const std::string& help) {
        name.resize(std::max<std::size_t>(22, name.size() + 2), ' ');
        return "  " + name + help + "\n";
    }

    std::string program_, purpose_;
    std::vector<item> words_, options_;
    bool has_numbers_ = false;
};

/// Turns what `work` throws into a line on standard error and an exit status.
template <class Work>
[[nodiscard]] int guarded(const char* program, Work work) {
    const auto complain = [&](const std::exception& error, int status) {
        std::cerr << std::string(program) + ": " + error.what() + '\n';  // in one write: others may write too
        return status;
    };
    try {
        return work();
    } catch (const bad_command_line& error) {
        return complain(error, bad_input);
    } catch (const files::file_error& error) {
        return complain(error, bad_input);
    } catch (const std::exception& error) {
        return complain(error, failed);
    }
}

}  // namespace examples
