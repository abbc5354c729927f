// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "allfold/analysis/claim.hpp"
#include "allfold/analysis/detail/interpreter.hpp"
#include "allfold/schedule/step.hpp"

namespace allfold::detail {

/// Numbers, with consecutive ones contracted to ranges: "0..3", "5,0..1", "2".
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

/// The ranks of one operand in the order in which they were folded, and whether it was received in a message.
struct operand_shown {
    std::vector<int> ranks;
    bool received = false;
    friend bool operator==(const operand_shown&, const operand_shown&) = default;
};

/// What became of some blocks at one rank in one round: operands folded from left to right.
struct outcome {
    std::vector<int> blocks;
    std::vector<operand_shown> operands;
};

struct drawn_message {
    int round;
    int from;
    int to;
    friend auto operator<=>(const drawn_message&, const drawn_message&) = default;
};

/// Reader of a run that records what a picture shows: who sends what, and what is folded from what. It checks nothing:
/// an inconsistent schedule is shown as far as it runs.
class history : public reader {
  public:
    history(int size, const schedules& all, const claim& claimed)
        : size_(size),
          rounds_(size > 1 ? all.rounds(0) : 0),
          blocks_(all.blocks(0)),
          schedules_(all),
          claimed_(claimed) {
        interpreter<history> steps(size, all, *this);
        if (rounds_ > 0) steps.run();
        std::sort(messages_.begin(), messages_.end());
        for (auto& [when, what] : received_) by_block(what);
        for (auto& [when, what] : prepared_) by_block(what);
    }

    [[nodiscard]] int size() const { return size_; }
    [[nodiscard]] int rounds() const { return rounds_; }
    [[nodiscard]] int blocks() const { return blocks_; }
    /// Sorted by round, sender and receiver.
    [[nodiscard]] const std::vector<drawn_message>& messages() const { return messages_; }
    /// What a rank folds before it sends, the blocks that it sends to any peer, and how what it receives is combined.
    [[nodiscard]] std::vector<outcome> prepared(int rank, int round) const { return at(prepared_, rank, round); }
    [[nodiscard]] std::vector<int> sent(int rank, int round) const {
        const auto blocks = at(sent_, rank, round);
        return {blocks.begin(), blocks.end()};
    }
    [[nodiscard]] std::vector<outcome> received(int rank, int round) const { return at(received_, rank, round); }
    /// The peer that a rank waits for in vain in that round, or -1.
    [[nodiscard]] int waits_for(int rank, int round) const {
        const auto found = waits_.find({rank, round});
        return found == waits_.end() ? -1 : found->second;
    }

    // What happens

    void posts(const running_rank& self) {
        for (int i = 0; i < self.sending.count(); ++i) {
            const int peer = self.now.to.at(i, self.rank);
            messages_.push_back({self.round, self.rank, peer});
            for (int part = 0; part < self.parts(); ++part) remember_sent(self, part, peer);
        }
    }
    void copies(const running_rank& self, const cell_at_rank& from, const cell_at_rank& into) {
        if (from.rank != self.rank) add(received_, into, {operand_of(from, self)});
        hold(into, {operand_of(from, self)});
    }
    void folds(const running_rank& self, const cell_at_rank& left, const cell_at_rank& right,
               const cell_at_rank& into) {
        const std::vector<operand_shown> parts{operand_of(left, self), operand_of(right, self)};
        add(parts[0].received || parts[1].received ? received_ : prepared_, into, parts);
        hold(into, parts);
    }
    void keeps(const running_rank& self, int part, int peer, int i, const cell_at_rank& from) {
        kept_[{self.rank, part, i}][peer] = operand_of(from, self);
    }
    void folds_kept(const running_rank& self, int part, int i, int own, const cell_at_rank& into) {
        const std::vector<operand_shown> parts = operands_kept(self, part, i, own);
        kept_.erase({self.rank, part, i});
        add(received_, into, parts);
        hold(into, parts);
    }
    void folds_prefix(const running_rank& self, int part, int i, int own, int n, const cell_at_rank& into) {
        std::vector<operand_shown> parts = operands_kept(self, part, i, own);
        if (n == self.receiving.count()) kept_.erase({self.rank, part, i});
        parts.resize(static_cast<std::size_t>(n) + 1);
        if (n > 0) add(received_, into, parts);
        hold(into, parts);
    }
    void erases(const running_rank&, const cell_at_rank& into) { held_[key(into)].clear(); }
    void waits(const running_rank& self, int peer) { waits_[{self.rank, self.round}] = peer; }

  private:
    using ranks = std::vector<int>;
    template <class T>
    using by_rank_and_round = std::map<std::pair<int, int>, T>;

    [[nodiscard]] static std::tuple<int, slot, int> key(const cell_at_rank& p) { return {p.rank, p.where, p.block}; }
    [[nodiscard]] static cell_at_rank own_of(const running_rank& self, int part, int i) {
        return self.at(self.part(part).mine, self.part(part).receive[i]);
    }

    /// In the order in which they are folded.
    [[nodiscard]] std::vector<operand_shown> operands_kept(const running_rank& self, int part, int i, int own) {
        std::vector<operand_shown> operands;
        for (const auto& [peer, value] : kept_[{self.rank, part, i}]) {
            if (peer == own) operands.push_back(operand_of(own_of(self, part, i), self));
            operands.push_back(value);
        }
        if (own == static_cast<int>(operands.size())) operands.push_back(operand_of(own_of(self, part, i), self));
        return operands;
    }
    [[nodiscard]] operand_shown operand_of(const cell_at_rank& p, const running_rank& self) const {
        return {value(p), p.rank != self.rank};
    }
    [[nodiscard]] ranks value(const cell_at_rank& p) const {
        if (p.where != slot::input) {
            const auto found = held_.find(key(p));
            return found == held_.end() ? ranks{} : found->second;
        }
        const content operand = claimed_.promise->input(claimed_.at(p.rank, size_), p.block);
        return operand.exists() ? ranks{operand.first} : ranks{};
    }
    void hold(const cell_at_rank& into, const std::vector<operand_shown>& parts) {
        ranks all;
        for (const operand_shown& part : parts) all.insert(all.end(), part.ranks.begin(), part.ranks.end());
        held_[key(into)] = all;
    }

    /// A block of a scratch slot bears the name of the block that it is a copy of.
    [[nodiscard]] int name_of(int rank, slot where, int block) const {
        return where == slot::input || where == slot::result ? block : schedules_.scratch(rank).copied(block);
    }
    void remember_sent(const running_rank& self, int part, int peer) {
        const block_set blocks = self.sent_to(part, peer);
        for (int i = 0; i < blocks.size(); ++i)
            sent_[{self.rank, self.round}].insert(name_of(self.rank, self.part(part).source, blocks[i]));
    }
    /// Blocks with the same operands are listed together.
    void add(by_rank_and_round<std::vector<outcome>>& to, const cell_at_rank& into,
             const std::vector<operand_shown>& operands) const {
        std::vector<outcome>& all = to[{into.rank, into.round}];
        const int block = name_of(into.rank, into.where, into.block);
        for (outcome& each : all)
            if (each.operands == operands) return each.blocks.push_back(block);
        all.push_back({{block}, operands});
    }
    static void by_block(std::vector<outcome>& all) {
        for (outcome& each : all) std::sort(each.blocks.begin(), each.blocks.end());
        std::sort(all.begin(), all.end(), [](const outcome& a, const outcome& b) { return a.blocks < b.blocks; });
    }

    template <class T>
    [[nodiscard]] static T at(const by_rank_and_round<T>& all, int rank, int round) {
        const auto found = all.find({rank, round});
        return found == all.end() ? T() : found->second;
    }

    int size_;
    int rounds_;
    int blocks_;
    const schedules& schedules_;
    claim claimed_;
    std::map<std::tuple<int, slot, int>, ranks> held_;
    std::map<std::tuple<int, int, int>, std::map<int, operand_shown>> kept_;
    std::vector<drawn_message> messages_;
    by_rank_and_round<std::vector<outcome>> prepared_, received_;
    by_rank_and_round<std::set<int>> sent_;
    by_rank_and_round<int> waits_;
};

}  // namespace allfold::detail
