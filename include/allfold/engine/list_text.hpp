// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "allfold/transport/communicator.hpp"

/// @file
/// The text of a list, which ranks look up if their lists differ. What is compared is a hash; the text stored beside
/// it, with as many numbers as a name has room for, serves to name the first tensor or shard that differs.
///
///     extents before the axis, multiplied | count of tensors | their lengths | shard of each rank

namespace allfold::detail {

/// Appends a number in base 36, followed by a space.
inline void append_number(std::string& to, std::uint64_t number) {
    std::array<char, 16> digits;
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number, 36);
    to.append(digits.data(), end.ptr);
    to += ' ';
}
template <class Numbers>
void append_numbers(std::string& to, const Numbers& numbers) {
    for (const auto number : numbers) append_number(to, static_cast<std::uint64_t>(number));
}
[[nodiscard]] inline std::vector<std::uint64_t> numbers_in(std::string_view text) {
    std::vector<std::uint64_t> numbers;
    const char* const end = text.data() + text.size();
    for (const char* next = text.data(); next < end; ++next)
        next = std::from_chars(next, end, numbers.emplace_back(), 36).ptr;
    return numbers;
}
/// The first numbers of a text, as many as fit into `most` characters.
[[nodiscard]] inline std::string_view first_numbers(std::string_view text, std::size_t most) {
    return text.size() <= most ? text : text.substr(0, text.rfind(' ', most - 1) + 1);
}

/// Texts, found by the marks of what they describe. They are kept as long as the program runs: other ranks may look one
/// up after this one has forgotten its call. If there are very many of them, new ones are empty.
class kept_texts {
  public:
    template <class Make>
    [[nodiscard]] static const char* find_or_make(std::uint64_t mark, Make make) {
        static constinit thread_local latest_text latest{};  // threads do not contend when calls repeat
        if (latest.text == nullptr || latest.mark != mark) latest = {mark, of_all().find_or_add(mark, make)};
        return latest.text;
    }

  private:
    struct latest_text {
        std::uint64_t mark;
        const char* text;
    };
    [[nodiscard]] static kept_texts& of_all() {
        static kept_texts& all = *new kept_texts;  // threads may use it until the very end
        return all;
    }
    template <class Make>
    [[nodiscard]] const char* find_or_add(std::uint64_t mark, Make make) {
        constexpr std::size_t most = 4096;
        const std::lock_guard<std::mutex> alone(in_use_);
        if (const auto known = texts_.find(mark); known != texts_.end()) return known->second.c_str();
        return texts_.size() == most ? "" : texts_.emplace(mark, make()).first->second.c_str();
    }

    std::mutex in_use_;
    std::unordered_map<std::uint64_t, std::string> texts_;
};
/// The text of two lists, an input and an output, in the space of one.
[[nodiscard]] inline const char* text_of_both(std::uint64_t mark, std::string_view input, std::string_view output) {
    return kept_texts::find_or_make(mark, [&] {
        constexpr std::size_t most = (longest_name - 1) / 2;
        return std::string(first_numbers(input, most)).append(";").append(first_numbers(output, most));
    });
}

/// The first difference between two lists; empty if the texts show none. `name`: what to call a tensor.
template <class Say>
[[nodiscard, gnu::cold]] std::string list_difference_text(const char* name, std::string_view here,
                                                          std::string_view there, Say say) {
    const std::vector<std::uint64_t> mine = numbers_in(here), theirs = numbers_in(there);
    const auto [own, its] = std::ranges::mismatch(mine, theirs);
    if (own == mine.end() || its == theirs.end()) return "";
    const auto at = static_cast<std::size_t>(own - mine.begin());
    if (at == 0)
        return say(" cuts along an axis whose preceding extents have product ", *own, " along one with product ", *its);
    if (at == 1) return say(" passes ", *own, " passes ", *its, text({" ", name, "s"}).c_str());
    const std::size_t tensors = mine[1];
    if (at >= 2 + tensors)
        return say(text({" assigns rank ", at - 2 - tensors, " shard "}).c_str(), *own, " assigns it shard ", *its);
    return say(text({" passes ", name, " ", at - 2, " of ", tensors, " with "}).c_str(), *own, " passes it with ", *its,
               " elements");
}
template <class Say>
[[nodiscard, gnu::cold]] std::string list_difference_text(std::string_view here, std::string_view there, Say say) {
    const std::size_t end = here.find(';'), their_end = there.find(';');
    if (end >= here.size() || their_end >= there.size()) return list_difference_text("tensor", here, there, say);
    if (std::string words = list_difference_text("input tensor", here.substr(0, end), there.substr(0, their_end), say);
        !words.empty())
        return words;
    return list_difference_text("output tensor", here.substr(end + 1), there.substr(their_end + 1), say);
}

}  // namespace allfold::detail
