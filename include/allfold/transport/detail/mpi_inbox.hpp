// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "allfold/error.hpp"
#include "allfold/transport/communicator.hpp"
#include "allfold/transport/detail/bounce.hpp"
#include "allfold/transport/detail/copy.hpp"
#include "allfold/transport/detail/envelope.hpp"
#include "allfold/transport/detail/mpi_calls.hpp"
#include "allfold/transport/detail/mpi_handle.hpp"
#include "allfold/transport/detail/mpi_tuning.hpp"

/// @file
/// The messages that a rank receives through MPI.

namespace allfold::mpi::detail {

/// A message as its receiver holds it.
class arrival {
  public:
    arrival() = default;
    arrival(arrival&& other) noexcept = default;
    arrival& operator=(arrival&& other) noexcept {
        if (this != &other) {
            give_back();
            pool_ = other.pool_;
            buffer_ = std::move(other.buffer_);
            packed_ = other.packed_;
            signature_ = other.signature_;
            bytes_ = other.bytes_;
        }
        return *this;
    }
    ~arrival() { give_back(); }

    [[nodiscard]] std::uint32_t signature() const noexcept { return signature_; }
    [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
    [[nodiscard]] std::byte* packed() const noexcept { return packed_; }
    [[nodiscard]] std::span<const part> parts() const noexcept { return {}; }

  private:
    friend class inbox;
    void give_back() noexcept {
        if (pool_ == nullptr || buffer_.data() == nullptr) return;  // tests both: g++ 12 warns where it knows one
        try {
            pool_->give_back(std::move(buffer_));
        } catch (const std::bad_alloc&) {  // then the buffer is freed
        }
    }

    allfold::detail::bounce_pool* pool_ = nullptr;
    allfold::detail::bounce_buffer buffer_;
    std::byte* packed_ = nullptr;
    std::uint32_t signature_ = 0;
    std::size_t bytes_ = 0;
};

/// A reference to a sink of any type, to be asked about the message that it is about to get.
class any_destination {
  public:
    template <class Sink>
    explicit any_destination(Sink& sink) : sink_(&sink), functions_(&functions_of<Sink>) {}
    /// Where the sink wants the message; null if it does not care.
    [[nodiscard]] std::byte* find(std::uint32_t signature, std::size_t bytes) const {
        return functions_->find(sink_, signature, bytes);
    }
    /// How long the message should be; 0 if unknown.
    [[nodiscard]] std::size_t expected_bytes() const { return functions_->expect(sink_); }

  private:
    struct functions {
        std::byte* (*find)(void*, std::uint32_t, std::size_t);
        std::size_t (*expect)(void*);
    };
    template <class Sink>
    static constexpr functions functions_of{[](void* s, std::uint32_t signature, std::size_t bytes) {
                                                return destination_for(*static_cast<Sink*>(s), signature, bytes);
                                            },
                                            [](void* s) { return bytes_expected_by(*static_cast<Sink*>(s)); }};

    void* sink_;
    const functions* functions_;
};

/// Receives messages, from the first request for one to its delivery.
class inbox {
  public:
    using bounce_buffer = allfold::detail::bounce_buffer;
    using envelope = allfold::detail::envelope;
    using payload_range = allfold::detail::payload_range;

    inbox(const handle& job, allfold::detail::bounce_pool& pool, allfold::detail::known_signatures& known,
          const tuning& numbers)
        : job_(job), pool_(pool), known_(known), tuning_(numbers) {}

    template <class Sink>
    bool try_receive(int from, lane on, Sink& sink) {
        arrival message;
        if (!next(from, on, message, any_destination(sink))) return false;
        sink(std::move(message));
        return true;
    }
    /// Polls `turns` times for the next message from a rank, which should be short and on this lane. If it is, `here`
    /// says where it lies, until `take_plain`; otherwise `try_receive` delivers it.
    [[nodiscard]] bool await_plain(int from, lane on, std::size_t bytes, message_in_place& here, int turns);
    void take_plain(int from);
    /// The call that `peer` is making, or has made, on this lane: known from recently delivered messages, and from
    /// messages that have arrived but that nobody has asked for. Delivers nothing.
    [[nodiscard]] std::optional<std::uint32_t> call_of(int peer, lane on);
    /// Whether MPI may write to memory that is not ours.
    [[nodiscard]] bool stores_in_place() const noexcept;

    // For a rank that no longer receives.
    void cancel() noexcept;
    /// Receives whatever arrives, so that its senders get their memory back; `poll()` receives control messages.
    template <class Poll>
    void drain(Poll poll);
    /// The same for what arrives on the lanes on which something was awaited, and on some others: `each_lane(visit)`
    /// calls visit(lane).
    template <class EachLane>
    void drain_lanes(EachLane each_lane);
    [[nodiscard]] bool is_draining() const noexcept { return !drained_.empty(); }
    /// Whether MPI has nothing left to write.
    [[nodiscard]] bool is_idle() const noexcept {
        const auto begin = streams_.begin(), end = begin + static_cast<std::ptrdiff_t>(active_);
        return drained_.empty() && std::all_of(begin, end, [](const stream& s) { return s.rest.empty(); });
    }

    /// How many MPI messages have been received.
    [[nodiscard]] std::uint64_t received() const noexcept { return count_; }

  private:
    /// A receive from one rank under one tag.
    struct stream {
        int peer = -1;
        int tag = 0;
        bool headed = false;     // the envelope has arrived
        bool placed = false;     // receives are posted for what follows
        bool in_place = false;   // in memory that is not ours
        bool is_unlike = false;  // not the expected message, so its rest is not awaited
        MPI_Request head = MPI_REQUEST_NULL;
        bounce_buffer buffer;   // the envelope and what is sent along with it, and chunks
        bounce_buffer payload;  // of a message in ranges
        const std::byte* table = nullptr;
        std::byte* into = nullptr;      // where the payload begins, in whichever buffer
        std::vector<MPI_Request> rest;  // ranges, or chunks
        std::size_t expected = 0;       // payload bytes for whose chunks receives were posted in advance
        allfold::detail::envelope about;
        std::size_t bytes = 0;  // of the payload
    };
    struct early_arrival {
        int from;
        lane on;
        std::uint32_t call;
        arrival message;
    };
    /// The calls of recently delivered messages.
    class latest_calls {
      public:
        void add(int from, lane on, std::uint32_t call) noexcept {
            entry& newest = entries_[newest_];
            if (newest.from == from && newest.call == call && on - newest.first < newest.lanes) return;
            if (newest.from == from && newest.call == call && on - newest.first == newest.lanes) {
                ++newest.lanes;  // the next window, or the next call like it
                return;
            }
            newest_ = (newest_ + 1) % entries_.size();
            entries_[newest_] = {from, on, 1, call};
        }
        [[nodiscard]] std::optional<std::uint32_t> find(int from, lane on) const noexcept {
            for (std::size_t back = 0; back < entries_.size(); ++back) {
                const entry& e = entries_[(newest_ + entries_.size() - back) % entries_.size()];
                if (e.from == from && on - e.first < e.lanes) return e.call;
            }
            return std::nullopt;
        }

      private:
        struct entry {
            int from = -1;
            lane first = 0;
            lane lanes = 0;
            std::uint32_t call = 0;
        };
        std::array<entry, 32> entries_;
        std::size_t newest_ = 0;
    };

    [[nodiscard]] std::size_t head_bytes() const noexcept {
        return allfold::detail::max_overhead + tuning_.eager_bytes;
    }
    /// Where in a buffer the payload of a message in chunks begins.
    static constexpr std::size_t chunks_offset = allfold::detail::envelope_offset + allfold::detail::envelope_bytes +
                                                 allfold::detail::payload_table::padded_bytes(0);

    /// Null if nobody has asked for it yet.
    [[nodiscard]] stream* find_stream(int from, int tag) noexcept {
        for (std::size_t i = 0; i < active_; ++i)
            if (streams_[i].peer == from && streams_[i].tag == tag) return &streams_[i];
        return nullptr;
    }
    [[nodiscard]] stream& open_stream(int from, int tag, std::size_t expected);
    [[nodiscard]] std::size_t expect(lane on, any_destination sink) const;
    [[nodiscard]] bool is_there(stream& s, lane on, any_destination sink);
    [[nodiscard]] bool has_head(stream& s);
    [[nodiscard]] bool has_head_of(stream& s, lane on, std::size_t bytes, int turns);
    [[nodiscard]] bool has_come(stream& s, MPI_Status& status);
    void open_head(stream& s, std::size_t bytes);
    void place_rest(stream& s, lane on, any_destination sink);
    void receive_ranges(stream& s, const allfold::detail::payload_table& table, std::byte* into);
    void receive_chunks(stream& s, std::size_t begin, std::size_t bytes, std::size_t chunk);
    void receive_pieces(stream& s, int tag, std::byte* to, std::size_t bytes, std::size_t piece);
    void cancel(MPI_Request& posted) noexcept;
    [[nodiscard]] bool has_rest(stream& s);
    void deliver(stream& s, arrival& a);
    [[nodiscard]] bool deliver_early(int from, lane on, arrival& message);
    [[nodiscard]] bool next(int from, lane on, arrival& message, any_destination sink);
    [[noreturn, gnu::cold]] static void refuse_overtaken(int from, int tag);
    void release(stream& s);
    void note_awaited();
    void drain_streams();
    void drain_tag(int tag);
    [[nodiscard]] bool drain_message(const MPI_Status& status);

    const handle& job_;
    allfold::detail::bounce_pool& pool_;
    allfold::detail::known_signatures& known_;
    const tuning& tuning_;
    std::size_t longest_plain_ = longest_plain(tuning_);
    bool states_length_ =
        longest_whole(tuning_) == longest_plain_;  // every envelope does, of a payload sent as a whole
    std::vector<stream> streams_;
    std::size_t active_ = 0;  // how many of them are in use
    int plain_tag_ = 0;       // of the stream whose message is read in place
    std::vector<early_arrival> early_;
    std::vector<int> awaited_;  // the tags of streams that have been drained
    requests<bounce_buffer> drained_;
    std::uint64_t count_ = 0;
    latest_calls latest_;
};

inline inbox::stream& inbox::open_stream(int from, int tag, std::size_t expected) {
    if (active_ == streams_.size()) streams_.emplace_back();
    stream& s = streams_[active_];
    s.peer = from;
    s.tag = tag;
    s.headed = s.placed = s.in_place = s.is_unlike = false;
    if (s.buffer.data() == nullptr) s.buffer = pool_.take(head_bytes());
    std::memset(s.buffer.data() + allfold::detail::envelope_offset, 0, allfold::detail::envelope_bytes);
    check(irecv(s.buffer.data() + allfold::detail::envelope_offset, head_bytes() - allfold::detail::envelope_offset,
                job_.place_of(from), tag, job_.get(), &s.head),
          "MPI_Irecv");
    ++active_;
    s.expected = expected;
    const chunks cut(tuning_, expected);
    if (expected != 0) receive_chunks(s, cut.first(), expected, cut.next());
    return s;
}

/// The length that the message on a lane must have, if a message of that length is sent in chunks; otherwise 0.
/// Receives that are posted before it arrives save a copy. 0 also if another lane may have the same tag, or if an
/// introduction may take more room than the first chunk. If another message arrives instead, the call is a mismatch.
inline std::size_t inbox::expect(lane on, any_destination sink) const {
    const std::size_t expected = sink.expected_bytes();
    const chunks cut(tuning_, expected);
    const bool is_meant = cut.are_several() && cut.first() >= allfold::detail::max_overhead;
    return is_meant && job_.has_own_tag(on) ? expected : 0;
}

inline void inbox::release(stream& s) {
    s.rest.clear();
    s.payload = {};
    s.into = nullptr;
    if (&s != &streams_[--active_]) std::swap(s, streams_[active_]);
}

/// Whether the envelope has arrived.
inline bool inbox::has_head(stream& s) {
    MPI_Status status;
    if (s.headed) return true;
    if (!has_come(s, status)) return false;
    open_head(s, bytes_of(status));
    return true;
}
inline bool inbox::has_come(stream& s, MPI_Status& status) {
    int done = 0, index = 0;
    // MPI_Testany of MPICH first checks whether the message is there already, MPI_Test only after its other work: 30
    // ns.
    check(ALLFOLD_MPI(Testany)(1, &s.head, &index, &done, &status), "MPI_Testany");
    if (done == 0) return false;
    ++count_;
    s.headed = true;
    return true;
}
/// The same, polling `turns` times, for a message that should have so many bytes and be on this lane. Its envelope then
/// states its length, so MPI need not be asked, unless messages may be so long that it states only the last bits: the
/// previous envelope in the buffer has been zeroed.
inline bool inbox::has_head_of(stream& s, lane on, std::size_t bytes, int turns) {
    using namespace allfold::detail;
    MPI_Status status;
    while (!has_come(s, status))
        if (--turns <= 0) return false;
    std::byte* const from = s.buffer.data() + envelope_offset;
    std::memcpy(&s.about, from, sizeof s.about);
    if (states_length_ && s.about.on == on && s.about.is_plain(envelope_bytes + bytes)) [[likely]] {
        s.into = from + envelope_bytes;
        s.bytes = bytes;
    } else {
        open_head(s, bytes_of(status));
    }
    return true;
}

inline void inbox::open_head(stream& s, std::size_t bytes) {
    using namespace allfold::detail;
    std::byte* const from = s.buffer.data() + envelope_offset;
    if (bytes >= envelope_bytes) [[likely]] {  // most are just a payload
        std::memcpy(&s.about, from, sizeof s.about);
        s.into = from + envelope_bytes;
        s.bytes = bytes - envelope_bytes;
        if (s.about.is_plain(bytes) && s.bytes <= tuning_.eager_bytes) return;
    }
    const auto came = open_envelope({from, bytes}, tuning_.eager_bytes);
    if (!came) refuse_foreign(s.peer, s.tag);
    if (came->introduction != nullptr) known_.learn(s.about.call, came->introduction);
    s.table = came->table;
    s.into = from + (came->payload - from);
    s.bytes = came->came;
}

/// Posts receives for the ranges of a payload, and copies what arrived with the envelope, both to `into`, or to a
/// buffer of ours if that is null.
inline void inbox::receive_ranges(stream& s, const allfold::detail::payload_table& table, std::byte* into) {
    const std::byte* next = s.into;
    s.in_place = into != nullptr;
    if (into == nullptr) s.payload = pool_.take(table.bytes());
    s.into = into == nullptr ? s.payload.data() : into;
    allfold::detail::for_each_gap(table.ranges(), table.bytes(), [&](std::size_t offset, std::size_t gap) {
        std::memcpy(s.into + offset, next, gap);
        next += gap;
    });
    for (const payload_range& range : table.ranges())
        receive_pieces(s, job_.tag_of_ranges(s.tag), s.into + range.offset, static_cast<std::size_t>(range.bytes),
                       tuning_.piece_bytes);
}

/// Posts receives for what follows the first `begin` bytes of a payload in chunks.
inline void inbox::receive_chunks(stream& s, std::size_t begin, std::size_t bytes, std::size_t chunk) {
    receive_pieces(s, s.tag, s.buffer.data() + chunks_offset + begin, bytes - begin, chunk);
}

inline void inbox::receive_pieces(stream& s, int tag, std::byte* to, std::size_t bytes, std::size_t piece) {
    for (std::size_t done = 0; done < bytes;) {
        const std::size_t count = std::min(bytes - done, piece);
        s.rest.push_back(MPI_REQUEST_NULL);
        check(irecv(to + done, count, job_.place_of(s.peer), tag, job_.get(), &s.rest.back()), "MPI_Irecv");
        done += count;
    }
}

/// Posts receives for what the envelope, which has arrived, announces. A long message is received where the sink wants
/// it, if it is the one that the sink is waiting for. A message that is not the expected one is marked `is_unlike`: its
/// rest is not awaited.
inline void inbox::place_rest(stream& s, lane on, any_destination sink) {
    using namespace allfold::detail;
    const std::size_t came = s.bytes;
    if (s.about.table == 0) {
        s.is_unlike = s.expected != 0;
        return;
    }
    const payload_table table(s.table, s.about.table - std::size_t{1});
    s.bytes = table.bytes();
    if (s.expected != 0 && (table.chunk() == 0 || table.bytes() != s.expected)) {
        s.is_unlike = true;
    } else if (table.chunk() == 0) {
        receive_ranges(s, table,
                       s.about.on == on ? sink.find(s.about.signature ^ job_.members_hash(), s.bytes) : nullptr);
    } else {
        s.into = s.buffer.data() + chunks_offset;
        if (s.expected == 0) receive_chunks(s, came + table.late(), s.bytes, table.chunk());
        receive_pieces(s, s.tag, s.into, table.late(), table.late());
    }
}

/// Whether all that the envelope announces has arrived too.
inline bool inbox::has_rest(stream& s) {
    if (s.rest.empty() || s.is_unlike) return true;
    int done = 0;
    check(ALLFOLD_MPI(Testall)(static_cast<int>(s.rest.size()), s.rest.data(), &done, MPI_STATUSES_IGNORE),
          "MPI_Testall");
    if (done != 0) count_ += s.rest.size();
    return done != 0;
}

inline void inbox::deliver(stream& s, arrival& a) {
    a.pool_ = &pool_;
    a.signature_ = s.about.signature ^ job_.members_hash();
    a.bytes_ = s.bytes;
    a.packed_ = s.into;
    if (s.is_unlike) return;  // nobody reads it, and the stream stays: its receives are still posted
    if (s.in_place || s.payload.data() != nullptr) {
        a.buffer_ = std::move(s.payload);
        pool_.give_back(std::move(s.buffer));
    } else {
        a.buffer_ = std::move(s.buffer);
    }
    release(s);
}

inline bool inbox::deliver_early(int from, lane on, arrival& message) {
    const auto found = std::find_if(early_.begin(), early_.end(),
                                    [&](const early_arrival& e) { return e.from == from && e.on == on; });
    if (found == early_.end()) return false;
    latest_.add(from, on, found->call);
    message = std::move(found->message);
    early_.erase(found);
    return true;
}

/// Whether the next message of a stream has arrived in full.
inline bool inbox::is_there(stream& s, lane on, any_destination sink) {
    if (!has_head(s)) return false;
    if (!std::exchange(s.placed, true)) place_rest(s, on, sink);
    return has_rest(s);
}

/// One body for all sinks.
inline bool inbox::next(int from, lane on, arrival& message, any_destination sink) {
    if (!early_.empty() && deliver_early(from, on, message)) return true;
    for (;;) {
        const int tag = job_.tag_of(on);
        stream* s = find_stream(from, tag);
        if (s == nullptr) s = &open_stream(from, tag, expect(on, sink));
        if (!is_there(*s, on, sink)) return false;
        const lane found = s->about.on;
        const std::uint32_t call = s->about.call;
        if (s->is_unlike && found != on) refuse_overtaken(from, tag);
        deliver(*s, message);
        if (found == on) [[likely]] {
            latest_.add(from, on, call);
            return true;
        }
        early_.push_back({from, found, call, std::move(message)});  // another lane with the same tag
        message = {};
    }
}

/// Receives are posted for another message than the one that has arrived under their tag, and may have taken its rest.
inline void inbox::refuse_overtaken(int from, int tag) {
    const char* const why =
        " before one of an operation in flight with the same tag: this rank has made too many calls since it started "
        "that one";
    throw error(errc::transport,
                allfold::detail::text({"received a message from rank ", from, " with tag ", tag, why}));
}

inline bool inbox::await_plain(int from, lane on, std::size_t bytes, message_in_place& here, int turns) {
    if (bytes > longest_plain_ || !early_.empty()) return false;
    const int tag = job_.tag_of(on);
    stream* const posted = find_stream(from, tag);
    if (posted != nullptr && (posted->headed || posted->expected != 0)) return false;
    stream& s = posted != nullptr ? *posted : open_stream(from, tag, 0);
    if (!has_head_of(s, on, bytes, turns) || s.about.on != on || s.about.table != 0) return false;
    latest_.add(from, on, s.about.call);
    here = {s.into, s.bytes, s.about.signature ^ job_.members_hash()};
    plain_tag_ = tag;
    return true;
}

inline void inbox::take_plain(int from) {
    stream& s = *find_stream(from, plain_tag_);
    if (&s != &streams_[--active_]) std::swap(s, streams_[active_]);
}

inline std::optional<std::uint32_t> inbox::call_of(int peer, lane on) {
    if (const auto call = latest_.find(peer, on)) return call;
    for (const early_arrival& e : early_)
        if (e.from == peer && e.on == on) return e.call;
    const int tag = job_.tag_of(on);
    stream* s = find_stream(peer, tag);
    if (s == nullptr) {
        int there = 0;
        check(ALLFOLD_MPI(Iprobe)(job_.place_of(peer), tag, job_.get(), &there, MPI_STATUS_IGNORE), "MPI_Iprobe");
        if (there == 0) return std::nullopt;
        s = &open_stream(peer, tag, 0);
    }
    return has_head(*s) && s->about.on == on ? std::optional(s->about.call) : std::nullopt;
}

inline bool inbox::stores_in_place() const noexcept {
    for (std::size_t i = 0; i < active_; ++i)
        if (streams_[i].in_place && !streams_[i].rest.empty()) return true;
    return false;
}

inline void inbox::cancel() noexcept {
    for (std::size_t i = 0; i < active_; ++i) {
        stream& s = streams_[i];
        cancel(s.head);
        if (s.expected == 0) continue;  // its receives are posted for data in transit
        for (MPI_Request& each : s.rest) cancel(each);
        s.rest.clear();
    }
}
inline void inbox::cancel(MPI_Request& posted) noexcept {
    if (posted == MPI_REQUEST_NULL) return;
    const lenient_errors scope;  // a longer message than expected may have arrived: MPICH would abort the job
    int cancelled = 0;
    MPI_Status status;
    ALLFOLD_MPI(Cancel)(&posted);
    ALLFOLD_MPI(Wait)(&posted, &status);
    ALLFOLD_MPI(Test_cancelled)(&status, &cancelled);
    if (cancelled == 0) ++count_;
}

/// Lets the ranges that are in transit arrive.
inline void inbox::drain_streams() {
    for (std::size_t i = 0; i < active_;) {
        stream& s = streams_[i];
        int done = s.rest.empty() ? 1 : 0;
        if (done == 0) ALLFOLD_MPI(Testall)(static_cast<int>(s.rest.size()), s.rest.data(), &done, MPI_STATUSES_IGNORE);
        if (done == 0) {
            ++i;
            continue;
        }
        count_ += s.rest.size();
        release(s);
    }
}

/// A cancelled stream does not receive what its peer sends later, and nobody else asks for.
inline void inbox::note_awaited() {
    for (std::size_t i = 0; i < active_; ++i)
        if (std::ranges::find(awaited_, streams_[i].tag) == awaited_.end()) awaited_.push_back(streams_[i].tag);
}

/// Returns false if there is no memory for the message: it stays with MPI, and its sender does not wait forever.
inline bool inbox::drain_message(const MPI_Status& status) {
    bounce_buffer buffer;
    const std::size_t bytes = bytes_of(status);
    try {
        buffer = bounce_buffer(std::max<std::size_t>(1, bytes));
    } catch (const std::bad_alloc&) {
        return false;
    }
    MPI_Request request;
    check(irecv(buffer.data(), bytes, status.MPI_SOURCE, status.MPI_TAG, job_.get(), &request), "MPI_Irecv");
    ++count_;
    drained_.add(request, std::move(buffer));
    return true;
}

inline void inbox::drain_tag(int tag) {
    for (int there = 1; there != 0;) {
        MPI_Status status;
        check(ALLFOLD_MPI(Iprobe)(MPI_ANY_SOURCE, tag, job_.get(), &there, &status), "MPI_Iprobe");
        if (there != 0 && !drain_message(status)) return;
    }
}

template <class Poll>
void inbox::drain(Poll poll) {
    drain_streams();
    for (;;) {
        int there = 0;
        MPI_Status status;
        check(ALLFOLD_MPI(Iprobe)(MPI_ANY_SOURCE, MPI_ANY_TAG, job_.get(), &there, &status), "MPI_Iprobe");
        if (there == 0) break;
        if (status.MPI_TAG == control_tag)
            poll();
        else if (!drain_message(status))
            break;
    }
    if (!drained_.empty()) drained_.collect([](bounce_buffer&) {});
}

template <class EachLane>
void inbox::drain_lanes(EachLane each_lane) {
    note_awaited();
    drain_streams();
    int there = 0;  // asked first: there are thousands of lanes
    check(ALLFOLD_MPI(Iprobe)(MPI_ANY_SOURCE, MPI_ANY_TAG, job_.get(), &there, MPI_STATUS_IGNORE), "MPI_Iprobe");
    if (there != 0) {
        const auto drain_both = [this](int tag) {
            drain_tag(tag);
            if (const int ranges = job_.tag_of_ranges(tag); ranges != tag) drain_tag(ranges);
        };
        each_lane([&](lane on) { drain_both(job_.tag_of(on)); });
        for (const int tag : awaited_) drain_both(tag);
    }
    if (!drained_.empty()) drained_.collect([](bounce_buffer&) {});
}

}  // namespace allfold::mpi::detail
