// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <list>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "allfold/engine/detail/leak.hpp"
#include "allfold/engine/detail/small_array.hpp"
#include "allfold/engine/operands.hpp"
#include "allfold/engine/prefixes.hpp"
#include "allfold/engine/rows.hpp"
#include "allfold/engine/window_memory.hpp"
#include "allfold/engine/wire.hpp"
#include "allfold/schedule/step.hpp"
#include "allfold/transport/communicator.hpp"

/// @file
/// Walks a schedule over a transport. Everything that all algorithms share is implemented once, here: messages,
/// progress, loans.

namespace allfold::detail {

/// Walks one window of the operand through the rounds of a schedule. Never waits: `advance` goes as far as it can.
template <communicator Comm>
class walker {
  public:
    using context = call<Comm>;

    walker() noexcept {}  // NOLINT: the current step is constructed when a round is entered

    /// Begins with window `window` on lane `on`.
    void begin(const context& all, std::size_t window, lane on) {
        lane_ = on;
        round_ = 0;
        memory_.begin(all, window);
        enter(all);
    }

    /// True once the window is complete. Throws what the operator throws, and on a mismatch.
    bool advance(const context& all) {
        while (round_ < rounds_) {
            if (!step_through(all)) return false;
            ++round_;
            enter(all);
        }
        return !waits_for_loans();
    }

    /// Whether all that is left is to wait for the end of loans.
    [[nodiscard]] bool has_result() const noexcept { return round_ == rounds_; }

    [[nodiscard]] waiting blocked_on(const context& all) const {
        const int self = all.comm.rank();
        waiting where{all.goal.name, std::min(round_, rounds_ - 1), rounds_, -1, lane_};
        if (round_ == rounds_ || on_loan_) return where;
        if (posted_ < to_count_)
            where.peer = all.waits_to_post(now_.to, posted_);
        else if (received_ < from_count_)
            where.peer = now_.from.at(received_, self);
        return where;
    }

    /// Calls visit(peer) for each peer that may still read what the last rounds have lent, if this is what the walker
    /// waits for.
    template <class Visit>
    void for_each_borrower(const context& all, Visit visit) const {
        if (!on_loan_) return;
        int lending = 3;  // rounds: a loan is waited for two rounds later, not counting those without messages
        for (int r = std::min(round_, rounds_ - 1); r >= 0 && lending > 0; --r) {
            const peers to = all.schedule[r].to;
            const int count = to.count(all.comm.rank(), all.comm.size());
            for (int i = 0; i < count; ++i) visit(to.at(i, all.comm.rank()));
            if (count > 0) --lending;
        }
    }

    /// Releases what peers have lent.
    void drop() noexcept { arrived_.clear(); }
    /// Keeps what it has lent itself from being freed.
    void leak() noexcept {
        memory_.leak();
        detail::leak(encoded_);
    }

  private:
    using received = delivery<Comm>;
    using rows_in_window = typename window_memory<Comm>::rows_in_window;

    void enter(const context& all) {
        if (round_ == 0) rounds_ = all.schedule.rounds();
        if (round_ >= rounds_) return;
        ::new (static_cast<void*>(&now_)) step(all.schedule[round_]);  // in place: a step is large
        if (now_.has_more) ::new (static_cast<void*>(&more_)) step(all.schedule.also(round_));
        to_count_ = now_.to.count(all.comm.rank(), all.comm.size());
        from_count_ = now_.from.count(all.comm.rank(), all.comm.size());
        if (from_count_ == 1) {
            const int self = all.comm.rank(), peer = now_.from.at(0, self);
            now_.how = fold_of_one(now_.how, peer, self);
            if (now_.has_more) more_.how = fold_of_one(more_.how, peer, self);
        }
        posted_ = received_ = 0;
        prepared_ = has_listed_ = false;
    }

    /// Whether peers still use what the even or the odd rounds have lent.
    [[nodiscard]] bool waits_for_loans(int parity) noexcept {
        return on_loan_ = lent_[static_cast<std::size_t>(parity)].load(std::memory_order_acquire) != 0;
    }
    [[nodiscard]] bool waits_for_loans() noexcept { return waits_for_loans(0) || waits_for_loans(1); }

    bool step_through(const context& all) {
        if (!prepared_) {
            if (now_.idle()) return true;
            if (waits_for_loans(round_ % 2))
                return false;  // lent two rounds ago: its part list is about to be rewritten
            const bool writes = now_.local.what != local_work::kind::none;
            if (writes && waits_for_loans((round_ + 1) % 2))
                return false;  // a peer may still read what is written here
            works_later_ =
                writes && now_.source != now_.local.into && (!now_.has_more || more_.source != now_.local.into);
            if (!works_later_) do_local(all);
            prepared_ = true;
        }
        const bool is_posted = post(all);
        if (std::exchange(works_later_, false)) do_local(all);  // the peers need not wait for it
        if (!is_posted) return false;
        if (now_.from.which() != peers::kind::none) {
            if (waits_for_loans((round_ + 1) % 2)) return false;  // the same applies
            if (!receive(all)) return false;
        }
        return now_.local.what != local_work::kind::identity || sets_identity(all);
    }

    /// Comes last in a step: the identity may be written where this step's messages lie, if only because input and
    /// result are the same memory.
    bool sets_identity(const context& all) {
        if (all.rows.functions->set_identity == nullptr) return true;
        const bool is_sent = now_.source == now_.local.into || (now_.has_more && more_.source == now_.local.into);
        if (all.memory.in_place || is_sent ? waits_for_loans() : waits_for_loans((round_ + 1) % 2)) return false;
        for (int i = 0; i < now_.local.blocks.size(); ++i) {
            const int b = now_.local.blocks[i];
            if (const rows_in_window rows = memory_.rows_of(all, now_.local.into, b); rows.count > 0)
                all.rows.set_identity(memory_.locate(all, now_.local.into, b, rows), rows.count);
        }
        return true;
    }

    /// A copy that is made only to be sent is omitted if the message is copied, or encoded, when it is posted, which is
    /// before anything is received in the same step.
    [[nodiscard]] bool sends_original(const context& all) const {
        if (now_.local.what != local_work::kind::copy_to_send) return false;
        const std::size_t rows = std::min(all.memory.window_rows, all.memory.blocks->largest());
        const auto blocks = static_cast<std::size_t>(now_.local.blocks.size());
        return all.encodes() || !all.lends(blocks * all.rows.packed_bytes(rows));
    }

    // Local work

    void do_local(const context& all) {
        const local_work& work = now_.local;
        if (work.what == local_work::kind::none || work.what == local_work::kind::identity || sends_original(all))
            return;
        for (int i = 0; i < work.blocks.size(); ++i) {
            const rows_in_window rows = memory_.rows_of(all, work.left, work.blocks[i]);
            if (rows.count == 0) continue;
            const place left = memory_.locate(all, work.left, work.blocks[i], rows);
            const int target = work.target(i);
            const place into =
                memory_.locate_to_write(all, work.into, target, memory_.rows_of(all, work.into, target), left);
            if (work.what == local_work::kind::fold)
                all.rows.fold(left, memory_.locate(all, work.right, work.blocks[i]), into, rows.count);
            else
                all.rows.copy(left, into, rows.count);
        }
    }

    // Sending

    /// Calls visit(slot, blocks) for what is sent to a peer.
    template <class Visit>
    void for_each_sent(const context& all, int peer, Visit visit) const {
        visit(sends_original(all) ? now_.local.left : now_.source,
              now_.sent == addressed::alike ? now_.send : all.schedule.sent_to(round_, peer));
        if (now_.has_more) visit(more_.source, more_.send);
    }

    bool post(const context& all) {
        if (posted_ == to_count_) return true;
        const int self = all.comm.rank();
        const auto parity = static_cast<std::size_t>(round_ % 2);
        if (!std::exchange(has_listed_, true)) collect_parts(all);
        const bool alike = now_.sent == addressed::alike;
        auto& ends = ends_[parity];
        if (all.memory.posts_notices) {
            const outgoing message = make_message(all, parts_[parity].span(), lent_[parity]);
            if (!all.post_to_all(now_.to, lane_, message, ends.span())) return false;
            posted_ = to_count_;
        }
        while (posted_ < to_count_) {
            const std::size_t index = alike ? 0 : static_cast<std::size_t>(posted_);
            const std::span<const part> parts = parts_for(index, parts_[parity].span(), ends.span());
            if (!all.comm.try_post(now_.to.at(posted_, self), lane_, make_message(all, parts, lent_[parity])))
                return false;
            ++posted_;
        }
        return true;
    }

    /// Lists the parts of this round's messages, by column and then by block.
    void collect_parts(const context& all) {
        const auto parity = static_cast<std::size_t>(round_ % 2);
        const std::size_t messages = now_.sent == addressed::alike ? 1 : static_cast<std::size_t>(to_count_);
        ends_[parity].resize(messages);
        if (all.encodes())
            encode_parts(all, messages);
        else
            list_parts(all, messages);
    }
    void list_parts(const context& all, std::size_t messages) {
        if (all.memory.is_scattered()) return list_pieces(all, messages);
        if (now_.sent == addressed::alike && !now_.has_more) return list_alike(all);
        const auto parity = static_cast<std::size_t>(round_ % 2);
        const std::size_t columns = all.rows.columns();
        std::size_t end = 0;
        for (std::size_t m = 0; m < messages; ++m) {
            for_each_sent(all, now_.to.at(static_cast<int>(m), all.comm.rank()),
                          [&](slot, const block_set& set) { end += static_cast<std::size_t>(set.size()) * columns; });
            ends_[parity][m] = end;
        }
        parts_[parity].resize(end);
        for (std::size_t m = 0; m < messages; ++m) {
            const std::size_t begin = m == 0 ? 0 : ends_[parity][m - 1];
            list_parts_of(all, now_.to.at(static_cast<int>(m), all.comm.rank()), parts_[parity].data() + begin,
                          (ends_[parity][m] - begin) / columns);
        }
    }
    /// For blocks that lie in several pieces: each piece becomes a part.
    void list_pieces(const context& all, std::size_t messages) {
        const auto parity = static_cast<std::size_t>(round_ % 2);
        std::size_t count = 0;
        for (std::size_t m = 0; m < messages; ++m) {
            for_each_piece(all, m, [&count](const part&) { ++count; });
            ends_[parity][m] = count;
        }
        parts_[parity].resize(count);
        part* next = parts_[parity].data();
        for (std::size_t m = 0; m < messages; ++m)
            for_each_piece(all, m, [&next](const part& piece) { *next++ = piece; });
    }
    /// Calls visit(part) for each piece of message number `message`; each block has at least one.
    template <class Visit>
    void for_each_piece(const context& all, std::size_t message, Visit visit) {
        for_each_sent(all, now_.to.at(static_cast<int>(message), all.comm.rank()),
                      [&](slot source, const block_set& set) {
                          for (int i = 0; i < set.size(); ++i) {
                              const rows_in_window rows = memory_.rows_of(all, source, set[i]);
                              if (rows.count == 0) {
                                  visit(part{});
                                  continue;
                              }
                              const place from = memory_.locate(all, source, set[i], rows);
                              all.rows.for_each_run(from, rows.count, [&](std::byte* first, std::size_t count) {
                                  visit(part{first, count * all.rows.row_bytes});
                              });
                          }
                      });
    }
    /// For the same blocks to every peer.
    void list_alike(const context& all) {
        const auto parity = static_cast<std::size_t>(round_ % 2);
        const slot source = sends_original(all) ? now_.local.left : now_.source;
        const auto blocks = static_cast<std::size_t>(now_.send.size());
        const std::size_t columns = all.rows.columns();
        parts_[parity].resize(blocks * columns);
        ends_[parity][0] = blocks * columns;
        part* const parts = parts_[parity].data();
        for (std::size_t i = 0; i < blocks; ++i)
            list_block(all, source, now_.send[static_cast<int>(i)], parts + i, blocks);
    }
    /// Lists a part for each column of a block, `stride` apart.
    void list_block(const context& all, slot source, int block, part* parts, std::size_t stride) {
        const rows_in_window rows = memory_.rows_of(all, source, block);
        const place from = rows.count ? memory_.locate(all, source, block, rows) : place{};
        for (std::size_t c = 0; c < all.rows.columns(); ++c)
            parts[c * stride] = {rows.count ? all.rows.address(from, c) : nullptr, rows.count * all.rows.bytes[c]};
    }
    void list_parts_of(const context& all, int peer, part* parts, std::size_t blocks) {
        std::size_t next = 0;
        for_each_sent(all, peer, [&](slot source, const block_set& set) {
            for (int i = 0; i < set.size(); ++i, ++next) list_block(all, source, set[i], parts + next, blocks);
        });
    }

    /// Encodes each message of this round into bytes, as a single part.
    void encode_parts(const context& all, std::size_t messages) {
        const auto parity = static_cast<std::size_t>(round_ % 2);
        auto& bytes = encoded_[parity];
        auto& parts = parts_[parity];
        bytes.clear();
        parts.resize(messages);
        for (std::size_t m = 0; m < messages; ++m) {
            const std::size_t begin = bytes.size();
            for_each_sent(all, now_.to.at(static_cast<int>(m), all.comm.rank()),
                          [&](slot source, const block_set& set) {
                              for (int i = 0; i < set.size(); ++i)
                                  if (const rows_in_window rows = memory_.rows_of(all, source, set[i]); rows.count > 0)
                                      all.rows.for_each_run(memory_.locate(all, source, set[i], rows), rows.count,
                                                            [&](const std::byte* first, std::size_t count) {
                                                                all.rows.functions->encode(first, count, bytes);
                                                            });
                          });
            parts[m] = {nullptr, bytes.size() - begin};
            ends_[parity][m] = m + 1;
        }
        std::byte* next = bytes.data();  // their address is known only now
        for (part& p : parts.span()) {
            p.data = next;
            next += p.bytes;
        }
    }

    [[nodiscard]] static outgoing make_message(const context& all, std::span<const part> parts,
                                               std::atomic<int>& lent) noexcept {
        const bool encoded = all.encodes();
        outgoing message{parts,
                         0,
                         encoded ? 1 : all.rows.alignment,
                         encoded || all.rows.packable(),
                         all.hash,
                         &lent,
                         all.unordered,
                         all.memory.copies};
        message.bytes = packed_bytes(parts, message.alignment);
        return message;
    }

    // Receiving

    /// Calls visit(step, blocks) for each section of what is received from a peer: the step says how to combine it.
    template <class Visit>
    void for_each_received(const context& all, int peer, Visit visit) const {
        visit(now_, now_.received == addressed::alike ? now_.receive : all.schedule.received_from(round_, peer));
        if (now_.has_more) visit(more_, more_.receive);
    }

    bool receive(const context& all) {
        const int self = all.comm.rank();
        if (now_.folds_in_order() && received_ == 0) arrived_.resize(static_cast<std::size_t>(from_count_));
        while (received_ < from_count_) {
            const int peer = now_.from.at(received_, self);
            if (!all.comm.try_receive(peer, lane_, sink{*this, all, peer})) return false;
            ++received_;
        }
        if (now_.folds_in_order() && all.goal.folds && arrived_.size() != 0) fold_in_rank_order(all);
        return true;
    }

    /// Takes the next message of a peer.
    struct sink {
        walker& self;
        const context& all;
        int peer;

        void operator()(typename Comm::arrival_type&& message) const {
            all.check(message.signature(), peer, self.lane_);
            if (self.is_one_column(all) && !self.now_.folds_in_order()) return self.absorb_column(all, peer, message);
            received taken = self.open(all, peer, std::move(message));
            if (self.now_.folds_in_order())
                self.arrived_[static_cast<std::size_t>(self.received_)] = std::move(taken);
            else
                self.absorb(all, peer, taken.pieces(all.rows.alignment));
        }
        [[nodiscard]] std::byte* destination(std::uint32_t signature, std::size_t bytes) const {
            return signature == all.hash ? self.destination_of(all, peer, bytes) : nullptr;
        }
        [[nodiscard]] std::size_t expected_bytes() const { return all.encodes() ? 0 : self.expected_bytes(all, peer); }
    };

    /// Checks the length of a message, and decodes its objects if it is encoded.
    [[nodiscard]] received open(const context& all, int peer, typename Comm::arrival_type&& message) {
        if (all.encodes()) {
            std::byte* const packed = message.packed();  // may be lent by a thread of the same process
            std::byte* const encoded = packed != nullptr || message.bytes() == 0 ? packed : message.parts()[0].data;
            object_array objects = all.rows.functions->decode({encoded, message.bytes()});
            all.check_length(objects.size() * all.rows.row_bytes, expected_rows(all, peer) * all.rows.row_bytes, peer);
            return received(std::move(objects));
        }
        all.check_length(message.bytes(), expected_bytes(all, peer), peer);
        return received(std::move(message));
    }
    [[nodiscard]] std::size_t expected_rows(const context& all, int peer) const {
        std::size_t rows = 0;
        for_each_received(all, peer, [&](const step& part, const block_set& set) {
            for (int i = 0; i < set.size(); ++i) rows += memory_.rows_of(all, part.into, set[i]).count;
        });
        return rows;
    }
    [[nodiscard]] std::size_t expected_bytes(const context& all, int peer) const {
        const std::size_t alignment = all.rows.alignment;
        std::size_t bytes = 0;
        for (std::size_t c = 0; c < all.rows.columns(); ++c)
            for_each_received(all, peer, [&](const step& part, const block_set& set) {
                for (int i = 0; i < set.size(); ++i)
                    bytes =
                        align_up(bytes, alignment) + memory_.rows_of(all, part.into, set[i]).count * all.rows.bytes[c];
            });
        return bytes;
    }

    /// The destination of a peer's message if it is stored unchanged, in one piece; otherwise null.
    [[nodiscard]] std::byte* destination_of(const context& all, int peer, std::size_t bytes) {
        if (!all.rows.packable() || all.encodes() || all.rows.columns() > 1 || now_.how != fold::store ||
            now_.has_more || is_scratch(now_.into))
            return nullptr;
        std::byte* first = nullptr;
        std::size_t stored = 0;
        const block_set set =
            now_.received == addressed::alike ? now_.receive : all.schedule.received_from(round_, peer);
        for (int i = 0; i < set.size(); ++i) {
            const rows_in_window rows = memory_.rows_of(all, now_.into, set[i]);
            if (rows.count == 0) continue;
            const place to = memory_.locate(all, now_.into, set[i], rows);
            if (all.rows.run(to, rows.count) < rows.count) return nullptr;
            std::byte* const at = all.rows.address(to, 0);
            if (stored == 0) first = at;
            if (at != first + stored) return nullptr;
            stored += rows.count * all.rows.row_bytes;
        }
        return stored == bytes ? first : nullptr;
    }

    /// Stores or folds what one peer sent, reading it in place.
    void absorb(const context& all, int peer, pieces rest) {
        const std::size_t columns = all.rows.columns();
        std::size_t blocks = 0;
        for_each_received(all, peer,
                          [&](const step&, const block_set& set) { blocks += static_cast<std::size_t>(set.size()); });
        if (rest.is_scattered(blocks * columns)) return absorb_pieces(all, peer, rest);
        small_array<std::byte*, 16> where;  // block by block, the columns of each
        where.resize(blocks * columns);
        for (std::size_t c = 0; c < columns; ++c) {
            std::size_t block = 0;
            for_each_received(all, peer, [&](const step& part, const block_set& set) {
                for (int i = 0; i < set.size(); ++i)
                    where[block++ * columns + c] =
                        rest.next(memory_.rows_of(all, part.into, set[i]).count * all.rows.bytes[c]);
            });
        }
        std::size_t block = 0;
        for_each_received(all, peer, [&](const step& part, const block_set& set) {
            for (int i = 0; i < set.size(); ++i)
                combine(all, part, set[i], memory_.rows_of(all, part.into, set[i]),
                        place{where.data() + block++ * columns, 0});
        });
    }
    /// The same for blocks that lie in several pieces at the peer.
    [[gnu::noinline]] void absorb_pieces(const context& all, int peer, pieces rest) {
        for_each_received(all, peer, [&](const step& part, const block_set& set) {
            for (int i = 0; i < set.size(); ++i) {
                const rows_in_window rows = memory_.rows_of(all, part.into, set[i]);
                const scattered from = rest.next_pieces(rows.count, all.rows.row_bytes);
                combine(all, part, set[i], rows, place{nullptr, 0, &from});
            }
        });
    }
    /// The most frequent case: does what `open` and `absorb` do, without listing anything.
    [[nodiscard]] bool is_one_column(const context& all) const noexcept {
        return all.rows.columns() == 1 && !now_.has_more && !all.encodes();
    }
    void absorb_column(const context& all, int peer, const typename Comm::arrival_type& message) {
        const block_set set =
            now_.received == addressed::alike ? now_.receive : all.schedule.received_from(round_, peer);
        const std::size_t alignment = all.rows.alignment;
        const int count = set.size();
        const rows_in_window first = count > 0 ? memory_.rows_of(all, now_.into, set[0]) : rows_in_window{};
        std::size_t bytes = first.count * all.rows.row_bytes;
        for (int i = 1; i < count; ++i)
            bytes = align_up(bytes, alignment) + memory_.rows_of(all, now_.into, set[i]).count * all.rows.row_bytes;
        all.check_length(message.bytes(), bytes, peer);
        pieces rest(message.packed(), message.parts(), alignment);
        if (rest.is_scattered(static_cast<std::size_t>(count))) return absorb_pieces(all, peer, rest);
        for (int i = 0; i < count; ++i) {
            const rows_in_window rows = i == 0 ? first : memory_.rows_of(all, now_.into, set[i]);
            std::byte* const column = rest.next(rows.count * all.rows.row_bytes);
            combine(all, now_, set[i], rows, place{&column, 0});
        }
    }
    void combine(const context& all, const step& part, int block, const rows_in_window& rows, const place& from) {
        if (rows.count == 0) return;
        const place into = memory_.locate_to_write(all, part.into, block, rows, from);
        if (part.how == fold::store) return all.rows.copy(from, into, rows.count);
        const place mine = memory_.locate(all, part.mine, block);
        all.rows.fold(part.how == fold::left ? from : mine, part.how == fold::left ? mine : from, into, rows.count);
    }

    void fold_in_rank_order(const context& all) {
        const int self = all.comm.rank();
        const auto count = static_cast<std::size_t>(from_count_);
        const bool with_mine = now_.how != fold::peers_in_rank_order;
        const auto below = static_cast<std::size_t>(now_.from.count_below(self, all.comm.size()));
        const std::size_t columns = all.rows.columns();
        small_array<place, 16> sources;
        small_array<std::byte*, 16> where;      // the columns of each message, one message after another
        std::list<scattered> scattered_pieces;  // messages that lie in several pieces
        where.resize(count * columns);
        sources.resize(count + (with_mine ? 1 : 0));
        for (int i = 0; i < now_.receive.size(); ++i) {
            const int b = now_.receive[i];
            const rows_in_window rows = memory_.rows_of(all, now_.into, b);
            if (rows.count == 0) continue;
            for (std::size_t k = 0; k < count; ++k) {
                sources[k + (with_mine && k >= below ? 1 : 0)] =
                    find_piece(all, arrived_[k], i, where.data() + k * columns, scattered_pieces);
            }
            if (with_mine) sources[below] = memory_.locate(all, now_.mine, b);
            if (now_.folds_prefixes()) {
                fold_to_copies(all, sources.span(), rows);
                continue;
            }
            const place into = memory_.locate_to_write(all, now_.into, b, rows, sources[0]);
            all.rows.fold(sources.span(), std::span(&into, 1), rows.count);
        }
        arrived_.clear();
        arrived_.resize(0);  // the step may not be over: an identity that waits for loans comes after the fold
    }

    void fold_to_copies(const context& all, std::span<const place> sources, const rows_in_window& rows) {
        small_array<place, 16> prefixes;
        prefixes.resize(sources.size());
        for (std::size_t i = 0; i < sources.size(); ++i)
            prefixes[i] = memory_.locate_to_write(all, now_.into, static_cast<int>(i), rows, sources[0]);
        fold_prefixes(all.rows, sources, prefixes.span(), rows.count);
    }

    /// Where block number `index` of the received set lies in a message. `where`: room for its columns.
    [[nodiscard]] place find_piece(const context& all, const received& message, int index, std::byte** where,
                                   std::list<scattered>& scattered_pieces) const {
        pieces rest = message.pieces(all.rows.alignment);
        if (rest.is_scattered(static_cast<std::size_t>(now_.receive.size()) * all.rows.columns())) {
            for (int i = 0;; ++i) {
                scattered found =
                    rest.next_pieces(memory_.rows_of(all, now_.into, now_.receive[i]).count, all.rows.row_bytes);
                if (i == index) return {nullptr, 0, &scattered_pieces.emplace_back(std::move(found))};
            }
        }
        if (now_.receive.size() == 1 && all.rows.columns() == 1) {
            *where = rest.next(0);
            return {where, 0};
        }
        for (std::size_t c = 0; c < all.rows.columns(); ++c)
            for (int i = 0; i < now_.receive.size(); ++i) {
                std::byte* const at =
                    rest.next(memory_.rows_of(all, now_.into, now_.receive[i]).count * all.rows.bytes[c]);
                if (i == index) where[c] = at;
            }
        return {where, 0};
    }

    window_memory<Comm> memory_;
    lane lane_ = 0;
    int round_ = 0, rounds_ = 0;
    int to_count_ = 0, posted_ = 0;
    int from_count_ = 0, received_ = 0;
    bool prepared_ = false;
    bool has_listed_ = false;   // the parts of this round's messages
    bool works_later_ = false;  // there is local work left that no message of this step contains
    bool on_loan_ = false;      // it waits for the end of a loan
    union {
        step now_;  // NOLINT(readability-identifier-naming): it is the union that has no name
    };
    union {
        step more_;  // NOLINT(readability-identifier-naming)
    };
    std::array<std::atomic<int>, 2> lent_{};  // for even and for odd rounds
    std::array<small_array<part, 4>, 2> parts_;
    std::array<small_array<std::size_t, 4>, 2> ends_;  // where the parts of each message end
    std::array<std::vector<std::byte>, 2> encoded_;
    small_array<received, 1> arrived_;
};

}  // namespace allfold::detail
