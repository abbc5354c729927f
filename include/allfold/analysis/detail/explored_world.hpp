// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "allfold/analysis/detail/explored_call.hpp"
#include "allfold/analysis/detail/explored_lanes.hpp"
#include "allfold/analysis/detail/explored_mail.hpp"
#include "allfold/analysis/detail/explored_questions.hpp"
#include "allfold/analysis/detail/explored_rank.hpp"
#include "allfold/analysis/detail/fibre.hpp"
#include "allfold/analysis/detail/search_tree.hpp"
#include "allfold/analysis/detail/step_watch.hpp"
#include "allfold/analysis/exploration.hpp"
#include "allfold/error.hpp"
#include "allfold/message/detail/message_head.hpp"
#include "allfold/message/detail/post_office.hpp"
#include "allfold/transport/background.hpp"
#include "allfold/transport/communicator.hpp"
#include "allfold/transport/detail/arrival_order.hpp"
#include "allfold/transport/detail/bounce.hpp"
#include "allfold/transport/detail/cause.hpp"

/// @file
/// Ranks that share one thread, and what each of them may do next, in one execution of a program at a time.

namespace allfold::detail {

class explored_world final : public order_observer {
    using place = explored_rank::place;
    using looking = explored_rank::looking;

  public:
    /// How standard sends behave.
    enum class sending : std::uint8_t { held, waits, chosen };

    /// The rank of a step that no rank makes.
    static constexpr int nobody = -1;
    /// What one rank does.
    using body = std::function<void(int)>;

    explored_world(int size, std::size_t stack_bytes, int tests, int most_tests, body run)
        : stack_bytes_(std::max(stack_bytes, least_stack_bytes)),
          tests_(tests),
          most_tests_(most_tests),
          run_(std::move(run)) {
        ranks_.reserve(static_cast<std::size_t>(size));
        for (int r = 0; r < size; ++r) give_fibre(ranks_.emplace_back(*this, r));
    }

    explored_world(const explored_world&) = delete;
    explored_world& operator=(const explored_world&) = delete;
    ~explored_world() {  // ranks that never return keep their communicators
        for (const explored_rank& each : ranks_)
            for (explored_endpoint* endpoint : each.endpoints) endpoint->is_cut = true;
    }

    sending sends = sending::held;
    bool may_hold = false;                         // a send that waits, after all: that is a step like others
    std::uint64_t test_sends = 0;                  // ranks that do: each send that they may see is held or not
    bool has_ready_sends = false;                  // in mode::ready: they may arrive too early, before their receives
    std::vector<explored_send> sends_to_cancel;    // for which there may be no room until they are cancelled
    std::uint64_t most_calls = ~std::uint64_t{0};  // of one rank: then its execution is endless
    bool tells_failures = false;                   // to other ranks
    bool deadlines_may_pass = true;
    bool deadlines_pass_anywhere = false;        // even if nobody can tell
    step_watch<explored_call>* watch = nullptr;  // for ranks that do not give back control; shows `schedule`
    const std::string* schedule = nullptr;
    fibre::on_abort on_abort = fibre::on_abort::ends_process;  // needs an abort_catcher if it is another one
    std::vector<happening>* history = nullptr;                 // where it is recorded, if wanted

    [[nodiscard]] int size() const noexcept { return static_cast<int>(ranks_.size()); }
    [[nodiscard]] explored_rank& of(int rank) noexcept { return ranks_[static_cast<std::size_t>(rank)]; }

    /// Begins an execution: all ranks run until they wait.
    void begin() {
        step_ = -1;
        questions_.begin();
        lanes_.begin();
        mail_.begin();
        standard_sends_ = waiting_sends_ = posted_ = 0;
        has_news_ = false;
        posts_ = 0;
        is_timed_ = false;
        open_sends_ = 0;
        for (explored_rank& each : ranks_) each.begin();
        if (watch != nullptr) watch->forget_calls();
        for (explored_rank& each : ranks_) run_and_note_questions(each);
    }
    /// Finds the steps that are possible next, in a fixed order; returns the ranks for which nothing else can become
    /// possible before they make a step.
    std::uint64_t find_steps(std::vector<explored_step>& possible) {
        possible.clear();
        std::uint64_t settled = 0;
        for (const explored_rank& each : ranks_)
            if (add_steps_of(each, possible)) settled |= std::uint64_t{1} << each.rank;
        if (possible.empty()) add_last_resorts(possible);
        std::sort(possible.begin(), possible.end());
        if (may_hold) add_holds(possible);
        return settled;
    }
    /// The channels on which a message may arrive at a rank, now or later.
    [[nodiscard]] std::span<const explored_channel> asked_by(int rank) {
        const explored_rank& self = of(rank);
        if (self.at == place::chooses) return {};
        asked_or_ends_ = self.asked;
        if (self.sees_ends) asked_or_ends_.insert(asked_or_ends_.end(), self.ends.begin(), self.ends.end());
        if (self.at == place::tests)  // an earlier look may have asked for ends that this one does not find
            std::erase_if(asked_or_ends_, [&](const auto& each) { return comes_too_late(self, each); });
        asked_or_ends_.insert(asked_or_ends_.end(), self.listens.begin(), self.listens.end());
        return asked_or_ends_;
    }
    [[nodiscard]] bool is_unseen_answer(const explored_step& delivery) {
        const auto& unseen = of(delivery.rank).unseen_answers;
        return std::ranges::find(unseen, delivery.channel) != unseen.end();
    }
    /// The step in which the message that this step delivers was posted; -1 if it delivers none.
    [[nodiscard]] int posted_in(const explored_step& step) {
        if (!step.has_message) return -1;
        return mail_.next(step.rank, step.channel)->posted_in;
    }
    /// Takes a step. If not `seen`, the search regards it as part of the previous step. Returns whether the rank has
    /// meanwhile asked in which order messages have arrived.
    bool take(const explored_step& step, bool seen) {
        if (seen) ++step_;
        explored_rank& rank = of(step.rank);
        rank.last_tests = step.is_last_test() ? rank.last_tests + 1 : 0;
        if (step.has_message) {
            const explored_message& message = mail_.deliver(step.rank, step.channel);
            const bool is_unseen = rank.at == place::tests && !rank.tests_lane && step.channel.is_of_a_collective();
            if (!is_unseen) rank.failed_tests = 0;
            rank.has_received = rank.at == place::tests && !is_unseen;
            if (rank.has_received && step.channel.is_end()) rank.latest = step.channel;
            rank.has_received_unseen = is_unseen;
            if (step.channel.is_message() && !step.channel.is_of_a_collective()) ++rank.observable_events;
            note_arrival(step, message);
        } else if (rank.at == place::chooses) {
            rank.has_chosen_other = step.channel == rank.other;
            const char* const words[3][2] = {{"has its send held", "waits in its send"},
                                             {"meets its deadline", "misses its deadline"},
                                             {"has room for its send", "has no room for its send"}};
            note(happening::kind::goes_on, step.rank, words[rank.other.on - send_waits.on][rank.has_chosen_other]);
        } else if (step.holds()) {
            hold(step.rank, step.channel);
        } else if (step.channel == deadline_passes) {
            rank.is_deadline_passed = true;
            note(happening::kind::goes_on, step.rank, "misses its deadline");
        } else if (step.channel == peer_gone) {
            rank.is_peer_gone = true;
            note(happening::kind::goes_on, step.rank, "learns that the rank it waits for has returned");
        } else {
            if (!rank.once_more) ++rank.failed_tests;
            rank.once_more ? note(happening::kind::goes_on, step.rank, "gets nothing more") : note_vain_test(rank);
        }
        return run_and_note_questions(rank);
    }
    [[nodiscard]] asking_ranks asked() const { return questions_.asked(); }
    void note_clear(int rank) noexcept { questions_.note_clear(rank); }
    /// Every rank that waits checks whether it does so in vain.
    void check_all_waits() {
        for (explored_rank& each : ranks_)
            if (each.at == place::waits && !each.failure) go_on(each, resume_reason::looks);
    }
    /// Makes every rank return. False if one does not, however often its calls throw: it is left where it is, and this
    /// world cannot be used again.
    [[nodiscard]] bool release() {
        constexpr int max_turns = 100;
        for (explored_rank& each : ranks_)
            for (int turn = 0; each.at != place::returned; ++turn) {
                if (turn == max_turns) return false;
                go_on(each, resume_reason::released);
            }
        return true;
    }
    /// A rank asks what has arrived for everything that `pass` makes progress on. The first pass shows what it looks
    /// for; then messages may arrive, and another pass follows each of them, since what others answer to it may be
    /// there too.
    template <class Pass>
    void look_for_all(int rank, Pass pass) {
        explored_rank& self = of(rank);
        struct restore_looks {  // a pass may throw, and the program may go on
            explored_rank& of;
            looking outer;
            ~restore_looks() { of.looks = outer; }
        } const outer{self, std::exchange(self.looks, looking::is_over)};
        self.has_received = false;  // it may be left from the last look
        pass();
        do {
            self.looks = looking::stops;
            self.looks_again = false;
            pass();
        } while (self.looks_again);
    }
    /// The same beside a wait: if nothing arrives, this is not a test in vain.
    template <class Pass = void (*)()>
    void look_once_more(int rank, bool at_ends, Pass pass = &background::progress_all) {
        explored_rank& self = of(rank);
        if (self.waits != 0 || self.looks != looking::no) return;
        struct restore_flags {  // a pass may throw, as above
            explored_rank& of;
            ~restore_flags() {
                of.once_more = false;
                of.sees_ends = true;
            }
        } const beside{self};
        self.once_more = true;
        self.sees_ends = at_ends;
        look_for_all(rank, pass);
    }

    /// The rank has looked, and knows what has arrived. Looking again and again in vain tells it nothing new.
    void note_answer(int rank) noexcept {
        if (of(rank).failed_tests <= tests_) ++of(rank).observable_events;
    }

    // Questions of the running rank.

    void note(order_question what) noexcept override {
        if (what == order_question::at_the_end) of(running_).has_released = true;
        questions_.note(running_, what);
    }
    void look(bool at_ends) override { look_once_more(running_, at_ends); }
    void note_callback() override {
        note(order_question::of_the_past);  // the callback sees what has arrived by then
        of(running_).is_called_back = true;
    }

    void note_cancel_of_send(std::size_t call) override { questions_.note_cancel({running_, call}); }
    void swap_operations(std::vector<const void*>& others) noexcept override { of(running_).operations.swap(others); }

    void add_end(int rank, const explored_channel& end) { of(rank).ends.push_back(end); }
    void erase_end(int rank, const explored_channel& end) { std::erase(of(rank).ends, end); }
    /// Records what becomes of a rank at the end.
    void note_end(int rank, const std::string& words) { note(happening::kind::ends, rank, words); }
    /// Notes where the next call of a rank is.
    void note_place(int rank, const noted_place& next) noexcept {
        of(rank).next = next;
        of(rank).thrown_at = {};
    }
    /// An exception has left the statement at that place.
    void note_thrown_at(int rank, const noted_place& where) noexcept { of(rank).thrown_at = where; }
    /// Where the call is that the rank makes now.
    [[nodiscard]] source_place take_place(int rank) noexcept { return std::exchange(of(rank).next, {}).at; }
    /// Notes a call; returns its number, from 1.
    std::size_t note_call(int rank, const explored_call& call) {
        explored_rank& self = of(rank);
        self.thrown_at = {};
        self.calls.push_back(call);
        for (const int each : {rank, call.to, call.from, call.label}) mix(static_cast<std::uint64_t>(each));
        if (watch != nullptr) watch->note_call(call, self.calls.size());
        if (history != nullptr) note(happening::kind::calls, rank, text_of(call, self.calls.size()));
        if (self.calls.size() >= most_calls && !is_over(rank)) stop(rank, place::calls);
        return self.calls.size();
    }
    [[nodiscard]] bool has_endless_calls() const {
        return std::ranges::find(ranks_, place::calls, &explored_rank::at) != ranks_.end();
    }
    /// A call, counted from 1, starts the send that has this number on its communicator.
    void note_number(int rank, std::size_t call, std::uint32_t number) { of(rank).calls[call - 1].number = number; }
    /// The messages of this execution, with those that have not been taken.
    [[nodiscard]] const explored_mail& mail() const noexcept { return mail_; }
    /// How often the program has aborted on a rank so far, in all executions.
    [[nodiscard]] std::uint64_t aborts() const noexcept { return aborts_; }
    /// Identifies the calls and what was posted in this execution: from whom to whom, how much, and in which order.
    [[nodiscard]] std::uint64_t posts() const noexcept { return posts_; }
    /// How much was posted, in all executions.
    [[nodiscard]] std::uint64_t posts_of_all() const noexcept { return posts_of_all_; }

    // What a communicator does.

    /// A rank makes a communicator, at the source position noted.
    void add_endpoint(int rank, explored_endpoint& endpoint) {
        explored_rank& self = of(rank);
        endpoint.made = {take_place(rank), self.calls.size()};
        self.endpoints.push_back(&endpoint);
    }
    void erase_endpoint(int rank, explored_endpoint& endpoint) noexcept { std::erase(of(rank).endpoints, &endpoint); }
    /// The execution has ended: notes what ranks that have not returned have not received.
    void note_unreceived() {
        for (const explored_rank& each : ranks_)
            for (explored_endpoint* endpoint : each.endpoints) endpoint->note_unreceived();
    }
    /// The running rank has returned: cuts off the communicators that it keeps.
    void detach_endpoints(int rank) {
        explored_rank& self = of(rank);
        while (!self.endpoints.empty()) {
            explored_endpoint& last = *self.endpoints.back();
            self.endpoints.pop_back();
            if (!is_over(rank)) self.kept.push_back(text_of_kept(rank, last));
            last.is_cut = true;  // operations in flight there are reported with it
            last.cut();
        }
    }

    [[nodiscard]] explored_lanes& lanes() noexcept { return lanes_; }
    void post(int to, const explored_channel& from, explored_message&& message) {
        message.posted_in = step_;
        ++posts_of_all_;
        note_post(to, from, message.bytes);
        if (from.is_message()) ++of(from.from).observable_events;
        if (history != nullptr && from.is_message()) {
            message.number = ++posted_;
            note(happening::kind::posts, from.from, to, message);
        }
        mail_.post(to, from, std::move(message));
    }
    /// Takes the next message that has been delivered to a rank on this channel.
    [[nodiscard]] std::optional<explored_message> take_delivered(int rank, const explored_channel& from) {
        return mail_.take(rank, from);
    }
    /// Whether the search chooses if the next standard send of a rank is held for its receiver. `is_seen`: the program
    /// may see how long it takes.
    [[nodiscard]] bool chooses_send(int rank, bool is_seen) const noexcept {
        return sends == sending::chosen || (is_seen && (test_sends >> rank & 1) != 0);
    }
    /// Whether it is held.
    [[nodiscard]] bool holds_send(int rank, bool is_seen) {
        const bool is_chosen = chooses_send(rank, is_seen);
        if (!is_chosen) ++standard_sends_;
        const bool is_held = is_chosen ? !chooses(rank, send_waits) : sends == sending::held;
        if (!is_held) ++waiting_sends_;
        return is_held;
    }
    /// A standard send waits for this answer.
    void note_waiting_send(int rank, const explored_channel& answer) { of(rank).open_answers.push_back(answer); }
    /// A standard send starts, and its rank may see how long it takes.
    void note_open_send(int rank) noexcept { open_sends_ |= std::uint64_t{1} << rank; }
    [[nodiscard]] std::uint64_t open_sends() const noexcept { return open_sends_; }
    /// Whether this send stays here until it is cancelled. Only what `cancel` returns tells that from a send that
    /// leaves late, so it is decided at its start, as if its rank knew.
    [[nodiscard]] bool withholds(const explored_send& what) {
        return std::ranges::binary_search(sends_to_cancel, what) && chooses(what.rank, no_room);
    }
    /// Whether a send that stays has not been cancelled after all: then another execution, in which it has left, does
    /// the same.
    [[nodiscard]] bool withholds_any() const noexcept {
        return std::ranges::any_of(ranks_, [](const explored_rank& each) { return !each.withheld_sends.empty(); });
    }
    /// Whether a deadline could have passed, or ranks have been told of a failure.
    [[nodiscard]] bool is_timed() const noexcept { return is_timed_; }
    /// Something has a deadline. It may pass, unless deadlines pass only when nothing else can happen.
    void note_deadline() {
        if (!deadlines_may_pass) return;
        is_timed_ = true;
        questions_.note_of_all();  // when others are notified depends on everything that they do
    }
    /// Whether a deadline passes now: both outcomes are tried.
    [[nodiscard]] bool may_pass(int rank) {
        note_deadline();
        return deadlines_may_pass && chooses(rank, deadline_passes);
    }
    /// A deadline has passed, or a rank has failed: those who listen may be notified from now on.
    void note_news() {
        questions_.note_of_all();
        has_news_ = true;
    }
    void note_told_failure() {
        is_timed_ = true;
        note_news();
    }
    [[nodiscard]] bool has_news() const noexcept { return has_news_; }
    /// The number of standard sends in this execution whose holding is not chosen, and the number of all those that
    /// have not been held.
    [[nodiscard]] std::size_t standard_sends() const noexcept { return standard_sends_; }
    [[nodiscard]] std::size_t waiting_sends() const noexcept { return waiting_sends_; }
    /// Called by a rank that cannot go on, or wants to know whether it can.
    resume_reason stop(int rank, place at) {
        explored_rank& self = of(rank);
        self.at = at;
        self.own->leave();
        self.at = place::running;
        return self.turn;
    }
    /// Called by a rank that tests whether a message has arrived; true if one arrives now. A test is in vain if none
    /// does.
    [[nodiscard]] bool test(int rank) {
        explored_rank& self = of(rank);
        const bool had_come = std::exchange(self.has_received, false);
        if (!had_come) self.latest.reset();
        stop(rank, place::tests);
        if (std::exchange(self.has_received_unseen, false)) {
            self.has_received = had_come;
            return true;
        }
        if (had_come && !self.has_received) self.failed_tests = 0;
        return self.has_received;
    }
    [[nodiscard]] bool is_over(int rank) { return of(rank).is_over(); }

  private:
    void note_post(int to, const explored_channel& from, std::size_t bytes) noexcept {
        mix(static_cast<std::uint64_t>(from.from - end_of_operation) << 40 ^ static_cast<std::uint64_t>(to) << 32 ^
            from.on);
        mix(from.group + bytes);
    }
    void mix(std::uint64_t x) noexcept { posts_ = (posts_ ^ x ^ posts_ >> 29) * 0x9e3779b97f4a7c15u; }
    [[nodiscard]] std::string text_of_kept(int rank, const explored_endpoint& kept) {
        const explored_rank& self = of(rank);
        std::string words = text({"rank ", rank, " has returned but still holds a communicator of ", kept.size(),
                                  kept.size() == 1 ? " rank" : " ranks"});
        if (const std::size_t n = kept.in_flight(); n != 0)
            words += text({", with ", n, n == 1 ? " operation" : " operations", " in flight"});
        const auto& made = kept.made;
        if (made.at.file != nullptr) return words + ", created at " + text_of(made.at);
        if (made.calls == 0) return words + ", created before its 1st call";
        return words + ", created after " + text_of(self.calls[made.calls - 1], made.calls);
    }
    /// Adds the possible steps of a rank; returns whether nothing else can become possible for it before it makes one
    /// of them.
    bool add_steps_of(const explored_rank& each, std::vector<explored_step>& possible) {
        if (each.at == place::chooses) {
            possible.push_back({each.rank, false, false, {}});
            possible.push_back({each.rank, false, false, each.other});
            return true;
        }
        if (each.at != place::waits && each.at != place::tests) return false;
        std::size_t messages = 0;
        for (const explored_channel& from : each.asked)
            if (!comes_too_late(each, from)) messages += add_delivery(each.rank, from, possible);
        for (const explored_channel& news : each.listens) add_delivery(each.rank, news, possible);
        if (each.at == place::waits) return messages == each.asked.size();
        if (each.failed_tests < tests_ || each.once_more) possible.push_back({each.rank, false, false, {}});
        return false;
    }
    /// Adds the delivery of the next message of a channel, if there is one; returns how many it adds.
    std::size_t add_delivery(int rank, const explored_channel& from, std::vector<explored_step>& possible) {
        if (mail_.next(rank, from) == nullptr) return 0;
        possible.push_back({rank, true, false, from});
        return 1;
    }
    [[nodiscard]] bool goes_on_testing(const explored_rank& each) const noexcept {
        return each.at == place::tests && each.failed_tests < most_tests_;
    }
    [[nodiscard]] int round_of(const explored_rank& each) const noexcept {
        constexpr int fewest_in_a_round = 4;  // so that a few tests can be made in any order
        return each.last_tests / std::max(tests_, fewest_in_a_round);
    }
    /// If nothing else can happen, ranks that test again and again go on doing so, in rounds, and deadlines pass.
    void add_last_resorts(std::vector<explored_step>& possible) {
        int round = most_tests_;
        for (const explored_rank& each : ranks_)
            if (goes_on_testing(each)) round = std::min(round, round_of(each));
        for (const explored_rank& each : ranks_) {
            if (goes_on_testing(each) && round_of(each) == round)
                possible.push_back({each.rank, false, true, {}, round});
            if (each.is_timed && (each.at == place::tests || each.at == place::waits))
                possible.push_back({each.rank, false, true, deadline_passes});
            if (tells_failures && each.at == place::waits && each.where.peer >= 0 &&
                of(each.where.peer).at == place::returned)
                possible.push_back({each.rank, false, true, peer_gone});
        }
    }

    /// Adds the steps that hold sends, after all other steps. If there are no others, the first step is that no rank
    /// goes on.
    void add_holds(std::vector<explored_step>& possible) {
        const std::size_t others = possible.size();
        for (const explored_rank& each : ranks_)
            for (const explored_channel& answer : each.open_answers)
                if ((each.at == place::waits || each.at == place::tests) && is_among(answer, each.asked) &&
                    mail_.next(each.rank, answer) == nullptr)
                    possible.push_back({each.rank, false, false, answer});
        if (others == 0 && !possible.empty()) possible.insert(possible.begin(), {nobody, false, false, {}});
    }
    /// Holds a send, as if its receive had answered; the receive's own answer then reaches nobody.
    void hold(int rank, const explored_channel& answer) {
        message_head head;
        head.what = message_head::kind::refused;
        head.number = answer.on & ~first_of_answers;
        explored_message message{signature_of_messages, sizeof head, step_, bounce_buffer(sizeof head)};
        std::memcpy(message.memory.data(), &head, sizeof head);
        mail_.post(rank, answer, std::move(message));
        static_cast<void>(mail_.deliver(rank, answer));
        --waiting_sends_;
        note(happening::kind::goes_on, rank, "has its send held");
    }
    [[nodiscard]] static bool is_among(const explored_channel& one, const std::vector<explored_channel>& all) {
        return std::ranges::find(all, one) != all.end();
    }
    void note(happening::kind what, int rank, const std::string& words, const char* more = "") {
        if (history != nullptr) history->push_back({what, rank, -1, 0, words + more});
        of(rank).vain_tests = 0;
    }
    void note(happening::kind what, int rank, int peer, const explored_message& message) {
        history->push_back({what, rank, peer, message.number, message.what});
        of(rank).vain_tests = 0;
    }
    void note_arrival(const explored_step& step, const explored_message& message) {
        if (step.channel.is_end())
            note(happening::kind::goes_on, step.rank, "ends ", message.what);
        else if (!step.channel.is_message())
            note(happening::kind::goes_on, step.rank,
                 step.channel.from == news_of_a_failure ? "learns that another rank has failed"
                                                        : "learns that another rank's deadline has passed");
        else if (history != nullptr)
            note(happening::kind::gets, step.rank, step.channel.from, message);
    }
    /// Tests in vain, one directly after another, are noted as one happening.
    void note_vain_test(explored_rank& rank) {
        if (history == nullptr) return;
        const int times = rank.vain_tests + 1;
        if (times == 1)
            note(happening::kind::goes_on, rank.rank, "tests, and gets nothing");
        else
            std::ranges::find(history->rbegin(), history->rend(), rank.rank, &happening::rank)->text =
                text({"tests ", times, " times, and gets nothing"});
        rank.vain_tests = times;
    }

    /// Ends of operations that are found in the same test are found in a fixed order.
    [[nodiscard]] static bool comes_too_late(const explored_rank& rank, const explored_channel& from) {
        return from.is_end() && rank.at == place::tests && (!rank.sees_ends || (rank.latest && from < *rank.latest));
    }
    /// Lets the search choose between going on as usual and `other`; true for the latter.
    [[nodiscard]] bool chooses(int rank, const explored_channel& other) {
        of(rank).other = other;
        stop(rank, place::chooses);
        return !is_over(rank) && of(rank).has_chosen_other;
    }
    /// Runs a rank until it waits again.
    void run(explored_rank& rank) {
        if (watch != nullptr) watch->begin(rank.rank, schedule);
        order_observer* const outer = std::exchange(observer_of_order, this);
        running_ = rank.rank;
        rank.own->enter(on_abort);
        observer_of_order = outer;
        if (rank.own->has_aborted()) [[unlikely]]
            abandon(rank);
    }
    void give_fibre(explored_rank& to) {
        to.own = std::make_unique<fibre>(
            stack_bytes_,
            [](void* self) {
                explored_rank& me = *static_cast<explored_rank*>(self);
                me.world->run_(me.rank);
                me.at = place::returned;
            },
            &to);
    }
    /// The program has aborted on a rank, which has therefore failed. Nothing that it has made is touched any more.
    void abandon(explored_rank& rank) {
        rank.note_failure(cause_of_abort(rank.own->handled()));
        for (explored_endpoint* const endpoint : rank.endpoints) endpoint->is_cut = true;
        rank.endpoints.clear();
        rank.at = place::returned;
        ++aborts_;
        fibre::abandon(std::move(rank.own));
        give_fibre(rank);
    }
    [[nodiscard]] static cause cause_of_abort(const std::exception_ptr& handled) {
        std::string why = "it aborts (a failed assertion, std::terminate, std::abort)";
        if (handled) why += ", while it handles an exception: " + cause_of(handled).why;
        return {.why = std::move(why)};
    }
    /// The same; returns whether the rank has asked something meanwhile.
    bool run_and_note_questions(explored_rank& rank) {
        questions_.resume();
        run(rank);
        return questions_.has_asked();
    }
    void go_on(explored_rank& rank, resume_reason turn) {
        rank.turn = turn;
        run(rank);
    }
    // The channels of steps without a message.
    static constexpr explored_channel send_waits{0, 0, 1}, deadline_passes{0, 0, 2}, no_room{0, 0, 3},
        peer_gone{0, 0, 4};

    static constexpr std::size_t least_stack_bytes = 64 << 10;  // allfold's own calls take some of it
    std::size_t stack_bytes_;
    int tests_, most_tests_;
    std::uint64_t aborts_ = 0;  // in all executions
    std::size_t standard_sends_ = 0, waiting_sends_ = 0, posted_ = 0;
    bool is_timed_ = false, has_news_ = false;
    std::uint64_t open_sends_ = 0;
    std::uint64_t posts_ = 0, posts_of_all_ = 0;
    body run_;
    int step_ = -1;
    int running_ = 0;  // the running rank
    explored_questions questions_;
    std::vector<explored_channel> asked_or_ends_;
    std::vector<explored_rank> ranks_;
    explored_mail mail_;
    explored_lanes lanes_;
};

}  // namespace allfold::detail
