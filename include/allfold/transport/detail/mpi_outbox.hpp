// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "allfold/transport/communicator.hpp"
#include "allfold/transport/detail/bounce.hpp"
#include "allfold/transport/detail/copy.hpp"
#include "allfold/transport/detail/envelope.hpp"
#include "allfold/transport/detail/flow_control.hpp"
#include "allfold/transport/detail/mpi_calls.hpp"
#include "allfold/transport/detail/mpi_handle.hpp"
#include "allfold/transport/detail/mpi_tuning.hpp"

/// @file
/// What a rank has sent through MPI, and MPI has not let go of yet.

namespace allfold::mpi::detail {

/// Messages in transit: copies of ours, and memory lent by the engine or its caller.
class outbox {
  public:
    using bounce_buffer = allfold::detail::bounce_buffer;
    using envelope = allfold::detail::envelope;

    outbox(const handle& job, allfold::detail::bounce_pool& pool, const tuning& numbers)
        : job_(job),
          pool_(pool),
          tuning_(numbers),
          sent_(static_cast<std::size_t>(job.size())),
          completed_(job.get()) {}

    using sender = allfold::detail::sender;

    /// Limits how far a rank that only sends can run ahead. Copies that give way do not count, since their receivers
    /// may be waiting for this call first; and the messages of a whole step always have room, since no rank receives
    /// before it has posted them.
    [[nodiscard]] bool has_room(sender mine) {
        constexpr std::size_t max_copies = 512, check_interval = 16;
        keep_plain();
        if (copies_.empty()) return true;
        if (copies_.size() >= check_interval) collect_copies();
        const std::size_t most = std::max(max_copies, sent_.size());
        const auto counts = [&](const copy& c) { return c.of && !allfold::detail::may_be_overtaken(*c.of, mine); };
        return copies_.size() < most || copies_.count(counts) < most;
    }

    /// Sends a message of a call; null if the call is no longer known.
    void send_message(int to, lane on, const outgoing& message, const allfold::detail::opened_lanes::entry* call);
    /// The same for a short message, which `pack(place)` writes: of a call that its receiver already knows, if nothing
    /// else is in transit; or of no call, if there is room. Returns false if it was not sent.
    template <class Pack>
    [[nodiscard]] bool send_plain(int to, sender of, std::uint32_t signature, std::size_t bytes, Pack pack,
                                  const allfold::detail::opened_lanes::entry* call);
    /// Whether MPI has let go of what `send_plain` gave it, and nothing else is in transit.
    [[nodiscard]] bool has_released();
    /// Sends the beginning of a buffer as a control message.
    void send_control(int to, bounce_buffer&& buffer, std::size_t bytes) {
        send_copy(to, control_tag, std::move(buffer), std::nullopt, 0, bytes);
    }

    void collect_copies();
    void collect_loans();
    /// Calls MPI for a while: copies that it has not taken over at once make progress only in its calls, and a rank
    /// that is done may not make any for a long time. Not forever: a receiver may arrive only after something that this
    /// rank does next.
    void flush_copies(bool oversubscribed);

    [[nodiscard]] bool empty() const noexcept {
        return copies_.empty() && loans_.empty() && plain_request_ == MPI_REQUEST_NULL;
    }
    [[nodiscard]] bool lends() const noexcept { return !loans_.empty(); }
    /// The ranks that have yet to read something in transit.
    [[nodiscard]] std::vector<int> readers();
    /// The ranks that have yet to read what is lent on this lane.
    [[nodiscard]] std::vector<int> borrowers_on(lane on);
    /// The lenders go away: nobody is notified any more when a loan ends.
    void forget_lenders() {
        loans_.for_each([](loan& l) { l.lent = nullptr; });
    }
    /// How many MPI messages have been sent to each rank.
    [[nodiscard]] const std::uint64_t* sent() const noexcept { return sent_.data(); }

  private:
    struct copy {
        bounce_buffer buffer;
        std::optional<sender> of;               // none: a control message, or a further part of a message
        std::shared_ptr<bounce_buffer> shared;  // used instead if it is sent in parts, which may complete in any order
        int to;
    };
    struct cut_bytes {
        std::size_t offset, first, bytes, piece;
        std::size_t late = 0;
    };
    struct loan {
        std::atomic<int>* lent;  // null once the lender is gone
        int to;
        lane on;
    };
    /// Sends bytes of a buffer: the first `first` in one message and the rest in messages of at most `piece`, except
    /// that the `late` bytes after the first ones are sent last, in one message. Keeps the buffer for as long as MPI
    /// needs it.
    void send_copy(int to, int tag, bounce_buffer&& buffer, std::optional<sender> of, const cut_bytes& bytes);
    /// The same in one message.
    void send_copy(int to, int tag, bounce_buffer&& buffer, const std::optional<sender>& of, std::size_t offset,
                   std::size_t bytes);
    /// Sends a message whose long ranges are sent from where they lie. `head` is complete up to `at`, except for the
    /// envelope.
    void send_long(int to, int tag, const outgoing& message, envelope about, bounce_buffer&& head, std::size_t at);
    [[nodiscard]] static std::size_t close_envelope(envelope about, std::byte* head, std::size_t end) noexcept {
        const std::size_t bytes = end - allfold::detail::envelope_offset;
        about.tally = static_cast<std::uint16_t>(bytes);
        std::memcpy(head + allfold::detail::envelope_offset, &about, sizeof about);
        return bytes;
    }
    [[nodiscard]] MPI_Request send(int to, int tag, const std::byte* from, std::size_t bytes);
    /// Whether MPI is known to have let go already of what it was just given, without asking it.
    [[nodiscard]] bool is_complete(MPI_Request& request);
    void keep(MPI_Request request, copy&& what);
    static void note_rank(int rank, std::vector<int>& ranks) {
        if (std::ranges::find(ranks, rank) == ranks.end()) ranks.push_back(rank);
    }
    void keep_plain() {
        if (plain_request_ == MPI_REQUEST_NULL) return;
        keep(std::exchange(plain_request_, MPI_REQUEST_NULL), {std::move(plain_), plain_of_, nullptr, plain_to_});
    }
    void send_range(int to, int tag, const std::byte* from, std::size_t bytes, const loan& whose);

    const handle& job_;
    allfold::detail::bounce_pool& pool_;
    const tuning& tuning_;
    std::size_t longest_plain_ = longest_plain(tuning_);
    allfold::detail::introductions introduced_{job_.size()};
    requests<copy> copies_;
    bounce_buffer plain_;  // of `send_plain`, with the last message it sent
    MPI_Request plain_request_ = MPI_REQUEST_NULL;
    sender plain_of_;
    int plain_to_ = 0;
    bool long_copies_ = false;  // some of the copies may not have been taken over by MPI at once
    requests<loan> loans_;
    std::vector<std::uint64_t> sent_;
    completed_request completed_;
};

inline void outbox::collect_copies() {
    keep_plain();
    if (copies_.empty()) return;
    copies_.collect([this](copy& sent) {
        if (sent.shared == nullptr)
            pool_.give_back(std::move(sent.buffer));
        else if (sent.shared.use_count() == 1)
            pool_.give_back(std::move(*sent.shared));
    });
}

inline void outbox::collect_loans() {
    if (loans_.empty()) return;
    loans_.collect([](const loan& over) {
        if (over.lent != nullptr) over.lent->fetch_sub(1, std::memory_order_release);
    });
}

inline void outbox::flush_copies(bool oversubscribed) {
    keep_plain();
    for (int turn = 0; turn < 1000 && long_copies_ && !copies_.empty(); ++turn) {
        collect_copies();
        if (oversubscribed) std::this_thread::yield();
    }
    long_copies_ = false;
}

inline std::vector<int> outbox::readers() {
    std::vector<int> ranks;
    keep_plain();
    copies_.for_each([&ranks](const copy& c) { note_rank(c.to, ranks); });
    loans_.for_each([&ranks](const loan& l) { note_rank(l.to, ranks); });
    return ranks;
}

inline std::vector<int> outbox::borrowers_on(lane on) {
    std::vector<int> ranks;
    loans_.for_each([&](const loan& l) {
        if (l.on == on) note_rank(l.to, ranks);
    });
    return ranks;
}

inline MPI_Request outbox::send(int to, int tag, const std::byte* from, std::size_t bytes) {
    MPI_Request request;
    check(isend(from, bytes, job_.place_of(to), tag, job_.get(), &request), "MPI_Isend");
    ++sent_[static_cast<std::size_t>(to)];
    return request;
}

inline void outbox::send_message(int to, lane on, const outgoing& message,
                                 const allfold::detail::opened_lanes::entry* call) {
    using namespace allfold::detail;
    envelope about{.signature = message.signature ^ job_.members_hash(), .on = on};
    bounce_buffer head = pool_.take(max_overhead + tuning_.eager_bytes);
    std::size_t at = envelope_offset + envelope_bytes;
    if (call != nullptr) {
        about.call = call->hash;
        if (introduced_.is_due(to, call->hash, call->call)) {
            const std::size_t bytes = introduction::write(call->what, head.data() + at);
            about.introduced = static_cast<std::uint8_t>(bytes / line_of_message);
            at += bytes;
        }
    }
    const int tag = job_.tag_of(on);
    if (message.bytes > tuning_.eager_bytes) return send_long(to, tag, message, about, std::move(head), at);
    const sender of{on, message.unordered};
    const chunks cut(tuning_, message.bytes);
    if (!cut.are_several()) {
        pack(message.parts, message.alignment, head.data() + at);
        const std::size_t bytes = close_envelope(about, head.data(), at + message.bytes);
        return send_copy(to, tag, std::move(head), of, envelope_offset, bytes);
    }
    about.table = 1;
    const std::size_t late = about.introduced != 0 ? cut.first() : 0;
    const payload_table::head table{message.bytes, static_cast<std::uint32_t>(cut.next()),
                                    static_cast<std::uint32_t>(late)};
    at += payload_table::write(table, {}, head.data() + at);
    pack(message.parts, message.alignment, head.data() + at);
    const std::size_t first = close_envelope(about, head.data(), at + cut.first() - late);
    send_copy(to, tag, std::move(head), of,
              {envelope_offset, first, at + message.bytes - envelope_offset, cut.next(), late});
}

template <class Pack>
bool outbox::send_plain(int to, sender of, std::uint32_t signature, std::size_t bytes, Pack pack,
                        const allfold::detail::opened_lanes::entry* call) {
    using namespace allfold::detail;
    if (bytes > longest_plain_) return false;
    if (call == nullptr ? !has_room(of) : !has_released() || introduced_.is_due(to, call->hash, call->call))
        return false;
    if (plain_.data() == nullptr) plain_ = pool_.take(max_overhead + tuning_.eager_bytes);
    std::byte* const from = plain_.data() + envelope_offset;
    const std::uint32_t hash = call != nullptr ? call->hash : 0;
    const envelope about{
        signature ^ job_.members_hash(), hash, of.on, 0, 0, static_cast<std::uint16_t>(envelope_bytes + bytes)};
    std::memcpy(from, &about, sizeof about);
    pack(from + envelope_bytes);
    MPI_Request request = send(to, job_.tag_of(of.on), from, envelope_bytes + bytes);
    if (is_complete(request)) return true;
    plain_request_ = request;  // usually complete too, but asking now would delay receiving
    plain_of_ = of;
    plain_to_ = to;
    return true;
}

inline bool outbox::has_released() {
    if (plain_request_ != MPI_REQUEST_NULL) {
        int is_complete = 0;
        check(ALLFOLD_MPI(Test)(&plain_request_, &is_complete, MPI_STATUS_IGNORE), "MPI_Test");
    }
    if (plain_request_ != MPI_REQUEST_NULL || !copies_.empty()) [[unlikely]]
        collect_copies();
    return copies_.empty();
}

inline void outbox::send_copy(int to, int tag, bounce_buffer&& buffer, const std::optional<sender>& of,
                              std::size_t offset, std::size_t bytes) {
    MPI_Request request = send(to, tag, buffer.data() + offset, bytes);
    if (is_complete(request)) return pool_.give_back(std::move(buffer));
    keep(request, {std::move(buffer), of, nullptr, to});
}

inline void outbox::send_copy(int to, int tag, bounce_buffer&& buffer, std::optional<sender> of,
                              const cut_bytes& bytes) {
    const std::byte* const from = buffer.data() + bytes.offset;
    std::shared_ptr<bounce_buffer> shared;
    const auto send_part = [&](std::size_t begin, std::size_t end) {
        MPI_Request request = send(to, tag, from + begin, end - begin);
        if (is_complete(request)) return;
        if (shared == nullptr) shared = std::make_shared<bounce_buffer>(std::exchange(buffer, {}));
        keep(request, {{}, std::exchange(of, std::nullopt), shared, to});
    };
    send_part(0, bytes.first);
    for (std::size_t begin = bytes.first + bytes.late; begin < bytes.bytes; begin += bytes.piece)
        send_part(begin, std::min(bytes.bytes, begin + bytes.piece));
    if (bytes.late != 0) send_part(bytes.first, bytes.first + bytes.late);
    if (shared == nullptr) pool_.give_back(std::move(buffer));
}

inline bool outbox::is_complete(MPI_Request& request) {
    if (!completed_.is(request)) return false;
    completed_request::free(request);
    return true;
}

inline void outbox::keep(MPI_Request request, copy&& what) {
    copies_.add(request, std::move(what));
    long_copies_ = true;
}

inline void outbox::send_range(int to, int tag, const std::byte* from, std::size_t bytes, const loan& whose) {
    for (std::size_t done = 0; done < bytes;) {
        const std::size_t count = std::min(bytes - done, tuning_.piece_bytes);
        const MPI_Request request = send(to, tag, from + done, count);
        whose.lent->fetch_add(1, std::memory_order_relaxed);
        loans_.add(request, loan(whose));
        done += count;
    }
}

inline void outbox::send_long(int to, int tag, const outgoing& message, envelope about, bounce_buffer&& head,
                              std::size_t at) {
    using namespace allfold::detail;
    division parts = divide(message, tuning_.long_bytes, tuning_.eager_bytes);
    bounce_buffer whole;
    if (!parts.fits) {  // many short parts: one long copy
        whole = pool_.take(message.bytes);
        pack(message.parts, message.alignment, whole.data());
        parts.count = 1;
        parts.ranges[0] = {0, message.bytes};
        parts.rest = 0;
    }
    about.table = static_cast<std::uint8_t>(1 + parts.count);
    at += payload_table::write({message.bytes, 0}, {parts.ranges.data(), parts.count}, head.data() + at);
    if (parts.fits) pack_rest(message, parts, head.data() + at);
    const std::size_t bytes = close_envelope(about, head.data(), at + parts.rest);
    send_copy(to, tag, std::move(head), sender{about.on, message.unordered}, envelope_offset, bytes);
    const int ranges = job_.tag_of_ranges(tag);
    if (!parts.fits)
        return send_copy(to, ranges, std::move(whole), std::nullopt,
                         {0, std::min(message.bytes, tuning_.piece_bytes), message.bytes, tuning_.piece_bytes});
    for (std::size_t i = 0; i < parts.count; ++i)
        send_range(to, ranges, parts.from[i], static_cast<std::size_t>(parts.ranges[i].bytes),
                   {message.lent, to, about.on});
}

}  // namespace allfold::mpi::detail
