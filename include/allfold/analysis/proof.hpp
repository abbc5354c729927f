// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "allfold/schedule/step.hpp"

/// @file
/// The outcome of `prove`: what a schedule costs, or its first fault.

namespace allfold {

/// What is wrong with a schedule.
enum class fault : std::uint8_t {
    none,
    unsupported,      ///< the schedule does not exist for this many ranks, or not in such groups
    rounds_differ,    ///< ranks disagree on the number of rounds, or there are some at P = 1
    blocks_differ,    ///< ranks disagree on the number of blocks, or it is not what the collective requires
    no_such_peer,     ///< a step names itself or a rank outside [0, P)
    other_group,      ///< a grouped schedule names a rank of another group, and not both are the first of their groups
    no_such_block,    ///< a step names a block that does not exist
    unmatched,        ///< a message that is never received, or a receive for which no message is sent
    message_differs,  ///< sender and receiver disagree on the number of blocks in a message
    cannot_run,       ///< a step asks for what ranks cannot run: see `not_run`
    targets_differ,   ///< local work names more or fewer blocks than targets for them
    copy_not_sent,    ///< a copy made to be sent is not exactly what its step sends, or the step reads it itself
    deadlock,         ///< without buffers, ranks wait for each other in a cycle
    empty_slot,       ///< a block is read that holds nothing
    overwrites_sent,  ///< a block is received into the slot from which the same step sends it
    fold_unclear,     ///< blocks of several peers meet in one without an ordered fold, or an ordered fold gets a
                      ///< different block from each peer
    no_copies,        ///< prefixes of a block go to a slot that does not have copies of just that block
    folds_again,      ///< a schedule that claims to fold once does not fold all operands in its first step
    received_twice,   ///< two messages of a step, or two parts of one, are received into the same block
    misplaced,        ///< a block is written where this rank may not: input, another's result, undeclared scratch slot
    other_length,     ///< a value is stored where a block of another length may be
    other_block,      ///< different blocks of the operands are folded
    repeated,         ///< a rank's operand is counted twice
    out_of_order,     ///< operands that are not neighbours in rank order are folded
    bracketing,       ///< a fold that is not in the canonical tree
    wrong_result,     ///< a block does not end up as the contract says
    disagreement,     ///< two ranks to which the same is promised have bracketed it differently
    fusion_differs,   ///< some ranks would run one pass where others run two steps
    not_in_place,     ///< wrong when result and input share memory: a block is overwritten while it is sent
                      ///< (`cause` is overwrites_sent), or before it is read (empty_slot)
};

/// Why a step cannot be run.
enum class not_run : std::uint8_t {
    fold_without_operator,  ///< a fold, or the identity, in a collective that only moves data
    second_part_per_peer,   ///< the second part of messages differs from peer to peer
    ordered_fold_of_parts,  ///< an ordered fold of several peers' messages that have two parts
    identity_elsewhere,     ///< the identity goes to a scratch slot, or to blocks with other numbers
    identity_read,          ///< an identity is used as a value, although operators need not have one
    identity_replaces       ///< the identity goes where something else has been stored, for the same reason
};

/// What a value is made of: block `item` of the operands of `count` ranks in [low, high). Item -1: there is no value.
struct ranks_held {
    int low = 0;
    int high = 0;
    int count = 0;
    int item = -1;
    friend constexpr bool operator==(const ranks_held&, const ranks_held&) = default;
};

/// What a schedule costs, and where it fails if it does. If `blocks` is 1, a block is the whole vector.
struct proof {
    fault what = fault::none;
    [[nodiscard]] constexpr bool ok() const noexcept { return what == fault::none; }

    int size = 0;
    int group = 1;  ///< how many consecutive ranks share memory; 1 for schedules that do not know
    int blocks = 0;
    int rounds = 0;
    int scratch_slots = 0;              ///< how many are actually used
    long long messages = 0;             ///< of all ranks
    long long blocks_sent = 0;          ///< of all ranks
    long long busiest_blocks_sent = 0;  ///< of the rank that sends most
    long long folds = 0;                ///< blocks folded by all ranks
    long long busiest_folds = 0;        ///< by the rank that folds most

    fault cause = fault::none;  ///< the fault behind `not_in_place`
    int rank = -1;              ///< where the fault shows
    int peer = -1;              ///< the other rank, if there is one
    int round = -1;             ///< -1: before the first or after the last round
    bool in_one_pass = false;   ///< the fault shows only where the steps run as one pass, see `fused_pass_of`
    int block = -1;
    slot where = slot::result;
    int found = 0;  ///< the two figures that should agree
    int wanted = 0;
    ranks_held left{};  ///< the two operands of a fold; or what a block holds, and what it should
    ranks_held right{};
    int circle_length = 0;        ///< of a deadlock
    std::array<int, 8> circle{};  ///< its ranks, each waiting for the next; the first eight of them
};

namespace detail {

[[nodiscard]] inline std::string counted(long long n, const std::string& noun) {
    return std::to_string(n) + " " + noun + (n == 1 ? "" : "s");
}

[[nodiscard]] inline std::string text_of(const ranks_held& ranks) {
    if (ranks.count == 0) return ranks.item < 0 ? "nothing" : "the identity";
    if (ranks.count == 1) return "rank " + std::to_string(ranks.low);
    const std::string range = std::to_string(ranks.low) + ".." + std::to_string(ranks.high - 1);
    if (ranks.count == ranks.high - ranks.low) return "ranks " + range;
    return std::to_string(ranks.count) + " of the ranks " + range;
}

[[nodiscard]] inline std::string text_with_block(const ranks_held& ranks) {
    const bool anonymous = ranks.item < 0 || ranks.count == 0;
    return (anonymous ? "" : "block " + std::to_string(ranks.item) + " of ") + text_of(ranks);
}

[[nodiscard]] inline std::string text_of(slot where) {
    constexpr const char* names[] = {"the input", "the result", "scratch_a", "scratch_b"};
    return names[static_cast<int>(where)];
}

[[nodiscard]] inline std::string text_of_circle(const proof& p) {
    std::string text = "waits";
    const int shown = std::min(p.circle_length, static_cast<int>(p.circle.size()));
    for (int i = 1; i < shown; ++i)
        text += " for rank " + std::to_string(p.circle[static_cast<std::size_t>(i)]) + ", which waits";
    if (shown < p.circle_length) text += " ... (" + counted(p.circle_length, "rank") + " in all)";
    return text + " for rank " + std::to_string(p.circle[0]) + ": without buffering no rank can proceed";
}

[[nodiscard]] inline std::string text_of_misplaced(const proof& p) {
    const std::string block = "block " + std::to_string(p.block) + " of " + text_of(p.where);
    switch (p.where) {
        case slot::input: return "writes " + block + ", which belongs to the caller";
        case slot::result: return "writes " + block + ", which does not belong to this rank";
        default: return "writes " + block + ", but declares " + counted(p.wanted, "scratch slot");
    }
}

[[nodiscard]] inline std::string text_of(not_run why) {
    switch (why) {
        case not_run::fold_without_operator: return "folds, or sets an identity, but the collective has no operator";
        case not_run::second_part_per_peer: return "addresses the second part of its messages per peer, not alike";
        case not_run::ordered_fold_of_parts:
            return "folds in rank order messages that have two parts: let one step receive each part";
        case not_run::identity_elsewhere:
            return "sets an identity in a scratch slot, or under other block numbers: set it in blocks of the result";
        case not_run::identity_read: return "reads an identity, which operators need not have";
        case not_run::identity_replaces:
            return "sets an identity where it has stored something: operators need not have one";
    }
    return {};
}

[[nodiscard]] inline std::string text_of_fault(const proof& p) {
    const auto number = [](long long n) { return std::to_string(n); };
    const std::string peer = "rank " + number(p.peer), block = "block " + number(p.block);
    const std::string fold = "folds " + text_of(p.left) + " ∘ " + text_of(p.right) + " in " + block;
    switch (p.what) {
        case fault::none: return "no fault";
        case fault::unsupported:
            return "the schedule does not exist for this many ranks" +
                   (p.group == 1 ? "" : " in groups of " + number(p.group));
        case fault::rounds_differ: return "has " + counted(p.found, "round") + ", not " + number(p.wanted);
        case fault::blocks_differ: return "has " + counted(p.found, "block") + ", not " + number(p.wanted);
        case fault::no_such_peer: return "names " + peer + ", which is not another of the " + number(p.size) + " ranks";
        case fault::other_group:
            return "exchanges messages with " + peer + " of another group: only the first ranks of groups may";
        case fault::no_such_block: return "names " + block + " of " + number(p.wanted);
        case fault::unmatched:
            return p.found ? "sends to " + peer + ", which never receives it"
                           : "receives from " + peer + ", which never sends it";
        case fault::message_differs:
            return "sends " + counted(p.found, "block") + " to " + peer + ", which expects " + number(p.wanted);
        case fault::cannot_run: return text_of(static_cast<not_run>(p.found));
        case fault::targets_differ: return "copies " + counted(p.found, "block") + " to " + counted(p.wanted, "place");
        case fault::copy_not_sent: return "makes a copy to be sent, but does not send exactly that, or reads it itself";
        case fault::deadlock: return text_of_circle(p);
        case fault::empty_slot: return "reads " + block + " of " + text_of(p.where) + ", which is empty";
        case fault::overwrites_sent:
            return "receives " + block + " into " + text_of(p.where) + " while it sends that block from there";
        case fault::fold_unclear:
            return "receives from " + counted(p.found, "peer") + " " +
                   (p.block < 0 ? "a block each, and folds them in rank order"
                                : "the same block " + number(p.block) + " without an ordered fold");
        case fault::no_copies:
            return "folds the prefixes of " + block + " into " + text_of(p.where) +
                   ", which does not have copies of exactly that";
        case fault::folds_again:
            return "does not fold all operands at once, although the schedule declares that it does";
        case fault::received_twice: return "receives " + block + " into " + text_of(p.where) + " twice in one step";
        case fault::misplaced: return text_of_misplaced(p);
        case fault::other_length:
            return "stores " + text_with_block(p.left) + " in " + block + " of " + text_of(p.where) +
                   ", which may have a different length";
        case fault::other_block: return "folds " + text_with_block(p.left) + " with " + text_with_block(p.right);
        case fault::repeated: return fold + ": an operand is counted twice";
        case fault::out_of_order: return fold + ", which are not neighbours in rank order";
        case fault::bracketing: return fold + ", which the canonical tree of " + number(p.wanted) + " does not";
        case fault::wrong_result:
            if (p.block < 0)
                return "has heard of " + counted(p.left.count, "rank") + ", should have heard of all " + number(p.size);
            if (p.left.item >= 0 && p.left.item != p.right.item)
                return "ends with " + text_with_block(p.left) + " in " + block + ", should have " +
                       text_with_block(p.right);
            return "ends with " + text_of(p.left) + " in " + block + ", should have " + text_of(p.right);
        case fault::disagreement: return "brackets " + block + " differently from " + peer;
        case fault::fusion_differs:
            return std::string(p.found ? "runs its steps as one pass, " : "runs its steps one by one, ") + peer +
                   " does not";
        case fault::not_in_place:
            return p.cause == fault::empty_slot
                       ? "in place reads " + block + " of the input after the result has been written there"
                       : "in place receives " + block + " of the result while it sends that block of the input";
    }
    return {};
}

[[nodiscard]] inline std::string text_of_costs(const proof& p) {
    std::string text = "proved; " + counted(p.rounds, "round") + ", " + counted(p.messages, "message");
    if (p.blocks == 0) return text;
    const std::string unit = p.blocks == 1 ? "vectors" : "blocks of 1/" + std::to_string(p.blocks);
    return text + "; the busiest rank sends " + std::to_string(p.busiest_blocks_sent) + " and folds " +
           std::to_string(p.busiest_folds) + " " + unit;
}

}  // namespace detail

/// The outcome in one line: the costs, or the ranks, round, block and both figures of the fault.
[[nodiscard]] inline std::string explain(const proof& p) {
    std::string text = "P = " + std::to_string(p.size);
    if (p.ok()) return text + ": " + detail::text_of_costs(p);
    if (p.rank >= 0) text += ", rank " + std::to_string(p.rank);
    if (p.round >= 0) text += ", round " + std::to_string(p.round);
    if (p.in_one_pass) text += ", in one pass";
    return text + ": " + detail::text_of_fault(p);
}

}  // namespace allfold
