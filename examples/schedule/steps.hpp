// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <string>

#include <allfold/schedule/any_schedule.hpp>
#include <allfold/schedule/step.hpp>

/// @file
/// The steps of a schedule in words.

namespace examples {

namespace detail {

/// "0..3,7" or "5..2": ascending and descending runs are contracted.
template <class Set>
[[nodiscard]] std::string numbers(const Set& set, int count) {
    std::string text;
    for (int i = 0; i < count;) {
        int last = i;
        const int stride = i + 1 < count && set(i + 1) < set(i) ? -1 : 1;
        while (last + 1 < count && set(last + 1) == set(last) + stride) ++last;
        text += (i ? "," : "") + std::to_string(set(i));
        if (last != i) text += ".." + std::to_string(set(last));
        i = last + 1;
    }
    return text;
}
[[nodiscard]] inline std::string text_of(const allfold::block_set& blocks) {
    return numbers([&](int i) { return blocks[i]; }, blocks.size());
}

/// Which blocks, if there are several; `each` is the text for blocks that differ from peer to peer.
[[nodiscard]] inline std::string text_of(const allfold::any_schedule& s, const allfold::block_set& blocks,
                                         allfold::addressed how, const char* each) {
    if (how == allfold::addressed::per_peer) return each;
    return s.blocks() > 1 ? text_of(blocks) + " " : "";
}
[[nodiscard]] inline std::string text_of(const allfold::any_schedule& s, const allfold::peers& who) {
    return numbers([&](int i) { return who.at(i, s.rank()); }, who.count(s.rank(), s.size()));
}

[[nodiscard]] inline std::string text_of(const allfold::any_schedule& s, const allfold::local_work& work) {
    using kind = allfold::local_work::kind;
    const std::string blocks = s.blocks() > 1 ? text_of(work.blocks) : "what it has";
    switch (work.what) {
        case kind::copy: return "keeps " + blocks + (work.targets.empty() ? "" : " as " + text_of(work.targets));
        case kind::fold: return "folds " + blocks + " in two slots";
        case kind::identity: return "keeps the identity";
        case kind::copy_to_send:  // what it sends, and nothing else
        case kind::none: break;
    }
    return "";
}

[[nodiscard]] inline const char* text_of(allfold::fold how) {
    switch (how) {
        case allfold::fold::store: return "";
        case allfold::fold::left: return ", folds it on the left";
        case allfold::fold::right: return ", folds it on the right";
        case allfold::fold::in_rank_order: return ", folds all in rank order with its own";
        case allfold::fold::peers_in_rank_order: return ", folds all in rank order";
        case allfold::fold::prefixes_in_rank_order: return ", folds all prefixes";
    }
    return "";
}

[[nodiscard]] inline std::string text_of(const allfold::any_schedule& s, int round) {
    const allfold::step now = s[round];
    const bool sends = now.to.count(s.rank(), s.size()) > 0, receives = now.from.count(s.rank(), s.size()) > 0;
    const allfold::step second = now.has_more ? s.also(round) : allfold::step();  // part of the same messages
    const std::string more = second.send.empty() ? "" : "and " + text_of(second.send) + " ";
    const std::string parts[]{
        text_of(s, now.local),
        sends ? "sends " + text_of(s, now.send, now.sent, "each its own ") + more + "to " + text_of(s, now.to) : "",
        receives ? "takes " + text_of(s, now.receive, now.received, "what is for it ") + "from " +
                       text_of(s, now.from) + text_of(now.how)
                 : "",
        second.receive.empty() ? "" : "also takes " + text_of(second.receive) + text_of(second.how),
    };
    std::string line;
    for (const std::string& part : parts)
        if (!part.empty()) line += (line.empty() ? "" : "; ") + part;
    return line;
}

}  // namespace detail

/// A line for each rank that does something, round by round.
template <class Make>
[[nodiscard]] std::string steps_of(int size, const Make& make) {
    const std::size_t width = std::to_string(size - 1).size();
    std::string text;
    for (int round = 0; size > 1 && round < make(0).rounds(); ++round) {
        text += "\nround " + std::to_string(round) + "\n";
        for (int r = 0; r < size; ++r)
            if (const std::string line = detail::text_of(make(r), round); !line.empty()) {
                std::string rank = std::to_string(r);
                rank.resize(width, ' ');
                text += "  rank " + rank + "  " + line + "\n";
            }
    }
    return text;
}

}  // namespace examples
