// SPDX-License-Identifier: BSL-1.0
#include "allfold/transport/forwarding.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/collective/all_reduce.hpp"
#include "allfold/collective/barrier.hpp"
#include "allfold/message.hpp"
#include "allfold/transport/hierarchy.hpp"
#include "allfold/transport/self.hpp"
#include "allfold/transport/thread.hpp"
#include "allfold/transport/traced.hpp"
#include "test/support/catch.hpp"
#include "test/support/ranks.hpp"
#include "test/support/remote.hpp"

using allfold::sum;

namespace {

/// Has its own version of every optional member, and counts calls.
struct complete : allfold::self {
    static constexpr bool has_groups = true;
    using native_function = void (*)(complete&, const allfold::native_operands&);

    [[nodiscard]] int group() const { return 4; }
    void progress() { ++asked; }
    [[nodiscard]] int processors() const { return 3; }
    [[nodiscard]] bool holds_memory() const { return true; }
    void require_threads_allowed() const { ++asked; }
    template <class Op, class T>
    [[nodiscard]] static constexpr native_function native(std::string_view collective) {
        if (collective != "all_reduce") return nullptr;
        return [](complete& self, const allfold::native_operands& with) { self.ran = with.what; };
    }
    [[nodiscard]] static bool may_delegate() { return false; }
    [[nodiscard]] const char* prefers_native(std::string_view, std::size_t bytes) const {
        return bytes > 100 ? "long" : nullptr;
    }
    [[nodiscard]] static constexpr const char* native_name(std::string_view) { return "Fold_all"; }
    template <allfold::pending_work Work>
    bool look_around(Work&, std::optional<std::chrono::steady_clock::time_point>) {
        ++asked;
        return true;
    }

    mutable int asked = 0;
    std::string ran;
};

/// Has only the required members, and cannot be the outer transport of a hierarchy.
struct plain : allfold::self {
    template <allfold::pending_work Work>
    bool look_around(Work&, std::optional<std::chrono::steady_clock::time_point>) = delete;
};

/// Has a sum of its own, which does nothing.
struct delegating : allfold::forwarding<allfold::thread_communicator> {
    static constexpr bool has_native = true;
    using native_function = void (*)(delegating&, const allfold::native_operands&);
    using forwarding::forwarding;

    template <class Op, class T>
    [[nodiscard]] static constexpr native_function native(std::string_view) {
        if constexpr (std::is_same_v<Op, sum>) return [](delegating&, const allfold::native_operands&) {};
        return nullptr;
    }
    [[nodiscard]] static bool may_delegate() { return true; }
};

template <class Comm>
void check_forwards_everything(Comm& comm, complete& base) {
    STATIC_REQUIRE(allfold::communicator<Comm>);
    STATIC_REQUIRE(allfold::outer_communicator<Comm>);
    STATIC_REQUIRE(Comm::has_groups);
    CHECK(comm.group() == 4);
    CHECK(comm.processors() == 3);
    CHECK(comm.holds_memory());
    CHECK_FALSE(comm.may_delegate());
    CHECK(comm.prefers_native("all_reduce", 101) == std::string("long"));
    CHECK(comm.prefers_native("all_reduce", 100) == nullptr);
    CHECK(comm.native_name("all_reduce") == std::string("Fold_all"));
    CHECK(Comm::template native<sum, int>("reduce") == nullptr);
    const typename Comm::native_function run = Comm::template native<sum, int>("all_reduce");
    REQUIRE(run != nullptr);
    run(comm, {.what = "all_reduce"});
    CHECK(base.ran == "all_reduce");
    comm.progress();
    comm.require_threads_allowed();
    allfold::detail::any_work work;
    CHECK(comm.look_around(work, std::nullopt));
    CHECK(base.asked == 3);
}

}  // namespace

TEST_CASE("a decorator forwards what a transport may leave out") {
    complete base, watched_base;
    allfold::forwarding<complete> forwarding(base);
    check_forwards_everything(forwarding, base);
    allfold::trace_recorder recorder(1);
    allfold::traced<complete> traced(watched_base, recorder);
    check_forwards_everything(traced, watched_base);
}

TEST_CASE("a decorator has no more than what it decorates") {
    plain base;
    allfold::forwarding<plain> comm(base);
    STATIC_REQUIRE(allfold::communicator<decltype(comm)>);
    STATIC_REQUIRE_FALSE(allfold::outer_communicator<decltype(comm)>);
    STATIC_REQUIRE_FALSE(decltype(comm)::has_groups);
    CHECK((comm.group() == 1 && comm.processors() == 0 && !comm.holds_memory()));
    CHECK(decltype(comm)::native<sum, int>("all_reduce") == nullptr);
}

TEST_CASE("a time line has a transport's own collective as a span with the name that it has there") {
    complete base;
    allfold::trace_recorder recorder(1);
    allfold::traced<complete> comm(base, recorder);
    allfold::traced<complete>::native<sum, int>("all_reduce")(comm, {.what = "all_reduce"});
    REQUIRE(recorder.events(0) == 1);
    std::ostringstream out;
    recorder.write_chrome_trace(out);
    CHECK(out.str().find(R"("name":"Fold_all","pid":0,"tid":0)") != std::string::npos);
    CHECK(out.str().find(R"("ph":"X")") != std::string::npos);
}

TEST_CASE("a time line is JSON whatever its spans are named") {
    allfold::trace_recorder recorder(1);
    const auto now = allfold::trace_recorder::clock::now();
    recorder.span(0, "a \"b\\\n\xFF \xE2\x88\x98", now, now);
    std::ostringstream out;
    recorder.write_chrome_trace(out);
    const std::string none = "\xEF\xBF\xBD";
    CHECK(out.str().find(R"("a \"b\\ )" + none + " \xE2\x88\x98\"") != std::string::npos);
}

TEST_CASE("a recorder has a line for each rank that is traced") {
    CHECK(test::outcome_of([] { allfold::trace_recorder(-1); }).says("trace_recorder: -1 ranks"));
    allfold::trace_recorder too_small(2), larger(4);
    test::on_ranks(3, [&](auto& comm) {
        const auto trace = [&] { allfold::traced(comm, too_small); };
        if (!test::outcome_of(trace).says("traced: the recorder has 2 of the 3 lines that the ranks need"))
            throw std::logic_error("a rank without a line is traced");
        allfold::traced watched(comm, larger);
        allfold::barrier(watched);
    });
    CHECK(larger.events(3) == 0);
    CHECK(larger.events(2) > 0);
}

TEST_CASE("an operator calls no collective of the transport's own either") {
    std::atomic<int> refusals = 0;
    test::on_ranks(2, [&](auto& threads) {
        delegating comm(threads);
        const auto op = allfold::commutative([&](int a, int b) {
            int y = 1;
            if (test::outcome_of([&] {
                    allfold::all_reduce(comm, y, sum(), allfold::delegate::always);
                }).says("inside the operator"))
                ++refusals;
            return a + b;
        });
        int x = 1;
        allfold::all_reduce(comm, x, op);
    });
    CHECK(refusals > 0);
}

TEST_CASE("a time line has spans of collectives only, whatever is waited for") {
    allfold::trace_recorder recorder(2);
    test::on_ranks(2, [&](auto& comm) {
        allfold::traced watched(comm, recorder);
        int x = 1;
        const auto pass_on = [&] {
            if (comm.rank() == 1) return static_cast<void>(allfold::receive(watched, x, allfold::from{0}));
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
            allfold::send(watched, x, allfold::to{1});
        };
        pass_on();
        allfold::barrier(watched);
        pass_on();
    });
    std::ostringstream out;
    recorder.write_chrome_trace(out);
    const std::string all = out.str();
    const auto count = [&](std::string_view what) {
        int found = 0;
        for (auto at = all.find(what); at != std::string::npos; at = all.find(what, at + 1)) ++found;
        return found;
    };
    CHECK(count(R"("ph":"X")") == 2);
    CHECK(count(R"("name":"barrier")") == 2);
}

TEST_CASE("decorators of decorators run collectives") {
    test::on_ranks(
        3,
        [](auto& threads) {
            test::remote comm(threads);
            allfold::trace_recorder recorder(3);
            allfold::traced watched(comm, recorder);
            std::vector<int> x(1000, 1);
            allfold::all_reduce(watched, x, sum());
            if (x != std::vector<int>(1000, 3)) throw std::logic_error("wrong sum");
            if (recorder.events(threads.rank()) < 3) throw std::logic_error("events are missing");
        },
        test::roomy);
    SUCCEED();
}

TEST_CASE("a decorated transport can be the outer one of a hierarchy") {
    allfold::self one;
    allfold::trace_recorder recorder(1);
    allfold::traced watched(one, recorder);
    allfold::run(watched, 3, [](auto& comm) {
        int ones = 1;
        allfold::all_reduce(comm, ones, sum());
        if (ones != 3) throw std::logic_error("wrong sum");
    });
    SUCCEED();
}
