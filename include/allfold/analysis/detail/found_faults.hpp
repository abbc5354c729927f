// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <istream>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "allfold/analysis/exploration.hpp"

/// @file
/// The faults that an exploration has found so far.

namespace allfold::detail {

/// Counts different texts, up to a limit. A text is represented by a number that is the same in every process.
class distinct_texts {
  public:
    [[nodiscard]] static std::uint64_t number_of(std::string_view text) noexcept {
        std::uint64_t all = 0xcbf29ce484222325u;
        for (const char each : text) all = (all ^ static_cast<unsigned char>(each)) * 0x100000001b3u;
        return all;
    }
    [[nodiscard]] bool contains(std::uint64_t number) const { return std::ranges::find(all_, number) != all_.end(); }
    void insert(std::uint64_t number) {
        if (all_.size() < finding::most_alike && !contains(number)) all_.push_back(number);
    }
    void insert(const distinct_texts& others) {
        for (const std::uint64_t each : others.all_) insert(each);
    }
    void erase(std::uint64_t number) { std::erase(all_, number); }
    [[nodiscard]] std::size_t count() const noexcept { return all_.size(); }

    void write(std::ostream& out) const {
        out << all_.size();
        for (const std::uint64_t each : all_) out << ' ' << each;
        out << '\n';
    }
    void read(std::istream& in) {
        std::size_t size = 0;
        for (in >> size; in && all_.size() < size;) in >> all_.emplace_back();
    }

  private:
    std::vector<std::uint64_t> all_;
};

/// A finding that represents all those with the same key.
struct found_fault : finding {
    std::string key;
    distinct_texts seen;
    std::size_t number = 0;  ///< in the order in which they were found
};

/// What a fault has in common with others that are the same mistake: its words without numbers of calls, and without
/// the values if those differ from the first execution.
[[nodiscard]] inline std::string key_of(verdict what, std::string words) {
    if (what == verdict::different_values) return words.substr(0, words.find(" returns "));
    constexpr std::string_view before = "(its ";
    for (std::size_t at = 0; (at = words.find(before, at)) != std::string::npos; at += before.size())
        words.erase(at + before.size(), words.find(" call", at) - at - before.size());
    return words;
}

/// Each fault once, with the shortest schedule that leads to it; the shortest ones if there are more than wanted. As
/// many again are kept of the deadlocks that need sends to wait, which may be left out later and must not replace the
/// others.
class found_faults {
  public:
    explicit found_faults(std::size_t most) : most_(most) {}

    /// `more` follows the words that identify the fault.
    void add(verdict what, const std::string& words, const std::string& more, const std::string& schedule) {
        if (what == verdict::deadlock || what == verdict::never_received) has_lost_or_deadlock_ = true;
        found_fault one{{what, words + more, schedule}, key_of(what, words), {}};
        one.seen.insert(distinct_texts::number_of(words));
        const std::uint64_t number = distinct_texts::number_of(one.key);
        if (is_known(one) || (is_unless_held(one) && left_out_.contains(number))) return;
        one.number = found_++;
        left_out_.erase(number);
        left_out_unless_held_.erase(number);
        all_.push_back(std::move(one));
        keep_shortest();
    }
    /// Leaves out deadlocks that need sends to wait, and does not count them.
    void forget_unless_held() {
        std::erase_if(all_, is_unless_held);
        left_out_unless_held_ = {};
    }
    /// Nothing more is to be found: leaves out those with the longest schedules until no more are left than wanted.
    void keep_shortest_of_all() {
        while (all_.size() > most_) leave_out_longest([](const found_fault&) { return true; });
    }
    /// The shortest schedules first, and among these what was found first. (Clang warns of stable_sort in libstdc++.)
    void sort() {
        std::ranges::sort(all_, {},
                          [](const found_fault& each) { return std::pair(length_of(each.schedule), each.number); });
    }
    [[nodiscard]] std::vector<found_fault>& all() noexcept { return all_; }
    [[nodiscard]] const std::vector<found_fault>& all() const noexcept { return all_; }
    [[nodiscard]] std::size_t left_out() const noexcept { return left_out_.count() + left_out_unless_held_.count(); }
    /// Whether a deadlock or a lost message was found, even if it is not kept.
    [[nodiscard]] bool has_lost_or_deadlock() const noexcept { return has_lost_or_deadlock_; }

    /// A fault that another exploration has found, which is to be repeated.
    struct record {
        std::string schedule;
        std::uint64_t key = 0;
        distinct_texts seen;
    };
    void write(std::ostream& out) const {
        out << has_lost_or_deadlock_ << ' ';
        left_out_.write(out);
        left_out_unless_held_.write(out);
        out << all_.size() << '\n';
        for (const found_fault& each : all_) {
            out << each.schedule << ' ' << distinct_texts::number_of(each.key) << ' ';
            each.seen.write(out);
        }
    }
    [[nodiscard]] std::vector<record> read(std::istream& in) {
        std::size_t count = 0;
        in >> has_lost_or_deadlock_;
        left_out_.read(in);
        left_out_unless_held_.read(in);
        std::vector<record> all;
        for (in >> count; in && all.size() < count;) {
            record& each = all.emplace_back();
            in >> each.schedule >> each.key;
            each.seen.read(in);
        }
        return all;
    }
    /// Adds what the other exploration knows of a fault. False if it was not found again.
    [[nodiscard]] bool merge(const record& before) {
        for (found_fault& each : all_)
            if (distinct_texts::number_of(each.key) == before.key) {
                each.seen.insert(before.seen);
                return true;
            }
        return count(false) == most_ || count(true) == most_;
    }

  private:
    /// A schedule without the number of ranks and, if two executions differ, without the first one.
    [[nodiscard]] static std::size_t length_of(const std::string& schedule) {
        return schedule.size() - schedule.find_last_of(":/") - 1;
    }
    /// A deadlock needs no sends that wait, even if it was first found with some.
    [[nodiscard]] bool is_known(const found_fault& one) {
        for (found_fault& known : all_) {
            if (known.key != one.key) continue;
            const bool is_stronger = known.what == verdict::deadlock_unless_held && one.what != known.what;
            if (known.what != one.what && known.what != verdict::deadlock && !is_stronger) continue;
            known.seen.insert(one.seen);
            if (is_stronger || (known.what == one.what && length_of(one.schedule) < length_of(known.schedule)))
                static_cast<finding&>(known) = one;
            keep_shortest();
            return true;
        }
        return false;
    }
    [[nodiscard]] static bool is_unless_held(const found_fault& each) {
        return each.what == verdict::deadlock_unless_held;
    }
    [[nodiscard]] std::size_t count(bool unless_held) const {
        return static_cast<std::size_t>(std::ranges::count(all_, unless_held, is_unless_held));
    }
    void keep_shortest() {
        for (const bool unless_held : {false, true})
            if (count(unless_held) > most_)
                leave_out_longest([&](const found_fault& each) { return is_unless_held(each) == unless_held; });
    }
    template <class IsAmong>
    void leave_out_longest(IsAmong is_among) {
        const auto longest = std::ranges::max_element(
            all_, {}, [&](const found_fault& each) { return is_among(each) ? length_of(each.schedule) + 1 : 0; });
        distinct_texts& left_out = is_unless_held(*longest) ? left_out_unless_held_ : left_out_;
        left_out.insert(distinct_texts::number_of(longest->key));
        all_.erase(longest);
    }

    std::size_t most_, found_ = 0;
    std::vector<found_fault> all_;
    distinct_texts left_out_, left_out_unless_held_;
    bool has_lost_or_deadlock_ = false;
};

}  // namespace allfold::detail
