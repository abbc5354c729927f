// SPDX-License-Identifier: BSL-1.0
#include "allfold/transport/hierarchy.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/collective/all_reduce.hpp"
#include "allfold/collective/barrier.hpp"
#include "allfold/collective/broadcast.hpp"
#include "allfold/collective/subset.hpp"
#include "allfold/engine/operation.hpp"
#include "allfold/message.hpp"
#include "allfold/schedule/binomial.hpp"
#include "allfold/transport/group.hpp"
#include "test/collective/all_reduce_checks.hpp"
#include "test/collective/all_to_all_checks.hpp"
#include "test/collective/gather_checks.hpp"
#include "test/collective/inclusive_scan_checks.hpp"
#include "test/collective/permute_checks.hpp"
#include "test/collective/scatter_checks.hpp"
#include "test/support/algebras.hpp"
#include "test/support/catch.hpp"
#include "test/support/disagreements.hpp"
#include "test/support/hierarchies.hpp"
#include "test/support/problems.hpp"
#include "test/support/ranks.hpp"
#include "test/support/sanitized.hpp"
#include "test/support/teams.hpp"
#include "test/support/wrapping.hpp"

// Threads of threads: a thread stands in for each process. All collectives, over MPI: test/mpi/hierarchy.cpp.

using namespace test;
using namespace std::chrono_literals;
using allfold::errc;
using allfold::sum;

static_assert(allfold::communicator<allfold::hierarchical_communicator<allfold::thread_communicator>>);

TEMPLATE_TEST_CASE("a hierarchy folds in rank order", "", words, matrices) {
    for (const int processes : {1, 2, 3})
        for (const int threads : {1, 2, 4}) {
            if (processes * threads > fewer_if_sanitized(12, 6)) continue;
            const auto problems = problems_for<TestType>(processes * threads);
            on_threads_of_threads(processes, threads, [&](auto& comm) {
                for (const auto& p : problems) {
                    const std::string where = place_of(comm, p) + " in " + std::to_string(threads);
                    check_all_reduce(comm, p, where);
                    check_inclusive_scan(comm, p, where);
                }
            });
        }
    SUCCEED();
}

TEMPLATE_TEST_CASE("a hierarchy moves blocks", "", words, matrices) {
    for (const int processes : {1, 2, 3})
        for (const int threads : {1, 2, 4}) {
            if (processes * threads > fewer_if_sanitized(12, 6)) continue;
            const auto problems = problems_for<TestType>(processes * threads);
            on_threads_of_threads(processes, threads, [&](auto& comm) {
                const std::string group = " in " + std::to_string(threads);
                for (const auto& p : problems)
                    for (const auto& blocks : partitions_of(p.size(), comm.size()))
                        for (const int root : roots_of(comm.size(), p.size())) {
                            check_gather(comm, p, root, blocks, place_of(comm, p) + group, blocks);
                            check_scatter(comm, p, root, blocks, place_of(comm, p) + group, blocks);
                        }
                for (const pair_lengths lengths : {none_between, one_between, some_between}) {
                    check_all_to_all<TestType>(comm, lengths, "all_to_all" + group);
                    check_all_to_all_in_place<TestType>(comm, lengths, "all_to_all" + group);
                }
                check_uneven_all_to_all<TestType>(comm, "all_to_all" + group);
                check_permutations<TestType>(comm, "permute" + group);
                check_permutations<TestType>(comm, "permute" + group, allfold::two_level());
                check_uneven_permutations<TestType>(comm, "permute" + group);
            });
        }
    SUCCEED();
}

TEST_CASE("all_to_all in two levels needs blocks of one length, and says so") {
    const auto outcomes = outcomes_on_ranks(2, [&](auto& across) {
        allfold::run(across, 2, [&](auto& comm) {
            std::vector<int> in(10), out(10);
            const auto blocks = allfold::partition::sizes(std::vector<std::size_t>{1, 2, 3, 4});
            allfold::all_to_all(comm, in, out, blocks, allfold::two_level());
        });
    });
    CHECK(outcomes[0].code == errc::bad_partition);
    CHECK(outcomes[0].says("two-level needs blocks of equal length"));
}

TEST_CASE("permute in two levels needs operands of one length, and says so") {
    const auto outcomes = outcomes_on_ranks(2, [&](auto& across) {
        allfold::run(across, 2, [&](auto& comm) {
            const int from = (comm.rank() + 3) % 4;
            std::vector<int> in(static_cast<std::size_t>(comm.rank() + 1)), out(static_cast<std::size_t>(from + 1), -1);
            try {
                allfold::permute(comm, in, out, allfold::shift{1}, allfold::two_level());
            } catch (const allfold::error&) {
                expect(out == std::vector(out.size(), -1), "written");
                throw;
            }
        });
    });
    CHECK(outcomes[0].code == errc::bad_partition);
    CHECK(outcomes[0].says("two-level needs blocks of equal length"));
}

TEST_CASE("ranks of a hierarchy are numbered process by process") {
    std::vector<int> group(6);
    on_threads_of_threads(3, 2, [&](auto& comm) { group[static_cast<std::size_t>(comm.rank())] = comm.group(); });
    CHECK(group == std::vector<int>(6, 2));
}

TEST_CASE("a rank of a hierarchy that throws releases all others") {
    for (const int culprit : {0, 1, 2, 3}) {
        const auto outcomes = outcomes_on_ranks(2, [&](auto& across) {
            allfold::run(across, 2, [&](auto& comm) {
                std::vector<int> x(100);
                for (int turn = 0;; ++turn) {
                    if (turn == 3 && comm.rank() == culprit) throw std::runtime_error("boom");
                    allfold::all_reduce(comm, x, sum());
                }
            });
        });
        for (const auto& each : outcomes) {
            INFO(each.text);
            CHECK(each.says("boom"));
        }
        CHECK(outcomes[static_cast<std::size_t>(culprit / 2)].text == "boom");
    }
}

TEST_CASE("errors call the ranks of a hierarchy, and of its teams, by their ranks there") {
    const auto told = [](const auto& program) {
        std::vector<std::string> texts(4);
        static_cast<void>(outcomes_on_ranks(2, [&](auto& across) {
            allfold::run(across, 2, [&](auto& comm) {
                const auto mine = outcome_of([&] { program(comm); });
                texts[static_cast<std::size_t>(comm.rank())] = mine.text;
                if (!mine.succeeded()) throw std::runtime_error(mine.text);
            });
        }));
        return texts;
    };
    const auto says = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
    for (const int gone : {1, 2, 3}) {
        const auto texts = told([&](auto& comm) {
            int own = 0;
            if (comm.rank() == gone) return;
            allfold::broadcast(comm, own, allfold::root{gone}, allfold::two_level());
        });
        const std::string name = "rank " + std::to_string(gone);
        for (const std::string& each : texts) {
            INFO(gone << ": " << each);
            CHECK((each.empty() || (says(each, name.c_str()) && says(each, " of 4") && !says(each, " of 2"))));
        }
    }
    const auto failed = told([](auto& comm) {
        int own = 0;
        allfold::barrier(comm);  // all ranks of both processes have started
        if (comm.rank() == 3) throw std::runtime_error("boom");
        allfold::all_reduce(comm, own, sum());
    });
    for (const int rank : {0, 1, 2}) {
        INFO(failed[static_cast<std::size_t>(rank)]);
        CHECK(says(failed[static_cast<std::size_t>(rank)], ("on rank " + std::to_string(rank) + " of 4").c_str()));
    }
    CHECK(says(failed[2], "rank 3 failed: boom"));
    late_call at_last(3);
    const auto late = told([&](auto& comm) {
        at_last(comm, [&] { allfold::barrier(comm, allfold::deadline{comm.rank() == 2 ? 20ms : 100s}); });
    });
    INFO(late[2]);
    CHECK((says(late[2], "the deadline of rank 2 passed") && says(late[2], "rank 2 waits for rank 3")));
}

TEST_CASE("a deadline releases all ranks of a hierarchy") {
    late_call late(3);
    const auto outcomes = outcomes_on_ranks(2, [&](auto& across) {
        allfold::run(across, 2, [&](auto& comm) {
            int x = 1;
            const allfold::deadline limit{comm.rank() == 3 ? 100s : 20ms};
            late(comm, [&] { allfold::all_reduce(comm, x, sum(), limit); });
            allfold::barrier(comm);
        });
    });
    for (const auto& each : outcomes) CHECK(each.code == errc::timeout);
}

TEST_CASE("different numbers of threads are a mismatch") {
    const auto outcomes = outcomes_on_ranks(2, [&](auto& across) {
        allfold::run(across, across.rank() + 1, [&](auto& comm) {
            int x = 1;
            allfold::all_reduce(comm, x, sum());
            allfold::barrier(comm);
        });
    });
    for (const auto& each : outcomes) {
        INFO(each.text);
        CHECK((each.code == errc::mismatch || each.code == errc::peer_failed));
    }
    CHECK(std::ranges::any_of(outcomes, [](const outcome& each) { return each.code == errc::mismatch; }));
}

TEST_CASE("different numbers of threads are a mismatch without a collective of all ranks, too") {
    enum { no_call, a_message, a_team };
    for (const auto what : {no_call, a_message, a_team}) {
        const auto outcomes = outcomes_on_ranks(2, [&](auto& across) {
            allfold::run(across, across.rank() + 2, [&](auto& comm) {
                int x = 1;
                if (what == a_message && comm.rank() == 1) allfold::receive(comm, x, allfold::from{3});
                if (what == a_message && comm.rank() == 4) allfold::send(comm, x, allfold::to{1});
                if (what != a_team) return;
                const auto team = allfold::subset(comm, {0, 3});  // on both processes, a rank of each
                if (team) allfold::all_reduce(*team, x, sum());
            });
        });
        for (const auto& each : outcomes) {
            INFO(what << ": " << each.text);
            CHECK((each.says("process 0 runs with 2, but process 1 with 3 threads") ||
                   each.says("process 1 runs with 3, but process 0 with 2 threads")));
            CHECK((each.code == errc::mismatch || each.code == errc::peer_failed));
        }
        CHECK(std::ranges::any_of(outcomes, [](const outcome& each) { return each.code == errc::mismatch; }));
    }
}

static_assert(allfold::team_forming_communicator<allfold::hierarchical_communicator<allfold::thread_communicator>>);

TEST_CASE("teams of a hierarchy fold among their members") {
    for (const auto& [processes, threads] : {std::pair(1, 1), {1, 3}, {2, 1}, {2, 2}, {3, 2}, {2, 4}})
        on_threads_of_threads(processes, threads, [](auto& comm) { check_teams(comm); });
    SUCCEED();
}

TEST_CASE("a team of a hierarchy folds and moves blocks as any communicator does") {
    const auto problems = problems_for<matrices>(5);
    on_threads_of_threads(3, 2, [&](auto& comm) {
        const auto team = allfold::subset(comm, {4, 1, 0, 3, 5});
        if (!team) return;
        for (const auto& p : problems) {
            const std::string where = place_of(*team, p) + " in a team";
            check_all_reduce(*team, p, where);
            check_inclusive_scan(*team, p, where);
            for (const auto& blocks : partitions_of(p.size(), team->size())) {
                check_gather(*team, p, 3, blocks, where, blocks);
                check_scatter(*team, p, 1, blocks, where, blocks);
            }
        }
        check_all_to_all<matrices>(*team, some_between, "all_to_all in a team");
        check_permutations<matrices>(*team, "permute in a team");
    });
    SUCCEED();
}

TEST_CASE("nested splits of a hierarchy, with operations in flight on all levels") {
    for (unsigned seed = 1; seed <= 6; ++seed) {
        INFO("seed " << seed);
        for (const auto& [processes, threads] : {std::pair(2, 2), {3, 2}, {2, 3}})
            on_threads_of_threads(processes, threads, [&](auto& comm) { check_nested_splits(comm, seed); });
    }
    SUCCEED();
}

TEST_CASE("a team of a hierarchy goes on while the first threads, which are not in it, have returned") {
    on_threads_of_threads(3, 2, [](auto& comm) {
        const auto second = allfold::subset(comm, allfold::rank_list::strided(5, 3, -2));
        if (!second) return;
        for (const std::size_t n : {std::size_t{1}, std::size_t{5000}, std::size_t{100000}}) {
            std::vector<matrix> x(n, matrices::sample(comm.rank(), 0));
            allfold::all_reduce(*second, x, matrices::operation());
            const matrix expected = matrices::sample(5, 0) * matrices::sample(3, 0) * matrices::sample(1, 0);
            for (const matrix& each : x) expect(each == expected, "the team's order");
        }
        const auto last = allfold::subset(*second, {0});
        expect(static_cast<bool>(last) == (comm.rank() == 5), "who is in the team of the team");
    });
    SUCCEED();
}

TEST_CASE("a first thread may lend its ends of a hierarchy and of teams to another thread") {
    on_ranks(2, [](auto& base) {
        remote across(base, true);
        allfold::thread_world elsewhere(2);  // where that thread waits later, in vain for messages of the hierarchy
        std::thread other;
        allfold::run(across, 2, [&](auto& comm) {
            const auto everyone = allfold::subset(comm, {0, 1, 2, 3});
            const auto add_up = [&] {
                for (int i = 0; i < 20; ++i)
                    expect(allfold::all_reduce(*everyone, 1, sum()) + allfold::all_reduce(comm, 1, sum()) == 8, "sums");
            };
            std::atomic<bool> is_back = false;
            if (comm.rank() % 2 == 0) {
                other = std::thread([&] {
                    auto here = elsewhere.communicator(0);
                    add_up();
                    is_back = true;
                    allfold::barrier(here);
                });
                while (!is_back) std::this_thread::yield();
            } else {
                add_up();
            }
            add_up();
        });
        auto there = elsewhere.communicator(1);
        allfold::barrier(there);
        other.join();
    });
    SUCCEED();
}

TEST_CASE("a rank of a team of a hierarchy that throws, leaves or comes too late releases the others") {
    enum { throws, leaves, is_late, calls_another };
    for (const auto how : {throws, leaves, is_late, calls_another}) {
        std::vector<outcome> all(4);
        std::atomic<bool> has_thrown = false;
        static_cast<void>(outcomes_on_ranks(2, [&](auto& across) {
            allfold::run(across, 2, [&](auto& comm) {
                auto& own = all[static_cast<std::size_t>(comm.rank())];
                try {
                    const auto team = allfold::subset(comm, {1, 3});
                    if (!team) return;
                    int x = 1;
                    allfold::all_reduce(*team, x, sum());
                    expect(x == 2, "wrong sum");
                    const bool is_culprit = comm.rank() == 3;
                    if (is_culprit && how == throws) throw std::runtime_error("boom");
                    if (is_culprit && how == leaves) return;
                    while (is_culprit && how == is_late && !has_thrown) std::this_thread::yield();
                    std::vector<int> y(is_culprit && how == calls_another ? 9U : 8U);
                    allfold::all_reduce(*team, y, sum(), allfold::deadline{is_culprit ? 10000ms : 50ms});
                    allfold::barrier(*team);
                } catch (...) {
                    own = outcome_of_exception();
                    has_thrown = true;
                }
            });
        }));
        INFO(how << ": " << all[1].text << " / " << all[3].text);
        CHECK((all[0].succeeded() && all[2].succeeded()));
        if (how == throws) CHECK((all[1].code == errc::peer_failed && all[1].says("exited with an exception")));
        if (how == leaves) CHECK((all[1].code == errc::peer_failed && all[1].says("without taking part")));
        if (how == is_late) CHECK((all[1].code == errc::timeout && all[3].code == errc::timeout));
        if (how == calls_another) {
            CHECK((all[1].code == errc::mismatch || all[3].code == errc::mismatch));
            CHECK((all[1].says("has 9") || all[3].says("has 9")));
        }
    }
}

TEST_CASE("a rank of a hierarchy that can no longer join a team releases those that have") {
    enum class way { it_leaves_the_parent, it_aborts_the_parent, another_one_does, it_has_not_joined_the_parent };
    for (const way it : {way::it_leaves_the_parent, way::it_aborts_the_parent, way::another_one_does,
                         way::it_has_not_joined_the_parent})
        on_threads_of_threads(2, 2, [it](auto& comm) {
            const int last = comm.size() - 1, aborts = it == way::another_one_does ? 1 : last;
            const auto all = allfold::rank_list::strided(0, comm.size());
            const auto outermost = allfold::subset(comm, all);
            const bool stays_out = it == way::it_has_not_joined_the_parent && comm.rank() == last;
            auto parent = stays_out ? allfold::team<allfold::relayed_communicator>() : allfold::subset(*outermost, all);
            const auto ends = comm.rank() == last ? allfold::team<allfold::relayed_communicator>()
                                                  : allfold::subset(*parent, {0, last});
            if (int there = 1; comm.rank() == 0)
                for (int r = 1; r <= last; ++r) allfold::send(comm, there, allfold::to{r});
            else
                allfold::receive(comm, there, allfold::from{0});  // rank 0 has joined
            if (comm.rank() == 0) {
                const auto mine = outcome_of([&] { allfold::barrier(*ends); });
                expect(mine.code == errc::peer_failed && mine.says("rank 0 waits for rank 1 of 2"), mine.text);
            } else if (comm.rank() == aborts) {
                if (it == way::it_leaves_the_parent)
                    parent = {};
                else
                    static_cast<void>(outcome_of([&] { allfold::abort(stays_out ? *outermost : *parent, "enough"); }));
            }
            int x = 1;
            allfold::all_reduce(comm, x, sum());  // in which all wait for rank 0
            expect(x == comm.size(), "a hierarchy after a team of it has failed");
        });
    SUCCEED();
}

TEST_CASE("who waits for a process that has returned is told so, whatever it has in flight meanwhile") {
    outcome told;
    static_cast<void>(outcomes_on_ranks(2, [&](auto& across) {
        allfold::run(across, 1, [&](auto& comm) {
            const auto both = allfold::subset(comm, {0, 1});  // relays messages as long as it lives
            allfold::barrier(*both);
            if (comm.rank() == 0) told = outcome_of([&] { allfold::barrier(comm); });
        });
    }));
    INFO(told.text);
    CHECK((told.code == errc::peer_failed && told.says("without taking part")));
}

TEST_CASE(
    "who waits for a first thread that has returned is told so, though another thread of its process still waits") {
    for (const bool in_team : {false, true}) {
        outcome told;
        static_cast<void>(outcomes_on_ranks(2, [&](auto& across) {
            allfold::run(across, 2, [&](auto& comm) {
                const auto team = allfold::subset(comm, {1, 2});
                int x = 0;
                if (comm.rank() == 1 && in_team) allfold::barrier(*team);
                if (comm.rank() == 1 && !in_team) allfold::receive(comm, x, allfold::from{2});
                if (comm.rank() < 2) return;
                const auto mine = outcome_of([&] { allfold::broadcast(comm, x, allfold::root{0}); });
                if (comm.rank() == 2) told = mine;
                if (!mine.succeeded()) throw std::runtime_error(mine.text);
            });
        }));
        INFO(told.text);
        CHECK((told.code == errc::peer_failed && told.says("rank 0 of 4, which has returned without taking part")));
    }
}

TEST_CASE("a rank of a hierarchy is told that a first thread has returned, which will never read what it was lent") {
    for (const bool waits : {true, false})
        for (const int root : {0, 1}) {
            outcome told;
            static_cast<void>(outcomes_on_ranks(2, [&](auto& across) {
                allfold::run(across, 1, [&](auto& comm) {
                    if (comm.rank() == 0) return;
                    std::vector<int> x(300000, 1);
                    told = outcome_of([&] {
                        auto op = root == 0 ? allfold::reduce.start(comm, x, sum())
                                            : allfold::broadcast.start(comm, x, allfold::root{1});
                        while (!waits && !op.done()) std::this_thread::yield();
                        op.wait();
                    });
                });
            }));
            INFO((waits ? "waits" : "tests") << ", root " << root << ": " << told.text);
            CHECK((told.code == errc::peer_failed && told.says("rank 0 of 2, which has returned")));
        }
}

TEST_CASE("what a rank of a hierarchy has in flight learns that a peer has returned, while the rank waits elsewhere") {
    for (const int processes : {2, 4})
        for (const bool on_team : {false, true}) {
            std::vector<outcome> all(4);
            static_cast<void>(outcomes_on_ranks(processes, [&](auto& across) {
                allfold::run(across, 4 / processes, [&](auto& comm) {
                    const auto team = allfold::subset(comm, {0, 1, 2, 3}), pair = allfold::subset(comm, {2, 3});
                    if (!pair) return;
                    const auto use = [&](auto& ranks, const auto&... schedule) {
                        int x = 7;
                        auto op = allfold::broadcast.start(ranks, x, allfold::root{0}, schedule...);
                        if (comm.rank() == 3) op.wait();  // for rank 2
                        allfold::barrier(*pair);
                        op.wait();
                    };
                    all[static_cast<std::size_t>(comm.rank())] =
                        outcome_of([&] { on_team ? use(*team, allfold::binomial()) : use(comm); });
                });
            }));
            INFO(processes << (on_team ? ", on a team: " : ": ") << all[2].text << " / " << all[3].text);
            CHECK((all[2].code == errc::peer_failed && all[3].code == errc::peer_failed));
        }
}

TEST_CASE("run tells who calls it that another process has returned without calling it") {
    for (const bool sends : {false, true}) {
        const auto outcomes = outcomes_on_ranks(2, [&](auto& across) {
            if (across.rank() == 1) return;
            allfold::run(across, 2, [&](auto& comm) {
                int x = 1;
                if (sends && comm.rank() == 1) allfold::send(comm, x, allfold::to{2});
            });
        });
        INFO(outcomes[0].text);
        CHECK((outcomes[0].code == errc::peer_failed && outcomes[0].says("waits for rank 2 of 4, which has returned")));
        CHECK(outcomes[1].succeeded());
    }
}

TEST_CASE("a first thread that throws releases a team of others whose messages it passes on") {
    const auto outcomes = outcomes_on_ranks(2, [&](auto& across) {
        allfold::run(across, 2, [&](auto& comm) {
            const auto team = allfold::subset(comm, {1, 3});
            std::vector<int> x(20000);
            for (int turn = 0; team && turn >= 0; ++turn) allfold::all_reduce(*team, x, sum());
            if (comm.rank() == 2) throw std::runtime_error("boom");
        });
    });
    for (const auto& each : outcomes) {
        INFO(each.text);
        CHECK(each.says("boom"));
    }
}

TEST_CASE("a rank of a hierarchy that waits for something else learns that what it has in flight waits in vain") {
    for (const bool in_team : {false, true}) {
        std::vector<outcome> all(4);
        static_cast<void>(outcomes_on_ranks(2, [&](auto& across) {
            allfold::run(across, 2, [&](auto& comm) {
                const int rank = comm.rank();
                const auto wait_in_a_circle = [rank](auto& on) {  // rank 2 hears from rank 0, and rank 3 from rank 2
                    int x = 0, y = 0;
                    auto in_flight = allfold::broadcast.start(on, x);
                    auto another = allfold::broadcast.start(on, x, allfold::root{1});
                    if (rank == 2) allfold::broadcast(on, y, allfold::root{3});
                    in_flight.wait();
                    if (rank == 3) allfold::broadcast(on, y, allfold::root{3});
                };
                try {
                    const auto team = allfold::subset(comm, {0, 1, 2, 3});
                    if (rank < 2) return;
                    in_team ? wait_in_a_circle(*team) : wait_in_a_circle(comm);
                } catch (...) {
                    all[static_cast<std::size_t>(rank)] = outcome_of_exception();
                    throw;
                }
            });
        }));
        INFO(all[2].text << " / " << all[3].text);
        CHECK((all[2].code == errc::peer_failed && all[2].says("waits for rank ") && all[2].says("returned")));
        CHECK(all[3].code == errc::peer_failed);
    }
}

TEST_CASE("a rank of a hierarchy notices that another one has returned, however many operations it has in flight") {
    outcome mine;
    static_cast<void>(outcomes_on_ranks(2, [&](auto& across) {
        allfold::run(across, 1, [&](auto& comm) {
            const auto team = allfold::subset(comm, {0, 1});
            if (comm.rank() == 0) return;
            std::vector<int> x(1000, 1);  // polling all of them takes longer than a nap
            std::vector<allfold::operation> all;
            for (int& each : x) all.push_back(allfold::all_reduce.start(comm, each, sum()));
            try {
                all.back().wait();
            } catch (...) {
                mine = outcome_of_exception();
                throw;
            }
        });
    }));
    INFO(mine.text);
    CHECK((mine.code == errc::peer_failed && mine.says("waits for rank 0")));
}

TEST_CASE("a rank of a hierarchy that returns without joining a team releases those that have") {
    for (const bool is_early : {false, true}) {
        outcome mine;
        std::atomic<bool> waits = false;
        on_threads_of_threads(2, 2, [&](auto& comm) {
            int x = 0;
            if (comm.rank() == 0) {
                mine = outcome_of([&] {
                    const auto team = allfold::subset(comm, {0, 3});
                    waits = true;
                    allfold::barrier(*team);
                });
                allfold::send(comm, x, allfold::to{2});
            } else if (comm.rank() == 2) {
                allfold::receive(comm, x, allfold::from{0});  // its process runs on
            } else {
                while (!is_early && !waits) std::this_thread::yield();
                if (!is_early) std::this_thread::sleep_for(30ms);  // until rank 0 has asked
            }
        });
        INFO(mine.text);
        CHECK((mine.code == errc::peer_failed && mine.says("rank 0 waits for rank 1 of 2")));
    }
}

TEST_CASE("members of a team of a hierarchy that give different lists hear of it") {
    std::vector<outcome> all(4);
    static_cast<void>(outcomes_on_ranks(2, [&](auto& across) {
        allfold::run(across, 2, [&](auto& comm) {
            try {
                const auto team =
                    allfold::subset(comm, comm.rank() == 3 ? allfold::rank_list{3, 0} : allfold::rank_list{0, 3});
                int x = 1;
                if (team) allfold::all_reduce(*team, x, sum());
            } catch (...) {
                all[static_cast<std::size_t>(comm.rank())] = outcome_of_exception();
            }
        });
    }));
    INFO(all[0].text << " / " << all[3].text);
    CHECK((all[0].code == errc::mismatch || all[3].code == errc::mismatch));
    CHECK((!all[0].succeeded() && !all[3].succeeded()));
}

TEST_CASE("members that give different lists hear of it although they exchange nothing, and although others go on") {
    using list = allfold::rank_list;
    struct {
        const char* what;
        list own, other;  // of rank 0, and of rank 3
    } cases[]{
        {"rank 3 is in no team", {0, 3}, {}},
        {"rank 3 is in another team", {0, 3}, {1, 3}},
        {"rank 3 sends to others only", {0, 3}, {3, 2, 0}},
    };
    for (const auto& each : cases) {
        INFO(each.what);
        std::vector<outcome> all(4);
        static_cast<void>(outcomes_on_ranks(2, [&](auto& across) {
            allfold::run(across, 2, [&](auto& comm) {
                outcome& mine = all[static_cast<std::size_t>(comm.rank())];
                try {
                    const list given = comm.rank() == 0 ? each.own : comm.rank() == 3 ? each.other : list{};
                    const auto team = allfold::subset(comm, given);
                    int x = 1;
                    if (comm.rank() == 0) allfold::broadcast(*team, x, allfold::root{1});
                    allfold::barrier(comm);  // the others wait here forever unless rank 0 throws
                } catch (...) {
                    mine = outcome_of_exception();
                    throw;
                }
            });
        }));
        INFO(all[0].text);
        CHECK(all[0].code == errc::mismatch);
        CHECK(all[0].says("ranks 3 and 0 of the hierarchy passed different lists of members"));
        CHECK(!all[3].succeeded());
    }
}

TEST_CASE("no rank of a hierarchy waits for ever if one names another root or permutation") {
    for (const int processes : {2, 3})
        for (std::size_t which = 0; which < disagreements.size(); ++which)
            for (const std::size_t n : {1U, 3000U})
                for (const int odd : {1, 2, 2 * processes - 1}) {
                    INFO(disagreements[which] << ", " << n << " elements, rank " << odd << " of " << 2 * processes);
                    std::vector<outcome> all(2 * static_cast<std::size_t>(processes));
                    static_cast<void>(outcomes_on_ranks(processes, [&](auto& across) {
                        allfold::run(across, 2, [&](auto& comm) {
                            try {
                                disagree(comm, which, n, comm.rank() == odd);
                                allfold::barrier(comm);
                            } catch (...) {
                                all[static_cast<std::size_t>(comm.rank())] = outcome_of_exception();
                                throw;
                            }
                        });
                    }));
                    const auto mismatch = [](const outcome& each) { return each.code == errc::mismatch; };
                    const bool keeps_its_own = which == 6 && odd < 2 * processes - 1;  // in either permutation
                    CHECK(std::ranges::any_of(all, mismatch) != keeps_its_own);
                }
}

TEST_CASE("a rank that only sends to another process does not run ahead without end") {
    std::atomic<int> sent = 0;
    int most_ahead = 0;
    on_threads_of_threads(2, 2, [&](auto& comm) {
        constexpr int all = 1500;
        const auto team = allfold::subset(comm, {1, 3});
        if (comm.rank() == 3)  // until the sender has stopped, or has sent everything
            for (int seen = -1; seen != sent; std::this_thread::sleep_for(20ms)) seen = sent;
        for (int i = 0; team && i < all; ++i) {
            int x = comm.rank() == 1 ? i : -1;
            allfold::broadcast(*team, x);
            expect(x == i, "what has been sent");
            if (comm.rank() == 1)
                ++sent;
            else
                most_ahead = std::max(most_ahead, sent - i);
        }
    });
    CHECK(most_ahead > 200);
    CHECK(most_ahead <= 257);
}

TEST_CASE("thousands of operations in flight on a hierarchy end") {
    constexpr std::size_t count = fewer_if_sanitized(20000, 1000);
    on_threads_of_threads(2, 2, [&](auto& comm) {
        std::vector<int> x(count, 1);
        std::vector<allfold::operation> ops;
        for (int& each : x) ops.push_back(allfold::all_reduce.start(comm, each, sum()));
        allfold::wait_all(ops);
        expect(x == std::vector<int>(count, 4), "wrong sum");
    });
    SUCCEED();
}

TEST_CASE("lanes of a hierarchy wrap, where those between processes are not the same numbers") {
    for (const int threads : {1, 2})
        for (unsigned ahead = 20; ahead < 24; ++ahead)  // so that each operation of a turn is the first of those lanes
            on_ranks(2, [&](auto& across) {
                across.open({}, ahead);
                allfold::run(across, threads, [&](auto& comm) {
                    check_lanes_that_wrap(comm, std::to_string(ahead) + " ahead, rank " + std::to_string(comm.rank()) +
                                                    " of " + std::to_string(comm.size()));
                });
            });
    SUCCEED();
}

TEST_CASE("operations in flight on a team of a hierarchy, more than a rank may run ahead, end in any order") {
    on_threads_of_threads(2, 2, [](auto& comm) {
        const auto team = allfold::subset(comm, {3, 1, 2});
        if (!team) return;
        constexpr std::size_t many = 300;
        std::vector<int> x(many, 1);
        std::vector<allfold::operation> all;
        for (int& each : x) all.push_back(allfold::all_reduce.start(*team, each, sum()));
        if (comm.rank() == 1) std::ranges::reverse(all);
        wait_all(all);
        expect(x == std::vector(many, 3), "the sums");
    });
    SUCCEED();
}

TEST_CASE("a group is that of a team of a hierarchy") {
    on_threads_of_threads(2, 2, [](auto& comm) {
        const auto team = allfold::subset(comm, {3, 1, 2});
        const auto members = allfold::group::of(comm, team);
        expect(members.rank() == (team ? team->rank() : -1), "its rank");
    });
    SUCCEED();
}
