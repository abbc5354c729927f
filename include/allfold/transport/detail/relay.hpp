// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "allfold/data/detail/heap_array.hpp"
#include "allfold/error.hpp"
#include "allfold/transport/background.hpp"
#include "allfold/transport/communicator.hpp"
#include "allfold/transport/detail/bounce.hpp"
#include "allfold/transport/detail/cause.hpp"
#include "allfold/transport/detail/copy.hpp"
#include "allfold/transport/detail/envelope.hpp"
#include "allfold/transport/thread_communicator.hpp"
#include "allfold/transport/thread_world.hpp"

/// @file
/// How messages get from any thread of a process to any thread of another, although only the first threads communicate:
/// the sender leaves a message with its process, whose first thread forwards it; the first thread of the receiver's
/// process puts it into the receiver's mailbox, whether it has been asked for or not. So a thread that computes delays
/// only the messages that pass through it.

namespace allfold::detail {

/// The header of a relayed message. The payload begins a cache line later; the introduction of the call comes last.
struct relayed_head {
    enum class kind : std::uint32_t {
        message,
        read,        // acknowledges messages that were read: the payload lists their lanes
        question,    // asks whether its receiver is in the same team, and makes the same call on that lane; the payload
                     // lists the teams that the team was formed from, each formed from the one before
        refused,     // it is not in the team; the payload says why
        other_call,  // it makes, or has made, another call, which the payload introduces
        failed,
        departed,
        leader_left,  // other threads of its process still run
        process_finished
    };
    kind what = kind::message;
    std::uint32_t signature = 0;
    std::uint64_t team = 0;     // shared by disjoint teams that were formed in one call
    std::uint64_t members = 0;  // hash of their list
    std::int32_t from = 0;      // rank in the team
    std::int32_t origin = 0;    // the same as a rank of the hierarchy
    std::int32_t to = 0;        // rank of the hierarchy
    lane on = 0;
    errc code = errc::peer_failed;
    std::int32_t threads = 0;  // of the sender's process
    std::uint64_t bytes = 0;   // of the payload
    std::uint32_t call = 0;    // hash of the call
    std::uint32_t introduced = 0;

    static constexpr std::size_t room = bounce_buffer::alignment;
};
static_assert(sizeof(relayed_head) <= relayed_head::room);

/// A message with its header in one buffer.
class relayed_message {
  public:
    relayed_message() = default;
    explicit relayed_message(bounce_buffer&& whole) : memory_(std::move(whole)) {}
    relayed_message(const relayed_head& head, std::size_t bytes) : memory_(relayed_head::room + bytes) {
        std::memcpy(memory_.data(), &head, sizeof head);
    }
    [[nodiscard]] relayed_head head() const noexcept {
        relayed_head found;
        std::memcpy(&found, memory_.data(), sizeof found);
        return found;
    }
    [[nodiscard]] std::byte* payload() const noexcept { return memory_.data() + relayed_head::room; }
    [[nodiscard]] part whole() const noexcept { return {memory_.data(), memory_.bytes()}; }

  private:
    bounce_buffer memory_;
};

/// A message without a payload, or with a text.
[[nodiscard]] inline relayed_message relayed_note(relayed_head head, std::string_view text = {}) {
    head.bytes = text.size();
    relayed_message note(head, text.size());
    if (!text.empty()) std::memcpy(note.payload(), text.data(), text.size());
    return note;
}

[[nodiscard]] inline std::string_view text_of(const relayed_message& note) noexcept {
    return {reinterpret_cast<const char*>(note.payload()), static_cast<std::size_t>(note.head().bytes)};
}

/// The answer to a rank of the hierarchy that took another one for a member of its team.
[[nodiscard]] inline relayed_message refusal(const relayed_head& of) {
    relayed_head head = of;
    head.what = relayed_head::kind::refused;
    head.to = of.origin;
    head.origin = of.to;
    constexpr const char* advice =
        " of the hierarchy passed different lists of members: all members of a team must pass the same ranks in the "
        "same order, other ranks a list that does not include themselves";
    return relayed_note(head, text({"ranks ", of.to, " and ", of.origin, advice}));
}

/// Messages that have arrived for one member of a team, and whether the member still reads them.
struct mailbox {
    std::atomic<bool> has_news{false};
    std::optional<std::uint64_t> members;        // of its owner's list; set once the owner has joined
    int rank = -1;                               // of its owner in the team
    const thread_communicator* calls = nullptr;  // knows the owner's; null before it has joined and after it has left
    std::vector<relayed_message> in;
    int awaited = -1;  // departures after which nothing more arrives; known once the member has left
    int departures = 0;
    std::vector<bool> departed;  // by rank of the hierarchy

    void note_departed(int member) {
        const auto at = static_cast<std::size_t>(member);
        if (departed.size() <= at) departed.resize(at + 1);
        if (!departed[at]) ++departures;
        departed[at] = true;
    }
};

/// What the threads of one process share.
class relay {
  public:
    relay(int process, int processes, int threads, const thread_tuning& tuning)
        : process_(process),
          threads_(threads),
          tuning_(tuning),
          others_running_(threads - 1),
          without_leader_(room(processes)),
          finished_(room(processes)) {}

    [[nodiscard]] int threads() const noexcept { return threads_; }
    [[nodiscard]] int process() const noexcept { return process_; }
    [[nodiscard]] int processes() const noexcept { return static_cast<int>(finished_.size()); }
    [[nodiscard]] int process_of(int rank) const noexcept { return rank / threads_; }

    /// Leaves a message for the first thread to forward.
    void leave(int process, relayed_message&& what) {
        const std::lock_guard lock(mutex_);
        outgoing_.push_back({process, std::move(what)});
        has_outgoing_.store(true, std::memory_order_release);
    }
    struct outgoing_message {
        int process;
        relayed_message what;
    };
    [[nodiscard]] bool has_outgoing() const noexcept { return has_outgoing_.load(std::memory_order_acquire); }
    [[nodiscard]] std::vector<outgoing_message> take_outgoing() {
        if (!has_outgoing()) return {};
        const std::lock_guard lock(mutex_);
        has_outgoing_.store(false, std::memory_order_relaxed);
        return std::exchange(outgoing_, {});
    }

    /// The mailbox of a rank of the hierarchy, rank `place` of a team whose list has this hash; created by whichever
    /// comes first, the rank or a message for it. `calls`: the rank's end of what connects it to the threads beside it.
    [[nodiscard]] std::shared_ptr<mailbox> mailbox_of(std::uint64_t team, int rank, std::uint64_t members, int place,
                                                      const thread_communicator& calls) {
        const std::lock_guard lock(mutex_);
        const std::shared_ptr<mailbox> box = find_or_make(team, rank);
        box->members = members;
        box->rank = place;
        box->calls = &calls;
        for (const relayed_message& each : box->in) refuse_others(*box, each.head());
        return box;
    }
    void deliver(relayed_message&& what) {
        const relayed_head head = what.head();
        const std::lock_guard lock(mutex_);
        if (!mailboxes_.contains({head.team, head.to})) {
            if (head.what == relayed_head::kind::refused) return;  // its addressee has left
            if (head.team == messages && std::ranges::find(silent_, head.to % threads_) != silent_.end())
                return answer_departed(head);
            if (std::ranges::find(outsiders_, std::pair(head.team, head.to)) != outsiders_.end()) return refuse(head);
            if (has_left(head.to)) return answer_departed(head);
        }
        const std::shared_ptr<mailbox> box = find_or_make(head.team, head.to);
        refuse_others(*box, head);
        if (head.what == relayed_head::kind::departed) box->note_departed(head.origin);
        if (head.what == relayed_head::kind::failed) end_forming_of(head.team, head.to);
        if (head.what == relayed_head::kind::question && box->members == head.members) {
            answer(*box, head);
        } else if (!box->members && can_never_join(what)) {
            answer_departed(head);
            mailboxes_.erase({head.team, head.to});
        } else if (box->awaited < 0 && !has_asked(*box, head)) {
            box->in.push_back(std::move(what));
            box->has_news.store(true, std::memory_order_release);
        } else if (box->departures == box->awaited) {
            mailboxes_.erase({head.team, head.to});
        }
    }
    /// Notes that a rank of the hierarchy is in no team of this number. Only the latest such ranks are remembered.
    void note_outsider(std::uint64_t team, int rank) {
        const std::lock_guard lock(mutex_);
        remember(outsiders_, team, rank);
        const auto box = mailboxes_.find({team, rank});
        if (box == mailboxes_.end()) return;
        for (const relayed_message& each : box->second->in) refuse(each.head());
        mailboxes_.erase(box);
    }
    /// Notes that a rank of the hierarchy can form no team of this one any more. Only the latest are remembered.
    void note_end_of_forming(std::uint64_t team, int rank) {
        const std::lock_guard lock(mutex_);
        end_forming_of(team, rank);
    }
    /// Notes that a rank of the hierarchy has returned: it joins no team any more.
    void note_left(int rank) {
        const std::lock_guard lock(mutex_);
        left_.push_back(rank % threads_);
        std::erase_if(mailboxes_, [&](const auto& each) {
            const auto& [of, box] = each;
            const bool is_in_vain = of.second == rank && !box->members;
            for (std::size_t i = 0; is_in_vain && i < box->in.size(); ++i) answer_departed(box->in[i].head());
            return is_in_vain;
        });
    }
    [[nodiscard]] std::vector<relayed_message> take_news(mailbox& from) {
        const std::lock_guard lock(mutex_);
        from.has_news.store(false, std::memory_order_relaxed);
        return std::exchange(from.in, {});
    }
    /// The owner of a mailbox has left; `others`: how many members are in other processes.
    void close(std::uint64_t team, int rank, int others) {
        const std::lock_guard lock(mutex_);
        mailbox& box = *find_or_make(team, rank);
        box.calls = nullptr;
        box.in.clear();
        box.awaited = others;
        if (box.departures == others) mailboxes_.erase({team, rank});
        end_forming_of(team, rank);
    }
    /// Whether no team of this process has anything left to receive or to send.
    [[nodiscard]] bool is_idle() {
        const std::lock_guard lock(mutex_);
        return mailboxes_.empty() && outgoing_.empty();
    }

    /// Stops relaying. Only the first cause is kept.
    void fail(cause why) noexcept {
        const std::lock_guard lock(mutex_);
        if (has_failed()) return;
        failure_ = std::move(why);
        failed_.store(true, std::memory_order_release);
    }
    /// The same if a rank has failed.
    void fail(cause why, int rank) noexcept {
        if (why.code != errc::timeout) why.code = errc::peer_failed;
        why.why = text_if_possible({"rank ", rank, " failed: ", why.why.c_str()});
        fail(std::move(why));
    }
    [[nodiscard]] bool has_failed() const noexcept { return failed_.load(std::memory_order_acquire); }
    /// Valid once `has_failed()`.
    [[nodiscard]] const cause& failure() const noexcept { return failure_; }

    /// Notes that the first thread of that process only moves messages any more.
    void note_leader_left(int process) noexcept {
        without_leader_[static_cast<std::size_t>(process)].store(true, std::memory_order_release);
    }
    [[nodiscard]] bool has_leader_left(int process) const noexcept {
        return without_leader_[static_cast<std::size_t>(process)].load(std::memory_order_acquire);
    }
    /// Notes that no thread of that process sends anything any more.
    void note_finished(int process) noexcept {
        note_leader_left(process);
        finished_[static_cast<std::size_t>(process)].store(true, std::memory_order_release);
    }
    [[nodiscard]] bool is_finished(int process) const noexcept {
        return finished_[static_cast<std::size_t>(process)].load(std::memory_order_acquire);
    }

    // Messages between all ranks of the hierarchy (message/): any rank may be the first to send one, so nobody joins a
    // team for them, and a rank that has neither sent nor received any returns without telling the others.

    static constexpr std::uint64_t messages = 0;  // the number of that team
    /// The world in which the threads of this process send each other messages; created on first use.
    [[nodiscard]] std::shared_ptr<thread_world> world_of_messages() {
        const std::lock_guard lock(mutex_);
        if (!world_of_messages_) {
            world_of_messages_ = std::make_shared<thread_world>(threads_, tuning_);
            for (const int thread : silent_) static_cast<void>(world_of_messages_->communicator(thread));  // departs
        }
        return world_of_messages_;
    }
    /// A rank of the hierarchy that never made an end for those messages has returned.
    void note_silent(int rank) {
        const std::lock_guard lock(mutex_);
        silent_.push_back(rank % threads_);
        if (world_of_messages_) static_cast<void>(world_of_messages_->communicator(rank % threads_));
        const auto box = mailboxes_.find({messages, rank});
        if (box == mailboxes_.end()) return;
        for (const relayed_message& each : box->second->in) answer_departed(each.head());
        mailboxes_.erase(box);
    }

    /// Moves the messages, on the first thread.
    class mover : public background::work {
      public:
        /// Returns when nobody needs it any more. Called after the first thread has departed.
        virtual void finish() = 0;
        /// From now on every wait of this thread drives it, until there is nothing left to move.
        virtual void resume() = 0;
        /// Makes progress now, on the thread that currently uses the first thread's end of the hierarchy.
        virtual void progress_now() noexcept = 0;
        /// The first thread departs.
        virtual void leave_inside() noexcept = 0;
        /// The outer transport has been abandoned: unless it still holds memory, nobody reads what was sent any more.
        virtual void forget_readers() noexcept = 0;
    };
    std::unique_ptr<mover> moves;  // of the first thread
    /// To be called by the thread that now uses a communicator of the first thread: what moves the messages comes
    /// along.
    void follow() noexcept {
        if (moves) moves->take_over();
    }
    [[nodiscard]] bool is_of_first_thread(int rank) const noexcept { return rank % threads_ == 0; }

    /// Lives as long as a thread of this process runs: the first thread moves messages until the others have returned.
    class runner {
      public:
        runner(relay& of, int thread) noexcept : of_(of), is_first_(thread == 0) {}
        runner(const runner&) = delete;
        runner& operator=(const runner&) = delete;
        ~runner() {
            if (!is_first_) of_.others_running_.fetch_sub(1, std::memory_order_release);
        }

      private:
        relay& of_;
        bool is_first_;
    };
    [[nodiscard]] bool others_run() const noexcept { return others_running_.load(std::memory_order_acquire) != 0; }

  private:
    [[nodiscard]] static std::size_t room(int processes) { return static_cast<std::size_t>(processes); }
    using teams_and_ranks = std::deque<std::pair<std::uint64_t, int>>;
    // Called with the lock held.
    void remember(teams_and_ranks& where, std::uint64_t team, int rank) const {
        constexpr std::size_t max_for_each = 64;
        if (where.size() >= max_for_each * static_cast<std::size_t>(threads_)) where.pop_front();
        where.emplace_back(team, rank);
    }
    void end_forming_of(std::uint64_t team, int rank) {
        remember(ended_, team, rank);
        std::erase_if(mailboxes_, [&](const auto& each) {
            const auto& [of, box] = each;
            if (of.second != rank || box->members) return false;
            const auto asks_in_vain = [this](const relayed_message& what) { return can_never_join(what); };
            if (std::ranges::none_of(box->in, asks_in_vain)) return false;
            for (const relayed_message& what : box->in) answer_departed(what.head());
            return true;
        });
    }
    /// Whether this is a question of a member of a team that its receiver, which has not joined it, can no longer join.
    [[nodiscard]] bool can_never_join(const relayed_message& question) const {
        const relayed_head head = question.head();
        if (head.what != relayed_head::kind::question) return false;
        for (std::size_t at = 0; at < head.bytes; at += sizeof(std::uint64_t)) {
            std::uint64_t team;
            std::memcpy(&team, question.payload() + at, sizeof team);
            if (std::ranges::find(ended_, std::pair(team, head.to)) != ended_.end()) return true;
        }
        return false;
    }
    [[nodiscard]] bool has_left(int rank) const noexcept {
        return std::ranges::find(left_, rank % threads_) != left_.end();
    }
    void refuse_others(const mailbox& box, const relayed_head& what) {
        if (box.members && *box.members != what.members) refuse(what);
    }
    void refuse(const relayed_head& what) {
        if (what.what != relayed_head::kind::message && what.what != relayed_head::kind::question) return;
        outgoing_.push_back({process_of(what.origin), refusal(what)});
        has_outgoing_.store(true, std::memory_order_release);
    }
    /// Whether this is a question of a rank that has asked before, of an owner that has not joined: one is enough.
    [[nodiscard]] static bool has_asked(const mailbox& box, const relayed_head& what) {
        return what.what == relayed_head::kind::question &&
               std::ranges::any_of(box.in, [&what](const relayed_message& each) {
                   const relayed_head before = each.head();
                   return before.what == what.what && before.origin == what.origin && before.members == what.members;
               });
    }
    /// Tells a rank that waits in vain: the owner's call on that lane is, or was, a different one. If the owner has not
    /// made it yet, the rank will ask again.
    void answer(const mailbox& box, const relayed_head& what) {
        const auto made = box.calls == nullptr ? std::nullopt : box.calls->announced(box.calls->rank(), what.on);
        if (!made || what.call == 0 || made->hash() == what.call) return;
        relayed_head head = what;
        head.what = relayed_head::kind::other_call;
        head.from = box.rank;
        head.origin = what.to;
        head.to = what.origin;
        head.call = made->hash();
        relayed_message note(head, longest_introduction);
        head.introduced = static_cast<std::uint32_t>(introduction::write(*made, note.payload()));
        std::memcpy(note.whole().data, &head, sizeof head);
        outgoing_.push_back({process_of(what.origin), std::move(note)});
        has_outgoing_.store(true, std::memory_order_release);
    }
    /// Tells a rank that asks that the one it waits for has departed.
    void answer_departed(const relayed_head& what) {
        if (what.what != relayed_head::kind::question) return;
        relayed_head head = what;
        head.what = relayed_head::kind::departed;
        head.origin = what.to;
        head.to = what.origin;
        outgoing_.push_back({process_of(what.origin), relayed_note(head)});
        has_outgoing_.store(true, std::memory_order_release);
    }
    [[nodiscard]] std::shared_ptr<mailbox> find_or_make(std::uint64_t team, int rank) {
        auto& found = mailboxes_[{team, rank}];
        if (!found) found = std::make_shared<mailbox>();
        return found;
    }

    int process_, threads_;
    thread_tuning tuning_;
    std::atomic<int> others_running_;
    std::mutex mutex_;
    std::vector<outgoing_message> outgoing_;
    std::atomic<bool> has_outgoing_{false};
    std::map<std::pair<std::uint64_t, int>, std::shared_ptr<mailbox>> mailboxes_;
    teams_and_ranks outsiders_;  // a team, and a rank that is not in it
    teams_and_ranks ended_;      // a team, and a rank that has left it or knows that it has failed
    std::shared_ptr<thread_world> world_of_messages_;
    std::vector<int> silent_, left_;  // threads
    std::atomic<bool> failed_{false};
    cause failure_;
    heap_array<std::atomic<bool>> without_leader_, finished_;  // processes
};

/// Moves messages between the mailboxes of this process and the first threads of other processes. Every first thread
/// makes one at the start. It is idle until a thread of this process needs it, or a message has arrived, for which its
/// thread polls now and then.
template <class Across>
class relay_mover final : public relay::mover {
  public:
    relay_mover(relay& of, Across& across, thread_communicator& inside)
        : relay_(of), across_(across), inside_(&inside), lane_(across.restart_lane(across.open(about(), 1), 1)) {
        across.announce(lane_, 1, about());
        background::prepare_this_thread();
    }
    relay_mover(const relay_mover&) = delete;
    relay_mover& operator=(const relay_mover&) = delete;
    ~relay_mover() override {
        this->leave();
        for (auto& each : sent_)
            if (each->lent.load(std::memory_order_acquire) != 0 && !is_forgotten_)
                static_cast<void>(each.release());  // after a failure somebody may still be reading it
    }
    void forget_readers() noexcept override { is_forgotten_ = !across_.holds_memory(); }
    void resume() override {
        if (!std::exchange(is_awake_, true)) background_.add(*this);
    }
    void progress_now() noexcept override {
        background_.take_over();
        progress();
    }
    void leave_inside() noexcept override {
        background_.take_over();
        inside_ = nullptr;
    }
    void finish() override {
        resume();
        if (relay_.others_run()) tell_others(kind::leader_left);
        progress_until([&] { return !relay_.others_run() && !relay_.has_outgoing() && is_idle(); });
        tell_others(kind::process_finished);
        progress_until([&] { return is_idle() && first_unfinished() < 0; });
        rest();
    }
    void progress() noexcept override {
        if (relay_.has_failed()) return;
        try {
            move_messages();
            is_idle() && relay_.is_idle() ? rest() : resume();
        } catch (...) {
            relay_.fail(current_cause());
        }
    }
    void drop() noexcept override {}

  private:
    using kind = relayed_head::kind;
    struct sent {
        relayed_message what;
        part whole;
        std::atomic<int> lent{0};
    };
    [[nodiscard]] static signature about() {
        signature what;
        what.what = "relay";
        return what;
    }
    void tell_others(kind what) {
        for (int p = 0; p < relay_.processes(); ++p)
            if (p != relay_.process())
                queue_[p].push_back(
                    relayed_note({.what = what, .from = relay_.process(), .threads = relay_.threads()}));
    }
    void rest() noexcept {
        this->leave();
        is_awake_ = false;
    }
    void move_messages() {
        if (inside_ != nullptr) inside_->progress();
        across_.progress();
        for (auto& each : relay_.take_outgoing()) queue_[each.process].push_back(std::move(each.what));
        for (auto& [process, waiting_ones] : queue_)
            while (!waiting_ones.empty() && post(process, waiting_ones.front())) waiting_ones.pop_front();
        for (int p = 0; p < relay_.processes(); ++p)
            while (p != relay_.process() &&
                   across_.try_receive(p, lane_, [&](const auto& found) { take_in(p, found); })) {
            }
        std::erase_if(sent_, [](const auto& each) { return each->lent.load(std::memory_order_acquire) == 0; });
    }
    [[nodiscard]] bool post(int process, relayed_message& what) {
        if (!next_) next_ = std::make_unique<sent>();
        next_->whole = what.whole();
        outgoing message{.parts = {&next_->whole, 1}, .bytes = next_->whole.bytes};
        message.signature = about().hash();
        message.lent = &next_->lent;
        message.unordered = true;  // the lane is as old as the first team and as new as the last
        if (!across_.try_post(process, lane_, message)) return false;
        next_->what = std::move(what);
        sent_.push_back(std::move(next_));
        return true;
    }
    template <class A>
    void take_in(int process, const A& found) {
        bounce_buffer whole(found.bytes());
        if (found.packed() != nullptr)
            std::memcpy(whole.data(), found.packed(), found.bytes());
        else
            pack(found.parts(), 1, whole.data());
        relayed_message what(std::move(whole));
        const relayed_head head = what.head();
        if (head.threads != relay_.threads())  // its ranks have other numbers there
            throw error(errc::mismatch, text({"process ", relay_.process(), " runs with ", relay_.threads(),
                                              ", but process ", process, " with ", head.threads, " threads"}));
        if (head.what == kind::leader_left)
            relay_.note_leader_left(head.from);
        else if (head.what == kind::process_finished)
            relay_.note_finished(head.from);
        else
            relay_.deliver(std::move(what));
    }
    [[nodiscard]] bool is_idle() const noexcept {
        for (const auto& [process, waiting_ones] : queue_)
            if (!waiting_ones.empty()) return false;
        return sent_.empty();
    }
    /// -1 if there is none.
    [[nodiscard]] int first_unfinished() const noexcept {
        for (int p = 0; p < relay_.processes(); ++p)
            if (p != relay_.process() && !relay_.is_finished(p)) return p;
        return -1;
    }
    template <class IsDone>
    void progress_until(IsDone is_done) {
        constexpr unsigned check_interval = 64;
        for (unsigned turn = 1; !relay_.has_failed() && !is_done(); ++turn) {
            progress();
            background::progress_all();
            if (turn % check_interval == 0) look_for_departed();
            std::this_thread::yield();
        }
    }
    /// Fails if a process that has yet to finish has left.
    void look_for_departed() noexcept {
        struct {
            relay_mover& self;
            bool poll() {
                self.progress();
                return self.first_unfinished() < 0;
            }
            [[nodiscard]] waiting blocked_on() const {
                return {.what = "run, among processes", .rounds = 1, .peer = self.first_unfinished(), .on = self.lane_};
            }
            static void check() {}
        } last{*this};
        try {
            across_.look_around(last, std::nullopt);
        } catch (...) {
            relay_.fail(current_cause());
        }
    }

    relay& relay_;
    Across& across_;
    thread_communicator* inside_;
    lane lane_;
    bool is_awake_ = false;
    std::map<int, std::deque<relayed_message>> queue_;  // by process
    std::unique_ptr<sent> next_;
    std::vector<std::unique_ptr<sent>> sent_;
    bool is_forgotten_ = false;
    background background_;
};

}  // namespace allfold::detail
