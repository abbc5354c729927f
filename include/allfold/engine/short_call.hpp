// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "allfold/data/detail/heap_array.hpp"
#include "allfold/engine/operands.hpp"
#include "allfold/engine/options.hpp"
#include "allfold/engine/shape.hpp"
#include "allfold/engine/short_program.hpp"
#include "allfold/transport/background.hpp"
#include "allfold/transport/detail/copy.hpp"

/// @file
/// Blocking calls of few short messages that this rank has made before: their programs are remembered, so that such a
/// call consists of little more than its messages. They are the messages of the engine, on the same lanes: whether a
/// rank has gone this way or the other one, no other rank can tell.

namespace allfold::detail {

/// Tells a call from others that a rank makes on a communicator.
struct call_key {
    const void* types = nullptr;  ///< of the collective, operator, elements and order
    std::size_t input_rows = 0, output_rows = 0;
    int root = 0;
    bool in_place = false;  ///< then a schedule may need a copy of the input
    delegate delegation = delegate::automatic;

    friend bool operator==(const call_key&, const call_key&) = default;
};

/// A call that may be made again.
struct short_call {
    static constexpr std::size_t most_columns = 4;

    call_key key;
    std::array<std::size_t, most_columns> bytes{};  ///< of a row in each column
    short_program program;
    signature agreed;
    std::uint32_t hash = 0;         ///< of it
    bool is_flat = false;           ///< one column, aligned as cells are
    int contributions = 0;          ///< for how many operands the result stands
    short_program::rows_of result;  ///< the rows of it

    [[nodiscard]] bool is(const call_key& other, const row_layout& rows) const noexcept {
        if (!(key == other)) return false;
        for (std::size_t c = 0; c < rows.columns(); ++c)
            if (bytes[c] != rows.bytes[c]) return false;
        return true;
    }
};

/// Whether a call that is only planned, of bytes, would be remembered where messages of up to `copied` bytes are
/// copied. `blocks`: as it would be cut.
[[nodiscard]] inline bool would_be_short(const any_schedule& schedule, const partition& blocks, std::size_t copied) {
    static constexpr row_functions bytes_functions{};
    static constexpr std::size_t row_bytes = 1;
    struct planned {
        struct {
            const setting& where;
            [[nodiscard]] int rank() const noexcept { return where.rank; }
            [[nodiscard]] int size() const noexcept { return where.size; }
        } comm;
        const any_schedule& schedule;
        row_layout rows{&bytes_functions, nullptr, &row_bytes, row_bytes};
        operands memory{};
        std::size_t copied;
        [[nodiscard]] bool lends(std::size_t bytes) const noexcept { return bytes > copied; }
    } all{{schedule.where()}, schedule, {&bytes_functions, nullptr, &row_bytes, row_bytes}, {}, copied};
    all.memory.blocks = all.memory.result_blocks = &blocks;
    all.memory.window_rows = blocks.largest();
    return short_program().make(all);
}

/// The calls that a communicator remembers: the latest four of those that belong together by their keys, so that a
/// dozen kinds of calls by turns do not drive each other out.
class short_calls final : public background::keepsake {
  public:
    /// Null where it knows none like this.
    [[nodiscard]] static const short_call* find(const background& of, const call_key& key,
                                                const row_layout& rows) noexcept {
        auto* const all = static_cast<short_calls*>(of.kept.get());
        if (all == nullptr) return nullptr;
        const short_call* found = all->latest_;
        if (found == nullptr || !found->is(key, rows)) {
            found = all->among_calls(key, rows);
            if (found == nullptr) return nullptr;
            all->latest_ = found;
        }
        ++all->found_;
        return found;
    }
    /// Remembers a call, if it is short.
    template <communicator Comm>
    [[gnu::noinline]] static void remember(const call_key& key, const call<Comm>& made, const shape& where) {
        if (made.rows.columns() > short_call::most_columns) return;
        auto found = std::make_unique<short_call>();
        if (!found->program.make(made)) return;
        found->key = key;
        for (std::size_t c = 0; c < made.rows.columns(); ++c) found->bytes[c] = made.rows.bytes[c];
        found->agreed = made.agreed;
        found->hash = made.agreed.hash();
        found->is_flat = made.rows.columns() == 1 &&
                         (!made.goal.folds || made.rows.functions->fold_column != nullptr) &&
                         made.rows.functions->alignment <= alignof(std::max_align_t);
        found->contributions = where.contributions;
        if (where.receives)
            found->result = {made.memory.result.first.row + where.result_first - made.memory.result.first_row,
                             where.result_rows};
        auto& kept = made.comm.background().kept;
        if (!kept) kept = std::make_unique<short_calls>();
        auto& all = static_cast<short_calls&>(*kept);
        const std::size_t set = set_of(key);
        all.calls_[set][all.next_[set]++ % ways] = std::move(found);
        all.latest_ = nullptr;
    }
    /// How often one was found.
    [[nodiscard]] std::uint64_t found() const noexcept { return found_; }

  private:
    static constexpr std::size_t sets = 8, ways = 4;
    [[nodiscard]] static std::size_t set_of(const call_key& key) noexcept {
        const std::uint64_t mixed = reinterpret_cast<std::uintptr_t>(key.types) / sizeof(int) + key.input_rows * 5 +
                                    key.output_rows * 3 + static_cast<unsigned>(key.root);
        return static_cast<std::size_t>(mixed * 0x9e3779b97f4a7c15u >> 32) % sets;
    }
    [[nodiscard]] const short_call* among_calls(const call_key& key, const row_layout& rows) const noexcept {
        for (const auto& each : calls_[set_of(key)])
            if (each != nullptr && each->is(key, rows)) return each.get();
        return nullptr;
    }

    std::array<std::array<std::unique_ptr<short_call>, ways>, sets> calls_;
    std::array<std::uint8_t, sets> next_{};  // of each set, to be replaced
    const short_call* latest_ = nullptr;     // that was found
    std::uint64_t found_ = 0;
};

/// One run of such a call: what it works on.
template <communicator Comm>
struct short_operands {
    Comm& comm;
    const short_call& what;
    const row_layout& rows;
    std::byte* const* input;
    std::byte* const* result;
    lane on;
    std::uint32_t hash;

    using round = short_program::round;
    using message = short_program::message;
    using columns = std::array<std::byte*, short_call::most_columns>;

    /// What of the input belongs to the result, or the identity.
    void work(const round& now) const {
        using kind = local_work::kind;
        if (now.local == kind::none) return;
        const place to{result, now.result.first};
        if (now.local == kind::copy)
            rows.copy({input, now.input.first}, to, now.input.count);
        else if (rows.functions->set_identity != nullptr && now.result.count > 0)
            rows.functions->set_identity(rows, to, now.result.count);
    }

    [[nodiscard]] bool post(const round& now, const message& next) const {
        if (what.is_flat) [[likely]] {
            const std::byte* const from = (now.sends_result ? result : input)[0] + next.first_byte;
            if (comm.post_in_cell(next.peer, on, hash, from, next.bytes)) [[likely]]
                return true;
        }
        return post_parts(now, next);
    }
    [[nodiscard, gnu::noinline]] bool post_parts(const round& now, const message& next) const {
        std::array<part, short_call::most_columns> parts;
        const place from{now.sends_result ? result : input, next.rows.first};
        const std::size_t count = next.rows.count == 0 ? 0 : rows.columns();
        for (std::size_t c = 0; c < count; ++c) parts[c] = {rows.address(from, c), next.rows.count * rows.bytes[c]};
        return comm.try_post(
            next.peer, on,
            {{parts.data(), count}, next.bytes, rows.functions->alignment, true, hash, nullptr, false, true});
    }

    /// Throws unless a message is the one that is expected.
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
        const place from{theirs.data(), 0}, to{result, with.rows.first};
        if (now.how == fold::store) return rows.copy(from, to, with.rows.count);
        const place own = own_of(now);
        const background::running inside(comm.background());
        rows.fold(now.how == fold::left ? from : own, now.how == fold::left ? own : from, to, with.rows.count);
    }
    /// In rank order: `data` has the messages of all peers.
    void combine_all(const round& now, std::span<std::byte* const> data) const {
        const std::size_t count = data.size(), many = now.from[0].rows.count;
        if (many == 0) return;
        const bool with_own = now.how == fold::in_rank_order;
        std::array<columns, short_program::most_ranks> theirs;
        std::array<place, short_program::most_ranks> sources;
        for (std::size_t k = 0; k < count; ++k) {
            list_columns(data[k], many, theirs[k].data());
            sources[k + (with_own && k >= now.lower ? 1 : 0)] = {theirs[k].data(), 0};
        }
        if (with_own) sources[now.lower] = own_of(now);
        const place to{result, now.from[0].rows.first};
        const background::running inside(comm.background());
        rows.fold(std::span(sources.data(), count + (with_own ? 1 : 0)), std::span(&to, 1), many);
    }

  private:
    void combine_column(const round& now, const message& with, const std::byte* data) const {
        std::byte* const to = result[0] + with.first_byte;
        if (now.how == fold::store) return copy_short(to, data, with.bytes);
        const std::byte* const own = (now.folds_result ? result : input)[0] + now.own_first_byte;
        const background::running inside(comm.background());
        rows.functions->fold_column(rows.operation, now.how == fold::left ? data : own,
                                    now.how == fold::left ? own : data, to, with.rows.count);
    }
    [[nodiscard]] place own_of(const round& now) const noexcept {
        return {now.folds_result ? result : input, now.own_first};
    }
    /// Where the columns of a message begin.
    void list_columns(std::byte* data, std::size_t many, std::byte** into) const noexcept {
        into[0] = data;
        std::size_t at = 0;
        for (std::size_t c = 1; c < rows.columns(); ++c) {
            at = align_up(at + many * rows.bytes[c - 1], rows.functions->alignment);
            into[c] = data + at;
        }
    }
};

/// The rest of a run that has to wait. Models `pending_work`.
template <communicator Comm>
class short_wait {
  public:
    short_wait(const short_operands<Comm>& all, int round, std::size_t posted, std::size_t received)
        : all_(all),
          round_(round),
          posted_(posted),
          received_(received),
          has_worked_(all.what.program[round].is_local_first || posted == all.what.program[round].to.size()) {}

    /// Does what can be done without waiting; true when the call is complete.
    bool poll() {
        all_.comm.progress();
        for (; round_ < all_.what.program.rounds(); ++round_) {
            const short_program::round& now = all_.what.program[round_];
            if (now.is_local_first) work(now);
            if (!post(now)) return false;
            work(now);  // in place it may overwrite what is posted
            if (!receive(now)) return false;
            posted_ = received_ = 0;
            has_worked_ = false;
        }
        return true;
    }
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
    /// Throws when a rank that this one waits for is in another call.
    void check() const {
        const waiting where = blocked_on();
        if (where.peer < 0) return;
        if (const auto theirs = all_.comm.announced(where.peer, all_.on); theirs && theirs->hash() != all_.what.hash)
            throw_disagreement(all_.comm, all_.what.agreed, where.peer, all_.on);
    }

  private:
    using arrival_type = typename Comm::arrival_type;

    void work(const short_program::round& now) {
        if (!std::exchange(has_worked_, true)) all_.work(now);
    }
    bool post(const short_program::round& now) {
        for (; posted_ < now.to.size(); ++posted_)
            if (!all_.post(now, now.to[posted_])) return false;
        return true;
    }
    bool receive(const short_program::round& now) {
        if (arrived_.size() == 0 && now.folds_together()) arrived_ = heap_array<arrival_type>(now.from.size());
        for (; received_ < now.from.size(); ++received_) {
            const short_program::message& next = now.from[received_];
            if (!all_.comm.try_receive(next.peer, all_.on, sink{*this, now, next})) return false;
        }
        if (now.folds_together()) combine_all(now);
        return true;
    }
    struct sink {
        short_wait& self;
        const short_program::round& now;
        const short_program::message& next;

        void operator()(arrival_type&& arrived) const {
            self.all_.require_right(arrived.signature(), arrived.bytes(), next);
            if (now.folds_together())
                self.arrived_[self.received_] = std::move(arrived);
            else
                self.all_.combine(now, next, arrived.packed());
        }
        [[nodiscard]] std::size_t expected_bytes() const noexcept { return next.bytes; }
    };
    void combine_all(const short_program::round& now) {
        std::array<std::byte*, short_program::most_ranks> data;
        for (std::size_t k = 0; k < arrived_.size(); ++k) data[k] = arrived_[k].packed();
        all_.combine_all(now, {data.data(), arrived_.size()});
        for (auto& each : arrived_) each = {};
    }

    const short_operands<Comm>& all_;
    int round_;
    std::size_t posted_, received_;
    bool has_worked_;  // in this round
    heap_array<arrival_type> arrived_;
};

/// Takes the messages of a round as they come; returns how many it has taken when the next one is not there.
template <communicator Comm>
[[nodiscard]] std::size_t take_apart(const short_operands<Comm>& all, const short_program::round& now) {
    std::size_t received = 0;
    for (const short_program::message& next : now.from) {
        message_in_place here;
        if (!all.comm.await_in_place(next.peer, all.on, here)) break;
        all.require_right(here.signature, here.bytes, next);
        all.combine(now, next, here.data);
        all.comm.take_in_place(next.peer);
        ++received;
    }
    return received;
}
/// Folds the messages of a round where they lie, if all have come, and takes them all.
template <communicator Comm>
[[nodiscard]] std::size_t take_together(const short_operands<Comm>& all, const short_program::round& now) {
    std::array<std::byte*, short_program::most_ranks> data;
    std::size_t count = 0;
    for (const short_program::message& next : now.from) {
        message_in_place here;
        if (!all.comm.await_in_place(next.peer, all.on, here)) return 0;
        all.require_right(here.signature, here.bytes, next);
        data[count++] = here.data;
    }
    all.combine_all(now, {data.data(), count});
    for (const short_program::message& next : now.from) all.comm.take_in_place(next.peer);
    return count;
}

template <communicator Comm>
[[gnu::noinline]] void wait_for_rest(const short_operands<Comm>& all, int round, std::size_t posted,
                                     std::size_t received) {
    short_wait<Comm> rest(all, round, posted, received);
    all.comm.wait(rest, std::nullopt);
}

/// Runs a call again. Nothing is in flight in this thread.
template <communicator Comm>
[[gnu::noinline]] void run_again(Comm& comm, const short_call& what, const row_layout& rows, std::byte* const* input,
                                 std::byte* const* result) {
    const lane on = comm.open_again(what.agreed, what.hash);
    const short_operands<Comm> all{comm, what, rows, input, result, on, comm.background().follow(what.hash, on)};
    for (int r = 0; r < what.program.rounds(); ++r) {
        const short_program::round& now = what.program[r];
        if (now.is_local_first) all.work(now);
        std::size_t posted = 0, received = 0;
        while (posted < now.to.size() && all.post(now, now.to[posted])) ++posted;
        if (r == 0) comm.announce_again(on, what.agreed, what.hash);  // while they travel
        if (posted == now.to.size()) {
            if (!now.is_local_first) all.work(now);
            received = now.folds_together() ? take_together(all, now) : take_apart(all, now);
        }
        if (posted < now.to.size() || received < now.from.size()) return wait_for_rest(all, r, posted, received);
    }
}

}  // namespace allfold::detail
