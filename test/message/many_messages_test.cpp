// SPDX-License-Identifier: BSL-1.0
#include <array>
#include <barrier>
#include <cstddef>
#include <numeric>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/collective/all_reduce.hpp"
#include "allfold/collective/barrier.hpp"
#include "allfold/message.hpp"
#include "test/message/support/every_transport.hpp"
#include "test/support/catch.hpp"
#include "test/support/oracle.hpp"
#include "test/support/ranks.hpp"

using namespace test;

TEST_CASE("thousands of unexpected messages block no rank, and take little memory") {
    on_all_transports(3, [](auto& comm) {
        constexpr int many = 4000;
        if (comm.rank() == 0) {
            std::vector<std::array<int, 16>> x(many);
            std::vector<operation> sent;
            for (int i = 0; auto& each : x) {
                each.fill(++i);
                sent.push_back(send.start(comm, each, to{1}, tag{1}));
            }
            int last = 42;
            sent.push_back(send.start(comm, last, to{1}, tag{2}));
            allfold::barrier(comm);
            wait_all(sent);
        } else if (comm.rank() == 1) {
            int last = 0;
            std::array<int, 16> y{}, expected{};
            allfold::barrier(comm);  // all messages have been started, and no receive is posted
            receive(comm, last, from{0}, tag{2});
            expect(last == 42, "the last one first");
            // Messages that were held have been copied only up to the agreed limit.
            std::size_t copied = 0;
            const auto& office = allfold::detail::office_of(comm);
            office.for_each_held([&](const auto& held) { copied += held.data.empty() ? 0 : 64 + held.data.size(); });
            expect(copied <= std::size_t{64} * allfold::detail::credit::max_held, "held too much");
            for (int i = 1; i <= many; ++i) {
                receive(comm, y, from{any}, tag{1});
                expected.fill(i);
                expect(y == expected, "each in its turn");
            }
        } else {
            allfold::barrier(comm);
        }
        int count = 1;
        allfold::all_reduce(comm, count, allfold::sum());
        expect(count == 3, "sum");
    });
    SUCCEED();
}

TEST_CASE("twenty thousand messages in flight, received in the opposite order of their tags") {
    on_ranks(2, [](auto& comm) {
        constexpr int many = 20000;
        std::vector<int> x(many), y(many, -1);
        std::iota(x.begin(), x.end(), 0);
        std::vector<operation> all;
        const auto at = [](std::vector<int>& v, int i) -> int& { return v[static_cast<std::size_t>(i)]; };
        if (comm.rank() == 0) {
            for (int i = 0; i < many; ++i) all.push_back(send.start(comm, at(x, i), to{1}, tag{i}));
            allfold::barrier(comm);
        } else {
            allfold::barrier(comm);  // so that all arrive before any receive is posted
            for (int i = many; i-- > 0;) all.push_back(receive.start(comm, at(y, i), from{0}, tag{i}));
        }
        wait_all(all);
        // The other way round: receives are posted first.
        all.clear();
        if (comm.rank() == 0) {
            for (int i = many; i-- > 0;) all.push_back(receive.start(comm, at(y, i), from{1}, tag{i}));
            allfold::barrier(comm);
        } else {
            allfold::barrier(comm);
            for (int i = 0; i < many; ++i) all.push_back(send.start(comm, at(x, i), to{0}, tag{i}));
        }
        wait_all(all);
        expect(x == y, "data");
    });
    SUCCEED();
}

TEST_CASE("collectives get no lane of messages, however many there were before") {
    using allfold::detail::first_of_lanes;
    static_assert(first_of_lanes(0x3ffffff0, 16) == 0x3ffffff0 && first_of_lanes(0x3ffffff0, 17) == 0x80000000);
    static_assert(first_of_lanes(0x7fffffff, 1) == 0x80000000 && first_of_lanes(0x80000000, 9) == 0x80000000);
    using allfold::detail::restart_lane_of;
    static_assert(restart_lane_of(7, 3) == 0x40000007 && restart_lane_of(0x8000000a, 1) == 0x4000000a);
    static_assert(restart_lane_of(0x3fffffff, 2) == 0x5ffffffe && restart_lane_of(0x40000007, 3) == 0x40000007);
    on_ranks(3, [](auto& comm) {
        allfold::signature many;
        many.what = "many";
        comm.open(many, allfold::detail::first_restart_lane - 20);
        const int left = (comm.rank() + 2) % 3, right = (comm.rank() + 1) % 3;
        for (int i = 0; i < 60; ++i) {
            int x = comm.rank() + i, y = -1, sum = 1;
            operation a = receive.start(comm, y, from{left});
            operation b = allfold::all_reduce.start(comm, sum, allfold::sum());
            send(comm, x, to{right}, i % 2 == 0 ? mode::standard : mode::synchronous);
            int again = 1;
            allfold::all_reduce(comm, again, allfold::sum());
            a.wait();
            b.wait();
            expect(y == left + i && sum == 3 && again == 3, "beyond the lanes of messages");
        }
    });
    SUCCEED();
}

TEST_CASE("a rank that sends no messages may wait in collectives for long while many are sent to it") {
    on_all_transports(3, [](auto& comm) {
        constexpr int each = 500;
        std::vector<int> x(40, comm.rank()), y(40);
        std::vector<operation> sent;
        if (comm.rank() != 0)
            for (int i = 0; i < each; ++i) sent.push_back(send.start(comm, x, to{0}, tag{i % 3}));
        for (int i = 0; i < 200; ++i) {
            int sum = 1;
            allfold::all_reduce(comm, sum, allfold::sum());
            expect(sum == 3, "a collective");
        }
        if (comm.rank() == 0) {
            expect(comm.background().office == nullptr, "it has not looked at messages");
            for (int i = 0; i < each; ++i)
                for (const int r : {1, 2}) {
                    receive(comm, y, from{r}, tag{i % 3});
                    expect(y == std::vector<int>(40, r), "kept meanwhile");
                }
        }
        wait_all(sent);
    });
    SUCCEED();
}

// Rank 1 has sent as many messages as the channel has room for, and rank 0 takes none of them in, so the next one finds
// no room.
TEST_CASE("a send that finds no room takes in what has come") {
    std::barrier<> apart(2);
    on_ranks(2, [&](allfold::thread_communicator& comm) {
        constexpr std::size_t many = allfold::detail::buffers_of_a_channel + 1;
        const std::vector<int> x(100, 42);
        std::vector<int> y(100);
        if (comm.rank() == 0) {
            apart.arrive_and_wait();  // once the receive has been posted
            send(comm, x, to{1});
            apart.arrive_and_wait();
            apart.arrive_and_wait();  // while the messages of rank 1 stay in the channel
            for (std::size_t i = 0; i < many; ++i) {
                receive(comm, y, from{1});
                expect(y == x, "each of them");
            }
        } else {
            status found;
            operation received = receive.start(comm, y, from{0}, status_in{found});
            apart.arrive_and_wait();
            apart.arrive_and_wait();
            std::vector<operation> sent;
            for (std::size_t i = 0; i < many; ++i) sent.push_back(send.start(comm, x, to{0}));
            const bool has_come = found.elements == 100 && y == x;
            apart.arrive_and_wait();
            expect(has_come, "taken in");
            received.wait();
            wait_all(sent);
        }
    });
    SUCCEED();
}

TEST_CASE("between threads a long message is read while its sender does something else") {
    std::barrier<> apart(2);
    const auto program = [&](allfold::thread_communicator& comm) {
        for (int turn = 1; turn <= 3; ++turn) {  // after the first one it is known which cores are far apart
            std::vector<int> x(100000, 0x01010101 * turn), y(100000);
            if (comm.rank() == 0) {
                operation sent = send.start(comm, x, to{1});
                apart.arrive_and_wait();
                sent.wait();
            } else {
                receive(comm, y, from{0});
                expect(x == y, "it has come");
                apart.arrive_and_wait();  // the sender takes no part until then
            }
        }
    };
    for (const auto& tuning : {allfold::thread_tuning(), scattered}) on_ranks(2, program, tuning);
    SUCCEED();
}
