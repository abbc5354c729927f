// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "allfold/error.hpp"
#include "allfold/schedule/step.hpp"
#include "allfold/transport/background.hpp"
#include "allfold/transport/communicator.hpp"
#include "allfold/transport/detail/bulletin.hpp"
#include "allfold/transport/detail/cause.hpp"
#include "allfold/transport/detail/doorbell.hpp"
#include "allfold/transport/detail/notice_board.hpp"
#include "allfold/transport/detail/rank_board.hpp"
#include "allfold/transport/detail/rank_names.hpp"
#include "allfold/transport/detail/thread_arrival.hpp"
#include "allfold/transport/detail/thread_link.hpp"
#include "allfold/transport/detail/thread_waiting.hpp"
#include "allfold/transport/rank_list.hpp"
#include "allfold/transport/team.hpp"
#include "allfold/transport/thread_world.hpp"

/// @file
/// One rank's end of a group of threads.
///
/// A message to many ranks lies on the sender's notice board (detail/notice_board.hpp); one to all ranks of a small
/// group, in a repeated call, lies on its bulletin (detail/bulletin.hpp). Two ranks that talk to each other have one
/// channel in each direction: a ring of cells, each two cache lines with a sequence number in front. Small messages
/// travel in the cell itself, behind the number that the receiver polls: one cache-line transfer. Medium ones are
/// copied into a buffer of the channel, so that the lines of a user's buffer never move to another core. Large ones,
/// and objects, are lent: the cell holds the addresses of the sender's parts, and the receiver works on them in place.
/// If a peer's core is far away, as measured now and then, long messages are copied in preference to being lent, on
/// some processors with streaming stores, which bypass all caches (detail/distance.hpp). Each message also reports what
/// its sender has consumed of the opposite channel, so that an exchange needs no acknowledgement of its own.

namespace allfold {

/// One rank's end of a `thread_world`. Models `communicator`; used by one thread at a time.
class thread_communicator : public transport_defaults {
  public:
    static constexpr bool shares_memory = true;
    static constexpr bool has_notices = true;
    static constexpr bool has_short_path = true;
    using arrival_type = detail::thread_arrival;

    thread_communicator(const thread_communicator&) = delete;
    thread_communicator& operator=(const thread_communicator&) = delete;
    ~thread_communicator() {
        background_.end();
        depart();
    }

    [[nodiscard]] int rank() const noexcept { return rank_; }
    [[nodiscard]] int size() const noexcept { return size_; }
    [[nodiscard]] allfold::background& background() noexcept { return background_; }

    lane open(const signature& what, unsigned lanes) {
        board_.bell.bind_to_this_thread();
        const lane first = take_lanes(lanes, what.what);
        announce(first, lanes, what);
        return first;
    }
    void announce(lane first, unsigned lanes, const signature& what) noexcept {
        latest_call_ = what.what;
        world_.announced(rank_).write(first, lanes, what);
    }
    [[nodiscard]] static constexpr lane restart_lane(lane first, unsigned lanes) noexcept {
        return detail::restart_lane_of(first, lanes);
    }
    [[nodiscard]] std::optional<signature> announced(int peer, lane on) const noexcept {
        return world_.announced(peer).find(on);
    }
    [[nodiscard]] std::uint32_t announced_hash(int peer, lane on) const noexcept {
        return world_.announced(peer).find_hash(on);
    }
    [[nodiscard]] int processors() const noexcept { return world_.processors_; }
    [[nodiscard]] bool is_far(int peer, std::size_t bytes) { return with(peer).link.is_far(bytes); }
    [[nodiscard]] bool others_were_far() {
        if (size_ == 2) return with(1 - rank_).link.was_far();
        return bulletins_.is_there() && world_.bulletins()[static_cast<std::size_t>(rank_)].was_far();
    }
    [[nodiscard]] bool others_are_far(std::size_t bytes) {
        if (size_ == 2) return is_far(1 - rank_, bytes);
        return bulletins_.is_there() && readers_are_far(world_.bulletins(), bytes);
    }
    [[nodiscard]] bool lends(std::size_t bytes, bool copyable) const noexcept {
        return !copyable || bytes > world_.tuning_.eager_bytes;
    }

    lane open_again(const signature& what, std::uint32_t) { return take_lanes(1, what.what); }
    void reopen(lane, const signature& what) { require_open(what.what); }
    void announce_again(lane on, const signature& what, std::uint32_t hash) noexcept {
        world_.announced(rank_).write_again(on, what, hash);
    }

    /// Lets a rank that polls `done()` and never waits notice a failure, and keeps it from blocking others.
    [[gnu::always_inline]] void progress() {
        if (has_failed(std::memory_order_relaxed)) [[unlikely]]
            throw_failure(latest_call_);
        answer_calls();
    }
    bool try_post(int to, lane on, const outgoing& message);
    [[nodiscard]] bool posts_notices(int readers) const noexcept {
        return reads_notices_ && readers >= world_.tuning_.notice_readers;
    }
    bool try_post_notice(const peers& to, lane on, const outgoing& message, std::span<const std::size_t> ends);
    [[nodiscard]] int slowest_reader() const noexcept {
        return world_.notices(rank_).slowest_reader(world_.boards_.data());
    }
    template <class Sink>
    bool try_receive(int from, lane on, Sink&& sink) {
        if (!has_news_of(from)) return false;
        arrival_type message;
        if (!next_arrival(from, on, message)) return false;
        sink(std::move(message));
        return true;
    }
    /// Posts a message that is copied: `write(memory)` writes it where it will be read. Returns false if it has to be
    /// posted the general way. `waits`: this rank posts nothing more before it waits.
    template <class Write>
    [[nodiscard, gnu::always_inline]] bool post_copy(int to, lane on, bool unordered, std::uint32_t signature,
                                                     std::size_t bytes, bool waits, const Write& write) {
        peer_state* const known = by_rank_[static_cast<std::size_t>(to)].get();
        return known != nullptr && (known->refused_in == 0 || known->refused_in != background_.pass()) &&
               known->link.post_copy({on, unordered}, signature, bytes, waits, write);
    }
    /// Posts an unordered message of this length that is copied: `write(memory)` writes it where it will be read.
    /// Returns false if it has to be posted the general way.
    template <class Write>
    [[nodiscard, gnu::always_inline]] bool write_copied(int to, lane on, std::uint32_t signature, std::size_t bytes,
                                                        const Write& write) {
        return with(to).link.write_copied({on, true}, signature, bytes, write);
    }
    /// Looks, for a moment or once, for the next message from a rank, and where it lies; false if it has not arrived,
    /// belongs to another lane, or lies where it cannot be left in place.
    [[nodiscard]] bool find_in_place(int from, lane on, std::size_t, message_in_place& here, bool waits) noexcept {
        peer_state* const known = by_rank_[static_cast<std::size_t>(from)].get();
        if (known == nullptr || known->early.count() != 0) [[unlikely]]
            return false;
        if (bulletins_.is_there()) return find_in_either(known->link, on, here, waits);
        if (waits && !known->link.has_next()) {
            known->link.prepare_buffer();
            poll_until([&] { return known->link.has_next(); });
        }
        if (!known->link.has_next() || !known->link.look_at_next(on, here)) return false;
        if (!waits) known->link.fetch_one_after();
        return true;
    }
    /// Looks for a moment for the next message from a rank. If it is as expected, calls `use(data)` where it lies and
    /// then releases it. False if it is not as expected or has not arrived.
    template <class Use>
    [[nodiscard, gnu::always_inline]] bool use_in_place(int from, lane on, std::uint32_t signature, std::size_t bytes,
                                                        Use use) {
        peer_state* const known = by_rank_[static_cast<std::size_t>(from)].get();
        if (known == nullptr || known->early.count() != 0 || bulletins_.is_there()) [[unlikely]]
            return false;
        detail::thread_link& link = known->link;
        if (!link.has_next()) {
            if (world_.tuning_.spins == 0) return false;
            link.prepare_buffer();
            link.poll_briefly();
        }
        return link.use_next(on, signature, bytes, use);
    }
    /// Releases the message that `find_in_place` has found.
    void take_in_place(int from) noexcept {
        if (bulletins_.is_there() && bulletins_.has_found(from)) return bulletins_.take(from);
        by_rank_[static_cast<std::size_t>(from)]->link.take_next();
    }
    /// Calls `use(message)` for each message on a lane that has arrived from a rank, and then releases it, as long as
    /// they lie where they can be left in place.
    template <class Use>
    void use_arrived(int from, lane on, std::size_t min_bytes, Use use) {
        peer_state* const known = by_rank_[static_cast<std::size_t>(from)].get();
        message_in_place here{};
        if (bulletins_.is_there() || known == nullptr) [[unlikely]] {
            for (; find_in_place(from, on, min_bytes, here, false); take_in_place(from)) use(here);
            return;
        }
        detail::thread_link& link = known->link;
        while (known->early.count() == 0 && link.has_next() && link.look_at_next(on, here)) {
            link.fetch_one_after();
            use(here);
            link.take_next();
        }
    }
    /// Posts the first message of this rank on a lane, copied if it may be, to all others at once; false if it has to
    /// be posted to each of them separately.
    [[nodiscard]] bool post_to_all(lane on, const outgoing& message) {
        const std::span<detail::bulletin> all = world_.bulletins();
        const auto self = static_cast<std::size_t>(rank_);
        if (all.empty() || !all[self].has_room(all, self)) return false;
        const bool is_lent = all[self].post(on, message, size_ - 1, streams_to_readers(all, message.bytes));
        ring_all();
        if (is_lent) require_readers();
        return true;
    }
    /// The same with a message for each of them, all copied: `write(message, memory)` writes each one of a list.
    /// Declines if all would fit into cells, or if they are long in total. P = 8 on two cores, relative to channels:
    /// reduce_scatter and all_to_all of 64 bytes take 1.1x and 1.3x the time, of 1 KiB 0.86x and 0.91x, of 16 KiB
    /// 0.98x, of 256 KiB 1.1x.
    template <class Messages, class Write>
    [[nodiscard]] bool post_to_each(lane on, std::uint32_t signature, const Messages& to, Write write) {
        constexpr std::size_t max_bytes = std::size_t{128} << 10;
        const std::span<detail::bulletin> all = world_.bulletins();
        const auto self = static_cast<std::size_t>(rank_);
        std::size_t bytes = 0, longest = 0;
        for (const auto& each : to) {
            bytes += each.bytes;
            longest = std::max(longest, each.bytes);
        }
        if (all.empty() || longest <= detail::inline_bytes || bytes > max_bytes) return false;
        if (!all[self].has_room(all, self)) return false;
        all[self].post_each(on, signature, to, streams_to_readers(all, bytes), write);
        ring_all();
        return true;
    }
    /// Looks for a moment whether all others have posted the expected message this way; `data`: where each lies, rank
    /// by rank.
    [[nodiscard]] bool find_all_in_place(lane on, std::uint32_t signature, std::size_t bytes,
                                         std::byte** data) noexcept {
        if (!bulletins_.is_there()) return false;
        const auto ranks = static_cast<std::size_t>(size_);
        std::size_t sender = 0;
        const auto are_in = [&] {
            sender = bulletins_.find_oldest(sender, on, signature, bytes, data);
            return sender == ranks;
        };
        if (!are_in()) poll_until([&] { return are_in() || is_in_channel(static_cast<int>(sender)); });
        return sender == ranks;
    }
    void take_all_in_place() noexcept { bulletins_.take_oldest_of_all(); }
    /// Brackets reads from memory of another rank, which waits until it is notified that they are over. `begin_to_read`
    /// throws if a rank has failed.
    void begin_to_read() { borrow(); }
    void end_reading() noexcept { borrower_.end(); }
    template <pending_work Work>
    void wait(Work& work, detail::wait_deadline deadline) {
        detail::wait(*this, board_, world_.tuning_, work, deadline);
    }
    // Called from a handler, while the exception that is the cause can be inspected.

    void announce_failure() noexcept { world_.fail(rank_, detail::current_cause()); }
    void abandon() noexcept;

    [[nodiscard]] static bool waits_to_form() noexcept { return false; }
    [[nodiscard]] team<thread_communicator> form_team(const rank_list& members) { return form(members, true); }
    /// Forms the part in this process of a team that also has members in others; the relay checks whether their lists
    /// agree.
    [[nodiscard]] team<thread_communicator> form_part(const rank_list& members) { return form(members, false); }

    /// What errors are to call its ranks, which are part of a larger communicator.
    void name_ranks(detail::rank_names names) { names_ = std::move(names); }

    // Called by `wait`; some also through `look_around`, by a rank that waits on several transports at once.

    /// Throws if waiting is futile, and returns true if the work turns out to be done.
    template <pending_work Work>
    bool look_around(Work& work, detail::wait_deadline deadline) {
        return check(work, deadline);
    }
    template <pending_work Work>
    bool check(Work& work, detail::wait_deadline deadline);
    int poll_briefly(int peer);
    void answer_calls() {
        if (board_.is_called.load(std::memory_order_relaxed)) [[unlikely]]
            take_in_urgent();
    }
    [[nodiscard]] bool has_failed(std::memory_order order = std::memory_order_seq_cst) const noexcept {
        return world_.failure_.has_happened(order);
    }

  private:
    friend class thread_world;

    [[nodiscard]] team<thread_communicator> form(const rank_list& members, bool is_all);

    void require_open(const char* what) {
        latest_call_ = what;
        if (has_failed(std::memory_order_relaxed)) [[unlikely]]
            throw_failure(what);
        answer_calls();
    }
    lane take_lanes(unsigned lanes, const char* what) {
        require_open(what);
        const lane first = detail::first_of_lanes(next_lane_, lanes);
        next_lane_ = first + lanes;
        return first;
    }

    /// What this rank keeps about one peer.
    struct peer_state {
        detail::thread_link link;
        detail::early_arrivals early{};
        peer_state* next = nullptr;
        std::uint64_t refused_in = 0;  // the latest pass over the operations in flight in which no room was found
        lane refused = 0;              // the lane that found none

        void keep_arrived() {
            while (link.has_next()) early.keep_next(link);
        }
        void keep_urgent() {
            while (link.is_urgent() && link.has_next()) early.keep_next(link);
        }
    };

    thread_communicator(thread_world& world, int rank)
        : world_(world),
          board_(world.board(rank)),
          rank_(rank),
          size_(world.size()),
          exceptions_(std::uncaught_exceptions()),
          borrower_(board_.touching),
          reads_notices_(world.notices_.size() != 0),
          passed_(reads_notices_ ? world.count() : 0),
          bulletins_(world.bulletins(), rank),
          by_rank_(world.count()) {
        for (std::uint32_t& each : passed_) each = 0;
    }

    [[nodiscard]] peer_state& with(int peer) {
        const auto& known = by_rank_[static_cast<std::size_t>(peer)];
        return known ? *known : connect(peer);
    }
    [[gnu::cold]] peer_state& connect(int peer);
    /// The same for a rank that has nothing to send. If there are notices, a peer may have no channel: null.
    [[nodiscard]] peer_state* find_peer(int peer) {
        const auto& known = by_rank_[static_cast<std::size_t>(peer)];
        if (known) [[likely]]
            return known.get();
        if (!reads_notices_) return &connect(peer);
        connect_new_peers();
        return known.get();
    }
    void connect_new_peers() {
        const std::uint32_t connections = board_.connections.load(std::memory_order_acquire);
        if (std::exchange(connections_seen_, connections) == connections) return;
        for (int peer = 0; peer < size_; ++peer)
            if (!by_rank_[static_cast<std::size_t>(peer)] && world_.has_channel_between(peer, rank_))
                static_cast<void>(connect(peer));
    }

    /// The same if a message may arrive in a channel or on a bulletin.
    [[nodiscard, gnu::noinline]] bool find_in_either(const detail::thread_link& link, lane on, message_in_place& here,
                                                     bool waits) noexcept {
        const detail::cell* found = nullptr;
        const auto is_in = [&] {
            found = bulletins_.find(link.peer(), on);
            return found != nullptr || link.has_next();
        };
        if (!is_in() && waits) poll_until(is_in);
        if (found == nullptr && link.has_next()) found = bulletins_.find(link.peer(), on);  // it may be older
        if (found != nullptr) return bulletins_.locate(*found, here);
        return link.has_next() && link.look_at_next(on, here);
    }
    [[nodiscard]] bool readers_are_far(std::span<detail::bulletin> all, std::size_t bytes) const noexcept {
        const auto self = static_cast<std::size_t>(rank_);
        return all[self].is_far(all, self, bytes, world_.far_);
    }
    [[nodiscard]] bool streams_to_readers(std::span<detail::bulletin> all, std::size_t bytes) const noexcept {
        return readers_are_far(all, bytes) && bytes >= world_.far_.min_streamed;
    }
    void ring_all() const noexcept {
        const detail::rank_board* const end = world_.boards_.data() + size_;
        for (const detail::rank_board* each = world_.boards_.data(); each != end; ++each) each->bell.ring();
    }
    [[nodiscard]] bool is_in_channel(int from) const noexcept {
        const peer_state* const known = by_rank_[static_cast<std::size_t>(from)].get();
        return known != nullptr && known->link.has_next();
    }
    /// Spins for a moment; where ranks share CPUs it yields instead, since the others must run.
    template <class Look>
    void poll_until(Look is_in) const noexcept {
        constexpr int yields = 32;  // P = 4 and 8 on two cores: 0.6x to 0.8x the time of not yielding
        if (world_.tuning_.spins > 0)
            for (int i = 0; i < detail::thread_link::poll_spins && !is_in(); ++i) detail::relax();
        else
            for (int turn = 0; turn < yields && !is_in(); ++turn) std::this_thread::yield();
    }
    /// If there was no room for an older operation there is none for a later one in the same pass, so the later one
    /// does not try: with thousands in flight most would be in the way, and each pass would look at all of them.
    [[nodiscard]] bool must_wait_for_older(const peer_state& peer, lane on, const outgoing& message) const noexcept {
        return peer.refused_in == background_.pass() && peer.refused_in != 0 && !message.unordered &&
               detail::is_later(on, peer.refused);
    }
    void note_refusal(peer_state& peer, lane on, const outgoing& message) const noexcept {
        if (message.unordered || background_.pass() == 0) return;
        if (peer.refused_in == background_.pass() && detail::is_later(on, peer.refused)) return;
        peer.refused_in = background_.pass();
        peer.refused = on;
    }
    /// Waiting ranks call this most of the time.
    [[nodiscard]] bool has_news_of(int peer) {
        if (has_notice_of(peer) || (bulletins_.is_there() && bulletins_.has_news(peer))) return true;
        const peer_state* const asked = find_peer(peer);
        return asked != nullptr && (asked->link.has_next() || asked->early.count() != 0);
    }
    [[nodiscard]] bool has_notice_of(int peer) const noexcept {
        return reads_notices_ && world_.notices(peer).has_more_than(passed_[static_cast<std::size_t>(peer)]);
    }
    void require_readers();
    bool next_notice(int from, lane on, arrival_type& message);
    bool next_on_bulletin(int from, lane on, arrival_type& message);
    bool next_arrival(int from, lane on, arrival_type& message);
    void begin_to_use(arrival_type& message, int lender);
    void borrow();
    [[gnu::cold]] void take_in_urgent();
    [[gnu::cold]] void take_in_all() {
        for (peer_state* each = first_; each != nullptr; each = each->next) each->keep_arrived();
    }

    /// A rank that has failed in the background gets its own exception, if it has not had that yet.
    [[noreturn, gnu::cold]] void throw_failure(const char* during) {
        if (background_.untold() && world_.failure_.culprit() == rank_) std::rethrow_exception(background_.untold());
        world_.throw_failure(rank_, names_, during);
    }
    [[noreturn, gnu::cold]] void throw_departed(int peer, const char* during);
    [[noreturn, gnu::cold]] void time_out(const waiting& where);
    void depart() noexcept;
    [[nodiscard]] std::string needed_by(int rank) const noexcept {
        return detail::text_if_possible({"it returned while rank ", names_(rank), " was waiting for it"});
    }

    thread_world& world_;
    detail::rank_board& board_;
    int rank_;
    int size_;
    int exceptions_;
    lane next_lane_ = 0;
    const char* latest_call_ = "collective";
    std::uint64_t teams_ = 0;  // formed or declined
    detail::borrower borrower_;
    bool reads_notices_;
    detail::heap_array<std::uint32_t> passed_;  // how far it has read each rank's board
    std::uint32_t connections_seen_ = 0;        // how many peers had created a channel to it when it last looked
    detail::bulletin_reader bulletins_;
    detail::heap_array<std::unique_ptr<peer_state>> by_rank_;
    peer_state* first_ = nullptr;  // list of all that it has met, latest first
    int known_ = 0;                // how many those are
    allfold::background background_;
    detail::rank_names names_{size_};
};

inline thread_communicator thread_world::communicator(int rank) {
    if (rank < 0 || rank >= size_)
        throw error(errc::bad_rank, detail::text({"thread_world: rank ", rank, " is not in [0, ", size_, ")"}));
    if (board(rank).is_given.exchange(true))
        throw error(errc::bad_argument, detail::text({"thread_world: rank ", rank,
                                                      " has already been given its communicator, which "
                                                      "numbers messages from the first: create another world"}));
    return {*this, rank};
}

inline team<thread_communicator> thread_communicator::form(const rank_list& members, bool is_all) {
    signature what;
    what.what = "subset";
    what.ranks = static_cast<std::uint32_t>(size_);
    static_cast<void>(open(what, 1));  // another call there is a mismatch
    const std::uint64_t number = ++teams_;
    const int self = members.find(rank_);
    if (self < 0) {
        if (is_all) world_.decline_team(number, rank_);
        return {};
    }
    const std::shared_ptr<thread_world> world = world_.join_team(number, members, rank_, is_all);
    try {
        std::unique_ptr<thread_communicator> own(new thread_communicator(*world, self));
        return {members, world, std::move(own)};
    } catch (...) {
        world->fail(self, detail::current_cause());  // the others count on this rank
        throw;
    }
}

inline thread_communicator::peer_state& thread_communicator::connect(int peer) {
    auto& known = by_rank_[static_cast<std::size_t>(peer)];
    const bool is_first = !world_.has_channel_between(rank_, peer);
    known.reset(new peer_state{{peer, world_.channel_between(rank_, peer), world_.channel_between(peer, rank_),
                                world_.board(peer), world_.tuning_.eager_bytes, world_.far_}});
    if (is_first) world_.board(peer).connections.fetch_add(1, std::memory_order_release);
    known->next = std::exchange(first_, known.get());
    ++known_;
    return *known;
}

inline bool thread_communicator::try_post(int to, lane on, const outgoing& message) {
    using posting = detail::thread_link::posting;
    peer_state& peer = with(to);
    if (must_wait_for_older(peer, on, message)) return false;
    detail::thread_link& link = peer.link;
    const posting done = link.post(on, message);
    if (done == posting::refused)
        note_refusal(peer, on, message);
    else if (peer.refused == on)
        peer.refused_in = 0;
    if (done == posting::lent) {  // a leaving rank looks for loans after announcing that: one of the two sees the other
        std::atomic_thread_fence(std::memory_order_seq_cst);
        if (link.peer_has_departed() && !link.all_is_taken()) throw_departed(to, latest_call_);
    }
    return done != posting::refused;
}

inline bool thread_communicator::try_post_notice(const peers& to, lane on, const outgoing& message,
                                                 std::span<const std::size_t> ends) {
    detail::notice_board& board = world_.notices(rank_);
    const detail::sender of{on, message.unordered};
    detail::notice* const written = board.find_free(of, rank_, size_, world_.boards_.data());
    if (written == nullptr) return false;
    written->write(of, message, ends, to, rank_, world_.tuning_.eager_bytes);
    board.show(*written, rank_, size_);
    std::atomic_thread_fence(std::memory_order_seq_cst);  // as for what is lent in a channel
    const bool is_lent = written->how() == detail::transfer::lent;
    for (int i = 0; i < to.count(rank_, size_); ++i) {
        const int reader = to.at(i, rank_);
        if (is_lent && world_.has_departed(reader) && written->is_unread_by(reader))
            throw_departed(reader, latest_call_);
        world_.board(reader).bell.ring();
    }
    return true;
}

/// For what has just been lent to all: a leaving rank looks for loans after announcing that, as in `try_post`.
inline void thread_communicator::require_readers() {
    const std::span<const detail::bulletin> all = world_.bulletins();
    const auto self = static_cast<std::size_t>(rank_);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    for (int r = 0; r < size_; ++r)
        if (r != rank_ && world_.has_departed(r) && !all[static_cast<std::size_t>(r)].has_taken_all_of(all[self], self))
            throw_departed(r, latest_call_);
}

/// A single function for all types of sinks.
inline bool thread_communicator::next_arrival(int from, lane on, arrival_type& message) {
    if (reads_notices_ && next_notice(from, on, message)) return true;
    if (next_on_bulletin(from, on, message)) return true;
    peer_state* const known = find_peer(from);
    if (known == nullptr) return false;
    peer_state& peer = *known;
    if (peer.early.count() != 0 && peer.early.hand_out(on, message)) [[unlikely]] {
        begin_to_use(message, from);
        return true;
    }
    while (peer.link.has_next()) {
        if (peer.link.next().on == on) [[likely]] {
            if (next_on_bulletin(from, on, message)) return true;  // posted earlier, but not seen until now
            message.take(peer.link);
            begin_to_use(message, from);
            return true;
        }
        if (!peer.link.takes_early(peer.early.count())) return false;
        peer.early.keep_next(peer.link);
    }
    return false;
}

inline bool thread_communicator::next_on_bulletin(int from, lane on, arrival_type& message) {
    const detail::cell* const found = bulletins_.is_there() ? bulletins_.find(from, on) : nullptr;
    if (found == nullptr) return false;
    message.take(bulletins_, from, *found);
    begin_to_use(message, from);
    return true;
}

inline bool thread_communicator::next_notice(int from, lane on, arrival_type& message) {
    detail::notice* const found = world_.notices(from).find(rank_, on, passed_[static_cast<std::size_t>(from)]);
    if (found == nullptr) return false;
    const bool is_lent = found->how() == detail::transfer::lent;
    if (is_lent) borrow();  // the list of parts is lent as well
    message.take(*found, rank_);
    if (is_lent) message.used_by(borrower_, world_.board(from).bell);
    return true;
}

/// A rank that aborts waits for all that use what it has lent; and once the world is broken, lent memory is not used.
inline void thread_communicator::begin_to_use(arrival_type& message, int lender) {
    if (!message.is_lent()) return;
    borrow();
    message.used_by(borrower_, world_.board(lender).bell);
}
inline void thread_communicator::borrow() {
    borrower_.begin();
    if (has_failed()) {
        borrower_.end();
        throw_failure(latest_call_);
    }
}

/// A peer has called: the message that it wants to post is older than those in its cells.
inline void thread_communicator::take_in_urgent() {
    board_.is_called.exchange(false, std::memory_order_acq_rel);
    if (known_ + 1 < size_) connect_new_peers();
    for (peer_state* each = first_; each != nullptr; each = each->next) each->keep_urgent();
}

/// Spins for a moment, or until the next message from `peer` is in, which is cheaper than polling the whole operation
/// each time. Progress on operations in flight counts as spins too: a rank with many of them does not keep a peer that
/// shares its CPU from running for long.
inline int thread_communicator::poll_briefly(int peer) {
    constexpr int turns = detail::thread_link::poll_spins;
    if (peer < 0) {
        detail::relax();
        return 1;
    }
    const peer_state* const known = find_peer(peer);
    if (known != nullptr && bulletins_.is_there())
        for (int i = 0; i < turns && !bulletins_.has_news(peer) && !known->link.has_next(); ++i) detail::relax();
    else if (known != nullptr && !reads_notices_)
        known->link.poll_briefly();
    else
        for (int i = 0; i < turns && !has_notice_of(peer) && !(known != nullptr && known->link.has_next()); ++i)
            detail::relax();
    return turns + static_cast<int>(background_.size());
}

template <pending_work Work>
bool thread_communicator::check(Work& work, detail::wait_deadline deadline) {
    answer_calls();
    const waiting where = work.blocked_on();
    if (has_failed()) throw_failure(where.what);
    if (where.peer >= 0 && world_.has_departed(where.peer)) {
        take_in_all();  // its last messages may have arrived before it left
        if (work.poll()) return true;
        if (work.blocked_on().peer == where.peer) throw_departed(where.peer, where.what);
    }
    work.check();
    if (deadline && std::chrono::steady_clock::now() >= *deadline) time_out(work.blocked_on());
    return false;
}

inline void thread_communicator::throw_departed(int peer, const char* during) {
    if (has_failed()) throw_failure(during);  // before the peer left, and after this rank last checked
    throw error(errc::peer_failed, detail::text({during, ": rank ", names_(rank_), " waits for rank ", names_(peer),
                                                 " of ", names_.size(), ", which has returned without taking part"}));
}

inline void thread_communicator::time_out(const waiting& where) {
    detail::publish(board_, where);
    const std::string why =
        detail::text({"the deadline of rank ", names_(rank_),
                      " passed; state of all ranks:", detail::waiting_table(world_.boards_.data(), size_, names_)});
    world_.fail(rank_, errc::timeout, why);
    throw error(errc::timeout, detail::text({where.what, ": ", why}));
}

inline void thread_communicator::abandon() noexcept {
    constexpr int moment = 64;
    announce_failure();
    for (int r = 0; r < size_; ++r) {
        const std::atomic<int>& touching = world_.board(r).touching;
        for (int turn = 1; r != rank_ && touching.load(std::memory_order_seq_cst) != 0; ++turn) {
            if (turn % moment == 0) background_.drop_elsewhere();
            std::this_thread::yield();
        }
    }
}

inline void thread_communicator::depart() noexcept {
    if (std::uncaught_exceptions() > exceptions_) world_.fail(rank_, detail::unknown_cause());
    board_.departed.store(true, std::memory_order_seq_cst);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    world_.teams_.leave(rank_);
    try {
        connect_new_peers();
        take_in_all();
    } catch (...) {  // no memory: it does not see who waits for it
        world_.fail(rank_, detail::current_cause());
    }
    const auto fail_for = [this](int lender) {  // after a failure, that is why it leaves
        if (!has_failed()) world_.fail(rank_, errc::peer_failed, needed_by(lender));
    };
    for (const peer_state* each = first_; each != nullptr; each = each->next)
        if (each->early.has_loan()) fail_for(each->link.peer());
    for (int r = 0; r < size_; ++r)
        if ((reads_notices_ && world_.notices(r).lends_to(rank_)) ||
            (bulletins_.is_there() && r != rank_ && bulletins_.has_loan_of(r)))
            fail_for(r);
    board_.has_stopped_reading.store(true, std::memory_order_release);
    for (int r = 0; r < size_; ++r) world_.board(r).bell.ring();
}

static_assert(team_forming_communicator<thread_communicator>);

}  // namespace allfold
