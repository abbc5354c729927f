// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "allfold/error.hpp"
#include "allfold/transport/background.hpp"
#include "allfold/transport/communicator.hpp"
#include "allfold/transport/detail/bounce.hpp"
#include "allfold/transport/detail/cause.hpp"
#include "allfold/transport/detail/copy.hpp"
#include "allfold/transport/detail/envelope.hpp"

/// @file
/// The transport of docs/adding-a-transport.md: bytes, copied between threads through one mailbox per rank. One mutex
/// guards everything, nothing is lent, and there is always room.

namespace test {

/// What the ranks share. After a failure it is broken for good.
class toy_world {
  public:
    explicit toy_world(int size) : ranks_(static_cast<std::size_t>(size)) {}

  private:
    friend class toy;
    struct letter {
        int from;
        allfold::lane on;
        std::uint32_t signature;
        std::size_t bytes;
        allfold::detail::bounce_buffer memory;
    };
    struct rank_state {
        std::deque<letter> mailbox;
        unsigned news = 0;  // counts events that may end a wait
        std::condition_variable changed;
        allfold::detail::opened_lanes opened;
        bool departed = false;
    };
    struct failure {
        int rank;
        allfold::errc code;
        std::string why;
    };

    [[nodiscard]] rank_state& of(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
    static void wake(rank_state& rank) {
        ++rank.news;
        rank.changed.notify_one();
    }

    std::mutex mutex_;  // guards everything below
    std::vector<rank_state> ranks_;
    std::optional<failure> failure_;
};

/// One rank's end of a `toy_world`. Used by one thread at a time.
class toy : public allfold::transport_defaults {
  public:
    static constexpr bool shares_memory = false;

    class arrival_type {
      public:
        arrival_type() = default;
        [[nodiscard]] std::uint32_t signature() const noexcept { return signature_; }
        [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
        [[nodiscard]] std::byte* packed() const noexcept { return memory_.data(); }
        [[nodiscard]] std::span<const allfold::part> parts() const noexcept { return {}; }

      private:
        friend class toy;
        explicit arrival_type(toy_world::letter&& from)
            : signature_(from.signature), bytes_(from.bytes), memory_(std::move(from.memory)) {}
        std::uint32_t signature_ = 0;
        std::size_t bytes_ = 0;
        allfold::detail::bounce_buffer memory_;
    };

    toy(toy_world& world, int rank) : world_(world), rank_(rank), exceptions_(std::uncaught_exceptions()) {}
    toy(const toy&) = delete;
    toy& operator=(const toy&) = delete;
    ~toy() {
        background_.end();
        if (std::uncaught_exceptions() > exceptions_) fail(allfold::errc::peer_failed, "it exited with an exception");
        const std::lock_guard lock(world_.mutex_);
        world_.of(rank_).departed = true;
        for (auto& each : world_.ranks_) toy_world::wake(each);
    }

    [[nodiscard]] int rank() const noexcept { return rank_; }
    [[nodiscard]] int size() const noexcept { return static_cast<int>(world_.ranks_.size()); }
    [[nodiscard]] allfold::background& background() noexcept { return background_; }
    [[nodiscard]] bool lends(std::size_t, bool) const noexcept { return false; }

    allfold::lane open(const allfold::signature& what, unsigned lanes) {
        const std::lock_guard lock(world_.mutex_);
        latest_call_ = what.what;
        throw_if_broken();
        world_.of(rank_).opened.add(next_lane_, lanes, what);
        return std::exchange(next_lane_, next_lane_ + lanes);
    }
    [[nodiscard]] std::optional<allfold::signature> announced(int peer, allfold::lane on) const {
        const std::lock_guard lock(world_.mutex_);
        const auto* const found = world_.of(peer).opened.find(on);
        return found ? std::optional(found->what) : std::nullopt;
    }
    bool try_post(int to, allfold::lane on, const allfold::outgoing& message) {
        toy_world::letter sent{rank_, on, message.signature, message.bytes,
                               allfold::detail::bounce_buffer(message.bytes)};
        allfold::detail::pack(message.parts, message.alignment, sent.memory.data());
        const std::lock_guard lock(world_.mutex_);
        world_.of(to).mailbox.push_back(std::move(sent));
        toy_world::wake(world_.of(to));
        return true;
    }
    template <class Sink>
    bool try_receive(int from, allfold::lane on, Sink&& sink) {
        arrival_type message;
        {
            const std::lock_guard lock(world_.mutex_);
            auto& mailbox = world_.of(rank_).mailbox;
            auto next = mailbox.begin();
            while (next != mailbox.end() && (next->from != from || next->on != on)) ++next;
            if (next == mailbox.end()) return false;
            message = arrival_type(std::move(*next));
            mailbox.erase(next);
        }
        sink(std::move(message));  // folds, may throw, and may call `announced`: not under the lock
        return true;
    }
    void progress() {
        const std::lock_guard lock(world_.mutex_);
        throw_if_broken();
    }
    template <allfold::pending_work Work>
    void wait(Work& work, std::optional<std::chrono::steady_clock::time_point> deadline) {
        for (;;) {
            const unsigned seen = news();  // what arrives after the poll that misses it keeps this rank awake
            if (work.poll()) return;
            const allfold::waiting where = work.blocked_on();
            const bool gone = has_departed(where.peer);
            progress();  // a rank that fails reports it before it leaves
            if (gone) {  // what it sent before it left has arrived
                if (work.poll()) return;
                if (work.blocked_on().peer == where.peer) throw_departed(where);
            }
            work.check();
            if (deadline && clock::now() >= *deadline) time_out(where);
            sleep(seen, allfold::sleep_limit(work, deadline.value_or(clock::now() + std::chrono::seconds(1))));
        }
    }
    void abandon() noexcept {
        const auto [code, why, is_known, thrown] = allfold::detail::current_cause();
        fail(code, why);
    }

  private:
    using clock = std::chrono::steady_clock;

    void fail(allfold::errc code, const std::string& why) {
        const std::lock_guard lock(world_.mutex_);
        if (!world_.failure_) world_.failure_.emplace(toy_world::failure{rank_, code, why});
        for (auto& each : world_.ranks_) toy_world::wake(each);
    }
    [[nodiscard]] unsigned news() {
        const std::lock_guard lock(world_.mutex_);
        return world_.of(rank_).news;
    }
    void sleep(unsigned seen, clock::time_point until) {
        std::unique_lock lock(world_.mutex_);
        auto& mine = world_.of(rank_);
        mine.changed.wait_until(lock, until, [&] { return mine.news != seen; });
    }
    [[nodiscard]] bool has_departed(int peer) const {
        const std::lock_guard lock(world_.mutex_);
        return peer >= 0 && world_.of(peer).departed;
    }
    void throw_if_broken() const {
        if (!world_.failure_) return;
        const auto& [rank, code, why] = *world_.failure_;
        const std::string me =
            latest_call_ + (": aborted on rank " + std::to_string(rank_) + " of " + std::to_string(size()) + ": ");
        if (code == allfold::errc::timeout) throw allfold::error(code, me + why);
        throw allfold::error(allfold::errc::peer_failed, me + "rank " + std::to_string(rank) + " failed: " + why);
    }
    [[noreturn]] void throw_departed(const allfold::waiting& where) const {
        throw allfold::error(allfold::errc::peer_failed, std::string(where.what) + ": rank " + std::to_string(rank_) +
                                                             " waits for rank " + std::to_string(where.peer) + " of " +
                                                             std::to_string(size()) +
                                                             ", which has returned without taking part");
    }
    [[noreturn]] void time_out(const allfold::waiting& where) {
        const std::string why = "the deadline of rank " + std::to_string(rank_) + " passed; it waits for rank " +
                                std::to_string(where.peer) + " in round " + std::to_string(where.round + 1) + " of " +
                                std::to_string(where.rounds);
        fail(allfold::errc::timeout, why);
        throw allfold::error(allfold::errc::timeout, std::string(where.what) + ": " + why);
    }

    toy_world& world_;
    int rank_;
    int exceptions_;
    allfold::lane next_lane_ = 0;
    const char* latest_call_ = "collective";
    allfold::background background_;
};

static_assert(allfold::communicator<toy>);

}  // namespace test
