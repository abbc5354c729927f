// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "allfold/data/detail/heap_array.hpp"
#include "allfold/error.hpp"
#include "allfold/transport/detail/bulletin.hpp"
#include "allfold/transport/detail/cause.hpp"
#include "allfold/transport/detail/channel.hpp"
#include "allfold/transport/detail/distance.hpp"
#include "allfold/transport/detail/notice_board.hpp"
#include "allfold/transport/detail/pending_teams.hpp"
#include "allfold/transport/detail/processors.hpp"
#include "allfold/transport/detail/rank_board.hpp"
#include "allfold/transport/detail/thread_failure.hpp"
#include "allfold/transport/rank_list.hpp"

/// @file
/// What the ranks of a group of threads share.

namespace allfold {

/// The tuning parameters of the thread transport, with the measurements behind each (two cores of one socket).
struct thread_tuning {
    /// Up to here, copying through a buffer beats lending: the sender's lines stay in its own cache.
    std::size_t eager_bytes = std::size_t{32} << 10;
    /// Polls, each with a `pause`, before a waiting rank goes to sleep: 20 to 50 us, more than the 10 to 20 us of a
    /// wake-up.
    int spins = 2000;
    /// Yields before it sleeps, at 0.2 to 0.4 us each. With more ranks than CPUs it does not spin before yielding,
    /// since it is the others that must run.
    int yields = 200;
    /// A message to this many ranks or more is written once, and read there by all of them; with fewer, each rank gets
    /// it through its own channel. This saves memory: the time of all_gather is the same for 64 bytes and half of it
    /// for 4 KiB (two cores, P = 24 to 64); reduce_scatter and all_to_all of 64 bytes take 1.1x to 1.5x the time.
    int notice_readers = 16;
    /// A peer is far away if a line takes longer than this to arrive from its core, as measured now and then: long
    /// messages for it, unless they exceed the caches, are copied rather than read in the sender's memory. If not set:
    /// 85 ns on AMD processors, where this pays; elsewhere no peer is far.
    std::optional<std::chrono::nanoseconds> far_latency{};
    /// Messages for far peers of this length or longer are copied to buffers with streaming stores, which bypass all
    /// caches; none shorter than 2 KiB are. If not set: 512 KiB on AMD Zen 5, where the usual copies of shorter ones
    /// take 0.6x to 1.1x the time; otherwise 0, since up to Zen 4 this is several times as fast. (What is staged for
    /// far peers, to be read there, bypasses all caches at any length.)
    std::optional<std::size_t> far_streamed_bytes{};

    friend bool operator==(const thread_tuning&, const thread_tuning&) = default;
};

class thread_communicator;

/// The state shared by the ranks of a group of threads. `run` makes one for you; make one yourself to assign ranks to
/// threads that you already have:
///
///     thread_world world(4);
///     // in thread r, once for each r in [0, 4):
///     thread_communicator comm = world.communicator(r);
///
/// It must outlive its communicators. After a failure it is broken for good: every collective on it throws.
class thread_world {
  public:
    explicit thread_world(int size, const thread_tuning& tuning = {})
        : thread_world(size, detail::usable_processors(), tuning) {}
    thread_world(const thread_world&) = delete;
    thread_world& operator=(const thread_world&) = delete;

    [[nodiscard]] int size() const noexcept { return size_; }
    [[nodiscard]] const thread_tuning& tuning() const noexcept { return tuning_; }
    /// The end of rank `rank`. It can be obtained only once: asking again throws `errc::bad_argument`.
    [[nodiscard]] thread_communicator communicator(int rank);

    /// Breaks the world: every rank that is waiting, or waits later, throws. The first cause is kept.
    void fail(int rank, errc code, std::string why) { fail(rank, detail::cause{.code = code, .why = std::move(why)}); }
    [[gnu::cold]] void fail(int rank, detail::cause&& why) {
        failure_.report(rank, std::move(why));
        teams_.leave_all();
        for (int r = 0; r < size_; ++r) board(r).bell.ring();
    }
    /// The rank that failed first; -1 as long as nothing is broken.
    [[nodiscard]] int broken_by() { return failure_.culprit(); }
    /// What that rank threw; null if unknown.
    [[nodiscard]] std::exception_ptr cause() { return failure_.thrown(); }

  private:
    friend class thread_communicator;

    thread_world(int size, int processors, const thread_tuning& tuning)
        : size_(checked(size)),
          processors_(processors),
          tuning_(tuning),
          far_(tuning.far_latency.value_or(detail::distance::usual_limit()), detail::far_limits::usual_max_bytes(size),
               tuning.far_streamed_bytes.value_or(detail::min_streamed_between_groups())),
          boards_(count()),
          announced_(count()),
          notices_(size > tuning.notice_readers ? count() : 0),
          bulletins_(size > 2 && size <= detail::bulletin::max_ranks && notices_.size() == 0 ? count() : 0),
          channels_(count()) {
        if (size > processors_) tuning_.spins = 0;
        tuning_.far_latency = far_.latency;
        tuning_.far_streamed_bytes = far_.min_streamed;
    }

    [[nodiscard]] static int checked(int size) {
        if (size < 1)
            throw error(errc::bad_argument,
                        detail::text({"thread_world: ", size, " ranks requested, at least 1 is required"}));
        return size;
    }
    [[nodiscard]] std::size_t count() const noexcept { return static_cast<std::size_t>(size_); }
    [[nodiscard]] detail::rank_board& board(int rank) noexcept { return boards_[static_cast<std::size_t>(rank)]; }
    [[nodiscard]] detail::announcements& announced(int rank) noexcept {
        return announced_[static_cast<std::size_t>(rank)];
    }

    [[nodiscard]] detail::notice_board& notices(int rank) noexcept { return notices_[static_cast<std::size_t>(rank)]; }
    [[nodiscard]] std::span<detail::bulletin> bulletins() const noexcept {
        return {bulletins_.data(), bulletins_.size()};
    }
    [[nodiscard]] bool has_departed(int rank) noexcept { return board(rank).departed.load(std::memory_order_acquire); }

    /// The channel between two ranks, created when one of them first asks: memory grows with the number of pairs that
    /// talk.
    [[nodiscard]] detail::channel& channel_between(int from, int to) {
        const std::lock_guard lock(mutex_);
        auto& incoming = channels_[static_cast<std::size_t>(to)];
        if (incoming.size() == 0) incoming = detail::heap_array<std::unique_ptr<detail::channel>>(count());
        auto& found = incoming[static_cast<std::size_t>(from)];
        if (!found) found = std::make_unique<detail::channel>();
        return *found;
    }
    /// Whether that channel exists, created by either of the two.
    [[nodiscard]] bool has_channel_between(int from, int to) {
        const std::lock_guard lock(mutex_);
        const auto& incoming = channels_[static_cast<std::size_t>(to)];
        return incoming.size() != 0 && incoming[static_cast<std::size_t>(from)] != nullptr;
    }
    /// The world of a team; if there are too few CPUs for all ranks, it gets its share of them.
    [[nodiscard]] std::shared_ptr<thread_world> join_team(std::uint64_t number, const rank_list& members, int rank,
                                                          bool is_all) {
        const auto make = [&] {
            const int share = size_ <= processors_ ? processors_ : std::max(1, processors_ * members.size() / size_);
            return std::shared_ptr<thread_world>(new thread_world(members.size(), share, tuning_));
        };
        return teams_.join(
            number, members, rank, is_all, make, [this](int r) { return has_departed(r); },
            [this] { return failure_.has_happened(); });
    }
    void decline_team(std::uint64_t number, int rank) { teams_.decline(number, rank); }
    [[noreturn, gnu::cold]] void throw_failure(int rank, const detail::rank_names& name, const char* during) {
        const bool uses_memory_of_others = board(rank).touching.load(std::memory_order_relaxed) != 0;
        failure_.throw_on(rank, name, during, !uses_memory_of_others,
                          [this](int culprit) { return board(culprit).departed.load(); });
    }

    int size_;
    int processors_;
    thread_tuning tuning_;
    detail::far_limits far_;
    detail::heap_array<detail::rank_board> boards_;
    detail::heap_array<detail::announcements> announced_;
    detail::heap_array<detail::notice_board> notices_;  // none if there are too few ranks
    detail::heap_array<detail::bulletin> bulletins_;    // none if there are too many, or two
    detail::thread_failure failure_;
    detail::pending_teams<thread_world> teams_;
    std::mutex mutex_;
    detail::heap_array<detail::heap_array<std::unique_ptr<detail::channel>>> channels_;  // by receiver and sender
};

}  // namespace allfold
