// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "allfold/error.hpp"
#include "allfold/transport/background.hpp"
#include "allfold/transport/communicator.hpp"
#include "allfold/transport/detail/cause.hpp"
#include "allfold/transport/detail/channel.hpp"
#include "allfold/transport/detail/copy.hpp"
#include "allfold/transport/detail/doorbell.hpp"
#include "allfold/transport/detail/flow_control.hpp"
#include "allfold/transport/detail/rank_board.hpp"
#include "allfold/transport/detail/thread_bell.hpp"
#include "allfold/transport/thread_world.hpp"

/// @file
/// One rank's end of a group of threads.
///
/// Between two ranks that talk lies one channel in each direction: a ring of cells, each two cache lines with a
/// sequence number in front. Small messages ride in the cell itself, behind the number for which the receiver waits:
/// one transfer of a line. Medium ones are copied into a buffer of the channel, so that the line of a user's buffer never
/// moves to another core. Large ones, and objects, are lent: the cell holds the addresses of the sender's parts, and
/// the receiver works on them in place. Each message also carries what its sender has consumed of the opposite channel,
/// so that an exchange needs no acknowledgement of its own.

namespace allfold {

/// One rank's end of a `thread_world`. Models `communicator`; used by one thread at a time.
class thread_communicator {
  public:
    static constexpr bool shares_memory = true;
    class arrival_type;

    thread_communicator(const thread_communicator&) = delete;
    thread_communicator& operator=(const thread_communicator&) = delete;
    ~thread_communicator();

    [[nodiscard]] int rank() const noexcept { return rank_; }
    [[nodiscard]] int size() const noexcept { return size_; }
    [[nodiscard]] allfold::background& background() noexcept { return background_; }

    lane open(const signature& what, unsigned lanes) {
        if (world_->failed_.load(std::memory_order_relaxed)) world_->throw_failure(rank_, name_of(what.what));
        world_->board(rank_).bell.lead_to_this_thread();
        const lane first = next_lane_;
        next_lane_ += lanes;
        world_->announced(rank_).write(first, lanes, what);
        return first;
    }
    [[nodiscard]] std::optional<signature> announced(int peer, lane on) const noexcept {
        return world_->announced(peer).find(on);
    }
    [[nodiscard]] int processors() const noexcept { return world_->processors_; }
    [[nodiscard]] bool lends(std::size_t bytes, bool copyable) const noexcept {
        return !copyable || bytes > world_->tuning_.eager_bytes;
    }

    /// So that who asks `done()` again and again, and never waits, hears of a failure, and keeps nobody from going on.
    void progress() {
        if (world_->failed_.load(std::memory_order_relaxed)) [[unlikely]]
            world_->throw_failure(rank_, "collective");
        answer_calls();
    }
    bool try_post(int to, lane on, const outgoing& message);
    template <class Sink>
    bool try_receive(int from, lane on, Sink&& sink);
    template <pending_work Work>
    void wait(Work& work, std::optional<std::chrono::steady_clock::time_point> deadline);
    void abandon() noexcept;
    /// What `wait` does now and then, for those who wait for several transports at once: throws when waiting is in
    /// vain, and returns true when the work turns out to be done.
    template <pending_work Work>
    bool look_around(Work& work, std::optional<std::chrono::steady_clock::time_point> deadline) {
        return check(work, deadline);
    }

  private:
    friend class thread_world;
    struct early_arrival;
    struct link;

    thread_communicator(thread_world& world, int rank);

    [[nodiscard]] link& link_to(int peer);
    [[gnu::cold]] link& add_link(int peer);
    void ring(int peer) noexcept { world_->board(peer).bell.ring(); }

    static void post_in_cell(detail::cell& c, const outgoing& message) noexcept;
    [[nodiscard]] bool post_in_buffer(link& l, lane on, detail::cell& c, const outgoing& message);
    static void post_packed(detail::cell& c, detail::carriage how, const outgoing& message,
                            detail::packed_message where) noexcept;
    static void post_loan(detail::cell& c, const outgoing& message) noexcept;
    [[nodiscard]] bool has_cell(link& l) noexcept;
    [[gnu::cold]] void call_for_a_cell(link& l) noexcept;
    bool next_arrival(int from, lane on, arrival_type& message);
    [[gnu::cold]] bool take_early(link& l, lane on, arrival_type& message);
    [[gnu::cold]] void keep_for_later(link& l, detail::cell& c);
    void take(arrival_type& a, link& l, detail::cell& c) noexcept;
    void free_buffer(link& l, std::uint32_t buffer) noexcept;
    void answer_calls() {
        if (world_->board(rank_).is_called.load(std::memory_order_relaxed)) [[unlikely]]
            take_in_what_is_urgent();
    }
    [[gnu::cold]] void take_in_what_is_urgent();
    [[gnu::cold]] void drain();
    void add_links_to_talkers() {
        for (const int peer : world_->peers_that_talk_to(rank_)) static_cast<void>(link_to(peer));
    }

    /// Before and after using lent memory: whoever gives up waits for all who are between the two.
    void touch() {
        auto& touching = world_->board(rank_).touching;
        if (touching_++ == 0) touching.store(1, std::memory_order_seq_cst);
        if (world_->failed_.load(std::memory_order_seq_cst)) {
            untouch();
            world_->throw_failure(rank_, "collective");
        }
    }
    void untouch() noexcept {
        if (--touching_ == 0) world_->board(rank_).touching.store(0, std::memory_order_release);
    }

    int look_out_for(int peer);
    template <pending_work Work>
    void wait_long(Work& work, std::optional<std::chrono::steady_clock::time_point> deadline);
    template <pending_work Work>
    bool check(Work& work, std::optional<std::chrono::steady_clock::time_point> deadline);
    [[noreturn, gnu::cold]] void throw_departed(int peer, const char* during);
    [[nodiscard]] bool has_departed(int peer) const noexcept {
        return world_->board(peer).departed.load(std::memory_order_acquire);
    }
    void publish(const waiting& where) noexcept;
    [[noreturn, gnu::cold]] void time_out(const waiting& where);
    void depart() noexcept;

    thread_world* world_;
    int rank_;
    int size_;
    int exceptions_;
    int touching_ = 0;
    lane next_lane_ = 0;
    std::vector<link*> table_;  // open addressing by peer
    std::vector<std::unique_ptr<link>> links_;
    allfold::background background_;
};

inline thread_communicator thread_world::communicator(int rank) {
    if (rank < 0 || rank >= size_)
        throw error(errc::bad_rank, detail::text({"thread_world: rank ", rank, " is not in [0, ", size_, ")"}));
    if (board(rank).is_given.exchange(true))
        throw error(errc::bad_argument, detail::text({"thread_world: rank ", rank,
                                                      " has, or has had, its communicator: it counts the "
                                                      "messages from the first one on. Make another world"}));
    return {*this, rank};
}

/// A message as its receiver holds it.
class thread_communicator::arrival_type {
  public:
    arrival_type() = default;
    arrival_type(arrival_type&& other) noexcept { take_over(other); }
    arrival_type& operator=(arrival_type&& other) noexcept {
        if (this != &other) {
            release();
            take_over(other);
        }
        return *this;
    }
    ~arrival_type() { release(); }

    [[nodiscard]] std::uint32_t signature() const noexcept { return signature_; }
    [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
    [[nodiscard]] std::byte* packed() const noexcept {
        return how_ == detail::carriage::in_cell ? const_cast<std::byte*>(here_) : packed_;
    }
    [[nodiscard]] std::span<const part> parts() const noexcept { return {loan_.parts, loan_.count}; }

  private:
    friend class thread_communicator;

    void take_over(arrival_type& other) noexcept {
        how_ = std::exchange(other.how_, detail::carriage::nothing);
        signature_ = other.signature_;
        bytes_ = other.bytes_;
        touched_ = std::exchange(other.touched_, false);
        buffer_ = other.buffer_;
        link_ = other.link_;
        peer_ = other.peer_;
        home_ = other.home_;
        packed_ = std::exchange(other.packed_, nullptr);
        loan_ = std::exchange(other.loan_, detail::loan{});
        if (how_ == detail::carriage::in_cell) copy_cell(here_, other.here_, bytes_);
    }
    /// A copy of fixed length is a few instructions.
    static void copy_cell(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
        if (bytes <= 48)
            std::memcpy(to, from, 48);
        else
            std::memcpy(to, from, detail::inline_bytes);
    }
    void release() noexcept {
        switch (std::exchange(how_, detail::carriage::nothing)) {
            case detail::carriage::in_buffer: home_->free_buffer(*link_, buffer_); break;
            case detail::carriage::owned: detail::free_message(packed_); break;
            case detail::carriage::lent:
                if (!touched_) break;  // never delivered: its world is broken, and its sender may be gone
                loan_.lent->fetch_sub(1, std::memory_order_release);
                home_->untouch();
                home_->ring(peer_);
                break;
            default: break;
        }
    }
    detail::carriage how_ = detail::carriage::nothing;
    bool touched_ = false;
    std::uint32_t signature_ = 0;
    std::uint32_t buffer_ = 0;
    std::size_t bytes_ = 0;
    int peer_ = -1;
    link* link_ = nullptr;
    thread_communicator* home_ = nullptr;
    std::byte* packed_ = nullptr;
    detail::loan loan_{};
    alignas(detail::inline_alignment) std::byte here_[detail::inline_bytes];
};

struct thread_communicator::early_arrival {
    lane on;
    arrival_type message;
};

/// A rank's view of its pair of channels with one peer. Counters modulo 2^32.
struct thread_communicator::link {
    int peer = -1;
    detail::channel* out = nullptr;
    detail::channel* in = nullptr;
    detail::posted_messages<detail::cells_of_a_channel, detail::buffers_of_a_channel> posted;
    std::uint32_t received = 0;
    std::uint32_t outdated = 0;  // cells to come that may tell less than the channel told us
    std::uint32_t called = 0;    // the message for which this rank has called for a cell last
    std::uint8_t freed = 0;
    std::vector<early_arrival> early;  // arrived before their lane asked for them

    [[nodiscard]] detail::cell& next_cell() const noexcept { return in->cells[received % detail::cells_of_a_channel]; }
    [[nodiscard]] bool next_is_in() const noexcept {
        return next_cell().sequence.load(std::memory_order_acquire) == received + 1;
    }
    [[nodiscard]] bool takes_early(std::size_t most_kept = detail::most_kept_early) const noexcept {
        return detail::takes_early<detail::cells_of_a_channel>(early.size(), most_kept, received + 1,
                                                               in->urgent.load(std::memory_order_acquire));
    }
    [[nodiscard]] bool is_urgent() const noexcept { return takes_early(0); }
    /// What has become of the messages sent, at the price of a line that the peer writes.
    void ask_channel() noexcept {
        posted.hear(out->taken.load(std::memory_order_acquire), out->freed.load(std::memory_order_acquire));
        outdated = detail::cells_of_a_channel;
    }
};

inline thread_communicator::thread_communicator(thread_world& world, int rank)
    : world_(&world), rank_(rank), size_(world.size()), exceptions_(std::uncaught_exceptions()) {}

inline thread_communicator::~thread_communicator() { depart(); }

inline thread_communicator::link& thread_communicator::link_to(int peer) {
    if (!table_.empty())
        for (std::size_t i = static_cast<std::size_t>(peer);; ++i) {
            link* const found = table_[i & (table_.size() - 1)];
            if (found == nullptr) break;
            if (found->peer == peer) return *found;
        }
    return add_link(peer);
}

inline thread_communicator::link& thread_communicator::add_link(int peer) {
    auto added = std::make_unique<link>();
    added->peer = peer;
    added->out = &world_->channel_between(rank_, peer);
    added->in = &world_->channel_between(peer, rank_);
    links_.push_back(std::move(added));
    if (table_.size() < 2 * links_.size()) table_.assign(std::bit_ceil(4 * links_.size()), nullptr);
    for (auto& l : links_) {  // fills the grown table anew; what stands in it already is found at once
        std::size_t i = static_cast<std::size_t>(l->peer) & (table_.size() - 1);
        while (table_[i] != nullptr && table_[i] != l.get()) i = (i + 1) & (table_.size() - 1);
        table_[i] = l.get();
    }
    return *links_.back();
}

inline bool thread_communicator::has_cell(link& l) noexcept {
    if (l.posted.has_cell()) return true;
    l.ask_channel();
    return l.posted.has_cell();
}

/// Once for each message: all that lies in the cells now is taken out then, so there will be room.
inline void thread_communicator::call_for_a_cell(link& l) noexcept {
    if (l.called == l.posted.sent() + 1) return;
    l.called = l.posted.sent() + 1;
    l.out->urgent.store(l.called, std::memory_order_release);
    world_->board(l.peer).is_called.store(true, std::memory_order_release);
    ring(l.peer);
}

inline bool thread_communicator::try_post(int to, lane on, const outgoing& message) {
    link& l = link_to(to);
    const bool is_urgent = l.posted.overtakes(on);
    if (!has_cell(l)) {
        if (is_urgent) call_for_a_cell(l);
        return false;
    }
    detail::cell& c = l.out->cells[l.posted.sent() % detail::cells_of_a_channel];
    const bool in_cell =
        message.copyable && message.bytes <= detail::inline_bytes && message.alignment <= detail::inline_alignment;
    const bool is_lent = !in_cell && lends(message.bytes, message.copyable);
    if (in_cell)
        post_in_cell(c, message);
    else if (is_lent)
        post_loan(c, message);
    else if (!post_in_buffer(l, on, c, message))
        return false;
    c.on = on;
    c.signature = message.signature;
    c.taken = static_cast<std::uint8_t>(l.received);
    c.freed = l.freed;
    const std::uint32_t number = l.posted.post(on);
    if (is_urgent) [[unlikely]]
        l.out->urgent.store(number, std::memory_order_relaxed);
    c.sequence.store(number, std::memory_order_release);
    ring(to);
    if (is_lent) {  // a rank that leaves looks for loans after saying so; one of the two sees the other
        std::atomic_thread_fence(std::memory_order_seq_cst);
        const bool left_there = has_departed(to) && l.out->taken.load(std::memory_order_acquire) != number;
        if (left_there) throw_departed(to, "collective");
    }
    return true;
}

inline void thread_communicator::post_in_cell(detail::cell& c, const outgoing& message) noexcept {
    c.how = detail::carriage::in_cell;
    c.length = static_cast<std::uint8_t>(message.bytes);
    detail::pack(message.parts, message.alignment, c.payload);
}

inline bool thread_communicator::post_in_buffer(link& l, lane on, detail::cell& c, const outgoing& message) {
    using detail::carriage;
    if (!l.posted.has_buffer()) l.ask_channel();
    if (!l.posted.has_buffer()) {
        if (!l.posted.overtakes(on)) return false;
        post_packed(c, carriage::owned, message, {detail::allocate_message(message.bytes), message.bytes, 0});
        return true;
    }
    const std::size_t each = world_->tuning_.eager_bytes;
    if (l.out->buffers == nullptr) {
        const std::size_t all = each * detail::buffers_of_a_channel;
        std::size_t room = all + 4096;
        l.out->memory = std::make_unique<std::byte[]>(room);
        void* first = l.out->memory.get();
        l.out->buffers = static_cast<std::byte*>(std::align(4096, all, first, room));
    }
    const std::uint32_t buffer = l.posted.free_buffer();
    l.posted.fill_buffer(buffer, on);
    post_packed(c, carriage::in_buffer, message, {l.out->buffers + buffer * each, message.bytes, buffer});
    return true;
}

inline void thread_communicator::post_packed(detail::cell& c, detail::carriage how, const outgoing& message,
                                             detail::packed_message where) noexcept {
    detail::pack(message.parts, message.alignment, where.data);
    c.how = how;
    std::memcpy(c.payload, &where, sizeof where);
}

inline void thread_communicator::post_loan(detail::cell& c, const outgoing& message) noexcept {
    message.lent->fetch_add(1, std::memory_order_relaxed);
    const detail::loan lent{message.parts.data(), message.parts.size(), message.lent};
    c.how = detail::carriage::lent;
    std::memcpy(c.payload, &lent, sizeof lent);
    std::memcpy(c.payload + sizeof lent, &message.bytes, sizeof message.bytes);
}

/// Takes the message in `c` out of the ring; its cell can be used again at once.
inline void thread_communicator::take(arrival_type& a, link& l, detail::cell& c) noexcept {
    a.how_ = c.how;
    a.signature_ = c.signature;
    a.link_ = &l;
    a.peer_ = l.peer;
    a.home_ = this;
    if (l.outdated > 0)
        --l.outdated;
    else
        l.posted.hear_last_byte(c.taken, c.freed);
    if (c.how == detail::carriage::in_cell) {
        a.bytes_ = c.length;
        arrival_type::copy_cell(a.here_, c.payload, c.length);
    } else if (c.how == detail::carriage::lent) {
        std::memcpy(&a.loan_, c.payload, sizeof a.loan_);
        std::memcpy(&a.bytes_, c.payload + sizeof a.loan_, sizeof a.bytes_);
    } else {
        detail::packed_message where;
        std::memcpy(&where, c.payload, sizeof where);
        a.packed_ = where.data;
        a.bytes_ = where.bytes;
        a.buffer_ = where.buffer;
    }
    l.in->taken.store(++l.received, std::memory_order_release);
    ring(l.peer);  // it may be waiting for a cell
}

/// One body for all sinks; what has come too early is rare, and out of line.
inline bool thread_communicator::next_arrival(int from, lane on, arrival_type& message) {
    link& l = link_to(from);
    if (!l.early.empty()) [[unlikely]]
        if (take_early(l, on, message)) return true;
    for (;;) {
        if (!l.next_is_in()) return false;
        detail::cell& c = l.next_cell();
        if (c.on != on) [[unlikely]] {
            if (!l.takes_early()) return false;
            keep_for_later(l, c);
            continue;
        }
        if (c.how == detail::carriage::lent) touch();
        take(message, l, c);
        message.touched_ = message.how_ == detail::carriage::lent;
        return true;
    }
}

inline bool thread_communicator::take_early(link& l, lane on, arrival_type& message) {
    const auto found = std::find_if(l.early.begin(), l.early.end(), [&](auto& e) { return e.on == on; });
    if (found == l.early.end()) return false;
    message = std::move(found->message);
    l.early.erase(found);
    if (message.how_ == detail::carriage::lent) {
        touch();
        message.touched_ = true;
    }
    return true;
}

inline void thread_communicator::keep_for_later(link& l, detail::cell& c) {
    const lane on = c.on;
    l.early.emplace_back().on = on;
    take(l.early.back().message, l, c);
}

template <class Sink>
bool thread_communicator::try_receive(int from, lane on, Sink&& sink) {
    arrival_type message;
    if (!next_arrival(from, on, message)) return false;
    sink(std::move(message));
    return true;
}

inline void thread_communicator::free_buffer(link& l, std::uint32_t buffer) noexcept {
    l.freed = static_cast<std::uint8_t>(l.freed ^ 1u << buffer);
    l.in->freed.store(l.freed, std::memory_order_release);
    ring(l.peer);
}

/// A peer has called: what it has to post is older than what its cells hold.
inline void thread_communicator::take_in_what_is_urgent() {
    world_->board(rank_).is_called.exchange(false, std::memory_order_acq_rel);
    if (links_.size() + 1 < static_cast<std::size_t>(size_)) add_links_to_talkers();
    for (auto& l : links_)
        while (l->is_urgent() && l->next_is_in()) keep_for_later(*l, l->next_cell());
}

/// Takes in whatever has arrived.
inline void thread_communicator::drain() {
    for (auto& l : links_)
        while (l->next_is_in()) keep_for_later(*l, l->next_cell());
}

/// Spins for a moment, or until the next message of `peer` is in: cheaper than asking the whole operation each time.
inline int thread_communicator::look_out_for(int peer) {
    constexpr int turns = 32;
    if (peer < 0) {
        detail::relax();
        return 1;
    }
    link& l = link_to(peer);
    for (int i = 0; i < turns && !l.next_is_in(); ++i) detail::relax();
    return turns;
}

template <pending_work Work>
void thread_communicator::wait(Work& work, std::optional<std::chrono::steady_clock::time_point> deadline) {
    if (work.poll()) return;
    for (int spins = 0; spins < world_->tuning_.spins;) {
        spins += look_out_for(work.blocked_on().peer);
        if (work.poll()) return;
        if (spins % 128 == 0 && check(work, deadline)) return;
    }
    wait_long(work, deadline);
}

template <pending_work Work>
[[gnu::noinline]] void thread_communicator::wait_long(Work& work,
                                                      std::optional<std::chrono::steady_clock::time_point> deadline) {
    using namespace std::chrono;
    world_->board(rank_).bell.lead_to_this_thread();
    bool done = false;
    for (int turn = 0; !done; ++turn) {
        if (turn < world_->tuning_.yields) {
            std::this_thread::yield();
            done = work.poll();
            if (!done && turn % 16 == 0) {
                done = check(work, deadline) || work.poll();
            }
            continue;
        }
        const auto news = [&] {
            answer_calls();
            done = work.poll();
            if (!done) {
                publish(work.blocked_on());
                work.check();
            }
            return done || world_->failed_.load(std::memory_order_seq_cst);
        };
        auto until = steady_clock::now() + seconds(1);
        if (deadline) until = std::min(until, *deadline);
        detail::bell_of_this_thread->sleep(news, until);
        if (!done) done = work.poll() || check(work, deadline);
    }
    publish({});
}

/// Throws when waiting is in vain; true when the work turned out to be done.
template <pending_work Work>
bool thread_communicator::check(Work& work, std::optional<std::chrono::steady_clock::time_point> deadline) {
    answer_calls();
    const waiting where = work.blocked_on();
    if (world_->failed_.load(std::memory_order_acquire)) world_->throw_failure(rank_, name_of(where.what));
    if (where.peer >= 0 && has_departed(where.peer)) {
        drain();  // its last messages may have come before it left
        if (work.poll()) return true;
        if (work.blocked_on().peer == where.peer) throw_departed(where.peer, name_of(where.what));
    }
    work.check();
    if (deadline && std::chrono::steady_clock::now() >= *deadline) time_out(work.blocked_on());
    return false;
}

inline void thread_communicator::throw_departed(int peer, const char* during) {
    // It may have failed before it left, and after this rank last asked.
    if (world_->failed_.load(std::memory_order_acquire)) world_->throw_failure(rank_, during);
    throw error(errc::peer_failed, detail::text({during, ": rank ", rank_, " waits for rank ", peer, " of ", size_,
                                                 ", which has returned without taking part"}));
}

inline void thread_communicator::publish(const waiting& where) noexcept {
    auto& b = world_->board(rank_);
    b.what.store(where.what, std::memory_order_relaxed);
    b.round.store(where.round, std::memory_order_relaxed);
    b.rounds.store(where.rounds, std::memory_order_relaxed);
    b.waits_for.store(where.peer, std::memory_order_relaxed);
}

inline void thread_communicator::time_out(const waiting& where) {
    publish(where);
    const std::string why =
        detail::text({"the deadline of rank ", rank_, " passed; who waits for whom:", world_->waiting_table()});
    world_->fail(rank_, errc::timeout, why);
    throw error(errc::timeout, detail::text({name_of(where.what), ": ", why}));
}

/// Called from a handler, while the exception that is the cause can be looked at.
inline void thread_communicator::abandon() noexcept {
    world_->fail(rank_, detail::cause_at_hand());
    for (int r = 0; r < size_; ++r)
        while (r != rank_ && world_->board(r).touching.load(std::memory_order_seq_cst) != 0) std::this_thread::yield();
}

inline void thread_communicator::depart() noexcept {
    if (std::uncaught_exceptions() > exceptions_) world_->fail(rank_, detail::cause_at_hand());
    world_->board(rank_).departed.store(true, std::memory_order_seq_cst);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    add_links_to_talkers();
    drain();
    for (auto& l : links_)
        for (auto& e : l->early)
            if (e.message.how_ == detail::carriage::lent)
                world_->fail(rank_, errc::peer_failed,
                             detail::text({"it returned although rank ", l->peer, " waits for it"}));
    for (int r = 0; r < size_; ++r) ring(r);
    world_->notify_who_awaits_reason();
}

static_assert(communicator<thread_communicator>);

}  // namespace allfold
