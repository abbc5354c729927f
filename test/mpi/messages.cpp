// SPDX-License-Identifier: BSL-1.0
#include <array>
#include <cstddef>
#include <random>
#include <string>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/collective/barrier.hpp"
#include "allfold/collective/broadcast.hpp"
#include "allfold/collective/subset.hpp"
#include "allfold/data/tensor_view.hpp"
#include "allfold/message.hpp"
#include "allfold/transport/group.hpp"
#include "allfold/transport/hierarchy.hpp"
#include "allfold/transport/mpi.hpp"
#include "test/message/programs.hpp"
#include "test/support/catch.hpp"
#include "test/support/watchdog.hpp"

using namespace test;
using allfold::any;
using allfold::errc;
using allfold::exchange;
using allfold::from;
using allfold::message;
using allfold::mode;
using allfold::operation;
using allfold::probe;
using allfold::receive;
using allfold::send;
using allfold::status;
using allfold::tag;
using allfold::to;

namespace {

/// The text of the error that `body` throws.
template <class Body>
std::string refusal(errc code, Body body) {
    try {
        body();
    } catch (const allfold::error& e) {
        return e.code() == code ? e.what() : "another code";
    }
    return "nothing";
}
bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("over MPI too, a message arrives, whatever its length and its mode") {
    const watchdog watch("messages over MPI");
    allfold::mpi::communicator comm(MPI_COMM_WORLD);
    CHECK((allfold::mpi::initialized() && !allfold::mpi::finalized()));
    if (comm.size() > 1) {
        check_every_mode(comm);
        check_data_comes_along(comm, 6000);
    }
    allfold::barrier(comm);
}

TEST_CASE("over MPI, a message that is sent whole is as long as it was sent, also beyond what its envelope can state") {
    const watchdog watch("long messages that are sent whole");
    allfold::mpi::communicator comm(MPI_COMM_WORLD, allfold::mpi::duplicate, {.eager_bytes = 200000, .chunk_bytes = 0});
    for (const std::size_t n : {65519U, 65520U, 65536U, 65537U, 131072U, 65536U}) {
        const std::vector<unsigned char> x(n, static_cast<unsigned char>(n % 251));
        std::vector<unsigned char> y(n);
        if (comm.rank() == 0 && comm.size() > 1) send(comm, x, to{1}, tag{1});
        if (comm.rank() == 1) {
            receive(comm, y, from{0}, tag{1});
            INFO(n << " bytes");
            CHECK(y == x);
        }
    }
    allfold::barrier(comm);
    SUCCEED();
}

TEST_CASE("over MPI too, random programs receive what a sequential matching says") {
    const watchdog watch("random messages over MPI");
    allfold::mpi::communicator comm(MPI_COMM_WORLD);
    unsigned seed = comm.rank() == 0 ? std::random_device{}() : 0;
    allfold::broadcast(comm, seed);
    INFO("seed " << seed);
    std::mt19937 random(seed);
    for (int i = 0; i < 3; ++i) REQUIRE_NOTHROW(run_program(comm, random_messages(random, comm.size(), 100), seed));
}

TEST_CASE("over MPI too, messages of strings, of tensors with gaps, and probed ones") {
    const watchdog watch("data of messages over MPI");
    allfold::mpi::communicator comm(MPI_COMM_WORLD);
    const int right = (comm.rank() + 1) % comm.size(), left = (comm.rank() + comm.size() - 1) % comm.size();
    for (const std::size_t length : {std::size_t{3}, std::size_t{200000}}) {
        const std::vector<std::string> words{"from " + std::to_string(comm.rank()), std::string(length, 'x')};
        operation sent = send.start(comm, words, to{right}, tag{1});
        message found = probe(comm, from{any}, tag{1});
        REQUIRE(found.about() == status{left, 1, 2, false});
        std::vector<std::string> theirs(2);
        receive(found, theirs);
        sent.wait();
        CHECK((theirs[0] == "from " + std::to_string(left) && theirs[1] == words[1]));

        std::vector<double> x(3 * length, comm.rank()), y(3 * length, -1);
        const auto column = [&](std::vector<double>& of) {
            return allfold::tensor<double, 2>(of.data(), {length, 2}, {3, 1});
        };
        exchange(comm, column(x), to{right}, column(y), from{left});
        CHECK((y[0] == left && y[1] == left && y[2] == -1 && y[3 * length - 2] == left && y.back() == -1));

        std::vector<int> shorter(1);
        operation cut = send.start(comm, std::span<const double>(x), to{right}, tag{2});
        CHECK(says(refusal(errc::mismatch, [&] { receive(comm, shorter, from{left}, tag{2}); }), "double"));
        cut.wait();
        cut = send.start(comm, std::span<const double>(x), to{right}, tag{2}, mode::synchronous);
        CHECK(says(refusal(errc::truncated, [&] { receive(comm, y[0], from{left}, tag{2}); }), "room for 1"));
        cut.wait();
    }
}

TEST_CASE("over MPI too, a ready send needs its receive, and a receive may be cancelled") {
    const watchdog watch("ready sends over MPI");
    allfold::mpi::communicator comm(MPI_COMM_WORLD);
    int x = 5, y = 0;
    operation never = receive.start(comm, y, from{any}, tag{9});
    if (comm.size() > 1 && comm.rank() == 0) {
        allfold::barrier(comm);
        send(comm, x, to{1}, tag{1}, mode::ready);
        CHECK(says(refusal(errc::bad_argument, [&] { send(comm, x, to{1}, tag{2}, mode::ready); }), "rank 1"));
        send(comm, x, to{1}, tag{3});
    } else if (comm.rank() == 1) {
        operation early = receive.start(comm, y, from{0}, tag{1});
        allfold::barrier(comm);
        early.wait();
        CHECK(y == 5);
        receive(comm, y, from{0}, tag{3});
    } else {
        allfold::barrier(comm);
    }
    CHECK(never.cancel());
    never.wait();
}

TEST_CASE("messages in teams of processes, and between any threads of any processes") {
    const watchdog watch("messages in teams over MPI");
    allfold::mpi::communicator comm(MPI_COMM_WORLD);
    const auto around = [](auto& ranks) {
        const int right = (ranks.rank() + 1) % ranks.size(), left = (ranks.rank() + ranks.size() - 1) % ranks.size();
        bool is_right = true;
        for (const std::size_t n : {std::size_t{1}, std::size_t{1000}, std::size_t{100000}}) {
            const std::vector<int> x(n, ranks.rank());
            std::vector<int> y(n, -1);
            exchange(ranks, x, to{right}, y, from{left}, n == 1000 ? mode::synchronous : mode::standard);
            is_right = is_right && y == std::vector<int>(n, left);
        }
        return is_right;
    };
    const allfold::group all = allfold::group::of(comm);
    const allfold::group even = all.include({allfold::rank_range{0, comm.size() - 1, 2}});
    if (const auto team = subset(comm, even)) CHECK(around(*team));
    CHECK(around(comm));
    std::array<bool, 2> right{}, turned{};
    allfold::run(comm, 2, [&](auto& threads) {
        const auto thread = static_cast<std::size_t>(threads.rank() % 2);
        right[thread] = around(threads);
        std::vector<int> every;
        for (int r = threads.size(); r-- > 0;) every.push_back(r);
        const auto team = allfold::subset(threads, allfold::rank_list(every));
        turned[thread] = around(*team);
    });
    CHECK((right[0] && right[1] && turned[0] && turned[1]));
}

TEST_CASE("random programs between any threads of any processes receive what a sequential matching says") {
    const watchdog watch("random messages between threads over MPI");
    allfold::mpi::communicator comm(MPI_COMM_WORLD);
    unsigned seed = comm.rank() == 0 ? std::random_device{}() : 0;
    allfold::broadcast(comm, seed);
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const auto program = random_messages(random, 2 * comm.size(), 100);
    REQUIRE_NOTHROW(allfold::run(comm, 2, [&](auto& threads) { run_program(threads, program, seed); }));
}

TEST_CASE("a thread that fails releases all threads of all processes that wait for messages") {
    const watchdog watch("failure among messages between threads over MPI");
    allfold::mpi::communicator comm(MPI_COMM_WORLD);
    const int culprit = 2 * comm.size() - 1;
    const std::string heard = refusal(errc::peer_failed, [&] {
        allfold::run(comm, 2, [&](auto& threads) {
            int x = 0;
            allfold::barrier(threads);
            if (threads.rank() == culprit) throw allfold::error(errc::peer_failed, "boom");
            receive(threads, x, from{any});
        });
    });
    CHECK(says(heard, "boom"));
}
