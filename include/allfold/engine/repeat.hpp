// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "allfold/engine/arguments.hpp"
#include "allfold/engine/mismatch.hpp"
#include "allfold/engine/request.hpp"
#include "allfold/engine/short_call.hpp"
#include "allfold/engine/task.hpp"

/// @file
/// Short calls that are made again and again, where ranks exchange messages: all that was found out the first time is
/// remembered, and what is left is one message each way. With P = 2 most short calls are of this kind.

namespace allfold::detail {

/// Such a call at work.
template <remembers_calls Comm>
class repeated_call {
  public:
    repeated_call(Comm& comm, const short_call& call, const row_layout& rows, const operands& memory) noexcept
        : comm_(comm), call_(call), rows_(rows), memory_(memory) {}

    void open() {
        lane_ = comm_.open_again(call_.agreed, call_.hash);
        hash_ = comm_.background().follow(call_.hash, lane_);
        is_posted_ = call_.to < 0;
        is_received_ = call_.from < 0;
    }
    [[nodiscard]] bool poll() {
        const background::running inside(comm_.background());
        comm_.progress();
        if (!is_posted_) is_posted_ = post();
        if (!has_kept_) keep();
        if (!is_received_) is_received_ = comm_.try_receive(call_.from, lane_, sink{*this});
        return is_posted_ && is_received_;
    }
    /// Comes last, since in place it may lie where the message did.
    void set_identity() const {
        if (call_.identity.count != 0)
            rows_.functions->set_identity(rows_, memory_.result.first + call_.identity.first, call_.identity.count);
    }
    [[nodiscard]] waiting blocked_on() const noexcept {
        return {call_.agreed.what, 0, 1, is_posted_ ? call_.from : call_.to, lane_};
    }
    /// Throws when the rank for which this one waits is in another call.
    void check() const {
        const int peer = blocked_on().peer;
        if (const auto theirs = comm_.announced(peer, lane_); theirs && theirs->hash() != call_.hash) disagree(peer);
    }

  private:
    struct sink {
        repeated_call& self;
        void operator()(typename Comm::arrival_type&& message) const { self.receive(message); }
        [[nodiscard]] std::size_t expected_bytes() const { return self.call_.received.count * self.rows_.row_bytes; }
    };

    [[nodiscard]] bool post() {
        const some_rows& sent = call_.sent;
        const part what{sent.count == 0 ? nullptr : rows_.address(memory_.input.first + sent.first, 0),
                        sent.count * rows_.row_bytes};
        return comm_.try_post(call_.to, lane_,
                              {{&what, 1}, what.bytes, rows_.functions->alignment, true, hash_, &lent_, false});
    }
    void keep() {
        has_kept_ = true;
        rows_.copy(memory_.input.first + call_.kept.first, memory_.result.first + call_.kept_at, call_.kept.count);
    }
    void receive(const typename Comm::arrival_type& message) {
        if (message.signature() != hash_) [[unlikely]]
            disagree(call_.from);
        const some_rows& to = call_.received;
        if (message.bytes() != to.count * rows_.row_bytes) [[unlikely]]
            throw_other_length(call_.agreed.what, comm_.rank(), call_.from, message.bytes(), to.count * rows_.row_bytes,
                               rows_.row_bytes);
        if (to.count == 0) return;
        std::byte* const column = message.packed();
        const place got{&column, 0}, into = memory_.result.first + to.first;
        if (call_.how == fold::store) return rows_.copy(got, into, to.count);
        const place mine = memory_.input.first + call_.mine.first;
        rows_.fold(call_.how == fold::left ? got : mine, call_.how == fold::left ? mine : got, into, to.count);
    }
    [[noreturn, gnu::cold]] void disagree(int peer) const {
        const auto theirs = comm_.announced(peer, lane_);
        if (theirs && theirs->hash() == call_.hash) throw_earlier_mismatch(comm_, call_.agreed, peer);
        throw_mismatch(call_.agreed, theirs, comm_.rank(), peer, comm_.size());
    }

    Comm& comm_;
    const short_call& call_;
    const row_layout& rows_;
    const operands& memory_;
    lane lane_ = 0;
    std::uint32_t hash_ = 0;
    bool is_posted_ = false, is_received_ = false, has_kept_ = false;
    std::atomic<int> lent_{0};
};

/// Under what a call is remembered. Those that have options of their own are not.
[[nodiscard]] inline bool is_plain(const request& what) noexcept {
    const call_options& options = what.options;
    return what.named == nullptr && !options.window_bytes && options.blocks == nullptr &&
           options.input_blocks == nullptr && options.output_blocks == nullptr && options.check == nullptr;
}
[[nodiscard, gnu::always_inline]] inline call_key key_of(const request& what, const bound_arguments& arguments,
                                                         std::size_t row_bytes) noexcept {
    return {what.type_hash,    arguments.input_rows, arguments.output_rows,   row_bytes,
            what.options.root, what.level,           what.options.delegation, arguments.is_in_place};
}

/// Runs a call to its end if one that is alike was remembered and nothing is in flight; false otherwise.
template <remembers_calls Comm>
[[nodiscard]] bool repeat(Comm& comm, const request& what, bound_arguments& arguments) {
    const auto* const calls = static_cast<const recent_calls*>(comm.kept_by_engine().get());
    if (calls == nullptr || !is_plain(what)) return false;
    const row_layout rows = arguments.rows();
    const short_call* const known = calls->find(key_of(what, arguments, rows.row_bytes));
    if (known == nullptr || background::in_flight() || comm.background().is_running()) return false;
    arguments.laid_out = known->where;
    arguments.check({what.collective.promise->name, setting{comm.rank(), comm.size(), what.options.root, comm.group()},
                     arguments.is_in_place, arguments.input_rows, arguments.output_rows, &what.options},
                    known->where);
    arguments.begin();
    operands memory;
    arguments.memory(memory);
    repeated_call<Comm> run(comm, *known, rows, memory);
    try {
        run.open();
        comm.wait(run, what.options.deadline ? what.options.deadline->from_now() : std::nullopt);
        run.set_identity();
    } catch (...) {
        give_up(comm);
        if (comm.holds_memory()) arguments.leave_behind();
        throw;
    }
    arguments.finish(false);
    return true;
}

/// After a call has come to its end: remembers it, if it is a short one.
template <remembers_calls Comm>
void remember(Comm& comm, const request& what, const bound_arguments& arguments, const execution<Comm>& run) {
    if (!is_plain(what)) return;
    std::optional<short_call> brief = run.describe();
    if (!brief) return;
    brief->key = key_of(what, arguments, run.about().rows.row_bytes);
    brief->where = arguments.where();
    auto& calls = comm.kept_by_engine();
    if (calls == nullptr) calls = std::make_unique<recent_calls>();
    static_cast<recent_calls&>(*calls).add(*brief);
}

}  // namespace allfold::detail
