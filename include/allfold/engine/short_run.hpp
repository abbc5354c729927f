// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "allfold/data/detail/heap_array.hpp"
#include "allfold/engine/mismatch.hpp"
#include "allfold/engine/rows.hpp"
#include "allfold/engine/short_call.hpp"
#include "allfold/engine/short_program.hpp"
#include "allfold/transport/background.hpp"
#include "allfold/transport/communicator.hpp"
#include "allfold/transport/detail/copy.hpp"

/// @file
/// Runs a remembered call: in few instructions if its messages arrive at once, otherwise step by step.

namespace allfold::detail {

/// What a single run of such a call works on.
template <communicator Comm>
struct short_operands {
    Comm& comm;
    const short_call& what;
    const row_layout& rows;
    short_memory input, result;
    lane on;
    std::uint32_t hash;
    bool unordered = false;  ///< started again, so that its lane does not reveal when it began

    using round = short_program::round;
    using message = short_program::message;
    using columns = std::array<std::byte*, short_call::max_columns>;

    /// Copies the part of the input that belongs to the result, or sets the identity.
    void work(const round& now) const {
        using kind = local_work::kind;
        if (now.local == kind::none) return;
        const place to = result.at(now.result.first);
        if (now.local == kind::copy && what.is_flat)
            copy_flat(now);
        else if (now.local == kind::copy)
            rows.copy(input.at(now.input.first), to, now.input.count);
        else if (rows.functions->set_identity != nullptr && now.result.count > 0)
            rows.set_identity(to, now.result.count);
    }

    [[nodiscard]] bool post(const round& now, const message& next) const {
        const short_memory& from = now.sends_result ? result : input;
        if (what.is_aligned) [[likely]]
            if (comm.post_copy(next.peer, on, unordered, hash, next.bytes, false,
                               [=, this](destination memory) { write(next, from, memory); })) [[likely]]
                return true;
        return post_parts(now, next);
    }
    /// Writes a message in the form in which it is sent: one column after another, each aligned.
    void write(const message& next, const short_memory& from, destination memory) const {
        if (what.is_flat) [[likely]]
            return copy_to_shared(memory, from.columns[0] + next.first_byte, next.bytes);
        for (std::size_t c = 0, at = 0; c < rows.columns() && next.rows.count > 0; ++c) {
            const std::size_t bytes = next.rows.count * rows.bytes[c];
            at = align_up(at, rows.alignment);
            copy_to_shared(memory + at, rows.address(from.at(next.rows.first), c), bytes);
            at += bytes;
        }
    }
    /// Posts the messages of a round in one go, if that is possible and was done for all earlier ones on its lane.
    [[nodiscard]] bool post_at_once(const round& now) const {
        return now.is_to_all ? post_to_all(now) : now.is_to_each && post_to_each(now);
    }
    [[nodiscard, gnu::noinline]] bool post_to_all(const round& now) const {
        if (what.is_flat) [[likely]] {
            const part whole{(now.sends_result ? result : input).columns[0] + now.to[0].first_byte, now.to[0].bytes};
            return comm.post_to_all(on, message_of({&whole, 1}, whole.bytes));
        }
        return with_parts(now, now.to[0], [&](const outgoing& packed) { return comm.post_to_all(on, packed); });
    }
    [[nodiscard, gnu::noinline]] bool post_to_each(const round& now) const {
        return comm.post_to_each(on, hash, now.to, [&](const message& next, destination to) {
            static_cast<void>(with_parts(now, next, [&](const outgoing& packed) {
                pack(packed.parts, packed.alignment, to);
                return true;
            }));
        });
    }
    [[nodiscard, gnu::noinline]] bool post_parts(const round& now, const message& next) const {
        return with_parts(now, next, [&](const outgoing& packed) { return comm.try_post(next.peer, on, packed); });
    }
    template <class Post>
    [[nodiscard]] bool with_parts(const round& now, const message& next, Post post) const {
        std::array<part, std::max(short_call::max_columns, short_call::max_pieces)> parts;
        const place from = (now.sends_result ? result : input).at(next.rows.first);
        std::size_t count = 0;
        if (from.pieces != nullptr) [[unlikely]]
            count = list_pieces(from, next.rows.count, parts.data());
        else
            for (; count < rows.columns() && next.rows.count > 0; ++count)
                parts[count] = {rows.address(from, count), next.rows.count * rows.bytes[count]};
        return post(message_of({parts.data(), count}, next.bytes));
    }
    [[nodiscard]] outgoing message_of(std::span<const part> parts, std::size_t bytes) const noexcept {
        return {parts, bytes, rows.alignment, true, hash, nullptr, unordered, true};
    }

    /// A separate function, so that all other calls have enough registers: with its cursors in the same function,
    /// all_gather of two blocks of 128 to 512 bytes took 1.1 times as long (g++ 12, -O3 -march=znver4).
    [[gnu::noinline]] std::size_t list_pieces(const place& from, std::size_t many, part* parts) const {
        std::size_t count = 0;
        rows.for_each_run(from, many,
                          [&](std::byte* first, std::size_t run) { parts[count++] = {first, run * rows.row_bytes}; });
        return count;
    }

    /// Throws unless a message is the expected one.
    void require_right(std::uint32_t signature, std::size_t bytes, const message& expected) const {
        if (signature != hash) [[unlikely]]
            throw_disagreement(comm, what.agreed, expected.peer, on);
        if (bytes != expected.bytes) [[unlikely]]
            throw_other_length(what.agreed.what, comm.rank(), expected.peer, bytes, expected.bytes, rows.row_bytes);
    }
    void combine(const round& now, const message& with, std::byte* data) const {
        if (with.rows.count == 0) return;
        if (what.is_flat) [[likely]]
            return combine_column(now, with, data);
        columns theirs;
        list_columns(data, with.rows.count, theirs.data());
        const place from{theirs.data(), 0}, to = result.at(with.rows.first);
        if (now.how == fold::store) return rows.copy(from, to, with.rows.count);
        const place own = own_of(now);
        const background::running inside(comm.background());
        rows.fold(now.how == fold::left ? from : own, now.how == fold::left ? own : from, to, with.rows.count);
    }
    /// Combines in rank order: `data` holds the messages of all peers.
    void combine_all(const round& now, std::span<std::byte* const> data) const {
        const std::size_t count = data.size(), many = now.from[0].rows.count;
        if (many == 0) return;
        if (what.is_flat && now.from[0].bytes <= max_at_once) return combine_columns(now, data);
        const bool with_own = now.how == fold::in_rank_order;
        std::array<columns, max_values> theirs;
        std::array<place, max_values> sources;
        for (std::size_t k = 0; k < count; ++k) {
            list_columns(data[k], many, theirs[k].data());
            sources[k + (with_own && k >= now.lower ? 1 : 0)] = {theirs[k].data(), 0};
        }
        if (with_own) sources[now.lower] = own_of(now);
        const place to = result.at(now.from[0].rows.first);
        const background::running inside(comm.background());
        const std::size_t operands = count + (with_own ? 1 : 0);
        if (now.from[0].bytes > max_at_once || rows.functions->fold_values != nullptr)
            return rows.fold(std::span(sources.data(), operands), std::span(&to, 1), many);
        alignas(64) std::byte nearby[short_program::max_levels * max_at_once];
        const auto levels = static_cast<std::size_t>(std::bit_width(operands - 1));
        for (std::size_t i = 0; i < levels; ++i) {
            list_columns(nearby + i * align_up(now.from[0].bytes, 64), many, theirs[operands + i].data());
            sources[operands + i] = {theirs[operands + i].data(), 0};
        }
        for (const fold_node& node : tree_of(now, operands)) {
            const bool is_last = &node == &now.tree[operands - 2];
            rows.fold(sources[node.left], sources[node.right], is_last ? to : sources[node.into], many);
        }
    }

    /// Combines the only message of a call in place; false if it has not arrived, or is not as expected.
    [[nodiscard]] bool use_only(const round& now) const {
        const message& from = now.from[0];
        return comm.use_in_place(from.peer, on, hash, from.bytes, [this, &now](const std::byte* data) {
            combine(now, now.from[0], const_cast<std::byte*>(data));
        });
    }

  private:
    void copy_flat(const round& now) const {
        const std::size_t bytes = rows.bytes[0];
        std::byte* const to = result.columns[0] + now.result.first * bytes;
        const std::byte* const from = input.columns[0] + now.input.first * bytes;
        if (to != from) copy_short(to, from, now.input.count * bytes);
    }

    static constexpr std::size_t max_at_once = 4096;  // bytes, so that what is folded stays in the first-level cache
    static constexpr std::size_t max_values = short_program::max_ranks + short_program::max_levels;

    [[nodiscard]] static std::span<const fold_node> tree_of(const round& now, std::size_t operands) noexcept {
        return {now.tree.data(), operands - 1};
    }
    void combine_columns(const round& now, std::span<std::byte* const> data) const {
        alignas(64) std::byte nearby[short_program::max_levels * max_at_once];
        std::array<std::byte*, max_values> values;
        std::byte** next = values.data();
        const std::size_t below = now.how == fold::in_rank_order ? now.lower : data.size();
        next = std::copy_n(data.data(), below, next);
        if (now.how == fold::in_rank_order)
            *next++ = (now.folds_result ? result : input).columns[0] + now.own_first_byte;
        next = std::copy(data.begin() + static_cast<std::ptrdiff_t>(below), data.end(), next);
        const std::size_t step = align_up(now.from[0].bytes, 64);
        for (std::size_t i = 0; i < short_program::max_levels; ++i) next[i] = nearby + i * step;
        const background::running inside(comm.background());
        rows.functions->fold_columns(rows.operation, tree_of(now, static_cast<std::size_t>(next - values.data())),
                                     values.data(), result.columns[0] + now.from[0].first_byte, now.from[0].rows.count);
    }
    void combine_column(const round& now, const message& with, const std::byte* data) const {
        std::byte* const to = result.columns[0] + with.first_byte;
        if (now.how == fold::store) return copy_short(to, data, with.bytes);
        const std::byte* const own = (now.folds_result ? result : input).columns[0] + now.own_first_byte;
        const background::running inside(comm.background());
        rows.functions->fold_column(rows.operation, now.how == fold::left ? data : own,
                                    now.how == fold::left ? own : data, to, with.rows.count);
    }
    [[nodiscard]] place own_of(const round& now) const noexcept {
        return (now.folds_result ? result : input).at(now.own_first);
    }
    /// Where the columns of a message begin.
    void list_columns(std::byte* data, std::size_t many, std::byte** into) const noexcept {
        into[0] = data;
        std::size_t at = 0;
        for (std::size_t c = 1; c < rows.columns(); ++c) {
            at = align_up(at + many * rows.bytes[c - 1], rows.alignment);
            into[c] = data + at;
        }
    }
};

/// Takes the messages of a round as they arrive, except for the first `after`, which have been taken already; returns
/// how many it has taken when the next one has not arrived.
template <communicator Comm>
[[nodiscard]] std::size_t receive_separately(const short_operands<Comm>& all, const short_program::round& now,
                                             std::size_t after = 0, bool waits = true) {
    std::size_t received = 0;
    for (const short_program::message& next : now.from.subspan(after)) {
        message_in_place here;
        if (!all.comm.find_in_place(next.peer, all.on, next.bytes, here, waits)) break;
        all.require_right(here.signature, here.bytes, next);
        all.combine(now, next, here.data);
        all.comm.take_in_place(next.peer);
        ++received;
    }
    return received;
}
/// Folds the messages of a round in place if all have arrived, and takes all of them.
template <communicator Comm>
[[nodiscard]] std::size_t receive_together(const short_operands<Comm>& all, const short_program::round& now,
                                           bool waits = true) {
    std::array<std::byte*, short_program::max_ranks> data;
    std::size_t count = 0;
    for (const short_program::message& next : now.from) {
        message_in_place here;
        if (!all.comm.find_in_place(next.peer, all.on, next.bytes, here, waits)) return 0;
        all.require_right(here.signature, here.bytes, next);
        data[count++] = here.data;
    }
    all.combine_all(now, {data.data(), count});
    for (const short_program::message& next : now.from) all.comm.take_in_place(next.peer);
    return count;
}

/// Folds or stores the messages of an exchange in place if all have arrived, and takes all of them.
template <communicator Comm>
[[nodiscard, gnu::noinline]] std::size_t take_all(const short_operands<Comm>& all, const short_program::round& now) {
    std::array<std::byte*, short_program::max_ranks> data;
    const std::size_t count = now.from.size();
    if (!all.comm.find_all_in_place(all.on, all.hash, now.from[0].bytes, data.data())) return 0;
    if (now.folds_together())
        all.combine_all(now, {data.data(), count});
    else
        for (std::size_t k = 0; k < count; ++k) all.combine(now, now.from[k], data[k]);
    all.comm.take_all_in_place();
    return count;
}

/// The progress of a run. Models `pending_work`.
template <communicator Comm>
class short_run {
  public:
    explicit short_run(const short_operands<Comm>& all) : all_(all) {}
    /// The rest of a run that has to wait.
    short_run(const short_operands<Comm>& all, int round, std::size_t posted, std::size_t received, bool at_once)
        : all_(all),
          round_(round),
          posted_(posted),
          received_(received),
          at_once_(at_once),
          has_worked_(all.what.program[round].is_local_first || posted == all.what.program[round].to.size()) {}

    /// Starts from the beginning.
    void begin() noexcept {
        round_ = 0;
        posted_ = received_ = 0;
        has_worked_ = false;
        at_once_ = true;
    }
    /// Posts what it can of the first round's messages; true if that is all of them.
    bool post_first() {
        const short_program::round& now = all_.what.program[0];
        if (now.is_local_first) work(now);
        return post(now);
    }
    [[nodiscard]] bool has_posted_first() const noexcept {
        return round_ > 0 || posted_ == all_.what.program[0].to.size();
    }
    /// Makes what progress it can without waiting; true when the call is complete.
    bool poll() {
        all_.comm.progress();
        return advance(false);
    }
    /// The same, but waits briefly for messages.
    bool wait_briefly() { return advance(true); }
    /// Releases what has arrived.
    void drop() noexcept { arrived_ = {}; }
    [[nodiscard]] waiting blocked_on() const {
        waiting where{all_.what.agreed.what, round_, all_.what.program.rounds(), -1, all_.on};
        if (round_ == where.rounds) return where;
        const short_program::round& now = all_.what.program[round_];
        if (posted_ < now.to.size())
            where.peer = now.to[posted_].peer;
        else if (received_ < now.from.size())
            where.peer = now.from[received_].peer;
        return where;
    }
    /// Throws if a rank that this one waits for is in another call.
    void check() const {
        const waiting where = blocked_on();
        if (where.peer >= 0) check_call_of(all_.comm, where.peer, all_.on, all_.what.agreed, all_.what.hash);
    }

  private:
    using arrival_type = typename Comm::arrival_type;

    bool advance(bool waits) {
        while (round_ < all_.what.program.rounds()) {
            const short_program::round& now = all_.what.program[round_];
            if (now.is_local_first) work(now);
            if (!post(now)) return false;
            work(now);  // in place, it may overwrite what has been posted
            take_in_place(now, waits);
            if (!receive(now)) return false;
            ++round_;
            posted_ = received_ = 0;
            has_worked_ = false;
        }
        return true;
    }
    void work(const short_program::round& now) {
        if (!std::exchange(has_worked_, true)) all_.work(now);
    }
    void take_in_place(const short_program::round& now, bool waits) {
        if (waits && all_.what.is_pair)
            received_ = received_ < now.from.size() && all_.use_only(now) ? 1 : received_;
        else if (!now.folds_together())
            received_ += receive_separately(all_, now, received_, waits);
        else if (received_ == 0)
            received_ = receive_together(all_, now, waits);
    }
    bool post(const short_program::round& now) {
        if (posted_ == 0 && at_once_ && !all_.unordered && all_.post_at_once(now)) posted_ = now.to.size();
        for (; posted_ < now.to.size(); ++posted_) {
            if (!all_.post(now, now.to[posted_])) return false;
            at_once_ = false;
        }
        return true;
    }
    bool receive(const short_program::round& now) {
        if (received_ == now.from.size()) return true;  // taken in place, or there are none
        if (now.folds_together() && arrived_.size() != now.from.size())
            arrived_ = heap_array<arrival_type>(now.from.size());
        for (; received_ < now.from.size(); ++received_) {
            const short_program::message& next = now.from[received_];
            if (!all_.comm.try_receive(next.peer, all_.on, sink{*this, now, next})) return false;
        }
        if (now.folds_together()) combine_all(now);
        return true;
    }
    struct sink {
        short_run& self;
        const short_program::round& now;
        const short_program::message& next;

        void operator()(arrival_type&& arrived) const {
            self.all_.require_right(arrived.signature(), arrived.bytes(), next);
            // A rank that lends something to many at once lends each of them what is theirs, however short it is.
            if constexpr (requires { arrived.leave_lender(std::size_t{}); })
                arrived.leave_lender(self.all_.rows.alignment);
            if (now.folds_together())
                self.arrived_[self.received_] = std::move(arrived);
            else
                self.all_.combine(now, next, arrived.packed());
        }
        [[nodiscard]] std::size_t expected_bytes() const noexcept { return next.bytes; }
    };
    void combine_all(const short_program::round& now) {
        std::array<std::byte*, short_program::max_ranks> data;
        for (std::size_t k = 0; k < arrived_.size(); ++k) data[k] = arrived_[k].packed();
        all_.combine_all(now, {data.data(), arrived_.size()});
        for (auto& each : arrived_) each = {};
    }

    const short_operands<Comm>& all_;
    int round_ = 0;
    std::size_t posted_ = 0, received_ = 0;
    bool at_once_ = true;      // messages were posted in one go, in all rounds so far
    bool has_worked_ = false;  // in this round
    heap_array<arrival_type> arrived_;
};

template <communicator Comm>
[[gnu::noinline]] void wait_for_rest(const short_operands<Comm>& all, int round, std::size_t posted,
                                     std::size_t received, bool at_once) {
    short_run<Comm> rest(all, round, posted, received, at_once);
    all.comm.wait(rest, short_calls::until(all.comm.background()));
}

/// Takes the messages of a round that arrive; returns how many.
template <communicator Comm>
[[nodiscard, gnu::always_inline]] inline std::size_t take_messages(const short_operands<Comm>& all,
                                                                   const short_program::round& now) {
    std::size_t received = 0;
    if (now.is_exchange) received = take_all(all, now);
    if (received == 0) received = now.folds_together() ? receive_together(all, now) : receive_separately(all, now);
    return received;
}

/// Runs a call again. This thread has nothing in flight.
template <communicator Comm>
[[gnu::noinline]] void run_again(Comm& comm, const short_call& what, const row_layout& rows, const short_memory& input,
                                 const short_memory& result) {
    const lane on = comm.open_again(what.agreed, what.hash);
    const short_operands<Comm> all{comm, what, rows, input, result, on, comm.background().follow(what.hash, on)};
    bool at_once = true;
    for (int r = 0; r < what.program.rounds(); ++r) {
        const short_program::round& now = what.program[r];
        if (now.is_local_first) all.work(now);
        std::size_t posted = 0, received = 0;
        if (at_once && all.post_at_once(now)) posted = now.to.size();
        for (; posted < now.to.size() && all.post(now, now.to[posted]); ++posted) at_once = false;
        if (r == 0) comm.announce_again(on, what.agreed, what.hash);  // while they are in transit
        if (posted == now.to.size()) {
            if (!now.is_local_first) all.work(now);
            received = take_messages(all, now);
        }
        if (posted < now.to.size() || received < now.from.size())
            return wait_for_rest(all, r, posted, received, at_once);
    }
}

}  // namespace allfold::detail
