// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>

#include <allfold/schedule/any_schedule.hpp>
#include <allfold/schedule/step.hpp>

/// @file
/// What a schedule costs, counted from its steps alone: nothing runs, so there may be a million ranks.

namespace examples {

struct price {
    int ranks = 0;  ///< that were counted; all other members are about these
    int rounds = 0;
    long long messages = 0, blocks = 0;                  ///< sent by all of them
    long long busiest_messages = 0, busiest_blocks = 0;  ///< by the one that sends most
};

namespace detail {

struct sent_by_rank {
    long long messages = 0, blocks = 0;
    long long steps = 0;  ///< examined so far, to know when to stop
};

[[nodiscard]] inline sent_by_rank sent_by(const allfold::any_schedule& s) {
    sent_by_rank sum;
    for (int round = 0; round < s.rounds(); ++round) {
        const allfold::step now = s[round];
        const int peers = now.to.count(s.rank(), s.size());
        const int more = now.has_more ? s.also(round).send.size() : 0;
        sum.messages += peers;
        ++sum.steps;
        if (now.sent == allfold::addressed::alike) {
            sum.blocks += static_cast<long long>(peers) * (now.send.size() + more);
        } else {
            for (int i = 0; i < peers; ++i)
                sum.blocks += allfold::sent_to(s, now, round, now.to.at(i, s.rank())).size() + more;
            sum.steps += peers;
        }
    }
    return sum;
}

}  // namespace detail

/// Counts rank by rank, starting with the root, the rank before it and the one opposite, until all are counted or
/// `most_steps` have been examined. Ranks are counted modulo P; without a root, it is 0.
template <class Make>
[[nodiscard]] price price_of(int size, int root, const Make& make, long long most_steps) {
    price sum;
    sum.rounds = size > 1 ? make(0).rounds() : 0;
    for (long long steps = 0; sum.ranks < size && steps < most_steps; ++sum.ranks) {
        const int first[]{0, size - 1, size / 2};
        const int from_root = size <= 3       ? sum.ranks
                              : sum.ranks < 3 ? first[sum.ranks]
                                              : sum.ranks - 2 + (sum.ranks - 2 >= size / 2 ? 1 : 0);
        const int rank = root < size - from_root ? root + from_root : root + (from_root - size);
        const detail::sent_by_rank one = size > 1 ? detail::sent_by(make(rank)) : detail::sent_by_rank();
        steps += one.steps;
        sum.messages += one.messages;
        sum.blocks += one.blocks;
        sum.busiest_messages = std::max(sum.busiest_messages, one.messages);
        sum.busiest_blocks = std::max(sum.busiest_blocks, one.blocks);
    }
    return sum;
}

}  // namespace examples
