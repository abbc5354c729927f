// SPDX-License-Identifier: BSL-1.0
#include "allfold/transport/background.hpp"

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "test/support/catch.hpp"
#include "test/support/watchdog.hpp"

namespace {

/// Calls a function once, as an operation does at its end.
class caller : public allfold::background::work {
  public:
    explicit caller(std::function<void()> f) : f_(std::move(f)) {}
    void progress() noexcept override {
        leave();
        f_();
    }
    void drop() noexcept override {}

  private:
    std::function<void()> f_;
};

/// Logs its name whenever it makes progress, is dropped or is orphaned. Leaves after `pushes` calls of `progress`.
class scribe : public allfold::background::work {
  public:
    scribe(char name, std::string& log, int pushes = 100) : name_(name), log_(log), left_(pushes) {}
    void progress() noexcept override {
        log_ += name_;
        if (--left_ == 0) leave();
    }
    void drop() noexcept override { log_ += static_cast<char>(name_ - 'a' + 'A'); }
    void orphan() noexcept override {
        log_ += '!';
        log_ += name_;
    }
    void be_due_in(std::chrono::milliseconds time) { due_ = clock::now() + time; }
    using clock = allfold::background::clock;

  private:
    char name_;
    std::string& log_;
    int left_;
};

}  // namespace

TEST_CASE("background work makes progress in the order in which it was added") {
    std::string log;
    allfold::background all;
    CHECK(all.empty());
    scribe a('a', log), b('b', log), c('c', log);
    all.add(a);
    all.add(b);
    all.add(c);
    CHECK_FALSE(all.empty());
    all.progress();
    all.drop();
    CHECK(log == "abcABC");
}

TEST_CASE("background work may leave while it is pushed on") {
    std::string log;
    allfold::background all;
    scribe a('a', log, 1), b('b', log, 2), c('c', log, 1);
    all.add(a);
    all.add(b);
    all.add(c);
    all.progress();
    all.progress();
    all.progress();
    CHECK(log == "abcb");
    CHECK(all.empty());
    all.add(c);
    all.progress();
    CHECK(log == "abcbc");
}

TEST_CASE("background work leaves when it is destroyed") {
    std::string log;
    allfold::background all;
    scribe a('a', log), c('c', log);
    std::optional<scribe> b(std::in_place, 'b', log);
    all.add(a);
    all.add(*b);
    all.add(c);
    b.reset();
    all.progress();
    CHECK(log == "ac");
}

TEST_CASE("background work is told when its communicator ends, in flight or not") {
    std::string log;
    scribe a('a', log), b('b', log), c('c', log);
    {
        allfold::background all;
        all.attach(a);
        all.add(b);
    }
    CHECK(log == "!a!b");
    CHECK_FALSE(allfold::background::in_flight());
    allfold::background other;
    other.add(b);  // it may be reused
    other.attach(c, &log);
    other.end(&log);
    CHECK(log == "!a!b!c");
    other.progress();
    CHECK(log == "!a!b!cb");
}

TEST_CASE("a thread makes progress on all communicators with operations in flight") {
    std::string log;
    allfold::background one, two;
    CHECK_FALSE(allfold::background::in_flight());
    scribe a('a', log, 1), b('b', log, 3);
    one.add(a);
    CHECK_FALSE(one.in_flight_elsewhere());
    CHECK(two.in_flight_elsewhere());
    two.add(b);
    CHECK(one.in_flight_elsewhere());
    for (int i = 0; i < 4; ++i) allfold::background::progress_all();
    CHECK(log == "abbb");
    CHECK_FALSE(allfold::background::in_flight());
}

TEST_CASE("background work makes progress on the thread that last used its communicator") {
    std::string log;
    allfold::background all;
    scribe a('a', log);
    all.add(a);
    std::thread([&] {
        allfold::background::progress_all();
        CHECK(log.empty());
        all.take_over();
        allfold::background::progress_all();
    }).join();
    CHECK(log == "a");
    CHECK_FALSE(allfold::background::in_flight());
    all.take_over();  // from a thread that has ended
    CHECK(allfold::background::in_flight());
    allfold::background::progress_all();
    CHECK(log == "aa");
}

TEST_CASE("a communicator whose work is done may go to another thread, and end there") {
    std::string log;
    auto one = std::make_unique<allfold::background>();
    allfold::background two;
    scribe a('a', log, 1), b('b', log, 3), c('c', log, 1);
    one->add(a);
    two.add(b);
    one->progress();
    CHECK(one->empty());
    CHECK(allfold::background::in_flight());
    CHECK(one->in_flight_elsewhere());
    CHECK_FALSE(two.in_flight_elsewhere());
    std::thread([&] {
        one->add(c);
        CHECK(allfold::background::in_flight());
        allfold::background::progress_all();
        CHECK_FALSE(allfold::background::in_flight());
        two.take_over();  // with something in flight
        CHECK(allfold::background::in_flight());
        one.reset();
    }).join();
    CHECK_FALSE(allfold::background::in_flight());
    CHECK(log == "ac!a!c");
    two.take_over();
    CHECK(allfold::background::in_flight());
    allfold::background::progress_all();
    allfold::background::progress_all();
    allfold::background::progress_all();
    CHECK(log == "ac!a!cbbb");
    CHECK_FALSE(allfold::background::in_flight());
}

TEST_CASE(
    "whoever takes a communicator over waits until it is not walked along, also where a walk inside found it empty") {
    std::string log;
    allfold::background all, others;
    scribe other('o', log);
    class walker final : public allfold::background::work {
      public:
        explicit walker(allfold::background& home) : home_(home) {}
        void progress() noexcept override {
            leave();
            allfold::background::progress_all();
            other_ = std::thread([this] {
                home_.take_over();
                has_it = true;
            });
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
            had_it_too_soon = has_it;
        }
        void drop() noexcept override {}
        void join() { other_.join(); }
        std::atomic<bool> has_it{false};
        bool had_it_too_soon = true;

      private:
        allfold::background& home_;
        std::thread other_;
    } last(all);
    all.add(last);
    others.add(other);  // otherwise the inner traversal would have nothing to visit
    allfold::background::progress_all();
    last.join();
    CHECK_FALSE(last.had_it_too_soon);
    CHECK(last.has_it);
}

TEST_CASE("the next due time is the first that lies ahead") {
    using allfold::background;
    std::string log;
    background one, two;
    scribe a('a', log), b('b', log), c('c', log), d('d', log);
    one.add(a);
    CHECK(background::next_due() == background::clock::time_point::max());
    b.be_due_in(std::chrono::hours(2));
    c.be_due_in(std::chrono::hours(1));
    d.be_due_in(std::chrono::hours(-1));
    one.add(b);
    two.add(c);
    two.add(d);
    CHECK(background::next_due() == c.due());
    c.leave();
    CHECK(background::next_due() == b.due());
}

TEST_CASE("whoever is called while a collective runs is called by its operator") {
    allfold::background all;
    CHECK_FALSE(all.is_running());
    {
        const allfold::background::running outer(all);
        {
            const allfold::background::running inner(all);
        }
        CHECK(all.is_running());
    }
    CHECK_FALSE(all.is_running());
}

TEST_CASE("any communicator but the one that is being walked along goes to another thread, wherever it stands") {
    const test::watchdog watch("communicators go to another thread during a walk");
    for (const bool is_nested : {false, true}) {
        std::string log;
        allfold::background first, second, third, fourth;
        scribe a('a', log), c('c', log), d('d', log);
        const auto hand_over = [&] {
            std::thread([&] {
                first.take_over();
                third.take_over();
                allfold::background::progress_all();
                log += '.';
            }).join();
        };
        caller inner(hand_over), outer([&] {
            if (!is_nested) return hand_over();
            second.add(inner);
            allfold::background::progress_all();
        });
        first.add(a);
        second.add(outer);
        third.add(c);
        fourth.add(d);
        allfold::background::progress_all();
        CHECK(log == (is_nested ? "aaac.dd" : "aac.d"));
        CHECK(allfold::background::busy() == 1);
        first.take_over();
        third.take_over();
        log.clear();
        allfold::background::progress_all();
        CHECK(log == "dac");
    }
}
