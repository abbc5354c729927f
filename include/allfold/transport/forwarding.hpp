// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "allfold/schedule/step.hpp"
#include "allfold/transport/background.hpp"
#include "allfold/transport/communicator.hpp"
#include "allfold/transport/detail/rank_names.hpp"

/// @file
/// What transports built on another one have in common.

namespace allfold {

/// A communicator that forwards every member to another one, including those of `transport_defaults`. A decorator
/// derives from it and hides what it does differently.
template <communicator Comm>
class forwarding {
  public:
    static constexpr bool shares_memory = Comm::shares_memory;
    static constexpr bool has_groups = Comm::has_groups;
    static constexpr bool sleeps = Comm::sleeps;
    static constexpr bool has_notices = Comm::has_notices;
    static constexpr bool has_short_path = false;  // a decorator must see every message
    static constexpr bool has_native = Comm::has_native;
    using arrival_type = typename Comm::arrival_type;
    using native_function = void (*)(forwarding&, const native_operands&);

    explicit forwarding(Comm& base) noexcept : base_(base) {}

    /// The communicator beneath all decorators, which outlives them.
    [[nodiscard]] auto& undecorated() const noexcept {
        if constexpr (requires { base_.undecorated(); })
            return base_.undecorated();
        else
            return base_;
    }

    [[nodiscard]] int rank() const noexcept { return base_.rank(); }
    [[nodiscard]] int size() const noexcept { return base_.size(); }
    [[nodiscard]] allfold::background& background() noexcept { return base_.background(); }
    lane open(const signature& what, unsigned lanes) { return base_.open(what, lanes); }
    void announce(lane first, unsigned lanes, const signature& what) { base_.announce(first, lanes, what); }
    [[nodiscard]] lane restart_lane(lane first, unsigned lanes) { return base_.restart_lane(first, lanes); }
    [[nodiscard]] std::optional<signature> announced(int peer, lane on) const { return base_.announced(peer, on); }
    [[nodiscard]] std::uint32_t announced_hash(int peer, lane on) const { return base_.announced_hash(peer, on); }
    [[nodiscard]] bool lends(std::size_t bytes, bool copyable) const { return base_.lends(bytes, copyable); }
    bool try_post(int to, lane on, const outgoing& message) { return base_.try_post(to, on, message); }
    [[nodiscard]] bool posts_notices(int readers) const
        requires has_notices
    {
        return base_.posts_notices(readers);
    }
    bool try_post_notice(const peers& to, lane on, const outgoing& message, std::span<const std::size_t> ends)
        requires has_notices
    {
        return base_.try_post_notice(to, on, message, ends);
    }
    [[nodiscard]] int slowest_reader() const
        requires has_notices
    {
        return base_.slowest_reader();
    }
    template <class Sink>
    bool try_receive(int from, lane on, Sink&& sink) {
        return base_.try_receive(from, on, std::forward<Sink>(sink));
    }
    template <pending_work Work>
    void wait(Work& work, std::optional<std::chrono::steady_clock::time_point> deadline) {
        base_.wait(work, deadline);
    }
    template <pending_work Work>
        requires outer_communicator<Comm>
    bool look_around(Work& work, std::optional<std::chrono::steady_clock::time_point> deadline) {
        return base_.look_around(work, deadline);
    }
    template <class Work>
    void look_beside(Work& work)
        requires requires(Comm& comm) { comm.look_beside(work); }
    {
        base_.look_beside(work);
    }
    void check_borrower(const waiting& where) { base_.check_borrower(where); }
    void announce_failure() noexcept { base_.announce_failure(); }
    void abandon() noexcept { base_.abandon(); }
    void name_ranks(detail::rank_names names)
        requires requires(Comm& comm) { comm.name_ranks(names); }
    {
        base_.name_ranks(std::move(names));
    }

    [[nodiscard]] int group() const noexcept { return base_.group(); }
    [[nodiscard]] auto& flat()
        requires has_groups
    {
        return base_.flat();
    }
    [[nodiscard]] auto& messages()
        requires has_groups
    {
        return base_.messages();
    }
    void progress() { base_.progress(); }
    [[nodiscard]] int processors() const noexcept { return base_.processors(); }
    [[nodiscard]] bool is_far(int peer, std::size_t bytes) { return base_.is_far(peer, bytes); }
    [[nodiscard]] bool others_were_far() { return base_.others_were_far(); }
    [[nodiscard]] bool others_are_far(std::size_t bytes) { return base_.others_are_far(bytes); }
    [[nodiscard]] bool holds_memory() const noexcept { return base_.holds_memory(); }
    void require_threads_allowed() const { base_.require_threads_allowed(); }
    void require_any_thread_allowed() const { base_.require_any_thread_allowed(); }
    template <class Op, class T>
    [[nodiscard]] static constexpr native_function native(std::string_view collective) noexcept {
        if (Comm::template native<Op, T>(collective) == nullptr) return nullptr;
        return [](forwarding& self, const native_operands& with) {
            Comm::template native<Op, T>(with.what)(self.base_, with);
        };
    }
    [[nodiscard]] bool may_delegate() const noexcept { return base_.may_delegate(); }
    [[nodiscard]] const char* prefers_native(std::string_view collective, std::size_t bytes) const noexcept {
        return base_.prefers_native(collective, bytes);
    }
    [[nodiscard]] static constexpr const char* native_name(std::string_view collective) noexcept {
        return Comm::native_name(collective);
    }

  protected:
    [[nodiscard]] Comm& base() const noexcept { return base_; }

  private:
    Comm& base_;
};

}  // namespace allfold
