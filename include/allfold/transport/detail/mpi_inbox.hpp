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

#include "allfold/transport/communicator.hpp"
#include "allfold/transport/detail/bounce.hpp"
#include "allfold/transport/detail/copy.hpp"
#include "allfold/transport/detail/envelope.hpp"
#include "allfold/transport/detail/mpi_calls.hpp"
#include "allfold/transport/detail/mpi_handle.hpp"
#include "allfold/transport/detail/mpi_tuning.hpp"

/// @file
/// What comes to a rank through MPI.

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
            about_ = other.about_;
        }
        return *this;
    }
    ~arrival() { give_back(); }

    [[nodiscard]] std::uint32_t signature() const noexcept { return about_.signature; }
    [[nodiscard]] std::size_t bytes() const noexcept { return static_cast<std::size_t>(about_.bytes); }
    [[nodiscard]] std::byte* packed() const noexcept { return packed_; }
    [[nodiscard]] std::span<const part> parts() const noexcept { return {}; }

  private:
    friend class inbox;
    void give_back() noexcept {
        if (buffer_.data() == nullptr) return;
        try {
            pool_->give_back(std::move(buffer_));
        } catch (const std::bad_alloc&) {  // then it is freed
        }
    }

    allfold::detail::bounce_pool* pool_ = nullptr;
    allfold::detail::bounce_buffer buffer_;
    std::byte* packed_ = nullptr;
    allfold::detail::envelope about_;
};

/// Asks a sink of any type where it would have the message that it is about to get.
class destination_of {
  public:
    template <class Sink>
    explicit destination_of(Sink& sink)
        : sink_(&sink), ask_([](void* s, std::uint32_t signature, std::size_t bytes) {
              return destination_for(*static_cast<Sink*>(s), signature, bytes);
          }) {}
    [[nodiscard]] std::byte* operator()(std::uint32_t signature, std::size_t bytes) const {
        return ask_(sink_, signature, bytes);
    }

  private:
    void* sink_;
    std::byte* (*ask_)(void*, std::uint32_t, std::size_t);
};

/// Receives, from the first question for a message to its delivery.
class inbox {
  public:
    using bounce_buffer = allfold::detail::bounce_buffer;
    using envelope = allfold::detail::envelope;
    using payload_range = allfold::detail::payload_range;

    inbox(MPI_Comm comm, allfold::detail::bounce_pool& pool, allfold::detail::known_signatures& known,
          const tuning& numbers)
        : comm_(comm), pool_(pool), known_(known), tuning_(numbers) {}

    template <class Sink>
    bool try_receive(int from, lane on, Sink& sink) {
        arrival message;
        if (!next(from, on, message, destination_of(sink))) return false;
        latest_.add(from, on, message.about_.call);
        sink(std::move(message));
        return true;
    }
    /// The call that `peer` makes, or has made, on this lane: of messages delivered not long ago, and of those that
    /// have come and nobody has asked for. It delivers nothing.
    [[nodiscard]] std::optional<std::uint32_t> call_of(int peer, lane on);
    /// Whether MPI may write memory that is not ours.
    [[nodiscard]] bool stores_in_place() const noexcept;

    // For a rank that receives no more.
    void cancel() noexcept;
    /// Takes whatever arrives, so that its senders get their memory back; `attend()` takes control messages.
    template <class Attend>
    void drain(Attend attend);
    [[nodiscard]] bool is_draining() const noexcept { return !drained_.empty(); }

    /// How many messages of MPI's have been received.
    [[nodiscard]] std::uint64_t received() const noexcept { return count_; }

  private:
    /// A receive from one rank under one tag.
    struct stream {
        int peer = -1;
        int tag = 0;
        bool headed = false;  // the envelope is there
        bool placed = false;  // and its ranges are received where they belong
        MPI_Request head = MPI_REQUEST_NULL;
        bounce_buffer buffer;       // envelope and what comes with it
        bounce_buffer payload;      // of a message with ranges
        std::byte* into = nullptr;  // where that message goes: the payload, or where the sink wants it
        std::vector<MPI_Request> ranges;
        envelope about;
    };
    struct early_arrival {
        int from;
        arrival message;
    };
    /// Of messages that were delivered.
    class latest_calls {
      public:
        void add(int from, lane on, std::uint32_t call) noexcept {
            entry& newest = entries_[newest_];
            if (newest.from == from && newest.call == call && on - newest.first < newest.lanes) return;
            if (newest.from == from && newest.call == call && on - newest.first == newest.lanes) {
                ++newest.lanes;  // the next window, or the next call that is alike
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
        return allfold::detail::most_overhead + tuning_.eager_bytes;
    }
    [[nodiscard]] stream& stream_of(int from, int tag);
    [[nodiscard]] bool is_there(stream& s, lane on, destination_of sink);
    [[nodiscard]] bool has_head(stream& s);
    void receive_ranges(stream& s, std::byte* into);
    void receive_range(stream& s, const payload_range& range);
    [[nodiscard]] bool has_ranges(stream& s);
    [[nodiscard]] arrival deliver(stream& s);
    [[nodiscard]] bool deliver_early(int from, lane on, arrival& message);
    [[nodiscard]] bool next(int from, lane on, arrival& message, destination_of sink);
    void release(stream& s);
    void drain_streams();
    [[nodiscard]] bool drain_message(const MPI_Status& status);

    MPI_Comm comm_;
    allfold::detail::bounce_pool& pool_;
    allfold::detail::known_signatures& known_;
    const tuning& tuning_;
    std::vector<stream> streams_;
    std::size_t active_ = 0;  // of them
    std::vector<early_arrival> early_;
    requests<bounce_buffer> drained_;
    std::uint64_t count_ = 0;
    latest_calls latest_;
};

inline inbox::stream& inbox::stream_of(int from, int tag) {
    for (std::size_t i = 0; i < active_; ++i)
        if (streams_[i].peer == from && streams_[i].tag == tag) return streams_[i];
    if (active_ == streams_.size()) streams_.emplace_back();
    stream& s = streams_[active_];
    s.peer = from;
    s.tag = tag;
    s.headed = s.placed = false;
    s.buffer = pool_.take(head_bytes());
    check(irecv(s.buffer.data() + allfold::detail::envelope_offset, head_bytes() - allfold::detail::envelope_offset,
                from, tag, comm_, &s.head),
          "MPI_Irecv");
    ++active_;
    return s;
}

inline void inbox::release(stream& s) {
    s.ranges.clear();
    s.payload = {};
    s.into = nullptr;
    std::swap(s, streams_[--active_]);
}

/// Whether the envelope is there.
inline bool inbox::has_head(stream& s) {
    using namespace allfold::detail;
    if (s.headed) return true;
    int done = 0;
    MPI_Status status;
    check(MPI_Test(&s.head, &done, &status), "MPI_Test");
    if (done == 0) return false;
    const std::span<const std::byte> came(s.buffer.data() + envelope_offset, bytes_of(status));
    if (!is_message(came)) refuse_foreign(s.peer, s.tag);
    ++count_;
    std::memcpy(&s.about, came.data(), sizeof s.about);
    s.headed = true;
    if (s.about.introduced != 0) known_.learn(s.about.call, came.data() + envelope_bytes);
    return true;
}

/// Posts receives for the ranges of a message, and copies what came with its envelope, to `into`; null: to memory of
/// ours.
inline void inbox::receive_ranges(stream& s, std::byte* into) {
    using namespace allfold::detail;
    const std::byte* next = s.buffer.data() + envelope_offset + envelope_bytes + s.about.introduced;
    const range_table table(next, s.about.ranges);
    next += range_table::padded_bytes(s.about.ranges);
    const auto bytes = static_cast<std::size_t>(s.about.bytes);
    if (into == nullptr) s.payload = pool_.take(bytes);
    s.into = into == nullptr ? s.payload.data() : into;
    for_each_gap(table.ranges(), bytes, [&](std::size_t offset, std::size_t gap) {
        std::memcpy(s.into + offset, next, gap);
        next += gap;
    });
    for (const payload_range& range : table.ranges()) receive_range(s, range);
}

inline void inbox::receive_range(stream& s, const payload_range& range) {
    for (std::size_t done = 0; done < range.bytes;) {
        const std::size_t bytes = std::min(static_cast<std::size_t>(range.bytes) - done, tuning_.piece_bytes);
        s.ranges.push_back(MPI_REQUEST_NULL);
        check(irecv(s.into + range.offset + done, bytes, s.peer, s.tag, comm_, &s.ranges.back()), "MPI_Irecv");
        done += bytes;
    }
}

/// Whether all that the envelope announces is there too.
inline bool inbox::has_ranges(stream& s) {
    if (s.ranges.empty()) return true;
    int done = 0;
    check(MPI_Testall(static_cast<int>(s.ranges.size()), s.ranges.data(), &done, MPI_STATUSES_IGNORE), "MPI_Testall");
    if (done != 0) count_ += s.ranges.size();
    return done != 0;
}

inline arrival inbox::deliver(stream& s) {
    using namespace allfold::detail;
    arrival a;
    a.pool_ = &pool_;
    a.about_ = s.about;
    if (s.about.ranges != 0) {
        a.buffer_ = std::move(s.payload);
        a.packed_ = s.into;
        pool_.give_back(std::move(s.buffer));
    } else {
        a.buffer_ = std::move(s.buffer);
        a.packed_ = a.buffer_.data() + envelope_offset + envelope_bytes + s.about.introduced;
    }
    release(s);
    return a;
}

inline bool inbox::deliver_early(int from, lane on, arrival& message) {
    const auto found = std::find_if(early_.begin(), early_.end(), [&](const early_arrival& e) {
        return e.from == from && e.message.about_.on == on;
    });
    if (found == early_.end()) return false;
    message = std::move(found->message);
    early_.erase(found);
    return true;
}

/// Whether the next message of a stream is there as a whole. A long one goes where the sink wants it, if it is the one
/// that the sink waits for.
inline bool inbox::is_there(stream& s, lane on, destination_of sink) {
    if (!has_head(s)) return false;
    if (!std::exchange(s.placed, true) && s.about.ranges != 0) {
        std::byte* into = nullptr;
        if (s.about.on == on) into = sink(s.about.signature, static_cast<std::size_t>(s.about.bytes));
        receive_ranges(s, into);
    }
    return has_ranges(s);
}

/// One body for all sinks.
inline bool inbox::next(int from, lane on, arrival& message, destination_of sink) {
    if (!early_.empty() && deliver_early(from, on, message)) return true;
    for (;;) {
        stream& s = stream_of(from, tag_of(on, tuning_.tags));
        if (!is_there(s, on, sink)) return false;
        message = deliver(s);
        if (message.about_.on == on) [[likely]]
            return true;
        early_.push_back({from, std::move(message)});  // another lane with the same tag
    }
}

inline std::optional<std::uint32_t> inbox::call_of(int peer, lane on) {
    if (const auto call = latest_.find(peer, on)) return call;
    for (const early_arrival& e : early_)
        if (e.from == peer && e.message.about_.on == on) return e.message.about_.call;
    const int tag = tag_of(on, tuning_.tags);
    bool is_awaited = false;
    for (std::size_t i = 0; i < active_; ++i)
        is_awaited = is_awaited || (streams_[i].peer == peer && streams_[i].tag == tag);
    if (!is_awaited) {
        int there = 0;
        check(MPI_Iprobe(peer, tag, comm_, &there, MPI_STATUS_IGNORE), "MPI_Iprobe");
        if (there == 0) return std::nullopt;
    }
    stream& s = stream_of(peer, tag);
    return has_head(s) && s.about.on == on ? std::optional(s.about.call) : std::nullopt;
}

inline bool inbox::stores_in_place() const noexcept {
    for (std::size_t i = 0; i < active_; ++i)
        if (!streams_[i].ranges.empty() && streams_[i].payload.data() == nullptr) return true;
    return false;
}

inline void inbox::cancel() noexcept {
    for (std::size_t i = 0; i < active_; ++i)
        if (streams_[i].head != MPI_REQUEST_NULL) {
            int cancelled = 0;
            MPI_Status status;
            MPI_Cancel(&streams_[i].head);
            MPI_Wait(&streams_[i].head, &status);
            MPI_Test_cancelled(&status, &cancelled);
            if (cancelled == 0) ++count_;
        }
}

/// Lets the ranges that are on their way come in.
inline void inbox::drain_streams() {
    for (std::size_t i = 0; i < active_;) {
        stream& s = streams_[i];
        int done = s.ranges.empty() ? 1 : 0;
        if (done == 0) MPI_Testall(static_cast<int>(s.ranges.size()), s.ranges.data(), &done, MPI_STATUSES_IGNORE);
        if (done == 0) {
            ++i;
            continue;
        }
        count_ += s.ranges.size();
        release(s);
    }
}

/// False where there is no memory for it: it stays with MPI, and its sender does not wait without end.
inline bool inbox::drain_message(const MPI_Status& status) {
    bounce_buffer buffer;
    const std::size_t bytes = bytes_of(status);
    try {
        buffer = bounce_buffer(std::max<std::size_t>(1, bytes));
    } catch (const std::bad_alloc&) {
        return false;
    }
    MPI_Request request;
    check(irecv(buffer.data(), bytes, status.MPI_SOURCE, status.MPI_TAG, comm_, &request), "MPI_Irecv");
    ++count_;
    drained_.add(request, std::move(buffer));
    return true;
}

template <class Attend>
void inbox::drain(Attend attend) {
    drain_streams();
    for (;;) {
        int there = 0;
        MPI_Status status;
        check(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_, &there, &status), "MPI_Iprobe");
        if (there == 0) break;
        if (status.MPI_TAG == control_tag)
            attend();
        else if (!drain_message(status))
            break;
    }
    if (!drained_.empty()) drained_.collect([](bounce_buffer&) {});
}

}  // namespace allfold::mpi::detail
