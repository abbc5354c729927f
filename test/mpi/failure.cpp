// SPDX-License-Identifier: BSL-1.0
#include <chrono>
#include <cstddef>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "allfold/allfold.hpp"
#include "allfold/message.hpp"
#include "test/mpi/support/job.hpp"
#include "test/mpi/support/outcome.hpp"
#include "test/support/catch.hpp"
#include "test/support/disagreements.hpp"

using namespace test;
using namespace std::chrono_literals;
using allfold::errc;
using allfold::sum;
using communicator = allfold::mpi::communicator;

namespace {

/// Sent with the envelope, in one message by itself, and in windows.
constexpr std::size_t lengths[] = {3, 20000, 1000000};

/// Runs `call(comm)` and then a barrier, in which a rank that noticed nothing learns of the failure.
template <class Call>
outcome outcome_on_the_job(const char* what, Call call, const allfold::mpi::tuning& numbers = {}) {
    const watchdog watch(what);
    return outcome_of([&] {
        communicator comm(MPI_COMM_WORLD, allfold::mpi::duplicate, numbers);
        call(comm);
        allfold::barrier(comm);
    });
}

bool alone() { return ranks_of_job() == 1; }

struct boom : std::runtime_error {
    boom() : std::runtime_error("boom") {}
};

/// The rank that does something different from the others.
constexpr int odd = 1;

void check_named(const outcome& mine, const std::string& reason) {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    INFO("rank " << rank << ": " << mine.text);
    if (rank == odd)
        CHECK(mine.text == "boom");
    else
        CHECK((mine.code == errc::peer_failed && mine.says(reason)));
}

}  // namespace

TEST_CASE("different counts are a mismatch that names ranks and figures, and leaves the data alone") {
    if (alone()) {
        SUCCEED("nobody to differ from");
        return;
    }
    for (const std::size_t n : lengths) {
        bool untouched = true;
        const auto mine = outcome_on_the_job("counts", [&](auto& comm) {
            std::vector<int> in(comm.rank() == odd ? n + 1 : n, comm.rank()), out(in.size(), -1);
            const auto before = out;
            const auto failed = outcome_of([&] { allfold::all_reduce(comm, in, out, sum()); });
            untouched = out == before || !failed.code;
            if (failed.code) throw allfold::error(*failed.code, failed.text);
        });
        check_failure(mine, errc::mismatch, {"all_reduce", std::to_string(n), std::to_string(n + 1), "rank 1"});
        if (mine.code == errc::mismatch && n == lengths[0]) CHECK(untouched);
    }
}

TEST_CASE("different elements, operators, roots, collectives and schedules are mismatches that say so") {
    if (alone()) {
        SUCCEED("nobody to differ from");
        return;
    }
    check_failure(outcome_on_the_job("elements",
                                     [](auto& comm) {
                                         std::vector<int> x(10);
                                         std::vector<float> y(10);
                                         if (comm.rank() == odd)
                                             allfold::all_reduce(comm, y, sum());
                                         else
                                             allfold::all_reduce(comm, x, sum());
                                     }),
                  errc::mismatch, {"elements of type", "int", "float"});
    check_failure(outcome_on_the_job("operators",
                                     [](auto& comm) {
                                         std::vector<int> x(10);
                                         if (comm.rank() == odd)
                                             allfold::all_reduce(comm, x, allfold::max());
                                         else
                                             allfold::all_reduce(comm, x, sum());
                                     }),
                  errc::mismatch, {"folds with", "max", "sum"});
    check_failure(outcome_on_the_job("collectives",
                                     [](auto& comm) {
                                         std::vector<int> x(10);
                                         if (comm.rank() == odd)
                                             allfold::inclusive_scan(comm, x, sum());
                                         else
                                             allfold::all_reduce(comm, x, sum());
                                     }),
                  errc::mismatch, {"calls all_reduce", "calls inclusive_scan"});
    check_failure(outcome_on_the_job("schedules",
                                     [](auto& comm) {
                                         std::vector<int> x(10);
                                         if (comm.rank() == odd)
                                             allfold::all_reduce(comm, x, sum(), allfold::recursive_halving());
                                         else
                                             allfold::all_reduce(comm, x, sum(), allfold::recursive_doubling());
                                     }),
                  errc::mismatch, {"runs the schedule", "halving", "recursive doubling"});
}

TEST_CASE("ranks that wait for each other in different calls find out") {
    if (alone()) {
        SUCCEED("nobody to differ from");
        return;
    }
    check_failure(outcome_on_the_job("roots",
                                     [](auto& comm) {
                                         std::vector<int> x(10);
                                         allfold::reduce(comm, x, sum(), allfold::root{comm.rank() == odd ? odd : 0});
                                     }),
                  errc::mismatch, {"names root 0", "names root 1"});
    for (const std::size_t n : {lengths[1], lengths[2]})  // both roots lend, and wait for each other to read
        check_failure(outcome_on_the_job("roots of a broadcast",
                                         [&](auto& comm) {
                                             std::vector<int> x(n);
                                             allfold::broadcast(comm, x, allfold::root{comm.rank() == odd ? odd : 0});
                                         }),
                      errc::mismatch, {"names root 0", "names root 1"});
}

TEST_CASE(
    "ranks that have made different calls without a message that shows it find out in the next one, and in which") {
    if (alone()) {
        SUCCEED("nobody to differ from");
        return;
    }
    check_failure(outcome_on_the_job("roots of a short broadcast",
                                     [](auto& comm) {
                                         int one = 1;
                                         for (int turn = 0; turn < 3; ++turn) allfold::all_reduce(comm, one, sum());
                                         allfold::broadcast(comm, one, allfold::root{comm.rank() == odd ? odd : 0},
                                                            allfold::binomial());
                                     }),
                  errc::mismatch,
                  {"barrier", "call 4 on this communicator (broadcast)", "names root 0", "names root 1"});
    check_failure(outcome_on_the_job("a call too many",
                                     [](auto& comm) {
                                         int one = 1;
                                         std::vector<int> all(static_cast<std::size_t>(comm.size()));
                                         if (comm.rank() == odd) allfold::broadcast(comm, one, allfold::root{odd});
                                         allfold::gather(comm, std::span(&one, 1), all, allfold::root{odd});
                                     }),
                  errc::mismatch, {"calls gather", "calls barrier"});
}

TEST_CASE("no rank waits for ever if one names another root or permutation") {
    if (alone()) {
        SUCCEED("nobody to differ from");
        return;
    }
    for (std::size_t which = 0; which < disagreements.size(); ++which)
        for (const std::size_t n : {std::size_t{1}, lengths[1]})
            for (const int other : {odd, ranks_of_job() - 1}) {
                INFO(disagreements[which] << ", " << n << " elements, rank " << other);
                const auto call = [&](auto& comm) { disagree(comm, which, n, comm.rank() == other); };
                const auto mine = outcome_on_the_job("a disagreement", call, {.notice = 10ms});
                CHECK(on_any_rank(mine.code == errc::mismatch));
            }
}

TEST_CASE("a rank that is late is not taken for one in another call") {
    const watchdog watch("a late rank");
    communicator comm(MPI_COMM_WORLD, allfold::mpi::duplicate, {.notice = 2ms});
    const int P = comm.size();
    const auto ranks = static_cast<std::size_t>(P);
    for (int late = 0; late < P; ++late) {
        const auto hesitate = [&] {
            if (comm.rank() == late) std::this_thread::sleep_for(15ms);
        };
        for (const std::size_t n : {std::size_t{1}, lengths[1]}) {
            std::vector<int> x(n, comm.rank()), all(n * ranks), y(n);
            hesitate();
            allfold::gather(comm, x, all, allfold::root{(late + 1) % P});
            hesitate();
            allfold::scatter(comm, all, y, allfold::root{(late + 1) % P});
            CHECK(y == x);
            hesitate();
            allfold::broadcast(comm, x, allfold::root{late});
            hesitate();
            allfold::all_reduce(comm, x, sum());
            CHECK(x == std::vector<int>(n, late * P));
            hesitate();
            allfold::permute(comm, x, y, allfold::shift{1});
            allfold::operation last = allfold::all_reduce.start(comm, y, sum());
            hesitate();
            last.wait();
            CHECK(y == std::vector<int>(n, late * P * P));
        }
    }
}

TEST_CASE("blocks of other lengths than their receivers expect are mismatches") {
    if (alone()) {
        SUCCEED("nobody to differ from");
        return;
    }
    check_failure(outcome_on_the_job("blocks of a gather",
                                     [](auto& comm) {
                                         std::vector<int> mine(comm.rank() == odd ? 4 : 3);
                                         std::vector<int> all(3 * static_cast<std::size_t>(comm.size()));
                                         allfold::gather(comm, mine, all);
                                     }),
                  errc::mismatch, {"gather", "elements"});
    for (const std::size_t n : lengths)
        check_failure(outcome_on_the_job("blocks of an all_to_all",
                                         [n](auto& comm) {
                                             const auto P = static_cast<std::size_t>(comm.size());
                                             const std::vector<std::size_t> sent(P, comm.rank() == odd ? n + 1 : n);
                                             const std::vector<std::size_t> expected(P, n);
                                             std::vector<int> in(P * sent[0]), out(P * n);
                                             if (comm.rank() == odd) out.resize(out.size() + 1);
                                             auto mine = expected;
                                             if (comm.rank() == odd) ++mine[odd];  // what it sends to itself is correct
                                             using allfold::partition;
                                             allfold::all_to_all(comm, in, out,
                                                                 allfold::input_blocks{partition::sizes(sent)},
                                                                 allfold::output_blocks{partition::sizes(mine)});
                                         }),
                      errc::mismatch,
                      {"all_to_all",
                       "expects " + std::to_string(n) + " elements from rank 1, which sends " + std::to_string(n + 1)});
    for (const std::size_t n : lengths)
        check_failure(outcome_on_the_job("room for what an all_to_all by sizes brings",
                                         [n](auto& comm) {
                                             const auto P = static_cast<std::size_t>(comm.size());
                                             const std::vector<std::size_t> sent(P, n);
                                             std::vector<int> in(P * n), out(comm.rank() == odd ? 1 : P * n);
                                             auto came = allfold::partition::even(0, 1);
                                             allfold::all_to_all.start(comm, in, sent, std::span(out), came).wait();
                                         }),
                      errc::mismatch, {"all_to_all", "rank 1", "the output has room for 1 element, but"});
}

TEST_CASE("longer elements than expected, which are sent as they lie, are written nowhere") {
    for (int turn = 0; turn < 2; ++turn) {
        const int root = ranks_of_job() - 1;
        bool untouched = true;
        const auto mine = outcome_on_the_job("elements of two lengths", [&](auto& comm) {
            constexpr std::size_t n = 9202;  // these ints are sent in chunks, so many doubles are not
            std::vector<int> x(n, comm.rank()), out(comm.rank() == root ? n * static_cast<std::size_t>(root + 1) : 0);
            const std::vector<double> longer(n);
            const auto blocks = allfold::partition::even(n * static_cast<std::size_t>(root + 1), root + 1);
            const std::vector<std::vector<int>> others(comm.rank() == root ? 40 : 0, std::vector<int>(10000, 7));
            for (int i = 0; i < 3; ++i) allfold::barrier(comm);
            if (comm.rank() == root) std::this_thread::sleep_for(50ms);  // both messages are there when it comes
            const auto failed = outcome_of([&] {
                std::vector<double> none;
                if (comm.rank() == 0 && root > 0)
                    allfold::gather(comm, longer, none, allfold::root{root}, blocks);
                else
                    allfold::gather(comm, x, out, allfold::root{root}, blocks);
            });
            for (const auto& each : others) untouched = untouched && each == std::vector<int>(10000, 7);
            if (failed.code) throw allfold::error(*failed.code, failed.text);
        });
        CHECK(untouched);
        if (root > 0) check_failure(mine, errc::mismatch, {"gather", "elements of type int", "of type double"});
    }
}

TEST_CASE("a rank that throws in its operator releases the others, with its name and reason") {
    if (alone()) {
        SUCCEED("nobody to release");
        return;
    }
    for (const std::size_t n : lengths)
        check_named(outcome_on_the_job("operator",
                                       [&](auto& comm) {
                                           std::vector<int> x(n, 1);
                                           const auto fragile = allfold::commutative([&](int a, int b) {
                                               if (comm.rank() == odd) throw boom();
                                               return a + b;
                                           });
                                           for (;;) allfold::all_reduce(comm, x, fragile);
                                       }),
                    "rank 1 failed: boom");
}

TEST_CASE("a rank that throws between collectives releases the others") {
    if (alone()) {
        SUCCEED("nobody to release");
        return;
    }
    for (const std::size_t n : lengths)
        check_named(outcome_on_the_job("between",
                                       [&](auto& comm) {
                                           std::vector<int> x(n, 1);
                                           for (int i = 0;; ++i) {
                                               if (comm.rank() == odd && i == 3) throw boom();
                                               allfold::all_reduce(comm, x, sum());
                                           }
                                       }),
                    "rank 1 failed: it exited with an exception");
}

TEST_CASE("nothing of a failed communicator is left for the next one, to which MPI may give its number") {
    const watchdog watch("failed communicators, one after the other");
    MPI_Comm mine;
    MPI_Comm_dup(MPI_COMM_WORLD, &mine);
    for (int turn = 0; turn < 10; ++turn) {
        const auto failed = outcome_of([&] {
            communicator comm(mine, allfold::mpi::borrow);
            std::vector<int> x(2000, 1);
            auto unanswered = allfold::all_reduce.start(comm, x, sum());
            if (comm.size() == 1) unanswered.wait();
            // All at once: a rank that has learned of one failure does not wait for the other control messages.
            throw boom();
        });
        MPI_Barrier(mine);
        int left = 0;
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, mine, &left, MPI_STATUS_IGNORE);
        INFO("turn " << turn << ": " << failed.text);
        CHECK(failed.says("boom"));
        REQUIRE_FALSE(on_any_rank(left != 0));
    }
    MPI_Comm_free(&mine);
}

TEST_CASE("who polls an operation learns of a failure too") {
    if (alone()) {
        SUCCEED("nobody to fail");
        return;
    }
    check_named(outcome_on_the_job("polling",
                                   [&](auto& comm) {
                                       if (comm.rank() == odd) throw boom();
                                       std::vector<int> x(1000, 1);
                                       auto operation = allfold::all_reduce.start(comm, x, sum());
                                       while (!operation.done()) std::this_thread::yield();
                                       throw std::logic_error("it is done, though a rank took no part");
                                   }),
                "rank 1 failed: it exited with an exception");
}

TEST_CASE("a rank that leaves is named by those who wait for it") {
    if (alone()) {
        SUCCEED("nobody to leave");
        return;
    }
    const watchdog watch("leaving");
    const auto mine = outcome_of([&] {
        communicator comm(MPI_COMM_WORLD);
        if (comm.rank() == odd) return;
        std::vector<int> x(10);
        allfold::all_reduce(comm, x, sum());
    });
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    INFO("rank " << rank << ": " << mine.text);
    if (rank == odd)
        CHECK(mine.text.empty());
    else
        CHECK((mine.code == errc::peer_failed && mine.says("rank 1") && mine.says("returned without taking part")));
}

TEST_CASE("a rank that waits for something else learns that what it has in flight waits for one that has left") {
    if (ranks_of_job() < 4) {
        SUCCEED("too few ranks to wait in a circle");
        return;
    }
    const auto mine = outcome_of([] {
        const watchdog watch("ranks that wait in a circle");
        communicator comm(MPI_COMM_WORLD, allfold::mpi::duplicate, {.notice = 5ms});
        const int rank = comm.rank(), last = comm.size() - 1;
        if (rank == 0) return;
        int x = 0, y = 0;
        auto in_flight = allfold::broadcast.start(comm, x, allfold::binomial());
        if (rank != last) allfold::receive(comm, y, allfold::from{last});  // which hears from one of these
        in_flight.wait();
        for (int r = 1; rank == last && r < last; ++r) allfold::send(comm, y, allfold::to{r});
    });
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    INFO("rank " << rank << ": " << mine.text);
    CHECK((rank == 0 || (mine.code == errc::peer_failed && mine.says("waits for rank 0"))));
}

TEST_CASE("no rank hangs if another one leaves without receiving what was sent to it") {
    if (alone()) {
        SUCCEED("nobody to leave");
        return;
    }
    for (const std::size_t n : {std::size_t{10}, std::size_t{8000}, std::size_t{300000}}) {
        const watchdog watch("leaving what was sent");
        const auto mine = outcome_of([&] {
            communicator comm(MPI_COMM_WORLD);
            if (comm.rank() == odd) return;
            std::vector<int> x(n);
            allfold::broadcast(comm, x, allfold::binomial());
        });
        INFO(mine.text);
        CHECK((mine.text.empty() || mine.says("returned without taking part")));
    }
}

TEST_CASE("memory that MPI still has is not freed when somebody does not react to a failure") {
    if (alone()) {
        SUCCEED("nobody to fail");
        return;
    }
    const watchdog watch("who does not react");
    for (const auto late : {80ms, 100ms, 300ms}) {  // once others have abandoned the calls, or have left
        std::vector<int> operand(300000, 1);
        const auto mine = outcome_of([&] {
            communicator comm(MPI_COMM_WORLD, allfold::mpi::duplicate, {.patience = 50ms});
            std::vector<std::string> words(200, std::string(1000, 'x'));  // lent as bytes that the engine owns
            const allfold::deadline limit{std::chrono::steady_clock::now() + 20ms};
            const allfold::window whole{std::size_t{1} << 30};
            // When the late rank arrives, all deadlines have passed, however busy the machine is.
            MPI_Barrier(MPI_COMM_WORLD);
            if (comm.rank() == odd) std::this_thread::sleep_for(late);
            auto lent = allfold::broadcast.start(comm, operand, whole, limit);
            auto encoded =
                allfold::all_reduce.start(comm, words, allfold::associative(std::plus<std::string>()), limit);
            lent.wait();
            encoded.wait();
        });
        INFO(mine.text);
        CHECK((mine.code == errc::timeout || mine.code == errc::peer_failed));
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

TEST_CASE("when a deadline passes every rank says so") {
    if (alone()) {
        SUCCEED("nobody to be late");
        return;
    }
    for (const std::size_t n : lengths) {
        const auto coming_late = [n](auto& comm) {
            std::vector<int> x(n);
            const allfold::deadline limit{comm.rank() == odd ? 100s : 20ms};
            const late_call late(odd);
            late(comm, [&] { allfold::all_reduce(comm, x, sum(), limit); });
        };
        const auto mine = outcome_on_the_job("deadline", coming_late, {.patience = 100ms});
        INFO(mine.text);
        CHECK(mine.code == errc::timeout);
        CHECK(mine.says("the deadline of rank"));
    }
}

TEST_CASE("a deadline names those who wait for this rank, and their collective") {
    if (ranks_of_job() != 3) {
        SUCCEED("on three ranks: the first waits for the second, and that for the third");
        return;
    }
    const watchdog watch("who waits for whom");
    // How soon the first rank reports that it waits depends on the machine: once is enough.
    bool first_is_named = false;
    for (auto patience = 200ms; !first_is_named && patience < 10s; patience *= 2) {
        const auto mine = outcome_of([patience] {
            communicator comm(MPI_COMM_WORLD, allfold::mpi::duplicate, {.notice = 20ms, .patience = 100ms});
            const allfold::deadline limit{comm.rank() == 1 ? patience : 100s};
            const late_call late(2);
            late(comm, [&] {
                int one = 1;
                allfold::all_reduce(comm, one, sum(), allfold::recursive_doubling(), limit);
            });
            allfold::barrier(comm);
        });
        INFO(mine.text);
        CHECK(mine.code == errc::timeout);
        CHECK(mine.says("rank 1 waits for rank 2 in all_reduce, round"));
        first_is_named = on_any_rank(mine.says("rank 0 waits for rank 1 in all_reduce, round"));
    }
    CHECK(first_is_named);
}

TEST_CASE("a deadline does not name a rank that waited for this one earlier, and no longer does") {
    if (alone()) {
        SUCCEED("nobody to wait");
        return;
    }
    const watchdog watch("who waited earlier");
    // Until when this rank learns of it depends on the machine: once is enough.
    bool is_forgotten = false;
    for (auto patience = 40ms; !is_forgotten && patience < 3s; patience *= 2) {
        const auto mine = outcome_of([patience] {
            communicator comm(MPI_COMM_WORLD, allfold::mpi::duplicate, {.notice = 2ms, .patience = 100ms});
            if (comm.rank() == odd) std::this_thread::sleep_for(50ms);
            allfold::barrier(comm);
            const allfold::deadline limit{comm.rank() == odd ? patience : 100s};
            const late_call late(0);
            late(comm, [&] {
                int one = 1;
                allfold::all_reduce(comm, one, sum(), limit);
            });
            allfold::barrier(comm);
        });
        INFO(mine.text);
        CHECK(mine.code == errc::timeout);
        is_forgotten = !on_any_rank(mine.says("waits for rank 1 in barrier"));
    }
    CHECK(is_forgotten);
}

TEST_CASE("after a failure everything on the communicator throws, and a new one works") {
    if (alone()) {
        SUCCEED("nobody to fail");
        return;
    }
    const watchdog watch("after a failure");
    {
        communicator comm(MPI_COMM_WORLD);
        const outcome first = outcome_of([&] {
            std::vector<int> x(comm.rank() == odd ? 2 : 1);
            allfold::all_reduce(comm, x, sum());
            allfold::barrier(comm);
        });
        CHECK(first.code);
        CHECK(outcome_of([&] { allfold::barrier(comm); }).code == errc::peer_failed);
    }
    communicator comm(MPI_COMM_WORLD);
    int one = 1;
    allfold::all_reduce(comm, one, sum());
    CHECK(one == comm.size());
}

TEST_CASE("communicators that are none are refused with the reason") {
    const auto refused = [](MPI_Comm handle) { return outcome_of([&] { communicator comm{handle}; }); };
    const outcome null = refused(MPI_COMM_NULL);
    CHECK((null.code == errc::bad_argument && null.says("MPI_COMM_NULL")));

    MPI_Comm freed, alias;
    MPI_Comm_dup(MPI_COMM_WORLD, &freed);
    alias = freed;
    MPI_Comm_free(&freed);
    const outcome gone = refused(alias);
    INFO(gone.text);
    CHECK((gone.code == errc::bad_argument && gone.says("was it freed?")));

    if (alone()) return;
    int rank = 0, size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm half, inter;
    MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? 0 : 1, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank == 0 ? 1 : 0, 0, &inter);
    const outcome between = refused(inter);
    CHECK((between.code == errc::bad_argument && between.says("intercommunicator")));
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
}

TEST_CASE("bad arguments are found before anything is sent") {
    const int P = ranks_of_job();
    std::vector<int> x(4), all(4 * static_cast<std::size_t>(P));
    const std::vector<int> beyond(static_cast<std::size_t>(P), P);
    const allfold::tensor<int, 2> table(x.data(), {2, 2});
    const allfold::block_cyclic no_blocks{.block = 0, .offset = 0, .count = 4};
    const auto wrong = [](errc code, const std::string& reason, auto call) {
        communicator comm(MPI_COMM_WORLD);
        const outcome mine = outcome_of([&] { call(comm); });
        INFO(reason << " / " << mine.text);
        CHECK((mine.code == code && mine.says(reason)));
    };
    const std::string number = std::to_string(P);
    wrong(errc::bad_rank, "root " + number, [&](auto& comm) { allfold::reduce(comm, x, sum(), allfold::root{P}); });
    wrong(errc::bad_rank, number, [&](auto& comm) { static_cast<void>(allfold::subset(comm, {0, P})); });
    wrong(errc::bad_rank, number, [&](auto& comm) { allfold::permute(comm, x, allfold::destinations(beyond)); });
    wrong(errc::bad_argument, "axis 2", [&](auto& comm) { allfold::all_gather(comm, table, all, allfold::axis{2}); });
    wrong(errc::bad_partition, std::to_string(P + 1) + " blocks",
          [&](auto& comm) { allfold::all_gather(comm, x, all, allfold::partition::even(all.size(), P + 1)); });
    wrong(errc::bad_partition, "empty blocks",
          [&](auto& comm) { allfold::inclusive_scan(comm, allfold::distributed(x, no_blocks), sum()); });
}
