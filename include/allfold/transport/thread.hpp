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
#include <mutex>
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
#include "allfold/transport/detail/channel.hpp"
#include "allfold/transport/detail/copy.hpp"
#include "allfold/transport/detail/doorbell.hpp"
#include "allfold/transport/detail/processors.hpp"
#include "allfold/transport/detail/rank_board.hpp"

/// @file
/// Ranks are threads of one process.
///
/// Between two ranks that talk lies one channel in each direction: a ring of cells, each two cache lines with a
/// sequence number in front. Small messages ride in the cell itself, behind the number for which the receiver waits:
/// one transfer of a line. Medium ones are copied into a slot of the channel, so that the line of a user's buffer never
/// moves to another core. Large ones, and objects, are lent: the cell holds the addresses of the sender's parts, and
/// the receiver works on them in place. Each message also carries what its sender has consumed of the opposite channel,
/// so that an exchange needs no acknowledgement of its own.

namespace allfold {

/// The numbers of the thread transport, with what was measured for each (two cores of one socket).
struct thread_tuning {
    /// Copying through a slot beats lending up to here: the sender's lines stay in its own cache.
    std::size_t slot_bytes = 32 * 1024;
    /// Polls, a `pause` each, before a waiting rank goes to sleep: 20 to 50 us, above the 10 to 20 us of a wake.
    int spins = 2000;
    /// Turns given away before it sleeps, which costs 0.2 to 0.4 us each; with more ranks than processors there is no
    /// spinning before them: there it is the others who must run.
    int yields = 200;

    friend bool operator==(const thread_tuning&, const thread_tuning&) = default;
};

class thread_communicator;

/// What the ranks of a group of threads share. `run` makes one for you; make one yourself to give ranks to threads that
/// you have already:
///
///     thread_world world(4);
///     // in thread r, once for each r in [0, 4):
///     thread_communicator comm = world.communicator(r);
///
/// It must outlive its communicators. After a failure it is broken for good: every collective on it throws.
class thread_world {
  public:
    explicit thread_world(int size, const thread_tuning& tuning = {})
        : size_(size), processors_(detail::usable_processors()), tuning_(tuning) {
        if (size < 1)
            throw error(errc::bad_argument, detail::text({"thread_world: ", size, " ranks, at least 1 is needed"}));
        if (size > processors_) tuning_.spins = 0;
        tuning_.slot_bytes = detail::align_up(tuning_.slot_bytes, detail::slot_alignment);
        boards_ = std::make_unique<detail::rank_board[]>(static_cast<std::size_t>(size));
        announced_ = std::make_unique<detail::announcements[]>(static_cast<std::size_t>(size));
    }
    thread_world(const thread_world&) = delete;
    thread_world& operator=(const thread_world&) = delete;

    [[nodiscard]] int size() const noexcept { return size_; }
    [[nodiscard]] const thread_tuning& tuning() const noexcept { return tuning_; }
    /// The end of rank `rank`; ask for it once, in the thread that will use it.
    [[nodiscard]] thread_communicator communicator(int rank);

    /// Breaks the world: every rank that waits, or will wait, throws. The first cause is kept.
    [[gnu::cold]] void fail(int rank, errc code, const std::string& why) {
        {
            const std::lock_guard lock(mutex_);
            if (!failure_) failure_.emplace(failure{rank, code, why});
        }
        failed_.store(true, std::memory_order_seq_cst);
        for (int r = 0; r < size_; ++r) board(r).bell.ring();
    }

    /// The rank that was the first cause; -1 as long as nothing is broken.
    [[nodiscard]] int broken_by() {
        const std::lock_guard lock(mutex_);
        return failure_ ? failure_->rank : -1;
    }

  private:
    friend class thread_communicator;

    struct failure {
        int rank;
        errc code;
        std::string why;
    };

    [[nodiscard]] detail::rank_board& board(int rank) noexcept { return boards_[static_cast<std::size_t>(rank)]; }
    [[nodiscard]] detail::announcements& announced(int rank) noexcept {
        return announced_[static_cast<std::size_t>(rank)];
    }

    /// The channel between two ranks, made when one of them first asks: memory grows with the pairs that talk.
    [[nodiscard]] detail::channel& channel_between(int from, int to) {
        const auto key = static_cast<std::uint64_t>(from) << 32 | static_cast<std::uint64_t>(static_cast<unsigned>(to));
        const std::lock_guard lock(mutex_);
        auto& found = channels_[key];
        if (!found) found = std::make_unique<detail::channel>();
        return *found;
    }

    /// The ranks with a channel to `rank`, whether it has talked to them or not.
    [[nodiscard]] std::vector<int> peers_that_talk_to(int rank) {
        const std::lock_guard lock(mutex_);
        std::vector<int> peers;
        for (const auto& [key, unused] : channels_)
            if (static_cast<int>(key & 0xffffffffu) == rank) peers.push_back(static_cast<int>(key >> 32));
        return peers;
    }

    [[noreturn, gnu::cold]] void throw_failure(int rank, const char* during) {
        const std::lock_guard lock(mutex_);
        const std::string place = detail::text({during, ": rank ", rank, " of ", size_, " stops: "});
        if (failure_->code == errc::timeout) throw error(errc::timeout, place + failure_->why);
        throw error(errc::peer_failed, detail::text({place, "rank ", failure_->rank, " failed: ", failure_->why}));
    }

    /// Who waits for whom, a line for each rank.
    [[nodiscard, gnu::cold]] std::string waiting_table() {
        std::string table;
        for (int r = 0; r < size_; ++r) {
            auto& b = board(r);
            table += detail::text({"\n  rank ", r});
            if (const int peer = b.waits_for.load(); peer >= 0)
                table += detail::text({" waits for rank ", peer, " in ", b.what.load(), ", round ", b.round.load() + 1,
                                       " of ", b.rounds.load()});
            else
                table += b.departed.load() ? " has returned" : " is not waiting in a collective";
        }
        return table;
    }

    int size_;
    int processors_;
    thread_tuning tuning_;
    std::unique_ptr<detail::rank_board[]> boards_;
    std::unique_ptr<detail::announcements[]> announced_;
    std::atomic<bool> failed_{false};
    std::mutex mutex_;
    std::optional<failure> failure_;
    std::unordered_map<std::uint64_t, std::unique_ptr<detail::channel>> channels_;
};

/// One rank's end of a `thread_world`. Models `communicator`; used by one thread at a time.
class thread_communicator : public transport_defaults {
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
        if (world_->failed_.load(std::memory_order_relaxed)) world_->throw_failure(rank_, what.what);
        const lane first = next_lane_;
        next_lane_ += lanes;
        world_->announced(rank_).write(first, lanes, what);
        return first;
    }
    void announce(lane first, unsigned lanes, const signature& what) noexcept {
        world_->announced(rank_).write(first, lanes, what);
    }
    [[nodiscard]] std::optional<signature> announced(int peer, lane on) const noexcept {
        return world_->announced(peer).find(on);
    }
    [[nodiscard]] int processors() const noexcept { return world_->processors_; }
    [[nodiscard]] bool lends(std::size_t bytes, bool copyable) const noexcept {
        return !copyable || bytes > world_->tuning_.slot_bytes;
    }

    /// So that who asks `done()` again and again, and never waits, hears of a failure.
    void progress() const {
        if (world_->failed_.load(std::memory_order_relaxed)) [[unlikely]]
            world_->throw_failure(rank_, "collective");
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
        drain();
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
    bool post_in_slot(link& l, detail::cell& c, const outgoing& message);
    static void post_loan(detail::cell& c, const outgoing& message) noexcept;
    [[nodiscard]] bool has_cell(link& l) noexcept;
    bool next_arrival(int from, lane on, arrival_type& message);
    [[gnu::cold]] bool take_early(link& l, lane on, arrival_type& message);
    [[gnu::cold]] void keep_for_later(link& l, detail::cell& c);
    void take(arrival_type& a, link& l, detail::cell& c) noexcept;
    void free_slot(link& l, std::uint32_t slot_number) noexcept;
    [[gnu::cold]] void drain();

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
        slot_ = other.slot_;
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
            case detail::carriage::in_slot: home_->free_slot(*link_, slot_); break;
            case detail::carriage::owned: ::operator delete(packed_, std::align_val_t{detail::slot_alignment}); break;
            case detail::carriage::lent:
                if (!touched_) break;  // never delivered: its world is broken, and its sender may be gone
                loan_.lent->fetch_sub(1, std::memory_order_release);
                home_->untouch();
                home_->ring(peer_);
                break;
            default: break;
        }
    }
    /// Gives the slot back and keeps a copy: for a message that has come too early.
    void own() {
        if (how_ != detail::carriage::in_slot) return;
        auto* const copy = static_cast<std::byte*>(::operator new(bytes_, std::align_val_t{detail::slot_alignment}));
        std::memcpy(copy, packed_, bytes_);
        home_->free_slot(*link_, slot_);
        packed_ = copy;
        how_ = detail::carriage::owned;
    }

    detail::carriage how_ = detail::carriage::nothing;
    bool touched_ = false;
    std::uint32_t signature_ = 0;
    std::uint32_t slot_ = 0;
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
    std::uint32_t sent = 0, sent_taken = 0;        // messages of ours, and how many the peer has taken
    std::uint32_t slots_sent = 0, slots_free = 0;  // slots that we filled, and how many the peer has freed
    std::uint32_t received = 0;
    std::uint32_t outdated = 0;                // cells to come that may tell less than the counters told us
    std::uint32_t freed = 0, freed_ahead = 0;  // slots given back in order, and a mask of those behind a gap
    std::vector<early_arrival> early;          // arrived before their lane asked for them
};

inline thread_communicator::thread_communicator(thread_world& world, int rank)
    : world_(&world), rank_(rank), size_(world.size()), exceptions_(std::uncaught_exceptions()) {}

inline thread_communicator::~thread_communicator() {
    background_.end();
    depart();
}

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
    if (l.sent - l.sent_taken < detail::cells_of_a_channel) return true;
    l.sent_taken = l.out->taken.load(std::memory_order_acquire);
    l.outdated = detail::cells_of_a_channel;
    return l.sent - l.sent_taken < detail::cells_of_a_channel;
}

inline bool thread_communicator::try_post(int to, lane on, const outgoing& message) {
    link& l = link_to(to);
    if (!has_cell(l)) return false;
    detail::cell& c = l.out->cells[l.sent % detail::cells_of_a_channel];
    const bool in_cell =
        message.copyable && message.bytes <= detail::inline_bytes && message.alignment <= detail::inline_alignment;
    const bool in_slot = !in_cell && !lends(message.bytes, message.copyable);
    if (in_cell)
        post_in_cell(c, message);
    else if (!in_slot)
        post_loan(c, message);
    else if (!post_in_slot(l, c, message))
        return false;
    c.on = on;
    c.signature = message.signature;
    c.taken = static_cast<std::uint8_t>(l.received);
    c.freed = static_cast<std::uint8_t>(l.freed);
    c.sequence.store(++l.sent, std::memory_order_release);
    ring(to);
    if (!in_cell && !in_slot) {  // a rank that leaves looks for loans after saying so; one of the two sees the other
        std::atomic_thread_fence(std::memory_order_seq_cst);
        const bool left_there = has_departed(to) && l.out->taken.load(std::memory_order_acquire) != l.sent;
        if (left_there) throw_departed(to, "collective");
    }
    return true;
}

inline void thread_communicator::post_in_cell(detail::cell& c, const outgoing& message) noexcept {
    c.how = detail::carriage::in_cell;
    c.length = static_cast<std::uint8_t>(message.bytes);
    detail::pack(message.parts, message.alignment, c.payload);
}

inline bool thread_communicator::post_in_slot(link& l, detail::cell& c, const outgoing& message) {
    if (l.slots_sent - l.slots_free == detail::slots_of_a_channel) {
        l.slots_free = l.out->freed.load(std::memory_order_acquire);
        l.outdated = detail::cells_of_a_channel;
        if (l.slots_sent - l.slots_free == detail::slots_of_a_channel) return false;
    }
    const std::size_t slot_bytes = world_->tuning_.slot_bytes;
    if (l.out->slots == nullptr) {
        l.out->memory = std::make_unique<std::byte[]>(slot_bytes * detail::slots_of_a_channel + 4096);
        void* first = l.out->memory.get();
        std::size_t room = slot_bytes * detail::slots_of_a_channel + 4096;
        l.out->slots = static_cast<std::byte*>(std::align(4096, slot_bytes * detail::slots_of_a_channel, first, room));
    }
    std::byte* const slot = l.out->slots + l.slots_sent % detail::slots_of_a_channel * slot_bytes;
    detail::pack(message.parts, message.alignment, slot);
    const std::size_t bytes = message.bytes;
    c.how = detail::carriage::in_slot;
    std::memcpy(c.payload, &slot, sizeof slot);
    std::memcpy(c.payload + sizeof slot, &bytes, sizeof bytes);
    std::memcpy(c.payload + sizeof slot + sizeof bytes, &l.slots_sent, sizeof l.slots_sent);
    ++l.slots_sent;
    return true;
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
    if (l.outdated > 0) {
        --l.outdated;
    } else {  // in order, so never behind what we know, and never ahead by more than what is in flight
        l.sent_taken += static_cast<std::uint8_t>(c.taken - static_cast<std::uint8_t>(l.sent_taken));
        l.slots_free += static_cast<std::uint8_t>(c.freed - static_cast<std::uint8_t>(l.slots_free));
    }
    if (c.how == detail::carriage::in_cell) {
        a.bytes_ = c.length;
        arrival_type::copy_cell(a.here_, c.payload, c.length);
    } else if (c.how == detail::carriage::in_slot) {
        std::memcpy(&a.packed_, c.payload, sizeof a.packed_);
        std::memcpy(&a.bytes_, c.payload + sizeof a.packed_, sizeof a.bytes_);
        std::memcpy(&a.slot_, c.payload + sizeof a.packed_ + sizeof a.bytes_, sizeof a.slot_);
    } else {
        std::memcpy(&a.loan_, c.payload, sizeof a.loan_);
        std::memcpy(&a.bytes_, c.payload + sizeof a.loan_, sizeof a.bytes_);
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
        detail::cell& c = l.in->cells[l.received % detail::cells_of_a_channel];
        if (c.sequence.load(std::memory_order_acquire) != l.received + 1) return false;
        if (c.on != on) [[unlikely]] {
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
    l.early.back().message.own();
}

template <class Sink>
bool thread_communicator::try_receive(int from, lane on, Sink&& sink) {
    arrival_type message;
    if (!next_arrival(from, on, message)) return false;
    sink(std::move(message));
    return true;
}

/// Slots come back in any order; the sender is told of them in the order in which it filled them.
inline void thread_communicator::free_slot(link& l, std::uint32_t slot_number) noexcept {
    l.freed_ahead |= 1u << (slot_number - l.freed);
    while (l.freed_ahead & 1u) {
        l.freed_ahead >>= 1;
        ++l.freed;
    }
    l.in->freed.store(l.freed, std::memory_order_release);
    ring(l.peer);
}

/// Takes whatever has arrived, so that no peer is stuck for want of a cell. Only worth the time when nothing else
/// moves.
inline void thread_communicator::drain() {
    for (auto& l : links_)
        for (;;) {
            detail::cell& c = l->in->cells[l->received % detail::cells_of_a_channel];
            if (c.sequence.load(std::memory_order_acquire) != l->received + 1) break;
            keep_for_later(*l, c);
        }
}

/// Spins for a moment, or until the next message of `peer` is in: cheaper than asking the whole operation each time.
inline int thread_communicator::look_out_for(int peer) {
    constexpr int turns = 32;
    if (peer < 0) {
        detail::relax();
        return 1;
    }
    link& l = link_to(peer);
    const auto& sequence = l.in->cells[l.received % detail::cells_of_a_channel].sequence;
    for (int i = 0; i < turns; ++i) {
        if (sequence.load(std::memory_order_acquire) == l.received + 1) break;
        detail::relax();
    }
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
    bool done = false;
    for (int turn = 0; !done; ++turn) {
        if (turn < world_->tuning_.yields) {
            std::this_thread::yield();
            done = work.poll();
            if (!done && turn % 16 == 0) {
                drain();
                done = check(work, deadline) || work.poll();
            }
            continue;
        }
        const auto news = [&] {
            drain();
            done = work.poll();
            if (!done) {
                publish(work.blocked_on());
                work.check();
            }
            return done || world_->failed_.load(std::memory_order_seq_cst);
        };
        auto until = steady_clock::now() + seconds(1);
        if (deadline) until = std::min(until, *deadline);
        world_->board(rank_).bell.sleep(news, until);
        if (!done) done = work.poll() || check(work, deadline);
    }
    publish({});
}

/// Throws when waiting is in vain; true when the work turned out to be done.
template <pending_work Work>
bool thread_communicator::check(Work& work, std::optional<std::chrono::steady_clock::time_point> deadline) {
    const waiting where = work.blocked_on();
    if (world_->failed_.load(std::memory_order_acquire)) world_->throw_failure(rank_, where.what);
    if (where.peer >= 0 && has_departed(where.peer)) {
        drain();  // its last messages may have come before it left
        if (work.poll()) return true;
        if (work.blocked_on().peer == where.peer) throw_departed(where.peer, where.what);
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
    throw error(errc::timeout, detail::text({where.what, ": ", why}));
}

/// Called from a handler, while the exception that is the cause can be looked at.
inline void thread_communicator::abandon() noexcept {
    std::string why = "an exception";
    errc code = errc::peer_failed;
    try {
        if (std::current_exception()) throw;
    } catch (const error& e) {
        why = e.what();
        code = e.code();
    } catch (const std::exception& e) {
        why = e.what();
    } catch (...) {
    }
    world_->fail(rank_, code, why);
    for (int r = 0; r < size_; ++r)
        while (r != rank_ && world_->board(r).touching.load(std::memory_order_seq_cst) != 0) std::this_thread::yield();
}

inline void thread_communicator::depart() noexcept {
    if (std::uncaught_exceptions() > exceptions_) world_->fail(rank_, errc::peer_failed, "it was left by an exception");
    world_->board(rank_).departed.store(true, std::memory_order_seq_cst);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    for (const int peer : world_->peers_that_talk_to(rank_)) static_cast<void>(link_to(peer));
    drain();
    for (auto& l : links_)
        for (auto& e : l->early)
            if (e.message.how_ == detail::carriage::lent)
                world_->fail(rank_, errc::peer_failed,
                             detail::text({"it returned although rank ", l->peer, " waits for it"}));
    for (int r = 0; r < size_; ++r) ring(r);
}

static_assert(communicator<thread_communicator>);

/// Calls `fn(comm)` on `size` threads, one for each rank, and returns when all have returned. When a rank throws, all
/// others are released with `errc::peer_failed`, and the exception that was the cause is thrown again here.
template <std::invocable<thread_communicator&> Fn>
void run(int size, Fn&& fn, const thread_tuning& tuning = {}) {
    thread_world world(size, tuning);
    std::vector<std::exception_ptr> thrown(static_cast<std::size_t>(size));
    const auto give_up = [&](int rank, const char* why) {
        thrown[static_cast<std::size_t>(rank)] = std::current_exception();
        world.fail(rank, errc::peer_failed, why);
    };
    const auto body = [&](int rank) {
        try {
            thread_communicator comm = world.communicator(rank);
            try {
                fn(comm);
            } catch (const std::exception& e) {
                give_up(rank, e.what());
            } catch (...) {
                give_up(rank, "an exception");
            }
        } catch (const std::exception& e) {
            give_up(rank, e.what());
        }
    };
    std::vector<std::thread> threads;
    try {
        threads.reserve(static_cast<std::size_t>(size));
        for (int r = 0; r < size; ++r) threads.emplace_back(body, r);
    } catch (const std::exception& e) {  // no memory, or no more threads: the ranks that run wait for the others
        give_up(static_cast<int>(threads.size()), e.what());
    }
    for (auto& t : threads) t.join();
    if (const int cause = world.broken_by(); cause >= 0)
        std::swap(thrown.front(), thrown[static_cast<std::size_t>(cause)]);
    for (const auto& each : thrown)
        if (each) std::rethrow_exception(each);
}

}  // namespace allfold
