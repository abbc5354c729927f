// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <ranges>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "allfold/analysis/detail/abort_catcher.hpp"
#include "allfold/analysis/detail/explored_call.hpp"
#include "allfold/analysis/detail/explored_mail.hpp"
#include "allfold/analysis/detail/explored_text.hpp"
#include "allfold/analysis/detail/explored_token.hpp"
#include "allfold/analysis/detail/explored_values.hpp"
#include "allfold/analysis/detail/explored_world.hpp"
#include "allfold/analysis/detail/fibre.hpp"
#include "allfold/analysis/detail/found_faults.hpp"
#include "allfold/analysis/detail/same_order.hpp"
#include "allfold/analysis/detail/search_tree.hpp"
#include "allfold/analysis/exploration.hpp"
#include "allfold/error.hpp"
#include "allfold/transport/detail/cause.hpp"

/// @file
/// Runs one execution after another, and reports what is wrong with each.

namespace allfold::detail {

class explorer {
  public:
    explorer(explored_world& world, explored_values& values, const explore_options& options)
        : world_(world),
          values_(values),
          options_(options),
          tree_(world.size(), options.reduced),
          faults_(options.findings) {
        found_.ranks_ = world.size();
        world.tells_failures = options.failures == failures::are_told;
        world.deadlines_may_pass = options.deadlines == deadlines::may_pass;
        world.deadlines_pass_anywhere = !options.reduced;
        world.most_calls = options.steps;
    }

    [[nodiscard]] exploration explore() {
        step_watch<explored_call> watch(options_.step_seconds, world_.size());
        world_.watch = &watch;
        world_.schedule = &token_;
        const abort_catcher catches_aborts;
        world_.on_abort = fibre::on_abort::leaves;
        const struct leave {
            explored_world& world;
            ~leave() {
                world.watch = nullptr;
                world.on_abort = fibre::on_abort::ends_process;
            }
        } at_the_end{world_};
        world_.sends = options_.sends == standard_sends::each_by_itself ? sending::chosen : sending::held;
        if (options_.frontier.empty() || resume_from(options_.frontier)) explore_all();
        while (found_.complete_ && must_explore_without_room()) {  // which may lead back to sends that are held
            world_.sends = sending::waits;
            tree_.forget();
            explore_all();
        }
        if (options_.sends == standard_sends::as_needed && has_lost_or_deadlock())  // found again, with sends that wait
            faults_.forget_unless_held();
        found_.seconds_ = seconds();
        if (is_world_usable_ && has_first_ && !has_repeated_) static_cast<void>(repeats_first());
        if (is_world_usable_) std::ranges::for_each(faults_.all(), [this](found_fault& each) { minimise(each); });
        if (!is_deterministic()) found_.frontier_.clear();
        if (!found_.frontier_.empty()) add_faults_to_frontier();
        return result();
    }

    /// Runs the executions of a token, one after another.
    [[nodiscard]] exploration replay(std::string_view schedule) {
        std::vector<happening> history;
        for (const std::string_view each : parts_of(schedule)) {
            const std::vector<happening> before = std::exchange(history, {});
            world_.history = &history;
            const ending end = run_forced(each);
            judge(end);
            if (end == ending::asleep || end == ending::changed)
                add(verdict::not_deterministic, "the schedule does not fit the program");
            ++found_.executions_;
            finish_history(end);
            if (!difference_.empty())
                add_difference(difference_, std::string(schedule.substr(schedule.find(':') + 1)),
                               text_of_divergence(before, history, world_.size()));
            for (found_fault& one : faults_.all())
                if (one.history.empty()) one.history = history;
            if (!released()) break;
        }
        return result();
    }

  private:
    using clock = std::chrono::steady_clock;
    using place = explored_rank::place;
    using sending = explored_world::sending;
    enum class ending : std::uint8_t { complete, asleep, changed, endless, stopped };

    [[nodiscard]] exploration result() {
        faults_.keep_shortest_of_all();
        faults_.sort();
        found_.findings_.assign(faults_.all().begin(), faults_.all().end());
        for (std::size_t i = 0; i < found_.findings_.size(); ++i)
            found_.findings_[i].alike = faults_.all()[i].seen.count();
        found_.left_out_ = faults_.left_out();
        return std::move(found_);
    }

    /// Runs one execution after another, until all have been explored or a limit is reached.
    void explore_all() {
        std::uint64_t asked = 0, expected_to_ask = 0;  // in this tree, and in those that were abandoned
        for (found_.complete_ = false; !found_.complete_;) {
            const std::size_t known_path = tree_.path_length();
            const ending end = run_one(
                [this](std::uint64_t settled) { return tree_.choose(possible_, settled, world_.posts()); }, true);
            if (end == ending::stopped) return leave(known_path);  // also before the end of the path that is repeated
            if (end == ending::changed || tree_.depth() < tree_.path_length()) return give_up_path();
            is_resumed_ = false;
            if (end == ending::endless) {  // what follows from it would be endless too
                judge(end);
                is_world_usable_ = world_.release();
                return;
            }
            const auto leftovers = find_leftovers();
            const asking_ranks known = asked_;
            const bool must_restart = has_learned(known);
            asked |= world_.asked().of_messages;
            judge(end);
            const bool is_repeated =
                end == ending::complete && must_repeat_with_waits();  // before `repeats` runs another
            std::uint64_t any_order = asked_.of_all;
            if (end == ending::asleep) any_order |= ranks_that_have_not_returned();  // they might have asked later
            if (!released() || !repeats()) return;
            if (end == ending::complete && world_.aborts() != 0) {
                ++found_.executions_;
                return;
            }
            if (must_restart) {
                expected_to_ask |= std::exchange(asked, 0);
                if (holds_sends_again(known)) expected_to_ask = 0;  // ranks may ask only where sends wait
                tree_.forget();
                continue;
            }
            if (!record_execution(end, is_repeated, leftovers, any_order)) return;
        }
        if ((expected_to_ask & ~asked) != 0) add_not_repeated("the first execution");
    }
    /// Called if the path of an earlier execution cannot be repeated.
    void give_up_path() {
        if (is_resumed_ && released()) throw other_program();
        add_not_repeated(text({"step ", tree_.depth() + 1, " of an execution"}));
        is_world_usable_ = is_world_usable_ && world_.release();
    }
    /// If the program cancels or tests a send only where sends wait, which was not known, no execution in which they
    /// are held has had that choice: then the search returns to these.
    [[nodiscard]] bool holds_sends_again(const asking_ranks& known) {
        const bool is_new = asked_.of_cancels != known.of_cancels || asked_.of_sends != known.of_sends;
        if (!is_new || options_.sends != standard_sends::as_needed || world_.sends != sending::waits) return false;
        world_.sends = sending::held;
        found_.executions_ = executions_before_ = 0;
        found_.redundant_ = 0;
        return true;
    }
    /// Called after an execution that counts; false if no other one is to follow. `is_repeated`: with sends that wait.
    [[nodiscard]] bool record_execution(ending end, bool is_repeated, const std::vector<explored_leftover>& leftovers,
                                        std::uint64_t any_order) {
        end == ending::complete ? ++found_.executions_ : ++found_.redundant_;
        if (is_repeated) ++found_.executions_;
        found_.complete_ = !tree_.next(leftovers, any_order);
        found_.seconds_ = seconds();
        const bool has_more_to_do = wants_more();
        if (is_repeated && !repeat_with_waits()) return false;
        if (world_.aborts() != 0) {
            found_.complete_ = false;
            return false;
        }
        if (!has_more_to_do && !found_.complete_) found_.frontier_ = frontier();
        return has_more_to_do;
    }
    /// Whether it matters which sends are held, given the order of the latest execution.
    [[nodiscard]] bool must_repeat_with_waits() const {
        return options_.sends == standard_sends::as_needed && world_.sends == sending::held &&
               world_.standard_sends() != 0 && !world_.is_timed() && !has_lost_or_deadlock();
    }
    /// Repeats the latest execution, with sends held only where its order requires it. False if the world cannot be
    /// used again.
    [[nodiscard]] bool repeat_with_waits() {
        same_order chosen(tree_, world_);
        world_.sends = sending::waits;
        const ending end = run_one(
            [&](std::uint64_t) {
                return chosen.choose(possible_, [this](const explored_step& each) { return is_unseen(each); });
            },
            false);
        judge(end);
        if (world_.has_news())
            asks_of_sends_ = true;  // a deadline has passed in vain: what follows was tried only once
        difference_.clear();
        world_.sends = sending::held;
        return released();
    }
    void add_not_repeated(const std::string& what) {
        add(verdict::not_deterministic, text({what, " cannot be repeated: ", depends_on_more}));
    }
    [[nodiscard]] std::string frontier() const {
        std::ostringstream out;
        out << frontier_mark << ' ' << world_.size() << ' ' << text_of_options() << ' '
            << static_cast<int>(world_.sends) << ' ' << found_.executions_ << ' ' << found_.redundant_ << ' '
            << asks_of_sends_ << ' ' << asked_.of_messages << ' ' << asked_.of_ends << ' ' << asked_.of_all << ' '
            << asked_.has_ready_sends << " ."
            << explored_token::begin(world_.sends, asked_.has_ready_sends, asked_.of_sends, asked_.of_cancels) << " ."
            << first_token_ << ' ' << first_posts_ << '\n';
        tree_.write(out);
        return out.str();
    }
    void add_faults_to_frontier() {
        std::ostringstream out;
        faults_.write(out);
        found_.frontier_ += out.str();
    }
    /// The options that say which executions there are.
    [[nodiscard]] std::string text_of_options() const {
        return text({options_.reduced, ",", options_.every_order, ",", static_cast<int>(options_.sends), ",",
                     static_cast<int>(options_.deadlines), ",", static_cast<int>(options_.failures), ",",
                     options_.tests, ",", options_.most_tests});
    }
    /// Resumes from a frontier: repeats the first execution, for its values, and those with a fault. False if the world
    /// cannot be used again.
    [[nodiscard]] bool resume_from(const std::string& text_of_it) {
        std::istringstream in(text_of_it);
        std::string mark, options, begin;
        int ranks = 0, sends = 0;
        bool asks_of_sends = false;
        in >> mark >> ranks >> options >> sends >> found_.executions_ >> found_.redundant_ >> asks_of_sends >>
            asked_.of_messages >> asked_.of_ends >> asked_.of_all >> asked_.has_ready_sends >> begin >> first_token_ >>
            first_posts_;
        tree_.read(in);
        const std::vector<found_faults::record> faults = faults_.read(in);
        if (!in || mark != frontier_mark || ranks != world_.size() || sends < 0 || sends > 2)
            throw error(errc::bad_argument,
                        text({"explore: this is not the frontier of an exploration of ", world_.size(), " ranks"}));
        if (options != text_of_options())
            throw error(errc::bad_argument,
                        "explore: this frontier is that of an exploration with other options (reduced, every_order, "
                        "sends, deadlines, failures, tests, most_tests)");
        executions_before_ = found_.executions_;
        asked_.of_sends = explored_token::test_sends(std::string_view(begin).substr(1));
        asked_.of_cancels = explored_token::cancelled(std::string_view(begin).substr(1));
        first_token_.erase(0, 1);
        has_first_ = true;
        if (!repeat_first()) return false;
        for (const found_faults::record& each : faults)
            if (!repeat_fault(each)) return false;
        asks_of_sends_ = asks_of_sends;
        world_.sends = static_cast<sending>(sends);
        apply_asked();
        is_resumed_ = true;
        return true;
    }
    [[nodiscard]] bool repeat_first() {
        const bool is_alike = run_first_again();
        has_values_ = all_return();
        if (has_values_) static_cast<void>(values_.difference());
        if (!released()) return false;
        if (!is_alike) throw other_program();
        return true;
    }
    [[nodiscard]] bool repeat_fault(const found_faults::record& before) {
        judge(run_forced(std::string_view(before.schedule).substr(before.schedule.find_last_of(":/") + 1)));
        if (!difference_.empty())
            add_difference(std::exchange(difference_, {}), first_and(explored_token::shortened(token_)));
        if (!released()) return false;
        if (!faults_.merge(before)) throw other_program();
        return true;
    }
    [[nodiscard]] static error other_program() {
        return error(errc::bad_argument,
                     "explore: this frontier is that of another program, or of one that depends on something other "
                     "than messages");
    }
    /// The tokens of two executions that differ.
    [[nodiscard]] std::string first_and(const std::string& token) const {
        return explored_token::shortened(first_token_) + "/" + token;
    }
    [[nodiscard]] double seconds() const { return std::chrono::duration<double>(clock::now() - began_).count(); }

    template <class Choose>
    ending run_one(Choose choose, bool noted) {
        token_ = explored_token::begin(world_.sends, world_.has_ready_sends, world_.test_sends, world_.sends_to_cancel);
        world_.may_hold = !noted && world_.sends == sending::waits;
        if (noted) tree_.begin();  // a repetition must not lose the races of the latest execution
        values_.begin();
        world_.begin();
        for (std::uint64_t steps = 0;; ++steps, ++steps_) {
            if (steps == options_.steps || world_.has_endless_calls()) return ending::endless;
            if (noted && must_stop(steps)) return ending::stopped;
            const std::uint64_t settled = world_.find_steps(possible_);
            if (possible_.empty()) return ending_of_all();
            const int unseen = noted ? find_unseen() : -1, choice = unseen >= 0 ? unseen : choose(settled);
            if (choice < 0) return choice == search_tree::asleep ? ending::asleep : ending::changed;
            const explored_step step = possible_[static_cast<std::size_t>(choice)];
            if (step.rank == explored_world::nobody) return ending_of_all();
            explored_token::add(token_, choice);
            noted ? take_noted(step, unseen < 0) : static_cast<void>(world_.take(step, false));
        }
    }
    void take_noted(const explored_step& step, bool is_seen) {
        const std::uint64_t posts = world_.posts_of_all();
        if (is_seen)
            tree_.note(step, world_.asked_by(step.rank), world_.posted_in(step));
        else
            tree_.note_unseen(step, world_.posted_in(step));
        if (world_.take(step, is_seen)) tree_.note_question(step.rank);
        if (world_.posts_of_all() != posts) tree_.note_post();
    }
    /// Whether a limit is reached within an execution. This is checked now and then.
    [[nodiscard]] bool must_stop(std::uint64_t steps) {
        constexpr std::uint64_t interval = 1000;
        if (steps == 0 || steps % interval != 0) return false;
        found_.seconds_ = seconds();
        return !wants_more();
    }
    /// Leaves an execution unfinished: another exploration may begin it anew.
    void leave(std::size_t known_path) {
        tree_.shorten(known_path);
        if (has_first_) found_.frontier_ = frontier();
        is_world_usable_ = world_.release();
    }
    /// How an execution has ended in which nothing can happen any more.
    [[nodiscard]] ending ending_of_all() const noexcept {
        return world_.withholds_any() ? ending::asleep : ending::complete;
    }
    /// A step whose time no question can tell; -1 if there is none.
    ///
    /// A rank that never asks about order does the same whatever arrives first, like the processes of Kahn's networks.
    /// One that asks sees the order of the messages of message.hpp, and when its operations end; but not that of the
    /// messages that make up a collective, each of which is waited for by name: before the rank asks it looks once
    /// more, and whatever has arrived by then counts. Which ranks ask is not known until one is seen to do so: then the
    /// search starts over.
    [[nodiscard]] int find_unseen() const {
        for (std::size_t i = 0; options_.reduced && i < possible_.size(); ++i)
            if (possible_[i].has_message && is_unseen(possible_[i])) return static_cast<int>(i);
        return -1;
    }
    [[nodiscard]] bool is_unseen(const explored_step& delivery) const {
        const auto is_among = [&](std::uint64_t ranks) { return (ranks >> delivery.rank & 1) != 0; };
        if (delivery.channel.is_end()) return !is_among(asked_.of_ends);
        if (options_.every_order || is_among(asked_.of_all)) return false;
        return !is_among(asked_.of_messages) || delivery.channel.is_of_a_collective() ||
               world_.is_unseen_answer(delivery);
    }
    /// Whether the execution that has just ended has shown that more ranks ask than was known.
    [[nodiscard]] bool has_learned(const asking_ranks& before) {
        asking_ranks now = world_.asked();
        now.of_sends &= options_.sends == standard_sends::as_needed ? world_.open_sends() : 0;
        asked_ |= now;
        apply_asked();
        return asked_ != before && (options_.reduced || asked_.has_ready_sends != before.has_ready_sends ||
                                    asked_.of_sends != before.of_sends || asked_.of_cancels != before.of_cancels);
    }
    void apply_asked() {
        world_.test_sends = asked_.of_sends;
        world_.has_ready_sends = asked_.has_ready_sends;
        world_.sends_to_cancel = asked_.of_cancels;
    }
    ending run_forced(std::string_view token) {
        world_.sends = explored_token::sends(token);
        world_.test_sends = explored_token::test_sends(token);
        world_.has_ready_sends = explored_token::has_ready_sends(token);
        world_.sends_to_cancel = explored_token::cancelled(token);
        return run_forced(explored_token::choices(token));
    }
    ending run_forced(const std::vector<int>& choices) {
        std::size_t next = 0;
        return run_one(
            [&](std::uint64_t) {
                const int choice = next < choices.size() ? choices[next++] : 0;
                return static_cast<std::size_t>(choice) < possible_.size() ? choice : search_tree::changed;
            },
            false);
    }

    /// Whether it matters that sends may wait. If a message is lost, its send waits forever.
    [[nodiscard]] bool must_explore_without_room() const {
        return options_.sends == standard_sends::as_needed && world_.sends == sending::held && asks_of_sends_ &&
               !has_lost_or_deadlock();
    }
    [[nodiscard]] bool has_lost_or_deadlock() const noexcept { return faults_.has_lost_or_deadlock(); }
    [[nodiscard]] bool wants_more() {
        world_.watch->end();  // the callback may take long
        wants_more_ =
            found_.executions_ - executions_before_ < options_.executions && found_.seconds_ < options_.seconds;
        if (options_.watch) {
            const exploring so_far{found_.executions_, found_.redundant_, tree_.depth(), tree_.open(), found_.seconds_};
            if (!options_.watch(so_far)) wants_more_ = false;
        }
        return wants_more_;
    }
    [[nodiscard]] std::vector<explored_leftover> find_leftovers() {
        std::vector<explored_leftover> all;
        world_.mail().for_each_leftover(false, [&](int to, const auto& from, const explored_message& first) {
            all.push_back({to, from, first.posted_in});
        });
        return all;
    }
    /// False if the world cannot be used again.
    [[nodiscard]] bool released() {
        is_world_usable_ = world_.release();
        if (is_world_usable_) return true;
        add(verdict::no_progress, "a rank does not return although its calls keep throwing");
        return false;
    }
    /// If values differ: whether they stay the same when the first execution is repeated.
    [[nodiscard]] bool repeats() {
        if (difference_.empty()) return true;
        const std::string what = std::exchange(difference_, {}), token = explored_token::shortened(token_);
        if (!std::exchange(has_repeated_, true) && !repeats_first()) return false;
        add_difference(what, first_and(token));
        return true;
    }
    /// Whether the first execution is the same when it is repeated, and the world can be used again.
    [[nodiscard]] bool repeats_first() {
        const auto sends = world_.sends;
        const bool is_alike = run_first_again();
        world_.sends = sends;
        apply_asked();
        const std::string difference = has_values_ ? values_.difference() : std::string();
        if (!released()) return false;
        if (!difference.empty())
            add(verdict::not_deterministic, "when the first execution is repeated, " + difference);
        else if (!is_alike)
            add_not_repeated("the first execution");
        return difference.empty() && is_alike;
    }
    /// Whether the same is posted again.
    [[nodiscard]] bool run_first_again() {
        const ending end = run_forced(std::string_view(first_token_));
        return end == ending::complete && token_ == first_token_ && world_.posts() == first_posts_;
    }
    [[nodiscard]] bool is_deterministic() const {
        return std::ranges::find(faults_.all(), verdict::not_deterministic, &finding::what) == faults_.all().end();
    }

    void judge(ending how) {
        if (how == ending::complete) judge_complete();
        if (how == ending::endless)
            add(verdict::no_progress,
                text({"an execution goes on after ", options_.steps, " steps (explore_options::steps)"}),
                text_of_ranks(world_));
    }
    /// Keeps the execution that has just ended as the first one.
    void set_first() {
        has_first_ = true;
        first_token_ = token_;
        first_posts_ = world_.posts();
    }
    void judge_complete() {
        if (!has_first_) set_first();
        if (world_.standard_sends() != 0 && must_explore_waits()) asks_of_sends_ = true;
        const bool waits = any_is_at(place::waits), tests = any_is_at(place::tests);
        add_changes();
        if (!any_failed() && waits) world_.check_all_waits();
        if (any_failed()) return add_failures();
        if (waits || tests) {
            const bool holds_all = world_.waiting_sends() == 0;
            const verdict what = tests       ? verdict::no_progress
                                 : holds_all ? verdict::deadlock
                                             : verdict::deadlock_unless_held;
            const char* const words =
                tests ? "ranks test or wait, and nothing more arrives" : "all ranks wait, and nothing is in flight";
            return add_or_disagreement(what, words + text_of_ranks(world_), text_of_lost_to_waiting());
        }
        add_kept();
        if (!world_.has_news()) add_lost();
        if (!std::exchange(has_values_, true)) set_first();
        difference_ = values_.difference();
    }
    /// Whether sends that wait may lead to more than a deadlock, or nothing at all is to be left out.
    [[nodiscard]] bool must_explore_waits() const { return !options_.reduced || world_.is_timed(); }
    void add_lost() {
        const std::string all = text_of_all_lost([](int) { return true; });
        if (!all.empty()) add_or_disagreement(verdict::never_received, all);
    }
    /// The messages to some ranks, those for which `counts(rank)`, that are never received.
    template <class Counts>
    [[nodiscard]] std::string text_of_all_lost(Counts counts) {
        std::vector<std::string> lost;  // sorted: the order of their posts makes no difference
        world_.mail().for_each_leftover(true, [&](int to, const auto& from, const explored_message& first) {
            if (counts(to) && !is_an_answer(from, first) && !is_of_waiting_call(world_, to, from, first))
                lost.push_back(text_of_leftover(world_, to, from, first));
        });
        for (int r = 0; r < world_.size(); ++r) {
            for (const unreceived_message& each : world_.of(r).unreceived)
                if (counts(r) && !is_of_waiting_send(world_, each.from, each.group, each.head))
                    lost.push_back(text_of_lost(world_, each.group, each.head, each.from, r));
        }
        std::ranges::sort(lost);
        std::string all;
        for (const std::string& each : lost) all += (all.empty() ? "" : "\n    ") + each;
        return all;
    }
    /// What ranks that wait for something else have not received, such as a message with another tag.
    [[nodiscard]] std::string text_of_lost_to_waiting() {
        world_.note_unreceived();
        const std::string all = text_of_all_lost([this](int rank) { return world_.of(rank).at != place::returned; });
        return all.empty() ? all : "\n    " + all;
    }
    /// Ranks that wait for nothing do not see that they disagree.
    void add_or_disagreement(verdict what, const std::string& words, const std::string& more = {}) {
        const std::string disagreement = text_of_disagreement(world_);
        disagreement.empty() ? add(what, words, more) : add(verdict::disagreement, disagreement);
    }
    void add_kept() {
        std::string all;
        for (int r = 0; r < world_.size(); ++r)
            for (const std::string& each : world_.of(r).kept) all += (all.empty() ? "" : "\n    ") + each;
        if (!all.empty()) add(verdict::never_freed, all);
    }
    [[nodiscard]] std::uint64_t ranks_that_have_not_returned() {
        std::uint64_t all = 0;
        for (int r = 0; r < world_.size(); ++r)
            if (world_.of(r).at != place::returned) all |= std::uint64_t{1} << r;
        return all;
    }
    [[nodiscard]] bool any_is_at(place where) {
        for (int r = 0; r < world_.size(); ++r)
            if (world_.of(r).at == where) return true;
        return false;
    }
    [[nodiscard]] bool all_return() { return !any_failed() && ranks_that_have_not_returned() == 0; }
    [[nodiscard]] bool any_failed() {
        for (int r = 0; r < world_.size(); ++r)
            if (world_.of(r).failure) return true;
        return false;
    }
    void add_changes() {
        std::string all;
        for (int r = 0; r < world_.size(); ++r)
            for (const explored_memory::change& each : world_.of(r).memory.changes())
                all += (all.empty() ? "" : "\n    ") + text_of_change(world_, r, each);
        if (!all.empty()) add(verdict::changed_in_flight, all);
    }
    /// Whether a rank fails only because it has been told that another one has.
    [[nodiscard]] bool is_told(const cause& failure) const {
        return world_.tells_failures && is_peer_failure(failure.thrown);
    }
    [[nodiscard]] bool has_failed_by_itself() {
        for (int r = 0; r < world_.size(); ++r)
            if (const auto& failure = world_.of(r).failure; failure && !is_told(*failure)) return true;
        return false;
    }
    void add_failures() {
        verdict what = verdict::timed_out;
        std::string all;
        const bool has_origin = has_failed_by_itself();
        for (int r = 0; r < world_.size(); ++r) {
            const auto& each = world_.of(r);
            if (!each.failure || (has_origin && is_told(*each.failure))) continue;
            if (each.failure->code != errc::timeout && what == verdict::timed_out) what = verdict::failed;
            if (each.failure->code == errc::mismatch) what = verdict::disagreement;
            if (each.left_in_flight > 0 && what == verdict::failed) what = verdict::never_completed;
            all += (all.empty() ? "" : "\n    ") + text_of_failure(world_, r);
        }
        add(what, all);
    }
    /// Leaves out the end of a long schedule, whose length is then one of a few.
    template <class Shows>
    static void cut(std::vector<int>& choices, Shows shows) {
        const std::vector<int> all = choices;
        for (std::size_t length = 0; all.size() > max_attempts && length < all.size(); length = 2 * length + 1) {
            choices.assign(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(length));
            if (shows()) return;
        }
        choices = all;
    }
    /// Replaces choices by the first ones, from the last one back.
    template <class Shows>
    static void simplify(std::vector<int>& choices, Shows shows) {
        for (std::size_t i = choices.size(); i-- > 0;) {
            if (choices[i] == 0) continue;
            const int before = std::exchange(choices[i], 0);
            if (!shows()) choices[i] = before;
        }
    }
    /// Shortens the schedule of a fault, as far as a limited number of attempts allow. Then records what happens.
    void minimise(found_fault& one) {
        if (one.what == verdict::not_deterministic) return;
        const std::size_t begin = one.schedule.find_last_of(":/") + 1;
        const std::string head = one.schedule.substr(0, begin);
        std::string best = one.schedule.substr(begin);
        const std::string mark = explored_token::begin_of(best);
        std::vector<int> choices = explored_token::choices(best);
        auto still_shows = [&, left = max_attempts, last_step = steps_ + max_steps]() mutable {
            return is_world_usable_ && left-- > 0 && steps_ < last_step && world_.aborts() < max_aborts &&
                   shows(one, explored_token::of(mark, choices), nullptr);
        };
        cut(choices, std::ref(still_shows));
        simplify(choices, std::ref(still_shows));
        best = explored_token::shortened(explored_token::of(mark, choices));
        one.schedule = head + best;
        std::vector<happening> history;
        if (is_world_usable_ && shows(one, best, &history))
            one.history = std::move(history);
        else if (is_world_usable_)
            note_not_repeated(one);
        if (is_world_usable_ && one.what == verdict::different_values)
            one.text += text_of_divergence(history_of_run(head.substr(head.find(':') + 1)), one.history, world_.size());
    }
    static void note_not_repeated(finding& one) {
        one.text = text({"what was found once is not found when its schedule is repeated: ", depends_on_more,
                         "\n    found once: ", name_of(one.what), ": ", one.text});
        one.what = verdict::not_deterministic;
    }
    void finish_history(ending end) {
        constexpr std::size_t enough = 200;
        std::vector<happening>& all = *world_.history;
        if (end == ending::endless && all.size() > enough) all.erase(all.begin() + enough, all.end());
        for (int r = 0; r < world_.size(); ++r) world_.note_end(r, text_of_end(world_, r));
        world_.history = nullptr;
    }
    [[nodiscard]] std::vector<happening> history_of_run(std::string_view token) {
        std::vector<happening> history;
        world_.history = &history;
        static_cast<void>(run_forced(token.substr(0, token.find('/'))));
        world_.history = nullptr;
        is_world_usable_ = world_.release();
        return history;
    }
    /// Whether this execution has the same fault, whose text is then that of this execution.
    [[nodiscard]] bool shows(found_fault& one, const std::string& token, std::vector<happening>* history) {
        found_faults others = std::exchange(faults_, found_faults(any_number));
        world_.history = history;
        difference_.clear();
        const ending end = run_forced(std::string_view(token));
        judge(end);
        if (!difference_.empty()) add_difference(std::exchange(difference_, {}), first_and(token));
        if (history != nullptr) finish_history(end);
        is_world_usable_ = world_.release();
        const std::vector<found_fault> shown = std::exchange(faults_, std::move(others)).all();
        const auto same = std::ranges::find_if(
            shown, [&](const found_fault& each) { return each.what == one.what && each.key == one.key; });
        if (same != shown.end()) one.text = same->text;
        return same != shown.end();
    }
    void add(verdict what, const std::string& words, const std::string& more = {}) {
        faults_.add(what, words, more, schedule_of(explored_token::shortened(token_)));
    }
    void add_difference(const std::string& words, const std::string& tokens, const std::string& more = {}) {
        faults_.add(verdict::different_values, words, more, schedule_of(tokens));
    }
    [[nodiscard]] std::string schedule_of(const std::string& tokens) const {
        return text({world_.size(), ":", tokens});
    }
    static constexpr const char* frontier_mark = "allfold-frontier-7";
    static constexpr const char* depends_on_more =
        "the program depends on something other than messages (time, random numbers, addresses, state kept from one "
        "execution to the next)";
    static constexpr int max_attempts = 100;               // to shorten a schedule
    static constexpr std::uint64_t max_steps = 1'000'000;  // of all of them
    static constexpr std::uint64_t max_aborts = 20;        // likewise: memory of a rank that aborts is lost
    static constexpr std::size_t any_number = ~std::size_t{0};

    [[nodiscard]] std::vector<std::string_view> parts_of(std::string_view schedule) const {
        const std::string begin = text({world_.size(), ":"});
        const std::string_view tokens = schedule.substr(std::min(begin.size(), schedule.size()));
        const std::size_t cut = tokens.find('/');
        std::vector<std::string_view> all{tokens.substr(0, cut)};
        if (cut != std::string_view::npos) all.push_back(tokens.substr(cut + 1));
        if (!schedule.starts_with(begin) ||
            !std::ranges::all_of(all, [this](std::string_view each) { return is_of_ranks(each); }))
            throw error(errc::bad_argument,
                        text({"replay: ", schedule, " is not a schedule of ", world_.size(), " ranks"}));
        return all;
    }
    [[nodiscard]] bool is_of_ranks(std::string_view token) const {
        const std::vector<explored_send> cancelled = explored_token::cancelled(token);
        return std::countl_zero(explored_token::test_sends(token)) >= search_tree::max_ranks - world_.size() &&
               std::ranges::all_of(cancelled, [this](const auto& each) { return each.rank < world_.size(); });
    }

    explored_world& world_;
    explored_values& values_;
    explore_options options_;
    search_tree tree_;
    exploration found_;
    found_faults faults_;
    std::vector<explored_step> possible_;
    std::string token_, first_token_, difference_;
    std::uint64_t first_posts_ = 0, steps_ = 0;  // of all executions
    clock::time_point began_ = clock::now();
    // The first execution: that whose values are kept, in which all ranks return; until there is one, the very first.
    bool has_first_ = false, has_values_ = false;
    bool has_repeated_ = false, asks_of_sends_ = false;
    asking_ranks asked_;  // in any execution so far
    bool wants_more_ = true;
    std::uint64_t executions_before_ = 0;  // a resumed exploration continues the count
    bool is_resumed_ = false;              // and has not repeated the path where the other one ended
    bool is_world_usable_ = true;          // the world can be used again
};

}  // namespace allfold::detail
