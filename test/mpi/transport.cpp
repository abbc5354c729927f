// SPDX-License-Identifier: BSL-1.0
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iostream>
#include <limits>
#include <map>
#include <numeric>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include "allfold/allfold.hpp"
#include "allfold/transport/mpi.hpp"
#include "allfold/transport/traced.hpp"
#include "test/mpi/support/job.hpp"
#include "test/mpi/support/outcome.hpp"
#include "test/support/algebras.hpp"
#include "test/support/catch.hpp"

using namespace test;
using allfold::delegate;
using allfold::errc;
using allfold::sum;
using word_counts = std::map<std::string, int>;

template <>
struct allfold::serializer<word_counts> {
    static std::size_t bytes(const word_counts& counts) {
        std::size_t sum = 0;
        for (const auto& [word, count] : counts) sum += word.size() + 1 + sizeof count;
        return sum;
    }
    static void write(const word_counts& counts, std::byte* to) {
        for (const auto& [word, count] : counts) {
            std::memcpy(to, word.c_str(), word.size() + 1);
            to += word.size() + 1;
            std::memcpy(to, &count, sizeof count);
            to += sizeof count;
        }
    }
    static word_counts read(std::span<const std::byte> from) {
        word_counts counts;
        while (!from.empty()) {
            const std::string word(reinterpret_cast<const char*>(from.data()));
            from = from.subspan(word.size() + 1);
            int count = 0;
            std::memcpy(&count, from.data(), sizeof count);
            from = from.subspan(sizeof count);
            counts[word] = count;
        }
        return counts;
    }
};

namespace {

/// These wrap a communicator as KaMPIng, MPL and Boost.MPI do.
struct like_kamping {
    [[nodiscard]] MPI_Comm mpi_communicator() const { return MPI_COMM_WORLD; }
};
struct like_mpl {
    [[nodiscard]] MPI_Comm native_handle() const { return MPI_COMM_WORLD; }
};
struct like_boost {
    operator MPI_Comm() const { return MPI_COMM_WORLD; }
};

/// A sum, but of the squares of its arguments.
struct sum_of_squares : sum {
    [[nodiscard]] int lift(int x) const { return x * x; }
};

void check_sum_of_ones(allfold::mpi::communicator& comm) {
    int one = 1;
    allfold::all_reduce(comm, one, sum());
    CHECK(one == comm.size());
}

}  // namespace

TEST_CASE("a communicator is made of whatever wraps one") {
    allfold::mpi::communicator plain{MPI_COMM_WORLD};
    allfold::mpi::communicator kamping{like_kamping()}, mpl{like_mpl()}, boost{like_boost()};
    for (auto* comm : {&plain, &kamping, &mpl, &boost}) check_sum_of_ones(*comm);
}

TEST_CASE("a borrowed communicator is given back as it was") {
    MPI_Comm mine;
    MPI_Comm_dup(MPI_COMM_WORLD, &mine);
    MPI_Comm_set_errhandler(mine, MPI_ERRORS_ARE_FATAL);
    {
        allfold::mpi::communicator comm(mine, allfold::mpi::borrow);
        CHECK(comm.native_handle() == mine);
        check_sum_of_ones(comm);
    }
    MPI_Errhandler handler;
    MPI_Comm_get_errhandler(mine, &handler);
    CHECK(handler == MPI_ERRORS_ARE_FATAL);
    CHECK(MPI_Barrier(mine) == MPI_SUCCESS);
    MPI_Comm_free(&mine);
}

TEST_CASE("a duplicate does not mix with what others send") {
    int rank = 0, size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int sent = 4711 + rank, got = 0;
    std::array<MPI_Request, 2> requests;
    MPI_Irecv(&got, 1, MPI_INT, (rank + size - 1) % size, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(&sent, 1, MPI_INT, (rank + 1) % size, 1, MPI_COMM_WORLD, &requests[1]);
    allfold::mpi::communicator comm{MPI_COMM_WORLD};
    check_sum_of_ones(comm);
    MPI_Waitall(2, requests.data(), MPI_STATUSES_IGNORE);
    CHECK(got == 4711 + (rank + size - 1) % size);
}

TEST_CASE("operations in flight end in any order, though lanes share tags") {
    const watchdog watch("operations in flight");
    allfold::mpi::communicator comm(MPI_COMM_WORLD, allfold::mpi::duplicate, pinched);
    constexpr std::size_t count = 12;
    std::vector<std::vector<int>> data;
    std::vector<allfold::operation> operations;
    for (std::size_t i = 0; i < count; ++i) data.emplace_back(10 * i * i, static_cast<int>(i));
    for (auto& x : data) operations.push_back(allfold::all_reduce.start(comm, x, sum()));
    for (std::size_t i = 0; i < count; ++i) {
        auto& next = operations[comm.rank() % 2 == 0 ? i : count - 1 - i];
        if (i % 3 == 0)
            while (!next.done()) std::this_thread::yield();
        next.wait();
    }
    for (std::size_t i = 0; i < count; ++i)
        CHECK(data[i] == std::vector<int>(10 * i * i, static_cast<int>(i) * comm.size()));
}

TEST_CASE("hundreds of calls in flight do not keep an older one from its end") {
    const watchdog watch("hundreds of calls");
    allfold::mpi::communicator comm{MPI_COMM_WORLD};
    std::vector<int> late(5000000, 1);
    std::vector<std::vector<int>> many(600, std::vector<int>(8000, 1));
    auto first = allfold::all_reduce.start(comm, late, sum(), allfold::window{65536});
    std::vector<allfold::operation> rest;
    if (comm.rank() == 0) first.wait();
    for (auto& x : many) rest.push_back(allfold::broadcast.start(comm, x, allfold::root{comm.size() - 1}));
    first.wait();
    allfold::wait_all(rest);
    CHECK(late == std::vector<int>(late.size(), comm.size()));
}

TEST_CASE("operators of one type with different state work at the same time") {
    allfold::mpi::communicator comm{MPI_COMM_WORLD};
    const auto modulo = [](unsigned m) {
        return allfold::commutative([m](unsigned a, unsigned b) { return (a + b) % m; });
    };
    const unsigned P = static_cast<unsigned>(comm.size());
    std::vector<unsigned> x(100, 6), y(100, 6);
    auto first = allfold::all_reduce.start(comm, x, modulo(7));
    auto second = allfold::all_reduce.start(comm, y, modulo(11));
    second.wait();
    first.wait();
    CHECK(x == std::vector<unsigned>(100, 6 * P % 7));
    CHECK(y == std::vector<unsigned>(100, 6 * P % 11));
}

TEST_CASE("columns that only their alignment makes too long to be copied are not changed before they are read") {
    allfold::mpi::communicator comm(MPI_COMM_WORLD, allfold::mpi::duplicate, {.eager_bytes = 65536});
    constexpr std::size_t rows = 6553;  // of 10 bytes: 65530; more than eager_bytes with the gaps between columns
    for (int turn = 0; turn < 20; ++turn) {
        std::vector<std::uint8_t> a(rows, 1), b(rows, 2);
        std::vector<double> c(rows, 3);
        allfold::all_reduce(comm, allfold::records(std::span(a), std::span(b), std::span(c)), sum(),
                            allfold::recursive_doubling());
        const auto P = static_cast<std::uint8_t>(comm.size());
        CHECK(a == std::vector<std::uint8_t>(rows, P));
        CHECK(b == std::vector<std::uint8_t>(rows, static_cast<std::uint8_t>(2 * P)));
        CHECK(c == std::vector<double>(rows, 3.0 * P));
    }
}

TEST_CASE("a persistent collective is started again and again") {
    allfold::mpi::communicator comm{MPI_COMM_WORLD};
    std::vector<int> in(1000), out(1000);
    auto call = allfold::all_reduce.prepare(comm, in, out, sum());
    for (int turn = 0; turn < 5; ++turn) {
        std::fill(in.begin(), in.end(), turn);
        call();
        CHECK(out == std::vector<int>(1000, turn * comm.size()));
    }
}

TEST_CASE("a map crosses with the user's serializer") {
    allfold::mpi::communicator comm{MPI_COMM_WORLD};
    const auto merge = allfold::commutative([](word_counts a, const word_counts& b) {
        for (const auto& [word, count] : b) a[word] += count;
        return a;
    });
    word_counts mine{{"all", 1}, {"rank " + std::to_string(comm.rank()), 1}};
    allfold::all_reduce(comm, mine, merge);
    CHECK(mine["all"] == comm.size());
    CHECK(mine.size() == static_cast<std::size_t>(comm.size()) + 1);
}

TEST_CASE("bytes that are no elements are refused with the figures") {
    CHECK_THROWS_WITH(allfold::detail::decode_objects<std::string>(std::as_bytes(std::span("abc"))),
                      Catch::Matchers::ContainsSubstring("does not fit"));
    const std::array<std::uint64_t, 1> too_long{99};
    CHECK_THROWS_WITH(allfold::detail::decode_objects<std::string>(std::as_bytes(std::span(too_long))),
                      Catch::Matchers::ContainsSubstring("an element of 99 bytes"));
}

// Delegation

TEST_CASE("MPI's own collectives give the same, agreed and not") {
    auto eager = allfold::mpi::tuning();
    eager.native_from = eager.native_all_reduce_from = eager.native_reduce_from = 0;
    const watchdog watch("delegation");
    allfold::mpi::communicator comm(MPI_COMM_WORLD, allfold::mpi::duplicate, eager);
    const auto P = static_cast<std::size_t>(comm.size());
    const auto rank = static_cast<std::int64_t>(comm.rank());
    const auto check = [&]<class T, class Op>(T, Op op) {
        std::vector<T> in(1100 * P + 1);  // enough for MPI's vector instructions, some of which saturate
        const std::int64_t least = sizeof(T) < 4 ? std::numeric_limits<T>::max() / 2 : 1;  // so that sums overflow
        std::iota(in.begin(), in.end(), static_cast<T>(rank + least));
        for (const auto choice : {delegate::automatic, delegate::always}) {
            std::vector<T> out(in.size()), expected(in.size()), place = in;
            const auto same = [&] { CHECK(out == expected); };
            allfold::all_reduce(comm, in, expected, op, delegate::never);
            allfold::all_reduce(comm, in, out, op, choice);
            same();
            allfold::all_reduce(comm, place, op, choice);
            CHECK(place == expected);
            allfold::inclusive_scan(comm, in, expected, op, delegate::never);
            allfold::inclusive_scan(comm, in, out, op, choice);
            same();
            place = in;
            allfold::inclusive_scan(comm, place, op, choice);
            CHECK(place == expected);
            std::fill(expected.begin(), expected.end(), T(77));  // the first rank gets identities, or nothing
            out = expected;
            allfold::exclusive_scan(comm, in, expected, op, delegate::never);
            allfold::exclusive_scan(comm, in, out, op, choice);
            same();
            place = in;
            allfold::exclusive_scan(comm, place, op, choice);
            if (comm.rank() > 0 || allfold::operator_with_identity<Op, T>) CHECK(place == expected);
            for (const int root : {0, comm.size() - 1}) {
                std::fill(out.begin(), out.end(), T());
                std::fill(expected.begin(), expected.end(), T());
                allfold::reduce(comm, in, expected, op, allfold::root{root}, delegate::never);
                allfold::reduce(comm, in, out, op, allfold::root{root}, choice);
                same();
                place = in;
                allfold::reduce(comm, place, op, allfold::root{root}, choice);
                CHECK(place == (comm.rank() == root ? expected : in));
            }
            for (const auto& blocks : partitions_of(in.size(), comm.size())) {
                const std::size_t own = blocks.extent(comm.rank()), first = blocks.offset(comm.rank());
                expected.assign(own, T());
                out.assign(own, T());
                place = in;
                allfold::reduce_scatter(comm, in, expected, op, blocks, delegate::never);
                allfold::reduce_scatter(comm, in, out, op, blocks, choice);
                same();
                allfold::reduce_scatter(comm, place, op, blocks, choice);
                CHECK(std::equal(out.begin(), out.end(), place.begin() + static_cast<std::ptrdiff_t>(first)));
            }
        }
    };
    check(std::int32_t(), sum());
    check(std::uint8_t(), sum());
    check(std::int64_t(), allfold::product());
    check(std::int16_t(), allfold::min());
    check(std::uint64_t(), allfold::max());
    check(std::uint8_t(), allfold::max());  // of which half have the highest bit
    check(std::uint16_t(), allfold::min());
    check(std::uint32_t(), allfold::bit_xor());
    check(std::int8_t(), allfold::bit_or());
    check(double(), std::plus<>());
}

TEST_CASE("an operator that lifts or lowers is never delegated, although it folds by a sum") {
    allfold::mpi::communicator comm{MPI_COMM_WORLD};
    std::vector<double> x(10, comm.rank());
    allfold::all_reduce(comm, x, allfold::mean(), delegate::always);
    CHECK(x == std::vector<double>(10, (comm.size() - 1) / 2.0));
    const std::vector<int> in(10, 3);
    std::vector<int> squares(10);
    allfold::all_reduce(comm, in, squares, sum_of_squares(), delegate::always);
    CHECK(squares == std::vector<int>(10, 9 * comm.size()));
}

TEST_CASE("a plan says what is delegated, and why") {
    auto eager = allfold::mpi::tuning();
    eager.native_from = eager.native_all_reduce_from = 1000;
    allfold::mpi::communicator comm(MPI_COMM_WORLD, allfold::mpi::duplicate, eager);
    const auto delegated = [&](const allfold::plan& p) {
        CHECK(p.delegated() == (p.name() == "MPI_Allreduce"));
        CHECK_FALSE(p.why().empty());
        return p.delegated();
    };
    const bool several = comm.size() > 1;
    const auto all_reduce = allfold::all_reduce;
    CHECK(delegated(all_reduce.plan(comm, 1000, sum())) == several);
    CHECK_FALSE(delegated(all_reduce.plan(comm, 999, sum())));
    constexpr std::size_t most = std::numeric_limits<int>::max();  // MPI counts in int
    CHECK(delegated(all_reduce.plan(comm, most * sizeof(float), sum(), delegate::always)) == several);
    CHECK_FALSE(delegated(all_reduce.plan(comm, (most + 1) * sizeof(float), sum(), delegate::always)));
    CHECK(delegated(all_reduce.plan(comm, 999, sum(), delegate::always)) == several);
    CHECK_FALSE(delegated(all_reduce.plan(comm, 1000, sum(), delegate::never)));
    CHECK_FALSE(delegated(all_reduce.plan(comm, 1000, sum(), allfold::order::rank)));
    CHECK_FALSE(delegated(all_reduce.plan(comm, 1000, sum(), allfold::ring())));
    CHECK_FALSE(delegated(all_reduce.plan(comm, 1000, sum(), allfold::window{100})));
    CHECK_FALSE(delegated(all_reduce.plan(comm, 1000, allfold::max())));  // of floats, which may be NaN
    CHECK(delegated(all_reduce.plan<int>(comm, 1000, allfold::max())) == several);
    CHECK_FALSE(delegated(all_reduce.plan<std::int16_t>(comm, 1000, sum())));  // which Open MPI lets saturate
    CHECK_FALSE(delegated(all_reduce.plan<std::int8_t>(comm, 1000, std::plus<>())));
    CHECK(delegated(all_reduce.plan<std::int16_t>(comm, 1000, allfold::max())) == several);
    CHECK_FALSE(delegated(all_reduce.plan(comm, 1000, allfold::commutative([](float a, float b) { return a + b; }))));
    CHECK_FALSE(delegated(all_reduce.plan(comm, 1000, allfold::mean(), delegate::always)));
    CHECK_FALSE(delegated(all_reduce.plan(comm, 1000, sum_of_squares(), delegate::always)));
    const auto own = all_reduce.plan(comm, 1000, sum(), delegate::never);
    CHECK(own.rounds() == all_reduce.plan(comm, 1000, sum()).rounds());
    if (several) CHECK_THAT(all_reduce.plan(comm, 1000, sum()).why(), Catch::Matchers::ContainsSubstring("MPI"));
}

TEST_CASE("what is watched is delegated too, and its time line says so") {
    if (ranks_of_job() == 1) {
        SUCCEED("one rank delegates nothing");
        return;
    }
    allfold::mpi::communicator comm{MPI_COMM_WORLD};
    allfold::trace_recorder recorder(comm.size());
    allfold::traced watched(comm, recorder);
    int one = 1;
    allfold::all_reduce(watched, one, sum(), delegate::always);
    CHECK(one == comm.size());
    std::ostringstream line;
    recorder.write_chrome_trace(line);
    CHECK_THAT(line.str(), Catch::Matchers::ContainsSubstring("MPI_Allreduce"));
}

TEST_CASE("what fails in flight while ranks agree on MPI's own collective releases the others") {
    if (ranks_of_job() == 1) {
        SUCCEED("nobody to release");
        return;
    }
    const watchdog watch("a failure before a delegation");
    auto eager = allfold::mpi::tuning();
    eager.native_from = eager.native_all_reduce_from = 0;
    const outcome mine = outcome_of([&] {
        allfold::mpi::communicator comm(MPI_COMM_WORLD, allfold::mpi::duplicate, eager);
        const bool fails = comm.rank() == comm.size() - 1;
        const auto op = allfold::associative([fails](int a, int b) {
            if (fails) throw std::runtime_error("boom");
            return a + b;
        });
        int x = 1, y = 1;
        if (comm.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(50));
        auto in_flight = allfold::all_reduce.start(comm, x, op);
        allfold::all_reduce(comm, y, allfold::sum());
        in_flight.wait();
        allfold::barrier(comm);  // a rank that is already done learns of it here
    });
    INFO(mine.text);
    CHECK((mine.text == "boom" || mine.code == allfold::errc::peer_failed));
}

TEST_CASE("a mismatch is found before anything is delegated") {
    if (ranks_of_job() == 1) {
        SUCCEED("nobody to differ from");
        return;
    }
    auto eager = allfold::mpi::tuning();
    eager.native_from = eager.native_all_reduce_from = eager.native_reduce_from = 0;
    const watchdog watch("mismatch, delegated");
    for (int culprit = 0; culprit < ranks_of_job(); culprit += 3) {
        allfold::mpi::communicator comm(MPI_COMM_WORLD, allfold::mpi::duplicate, eager);
        std::vector<int> x(comm.rank() == culprit ? 1001 : 1000, comm.rank());
        const auto before = x;
        const outcome mine = outcome_of([&] { allfold::all_reduce(comm, x, sum()); });
        check_failure(mine, errc::mismatch, {"all_reduce", "1000", "1001", "rank " + std::to_string(culprit)});
        CHECK(x == before);
    }
    const auto mismatch = [&](std::initializer_list<std::string_view> parts, auto call) {
        const outcome mine = outcome_of([&] {
            allfold::mpi::communicator comm(MPI_COMM_WORLD, allfold::mpi::duplicate, eager);
            std::vector<int> x(1000, comm.rank());
            call(comm, x, comm.rank() == 1);
        });
        check_failure(mine, errc::mismatch, parts);
    };
    mismatch({"names root 0", "names root 1"},
             [](auto& comm, auto& x, bool is_odd) { allfold::reduce(comm, x, sum(), allfold::root{is_odd ? 1 : 0}); });
    mismatch({"folds with", "sum", "product"}, [](auto& comm, auto& x, bool is_odd) {
        is_odd ? allfold::all_reduce(comm, x, allfold::product()) : allfold::all_reduce(comm, x, sum());
    });
    mismatch({"calls inclusive_scan", "calls exclusive_scan"}, [](auto& comm, auto& x, bool is_odd) {
        is_odd ? allfold::inclusive_scan(comm, x, sum()) : allfold::exclusive_scan(comm, x, sum());
    });
    mismatch({"reduce_scatter", "cuts blocks of"}, [](auto& comm, auto& x, bool is_odd) {
        std::vector<std::size_t> sizes(static_cast<std::size_t>(comm.size()), 0);
        sizes[is_odd ? 1 : 0] = x.size();
        allfold::reduce_scatter(comm, x, sum(), allfold::partition::sizes(sizes));
    });
    mismatch({"tensor 0 of 2", "400", "600"}, [](auto& comm, auto& x, bool is_odd) {
        const std::span<int> all(x);
        const std::size_t first = is_odd ? 400 : 600;
        allfold::reduce(comm, allfold::tensors{all.first(first), all.subspan(first)}, sum());
    });
    mismatch({"assigns rank 0 shard", "shard 0", "shard 1"}, [](auto& comm, auto& x, bool is_odd) {
        std::vector<int> list(static_cast<std::size_t>(comm.size()));
        std::iota(list.begin(), list.end(), 0);
        if (is_odd) std::swap(list[0], list[1]);
        const std::vector<int> in(x.size() / list.size() * list.size());
        std::vector<int> out(in.size() / list.size());
        allfold::reduce_scatter(comm, in, out, sum(), allfold::shards(list));
    });
    mismatch({"along axis 0", "along axis 1"}, [](auto& comm, auto& x, bool is_odd) {
        const auto P = static_cast<std::size_t>(comm.size());
        std::vector<int> row(P);
        const allfold::tensor<int, 2> in(x.data(), {P, P}), out(row.data(), {is_odd ? P : 1, is_odd ? 1 : P});
        allfold::reduce_scatter(comm, in, out, sum(), allfold::axis{is_odd ? 1U : 0U});
    });
    mismatch({"all_reduce of", "automatic", "the transport's own"}, [](auto& comm, auto& x, bool is_odd) {
        allfold::all_reduce(comm, x, sum(), is_odd ? delegate::never : delegate::automatic);
    });
    eager.native_reduce_from = 4000;
    mismatch({"reduce of", "1000", "999", "elements"}, [](auto& comm, auto& x, bool is_odd) {
        if (is_odd) x.pop_back();
        allfold::reduce(comm, x, sum(), allfold::root{1});
    });
    mismatch({"calls all_reduce (automatic)", "calls reduce (the transport's own)"},
             [](auto& comm, auto& x, bool is_odd) {
                 is_odd ? allfold::all_reduce(comm, x, sum(), delegate::never) : allfold::reduce(comm, x, sum());
             });
}

// Long messages

namespace {

/// A sink that has a destination for messages with its signature.
struct storing_sink {
    std::uint32_t expected;
    std::span<std::byte> at;
    std::byte*& came_to;

    [[nodiscard]] std::byte* destination(std::uint32_t signature, std::size_t bytes) const {
        return signature == expected && bytes == at.size() ? at.data() : nullptr;
    }
    void operator()(allfold::mpi::communicator::arrival_type&& message) const {
        came_to = message.packed();
        if (came_to != at.data()) std::copy_n(message.packed(), std::min(message.bytes(), at.size()), at.data());
    }
};

}  // namespace

TEST_CASE("a long message goes where the sink wants it, if it is the one that is awaited there") {
    const watchdog watch("stored messages");
    allfold::mpi::communicator comm(MPI_COMM_WORLD, allfold::mpi::duplicate,
                                    {.eager_bytes = 256, .piece_bytes = 50000, .tags = 1});  // both lanes share the tag
    const int next = (comm.rank() + 1) % comm.size(), before = (comm.rank() + comm.size() - 1) % comm.size();
    const allfold::lane first = comm.open(allfold::signature(), 2), second = first + 1;
    const auto content = [](int rank, allfold::lane on) {
        std::vector<std::byte> bytes(300000);
        for (std::size_t i = 0; i < bytes.size(); ++i)
            bytes[i] = static_cast<std::byte>(i * 31 / 7 + static_cast<std::size_t>(rank) * 5 + on * 3);
        return bytes;
    };
    std::atomic<int> lent{0};
    std::array mine{content(comm.rank(), first), content(comm.rank(), second)};
    std::array<std::array<allfold::part, 3>, 2> parts;
    for (std::size_t i = 0; i < 2; ++i) {  // a long part between two short ones
        std::byte* const data = mine[i].data();
        const std::size_t n = mine[i].size();
        parts[i] = {{{data, 100}, {data + 100, n - 140}, {data + n - 40, 40}}};
        REQUIRE(comm.try_post(next, first + static_cast<allfold::lane>(i), {parts[i], n, 1, true, 7, &lent}));
    }
    const auto receive = [&](allfold::lane on, std::uint32_t expected) {
        std::vector<std::byte> got(300000);
        std::byte* came_to = nullptr;
        while (!comm.try_receive(before, on, storing_sink{expected, got, came_to})) comm.progress();
        CHECK(got == content(before, on));
        return came_to == got.data();
    };
    SECTION("in the order of the posts") {
        CHECK(receive(first, 7));
        CHECK(receive(second, 7));
    }
    SECTION("the other way round: the first is in the way of the second, and not put where that belongs") {
        CHECK(receive(second, 7));
        CHECK_FALSE(receive(first, 7));
    }
    SECTION("not where another message is expected") {
        CHECK_FALSE(receive(first, 8));
        CHECK(receive(second, 7));
    }
    while (lent != 0) comm.progress();
}

namespace {

/// A sink that records the sizes that it is asked about and that it gets, and has `room` for a message.
struct measuring_sink {
    std::span<std::byte> room;
    std::size_t& asked;
    std::size_t& arrived;

    [[nodiscard]] std::byte* destination(std::uint32_t, std::size_t bytes) const {
        asked = bytes;
        return bytes == room.size() ? room.data() : nullptr;
    }
    void operator()(allfold::mpi::communicator::arrival_type&& message) const { arrived = message.bytes(); }
};

}  // namespace

TEST_CASE("a receiver learns exactly how many bytes were sent, before it has to give room to them") {
    const watchdog watch("sizes");
    allfold::mpi::communicator comm(MPI_COMM_WORLD, allfold::mpi::duplicate,
                                    {.eager_bytes = 256, .long_bytes = 100, .piece_bytes = 5000});
    const int next = (comm.rank() + 1) % comm.size(), before = (comm.rank() + comm.size() - 1) % comm.size();
    const allfold::lane on = comm.open(allfold::signature(), 1);
    std::atomic<int> lent{0};
    std::vector<std::byte> memory(60000), room(30000);
    // Empty, with the envelope, by itself, in many short parts and therefore as one copy, and in pieces.
    for (const std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{256}, std::size_t{257}, std::size_t{30000}})
        for (const std::size_t part_bytes : {n, std::size_t{37}}) {
            std::vector<allfold::part> parts;
            for (std::size_t at = 0; at < n; at += part_bytes)
                parts.push_back({memory.data() + 2 * at, std::min(part_bytes, n - at)});
            while (!comm.try_post(next, on, {parts, n, 1, true, 7, &lent})) comm.progress();
            std::size_t asked = n, arrived = 1234567;
            std::fill(room.begin(), room.end(), std::byte{0x55});
            const std::size_t expected = n == 257 ? 200 : 30000;  // less than what arrives, more, or as many
            while (!comm.try_receive(before, on, measuring_sink{std::span(room).first(expected), asked, arrived}))
                comm.progress();
            INFO(n << " bytes in parts of " << part_bytes);
            CHECK(asked == n);
            CHECK(arrived == n);
            if (n != expected)
                CHECK(std::count(room.begin(), room.end(), std::byte{0x55}) == static_cast<int>(room.size()));
            while (lent != 0) comm.progress();
        }
}

TEST_CASE("messages of operations that share a tag, as those half of the tags apart do, reach the right one") {
    const watchdog watch("a shared tag");
    constexpr int tags = 1 << 20;
    allfold::mpi::communicator comm(MPI_COMM_WORLD, allfold::mpi::duplicate, {.tags = tags});
    std::vector<int> in(5000, comm.rank()), out(5000), short_in(25, comm.rank() + 7), short_out(25);
    auto parts = allfold::permute.prepare(comm, in, out, allfold::shift{1});  // awaited in chunks
    parts();                                                                  // from now on its lane is its own
    comm.open(allfold::signature(), tags / 2 - 1);
    auto whole = allfold::permute.prepare(comm, short_in, short_out, allfold::shift{1});
    whole();
    const bool is_first = comm.rank() % 2 == 0;
    if (!is_first) {
        parts.start();
        static_cast<void>(parts.done());
    }
    MPI_Barrier(MPI_COMM_WORLD);
    whole.start();
    if (is_first) parts.start();
    whole.wait();
    parts.wait();
    const int before = (comm.rank() + comm.size() - 1) % comm.size();
    CHECK(out == std::vector<int>(5000, before));
    CHECK(short_out == std::vector<int>(25, before + 7));
}

namespace {

/// A sink for a message whose length is known.
struct expecting_sink {
    std::size_t expected;

    [[nodiscard]] std::size_t expected_bytes() const { return expected; }
    void operator()(allfold::mpi::communicator::arrival_type&&) const {}
};

}  // namespace

TEST_CASE("a message that overtakes one with the same tag, whose parts are already awaited, is refused") {
    const watchdog watch("an overtaken message");
    constexpr int tags = 1 << 20;
    const outcome mine = outcome_of([] {
        allfold::mpi::communicator comm(MPI_COMM_WORLD, allfold::mpi::duplicate, {.tags = tags});
        const int next = (comm.rank() + 1) % comm.size(), before = (comm.rank() + comm.size() - 1) % comm.size();
        const allfold::lane first = comm.open(allfold::signature(), tags), last = first + tags / 2;
        CHECK_FALSE(comm.try_receive(before, first, expecting_sink{20000}));
        MPI_Barrier(MPI_COMM_WORLD);
        std::array<std::byte, 100> short_one{};
        const std::array<allfold::part, 1> parts{{{short_one.data(), short_one.size()}}};
        CHECK(comm.try_post(next, last, {parts, short_one.size(), 1, true, 7, nullptr}));
        try {
            while (!comm.try_receive(before, first, expecting_sink{20000})) comm.progress();
        } catch (...) {
            comm.abandon();
            throw;
        }
    });
    INFO(mine.text);
    CHECK((mine.code == errc::peer_failed || mine.code == errc::transport));
    CHECK(on_any_rank(mine.says("has made too many calls")));
}

TEST_CASE("what is not allfold's on a borrowed communicator is refused, whatever it says about its length") {
    if (ranks_of_job() == 1) {
        SUCCEED("nobody to send it");
        return;
    }
    const watchdog watch("foreign messages");
    allfold::mpi::tuning numbers;
    // Nothing tells the sender how many of its bytes were not for allfold.
    numbers.patience = std::chrono::milliseconds(100);
    for (const std::size_t n : {std::size_t{5}, std::size_t{32}, std::size_t{500}}) {
        MPI_Comm mine;
        MPI_Comm_dup(MPI_COMM_WORLD, &mine);
        const outcome failed = outcome_of([&] {
            allfold::mpi::communicator comm(mine, allfold::mpi::borrow, numbers);
            const std::vector<std::byte> foreign(n, std::byte{0x11});
            if (comm.rank() == 0)
                MPI_Send(foreign.data(), static_cast<int>(n), MPI_BYTE, 1, 1, mine);  // the tag of the first lane
            std::vector<int> x(10);
            allfold::broadcast(comm, x);
            allfold::barrier(comm);
        });
        check_failure(failed, errc::transport, {"from rank 0", "that is not allfold's"});
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

TEST_CASE("a borrowed communicator ends although the program has sent something through it") {
    if (ranks_of_job() == 1) {
        SUCCEED("nobody to send it");
        return;
    }
    const watchdog watch("a foreign message that nobody asks for");
    for (const int tag : {30000, 0}) {  // 0: that of control messages
        MPI_Comm mine;
        MPI_Comm_dup(MPI_COMM_WORLD, &mine);
        {
            allfold::mpi::communicator comm(mine, allfold::mpi::borrow);
            const auto team = allfold::subset(comm, allfold::rank_list::strided(0, comm.size()));
            const std::vector<int> foreign(tag == 0 ? 1000 : 1);  // longer than a control message can be
            const auto send = [&] {
                MPI_Send(foreign.data(), static_cast<int>(foreign.size()), MPI_INT, 0, tag, mine);
            };
            if (comm.rank() == 1 && tag != 0) send();
            check_sum_of_ones(comm);
            MPI_Barrier(MPI_COMM_WORLD);
            if (comm.rank() == 1 && tag == 0) send();
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

TEST_CASE("a message of the program's on a borrowed communicator breaks no other one") {
    if (ranks_of_job() == 1) {
        SUCCEED("nobody to send it");
        return;
    }
    const watchdog watch("a foreign message on another communicator");
    using std::chrono::milliseconds;
    MPI_Comm mine;
    MPI_Comm_dup(MPI_COMM_WORLD, &mine);
    allfold::mpi::communicator other{MPI_COMM_WORLD};
    const outcome failed = outcome_of([&] {
        allfold::mpi::communicator comm(mine, allfold::mpi::borrow,
                                        {.notice = milliseconds(5), .patience = milliseconds(100)});
        const int foreign = 42;
        if (comm.rank() == 0) {
            MPI_Send(&foreign, 1, MPI_INT, 1, 0, mine);
            std::this_thread::sleep_for(milliseconds(150));  // the other ranks poll both communicators meanwhile
        }
        check_sum_of_ones(other);
        for (;;) allfold::barrier(comm);
    });
    check_failure(failed, errc::transport, {"from rank 0", "that is not allfold's"});
    check_sum_of_ones(other);
}

TEST_CASE("a message of more than 2^31 bytes arrives as it was") {
    if (ranks_of_job() != 2) {
        SUCCEED("on two ranks only, for want of memory");
        return;
    }
    constexpr std::size_t n = (std::size_t{1} << 31) + 12345;
    if (static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE)) < 14e9) {
        std::cout << "not run: a message of 2^31 bytes needs a machine with 14 GB\n";
        SUCCEED();
        return;
    }
    const watchdog watch("2^31 bytes", std::chrono::seconds(200));
    allfold::mpi::communicator comm{MPI_COMM_WORLD};
    const auto at = [](std::size_t i) { return static_cast<unsigned char>(i * 2654435761u >> 13); };
    std::vector<unsigned char> x(n);
    if (comm.rank() == 0)
        for (std::size_t i = 0; i < n; i += 997) x[i] = at(i);
    x[n - 1] = static_cast<unsigned char>(comm.rank() == 0 ? 77 : 0);
    allfold::broadcast(comm, x, allfold::window{std::size_t{1} << 33});
    std::size_t wrong = x[n - 1] == 77 ? 0 : 1;
    for (std::size_t i = 0; i + 1 < n; i += 997) wrong += x[i] == at(i) ? 0U : 1U;
    CHECK(wrong == 0);
}
