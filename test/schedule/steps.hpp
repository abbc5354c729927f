// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "allfold/analysis/prove.hpp"
#include "allfold/collective.hpp"
#include "allfold/schedule/step.hpp"
#include "test/support/catch.hpp"

namespace test {

/// Steps as text, one row for each rank and one entry for each round. An entry lists what the step does, in this order:
/// local work, a send, a receive. Blocks are listed in braces if there are several; `[1]` is what rank 1 sent.
///
///     a=input          a copy                input{0,2}->1    blocks 0 and 2 of the input are sent to rank 1
///     b=a+input        a local fold          result<-1        what rank 1 sent is stored
///     a=[1]+input      a fold from the left  a=ordered([lower],input)
///     -                nothing               input{p}->all    each peer is sent its own block
///     input->1,2       sent to two of a group
///     a=prefixes{1}([all],input)  copy i of block 1 is the fold of what ranks 0 to i have
using table = std::vector<std::vector<std::string>>;

namespace detail {

inline std::string name_of(allfold::slot s) {
    constexpr const char* names[] = {"input", "result", "a", "b"};
    return names[static_cast<int>(s)];
}

/// The peers that a step of rank `self` names.
inline std::string name_of(const allfold::peers& who, const allfold::schedule auto& self) {
    std::string listed;
    switch (who.which()) {
        case allfold::peers::kind::one: return std::to_string(who.at(0, 0));
        case allfold::peers::kind::everyone: return "all";
        case allfold::peers::kind::lower: return "lower";
        case allfold::peers::kind::higher: return "higher";
        case allfold::peers::kind::range:
        case allfold::peers::kind::strided:
            for (int i = 0; i < who.count(self.rank(), self.size()); ++i)
                listed += (i ? "," : "") + std::to_string(who.at(i, self.rank()));
            return listed;
        default: return "nobody";
    }
}

inline std::string with_blocks(allfold::slot s, const allfold::block_set& blocks, int of) {
    if (of == 0) return "";
    if (of == 1 && (blocks.size() != 1 || blocks[0] == 0)) return name_of(s);  // scratch may hold copies of it
    std::string text = name_of(s) + "{";
    for (int i = 0; i < blocks.size(); ++i) text += (i ? "," : "") + std::to_string(blocks[i]);
    return text + "}";
}

inline std::string with_blocks(allfold::slot s, const allfold::block_set& blocks, allfold::addressed how, int of) {
    return how == allfold::addressed::per_peer ? name_of(s) + "{p}" : with_blocks(s, blocks, of);
}

inline std::string text_of_local(const allfold::local_work& work, int blocks) {
    const allfold::block_set& targets = work.targets.empty() ? work.blocks : work.targets;
    if (work.what == allfold::local_work::kind::identity) return with_blocks(work.into, targets, blocks) + "=identity";
    const std::string left =
        work.targets.empty() ? name_of(work.left) : with_blocks(work.left, work.blocks, blocks);  // under other numbers
    const std::string copied = with_blocks(work.into, targets, blocks) + "=" + left;
    return work.what != allfold::local_work::kind::fold ? copied : copied + "+" + name_of(work.right);
}

inline std::string text_of_receive(const allfold::step& s, const allfold::schedule auto& self) {
    const std::string into = with_blocks(s.into, s.receive, s.received, self.blocks());
    const std::string from = name_of(s.from, self), theirs = "[" + from + "]", mine = name_of(s.mine);
    switch (s.how) {
        case allfold::fold::store: return into + "<-" + from;
        case allfold::fold::left: return into + "=" + theirs + "+" + mine;
        case allfold::fold::right: return into + "=" + mine + "+" + theirs;
        case allfold::fold::in_rank_order: return into + "=ordered(" + theirs + "," + mine + ")";
        case allfold::fold::peers_in_rank_order: return into + "=ordered(" + theirs + ")";
        case allfold::fold::prefixes_in_rank_order:
            return name_of(s.into) + "=prefixes{" + std::to_string(s.receive[0]) + "}(" + theirs + "," + mine + ")";
    }
    return "?";
}

inline std::string text_of(const allfold::step& s, const allfold::schedule auto& self) {
    const int blocks = self.blocks();
    std::string text;
    const auto add = [&text](const std::string& more) { text += (text.empty() ? "" : " ") + more; };
    if (s.local.what != allfold::local_work::kind::none) add(text_of_local(s.local, blocks));
    if (s.to.which() != allfold::peers::kind::none)
        add(with_blocks(s.source, s.send, s.sent, blocks) + "->" + name_of(s.to, self));
    if (s.from.which() != allfold::peers::kind::none) add(text_of_receive(s, self));
    return text.empty() ? "-" : text;
}

}  // namespace detail

/// The steps of an algorithm's schedule for a collective.
template <class Collective, class Algorithm>
table steps_of(const Collective&, const Algorithm& algorithm, const allfold::setting& where) {
    using S = allfold::schedule_in<Collective, Algorithm>;
    table all;
    for (int r = 0; r < where.size; ++r) {
        const S s = allfold::make_schedule<S>(where.at(r), algorithm);
        auto& rounds = all.emplace_back();
        for (int i = 0; i < s.rounds(); ++i) rounds.push_back(detail::text_of(s[i], s));
    }
    return all;
}

template <class Collective, class Algorithm>
table steps_of(const Collective& what, const Algorithm& algorithm, int size, int root = 0, int group = 1) {
    return steps_of(what, algorithm, allfold::setting{0, size, root, group});
}

/// The largest P for proofs whose time or memory grows with P²; smaller in the build that evaluates all proofs for
/// smaller P while it compiles.
#ifdef ALLFOLD_PROVE_LARGEST
inline constexpr int many = 4096;
#else
inline constexpr int many = 512;
#endif

/// Every P up to 130, and values at and near powers of two, up to `last`.
inline std::vector<int> sizes_up_to(int last) {
    std::vector<int> sizes;
    for (int size = 1; size <= std::min(last, 130); ++size) sizes.push_back(size);
    for (int power = 256; power <= last; power *= 2)
        for (const int size : {power - 1, power, power + 1, power + power / 2})
            if (size <= last) sizes.push_back(size);
    return sizes;
}

/// Proves the schedule for each of these sizes that it supports, and calls check(proof, ranks) for each.
template <class Collective, class Algorithm, class Check>
void prove_for(const Collective& what, const Algorithm& algorithm, const std::vector<int>& sizes, Check check) {
    using S = allfold::schedule_in<Collective, Algorithm>;
    for (const int size : sizes) {
        if (!allfold::supports<S>(size)) continue;
        const int root = Collective::promise.rooted ? size * 2 / 3 : 0;
        const allfold::proof proved = allfold::prove(what, algorithm, size, root);
        INFO(allfold::explain(proved) << ", root " << root);
        REQUIRE(proved.ok());
        CHECK(proved.scratch_slots <= S::scratch_slots);
        check(proved, allfold::power_of_two_fold(size));
    }
}

}  // namespace test
