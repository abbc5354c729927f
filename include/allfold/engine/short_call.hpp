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
#include "allfold/engine/detail/small_array.hpp"
#include "allfold/engine/operands.hpp"
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

    friend bool operator==(const call_key&, const call_key&) = default;
};

/// A call that may be made again.
struct short_call {
    static constexpr std::size_t most_columns = 4;

    call_key key;
    std::array<std::size_t, most_columns> bytes{};  ///< of a row in each column
    short_program program;
    signature agreed;
    std::uint32_t hash = 0;  ///< of it
    int contributions = 0;   ///< for how many operands the result stands
    short_program::rows_of result;  ///< the rows of it

    [[nodiscard]] bool has_rows_like(const row_layout& rows) const noexcept {
        for (std::size_t c = 0; c < rows.columns(); ++c)
            if (bytes[c] != rows.bytes[c]) return false;
        return true;
    }
};

/// The calls that a communicator remembers: in each place the latest one that belongs there.
class short_calls final : public background::keepsake {
  public:
    /// Null where it knows none like this.
    [[nodiscard]] static const short_call* find(const background& of, const call_key& key,
                                                const row_layout& rows) noexcept {
        const auto* const all = static_cast<const short_calls*>(of.kept.get());
        if (all == nullptr) return nullptr;
        const short_call* const found = all->calls_[place_of(key)].get();
        return found != nullptr && found->key == key && found->has_rows_like(rows) ? found : nullptr;
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
        found->contributions = where.contributions;
        if (where.receives)
            found->result = {made.memory.result.first.row + where.result_first - made.memory.result.first_row,
                             where.result_rows};
        auto& kept = made.comm.background().kept;
        if (!kept) kept = std::make_unique<short_calls>();
        auto& all = static_cast<short_calls&>(*kept);
        all.calls_[place_of(key)] = std::move(found);
        all.latest_ = nullptr;
    }
    /// Whether the call on the lane before this one was the same.
    [[nodiscard]] static bool repeats(const background& of, const short_call& what, lane on) noexcept {
        auto& all = static_cast<short_calls&>(*of.kept);
        const bool same = std::exchange(all.latest_, &what) == &what;
        return std::exchange(all.latest_lane_, on) + 1 == on && same;
    }

  private:
    static constexpr std::size_t places = 32;
    [[nodiscard]] static std::size_t place_of(const call_key& key) noexcept {
        const auto mixed = (reinterpret_cast<std::uintptr_t>(key.types) >> 2) + key.input_rows * 5 +
                           key.output_rows * 3 + static_cast<std::size_t>(static_cast<unsigned>(key.root));
        return (mixed ^ mixed >> 5) % places;
    }

    std::array<std::unique_ptr<short_call>, places> calls_;
    const short_call* latest_ = nullptr;  // that was run
    lane latest_lane_ = 0;                // on this lane
};

/// One run of such a call: first without looking up from the messages, then as a rank waits. Models `pending_work`.
template <communicator Comm>
class short_run {
  public:
    short_run(Comm& comm, const short_call& what, const row_layout& rows, std::byte* const* input,
              std::byte* const* result) noexcept
        : comm_(comm), what_(what), rows_(rows), input_(input), result_(result) {}

    void run() {
        lane_ = comm_.take_lanes(1, what_.agreed.what);
        hash_ = comm_.background().follow(what_.hash, lane_);
        const round& first = what_.program[0];
        if (!first.is_local_first) static_cast<void>(post(first));
        announce();
        comm_.wait(*this, std::nullopt);
    }

    /// Does what can be done without waiting; true when the call is complete.
    bool poll() {
        for (; round_ < what_.program.rounds(); ++round_) {
            const round& now = what_.program[round_];
            if (now.is_local_first) work(now);
            const bool is_posted = post(now);
            work(now);
            if (!is_posted || !receive(now)) return false;
            posted_ = received_ = 0;
            has_worked_ = false;
        }
        return true;
    }
    [[nodiscard]] waiting blocked_on() const {
        waiting where{what_.agreed.what, round_, what_.program.rounds(), -1, lane_};
        if (round_ == what_.program.rounds()) return where;
        const round& now = what_.program[round_];
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
        if (const auto theirs = comm_.announced(where.peer, lane_); theirs && theirs->hash() != what_.hash)
            throw_disagreement(comm_, what_.agreed, where.peer, lane_);
    }

  private:
    using round = short_program::round;
    using message = short_program::message;
    using columns = std::array<std::byte*, short_call::most_columns>;

    /// While the messages travel.
    void announce() {
        if (short_calls::repeats(comm_.background(), what_, lane_))
            comm_.announce_again();
        else
            comm_.announce(lane_, 1, what_.agreed);
    }

    void work(const round& now) {
        using kind = local_work::kind;
        if (now.local == kind::none || std::exchange(has_worked_, true)) return;
        const place result{result_, now.result.first};
        if (now.local == kind::copy)
            rows_.copy({input_, now.input.first}, result, now.input.count);
        else if (rows_.functions->set_identity != nullptr && now.result.count > 0)
            rows_.functions->set_identity(rows_, result, now.result.count);
    }

    bool post(const round& now) {
        for (; posted_ < now.to.size(); ++posted_)
            if (const message& next = now.to[posted_]; !post_in_cell(now, next) && !post_parts(now, next)) return false;
        return true;
    }
    [[nodiscard]] bool post_in_cell(const round& now, const message& next) {
        if (rows_.columns() != 1 || rows_.functions->alignment > 16) return false;
        const std::byte* const from = (now.sends_result ? result_ : input_)[0] + next.rows.first * rows_.bytes[0];
        return comm_.post_in_cell(next.peer, lane_, hash_, from, next.rows.count * rows_.bytes[0]);
    }
    [[nodiscard]] bool post_parts(const round& now, const message& next) {
        std::array<part, short_call::most_columns> parts;
        const place from{now.sends_result ? result_ : input_, next.rows.first};
        std::size_t count = next.rows.count == 0 ? 0 : rows_.columns();
        for (std::size_t c = 0; c < count; ++c)
            parts[c] = {rows_.address(from, c), next.rows.count * rows_.bytes[c]};
        const std::span<const part> all(parts.data(), count);
        const std::size_t alignment = rows_.functions->alignment;
        return comm_.try_post(next.peer, lane_,
                              {all, packed_bytes(all, alignment), alignment, true, hash_, nullptr, false});
    }

    bool receive(const round& now) {
        return now.from.size() == 1 || now.how == fold::store ? receive_apart(now) : receive_together(now);
    }
    /// Each message for itself.
    bool receive_apart(const round& now) {
        for (; received_ < now.from.size(); ++received_) {
            const message& next = now.from[received_];
            const bool came = comm_.with_message(
                next.peer, lane_, [&](std::uint32_t signature, std::byte* data, std::size_t bytes) {
                    require_right(signature, bytes, next);
                    if (next.rows.count > 0) combine(now, data, next.rows);
                });
            if (!came) return false;
        }
        return true;
    }
    void combine(const round& now, std::byte* data, const short_program::rows_of& into) {
        columns theirs;
        list_columns(data, into.count, theirs.data());
        const place from{theirs.data(), 0}, to{result_, into.first};
        if (now.how == fold::store) return rows_.copy(from, to, into.count);
        const place own = own_of(now);
        const background::running inside(comm_.background());
        rows_.fold(now.how == fold::left ? from : own, now.how == fold::left ? own : from, to, into.count);
    }
    /// All of them, before they are folded in rank order.
    bool receive_together(const round& now) {
        if (arrived_.size() == 0) arrived_ = heap_array<typename Comm::arrival_type>(now.from.size());
        for (; received_ < now.from.size(); ++received_) {
            const message& next = now.from[received_];
            const bool came = comm_.try_receive(next.peer, lane_, [&](typename Comm::arrival_type&& arrived) {
                require_right(arrived.signature(), arrived.bytes(), next);
                arrived_[received_] = std::move(arrived);
            });
            if (!came) return false;
        }
        if (now.from[0].rows.count > 0) fold_arrived(now);
        for (auto& each : arrived_) each = {};
        return true;
    }
    void fold_arrived(const round& now) {
        const std::size_t count = now.from.size(), rows = now.from[0].rows.count;
        const bool with_own = now.how == fold::in_rank_order;
        std::array<columns, short_program::most_ranks> theirs;
        std::array<place, short_program::most_ranks> sources;
        for (std::size_t k = 0; k < count; ++k) {
            list_columns(arrived_[k].packed(), rows, theirs[k].data());
            sources[k + (with_own && k >= now.lower ? 1 : 0)] = {theirs[k].data(), 0};
        }
        if (with_own) sources[now.lower] = own_of(now);
        const place to{result_, now.from[0].rows.first};
        const background::running inside(comm_.background());
        rows_.fold(std::span(sources.data(), count + (with_own ? 1 : 0)), std::span(&to, 1), rows);
    }

    [[nodiscard]] place own_of(const round& now) const noexcept {
        return {now.folds_result ? result_ : input_, now.own_first};
    }
    /// Where the columns of a message begin.
    void list_columns(std::byte* data, std::size_t rows, std::byte** into) const noexcept {
        std::size_t at = 0;
        for (std::size_t c = 0; c < rows_.columns(); ++c) {
            at = align_up(at, rows_.functions->alignment);
            into[c] = data + at;
            at += rows * rows_.bytes[c];
        }
    }
    [[nodiscard]] std::size_t bytes_of(const message& expected) const noexcept {
        if (rows_.columns() == 1 || expected.rows.count == 0) return expected.rows.count * rows_.bytes[0];
        std::size_t bytes = 0;
        for (std::size_t c = 0; c < rows_.columns(); ++c)
            bytes = align_up(bytes, rows_.functions->alignment) + expected.rows.count * rows_.bytes[c];
        return bytes;
    }
    void require_right(std::uint32_t signature, std::size_t bytes, const message& expected) const {
        if (signature != hash_) [[unlikely]]
            throw_disagreement(comm_, what_.agreed, expected.peer, lane_);
        if (const std::size_t wanted = bytes_of(expected); bytes != wanted) [[unlikely]]
            throw_other_length(what_.agreed.what, comm_.rank(), expected.peer, bytes, wanted, rows_.row_bytes);
    }

    Comm& comm_;
    const short_call& what_;
    const row_layout& rows_;
    std::byte* const* input_;
    std::byte* const* result_;
    lane lane_ = 0;
    std::uint32_t hash_ = 0;
    int round_ = 0;
    std::size_t posted_ = 0, received_ = 0;
    bool has_worked_ = false;  // in this round
    heap_array<typename Comm::arrival_type> arrived_;
};

/// Runs a call again. Nothing is in flight in this thread.
template <communicator Comm>
[[gnu::noinline]] void run_again(Comm& comm, const short_call& what, const row_layout& rows, std::byte* const* input,
                                 std::byte* const* result) {
    short_run<Comm>(comm, what, rows, input, result).run();
}

}  // namespace allfold::detail
