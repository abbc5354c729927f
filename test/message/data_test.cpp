// SPDX-License-Identifier: BSL-1.0
#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <type_traits>
#include <vector>

#include "allfold/collective/barrier.hpp"
#include "allfold/data/tensor_view.hpp"
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
            const view turned(back.data(), {n, n}, {1, width});  // columns
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
            // Fewer elements than there is room for: the first ones, in row-major order.
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
