// SPDX-License-Identifier: BSL-1.0
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "allfold/collective/barrier.hpp"
#include "allfold/data/records.hpp"
#include "allfold/data/tensor_view.hpp"
#include "allfold/data/tensors.hpp"
#include "allfold/message.hpp"
#include "test/message/support/every_transport.hpp"
#include "test/support/catch.hpp"
#include "test/support/oracle.hpp"
#include "test/support/ranks.hpp"
#include "test/support/remote.hpp"

using namespace test;

namespace {

struct named {
    int number;
    char name;
};

}  // namespace

TEST_CASE("data: single objects, arrays, tensor views, and objects that own memory where it is shared") {
    on_all_transports(2, [](auto& comm) {
        using comm_type = std::remove_cvref_t<decltype(comm)>;
        const int other = 1 - comm.rank();
        double d = 0;
        exchange(comm, 1.5 + comm.rank(), to{other}, d, from{other});
        expect(d == 1.5 + other, "a double");
        std::array<named, 2> pairs{}, own{{{comm.rank(), 'a'}, {7, 'b'}}};
        exchange(comm, own, to{other}, pairs, from{other});
        expect(pairs[0].number == other && pairs[1].name == 'b', "records");
        std::vector<int> square(12, comm.rank()), into(12, -1);
        const allfold::tensor<int, 2> rows(square.data(), {3, 4}), places(into.data(), {3, 4});
        exchange(comm, rows, to{other}, places, from{other});
        expect(into == std::vector<int>(12, other), "a tensor");
        if constexpr (comm_type::shares_memory) {
            const std::string name = "the long name of rank " + std::to_string(comm.rank());
            std::string theirs;
            exchange(comm, name, to{other}, theirs, from{other});
            expect(theirs == "the long name of rank " + std::to_string(other), "a string");
            std::vector<std::string> words{"a", name}, copies(3);
            operation sent = send.start(comm, words, to{comm.rank()});
            expect(receive(comm, copies, from{any}).elements == 2, "words");
            sent.wait();
            expect(copies[1] == name && copies[2].empty(), "words");
        }
    });
    SUCCEED();
}

TEST_CASE("tensor views with gaps are sent and received, and nothing in the gaps is touched") {
    on_all_transports(2, [](auto& comm) {
        const int other = 1 - comm.rank();
        for (const std::size_t n : std::vector<std::size_t>{2, 50, 300}) {
            const auto width = static_cast<std::ptrdiff_t>(n + 1);
            const auto value = [&](int rank, std::size_t i, std::size_t j) {
                return rank + static_cast<int>(2 * (i * n + j));
            };
            std::vector<int> own(n * (n + 1), -1), into(own), back(own);
            for (std::size_t i = 0; i < n; ++i)
                for (std::size_t j = 0; j < n; ++j) own[i * (n + 1) + j] = value(comm.rank(), i, j);
            using view = allfold::tensor<int, 2>;
            const view rows(own.data(), {n, n}, {width, 1}), places(into.data(), {n, n}, {width, 1});
            const view turned(back.data(), {n, n}, {1, width});  // column-major
            const auto check = [&](const std::vector<int>& all, bool is_turned) {
                for (std::size_t i = 0; i < n; ++i) {
                    for (std::size_t j = 0; j < n; ++j)
                        expect(all[i * (n + 1) + j] == (is_turned ? value(other, j, i) : value(other, i, j)),
                               "element");
                    expect(all[i * (n + 1) + n] == -1, "gap");
                }
            };
            exchange(comm, rows, to{other}, places, from{other});
            check(into, false);
            operation sent = send.start(comm, rows, to{other}, mode::synchronous);
            message found = probe(comm, from{other});
            receive(found, turned);
            sent.wait();
            check(back, true);
            // A message shorter than the view fills its first elements, in row-major order.
            std::fill(into.begin(), into.end(), -1);
            const int few = 77;
            exchange(comm, few, to{other}, places, from{other});
            expect(into[0] == 77 && into[1] == -1, "the first one");
            persistent again = exchange.prepare(comm, rows, to{other}, from{other});  // in place
            again();
            check(own, false);
            again();
            expect(own[0] == value(comm.rank(), 0, 0), "there and back");
        }
    });
    SUCCEED();
}

TEST_CASE("nothing is received into elements that share memory, and the message stays") {
    on_all_transports(2, [](auto& comm) {
        const int other = 1 - comm.rank();
        std::vector<int> memory(6, comm.rank()), into(6);
        const allfold::tensor<int, 2> repeated(memory.data(), {2, 3}, {0, 1});
        send(comm, repeated, to{other});
        message found = probe(comm, from{other});
        const auto expect_refused = [](auto call) {
            expect_error(outcome_of(call), errc::bad_argument, {"the destination", "axis 0 of extent 2 has stride 0"});
        };
        expect_refused([&] { receive(found, repeated); });
        expect_refused([&] { receive(comm, repeated, from{other}); });
        expect_refused([&] { static_cast<void>(receive.start(comm, repeated, from{other})); });
        expect_refused([&] { exchange(comm, memory, to{other}, repeated, from{other}); });
        receive(found, into);
        expect(into == std::vector<int>(6, other), "not the message");
    });
    SUCCEED();
}

TEST_CASE("lists of tensors and rows of records are one message") {
    using allfold::records;
    using allfold::tensor;
    using allfold::tensors;
    const auto value_of = [](int rank, std::size_t i) {
        return static_cast<std::int16_t>(1000 * rank + static_cast<int>(i % 1000));
    };
    on_all_transports(2, [&](auto& comm) {
        const int other = 1 - comm.rank();
        for (const std::size_t n : std::vector<std::size_t>{1, 40, 5000}) {
            std::vector<float> m(n, static_cast<float>(comm.rank())), into(n + 1, -1);
            std::vector<std::int16_t> s(3 * n), places(3 * n + 3, -1);
            for (std::size_t i = 0; i < s.size(); ++i) s[i] = value_of(comm.rank(), i);
            const auto is_theirs = [&](const auto& first, const auto& second) {
                for (std::size_t i = 0; i < n; ++i) expect(first[i] == static_cast<float>(other), "first column");
                for (std::size_t i = 0; i < 3 * n; ++i) expect(second[i] == value_of(other, i), "second column");
            };
            // The first column is received in reverse; `turned` will receive the second one column by column.
            std::vector<std::int16_t> turned(3 * n);
            const records theirs(tensor<float, 1>(&into[n - 1], {n}, {-1}),
                                 tensor<std::int16_t, 2>(places.data(), {n, 3}));
            const records own(m, tensor<std::int16_t, 2>(s.data(), {n, 3}));
            expect(exchange(comm, own, to{other}, theirs, from{other}) == status{other, 0, n, false}, "rows");
            is_theirs(into, places);
            expect(into[n] == -1 && places[3 * n] == -1, "what is behind");
            operation sent = send.start(comm, own, to{other}, mode::synchronous);
            message found = probe(comm, from{other});
            expect(found.about().elements == n, "rows found");
            const std::array<std::ptrdiff_t, 2> by_columns{1, static_cast<std::ptrdiff_t>(n)};
            receive(found, records(tensor<float, 1>(into.data(), {n}),
                                   tensor<std::int16_t, 2>(turned.data(), {n, 3}, by_columns)));
            sent.wait();
            for (std::size_t i = 0; i < n; ++i) expect(turned[2 * n + i] == places[3 * i + 2], "turned");
            persistent again = exchange.prepare(comm, own, to{other}, from{other});  // in place
            again();
            is_theirs(m, s);
            again();
            expect(m[0] == static_cast<float>(comm.rank()), "there and back");

            std::vector<int> a(n, comm.rank()), b(2, 7), all(n + 2), c(1), d(n + 4, -1);
            sent = send.start(comm, tensors(a, b), to{other});
            expect(receive(comm, all, from{other}).elements == n + 2, "a list as a range");
            sent.wait();
            expect(all[0] == other && all[n - 1] == other && all[n] == 7 && all[n + 1] == 7, "its elements");
            expect(exchange(comm, all, to{other}, tensors(c, d), from{other}).elements == n + 2, "a range as a list");
            expect(c[0] == comm.rank() && d[n - 1] == 7 && d[n] == 7 && d[n + 1] == -1, "those that came");

            attach_buffer(comm, 20 * n + 100);
            std::fill(places.begin(), places.end(), std::int16_t{-1});
            send(comm, own, to{other}, mode::buffered);
            receive(comm, theirs, from{other});
            is_theirs(into, places);
            detach_buffer(comm);

            const std::vector<std::int16_t> before = places;
            sent = send.start(comm, own, to{other});
            const records narrow(into, tensor<std::int16_t, 2>(places.data(), {n + 1, 2}));
            expect_error(outcome_of([&] { receive(comm, narrow, from{other}); }), errc::mismatch,
                         {"rows of 8 bytes, but rank", "rows of 10"});
            sent.wait();
            expect(places == before, "untouched");
        }
        const std::span<int> null(static_cast<int*>(nullptr), 3);
        std::vector<int> two(2), three(3);
        expect_error(outcome_of([&] { send(comm, tensors(two, null), to{other}); }), errc::bad_argument,
                     {"null pointer with a non-zero length"});
        expect_error(outcome_of([&] { send(comm, records(null, three), to{other}); }), errc::bad_argument,
                     {"null pointer with a non-zero length"});
        std::vector<float> none;
        operation sent = send.start(comm, records(none, none), to{other}, mode::synchronous);
        message found = probe(comm, from{other});
        receive(found, records(none, none));
        sent.wait();
        std::vector<float> m(2), s(3);
        expect_error(outcome_of([&] { send(comm, records(m, s), to{other}); }), errc::bad_argument,
                     {"tensor 0 has 2 rows, but tensor 1 has 3"});
    });
    SUCCEED();
}

TEST_CASE("what has a serializer goes where memory is not shared") {
    on_ranks(
        2,
        [](auto& comm) {
            remote apart(comm);
            const int other = 1 - apart.rank();
            const std::string own = "rank " + std::to_string(apart.rank()) + " says ";
            for (const std::size_t length : std::vector<std::size_t>{0, 10, 100000}) {
                const std::vector<std::string> words{own, std::string(length, 'x'), ""};
                const auto is_theirs = [&](const std::vector<std::string>& all) {
                    return all[0] == "rank " + std::to_string(other) + " says " && all[1].size() == length &&
                           all[2].empty();
                };
                std::vector<std::string> into(4, "untouched");
                expect(exchange(apart, words, to{other}, into, from{other}).elements == 3, "how many");
                expect(is_theirs(into) && into[3] == "untouched", "words");
                operation sent = send.start(apart, words, to{other}, tag{2}, mode::synchronous);
                message found = probe(apart, from{any}, tag{any});
                expect(found.about() == status{other, 2, 3, false}, "what a probe tells");
                std::vector<std::string> exact(found.about().elements);
                receive(found, exact);
                expect(is_theirs(exact), "probed");
                sent.wait();
                sent = send.start(apart, words, to{apart.rank()});
                receive(apart, exact, from{apart.rank()});
                sent.wait();
                expect(exact == words, "to itself");
                sent = send.start(apart, words, to{other});
                std::string one = "untouched";
                expect_error(outcome_of([&] { receive(apart, one, from{other}); }), errc::truncated, {"room for 1"});
                sent.wait();
                expect(one == "untouched", "cut");
                sent = send.start(apart, words, to{other});
                std::vector<int> numbers(5);
                expect_error(outcome_of([&] { receive(apart, numbers, from{other}); }), errc::mismatch,
                             {"int", "string"});
                sent.wait();
                allfold::barrier(apart);
            }
            attach_buffer(apart, 1000);
            expect_error(outcome_of([&] { send(apart, own, to{other}, mode::buffered); }), errc::bad_argument,
                         {"objects"});
            detach_buffer(apart);
        },
        roomy);
    SUCCEED();
}
