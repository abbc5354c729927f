// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "allfold/analysis/detail/explored_world.hpp"
#include "allfold/error.hpp"

/// @file
/// An execution, as a text that people can keep.

namespace allfold::detail {

/// The choices of one execution, as a token: a letter for each, those at the end that are the first ones left out. It
/// begins with U where standard sends are not held for their receivers, and with E where that is a choice as others
/// are; then with R where something is sent in mode::ready.
class explored_token {
  public:
    using sending = explored_world::sending;

    [[nodiscard]] static std::string begin(sending sends, bool has_ready_sends) {
        const std::string how = sends == sending::held ? "" : sends == sending::waits ? "U" : "E";
        return has_ready_sends ? how + "R" : how;
    }
    [[nodiscard]] static std::string begin_of(std::string_view token) {
        return begin(sends(token), has_ready_sends(token));
    }
    [[nodiscard]] static sending sends(std::string_view token) {
        return token.starts_with('U') ? sending::waits : token.starts_with('E') ? sending::chosen : sending::held;
    }
    [[nodiscard]] static bool has_ready_sends(std::string_view token) {
        return token.substr(0, 2).find('R') != std::string_view::npos;
    }
    static void add(std::string& token, int choice) {
        constexpr std::string_view letters = "0123456789abcdefghijklmnopqrstuvwxyz";
        const auto which = static_cast<std::size_t>(choice);
        token += which < letters.size() ? std::string(1, letters[which]) : "(" + std::to_string(choice) + ")";
    }
    [[nodiscard]] static std::string shortened(std::string token) {
        token.erase(token.find_last_not_of('0') + 1);
        return token;
    }
    /// Throws `bad_argument` for what is none.
    [[nodiscard]] static std::vector<int> choices(std::string_view token) {
        std::vector<int> all;
        for (std::size_t i = begin_of(token).size(); i < token.size(); ++i) {
            const char c = token[i];
            if (c >= '0' && c <= '9')
                all.push_back(c - '0');
            else if (c >= 'a' && c <= 'z')
                all.push_back(c - 'a' + 10);
            else
                all.push_back(long_number(token, i));
        }
        return all;
    }

  private:
    [[nodiscard]] static int long_number(std::string_view token, std::size_t& i) {
        int number = 0;
        if (token[i] == '(')
            for (++i; i < token.size() && token[i] >= '0' && token[i] <= '9' && number < 1'000'000; ++i)
                number = 10 * number + (token[i] - '0');
        if (i >= token.size() || token[i] != ')')
            throw error(errc::bad_argument, text({"replay: ", token, " is not a schedule that explore has found"}));
        return number;
    }
};

}  // namespace allfold::detail
