// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "allfold/analysis/detail/interpreter.hpp"
#include "allfold/schedule/canonical_tree.hpp"
#include "allfold/schedule/step.hpp"

/// @file
/// Replays a schedule round by round, as a picture shows it: who sends what, and what is folded of what.
/// It checks nothing: what does not fit together is left out.

namespace allfold::detail {

/// Numbers with runs of neighbours drawn together: "0..3", "5,0..1", "2".
[[nodiscard]] inline std::string text_of_runs(const std::vector<int>& numbers) {
    std::string text;
    for (std::size_t i = 0; i < numbers.size();) {
        std::size_t last = i;
        while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
        text += (i ? "," : "") + std::to_string(numbers[i]);
        if (last != i) text += ".." + std::to_string(numbers[last]);
        i = last + 1;
    }
    return text;
}

/// The ranks of one operand in the order in which they were folded, and whether it came in a message.
struct operand {
    std::vector<int> ranks;
    bool received = false;
    friend bool operator==(const operand&, const operand&) = default;
};

/// What became of some blocks at one rank in one round: operands folded from left to right.
struct outcome {
    std::vector<int> blocks;
    std::vector<operand> operands;
};

struct message {
    int round;
    int from;
    int to;
};

class replay {
  public:
    replay(int size, const schedules& all, const claim& claimed) : size_(size), all_(all), claimed_(claimed) {
        for (int round = 0; round < rounds(); ++round) play(round);
    }

    [[nodiscard]] int size() const { return size_; }
    [[nodiscard]] int rounds() const { return size_ > 1 ? all_.rounds(0) : 0; }
    [[nodiscard]] int blocks() const { return all_.blocks(0); }
    [[nodiscard]] const std::vector<message>& messages() const { return messages_; }
    /// What a rank folds before it sends, the blocks that it sends to whomever, and what becomes of what it receives.
    [[nodiscard]] std::vector<outcome> prepared(int rank, int round) const { return at(prepared_, rank, round); }
    [[nodiscard]] std::vector<int> sent(int rank, int round) const {
        const auto blocks = at(sent_, rank, round);
        return {blocks.begin(), blocks.end()};
    }
    [[nodiscard]] std::vector<outcome> received(int rank, int round) const { return at(received_, rank, round); }

  private:
    using ranks = std::vector<int>;
    using slots = std::map<std::tuple<int, slot, int>, ranks>;
    template <class T>
    using by_rank_and_round = std::map<std::pair<int, int>, T>;

    void play(int round) {
        for (int r = 0; r < size_; ++r) work_alone(r, round);
        const slots before = held_;
        for (int r = 0; r < size_; ++r) send(r, round);
        for (int r = 0; r < size_; ++r) receive(r, round, before);
    }

    void work_alone(int r, int round) {
        const local_work work = all_.at(r, round).local;
        if (work.what == local_work::kind::none) return;
        for (int i = 0; i < work.blocks.size(); ++i) {
            std::vector<operand> parts{{value(held_, r, work.left, work.blocks[i])}};
            if (work.what == local_work::kind::fold) {
                parts.push_back({value(held_, r, work.right, work.blocks[i])});
                add(prepared_[{r, round}], work.blocks[i], parts);
            }
            held_[{r, work.into, work.blocks[i]}] = joined(parts);
        }
    }

    void send(int r, int round) {
        const step now = all_.at(r, round);
        for (int i = 0; i < now.to.count(r, size_); ++i) {
            const int peer = now.to.at(i, r);
            messages_.push_back({round, r, peer});
            for (int block = 0; block < blocks(); ++block)
                if (now.sent_to(peer).contains(block)) sent_[{r, round}].insert(block);
        }
    }

    void receive(int r, int round, const slots& before) {
        const step now = all_.at(r, round);
        for (int block = 0; block < blocks(); ++block) {
            const std::vector<operand> operands = operands_of(r, round, block, before);
            if (operands.empty()) continue;
            add(received_[{r, round}], block, operands);
            held_[{r, now.into, block}] = joined(operands);
        }
    }

    /// What comes from the left, its own if that is folded in, what comes from the right. Nothing if nothing comes.
    [[nodiscard]] std::vector<operand> operands_of(int r, int round, int block, const slots& before) const {
        const step now = all_.at(r, round);
        std::vector<operand> left, right;
        for (int i = 0; i < now.from.count(r, size_); ++i) {
            const int peer = now.from.at(i, r);
            const step theirs = all_.at(peer, round);
            if (!theirs.to.contains(r, peer) || !now.received_from(peer).contains(block)) continue;
            const bool on_the_left = now.how == fold::left || (now.how != fold::right && peer < r);
            (on_the_left ? left : right).push_back({value(before, peer, theirs.source, block), true});
        }
        if (left.empty() && right.empty()) return left;
        if (now.how != fold::store && now.how != fold::peers_in_rank_order)
            left.push_back({value(before, r, now.mine, block)});
        left.insert(left.end(), right.begin(), right.end());
        return left;
    }

    [[nodiscard]] ranks value(const slots& held, int r, slot where, int block) const {
        if (where == slot::input) return has_input(claimed_.goal, r, block, claimed_.root) ? ranks{r} : ranks{};
        const auto found = held.find({r, where, block});
        return found == held.end() ? ranks{} : found->second;
    }

    [[nodiscard]] static ranks joined(const std::vector<operand>& parts) {
        ranks all;
        for (const operand& part : parts) all.insert(all.end(), part.ranks.begin(), part.ranks.end());
        return all;
    }

    /// Blocks with the same operands are told of together.
    static void add(std::vector<outcome>& to, int block, const std::vector<operand>& operands) {
        for (outcome& each : to)
            if (each.operands == operands) return each.blocks.push_back(block);
        to.push_back({{block}, operands});
    }

    template <class T>
    [[nodiscard]] static T at(const by_rank_and_round<T>& all, int rank, int round) {
        const auto found = all.find({rank, round});
        return found == all.end() ? T() : found->second;
    }

    int size_;
    const schedules& all_;
    claim claimed_;
    slots held_;
    std::vector<message> messages_;
    by_rank_and_round<std::vector<outcome>> prepared_, received_;
    by_rank_and_round<std::set<int>> sent_;
};

}  // namespace allfold::detail
