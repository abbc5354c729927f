// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "allfold/engine/detail/leave_behind.hpp"
#include "allfold/engine/detail/small_array.hpp"
#include "allfold/engine/kernel.hpp"
#include "allfold/engine/mismatch.hpp"
#include "allfold/engine/operands.hpp"
#include "allfold/engine/scratch.hpp"
#include "allfold/engine/wire.hpp"
#include "allfold/schedule/step.hpp"
#include "allfold/transport/communicator.hpp"

/// @file
/// Walks a schedule over a transport. What all algorithms share is here, once: buffers, progress, agreement.

namespace allfold::detail {

/// Walks one window of the operand through the rounds of a schedule. Never waits: `advance` goes as far as it can.
template <communicator Comm, schedule Schedule, class Kernel>
class walker {
  public:
    using place_type = typename Kernel::place_type;
    static constexpr std::size_t columns = Kernel::columns;

    using context = call<Comm, Schedule, Kernel>;

    walker() noexcept {}  // NOLINT: the current step is made when a round is entered

    /// Begins with window `window` on lane `on`.
    void begin(const context& all, std::size_t window, lane on) {
        window_ = window;
        lane_ = on;
        round_ = 0;
        is_set_ = false;
        asked_block_ = -1;
        enter(all);
        if (all.stage_input) stage(all);
    }

    /// True when the window is through. Throws what the operator throws, and on a mismatch.
    bool advance(const context& all) {
        while (round_ < all.plan.rounds()) {
            if (!step_through(all)) return false;
            ++round_;
            enter(all);
        }
        if constexpr (Schedule::goal == collective::exclusive_scan)
            if (!sets_identity(all)) return false;
        return !waits_for_loans(0) && !waits_for_loans(1);
    }

    [[nodiscard]] waiting blocked_on(const context& all) const {
        const int rounds = all.plan.rounds(), self = all.comm.rank();
        waiting where{name_of(all.plan.goal), std::min(round_, rounds - 1), rounds, -1, lane_};
        if (round_ == rounds || on_loan_) return where;
        if (posted_ < to_count_)
            where.peer = now_.to.at(posted_, self);
        else if (received_ < from_count_)
            where.peer = now_.from.at(received_, self);
        return where;
    }

    /// Calls visit(peer) for those who may still read what the last rounds have lent, if that is what it waits for.
    template <class Visit>
    void for_each_borrower(const context& all, Visit visit) const {
        if (!on_loan_) return;
        for (int r = std::max(0, round_ - 2); r <= std::min(round_, all.plan.rounds() - 1); ++r) {
            const peers to = all.plan[r].to;
            for (int i = 0; i < to.count(all.comm.rank(), all.comm.size()); ++i) visit(to.at(i, all.comm.rank()));
        }
    }

    /// Lets go of what peers have lent.
    void drop() noexcept { kept_.clear(); }
    /// Keeps what it has lent itself.
    void leave_behind() noexcept {
        detail::leave_behind(scratch_);
        detail::leave_behind(staged_);
        if constexpr (encoded) detail::leave_behind(encoded_);
    }

  private:
    static constexpr bool encoded = encodes<Comm, Kernel>;
    static constexpr std::size_t parts_of_message = encoded ? 1 : columns;  // to one of several peers
    using received = delivery<Comm, Kernel>;

    void enter(const context& all) {
        if (round_ >= all.plan.rounds()) return;
        ::new (static_cast<void*>(&now_)) step(all.plan[round_]);  // in place: a step is large
        to_count_ = now_.to.count(all.comm.rank(), all.comm.size());
        from_count_ = now_.from.count(all.comm.rank(), all.comm.size());
        posted_ = received_ = 0;
        prepared_ = false;
    }

    /// Whether peers still use what the even or the odd rounds have lent.
    [[nodiscard]] bool waits_for_loans(int parity) noexcept {
        return on_loan_ = lent_[static_cast<std::size_t>(parity)].load(std::memory_order_acquire) != 0;
    }

    bool step_through(const context& all) {
        if (!prepared_) {
            if (now_.idle()) return true;
            if (waits_for_loans(round_ % 2))
                return false;  // from two rounds ago: its part list is about to be written anew
            const bool writes = now_.local.what != local_work::kind::none;
            if (writes && waits_for_loans((round_ + 1) % 2))
                return false;  // a peer may still read what is written here
            do_local(all);
            prepared_ = true;
        }
        if (!post(all)) return false;
        if (now_.from.which() == peers::kind::none) return true;
        if (waits_for_loans((round_ + 1) % 2)) return false;  // the same
        return receive(all);
    }

    /// The result of the first rank of an exclusive scan, while what it has sent is on its way: the identity if the
    /// operator has one, otherwise it stays as it is. False: in place, a peer may still read what lies there.
    bool sets_identity(const context& all) {
        if (all.comm.rank() != 0 || is_set_) return true;
        if (all.memory.in_place && (waits_for_loans(0) || waits_for_loans(1))) return false;
        for (int b = 0; b < all.plan.blocks(); ++b)
            if (const std::size_t rows = rows_of(all, b).count)
                all.kernel.set_identity(locate(all, slot::result, b), rows);
        return is_set_ = true;
    }

    // Where things lie

    /// The rows of a block in this window.
    struct rows_in_window {
        std::size_t first;
        std::size_t count;
    };
    [[nodiscard]] const rows_in_window& rows_of(const context& all, int block) noexcept {
        if (block != asked_block_) {  // the same block is asked for several times in a row
            const std::size_t skipped = window_ * all.memory.window_rows;
            const std::size_t begin = all.memory.blocks.offset(block) + skipped;
            const std::size_t end = all.memory.blocks.offset(block + 1);
            asked_rows_ = {begin, end <= begin ? 0 : std::min(all.memory.window_rows, end - begin)};
            asked_block_ = block;
        }
        return asked_rows_;
    }
    [[nodiscard]] place_type locate(const context& all, slot where, int block) {
        const auto& memory = all.memory;
        const auto in_window = [&] { return static_cast<std::size_t>(block) * memory.window_rows; };
        switch (where) {
            case slot::input:
                if (all.stage_input) return all.kernel.advance(staged_.place(), in_window());
                return all.kernel.advance(memory.input, rows_of(all, block).first - memory.input_first);
            case slot::result:
                return all.kernel.advance(memory.result, rows_of(all, block).first - memory.result_first);
            case slot::scratch_a: return all.kernel.advance(scratch_of(all, 0), in_window());
            case slot::scratch_b: return all.kernel.advance(scratch_of(all, 1), in_window());
        }
        return {};
    }
    [[nodiscard]] const place_type& scratch_of(const context& all, std::size_t which) {
        if (scratch_[which].empty()) allocate(all, scratch_[which]);
        return scratch_[which].place();
    }
    void allocate(const context& all, scratch<Kernel>& memory) const {
        const auto blocks = static_cast<std::size_t>(all.plan.blocks());
        memory.allocate(all.kernel, blocks * std::min(all.memory.window_rows, all.memory.blocks.largest()),
                        all.memory.input);
    }
    void stage(const context& all) {
        if (staged_.empty()) allocate(all, staged_);
        for (int b = 0; b < all.plan.blocks(); ++b) {
            const auto from = all.kernel.advance(all.memory.input, rows_of(all, b).first - all.memory.input_first);
            const auto at = static_cast<std::size_t>(b) * all.memory.window_rows;
            all.kernel.copy(from, all.kernel.advance(staged_.place(), at), rows_of(all, b).count);
        }
    }

    /// A copy made to be sent is left out where the message is copied, or encoded, when it is posted: before anything
    /// is received in the same step.
    [[nodiscard]] bool sends_original(const context& all) const {
        if (now_.local.what != local_work::kind::copy_to_send) return false;
        const std::size_t rows = std::min(all.memory.window_rows, all.memory.blocks.largest());
        const auto blocks = static_cast<std::size_t>(now_.local.blocks.size());
        return encoded || !all.comm.lends(blocks * all.kernel.packed_bytes(rows), Kernel::packable);
    }
    [[nodiscard]] slot source_of(const context& all) const {
        return sends_original(all) ? now_.local.left : now_.source;
    }

    // The three things that a step does

    void do_local(const context& all) {
        const local_work& work = now_.local;
        if (work.what == local_work::kind::none || sends_original(all)) return;
        for (int i = 0; i < work.blocks.size(); ++i) {
            const int b = work.blocks[i];
            const std::size_t rows = rows_of(all, b).count;
            if (rows == 0) continue;
            const place_type left = locate(all, work.left, b), into = locate(all, work.into, b);
            if (work.what != local_work::kind::fold)
                all.kernel.copy(left, into, rows);
            else if constexpr (folds(Schedule::goal))
                all.kernel.fold(left, locate(all, work.right, b), into, rows);
        }
    }

    bool post(const context& all) {
        if (posted_ == to_count_) return true;
        const int self = all.comm.rank();
        const auto parity = static_cast<std::size_t>(round_ % 2);
        if (posted_ == 0) collect_parts(all);
        const bool alike = now_.sent == addressed::alike;
        const std::size_t each = alike ? parts_[parity].size() : parts_of_message;
        while (posted_ < to_count_) {
            const auto begin = alike ? 0 : static_cast<std::size_t>(posted_) * parts_of_message;
            const outgoing message = make_message(all, {parts_[parity].data() + begin, each}, lent_[parity]);
            if (!all.comm.try_post(now_.to.at(posted_, self), lane_, message)) return false;
            ++posted_;
        }
        return true;
    }

    /// Lists the pieces of the messages of this round, column by column and block by block.
    void collect_parts(const context& all) {
        if constexpr (encoded)
            encode_parts(all);
        else
            list_parts(all);
    }
    void list_parts(const context& all) {
        auto& parts = parts_[static_cast<std::size_t>(round_ % 2)];
        const bool alike = now_.sent == addressed::alike;
        const int messages = alike ? 1 : to_count_;
        const auto blocks = static_cast<std::size_t>(alike ? now_.send.size() : 1);
        parts.resize(static_cast<std::size_t>(messages) * blocks * columns);
        std::size_t next = 0;
        for (int m = 0; m < messages; ++m) {
            const block_set set = now_.sent_to(now_.to.at(m, all.comm.rank()));
            for (std::size_t i = 0; i < blocks; ++i) {
                const int b = set[static_cast<int>(i)];
                const std::size_t rows = rows_of(all, b).count;
                const place_type from = rows ? locate(all, source_of(all), b) : place_type{};
                for (std::size_t c = 0; c < columns; ++c)
                    parts[next + c * blocks + i] = {from[c], rows * all.kernel.row_bytes(c)};
            }
            next += blocks * columns;
        }
    }

    /// Turns each message of this round into bytes: one part.
    void encode_parts(const context& all) {
        using object = typename Kernel::template column_type<0>;
        const auto parity = static_cast<std::size_t>(round_ % 2);
        const auto messages = static_cast<std::size_t>(now_.sent == addressed::alike ? 1 : to_count_);
        auto& bytes = encoded_[parity];
        auto& parts = parts_[parity];
        bytes.clear();
        parts.resize(messages);
        for (std::size_t m = 0; m < messages; ++m) {
            const std::size_t begin = bytes.size();
            const block_set set = now_.sent_to(now_.to.at(static_cast<int>(m), all.comm.rank()));
            for (int i = 0; i < set.size(); ++i)
                if (const std::size_t rows = rows_of(all, set[i]).count)
                    encode(reinterpret_cast<const object*>(locate(all, source_of(all), set[i])[0]), rows, bytes);
            parts[m] = {nullptr, bytes.size() - begin};
        }
        std::byte* next = bytes.data();  // where it lies is known only now
        for (part& p : parts.span()) {
            p.data = next;
            next += p.bytes;
        }
    }

    [[nodiscard]] static outgoing make_message(const context& all, std::span<const part> parts,
                                               std::atomic<int>& lent) noexcept {
        outgoing message{parts, 0, encoded ? 1 : Kernel::alignment, encoded || Kernel::packable, all.hash, &lent};
        for (const part& p : parts) message.bytes = align_up(message.bytes, message.alignment) + p.bytes;
        return message;
    }

    bool receive(const context& all) {
        const int self = all.comm.rank();
        if (keeps() && received_ == 0) kept_.resize(static_cast<std::size_t>(from_count_));
        while (received_ < from_count_) {
            const int peer = now_.from.at(received_, self);
            if (!all.comm.try_receive(peer, lane_, sink{*this, all, peer})) return false;
            ++received_;
        }
        if constexpr (folds(Schedule::goal))
            if (keeps()) fold_in_rank_order(all);
        return true;
    }
    /// Whether messages are kept until all have come.
    [[nodiscard]] bool keeps() const noexcept {
        return now_.how == fold::in_rank_order || now_.how == fold::peers_in_rank_order;
    }

    /// What the next message of a peer is handed to.
    struct sink {
        walker& self;
        const context& all;
        int peer;

        void operator()(typename Comm::arrival_type&& message) const {
            all.check(message.signature(), peer, self.lane_);
            if (self.keeps()) {
                self.kept_[static_cast<std::size_t>(self.received_)] = received(std::move(message));
            } else if constexpr (encoded) {
                received objects(std::move(message));
                self.absorb(all, peer, objects.pieces());
            } else {
                self.absorb(all, peer, pieces(message.packed(), message.parts(), Kernel::alignment));
            }
        }
        [[nodiscard]] std::byte* destination(std::uint32_t signature, std::size_t bytes) const {
            return signature == all.hash ? self.place_to_store(all, peer, bytes) : nullptr;
        }
    };

    /// Where the message of a peer belongs when it is stored as it comes, in one piece.
    [[nodiscard]] std::byte* place_to_store(const context& all, int peer, std::size_t bytes) {
        if (!Kernel::packable || encoded || columns > 1 || now_.how != fold::store) return nullptr;
        std::byte* first = nullptr;
        std::size_t stored = 0;
        const block_set set = now_.received_from(peer);
        for (int i = 0; i < set.size(); ++i) {
            const std::size_t rows = rows_of(all, set[i]).count;
            if (rows == 0) continue;
            std::byte* const at = locate(all, now_.into, set[i])[0];
            if (stored == 0) first = at;
            if (at != first + stored) return nullptr;
            stored += rows * all.kernel.row_bytes();
        }
        return stored == bytes ? first : nullptr;
    }

    /// Stores or folds what one peer sent, where it lies.
    void absorb(const context& all, int peer, pieces rest) {
        const block_set set = now_.received_from(peer);
        small_array<place_type, 8> places;
        places.resize(static_cast<std::size_t>(set.size()));
        for (std::size_t c = 0; c < columns; ++c)
            for (int i = 0; i < set.size(); ++i)
                places[static_cast<std::size_t>(i)][c] =
                    rest.next(rows_of(all, set[i]).count * all.kernel.row_bytes(c));
        for (int i = 0; i < set.size(); ++i) {
            const int b = set[i];
            const std::size_t rows = rows_of(all, b).count;
            if (rows == 0) continue;
            const place_type from = places[static_cast<std::size_t>(i)], into = locate(all, now_.into, b);
            if (now_.how == fold::store) {
                all.kernel.copy(from, into, rows);
            } else if constexpr (folds(Schedule::goal)) {
                const place_type mine = locate(all, now_.mine, b);
                all.kernel.fold(now_.how == fold::left ? from : mine, now_.how == fold::left ? mine : from, into, rows);
            }
        }
    }

    void fold_in_rank_order(const context& all) {
        const int self = all.comm.rank(), count = from_count_;
        const bool with_mine = now_.how == fold::in_rank_order;
        small_array<place_type, 16> sources;
        for (int i = 0; i < now_.receive.size(); ++i) {
            const int b = now_.receive[i];
            const std::size_t rows = rows_of(all, b).count;
            if (rows == 0) continue;
            sources.resize(static_cast<std::size_t>(count + (with_mine ? 1 : 0)));
            std::size_t next = 0;
            for (int k = 0; k < count; ++k) {
                if (with_mine && now_.from.at(k, self) > self && next == static_cast<std::size_t>(k))
                    sources[next++] = locate(all, now_.mine, b);
                sources[next++] = piece_of(all, kept_[static_cast<std::size_t>(k)], i);
            }
            if (next < sources.size()) sources[next] = locate(all, now_.mine, b);
            const place_type into = locate(all, now_.into, b);
            all.kernel.fold(sources.span(), std::span(&into, 1), rows);
        }
        kept_.clear();
    }

    /// Where block number `index` of the received set lies in a message.
    [[nodiscard]] place_type piece_of(const context& all, received& message, int index) {
        pieces rest = message.pieces();
        place_type found{};
        for (std::size_t c = 0; c < columns; ++c)
            for (int i = 0; i < now_.receive.size(); ++i) {
                std::byte* const at = rest.next(rows_of(all, now_.receive[i]).count * all.kernel.row_bytes(c));
                if (i == index) found[c] = at;
            }
        return found;
    }

    std::size_t window_ = 0;
    int asked_block_ = -1;
    rows_in_window asked_rows_{};
    lane lane_ = 0;
    int round_ = 0;
    int to_count_ = 0, posted_ = 0;
    int from_count_ = 0, received_ = 0;
    bool prepared_ = false;
    bool is_set_ = false;
    bool on_loan_ = false;  // what it waits for is the end of a loan
    union {
        step now_;
    };
    std::array<std::atomic<int>, 2> lent_{};  // of the even and of the odd rounds
    std::array<small_array<part, 4>, 2> parts_;
    [[no_unique_address]] std::conditional_t<encoded, std::array<std::vector<std::byte>, 2>, std::tuple<>> encoded_;
    small_array<received, 1> kept_;
    std::array<scratch<Kernel>, 2> scratch_;
    scratch<Kernel> staged_;
};

}  // namespace allfold::detail
