// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "allfold/analysis/detail/explored_world.hpp"
#include "allfold/error.hpp"

/// @file
/// An execution, as text that people can keep.

namespace allfold::detail {

/// The choices of one execution, as a token: a letter for each, without trailing first choices. It begins with U if
/// standard sends are not held for their receivers, and with E if that is a choice like any other; then R if something
/// is sent in mode::ready, for each rank that tests standard sends T and its number, and for each send that is
/// cancelled C, its rank and its call.
class explored_token {
  public:
    using sending = explored_world::sending;

    [[nodiscard]] static std::string begin(sending sends, bool has_ready_sends, std::uint64_t test_sends,
                                           const std::vector<explored_send>& cancelled) {
        std::string how = sends == sending::held ? "" : sends == sending::waits ? "U" : "E";
        if (has_ready_sends) how += "R";
        for (; test_sends != 0; test_sends &= test_sends - 1) how += text({"T", std::countr_zero(test_sends), "."});
        for (const explored_send& each : cancelled) how += text({"C", each.rank, ".", each.call, "."});
        return how;
    }
    /// Throws `bad_argument` if it is not a token.
    [[nodiscard]] static std::string begin_of(std::string_view token) {
        std::string own = begin(sends(token), has_ready_sends(token), test_sends(token), cancelled(token));
        if (!token.starts_with(own) || !are_sends(cancelled(token))) throw no_schedule(token);
        return own;
    }
    [[nodiscard]] static std::vector<explored_send> cancelled(std::string_view token) {
        std::vector<explored_send> all;
        std::size_t i = begin(sends(token), has_ready_sends(token), test_sends(token), {}).size();
        while (i < token.size() && token[i] == 'C') {
            const int rank = number(token, ++i), call = number(token, ++i);
            all.push_back({rank, static_cast<std::size_t>(call)});
            ++i;
        }
        return all;
    }
    [[nodiscard]] static sending sends(std::string_view token) {
        return token.starts_with('U') ? sending::waits : token.starts_with('E') ? sending::chosen : sending::held;
    }
    [[nodiscard]] static bool has_ready_sends(std::string_view token) {
        return token.substr(0, 2).find('R') != std::string_view::npos;
    }
    /// The ranks that test standard sends.
    [[nodiscard]] static std::uint64_t test_sends(std::string_view token) {
        std::uint64_t all = 0;
        std::size_t i = begin(sends(token), has_ready_sends(token), 0, {}).size();
        while (i < token.size() && token[i] == 'T') {
            all |= std::uint64_t{1} << number(token, ++i) % search_tree::max_ranks;
            ++i;
        }
        return all;
    }
    static void add(std::string& token, int choice) {
        constexpr std::string_view letters = "0123456789abcdefghijklmnopqrstuvwxyz";
        const auto which = static_cast<std::size_t>(choice);
        token += which < letters.size() ? std::string(1, letters[which]) : "(" + std::to_string(choice) + ")";
    }
    [[nodiscard]] static std::string of(std::string begin, const std::vector<int>& choices) {
        for (const int each : choices) add(begin, each);
        return begin;
    }
    [[nodiscard]] static std::string shortened(std::string token) {
        token.erase(token.find_last_not_of('0') + 1);
        return token;
    }
    /// Throws `bad_argument` if it is not a token.
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
    /// Whether these can be calls of ranks, each once and in order.
    [[nodiscard]] static bool are_sends(const std::vector<explored_send>& all) {
        return std::ranges::all_of(all, [](const explored_send& each) { return each.call > 0; }) &&
               std::ranges::adjacent_find(all, std::greater_equal()) == all.end();
    }
    /// The number whose digits begin at i, which then moves past them.
    [[nodiscard]] static int number(std::string_view token, std::size_t& i) {
        int all = 0;
        for (; i < token.size() && token[i] >= '0' && token[i] <= '9' && all < 1'000'000; ++i)
            all = 10 * all + (token[i] - '0');
        return all;
    }
    [[nodiscard]] static int long_number(std::string_view token, std::size_t& i) {
        const int all = token[i] == '(' ? number(token, ++i) : 0;
        if (all < 36 || i >= token.size() || token[i] != ')') throw no_schedule(token);
        return all;
    }
    [[nodiscard]] static error no_schedule(std::string_view token) {
        return error(errc::bad_argument, text({"replay: ", token, " is not a schedule that explore has found"}));
    }
};

}  // namespace allfold::detail
