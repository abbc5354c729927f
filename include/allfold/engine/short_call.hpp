// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "allfold/engine/deadline.hpp"
#include "allfold/engine/operands.hpp"
#include "allfold/engine/options.hpp"
#include "allfold/engine/shape.hpp"
#include "allfold/engine/short_program.hpp"
#include "allfold/transport/background.hpp"

/// @file
/// Calls with a few short messages that this rank has made before: their programs are remembered, so that such a call
/// costs little more than its messages. They are the messages that the engine would send, on the same lanes: no other
/// rank can tell which of the two paths a rank has taken.

namespace allfold::detail {

/// Distinguishes a call from the others that a rank makes on a communicator.
struct call_key {
    const void* types = nullptr;  ///< of the collective, operator, elements and order
    std::size_t input_rows = 0, output_rows = 0;
    std::uint64_t form = 0;         ///< see `form_of`
    std::uint64_t permutation = 0;  ///< see `hash_of_setting`: exact for so few ranks; or which list

    /// `in_place` is included since a schedule may then need a copy of the input. `in_pieces`: an argument is a list,
    /// or a tensor that is cut.
    [[nodiscard]] static constexpr std::uint64_t form_of(int root, bool in_place, bool in_pieces,
                                                         delegate delegation) noexcept {
        return static_cast<std::uint32_t>(root) | std::uint64_t{in_place} << 32 | std::uint64_t{in_pieces} << 33 |
               static_cast<std::uint64_t>(delegation) << 35;
    }
    [[nodiscard]] constexpr bool in_pieces() const noexcept { return (form >> 33 & 1u) != 0; }
    /// The same call, on states in memory of their own.
    [[nodiscard]] constexpr call_key of_states() const noexcept {
        call_key other = *this;
        other.form |= std::uint64_t{1} << 34;
        return other;
    }

    friend bool operator==(const call_key&, const call_key&) = default;
};

/// Where the rows of an argument of such a call lie.
struct short_memory {
    std::byte* const* columns;
    const scattered* pieces = nullptr;  ///< used instead for a list

    [[nodiscard]] place at(std::size_t row) const noexcept { return {columns, row, pieces}; }
};

/// A call that may be made again.
struct short_call {
    static constexpr std::size_t max_columns = 4;
    static constexpr std::size_t max_pieces = 32;  ///< of a list: the parts of its messages lie on the stack

    call_key key;
    std::array<std::size_t, max_columns> bytes{};  ///< of a row in each column
    std::size_t alignment = 1;
    short_program program;
    signature agreed;
    std::uint32_t hash = 0;         ///< of `agreed`
    bool is_aligned = false;        ///< no stricter than cells, and no list
    bool is_flat = false;           ///< aligned like this, and a single column
    bool is_pair = false;           ///< aligned like this, and at most one message each way
    int contributions = 0;          ///< how many operands the result stands for
    short_program::rows_of result;  ///< its rows
    mutable unsigned users = 0;     ///< how many `remembered_call`s refer to it

    template <std::size_t Columns>
    [[nodiscard]] bool is(const call_key& other, const std::array<std::size_t, Columns>& row_bytes) const noexcept {
        if (!(key == other)) return false;
        for (std::size_t c = 0; c < Columns; ++c)
            if (bytes[c] != row_bytes[c]) return false;
        return true;
    }
    /// Called when it is complete: lowers what has been folded, if the operator does that.
    void lower(const row_layout& rows, std::byte* const* columns) const {
        if (rows.functions->lower != nullptr && result.count > 0 &&
            (contributions > 0 || rows.functions->set_identity != nullptr))
            rows.functions->lower(rows, {columns, result.first}, result.count, contributions);
    }
};

/// Keeps such a call alive, which its communicator may forget meanwhile. Created and destroyed by whoever uses the
/// communicator.
class remembered_call {
  public:
    remembered_call() = default;
    explicit remembered_call(const short_call* of) noexcept : call_(of) { ++call_->users; }
    remembered_call(remembered_call&& other) noexcept : call_(std::exchange(other.call_, nullptr)) {}
    remembered_call& operator=(remembered_call&& other) noexcept {
        std::swap(call_, other.call_);
        return *this;
    }
    ~remembered_call() {
        if (call_ != nullptr && --call_->users == 0) delete call_;
    }
    [[nodiscard]] const short_call* get() const noexcept { return call_; }

  private:
    const short_call* call_ = nullptr;
};

/// Whether a call on bytes that is only planned would be remembered if messages of up to `copied` bytes are copied.
/// `blocks`: how its operand would be cut.
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

/// The calls that a communicator remembers: for each set of keys the latest four, so that a dozen kinds of interleaved
/// calls do not evict one another.
class short_calls final : public background::resource {
  public:
    /// Null if it remembers no such call.
    template <std::size_t Columns>
    [[nodiscard]] static const short_call* find(const background& of, const call_key& key,
                                                const std::array<std::size_t, Columns>& row_bytes) noexcept {
        auto* const all = static_cast<short_calls*>(of.kept.get());
        if (all == nullptr) return nullptr;
        const short_call* const latest = all->latest_;
        if (latest == nullptr || !latest->is(key, row_bytes)) [[unlikely]]
            return all->among_calls(key.types, key.input_rows, key.output_rows, key.form, key.permutation, row_bytes);
        ++all->found_;
        return latest;
    }
    /// Remembers a call if it is short; otherwise null.
    template <communicator Comm>
    [[gnu::noinline]] static const short_call* remember(const call_key& key, const call<Comm>& made,
                                                        const shape& where) {
        if (made.rows.columns() > short_call::max_columns) return nullptr;
        auto found = std::make_unique<short_call>();
        if (!found->program.make(made)) return nullptr;
        found->key = key;
        for (std::size_t c = 0; c < made.rows.columns(); ++c) found->bytes[c] = made.rows.bytes[c];
        found->alignment = made.rows.alignment;
        found->agreed = made.agreed;
        found->hash = made.agreed.hash();
        found->is_aligned = !key.in_pieces() && made.rows.alignment <= alignof(std::max_align_t);
        found->is_flat = found->is_aligned && made.rows.columns() == 1 &&
                         (!made.goal.folds || made.rows.functions->fold_column != nullptr);
        found->is_pair = found->is_aligned && found->program.is_pair();
        found->contributions = where.contributions;
        if (where.receives)
            found->result = {made.memory.result.first.row + where.result_first - made.memory.result.first_row,
                             where.result_rows};
        short_calls& all = in(made.comm.background());
        const std::size_t set = set_of(key);
        remembered_call& place = all.calls_[set][all.next_[set]++ % ways];
        place = remembered_call(found.release());
        all.latest_ = nullptr;
        return place.get();
    }
    /// Whether a call with this key was asked about before; notes that it has been now. For calls that would rather be
    /// remembered the second time: to remember one takes as long as to run several. all_to_all by sizes that are others
    /// each time, relative to being remembered the first time: 0.8x the time at 1 KiB, 0.9x at 16 KiB.
    [[nodiscard]] static bool has_seen(background& of, const call_key& key) {
        short_calls& all = in(of);
        const std::size_t set = set_of(key);
        auto& seen = all.seen_[set];
        const std::uint64_t mark = mark_of(key);
        if (std::ranges::find(seen, mark) != seen.end()) return true;
        seen[all.next_seen_[set]++ % ways] = mark;
        return false;
    }
    /// While this lives, calls that are made again on a communicator wait no longer than this. Kept here rather than
    /// passed on, since few calls have a deadline, and fewer wait for longer than a moment.
    class limited {
      public:
        limited(const background& of, const deadline& limit) noexcept : of_(static_cast<short_calls*>(of.kept.get())) {
            if (of_ != nullptr) of_->limit_ = &limit;
        }
        limited(const limited&) = delete;
        limited& operator=(const limited&) = delete;
        ~limited() {
            if (of_ != nullptr) of_->limit_ = nullptr;
        }

      private:
        short_calls* of_;
    };
    /// When a call that waits now has to end.
    [[nodiscard]] static std::optional<deadline::clock::time_point> until(const background& of) {
        const deadline* const limit = static_cast<const short_calls&>(*of.kept).limit_;
        return limit != nullptr ? limit->from_now() : std::nullopt;
    }
    /// How often a call was found.
    [[nodiscard]] std::uint64_t found() const noexcept { return found_; }

  private:
    static constexpr std::size_t sets = 8, ways = 4;
    [[nodiscard]] static short_calls& in(background& of) {
        if (!of.kept) of.kept = std::make_unique<short_calls>();
        return static_cast<short_calls&>(*of.kept);
    }
    [[nodiscard]] static std::uint64_t mark_of(const call_key& key) noexcept {
        const std::uint64_t mixed = reinterpret_cast<std::uintptr_t>(key.types) / sizeof(int) + key.input_rows * 5 +
                                    key.output_rows * 3 + static_cast<std::uint32_t>(key.form) + key.permutation;
        return mixed * 0x9e3779b97f4a7c15u;
    }
    [[nodiscard]] static std::size_t set_of(const call_key& key) noexcept {
        return static_cast<std::size_t>(mark_of(key) >> 32) % sets;
    }
    /// The key is passed in pieces, so that callers that look at the latest call have theirs in registers.
    template <std::size_t Columns>
    [[nodiscard, gnu::noinline]] const short_call* among_calls(const void* types, std::size_t input_rows,
                                                               std::size_t output_rows, std::uint64_t form,
                                                               std::uint64_t permutation,
                                                               std::array<std::size_t, Columns> row_bytes) noexcept {
        const call_key key{types, input_rows, output_rows, form, permutation};
        for (const auto& each : calls_[set_of(key)])
            if (each.get() != nullptr && each.get()->is(key, row_bytes)) {
                ++found_;
                return latest_ = each.get();
            }
        return nullptr;
    }

    std::array<std::array<remembered_call, ways>, sets> calls_;
    std::array<std::uint8_t, sets> next_{};                     // the next one to be replaced in each set
    std::array<std::array<std::uint64_t, ways>, sets> seen_{};  // marks of calls that may be worth remembering
    std::array<std::uint8_t, sets> next_seen_{};
    const short_call* latest_ = nullptr;  // the latest one found
    std::uint64_t found_ = 0;
    const deadline* limit_ = nullptr;  // of the call that this rank makes; null if there is none
};

}  // namespace allfold::detail
