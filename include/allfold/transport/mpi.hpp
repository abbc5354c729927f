// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "allfold/error.hpp"
#include "allfold/transport/background.hpp"
#include "allfold/transport/communicator.hpp"
#include "allfold/transport/detail/bounce.hpp"
#include "allfold/transport/detail/cause.hpp"
#include "allfold/transport/detail/copy.hpp"
#include "allfold/transport/detail/envelope.hpp"
#include "allfold/transport/detail/mpi_calls.hpp"
#include "allfold/transport/detail/mpi_native.hpp"
#include "allfold/transport/detail/mpi_outbox.hpp"
#include "allfold/transport/detail/mpi_tuning.hpp"
#include "allfold/transport/detail/processors.hpp"

/// @file
/// Ranks are processes of an MPI job, of any MPI library from version 3.1 on. Nothing else in allfold knows mpi.h.
///
/// A lane is a tag. A message begins with an envelope, which says for which lane it is (tags wrap, lanes do not), which
/// call its sender makes, and how long it is. What is short comes along, in a copy, so that its sender may go on; what
/// is long follows as messages of its own, straight from the sender's memory. A receive is posted when the engine
/// first asks for a message. Once the envelope has told its size a long payload goes where the sink wants to have it,
/// or to memory of ours; the sink reads it where it lies, so the fold of one window runs while MPI moves the next ones.
///
/// One tag is for notes: "I have failed", "I wait for you", "I have left". Ranks look for notes while they wait, so
/// that a failure releases everybody, and two ranks that wait for each other in different calls find out.

namespace allfold::mpi {

using allfold::detail::text;  // of messages

/// What a communicator does with the one that it is given.
enum class ownership : std::uint8_t {
    duplicate,  ///< duplicates it (collective), and frees the duplicate: nothing that others send gets in the way
    borrow      ///< uses it as it is: its point-to-point messages are allfold's as long as the communicator lives
};
inline constexpr ownership duplicate = ownership::duplicate;
inline constexpr ownership borrow = ownership::borrow;

namespace detail {

/// What ranks tell each other outside of their collectives.
struct note {
    enum class kind : std::uint32_t { failed, blocked, departed };
    kind what = kind::failed;
    errc code = errc::peer_failed;  ///< of a failure
    waiting where{};                ///< of a blocked rank
    std::uint32_t call = 0;         ///< hash of the blocked call
    std::uint32_t told = 0;         ///< bytes of the introduction behind it
    std::uint32_t chars = 0;        ///< of the text behind that
};
inline constexpr std::size_t longest_text = 2048;
inline constexpr std::size_t longest_note = sizeof(note) + allfold::detail::longest_introduction + longest_text;

}  // namespace detail

/// One process's end of an MPI communicator. Models `allfold::communicator`; used by one thread at a time.
///
///     mpi::communicator comm{MPI_COMM_WORLD};                  // a duplicate, freed in the end
///     mpi::communicator comm{MPI_COMM_WORLD, mpi::borrow};     // the communicator itself
///     all_reduce(comm, x, sum{});
///
/// - Takes an `MPI_Comm` and whatever wraps one: what converts to it (Boost.MPI), or has `mpi_communicator()` (KaMPIng)
///   or `native_handle()` (MPL).
/// - Making it and destroying it are collective over the ranks of the communicator, the second before MPI_Finalize.
/// - Threads: MPI may be initialised with any level; MPI_THREAD_SINGLE and MPI_THREAD_FUNNELED allow the main thread
///   only, MPI_THREAD_SERIALIZED any one thread at a time. MPI_THREAD_MULTIPLE is needed where several threads of a
///   process use communicators, one each, at the same time.
/// - Errors: `bad_argument` where MPI is not initialised or already finalised, for a null, freed or
///   inter-communicator, and for a thread level that does not allow the calling thread; `transport` with MPI's own text
///   where a call of MPI fails. After a failure the communicator is broken for good: every collective on it throws, on
///   every rank.
class communicator {
  public:
    static constexpr bool shares_memory = false;

    /// A message as its receiver holds it.
    class arrival_type {
      public:
        arrival_type() = default;
        arrival_type(arrival_type&& other) noexcept = default;
        arrival_type& operator=(arrival_type&& other) noexcept {
            if (this != &other) {
                give_back();
                pool_ = other.pool_;
                buffer_ = std::move(other.buffer_);
                packed_ = other.packed_;
                about_ = other.about_;
            }
            return *this;
        }
        ~arrival_type() { give_back(); }

        [[nodiscard]] std::uint32_t signature() const noexcept { return about_.signature; }
        [[nodiscard]] std::size_t bytes() const noexcept { return static_cast<std::size_t>(about_.bytes); }
        [[nodiscard]] std::byte* packed() const noexcept { return packed_; }
        [[nodiscard]] std::span<const part> parts() const noexcept { return {}; }

      private:
        friend class communicator;
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

    template <detail::wraps_handle C>
    explicit communicator(const C& base, ownership how = duplicate, const mpi::tuning& numbers = {})
        : communicator(checked{}, detail::handle_of(base), how, numbers) {}
    communicator(const communicator&) = delete;
    communicator& operator=(const communicator&) = delete;
    ~communicator() { depart(); }

    [[nodiscard]] int rank() const noexcept { return rank_; }
    [[nodiscard]] int size() const noexcept { return size_; }
    [[nodiscard]] allfold::background& background() noexcept { return background_; }
    [[nodiscard]] const mpi::tuning& tuning() const noexcept { return tuning_; }
    /// The communicator that carries the messages: the duplicate, or the borrowed one.
    [[nodiscard]] MPI_Comm native_handle() const noexcept { return comm_; }
    /// Throws where MPI was not told that its process has other threads, which do not use it.
    void require_threads_allowed() const { detail::require_funneled(); }

    lane open(const signature& what, unsigned lanes) {
        latest_call_ = name_of(what.what);
        if (failure_) throw_failure(latest_call_);
        const lane first = next_lane_;
        next_lane_ += lanes;
        opened_.add(first, lanes, what);
        return first;
    }
    [[nodiscard]] std::optional<signature> announced(int peer, lane on) const;
    [[nodiscard]] bool lends(std::size_t bytes, bool) const noexcept { return bytes > tuning_.eager_bytes; }

    bool try_post(int to, lane on, const outgoing& message);
    template <class Sink>
    bool try_receive(int from, lane on, Sink&& sink);
    void progress();
    template <pending_work Work>
    void wait(Work& work, std::optional<std::chrono::steady_clock::time_point> deadline);
    /// What `wait` does now and then, for those who wait for several transports at once: throws when waiting is in
    /// vain, and returns true when the work turns out to be done.
    template <pending_work Work>
    bool look_around(Work& work, std::optional<std::chrono::steady_clock::time_point> deadline);
    void abandon() noexcept;
    /// After `abandon`: some rank has not reacted, and MPI may still read or write memory of this one.
    [[nodiscard]] bool holds_memory() const noexcept;

    /// Whether MPI itself has this collective for this operator on these elements.
    template <collective Goal, class Op, class T>
    static constexpr bool has_native = folds(Goal) && detail::has_native_operator<Op, T>;
    /// Why MPI's own collective is the better one for an operand of so many bytes; null where it is not.
    [[nodiscard]] const char* prefers_native(collective what, std::size_t bytes) const noexcept;
    [[nodiscard]] static const char* native_name(collective what) noexcept { return detail::native_name(what); }
    template <class Op, class T>
    void run_native(collective what, const native_operands& with) {
        if (failure_) throw_failure(name_of(what));
        detail::run_native<Op, T>(what, with, comm_);
    }

  private:
    using clock = std::chrono::steady_clock;
    using bounce_buffer = allfold::detail::bounce_buffer;
    using envelope = allfold::detail::envelope;
    using payload_range = allfold::detail::payload_range;
    struct checked {};
    struct early_arrival {
        int from;
        arrival_type message;
    };

    /// A receive from one rank under one tag, from the first question for a message to its delivery.
    struct stream {
        int peer = -1;
        int tag = 0;
        bool headed = false;  // the envelope is there
        MPI_Request head = MPI_REQUEST_NULL;
        bounce_buffer buffer;       // envelope and what comes with it
        bounce_buffer payload;      // of a message with ranges
        std::byte* into = nullptr;  // where that message goes: the payload, or where the sink wants it
        std::vector<MPI_Request> ranges;
        envelope about;
    };
    struct failure {
        int rank;
        errc code;
        std::string why;
    };
    struct claim {
        waiting where;
        std::uint32_t call;
    };
    /// Messages of MPI's that have come, and those that must.
    struct tally {
        std::uint64_t received = 0;
        std::uint64_t expected = 0;  // once all ranks have told what they have sent
    };
    /// How long this rank has been stuck, and where.
    struct vigil {
        waiting where{};
        clock::time_point since{}, next_notice{};
    };

    static constexpr int control_tag = 0;
    static constexpr int first_tag = 1;

    communicator(checked, MPI_Comm base, ownership how, const mpi::tuning& numbers);
    void find_tags();
    void find_crowd();
    [[nodiscard]] std::size_t head_bytes() const noexcept {
        return allfold::detail::most_overhead + tuning_.eager_bytes;
    }
    [[nodiscard]] int tag_of(lane on) const noexcept {
        return first_tag + static_cast<int>(on % static_cast<lane>(tuning_.tags));
    }

    // Receiving
    [[nodiscard]] stream& stream_of(int from, int tag);
    [[nodiscard]] bool hear(stream& s);
    void receive_ranges(stream& s, std::byte* into);
    [[nodiscard]] bool is_complete(stream& s);
    [[nodiscard]] arrival_type deliver(stream& s);
    [[nodiscard]] bool deliver_early(int from, lane on, arrival_type& message);
    void release(stream& s);

    // Notes
    void send_note(int to, const detail::note& what, const signature* call, const std::string& text);
    void attend();
    void read_note(int from, std::span<const std::byte> raw);
    [[gnu::cold]] void fail(errc code, const std::string& why);
    [[noreturn, gnu::cold]] void throw_failure(const char* during) const;
    [[noreturn, gnu::cold]] void throw_departed(const waiting& where) const;
    [[noreturn, gnu::cold]] void time_out(const waiting& where);
    void tell_blocked(const waiting& where);

    // Leaving
    void cancel_receives() noexcept;
    void drain();
    void depart() noexcept;
    template <class Ready, class Begin>
    [[nodiscard]] bool meet(Ready ready, Begin begin, bool is_last);
    [[nodiscard]] bool wind_up();
    void leave_behind() noexcept;

    mpi::tuning tuning_;
    MPI_Comm comm_ = MPI_COMM_NULL;
    bool owned_ = true;
    MPI_Errhandler handler_ = MPI_ERRHANDLER_NULL;  // of a borrowed communicator
    int rank_ = 0;
    int size_ = 1;
    int exceptions_;
    bool crowded_ = false;  // more ranks than processors on this node
    lane next_lane_ = 0;
    const char* latest_call_ = "collective";
    unsigned polls_ = 0;

    allfold::detail::bounce_pool pool_;
    detail::outbox outbox_{pool_, tuning_};
    detail::requests<bounce_buffer> drained_;
    std::unique_ptr<tally> tally_ = std::make_unique<tally>();
    std::vector<stream> streams_;
    std::size_t active_ = 0;  // of them
    std::vector<early_arrival> early_;

    allfold::detail::opened_lanes opened_;
    allfold::detail::told_signatures told_;
    allfold::detail::known_signatures known_;
    struct {
        int from = -1;
        lane on = 0;
        std::uint32_t call = 0;
    } latest_;
    std::unordered_map<int, claim> claims_;                // who says to wait for this rank
    std::unordered_map<int, clock::time_point> departed_;  // who has left, and since when that is known
    vigil watch_;
    bool departing_ = false;  // it has told that it leaves
    bool gave_up_ = false;
    std::optional<failure> failure_;
    allfold::background background_;
};

inline communicator::communicator(checked, MPI_Comm base, ownership how, const mpi::tuning& numbers)
    : tuning_(numbers),
      owned_(how == duplicate),
      exceptions_(std::uncaught_exceptions()),
      pool_((detail::require_running(), detail::require_thread_level(), detail::require_intracommunicator(base),
             allfold::detail::most_overhead + numbers.eager_bytes)) {
    if (owned_) {
        detail::check(MPI_Comm_dup(base, &comm_), "MPI_Comm_dup");
    } else {
        comm_ = base;
        detail::check(MPI_Comm_get_errhandler(comm_, &handler_), "MPI_Comm_get_errhandler");
    }
    detail::check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    detail::check(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
    detail::check(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
    outbox_.open(comm_, size_);
    find_tags();
    find_crowd();
}

inline void communicator::find_tags() {
    int* most = nullptr;
    int known = 0;
    detail::check(MPI_Comm_get_attr(comm_, MPI_TAG_UB, static_cast<void*>(&most), &known), "MPI_Comm_get_attr");
    const int highest = known != 0 ? *most : 32767;
    if (tuning_.tags <= 0 || tuning_.tags > highest) tuning_.tags = highest;  // tags 1 ... highest
}

inline void communicator::find_crowd() {
    MPI_Comm node = MPI_COMM_NULL;
    detail::check(MPI_Comm_split_type(comm_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &node), "MPI_Comm_split_type");
    auto bits = allfold::detail::usable_processor_bits();
    int ranks = 0;
    MPI_Comm_size(node, &ranks);
    const int code =
        MPI_Allreduce(MPI_IN_PLACE, bits.data(), static_cast<int>(bits.size()), MPI_UINT64_T, MPI_BOR, node);
    MPI_Comm_free(&node);
    detail::check(code, "MPI_Allreduce");
    int processors = 0;
    for (const std::uint64_t word : bits) processors += std::popcount(word);
    if (processors == 0) processors = allfold::detail::usable_processors();
    crowded_ = ranks > processors;
}

// Sending

inline bool communicator::try_post(int to, lane on, const outgoing& message) {
    using namespace allfold::detail;
    if (!outbox_.has_room(on)) return false;
    envelope about{.signature = message.signature, .on = on, .bytes = message.bytes};
    bounce_buffer head = pool_.take(head_bytes());
    std::size_t at = envelope_offset + envelope_bytes;
    if (const auto* const opened = opened_.find(on)) {
        about.call = opened->hash;
        if (told_.must_tell(to, opened->hash, opened->first)) {
            about.introduced = static_cast<std::uint32_t>(introduction::write(opened->what, head.data() + at));
            at += about.introduced;
        }
    }
    if (message.bytes > tuning_.eager_bytes) {
        outbox_.send_long(to, tag_of(on), message, about, std::move(head), at);
        return true;
    }
    std::memcpy(head.data() + envelope_offset, &about, sizeof about);
    pack(message.parts, message.alignment, head.data() + at);
    outbox_.send_copy(to, tag_of(on), std::move(head), on, envelope_offset, at + message.bytes - envelope_offset);
    return true;
}

/// What has to be done between two polls, so that posts end and failures are heard of.
inline void communicator::progress() {
    constexpr unsigned now_and_then = 256;
    if (failure_) throw_failure(latest_call_);
    outbox_.collect_loans();
    if (++polls_ % now_and_then != 0) return;
    attend();
    if (failure_) throw_failure(latest_call_);
}

// Receiving

inline communicator::stream& communicator::stream_of(int from, int tag) {
    for (std::size_t i = 0; i < active_; ++i)
        if (streams_[i].peer == from && streams_[i].tag == tag) return streams_[i];
    if (active_ == streams_.size()) streams_.emplace_back();
    stream& s = streams_[active_];
    s.peer = from;
    s.tag = tag;
    s.headed = false;
    s.buffer = pool_.take(head_bytes());
    detail::check(detail::irecv(s.buffer.data() + allfold::detail::envelope_offset,
                                head_bytes() - allfold::detail::envelope_offset, from, tag, comm_, &s.head),
                  "MPI_Irecv");
    ++active_;
    return s;
}

inline void communicator::release(stream& s) {
    s.ranges.clear();
    s.payload = {};
    s.into = nullptr;
    std::swap(s, streams_[--active_]);
}

/// Whether the envelope is there.
inline bool communicator::hear(stream& s) {
    int done = 0;
    detail::check(MPI_Test(&s.head, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done == 0) return false;
    ++tally_->received;
    std::memcpy(&s.about, s.buffer.data() + allfold::detail::envelope_offset, sizeof s.about);
    s.headed = true;
    if (s.about.introduced != 0)
        known_.learn(s.about.call,
                     s.buffer.data() + allfold::detail::envelope_offset + allfold::detail::envelope_bytes);
    return true;
}

/// Whether all that the envelope announces is there too.
inline bool communicator::is_complete(stream& s) {
    if (s.ranges.empty()) return true;
    int done = 0;
    detail::check(MPI_Testall(static_cast<int>(s.ranges.size()), s.ranges.data(), &done, MPI_STATUSES_IGNORE),
                  "MPI_Testall");
    if (done != 0) tally_->received += s.ranges.size();
    return done != 0;
}

/// Posts receives for the ranges of a message, and copies what came with its envelope, to `into`; null: to memory of
/// ours.
inline void communicator::receive_ranges(stream& s, std::byte* into) {
    using namespace allfold::detail;
    const std::byte* next = s.buffer.data() + envelope_offset + envelope_bytes + s.about.introduced;
    std::array<payload_range, most_ranges> table{};
    const std::size_t count = std::min<std::size_t>(s.about.ranges, most_ranges);
    std::memcpy(table.data(), next, count * sizeof(payload_range));
    next += align_up(count * sizeof(payload_range), line_of_message);
    if (into == nullptr) s.payload = pool_.take(static_cast<std::size_t>(s.about.bytes));
    s.into = into == nullptr ? s.payload.data() : into;
    const std::span<const payload_range> ranges(table.data(), count);
    for_each_gap(ranges, static_cast<std::size_t>(s.about.bytes), [&](std::size_t offset, std::size_t bytes) {
        std::memcpy(s.into + offset, next, bytes);
        next += bytes;
    });
    for (const payload_range& range : ranges)
        for (std::size_t done = 0; done < range.bytes;) {
            const std::size_t bytes = std::min(static_cast<std::size_t>(range.bytes) - done, tuning_.piece_bytes);
            s.ranges.push_back(MPI_REQUEST_NULL);
            detail::check(detail::irecv(s.into + range.offset + done, bytes, s.peer, s.tag, comm_, &s.ranges.back()),
                          "MPI_Irecv");
            done += bytes;
        }
}

inline communicator::arrival_type communicator::deliver(stream& s) {
    using namespace allfold::detail;
    arrival_type a;
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

inline bool communicator::deliver_early(int from, lane on, arrival_type& message) {
    const auto found = std::find_if(early_.begin(), early_.end(), [&](const early_arrival& e) {
        return e.from == from && e.message.about_.on == on;
    });
    if (found == early_.end()) return false;
    message = std::move(found->message);
    early_.erase(found);
    return true;
}

template <class Sink>
bool communicator::try_receive(int from, lane on, Sink&& sink) {
    arrival_type message;
    if (early_.empty() || !deliver_early(from, on, message)) {
        for (;;) {
            stream& s = stream_of(from, tag_of(on));
            if (!s.headed) {
                if (!hear(s)) return false;
                const envelope& about = s.about;
                if (about.ranges != 0)
                    receive_ranges(s, about.on == on
                                          ? place_for(sink, about.signature, static_cast<std::size_t>(about.bytes))
                                          : nullptr);
            }
            if (!is_complete(s)) return false;
            message = deliver(s);
            if (message.about_.on == on) [[likely]]
                break;
            early_.push_back({from, std::move(message)});  // another lane with the same tag
        }
    }
    latest_ = {from, on, message.about_.call};
    sink(std::move(message));
    return true;
}

/// What the last message, or a note, told of the call that `peer` makes on this lane.
inline std::optional<signature> communicator::announced(int peer, lane on) const {
    if (latest_.from == peer && latest_.on == on) return known_.find(latest_.call);
    const auto told = claims_.find(peer);
    if (told == claims_.end() || told->second.where.on != on) return std::nullopt;
    return known_.find(told->second.call);
}

inline const char* communicator::prefers_native(collective what, std::size_t bytes) const noexcept {
    const std::size_t from = what == collective::all_reduce ? tuning_.native_all_reduce_from : tuning_.native_from;
    if (bytes < from) return nullptr;
    return "delegated to MPI's own collective: measured to be faster";
}

// Notes

inline void communicator::send_note(int to, const detail::note& what, const signature* call, const std::string& text) {
    detail::note head = what;
    bounce_buffer buffer(detail::longest_note);
    std::byte* next = buffer.data() + sizeof head;
    if (call != nullptr) {
        head.call = call->hash();
        head.told = static_cast<std::uint32_t>(allfold::detail::introduction::write(*call, next));
        next += head.told;
    }
    head.chars = static_cast<std::uint32_t>(std::min(text.size(), detail::longest_text));
    std::memcpy(next, text.data(), head.chars);
    next += head.chars;
    std::memcpy(buffer.data(), &head, sizeof head);
    const auto bytes = static_cast<std::size_t>(next - buffer.data());
    outbox_.send_copy(to, control_tag, std::move(buffer), next_lane_, 0, bytes);
}

/// Reads all notes that are there.
inline void communicator::attend() {
    for (;;) {
        int there = 0;
        MPI_Status status;
        MPI_Message message;
        detail::check(MPI_Improbe(MPI_ANY_SOURCE, control_tag, comm_, &there, &message, &status), "MPI_Improbe");
        if (there == 0) return;
        alignas(detail::note) std::array<std::byte, detail::longest_note> raw;
        detail::check(MPI_Mrecv(raw.data(), static_cast<int>(raw.size()), MPI_BYTE, &message, &status), "MPI_Mrecv");
        ++tally_->received;
        read_note(status.MPI_SOURCE, raw);
    }
}

inline void communicator::read_note(int from, std::span<const std::byte> raw) {
    detail::note head;
    std::memcpy(&head, raw.data(), sizeof head);
    const std::byte* next = raw.data() + sizeof head;
    switch (head.what) {
        case detail::note::kind::failed:
            if (!failure_)
                failure_.emplace(
                    failure{from, head.code, {reinterpret_cast<const char*>(next + head.told), head.chars}});
            break;
        case detail::note::kind::blocked:
            if (head.told != 0) known_.learn(head.call, next);
            claims_.insert_or_assign(from, claim{head.where, head.call});
            if (departing_) send_note(from, {.what = detail::note::kind::departed}, nullptr, "");
            break;
        case detail::note::kind::departed: departed_.emplace(from, clock::now()); break;
    }
}

/// Breaks the communicator: every rank that waits, or will wait, throws. The first cause is kept.
inline void communicator::fail(errc code, const std::string& why) {
    if (failure_) return;
    failure_.emplace(failure{rank_, code, why});
    for (int r = 0; r < size_; ++r)
        if (r != rank_) send_note(r, {.what = detail::note::kind::failed, .code = code}, nullptr, why);
}

inline void communicator::throw_failure(const char* during) const {
    const std::string place = text({during, ": rank ", rank_, " of ", size_, " stops: "});
    if (failure_->code == errc::timeout) throw error(errc::timeout, place + failure_->why);
    throw error(errc::peer_failed, text({place, "rank ", failure_->rank, " failed: ", failure_->why}));
}

inline void communicator::throw_departed(const waiting& where) const {
    throw error(errc::peer_failed, text({name_of(where.what), ": rank ", rank_, " waits for rank ", where.peer, " of ",
                                         size_, ", which has returned without taking part"}));
}

inline void communicator::time_out(const waiting& where) {
    const auto line = [](int rank, int peer, const waiting& w) {
        return text({"\n  rank ", rank, " waits for rank ", peer, " in ", name_of(w.what), ", round ", w.round + 1,
                     " of ", w.rounds});
    };
    std::string why = text({"the deadline of rank ", rank_, " passed; who waits for whom:"});
    why +=
        where.peer >= 0 ? line(rank_, where.peer, where) : text({"\n  rank ", rank_, " waits for its messages to go"});
    for (const auto& [rank, told] : claims_) why += line(rank, rank_, told.where);
    fail(errc::timeout, why);
    throw error(errc::timeout, text({name_of(where.what), ": ", why}));
}

/// Tells those for whom this rank waits: a peer, or, while its memory is lent, the borrowers.
inline void communicator::tell_blocked(const waiting& where) {
    const auto* const opened = opened_.find(where.on);
    const auto tell = [&](int peer) {
        send_note(peer, {.what = detail::note::kind::blocked, .where = where}, opened ? &opened->what : nullptr, "");
    };
    if (where.peer >= 0) return tell(where.peer);
    for (const int peer : outbox_.borrowers_on(where.on)) tell(peer);
}

template <pending_work Work>
void communicator::wait(Work& work, std::optional<std::chrono::steady_clock::time_point> deadline) {
    constexpr unsigned now_and_then = 64;
    watch_ = {};
    for (unsigned turn = 1; !work.poll(); ++turn) {
        if (turn % now_and_then == 0 && look_around(work, deadline)) break;
        if (crowded_ || turn > tuning_.spins) std::this_thread::yield();
    }
    outbox_.see_copies_off(crowded_);
}

template <pending_work Work>
bool communicator::look_around(Work& work, std::optional<std::chrono::steady_clock::time_point> deadline) {
    const waiting where = work.blocked_on();
    attend();
    if (failure_) throw_failure(name_of(where.what));
    const auto now = clock::now();
    if (where.peer != watch_.where.peer || where.on != watch_.where.on || where.round != watch_.where.round)
        watch_ = {where, now, now + tuning_.notice};
    if (now >= watch_.next_notice) {
        tell_blocked(where);
        watch_.next_notice = now + 10 * tuning_.notice;
    }
    // What a rank sent before it left is here before its note, but may not have been delivered to the engine yet.
    const auto left = departed_.find(where.peer);
    if (left != departed_.end() && now - std::max(left->second, watch_.since) > tuning_.notice) throw_departed(where);
    work.check();
    if (deadline && now >= *deadline) time_out(where);
    return false;
}

// Leaving

inline void communicator::cancel_receives() noexcept {
    for (std::size_t i = 0; i < active_; ++i)
        if (streams_[i].head != MPI_REQUEST_NULL) {
            int cancelled = 0;
            MPI_Status status;
            MPI_Cancel(&streams_[i].head);
            MPI_Wait(&streams_[i].head, &status);
            MPI_Test_cancelled(&status, &cancelled);
            if (cancelled == 0) ++tally_->received;
        }
}

/// For a rank that receives no more: takes whatever arrives, so that its senders get their memory back.
inline void communicator::drain() {
    for (std::size_t i = 0; i < active_;) {  // ranges on their way
        int done = 0;
        stream& s = streams_[i];
        if (!s.ranges.empty())
            MPI_Testall(static_cast<int>(s.ranges.size()), s.ranges.data(), &done, MPI_STATUSES_IGNORE);
        if (done != 0) tally_->received += s.ranges.size();
        if (s.ranges.empty() || done != 0)
            release(s);
        else
            ++i;
    }
    for (;;) {
        int there = 0;
        MPI_Status status;
        detail::check(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_, &there, &status), "MPI_Iprobe");
        if (there == 0) break;
        if (status.MPI_TAG == control_tag) {
            attend();
            continue;
        }
        bounce_buffer sink;
        const std::size_t bytes = detail::bytes_of(status);
        try {
            sink = bounce_buffer(std::max<std::size_t>(1, bytes));
        } catch (const std::bad_alloc&) {  // it stays with MPI: its sender does not wait without end
            break;
        }
        MPI_Request request;
        detail::check(detail::irecv(sink.data(), bytes, status.MPI_SOURCE, status.MPI_TAG, comm_, &request),
                      "MPI_Irecv");
        ++tally_->received;
        drained_.add(request, std::move(sink));
    }
    if (!drained_.empty()) drained_.collect([](bounce_buffer&) {});
}

inline bool communicator::holds_memory() const noexcept {
    const auto stores_in_place = [](const stream& s) { return !s.ranges.empty() && s.payload.data() == nullptr; };
    return outbox_.lends() ||
           std::any_of(streams_.begin(), streams_.begin() + static_cast<std::ptrdiff_t>(active_), stores_in_place);
}

/// Called from a handler, while the exception that is the cause can be looked at.
inline void communicator::abandon() noexcept {
    const allfold::detail::cause cause = allfold::detail::cause_at_hand();
    const bool is_first = !gave_up_;
    gave_up_ = true;
    try {
        fail(cause.code, cause.why);
        cancel_receives();
        for (const auto until = clock::now() + tuning_.patience; is_first; std::this_thread::yield()) {
            drain();
            outbox_.collect_loans();
            if (!holds_memory() || clock::now() >= until) break;
        }
    } catch (const std::exception&) {  // MPI itself fails: there is nothing left to try
    }
    outbox_.forget_lenders();
}

/// Calls `begin(request)` of a collective of MPI's once `ready()`, and returns when all ranks have done so. Messages
/// are taken in meanwhile; `is_last`: only until this rank is ready. False: after a failure some rank does not come.
template <class Ready, class Begin>
bool communicator::meet(Ready ready, Begin begin, bool is_last) {
    MPI_Request all = MPI_REQUEST_NULL;
    std::optional<clock::time_point> until;
    bool has_begun = false;
    for (int done = 0; done == 0; std::this_thread::yield()) {
        if (!has_begun || !is_last) drain();
        outbox_.collect_loans();
        outbox_.collect_copies();
        if (failure_ && !until) until = clock::now() + tuning_.patience;
        if (until && clock::now() >= *until) return false;
        if (!has_begun && ready()) {
            detail::check(begin(&all), "a collective of MPI");
            has_begun = true;
        }
        if (has_begun) detail::check(MPI_Test(&all, &done, MPI_STATUS_IGNORE), "MPI_Test");
    }
    return true;
}

/// True when all ranks have come here and nothing of ours is under way any more.
///
/// What has been sent must be received before the communicator is freed: MPI may give its number to the next one, which
/// would find old notes, and what nobody has read. So the ranks tell each other how many messages they have sent.
inline bool communicator::wind_up() {
    const auto at_once = [] { return true; };
    const auto all_sent = [this] { return outbox_.empty(); };
    const auto all_received = [&] { return tally_->received == tally_->expected && drained_.empty() && all_sent(); };
    const auto leave = [this](MPI_Request* request) {
        for (const auto& [peer, told] : claims_) send_note(peer, {.what = detail::note::kind::departed}, nullptr, "");
        departing_ = true;
        return MPI_Ibarrier(comm_, request);
    };
    const auto count = [this](MPI_Request* request) {
        departing_ = false;  // nobody waits for this rank any more, and it sends nothing more
        return MPI_Ireduce_scatter_block(outbox_.sent(), &tally_->expected, 1, MPI_UINT64_T, MPI_SUM, comm_, request);
    };
    const auto end = [this](MPI_Request* request) { return MPI_Ibarrier(comm_, request); };
    cancel_receives();
    return meet(all_sent, leave, false) && meet(at_once, count, false) && meet(all_received, end, true);
}

/// Requests are under way still: the communicator stays, and the memory to which they refer with it.
inline void communicator::leave_behind() noexcept {
    struct leftovers {
        detail::outbox sent;
        detail::requests<bounce_buffer> drained;
        std::vector<stream> streams;
        std::unique_ptr<tally> counts;
    };
    static_cast<void>(new leftovers{std::move(outbox_), std::move(drained_), std::move(streams_), std::move(tally_)});
}

inline void communicator::depart() noexcept {
    if (detail::is_finalized()) return;
    bool clean = size_ == 1;
    try {
        if (std::uncaught_exceptions() > exceptions_ && size_ > 1)
            fail(errc::peer_failed, "it was left by an exception");
        clean = clean || wind_up();
    } catch (const std::exception&) {  // MPI itself fails
    }
    if (!owned_) {
        MPI_Comm_set_errhandler(comm_, handler_);
        MPI_Errhandler_free(&handler_);
    }
    if (!clean) return leave_behind();
    early_.clear();
    if (owned_) MPI_Comm_free(&comm_);
}

static_assert(allfold::communicator<communicator>);

/// Runs `fn(comm)` in every process of the job: initialises MPI where nobody has (with MPI_THREAD_SERIALIZED), makes a
/// communicator of MPI_COMM_WORLD, and finalises what it has initialised. A rank that throws prints its exception and
/// takes the whole job down with it: nobody is left hanging. Returns EXIT_SUCCESS, for `main`.
///
///     int main() {
///         return allfold::mpi::run([](auto& comm) { ... });
///     }
template <std::invocable<communicator&> Fn>
int run(Fn&& fn, const tuning& numbers = {}) {
    const bool mine = !detail::is_initialized();
    if (mine) {
        int level = 0;
        detail::check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level), "MPI_Init_thread");
    }
    const auto give_up = [](const char* why, bool is_cause) {
        int rank = 0;
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        // Whoever was the cause is about to end the job; let its message be the one that is seen.
        if (!is_cause) std::this_thread::sleep_for(std::chrono::seconds(2));
        std::fprintf(stderr, "allfold: rank %d: %s\n", rank, why);
        std::fflush(stderr);
        MPI_Abort(MPI_COMM_WORLD, 1);
    };
    try {
        communicator comm(MPI_COMM_WORLD, duplicate, numbers);
        try {
            fn(comm);
        } catch (const error& e) {
            give_up(e.what(), e.code() != errc::peer_failed);
        } catch (const std::exception& e) {
            give_up(e.what(), true);
        } catch (...) {
            give_up("an exception", true);
        }
    } catch (const std::exception& e) {
        give_up(e.what(), true);
    }
    if (mine) MPI_Finalize();
    return 0;
}

}  // namespace allfold::mpi
