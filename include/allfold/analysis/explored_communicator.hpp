// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "allfold/analysis/detail/explored_call.hpp"
#include "allfold/analysis/detail/explored_mail.hpp"
#include "allfold/analysis/detail/explored_text.hpp"
#include "allfold/analysis/detail/explored_world.hpp"
#include "allfold/analysis/detail/search_tree.hpp"
#include "allfold/engine/detail/memory_in_use.hpp"
#include "allfold/engine/task_hooks.hpp"
#include "allfold/error.hpp"
#include "allfold/message/detail/port.hpp"
#include "allfold/message/detail/post_office.hpp"
#include "allfold/transport/background.hpp"
#include "allfold/transport/communicator.hpp"
#include "allfold/transport/detail/arrival_order.hpp"
#include "allfold/transport/detail/cause.hpp"
#include "allfold/transport/detail/copy.hpp"
#include "allfold/transport/rank_list.hpp"
#include "allfold/transport/team.hpp"

/// @file
/// The communicator of explored programs.

namespace allfold {

/// The communicator of one rank of a program that `explore` runs. Models `communicator`, and forms teams of its own
/// kind.
///
/// A message is copied when it is posted, for which there is always room except for sends that are cancelled, and
/// arrives when the search says so: at a rank that waits for it, or that tests. Ranks exchange bytes, not objects, as
/// they do over MPI.
class explored_communicator final : public transport_defaults, private detail::explored_endpoint {
  public:
    using source_place = detail::source_place;

    static constexpr bool shares_memory = false;
    static constexpr bool sleeps = false;
    [[nodiscard]] static bool waits_to_form() noexcept { return false; }

    /// A copy of what was posted.
    class arrival_type {
      public:
        arrival_type() = default;
        explicit arrival_type(detail::explored_message&& message) noexcept : message_(std::move(message)) {}
        [[nodiscard]] std::uint32_t signature() const noexcept { return message_.signature; }
        [[nodiscard]] std::size_t bytes() const noexcept { return message_.bytes; }
        [[nodiscard]] std::byte* packed() const noexcept { return message_.memory.data(); }
        [[nodiscard]] std::span<const part> parts() const noexcept { return {}; }

      private:
        detail::explored_message message_;
    };

    explored_communicator(detail::explored_world& world, int rank)
        : explored_communicator(world, 0, rank_list::strided(0, world.size()), rank) {}
    /// A team of these ranks of the program, in which this one is rank `rank`.
    explored_communicator(detail::explored_world& world, std::uint64_t group, rank_list ranks, int rank)
        : world_(world),
          group_(group),
          ranks_(std::move(ranks)),
          team_(group == 0 ? nullptr : world.lanes().team_of(group, ranks_)),
          rank_(rank),
          self_(ranks_[rank]),
          seat_(world.lanes().add(group, self_)) {
        world_.of(self_).listens.push_back(news());
        if (world_.tells_failures) world_.of(self_).listens.push_back(news_of_failure(group_));
        world_.add_endpoint(self_, *this);
    }
    explored_communicator(const explored_communicator&) = delete;
    explored_communicator& operator=(const explored_communicator&) = delete;
    ~explored_communicator() {
        if (!is_cut) {
            world_.erase_endpoint(self_, *this);
            explored_communicator::cut();
        }
        background_.end();
    }

    [[nodiscard]] int rank() const noexcept { return rank_; }
    [[nodiscard]] int size() const noexcept override { return ranks_.size(); }
    [[nodiscard]] allfold::background& background() noexcept { return background_; }
    [[nodiscard]] bool lends(std::size_t, bool) const noexcept { return false; }
    /// Throws: all ranks share one thread, and when another one makes progress is not for the search to say.
    [[noreturn]] static void require_any_thread_allowed() {
        throw error(errc::bad_argument,
                    "explore: an explored program runs on a single thread, and cannot have a progress_thread: wait for "
                    "its operations, or test them");
    }

    lane open(const signature& what, unsigned lanes) {
        throw_if_over();
        look_for_callbacks();
        const lane first = std::exchange(next_lane_, next_lane_ + lanes);
        note_collective(first, lanes, what, world_.take_place(self_));
        return first;
    }
    /// What was prepared starts again.
    void announce(lane first, unsigned lanes, const signature& what) {
        const std::size_t prepared = world_.of(self_).find_call(group_, first);
        note_collective(first, lanes, what, prepared == 0 ? source_place() : world_.of(self_).calls[prepared - 1].at);
    }
    /// Notes a send, a receive, or both; -1: to or from no rank, -2: any. Returns the number of the call, from 1.
    std::size_t note_message(const char* what, int to, int from, int label, const source_place& at) {
        require_attached();
        return world_.note_call(self_, {.what = what,
                                        .to = to < 0 ? to : ranks_[to],
                                        .from = from < 0 ? from : ranks_[from],
                                        .label = label,
                                        .is_message = true,
                                        .group = group_,
                                        .team = team_,
                                        .at = at});
    }
    /// The operation that `where` describes uses this memory from now on, until it is forgotten.
    void watch_memory(const void* operation, const waiting& where, detail::memory_in_use&& memory) {
        world_.of(self_).memory.enter(operation, call_of(where), std::move(memory));
    }
    /// Called before an operation goes on: has the program changed its memory since it was here?
    void check_memory(const void* operation, bool also_written) {
        if (!world_.is_over(self_)) world_.of(self_).memory.check(operation, also_written);
    }
    /// An operation has changed its memory itself.
    void note_written(const void* operation) noexcept { world_.of(self_).memory.refresh(operation); }
    void forget_memory(const void* operation) noexcept {
        if (!is_cut) world_.of(self_).memory.leave(operation);
    }
    /// The number of the latest call of this rank.
    [[nodiscard]] std::size_t latest_call() const noexcept { return world_.of(self_).calls.size(); }
    /// Whether the message that starts now is waited for at once, so that nobody tests whether it is done.
    void note_waited_for(bool it_is) noexcept { is_waited_for_ = it_is; }
    /// Whether it is a standard send that is not held so far, unless that has been chosen.
    void note_waiting_send(bool it_is) noexcept { is_waiting_send_ = it_is; }
    void note_open_send() noexcept { world_.note_open_send(self_); }
    /// Where the next call of this rank is: see `here`.
    void note_place(const char* file, unsigned line) {
        require_attached();
        world_.note_place(self_, {{file, line}, team_});
    }
    void forget_place() noexcept {
        if (!is_cut) world_.note_place(self_, {});
    }
    void note_thrown_at(const char* file, unsigned line) noexcept {
        if (!is_cut) world_.note_thrown_at(self_, {{file, line}, team_});
    }
    [[nodiscard]] source_place take_place() noexcept { return is_cut ? source_place() : world_.take_place(self_); }
    [[nodiscard]] std::optional<signature> announced(int peer, lane on) const {
        const auto* const found = world_.lanes().find(group_, ranks_[peer], on);
        return found ? std::optional(found->what) : std::nullopt;
    }
    void note_number(std::size_t call, std::uint32_t number) { world_.note_number(self_, call, number); }
    /// Whether the send that starts now, with that number, stays here until it is cancelled.
    [[nodiscard]] bool withholds(std::size_t call, int to, std::uint32_t number) {
        throw_if_over();
        const bool stays = to != rank_ && world_.withholds({self_, call});
        throw_if_over();
        if (stays) world_.of(self_).withheld_sends.push_back({group_, ranks_[to], number});
        return stays;
    }
    void note_cancelled(const detail::sending& sent) {
        std::erase(world_.of(self_).withheld_sends,
                   detail::explored_channel{group_, ranks_[sent.receiver], sent.number});
    }
    bool try_post(int to, lane on, const outgoing& message) {
        if (on == detail::envelopes_lane && is_withheld(to, message)) return false;
        detail::explored_message copy{message.signature, message.bytes, -1, detail::bounce_buffer(message.bytes)};
        detail::pack(message.parts, message.alignment, copy.memory.data());
        if (world_.history != nullptr) copy.what = name_of(on, message);
        world_.post(ranks_[to], {group_, self_, on == detail::envelopes_lane ? lane_of(to, message) : on},
                    std::move(copy));
        return true;
    }
    [[nodiscard]] bool chooses_send(bool is_seen) const noexcept { return world_.chooses_send(self_, is_seen); }
    /// Whether the program may see how long a send takes: it can test it, or functions are called while it waits.
    [[nodiscard]] bool may_see_send(bool is_waited_for) const noexcept {
        return !is_waited_for || world_.of(self_).is_called_back;
    }
    /// Whether the next standard send of this rank is held for its receiver; otherwise it waits for its receive.
    [[nodiscard]] bool holds_send(bool is_seen) {
        throw_if_over();
        const bool is_held = world_.holds_send(self_, is_seen);
        throw_if_over();
        return is_held;
    }
    template <class Sink>
    bool try_receive(int from, lane on, Sink&& sink) {
        const detail::explored_channel channel{group_, ranks_[from], on};
        auto message = world_.take_delivered(self_, channel);
        if (!message && on == detail::envelopes_lane) message = take_answer(channel.from);
        if (!message && tests_by_itself()) {
            test(channel);
            message = world_.take_delivered(self_, channel);
        }
        if (!message) {
            world_.of(self_).ask(channel);
            return false;
        }
        if (on == detail::envelopes_lane) keep_in_order(from, *message);
        sink(arrival_type(std::move(*message)));
        return true;
    }
    /// If this is called neither by a rank that waits nor by a start, the program tests: a message may arrive first.
    void progress() {
        throw_if_over();
        auto& self = world_.of(self_);
        if (self.waits != 0 || (self.looks == looking::no && is_running())) return;
        if (self.looks == looking::no || std::exchange(self.looks, looking::is_over) == looking::stops) test();
    }
    /// The program asks whether an operation is done, or what has arrived (null): for everything that `pass` makes
    /// progress on.
    template <class Pass>
    void look(const void* operation, Pass pass) {
        require_attached();
        const auto& all = world_.of(self_).operations;  // it may be one of several
        const detail::question_about about(all.empty() && operation != nullptr ? std::vector{operation} : all);
        world_.look_for_all(self_, pass);
        world_.note_answer(self_);
    }
    /// A function given to `then` may be called by any call of this rank.
    void look_for_callbacks() {
        require_attached();
        if (world_.of(self_).is_called_back && background::in_flight() && !is_running())
            world_.look_once_more(self_, true);
    }
    /// A receive is about to start: messages sent in mode::ready may arrive before it, and so too early.
    template <class Pass>
    void look_for_ready(Pass pass) {
        if (world_.has_ready_sends && !is_running()) world_.look_once_more(self_, false, pass);
    }
    /// A message to itself does not overtake those that have arrived.
    template <class Pass>
    void look_before_own(Pass pass) {
        if (!is_running()) world_.look_once_more(self_, false, pass);
    }
    void note_start(const void* operation) {
        ending& end = end_of(operation);
        end.channel.on = ends_++;
        end.is_posted = false;
        world_.add_end(self_, end.channel);
    }
    /// Whether an operation in flight, all of whose messages have arrived, ends now. That is a step of its own, as if
    /// the rank sent a message to itself: a transport may take a while to see that what it has sent has been read.
    [[nodiscard]] bool may_end(const void* operation, const char* what) {
        ending& end = end_of(operation);
        const detail::explored_channel channel = end.channel;
        auto& self = world_.of(self_);
        if (!std::exchange(end.is_posted, true)) {
            detail::explored_message message;
            message.what = what;
            world_.post(self_, channel, std::move(message));
            self.looks_again = true;
        } else if (self.looks != looking::no) {
            world_.of(self_).ask(channel);
            progress();
        }
        if (!world_.take_delivered(self_, channel)) {
            world_.of(self_).ask(channel);
            return false;
        }
        world_.erase_end(self_, channel);
        std::erase_if(ending_, [&](const ending& each) { return each.operation == operation; });
        return true;
    }
    /// An operation that was in flight ends.
    void note_end() { ++world_.of(self_).observable_events; }
    template <pending_work Work>
    void wait(Work& work, std::optional<std::chrono::steady_clock::time_point> deadline) {
        constexpr bool order_matters = !requires { requires !Work::order_matters; };
        require_attached();
        if (order_matters) detail::note_question_of_the_past();
        auto& self = world_.of(self_);
        const wait_scope here(self.waits, self.waited);
        waiting where = work.blocked_on();
        try {
            for (std::uint64_t seen = never_seen;;) {
                throw_if_over();
                self.asked.clear();
                self.is_timed = deadline.has_value();
                const std::uint64_t waited = self.waited;
                const bool is_done = work.poll();
                if (!is_done && waited != self.waited) continue;  // a nested wait has asked for other channels
                if (deadline && passes(seen)) time_out(work.blocked_on());
                if (is_done) break;
                self.where = where = work.blocked_on();
                if (where.peer >= 0) self.where.peer = ranks_[where.peer];
                if (where.call == 0) self.where.call = world_.of(self_).find_call(group_, where.on);
                while (world_.stop(self_, place::waits) == detail::resume_reason::looks) work.check();
                if (std::exchange(self.is_peer_gone, false))
                    throw error(errc::peer_failed,
                                detail::text({where.what, ": waits for rank ", where.peer, ", which has returned"}));
            }
        } catch (...) {
            note_thrown(where);
            throw;
        }
        ++self.observable_events;
        if (order_matters) detail::note_question_of_the_past();
    }
    void abandon() noexcept {
        is_broken_ = true;
        if (is_cut) return;
        detail::cause why = detail::current_cause();
        if (why.code == errc::timeout && is_late_) return;  // the program may catch that
        detail::note_question_of_the_past();                // which failure is first
        if (world_.tells_failures) return tell_failure(why);
        world_.of(self_).note_failure(std::move(why));
    }

    /// Called in a handler: the exception was thrown for the operation that `where` describes.
    void note_thrown(const waiting& where) noexcept {
        if (!is_cut && !world_.is_over(self_)) world_.of(self_).note_thrown(call_of(where), detail::current_cause());
    }

    /// Called from an exception handler: a receive refuses its message, which leaves the communicator sound. What else
    /// a message throws is the business of whoever it concerns.
    void note_refused_message() noexcept {
        if (is_cut || world_.is_over(self_) || world_.tells_failures) return;
        try {
            throw;
        } catch (const error& e) {
            if (e.code() == errc::truncated || e.code() == errc::mismatch)
                world_.of(self_).note_failure(detail::current_cause());
        } catch (...) {
        }
    }

    // Deadlines: time passes here only as the search says.

    /// An operation in flight has a deadline.
    void note_deadline(const void* operation) {
        world_.note_deadline();
        timed_.push_back({operation, never_seen});
    }
    void forget_deadline(const void* operation) noexcept {
        std::erase_if(timed_, [&](const timed& each) { return each.operation == operation; });
    }
    /// The number of operations in flight that have one.
    [[nodiscard]] std::size_t deadlines_ahead() const noexcept { return timed_.size(); }
    /// Whether the deadline of an operation passes: at its first wait, or after something by which others, or this
    /// rank, can tell that it has not passed before; or when nothing else can happen.
    [[nodiscard]] bool passes(const void* operation) {
        world_.of(self_).is_timed = true;
        return passes(std::ranges::find(timed_, operation, &timed::operation)->seen);
    }
    [[noreturn]] void time_out(const waiting& where) {
        throw_if_over();
        is_late_ = true;
        world_.note_news();
        for (int r = 0; r < size(); ++r)
            if (r != rank_) world_.post(ranks_[r], news(), {});
        throw error(errc::timeout, detail::text({where.what, ": the deadline of rank ", rank_, " has passed"}));
    }
    [[nodiscard]] team<explored_communicator> form_team(const rank_list& members) {
        throw_if_over();
        rank_list ranks = members.among(ranks_);
        std::uint64_t group = mixed(group_, ++formed_);
        for (int i = 0; i < ranks.size(); ++i) group = mixed(group, static_cast<std::uint64_t>(ranks[i]));
        if (!members.contains(rank_)) return {members, nullptr, nullptr};
        return {members, nullptr,
                std::make_unique<explored_communicator>(world_, group, std::move(ranks), members.find(rank_))};
    }

  private:
    using place = detail::explored_rank::place;
    using looking = detail::explored_rank::looking;

    void note_collective(lane first, unsigned lanes, const signature& what, const source_place& at) {
        seat_.opened.add(first, lanes, what);
        world_.note_call(self_,
                         {.what = what.what, .group = group_, .team = team_, .first = first, .lanes = lanes, .at = at});
    }

    class wait_scope {
      public:
        wait_scope(int& depth, std::uint64_t& ended) noexcept : depth_(++depth), ended_(ended) {}
        wait_scope(const wait_scope&) = delete;
        wait_scope& operator=(const wait_scope&) = delete;
        ~wait_scope() {
            --depth_;
            ++ended_;
        }

      private:
        int& depth_;
        std::uint64_t& ended_;
    };

    /// An operation with a deadline, and how much this rank had done when it was last in time.
    struct timed {
        const void* operation;
        std::uint64_t seen;
    };
    static constexpr std::uint64_t never_seen = ~std::uint64_t{0};
    [[nodiscard]] bool passes(std::uint64_t& seen) {
        auto& self = world_.of(self_);
        if (std::exchange(self.is_deadline_passed, false)) return true;
        const bool can_be_told = std::exchange(seen, self.observable_events) != self.observable_events;
        return (can_be_told || world_.deadlines_pass_anywhere) && world_.may_pass(self_);
    }

    [[nodiscard]] std::size_t in_flight() const noexcept override { return background_.size(); }
    void cut() noexcept override {
        if (!world_.is_over(self_)) {
            if (!is_cut && !world_.of(self_).failure) world_.of(self_).left_in_flight += background_.size();
            if (ends_something()) detail::note_question_of_the_past();  // whether it is done by now
            note_unreceived();
        }
        background_.end();
        std::erase(world_.of(self_).listens, news());
        std::erase(world_.of(self_).listens, news_of_failure(group_));
        is_cut = true;
    }
    /// Whether something that nobody waits for is in flight now, or would have been if other messages had come first.
    [[nodiscard]] bool ends_something() const noexcept {
        return background_.knows_any() || world_.of(self_).has_released ||
               (background_.office && !static_cast<const detail::post_office&>(*background_.office).buffer.is_empty());
    }
    void require_attached() const {
        if (is_cut) throw error(errc::bad_argument, "explore: a communicator is used after its execution has ended");
    }
    /// The call that `where` describes; 0 if unknown: an operation of several parts names no lane between them.
    [[nodiscard]] std::size_t call_of(const waiting& where) const {
        if (where.call != 0) return where.call;
        const std::size_t call = world_.of(self_).find_call(group_, where.on);
        return call != 0 && std::string_view(where.what) == world_.of(self_).calls[call - 1].what ? call : 0;
    }

    /// An operation whose end is still to come.
    struct ending {
        const void* operation;
        detail::explored_channel channel;
        bool is_posted = false;
    };
    [[nodiscard]] ending& end_of(const void* operation) {
        const auto known = std::ranges::find(ending_, operation, &ending::operation);
        if (known != ending_.end()) return *known;
        return ending_.emplace_back(ending{operation, {group_, detail::end_of_operation, ends_++}});
    }

    [[nodiscard]] lane lane_of(int to, const outgoing& message) {
        using kind = detail::message_head::kind;
        detail::message_head head;
        std::memcpy(&head, message.parts.front().data, sizeof head);
        if (head.what == kind::refused || head.what == kind::unexpected) return detail::lane_of_answer(head.number);
        if (head.what == kind::clear) world_.note_clear(self_);
        if (head.what == kind::request || head.how == mode::synchronous) {
            answers_.push_back({group_, ranks_[to], detail::lane_of_answer(head.number)});
            if (is_waiting_send_) world_.note_waiting_send(self_, answers_.back());
            if (is_waited_for_) world_.of(self_).unseen_answers.push_back(answers_.back());
        }
        return detail::envelopes_lane;
    }
    /// An answer may arrive after messages that were sent later: the count of what its peer has released must not go
    /// back.
    void keep_in_order(int from, detail::explored_message& message) {
        freed_.resize(static_cast<std::size_t>(size()), 0);
        std::uint16_t& latest = freed_[static_cast<std::size_t>(from)];
        detail::message_head head;
        std::memcpy(&head, message.memory.data(), sizeof head);
        if (static_cast<std::int16_t>(head.freed - latest) > 0) latest = head.freed;
        head.freed = latest;
        std::memcpy(message.memory.data(), &head, sizeof head);
    }
    [[nodiscard]] std::optional<detail::explored_message> take_answer(int from) {
        for (const detail::explored_channel& each : answers_) {
            if (each.from != from) continue;
            if (auto message = world_.take_delivered(self_, each)) {
                std::erase(answers_, detail::explored_channel(each));
                return message;
            }
            world_.of(self_).ask(each);
        }
        return std::nullopt;
    }
    [[nodiscard]] static std::uint64_t mixed(std::uint64_t a, std::uint64_t b) noexcept {
        const std::uint64_t all = (a ^ (b + 1) * 0xd6e8feb86659fd93u) * 0x9e3779b97f4a7c15u;
        return all ^ all >> 32;
    }
    [[nodiscard]] bool is_withheld(int to, const outgoing& message) const {
        const auto& kept = world_.of(self_).withheld_sends;
        if (kept.empty()) return false;
        detail::message_head head;
        std::memcpy(&head, message.parts.front().data, sizeof head);
        const detail::explored_channel sent{group_, ranks_[to], head.number};
        return head.has_envelope() && std::ranges::find(kept, sent) != kept.end();
    }
    void note_unreceived() override {
        if (!background_.office) return;
        static_cast<const detail::post_office&>(*background_.office).for_each_held([this](const auto& each) {
            world_.of(self_).unreceived.push_back({group_, ranks_[each.source], each.head});
        });
    }
    /// What a message is, in words.
    [[nodiscard]] const char* name_of(lane on, const outgoing& message) const {
        if (on == detail::data_lane) return "data";
        if (on != detail::envelopes_lane) {
            const auto* const call = seat_.opened.find(on);
            return call == nullptr ? "message" : call->what.what;
        }
        using kind = detail::message_head::kind;
        switch (reinterpret_cast<const detail::message_head*>(message.parts.front().data)->what) {
            case kind::eager: return "message";
            case kind::request: return "request";
            case kind::clear:
            case kind::refused:
            case kind::unexpected: return "answer";
            case kind::news: return "news";
        }
        return "";
    }
    [[nodiscard]] bool is_running() noexcept { return background_.is_running(); }
    /// Whether it is the program itself that looks for a message.
    [[nodiscard]] bool tests_by_itself() noexcept {
        const auto& self = world_.of(self_);
        return self.waits == 0 && self.looks == looking::no && !is_running();
    }

    /// Messages that this rank has looked for in vain may arrive.
    void test() {
        auto& self = world_.of(self_);
        const bool looks = self.looks != looking::no;
        while (stop_to_test())
            if (looks) {  // what follows from this may arrive too
                self.looks_again = true;
                return;
            }
        self.asked.clear();
    }
    /// The next message of this channel may arrive.
    void test(const detail::explored_channel& channel) {
        if (channel.is_of_a_collective()) detail::note_question_of_the_past();  // the program itself reads that lane
        auto& asked = world_.of(self_).asked;
        auto others = std::exchange(asked, {channel});
        world_.of(self_).tests_lane = true;
        stop_to_test();
        world_.of(self_).tests_lane = false;
        world_.of(self_).has_received = false;  // no other message may
        asked = std::move(others);
    }
    /// Whether a message has arrived: then another one may.
    bool stop_to_test() {
        detail::note_question_of_order();
        throw_if_over();
        const bool has_come = world_.test(self_);
        throw_if_over();
        return has_come;
    }
    [[nodiscard]] detail::explored_channel news() const { return {group_, detail::news_of_a_deadline, 0}; }
    [[nodiscard]] static detail::explored_channel news_of_failure(std::uint64_t group) {
        return {group, detail::news_of_a_failure, 0};
    }
    /// Others are told of the first failure, unless this rank has been told of another one before.
    void tell_failure(const detail::cause& why) {
        if (world_.is_over(self_) || is_late_ || !failure_.empty() || !world_.of(self_).told.empty()) return;
        note_failed(detail::text({"rank ", rank_, " failed: ", why.why}));
        world_.note_told_failure();
        for (int r = 0; r < size(); ++r) {
            if (r == rank_) continue;
            detail::explored_message message{0, failure_.size(), -1, detail::bounce_buffer(failure_.size())};
            std::memcpy(message.memory.data(), failure_.data(), failure_.size());
            world_.post(ranks_[r], news_of_failure(group_), std::move(message));
        }
    }
    void note_failed(std::string&& words) {
        failure_ = std::move(words);
        if (group_ == 0) world_.of(self_).told = failure_;
    }
    /// Whether a rank of this communicator has failed, or of the whole program, or its deadline has passed, as far as
    /// this one has learnt.
    [[nodiscard]] bool has_heard_news() {
        const auto text_of_news = [this](std::uint64_t group) {
            const auto message = world_.take_delivered(self_, news_of_failure(group));
            return message ? std::string(reinterpret_cast<const char*>(message->memory.data()), message->bytes) : "";
        };
        if (!is_late_ && failure_.empty() && world_.take_delivered(self_, news())) is_late_ = true;
        if (is_late_ || !world_.tells_failures) return is_late_;
        if (failure_.empty())
            if (std::string words = text_of_news(group_); !words.empty()) note_failed(std::move(words));
        std::string& told = world_.of(self_).told;
        if (told.empty() && group_ != 0) told = text_of_news(0);
        return !failure_.empty() || !told.empty();
    }
    void throw_if_over() {
        require_attached();
        const bool has_heard = world_.has_news() && !world_.is_over(self_) && has_heard_news();
        if (!world_.is_over(self_) && !is_broken_ && !has_heard) return;
        if (world_.of(self_).has_refused_enough()) world_.stop(self_, place::waits);  // it may catch exceptions forever
        if (world_.is_over(self_))
            throw error(errc::peer_failed, "explore: the execution is over, but this rank has not returned");
        if (is_late_) throw error(errc::timeout, "stopped: a deadline has passed on this communicator");
        if (has_heard) throw error(errc::peer_failed, failure_.empty() ? world_.of(self_).told : failure_);
        if (is_broken_)
            throw error(errc::peer_failed, "explore: this rank has failed, but uses its communicator again");
    }

    detail::explored_world& world_;
    std::uint64_t group_;
    rank_list ranks_;
    const rank_list* team_;  // the same, for reports, unless it is the whole program
    int rank_;
    int self_;
    detail::lane_record& seat_;
    lane next_lane_ = 0;
    std::vector<ending> ending_;
    std::vector<detail::explored_channel> answers_;  // that sends of this rank wait for
    lane ends_ = 0;
    std::uint64_t formed_ = 0;
    std::vector<std::uint16_t> freed_;  // by each rank, as reported in its messages
    std::vector<timed> timed_;
    std::string failure_;  // which rank of this communicator has failed, if this one knows
    bool is_broken_ = false, is_late_ = false, is_waited_for_ = false, is_waiting_send_ = false;
    allfold::background background_;
};

static_assert(team_forming_communicator<explored_communicator>);

/// Time passes, and messages arrive, as the search says.
template <>
struct detail::task_hooks<explored_communicator> {
    static constexpr bool delays_messages = true;

    using place = source_place;
    static place take_place(explored_communicator& comm) noexcept { return comm.take_place(); }

    template <class Pass>
    static void look(explored_communicator& comm, const void* operation, Pass pass) {
        comm.look(operation, pass);
    }
    static void before_message(explored_communicator& comm, bool is_received, bool is_to_itself) {
        comm.look_for_callbacks();
        if (!is_received && !is_to_itself) return;
        post_office& office = office_of(comm);
        port_of<explored_communicator> port(comm, office);
        const auto pass = [&] { office.progress(port); };
        is_to_itself ? comm.look_before_own(pass) : comm.look_for_ready(pass);
    }
    static std::size_t start_message(explored_communicator& comm, const char* what, sending* out, const receiving* in,
                                     bool is_waited_for, const place& at) {
        const bool is_copy = out != nullptr && out->is_copy;  // of the send of the latest call
        const std::size_t call = is_copy ? comm.latest_call()
                                         : comm.note_message(what, out != nullptr ? out->receiver : null_rank,
                                                             in != nullptr ? in->source : null_rank,
                                                             out != nullptr ? out->label : in->label(), at);
        const bool sends = out != nullptr && out->receiver != null_rank;
        const std::uint32_t number = office_of(comm).next_number();
        if (sends) comm.note_number(call, number);
        const bool may_stay = sends && in == nullptr && !is_waited_for && !is_copy && out->how != mode::buffered;
        const bool stays = may_stay && comm.withholds(call, out->receiver, number);
        const bool is_seen = comm.may_see_send(is_waited_for);
        if (out != nullptr && out->how != mode::ready) wait_as_searched(comm, *out, stays, is_seen);
        comm.note_waiting_send(out != nullptr && out->how == mode::standard && !out->is_held &&
                               !comm.chooses_send(is_seen));
        if (out != nullptr && out->how == mode::standard && is_seen) comm.note_open_send();
        comm.note_waited_for(is_waited_for);
        return call;
    }
    /// A send that may be held carries its data, however long it is. So does a synchronous send that is not long: then
    /// a receive that has been matched is done, whether or not the sender looks, and the send may be notified of that
    /// much later. A long one is asked for its data, as over MPI.
    static void wait_as_searched(explored_communicator& comm, sending& out, bool stays, bool is_seen) {
        if (out.how == mode::standard && out.receiver != null_rank) out.is_held = stays || comm.holds_send(is_seen);
        if (out.how == mode::synchronous) out.is_held = false;
        out.has_no_limit = out.how != mode::synchronous || out.data.bytes() <= credit::longest_message;
    }
    static void note_start(explored_communicator& comm, const void* operation) { comm.note_start(operation); }
    static bool may_end(explored_communicator& comm, const void* operation, const char* what) {
        return comm.may_end(operation, what);
    }
    template <class Task>
    static void note_failure(explored_communicator& comm, const Task& failing, const std::exception_ptr& why) noexcept {
        try {
            if (why) std::rethrow_exception(why);
        } catch (...) {
            comm.note_thrown(failing.blocked_on());
            if (is_of_messages(failing.blocked_on().on)) comm.note_refused_message();
        }
    }
    static void note_deadline(explored_communicator& comm, const void* operation) { comm.note_deadline(operation); }
    static void forget_deadline(explored_communicator& comm, const void* operation) noexcept {
        comm.forget_deadline(operation);
    }
    template <class Task>
    static void require_time(explored_communicator& comm, const Task& late) {
        if (comm.passes(&late)) comm.time_out(late.blocked_on());
    }
    template <class Task>
    static void note_end(explored_communicator& comm, const Task& ending) {
        if (ending.due() != background::clock::time_point::max()) require_time(comm, ending);
        comm.note_end();
    }
};

}  // namespace allfold
