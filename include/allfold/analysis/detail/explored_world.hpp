// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "allfold/analysis/detail/explored_call.hpp"
#include "allfold/analysis/detail/explored_mail.hpp"
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
#include "allfold/transport/detail/envelope.hpp"

/// @file
/// Ranks of one thread, and what each of them may do next, in one execution of a program at a time.

namespace allfold::detail {

/// Why a rank goes on.
enum class explored_turn : std::uint8_t {
    goes_on,
    looks,    ///< nothing moves any more: whether it waits in vain, it may know
    released  ///< the execution is over: what it still does throws
};

/// A send, as the call of its rank that starts it; the first one is 1.
struct explored_send {
    int rank;
    std::size_t call;
    friend auto operator<=>(const explored_send&, const explored_send&) = default;
};

/// A communicator as its world sees it, which may end first: whoever keeps one from execution to execution has it then.
class explored_tie {
  public:
    /// Its rank has returned, and nothing may use the world through it any more.
    virtual void cut() noexcept = 0;
    [[nodiscard]] virtual int size() const noexcept = 0;
    [[nodiscard]] virtual std::size_t in_flight() const noexcept = 0;
    bool is_cut = false;
    struct {
        const char* file = nullptr;  // where the program says it
        unsigned line = 0;
        std::size_t calls = 0;  // after so many
    } made;

  protected:
    ~explored_tie() = default;
};

class explored_world final : public order_observer {
  public:
    enum class place : std::uint8_t { running, waits, tests, chooses, returned };
    /// Whether a rank that pushes on what it has in flight looks for messages: not at all, at its next chance, or it
    /// has had that.
    enum class looking : std::uint8_t { no, stops, is_over };
    /// What becomes of standard sends.
    enum class sending : std::uint8_t { held, waits, chosen };

    /// Instead of the rank that makes a step.
    static constexpr int nobody = -1;
    /// What one rank does.
    using body = std::function<void(int)>;

    struct rank_state {
        std::unique_ptr<fibre> own;
        explored_world* world = nullptr;
        int rank = 0;
        place at = place::running;
        explored_turn turn = explored_turn::goes_on;
        std::vector<explored_channel> asked;  // without finding a message, since it was last delivered one or tested
        waiting where;
        std::uint64_t waited = 0;     // how many of its waits have ended
        int waits = 0;                // how many are within each other
        int tests_in_vain = 0;        // since the latest message
        bool has_got = false;         // one in the test that it is in
        bool has_got_unseen = false;  // the same, one of which the program knows nothing
        bool looks_again = false;
        bool once_more = false, sees_ends = true;  // of a look: beside a wait, and whether of ends too
        bool is_called_back = false;               // at the end of some operation
        looking looks = looking::no;
        bool tests_lane = false;                 // itself, no operation in flight does
        std::optional<explored_channel> latest;  // end that it has found in the test that it is in
        std::vector<explored_channel> ends;      // of operations in flight
        std::optional<cause> failure;
        std::size_t failed_in = 0;  // that call; 0 where nobody knows
        std::string thrown;         // by a call, the latest time that one has thrown
        std::size_t thrown_by = 0;
        std::vector<explored_tie*> ties;  // of its communicators
        std::vector<std::string> kept;    // those that are left when it has returned
        int refusals = 0;                 // calls that throw because all is over
        std::size_t left_in_flight = 0;   // operations at the end of a communicator
        bool leaves_buffer = false;       // attached there, with what it has sent
        explored_channel other;           // what it may choose, in a step without a message
        bool has_chosen_other = false;
        std::vector<explored_channel> unseen_answers;  // to sends of which nobody asks whether they are done
        std::vector<explored_channel> open_answers;    // to standard sends that wait
        std::vector<explored_channel> kept_back;       // sends for which there is no room: to whom, and which one
        bool is_timed = false;                         // what it waits for has a deadline
        bool time_is_up = false;                       // which passes now
        std::uint64_t doings = 0;                      // of which somebody can tell whether it is late before or after
        std::vector<explored_channel> listens;         // for news, on its communicators
        std::vector<explored_call> calls;
        std::vector<std::size_t> changed;     // the calls whose memory the program has written meanwhile
        std::vector<std::string> unreceived;  // messages that it still holds at the end of a communicator
        const char* file = nullptr;           // of its next call, where the program says it
        unsigned line = 0;
    };

    explored_world(int size, std::size_t stack_bytes, int tests, int most_tests, body run)
        : tests_(tests), most_tests_(most_tests), run_(std::move(run)), ranks_(static_cast<std::size_t>(size)) {
        for (int r = 0; r < size; ++r) {
            rank_state& each = of(r);
            each.world = this;
            each.rank = r;
            each.own = std::make_unique<fibre>(
                stack_bytes,
                [](void* self) {
                    rank_state& me = *static_cast<rank_state*>(self);
                    me.world->run_(me.rank);
                    me.at = place::returned;
                },
                &each);
        }
    }

    explored_world(const explored_world&) = delete;
    explored_world& operator=(const explored_world&) = delete;
    ~explored_world() {  // ranks that never return keep theirs
        for (const rank_state& each : ranks_)
            for (explored_tie* tie : each.ties) tie->is_cut = true;
    }

    sending sends = sending::held;
    bool may_hold = false;         // a send that waits, after all: a step beside the others
    bool has_ready_sends = false;  // in mode::ready: what comes before a receive starts may come too early
    std::vector<explored_send> sends_to_cancel;  // for which there may be no room until then
    bool deadlines_may_pass = true;
    bool deadlines_pass_anywhere = false;        // where nobody can tell, too
    step_watch<explored_call>* watch = nullptr;  // over ranks that do not come back, whose schedule this is
    const std::string* schedule = nullptr;
    std::vector<happening>* history = nullptr;  // where it is written down, if somebody wants it

    [[nodiscard]] int size() const noexcept { return static_cast<int>(ranks_.size()); }
    [[nodiscard]] rank_state& of(int rank) noexcept { return ranks_[static_cast<std::size_t>(rank)]; }

    /// All ranks run until they wait.
    void begin() {
        step_ = -1;
        asks_ = asks_for_ends_ = sees_all_ = clears_ = 0;
        cancelled_.clear();
        sends_ready_ = false;
        seats_used_ = 0;
        mail_.begin();
        standard_sends_ = waiting_sends_ = posted_ = late_ = 0;
        is_timed_ = false;
        open_sends_ = 0;
        for (rank_state& each : ranks_) {
            each.at = place::running;
            each.turn = explored_turn::goes_on;
            each.asked.clear();
            each.where = {};
            each.waits = each.tests_in_vain = each.refusals = 0;
            each.has_got = each.has_got_unseen = each.tests_lane = each.looks_again = false;
            each.looks = looking::no;
            each.once_more = each.is_called_back = false;
            each.sees_ends = true;
            each.is_timed = each.time_is_up = false;
            each.doings = 0;
            each.listens.clear();
            each.unseen_answers.clear();
            each.open_answers.clear();
            each.kept_back.clear();
            each.latest.reset();
            each.ends.clear();
            each.failure.reset();
            each.failed_in = each.thrown_by = 0;
            each.thrown.clear();
            each.kept.clear();
            each.left_in_flight = 0;
            each.leaves_buffer = false;
            each.calls.clear();
            each.unreceived.clear();
            each.changed.clear();
            each.file = nullptr;
        }
        if (watch != nullptr) watch->forget_calls();
        for (rank_state& each : ranks_) run_and_listen(each);
    }
    /// What may happen next, in a fixed order; returns the ranks for which nothing else may before that.
    std::uint64_t find_steps(std::vector<explored_step>& possible) {
        possible.clear();
        std::uint64_t settled = 0;
        for (const rank_state& each : ranks_)
            if (add_steps_of(each, possible)) settled |= std::uint64_t{1} << each.rank;
        if (possible.empty()) add_last_resorts(possible);
        std::sort(possible.begin(), possible.end());
        if (may_hold) add_holds(possible);
        return settled;
    }
    /// The channels on which a message may come to a rank, now or later.
    [[nodiscard]] std::span<const explored_channel> asked_by(int rank) {
        if (of(rank).at == place::chooses) return {};
        asked_or_ends_ = of(rank).asked;
        if (of(rank).sees_ends) asked_or_ends_.insert(asked_or_ends_.end(), of(rank).ends.begin(), of(rank).ends.end());
        asked_or_ends_.insert(asked_or_ends_.end(), of(rank).listens.begin(), of(rank).listens.end());
        return asked_or_ends_;
    }
    [[nodiscard]] bool is_unseen_answer(const explored_step& delivery) {
        const auto& unseen = of(delivery.rank).unseen_answers;
        return std::ranges::find(unseen, delivery.channel) != unseen.end();
    }
    /// In which step the message was posted that one delivers; -1 for none.
    [[nodiscard]] int posted_in(const explored_step& step) {
        if (!step.has_message) return -1;
        return mail_.next(step.rank, step.channel)->posted_in;
    }
    /// Not `seen`: by the search, to which it is a part of the step before it. Whether the rank has asked meanwhile in
    /// which order messages have come.
    bool take(const explored_step& step, bool seen) {
        if (seen) ++step_;
        rank_state& rank = of(step.rank);
        if (step.has_message) {
            const explored_letter& letter = mail_.deliver(step.rank, step.channel);
            const bool is_unseen = rank.at == place::tests && !rank.tests_lane && step.channel.is_of_a_collective();
            if (!is_unseen) rank.tests_in_vain = 0;
            rank.has_got = rank.at == place::tests && !is_unseen;
            if (rank.has_got && step.channel.is_end()) rank.latest = step.channel;
            rank.has_got_unseen = is_unseen;
            if (step.channel.is_message() && !step.channel.is_of_a_collective()) ++rank.doings;
            if (step.channel.is_end())
                note(happening::kind::goes_on, step.rank, "ends ", letter.what);
            else if (!step.channel.is_message())
                note(happening::kind::goes_on, step.rank, "hears that the deadline of another rank has passed");
            else if (history != nullptr)
                note(happening::kind::gets, step.rank, step.channel.from, letter);
        } else if (rank.at == place::chooses) {
            rank.has_chosen_other = step.channel == rank.other;
            const char* const words[3][2] = {{"has its send held", "waits with its send"},
                                             {"is in time", "is too late"},
                                             {"has room for its send", "has no room for its send"}};
            note(happening::kind::goes_on, step.rank, words[rank.other.on - send_waits.on][rank.has_chosen_other]);
        } else if (step.holds()) {
            hold(step.rank, step.channel);
        } else if (step.channel == deadline_passes) {
            rank.time_is_up = true;
            note(happening::kind::goes_on, step.rank, "is too late");
        } else {
            if (!rank.once_more) ++rank.tests_in_vain;
            note(happening::kind::goes_on, step.rank, rank.once_more ? "gets no more" : "tests, and gets nothing");
        }
        return run_and_listen(rank);
    }
    /// The ranks that have asked something in this execution: in which order messages have come, whether operations
    /// have ended, or what may depend on the order of all that comes.
    struct askers {
        std::uint64_t of_messages = 0, of_ends = 0, of_all = 0;
        std::vector<explored_send> of_cancels;  // whether these can still be cancelled
        bool has_ready_sends = false;           // of which it matters to all what has come
        friend bool operator==(const askers&, const askers&) = default;
        askers& operator|=(const askers& other) {
            of_messages |= other.of_messages;
            of_ends |= other.of_ends;
            of_all |= other.of_all;
            for (const explored_send& each : other.of_cancels) insert(of_cancels, each);
            has_ready_sends |= other.has_ready_sends;
            return *this;
        }
    };
    [[nodiscard]] askers asked() const {
        const std::uint64_t all = sees_all_ | (asks_ != 0 ? clears_ : 0);
        return {asks_ | all, asks_for_ends_ | all, all, cancelled_, sends_ready_};
    }
    /// It has asked for the data of a message: in which order it does so for several, which is that in which they have
    /// come to it, another rank that asks may see.
    void note_clear(int rank) noexcept { clears_ |= std::uint64_t{1} << rank; }
    /// Every rank that waits looks whether it does so in vain.
    void look_in_vain() {
        for (rank_state& each : ranks_)
            if (each.at == place::waits && !each.failure) go_on(each, explored_turn::looks);
    }
    /// Makes every rank return. One that does not, however often its calls throw, is left where it is: then this world
    /// cannot be used again.
    [[nodiscard]] bool release() {
        constexpr int most_turns = 100;
        for (rank_state& each : ranks_)
            for (int turn = 0; each.at != place::returned; ++turn) {
                if (turn == most_turns) return false;
                go_on(each, explored_turn::released);
            }
        return true;
    }
    /// A rank asks what has come, of all that this pushes on: for what that looks shows the first pass; then messages
    /// may come, and once more after each, since what others answer to it may be there too.
    template <class Pass>
    void look_for_all(int rank, Pass pass) {
        rank_state& self = of(rank);
        struct looking_on {  // a pass may throw, and the program go on
            rank_state& of;
            looking outer;
            ~looking_on() { of.looks = outer; }
        } const outer{self, std::exchange(self.looks, looking::is_over)};
        self.has_got = false;  // the last look may have ended with what it got
        pass();
        do {
            self.looks = looking::stops;
            self.looks_again = false;
            pass();
        } while (self.looks_again);
    }
    /// The same beside a wait, which is no test in vain if nothing comes.
    template <class Pass = void (*)()>
    void look_once_more(int rank, bool at_ends, Pass pass = &background::progress_all) {
        rank_state& self = of(rank);
        if (self.waits != 0 || self.looks != looking::no) return;
        struct beside_a_wait {  // a pass may throw, as there
            rank_state& of;
            ~beside_a_wait() {
                of.once_more = false;
                of.sees_ends = true;
            }
        } const beside{self};
        self.once_more = true;
        self.sees_ends = at_ends;
        look_for_all(rank, pass);
    }

    /// It has looked, and knows what has come. Who looks again and again in vain knows no more.
    void note_answer(int rank) noexcept {
        if (of(rank).tests_in_vain <= tests_) ++of(rank).doings;
    }

    // The rank that runs asks something.

    void note(order_question what) noexcept override {
        const std::uint64_t self = std::uint64_t{1} << running_;
        has_asked_ = true;
        asks_ |= self;
        if (what == order_question::now) asks_for_ends_ |= self;
        if (what == order_question::of_the_past) sees_all_ |= self;
        if (what != order_question::to_others) return;
        sends_ready_ = true;
        note_that_all_matters();
    }
    void look(bool at_ends) override { look_once_more(running_, at_ends); }
    void note_callback() override {
        note(order_question::of_the_past);  // when it is called, it sees what has come by then
        of(running_).is_called_back = true;
    }

    void note_cancel_of_send(std::size_t call) override { insert(cancelled_, {running_, call}); }

    void add_end(int rank, const explored_channel& end) { of(rank).ends.push_back(end); }
    void erase_end(int rank, const explored_channel& end) { std::erase(of(rank).ends, end); }
    /// What becomes of a rank at the end.
    void note_end(int rank, const std::string& words) { note(happening::kind::ends, rank, words); }
    /// Notes the place of the next call, and a call; returns its number, from 1.
    void note_place(int rank, const char* file, unsigned line) {
        of(rank).file = file;
        of(rank).line = line;
    }
    void forget_place(int rank) noexcept { of(rank).file = nullptr; }
    std::size_t note_call(int rank, explored_call call) {
        rank_state& self = of(rank);
        call.file = std::exchange(self.file, nullptr);
        call.line = self.line;
        self.calls.push_back(call);
        if (watch != nullptr) watch->note_call(call, self.calls.size());
        if (history != nullptr) note(happening::kind::calls, rank, text_of(call, self.calls.size()));
        return self.calls.size();
    }
    void note_changed(int rank, std::size_t call) { of(rank).changed.push_back(call); }
    /// A message begins its way, which its latest call sends; `number` is that of the send on its communicator.
    void note_sent(int rank, std::uint32_t number) {
        if (auto& calls = of(rank).calls; !calls.empty()) calls.back().number = number;
    }
    /// The call that has sent this message; 0 where nobody knows.
    [[nodiscard]] std::size_t find_send(int rank, std::uint64_t group, std::uint32_t number) const {
        const auto& calls = ranks_[static_cast<std::size_t>(rank)].calls;
        const auto found = std::ranges::find_if(calls, [&](const explored_call& each) {
            return each.is_message && each.group == group && each.number == number;
        });
        return found == calls.end() ? 0 : static_cast<std::size_t>(found - calls.begin()) + 1;
    }
    /// The number of the latest call that has opened this lane; 0 for none.
    [[nodiscard]] std::size_t find_call(int rank, std::uint64_t group, lane on) {
        const auto& calls = of(rank).calls;
        for (std::size_t i = calls.size(); i-- > 0;)
            if (calls[i].group == group && on - calls[i].first < calls[i].lanes) return i + 1;
        return 0;
    }
    /// The call that a rank waits in; null where nobody knows.
    [[nodiscard]] const explored_call* call_of(int rank) {
        const rank_state& self = of(rank);
        return self.where.call == 0 ? nullptr : &self.calls[self.where.call - 1];
    }
    /// Messages that nobody has taken.
    [[nodiscard]] const explored_mail& mail() const noexcept { return mail_; }

    // What a communicator does.

    /// A rank makes one, here.
    void add_tie(int rank, explored_tie& tie) {
        rank_state& self = of(rank);
        tie.made = {std::exchange(self.file, nullptr), self.line, self.calls.size()};
        self.ties.push_back(&tie);
    }
    void erase_tie(int rank, explored_tie& tie) noexcept { std::erase(of(rank).ties, &tie); }
    /// The rank that runs has returned, and keeps these.
    void cut_ties(int rank) {
        rank_state& self = of(rank);
        while (!self.ties.empty()) {
            explored_tie& last = *self.ties.back();
            self.ties.pop_back();
            if (!is_over(rank)) self.kept.push_back(text_of_kept(rank, last));
            last.is_cut = true;  // what is in flight there is told with it
            last.cut();
        }
    }

    /// What one rank has opened on one communicator; others may look at it to its end.
    struct seat {
        std::uint64_t group = 0;
        int rank = 0;
        opened_lanes opened;
    };
    [[nodiscard]] seat& take_seat(std::uint64_t group, int rank) {
        if (seats_used_ == seats_.size()) seats_.push_back(std::make_unique<seat>());
        seat& own = *seats_[seats_used_++];
        own = {group, rank, {}};
        return own;
    }
    [[nodiscard]] const opened_lanes::entry* find_opened(std::uint64_t group, int rank, lane on) const {
        for (std::size_t i = 0; i < seats_used_; ++i)
            if (const seat& each = *seats_[i]; each.group == group && each.rank == rank)
                if (const auto* const found = each.opened.find(on)) return found;
        return nullptr;
    }
    void post(int to, const explored_channel& from, explored_letter&& letter) {
        letter.posted_in = step_;
        if (from.is_message()) ++of(from.from).doings;
        if (history != nullptr && from.is_message()) {
            letter.number = ++posted_;
            note(happening::kind::posts, from.from, to, letter);
        }
        mail_.post(to, from, std::move(letter));
    }
    /// The next message that has been delivered to a rank on this channel.
    [[nodiscard]] std::optional<explored_letter> take_delivered(int rank, const explored_channel& from) {
        return mail_.take(rank, from);
    }
    void ask(int rank, const explored_channel& from) {
        auto& asked = of(rank).asked;
        if (std::ranges::find(asked, from) == asked.end()) asked.push_back(from);
    }
    /// Whether its next standard send is held for its receiver.
    [[nodiscard]] bool holds_send(int rank) {
        ++standard_sends_;
        const bool is_held = sends == sending::chosen ? !chooses(rank, send_waits) : sends == sending::held;
        if (!is_held) ++waiting_sends_;
        return is_held;
    }
    /// One that waits, which this answers.
    void note_waiting_send(int rank, const explored_channel& answer) { of(rank).open_answers.push_back(answer); }
    /// A standard send starts, and its rank may ask whether it is done.
    void note_open_send(int rank) noexcept { open_sends_ |= std::uint64_t{1} << rank; }
    [[nodiscard]] std::uint64_t open_sends() const noexcept { return open_sends_; }
    /// Whether this send stays here until it is cancelled. Nobody can tell that from one that leaves late, but by what
    /// `cancel` returns: so it is said at its start, as if its rank knew.
    [[nodiscard]] bool keeps_back(const explored_send& what) {
        return std::ranges::binary_search(sends_to_cancel, what) && chooses(what.rank, no_room);
    }
    /// Whether there is one that has not been cancelled after all: then another execution does the same, in which it
    /// has left.
    [[nodiscard]] bool keeps_any_back() const noexcept {
        return std::ranges::any_of(ranks_, [](const rank_state& each) { return !each.kept_back.empty(); });
    }
    /// Whether a deadline could have passed.
    [[nodiscard]] bool is_timed() const noexcept { return is_timed_; }
    /// Something has a deadline, which may pass unless deadlines pass in vain only.
    void note_deadline() {
        if (!deadlines_may_pass) return;
        is_timed_ = true;
        note_that_all_matters();  // when they hear of it depends on all that they do
    }
    /// Whether a deadline passes now: both are tried.
    [[nodiscard]] bool may_pass(int rank) {
        note_deadline();
        return deadlines_may_pass && chooses(rank, deadline_passes);
    }
    /// A deadline has passed: those who listen may hear of it from now on.
    void note_late() {
        note_that_all_matters();
        ++late_;
    }
    [[nodiscard]] bool is_anybody_late() const noexcept { return late_ != 0; }
    /// How many there were in this execution, and how many of them have not been held.
    [[nodiscard]] std::size_t standard_sends() const noexcept { return standard_sends_; }
    [[nodiscard]] std::size_t waiting_sends() const noexcept { return waiting_sends_; }
    /// Called by a rank that cannot go on, or would like to know whether it can.
    explored_turn stop(int rank, place at) {
        rank_state& self = of(rank);
        self.at = at;
        self.own->leave();
        self.at = place::running;
        return self.turn;
    }
    /// Called by a rank that looks whether a message has come; true if one comes now. A test is in vain where none
    /// does.
    [[nodiscard]] bool test(int rank) {
        rank_state& self = of(rank);
        const bool had_come = std::exchange(self.has_got, false);
        if (!had_come) self.latest.reset();
        stop(rank, place::tests);
        if (std::exchange(self.has_got_unseen, false)) {
            self.has_got = had_come;
            return true;
        }
        if (had_come && !self.has_got) self.tests_in_vain = 0;
        return self.has_got;
    }
    [[nodiscard]] bool is_over(int rank) { return of(rank).turn == explored_turn::released; }
    /// Whether a call that throws because all is over is one of many.
    [[nodiscard]] bool has_heard_enough(int rank) {
        constexpr int most_refusals = 100;
        rank_state& self = of(rank);
        if (self.refusals < most_refusals) ++self.refusals;
        if (self.refusals < most_refusals) return false;
        self.asked.clear();
        return true;
    }
    void note_failure(int rank, cause&& why) {
        rank_state& self = of(rank);
        if (is_over(rank) || (self.failure && self.failure->is_known)) return;
        self.failed_in = why.is_known && why.why == self.thrown ? self.thrown_by : 0;
        self.failure = std::move(why);
    }
    /// In which call this exception begins, which may throw again in others.
    void note_thrown(int rank, std::size_t call, cause&& why) {
        rank_state& self = of(rank);
        if (!why.is_known || why.why == self.thrown) return;
        self.thrown = std::move(why.why);
        self.thrown_by = call;
    }

  private:
    void note_that_all_matters() noexcept {
        has_asked_ = true;
        asks_ = asks_for_ends_ = sees_all_ = ~std::uint64_t{0};
    }
    [[nodiscard]] std::string text_of_kept(int rank, const explored_tie& kept) {
        const rank_state& self = of(rank);
        std::string words = text({"rank ", rank, " has returned, and keeps a communicator of ", kept.size(),
                                  kept.size() == 1 ? " rank" : " ranks"});
        if (const std::size_t n = kept.in_flight(); n != 0)
            words += text({", with ", n, n == 1 ? " operation" : " operations", " in flight"});
        const auto& made = kept.made;
        if (made.file != nullptr) return words + ", made at " + text_of_place(made.file, made.line);
        if (made.calls == 0) return words + ", made before its 1st call";
        return words + ", made after " + text_of(self.calls[made.calls - 1], made.calls);
    }
    /// Whether nothing else may happen to this rank before it makes one of its steps.
    bool add_steps_of(const rank_state& each, std::vector<explored_step>& possible) {
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
        if (each.tests_in_vain < tests_ || each.once_more) possible.push_back({each.rank, false, false, {}});
        return false;
    }
    /// How many: the next message of a channel, if there is one.
    std::size_t add_delivery(int rank, const explored_channel& from, std::vector<explored_step>& possible) {
        if (mail_.next(rank, from) == nullptr) return 0;
        possible.push_back({rank, true, false, from});
        return 1;
    }
    /// Where nothing else happens, who tests again and again may do so, and time passes.
    void add_last_resorts(std::vector<explored_step>& possible) {
        for (const rank_state& each : ranks_) {
            if (each.at == place::tests && each.tests_in_vain < most_tests_)
                possible.push_back({each.rank, false, true, {}});
            if (each.is_timed && (each.at == place::tests || each.at == place::waits))
                possible.push_back({each.rank, false, true, deadline_passes});
        }
    }

    /// Behind what else may happen. Where that is nothing, the first step is that nobody goes on.
    void add_holds(std::vector<explored_step>& possible) {
        const std::size_t others = possible.size();
        for (const rank_state& each : ranks_)
            for (const explored_channel& answer : each.open_answers)
                if ((each.at == place::waits || each.at == place::tests) && is_among(answer, each.asked) &&
                    mail_.next(each.rank, answer) == nullptr)
                    possible.push_back({each.rank, false, false, answer});
        if (others == 0 && !possible.empty()) possible.insert(possible.begin(), {nobody, false, false, {}});
    }
    /// As if its receive had answered, whose own answer then comes to nobody.
    void hold(int rank, const explored_channel& answer) {
        message_head head;
        head.what = message_head::kind::refused;
        head.number = answer.on & ~first_of_answers;
        explored_letter letter{signature_of_messages, sizeof head, step_, bounce_buffer(sizeof head)};
        std::memcpy(letter.memory.data(), &head, sizeof head);
        mail_.post(rank, answer, std::move(letter));
        static_cast<void>(mail_.deliver(rank, answer));
        --waiting_sends_;
        note(happening::kind::goes_on, rank, "has its send held");
    }
    [[nodiscard]] static bool is_among(const explored_channel& one, const std::vector<explored_channel>& all) {
        return std::ranges::find(all, one) != all.end();
    }
    void note(happening::kind what, int rank, const std::string& words, const char* more = "") {
        if (history != nullptr) history->push_back({what, rank, -1, 0, words + more});
    }
    void note(happening::kind what, int rank, int peer, const explored_letter& letter) {
        history->push_back({what, rank, peer, letter.number, letter.what});
    }

    /// The ends of operations that are found at one test are found in one order.
    [[nodiscard]] static bool comes_too_late(const rank_state& rank, const explored_channel& from) {
        return from.is_end() && rank.at == place::tests && (!rank.sees_ends || (rank.latest && from < *rank.latest));
    }
    /// Between going on as usual, and this.
    [[nodiscard]] bool chooses(int rank, const explored_channel& other) {
        of(rank).other = other;
        stop(rank, place::chooses);
        return !is_over(rank) && of(rank).has_chosen_other;
    }
    /// Until it waits again.
    void run(rank_state& rank) {
        if (watch != nullptr) watch->begin(rank.rank, schedule);
        order_observer* const outer = std::exchange(observer_of_order, this);
        running_ = rank.rank;
        rank.own->enter();
        observer_of_order = outer;
    }
    /// Whether it has asked something meanwhile.
    bool run_and_listen(rank_state& rank) {
        has_asked_ = false;
        run(rank);
        return has_asked_;
    }
    void go_on(rank_state& rank, explored_turn turn) {
        rank.turn = turn;
        run(rank);
    }
    static void insert(std::vector<explored_send>& sorted, const explored_send& one) {
        const auto place = std::ranges::lower_bound(sorted, one);
        if (place == sorted.end() || *place != one) sorted.insert(place, one);
    }
    // Of steps without a message.
    static constexpr explored_channel send_waits{0, 0, 1}, deadline_passes{0, 0, 2}, no_room{0, 0, 3};

    int tests_, most_tests_;
    std::size_t standard_sends_ = 0, waiting_sends_ = 0, posted_ = 0, late_ = 0;
    bool is_timed_ = false;
    std::uint64_t open_sends_ = 0;
    body run_;
    int step_ = -1;
    int running_ = 0;         // the rank that runs
    bool has_asked_ = false;  // something, since it began
    bool sends_ready_ = false;
    std::uint64_t asks_ = 0, asks_for_ends_ = 0, sees_all_ = 0, clears_ = 0;
    std::vector<explored_send> cancelled_;
    std::vector<explored_channel> asked_or_ends_;
    std::vector<rank_state> ranks_;
    explored_mail mail_;
    std::vector<std::unique_ptr<seat>> seats_;
    std::size_t seats_used_ = 0;
};

}  // namespace allfold::detail
