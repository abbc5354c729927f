// SPDX-License-Identifier: BSL-1.0
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <deque>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "allfold/collective.hpp"
#include "allfold/collective/subset.hpp"
#include "allfold/data/tensor_view.hpp"
#include "allfold/message.hpp"
#include "allfold/transport/hierarchy.hpp"
#include "allfold/transport/self.hpp"
#include "test/message/programs.hpp"
#include "test/support/catch.hpp"
#include "test/support/oracle.hpp"
#include "test/support/ranks.hpp"
#include "test/support/remote.hpp"

using namespace test;
using allfold::any;
using allfold::attach_buffer;
using allfold::detach_buffer;
using allfold::errc;
using allfold::exchange;
using allfold::from;
using allfold::message;
using allfold::mode;
using allfold::none;
using allfold::operation;
using allfold::persistent;
using allfold::probe;
using allfold::receive;
using allfold::send;
using allfold::status;
using allfold::status_in;
using allfold::tag;
using allfold::to;
using allfold::try_probe;

namespace {

/// Runs it on threads that hold short messages, on those that lend all of them, and on ranks that share no memory.
template <class Fn>
void on_all_transports(int size, Fn fn) {
    on_ranks(size, [&](auto& comm) { fn(comm); });
    on_ranks(size, [&](auto& comm) { fn(comm); }, noticing);
    on_ranks(
        size,
        [&](auto& comm) {
            remote far(comm);
            fn(far);
        },
        roomy);
}

/// What an error of this rank says, and which one it was.
template <class Body>
outcome outcome_of(Body body) {
    try {
        body();
    } catch (...) {
        return outcome_of_exception();
    }
    return {};
}

struct named {
    int number;
    char name;
};

void expect_error(const outcome& o, errc code, std::initializer_list<const char*> parts) {
    expect(o.code == code, "another code: " + o.text);
    for (const char* part : parts) expect(o.says(part), "\"" + o.text + "\" does not say " + part);
}

}  // namespace

TEST_CASE("a message arrives, whatever its length, its mode, and who waits for whom") {
    on_all_transports(2, [](auto& comm) { check_every_mode(comm); });
    SUCCEED();
}

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

TEST_CASE("messages of one rank under one tag come in their order, whatever comes in between") {
    on_all_transports(3, [](auto& comm) {
        constexpr int rounds = 200;
        if (comm.rank() != 0) {
            std::vector<std::vector<int>> all;
            std::vector<operation> sent;
            for (int i = 0; i < rounds; ++i) {
                all.emplace_back(static_cast<std::size_t>(1 + i % 7 * 300), i);
                sent.push_back(
                    send.start(comm, all.back(), to{0}, tag{i % 2}, i % 5 == 0 ? mode::synchronous : mode()));
            }
            allfold::wait_all(sent);
        } else {
            std::vector<int> y(2000);
            std::array<std::array<int, 2>, 3> next{{{0, 1}, {0, 1}, {0, 1}}};
            const auto check = [&](const status& s) {
                int& expected = next[static_cast<std::size_t>(s.source)][static_cast<std::size_t>(s.tag)];
                expect(y[0] == expected && s.elements == static_cast<std::size_t>(1 + expected % 7 * 300), "order");
                expected += 2;
            };
            for (int i = 0; i < rounds / 2; ++i) check(receive(comm, y, from{2}, tag{1}));
            for (int i = 0; i < rounds / 2; ++i) check(receive(comm, y, from{any}, tag{0}));
            for (int i = 0; i < rounds; ++i) check(receive(comm, y, from{any}, tag{any}));
        }
        int total = 1;  // and a collective is none of it
        allfold::all_reduce(comm, total, allfold::sum());
        expect(total == 3, "sum");
    });
    SUCCEED();
}

TEST_CASE("a message goes to the receive that was started first, whichever of them are open") {
    on_all_transports(2, [](auto& comm) {
        const std::array<from, 3> sources{from{0}, from{any}, from{0}};
        const std::array<tag, 3> tags{tag{5}, tag{5}, tag{any}};
        std::array<int, 3> order{0, 1, 2};
        do {
            std::array<int, 3> y{-1, -1, -1};
            std::vector<operation> all;
            if (comm.rank() == 1)
                for (const int i : order) {
                    const auto k = static_cast<std::size_t>(i);
                    all.push_back(receive.start(comm, y[k], sources[k], tags[k]));
                }
            allfold::barrier(comm);
            if (comm.rank() == 0)
                for (int i = 0; i < 3; ++i) send(comm, i, to{1}, tag{5});
            wait_all(all);
            for (std::size_t i = 0; comm.rank() == 1 && i < 3; ++i)
                expect(y[static_cast<std::size_t>(order[i])] == static_cast<int>(i), "another order");
        } while (std::ranges::next_permutation(order).found);
    });
    SUCCEED();
}

TEST_CASE("what is too long, or of another type, is an error of its receive alone") {
    for (const std::size_t n : {std::size_t{20}, std::size_t{50000}})
        on_all_transports(2, [&](auto& comm) {
            std::vector<int> x(n, 7), y(n, -1);
            const std::span<int> shorter(y.data(), n / 2);
            if (comm.rank() == 0) {
                send(comm, x, to{1}, tag{5});
                send(comm, x, to{1}, tag{5}, mode::synchronous);
                send(comm, x, to{1}, tag{6});
            } else {
                const outcome cut = outcome_of([&] { receive(comm, shorter, from{0}, tag{5}); });
                expect_error(cut, errc::truncated, {"rank 1", "rank 0", "room for", "tag 5"});
                std::vector<float> z(n);
                const outcome other = outcome_of([&] { receive(comm, z, from{0}, tag{5}); });
                expect_error(other, errc::mismatch, {"rank 1", "float", "rank 0", "int"});
                expect(y == std::vector<int>(n, -1), "written");
                persistent again = receive.prepare(comm, y, from{0}, tag{6});
                again();
                expect(y == x, "the next one");
            }
            allfold::barrier(comm);
        });
    SUCCEED();
}

TEST_CASE("arguments are checked before anything is sent") {
    on_all_transports(2, [](auto& comm) {
        int x = 1;
        const std::span<int> null(static_cast<int*>(nullptr), 3);
        expect_error(outcome_of([&] { send(comm, x, to{2}); }), errc::bad_rank, {"send", "rank 2", "[0, 2)"});
        expect_error(outcome_of([&] { receive(comm, x, from{-1}); }), errc::bad_rank, {"receive", "-1"});
        expect_error(outcome_of([&] { send(comm, x, to{0}, tag{-1}); }), errc::bad_argument, {"negative tag"});
        expect_error(outcome_of([&] { send(comm, x, to{0}, tag{any}); }), errc::bad_argument, {"tag{any}"});
        expect_error(outcome_of([&] { send(comm, null, to{0}); }), errc::bad_argument, {"without memory"});
        expect_error(outcome_of([&] { receive(comm, null, from{any}); }), errc::bad_argument, {"without memory"});
        expect_error(outcome_of([&] { send(comm, x, to{1 - comm.rank()}, mode::buffered); }), errc::bad_argument,
                     {"mode::buffered", "4 bytes", "0 bytes"});
        // Nobody is a partner like any other.
        send(comm, x, to{none});
        expect(receive(comm, x, from{none}) == status{}, "from nobody");
        exchange(comm, x, to{none}, from{none}, mode::synchronous);
        expect(!probe(comm, from{none}) && x == 1, "of nobody");
        allfold::barrier(comm);
    });
    SUCCEED();
}

TEST_CASE("a ready send needs its receive") {
    on_all_transports(2, [](auto& comm) {
        int x = 5 + comm.rank(), y = 0;
        if (comm.rank() == 0) {
            allfold::barrier(comm);
            send.start(comm, x, to{1}, tag{1}, mode::ready).wait();
            const outcome o = outcome_of([&] { send(comm, x, to{1}, tag{2}, mode::ready); });
            expect_error(o, errc::bad_argument, {"rank 0", "rank 1", "tag 2", "ready"});
            send(comm, x, to{1}, tag{3});
        } else {
            operation early = receive.start(comm, y, from{0}, tag{1});
            allfold::barrier(comm);
            early.wait();
            expect(y == 5, "ready");
            receive(comm, y, from{0}, tag{3});
        }
    });
    SUCCEED();
}

TEST_CASE("a probe hands out a message that nobody else gets") {
    on_all_transports(2, [](auto& comm) {
        if (comm.rank() == 0) {
            std::deque<std::vector<int>> all;
            std::vector<operation> sent;
            for (int i = 1; i <= 6; ++i) {
                all.emplace_back(static_cast<std::size_t>(i * 3000), i);
                sent.push_back(send.start(comm, all.back(), to{1}, tag{i % 2}));
            }
            wait_all(sent);
        } else {
            std::vector<int> y(20000);
            message first = probe(comm, from{any}, tag{1});
            expect(first.about() == status{0, 1, 3000, false}, "what a probe tells");
            expect(receive(comm, y, from{0}, tag{1}).elements == 9000, "the one after it");
            {
                const message unread = probe(comm, from{0}, tag{any});
            }  // is there again
            message second;
            while (!second)
                if (auto found = try_probe(comm, from{any}, tag{0})) second = std::move(*found);
            expect(second.about().elements == 6000, "put back at its old place");
            expect(!try_probe(comm, from{any}, tag{9}), "nothing to be found");
            status s;
            std::vector<int> exact(first.about().elements);
            s = receive(first, exact);
            expect(s.elements == 3000 && exact[0] == 1 && exact.back() == 1 && !first, "received late");
            operation last = receive.start(second, y);
            for (const int i : {4, 5, 6}) {
                const status each = receive(comm, std::span<int>(exact = std::vector<int>(18000)), from{0}, tag{any});
                expect(each == status{0, i % 2, static_cast<std::size_t>(i * 3000), false}, "the others");
            }
            last.wait();
            expect(y[5999] == 2, "the second one");
            expect_error(outcome_of([&] { receive(first, y); }), errc::bad_argument, {"already"});
        }
        allfold::barrier(comm);
    });
    SUCCEED();
}

TEST_CASE("a receive is cancelled or completed, never both") {
    on_all_transports(2, [](auto& comm) {
        for (int i = 0; i < 50; ++i) {
            int x = i, y = -1, z = -1;
            if (comm.rank() == 0) {
                send(comm, x, to{1}, tag{i});
            } else {
                status first;
                operation a = receive.start(comm, y, from{0}, tag{i}, status_in{first});
                operation b = receive.start(comm, z, from{any}, tag{i});
                const bool cancelled = a.cancel();
                a.wait();
                expect(first.cancelled == cancelled && !a.cancel(), "cancelled");
                if (cancelled) {
                    b.wait();
                    expect(y == -1 && z == i, "both");
                } else {
                    expect(y == i && b.cancel() && z == -1, "neither");
                }
            }
        }
        int sum = 1;
        operation collective = allfold::all_reduce.start(comm, sum, allfold::sum());
        expect(!collective.cancel(), "a collective");
        collective.wait();
    });
    SUCCEED();
}

TEST_CASE("a send is cancelled as long as nothing of it has left its rank, or completed") {
    for (const std::size_t n : {std::size_t{1}, std::size_t{100000}}) {
        std::atomic<int> left{-1};
        on_ranks(2, [&](auto& comm) {
            std::vector<int> x(n, 7), y(n);
            if (comm.rank() == 0) {
                constexpr int many = 300;
                std::vector<operation> sent;
                std::vector<status> told(many);
                for (std::size_t i = 0; i < many; ++i)
                    sent.push_back(send.start(comm, x, to{1}, tag{3}, status_in{told[i]}));
                int cancelled = 0;  // the other rank takes nothing in, and there is room for fewer
                for (std::size_t i = many; i-- > 0 && sent[i].cancel();) {
                    ++cancelled;
                    expect(sent[i].done() && told[i].cancelled && !sent[i].cancel(), "cancelled");
                }
                expect(cancelled > 0 && cancelled < many, "some");
                left = many - cancelled;
                wait_all(sent);
                expect(!told[0].cancelled, "completed");
                send(comm, x, to{1}, tag{4});
                receive(comm, y, from{1});
                auto& office = allfold::detail::office_of(comm);
                expect(office.may_post_at_once(1, 64 * (office.most_held - 1)), "all room is free again");
            } else {
                while (left < 0) std::this_thread::yield();
                for (int i = 0; i < left; ++i) receive(comm, y, from{0}, tag{3});
                receive(comm, y, from{0}, tag{4});
                send(comm, x, to{0});
                expect(!try_probe(comm, from{any}, tag{any}) && y == x, "nothing else came");
            }
        });
    }
    SUCCEED();
}

TEST_CASE("what is released completes in the background; an operation that is none is done") {
    on_all_transports(2, [](auto& comm) {
        const int other = 1 - comm.rank();
        std::vector<int> x(100000, comm.rank()), y(100000, -1);
        receive.start(comm, y, from{other}, tag{1}).release();
        send.start(comm, x, to{other}, tag{1}, mode::synchronous).release();
        allfold::barrier(comm);
        int word = 0;
        exchange(comm, 5, to{other}, word, from{other}, mode::synchronous);  // comes after it
        while (y.back() < 0) static_cast<void>(try_probe(comm, from{other}, tag{9}));
        expect(y == std::vector<int>(y.size(), other), "received");
        allfold::barrier(comm);
        operation over = send.start(comm, word, to{other});
        receive(comm, word, from{other});
        over.wait();
        over.release();
        over.release();
        operation nothing;
        nothing.wait();
        nothing.release();
        expect(nothing.done() && !nothing.cancel() && wait_any(std::span(&nothing, 1)) == 1, "nothing");
        operation collective = allfold::all_reduce.start(comm, y, allfold::sum());
        if (!collective.done()) {
            const outcome refused = outcome_of([&] { collective.release(); });
            expect(refused.succeeded() || refused.code == errc::bad_argument, "a collective");
        }
        collective.wait();
    });
    SUCCEED();
}

TEST_CASE("abort ends a communicator for all its ranks, with a reason") {
    const auto outcomes = outcomes_on_ranks(3, [](auto& comm) {
        int x = 0;
        if (comm.rank() == 1) allfold::abort(comm, "no more paper");
        receive(comm, x, from{2 - comm.rank()});
    });
    for (const outcome& each : outcomes) {
        CHECK(each.code == errc::peer_failed);
        CHECK(each.says("rank 1"));
        CHECK(each.says("no more paper"));
    }
}

TEST_CASE("prepared messages are started again and again; any, some and all are waited for") {
    on_all_transports(3, [](auto& comm) {
        const int left = (comm.rank() + 2) % 3, right = (comm.rank() + 1) % 3;
        std::vector<int> x(3000), y(3000), in_place(2);
        persistent both = exchange.prepare(comm, x, to{right}, y, from{left}, tag{2});
        persistent alone = exchange.prepare(comm, in_place, to{left}, from{right});
        std::vector<persistent> halves;
        std::vector<int> out(5), in(5);
        halves.push_back(send.prepare(comm, out, to{right}, mode::synchronous));
        halves.push_back(receive.prepare(comm, in, from{left}));
        for (int i = 0; i < 20; ++i) {
            std::fill(x.begin(), x.end(), i + comm.rank());
            std::fill(in_place.begin(), in_place.end(), comm.rank());
            std::fill(out.begin(), out.end(), i + comm.rank());
            both.start();
            expect_error(outcome_of([&] { both.start(); }), errc::bad_argument, {"exchange", "in flight"});
            alone();
            expect(in_place[1] == right, "in place");
            start_all(halves);
            std::size_t ended = 0;
            if (i % 3 == 0)
                for (; wait_any(halves) < 2; ++ended) {
                }
            else if (i % 3 == 1)
                for (std::vector<std::size_t> some; !(some = wait_some(halves)).empty();) ended += some.size();
            else
                for (ended = 2; !test_all(halves);) std::this_thread::yield();
            expect(ended == 2 && in[4] == i + left, "halves");
            both.wait();
            expect(y[2999] == i + left, "both");
        }
    });
    SUCCEED();
}

TEST_CASE("prepared in every mode, and tested for until they are done") {
    on_all_transports(2, [](auto& comm) {
        const int other = 1 - comm.rank();
        std::vector<int> x(100), y(100);
        attach_buffer(comm, 4000);
        std::vector<persistent> sends, receives;
        for (const mode how : {mode::standard, mode::buffered, mode::synchronous, mode::ready}) {
            sends.push_back(send.prepare(comm, x, to{other}, tag{static_cast<int>(how)}, how));
            receives.push_back(receive.prepare(comm, y, from{other}, tag{static_cast<int>(how)}));
        }
        for (int i = 0; i < 40; ++i) {
            const auto k = static_cast<std::size_t>(i % 4);
            std::fill(x.begin(), x.end(), comm.rank() + i);
            receives[k].start();
            allfold::barrier(comm);  // for the ready one
            sends[k].start();
            std::array<persistent, 2> both{std::move(receives[k]), std::move(sends[k])};
            std::size_t ended = 0;
            while (ended < 2) {
                if (i % 8 < 4) {
                    ended += test_some(both).size();
                } else if (const auto one = test_any(both)) {
                    expect(*one < 2, "one of them");
                    ++ended;
                }
                std::this_thread::yield();
            }
            expect(test_some(both).empty() && test_any(both) == std::size_t{2}, "each once");
            receives[k] = std::move(both[0]);
            sends[k] = std::move(both[1]);
            expect(y == std::vector<int>(100, other + i), "data");
        }
        detach_buffer(comm);
        std::vector<persistent> none(2);
        expect_error(outcome_of([&] { none[0].start(); }), errc::bad_argument, {"empty"});
    });
    SUCCEED();
}

// Otherwise to start one takes twice as long.
static_assert(sizeof(allfold::detail::message_task<allfold::thread_communicator>) <=
              allfold::detail::spare_memory::block_bytes);

TEST_CASE("thousands of messages that nobody expects keep nobody from going on, and little memory") {
    on_all_transports(3, [](auto& comm) {
        constexpr int many = 4000;
        if (comm.rank() == 0) {
            std::vector<int> x(16);
            std::vector<operation> sent;
            for (int i = 0; i < many; ++i) sent.push_back(send.start(comm, x, to{1}, tag{1}));
            int last = 42;
            sent.push_back(send.start(comm, last, to{1}, tag{2}));
            allfold::barrier(comm);
            wait_all(sent);
        } else if (comm.rank() == 1) {
            int last = 0;
            std::array<int, 16> y{};
            allfold::barrier(comm);  // while the others' messages lie somewhere
            receive(comm, last, from{0}, tag{2});
            expect(last == 42, "the last one first");
            // Of those that were held no more than agreed have been copied.
            std::size_t copied = 0;
            const auto& office = allfold::detail::office_of(comm);
            office.for_each_held([&](const auto& held) { copied += held.data.empty() ? 0 : 64 + held.data.size(); });
            expect(copied <= std::size_t{64} * allfold::detail::post_office::most_held, "held too much");
            for (int i = 0; i < many; ++i) receive(comm, y, from{any}, tag{1});
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
            allfold::barrier(comm);  // so that all come before a receive
            for (int i = many; i-- > 0;) all.push_back(receive.start(comm, at(y, i), from{0}, tag{i}));
        }
        wait_all(all);
        // The other way round: receives first.
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

TEST_CASE("a buffered send ends at once, up to what is attached") {
    on_all_transports(2, [](auto& comm) {
        std::vector<int> x(100000, 3), y(100000);
        const std::size_t bytes = x.size() * sizeof(int);
        if (comm.rank() == 0) {
            attach_buffer(comm, 2 * bytes);
            send(comm, x, to{1}, mode::buffered);
            expect(send.start(comm, x, to{1}, mode::buffered).done(), "waits");
            std::fill(x.begin(), x.end(), 9);
            const outcome full = outcome_of([&] { send(comm, x, to{1}, mode::buffered); });
            expect_error(full, errc::bad_argument, {"rank 0", "rank 1", "mode::buffered", "0 are free"});
            expect_error(outcome_of([&] { attach_buffer(comm, 1); }), errc::bad_argument,
                         {"attached a buffer already"});
            allfold::barrier(comm);
            expect(detach_buffer(comm) == 2 * bytes, "detached");
        } else {
            allfold::barrier(comm);
            for (int i = 0; i < 2; ++i) {
                receive(comm, y, from{0});
                expect(y == std::vector<int>(y.size(), 3), "what it was when it was sent");
            }
        }
    });
    SUCCEED();
}

TEST_CASE("nobody waits for who has returned, or failed") {
    for (const auto& tuning : {allfold::thread_tuning{}, noticing}) {
        // The one that it names, and all that might be meant: each has left a message before.
        const auto named = outcomes_on_ranks(
            3,
            [](auto& comm) {
                int x = 1;
                if (comm.rank() != 0) return send(comm, x, to{0});
                receive(comm, x, from{2});
                receive(comm, x, from{2});
            },
            tuning);
        REQUIRE(named[0].code == errc::peer_failed);
        CHECK(named[0].says("rank 2"));
        const auto whoever = outcomes_on_ranks(
            4,
            [](auto& comm) {
                std::vector<int> x(50000);
                if (comm.rank() != 0) return send(comm, x, to{0});
                for (int i = 0; i < 4; ++i) receive(comm, x, from{any});
            },
            tuning);
        REQUIRE(whoever[0].code == errc::peer_failed);
        CHECK(whoever[0].says("any rank"));
        const auto unread = outcomes_on_ranks(
            2,
            [](auto& comm) {
                std::vector<int> x(500000);
                if (comm.rank() == 0) send(comm, x, to{1}, mode::synchronous);
            },
            tuning);
        CHECK(unread[0].code == errc::peer_failed);
        const auto thrown = outcomes_on_ranks(
            3,
            [](auto& comm) {
                int x = 1;
                if (comm.rank() == 2) throw std::runtime_error("burnt");
                receive(comm, x, from{any});
            },
            tuning);
        CHECK(thrown[0].says("burnt"));
        CHECK(thrown[1].says("burnt"));
        using namespace std::chrono_literals;
        const auto late = outcomes_on_ranks(
            2,
            [](auto& comm) {
                int x = 1;
                if (comm.rank() == 0)
                    receive(comm, x, from{1}, allfold::deadline{10ms});
                else
                    receive(comm, x, from{0}, tag{3});
            },
            tuning);
        CHECK(late[0].code == errc::timeout);
        CHECK(!late[1].succeeded());
    }
    allfold::self alone;
    int x = 3, y = 0;
    operation own = send.start(alone, x, to{0}, mode::synchronous);
    receive(alone, y, from{any});
    own.wait();
    CHECK(y == 3);
    CHECK_THROWS_AS(receive(alone, y, from{any}), allfold::error);
}

TEST_CASE("a halo exchange in two dimensions, with nobody at the borders") {
    on_all_transports(6, [](auto& comm) {
        constexpr int width = 3, height = 2;
        const int column = comm.rank() % width, row = comm.rank() / width;
        const auto at = [&](int c, int r) { return c < 0 || c >= width || r < 0 || r >= height ? -1 : r * width + c; };
        const std::array<int, 4> around{at(column - 1, row), at(column + 1, row), at(column, row - 1),
                                        at(column, row + 1)};
        std::array<std::vector<int>, 4> own, halo;
        for (int step = 0; step < 10; ++step) {
            std::vector<operation> all;
            for (std::size_t side = 0; side < 4; ++side) {
                const int peer = around[side];
                own[side].assign(700, comm.rank() * 10 + step);
                halo[side].assign(700, -1);
                const auto opposite = static_cast<int>(side ^ 1u);
                all.push_back(receive.start(comm, halo[side], peer < 0 ? from{none} : from{peer}, tag{opposite}));
                all.push_back(send.start(comm, own[side], peer < 0 ? to{none} : to{peer}, tag{static_cast<int>(side)}));
            }
            wait_all(all);
            for (std::size_t side = 0; side < 4; ++side)
                expect(halo[side] == std::vector<int>(700, around[side] < 0 ? -1 : around[side] * 10 + step), "halo");
        }
    });
    SUCCEED();
}

TEST_CASE("any threads of any processes send messages to each other, as a team") {
    on_ranks(2, [](auto& across) {
        allfold::run(across, 2, [](auto& comm) {
            const auto all = allfold::subset(comm, allfold::rank_list({0, 1, 2, 3}));
            allfold::relayed_communicator& mine = *all;
            const int right = (mine.rank() + 1) % 4, left = (mine.rank() + 3) % 4;
            for (const std::size_t n : std::vector<std::size_t>{1, 1000, 100000}) {
                const std::vector<int> x(n, mine.rank());
                std::vector<int> y(n, -1);
                exchange(mine, x, to{right}, y, from{any}, mode::synchronous);
                expect(y == std::vector<int>(n, left), "from the left");
                allfold::barrier(mine);
            }
        });
    });
    SUCCEED();
}

TEST_CASE("random programs of messages and collectives receive what a sequential matching says") {
    const unsigned first = std::random_device{}();
    for (unsigned seed = first; seed < first + 12; ++seed) {
        INFO("seed " << seed);
        std::mt19937 random(seed);
        const int size = 1 + static_cast<int>(random() % 5);
        const std::vector<step_of_program> program = random_messages(random, size, 150);
        CAPTURE(size);
        REQUIRE_NOTHROW(on_all_transports(size, [&](auto& comm) { run_program(comm, program, seed); }));
    }
}

TEST_CASE("collectives get no lane of messages, however many there were before") {
    using allfold::detail::first_of_lanes;
    static_assert(first_of_lanes(0x7ffffff0, 14) == 0x7ffffff0 && first_of_lanes(0x7ffffff0, 15) == 0x80000000);
    static_assert(first_of_lanes(0x7fffffff, 1) == 0x80000000 && first_of_lanes(0x80000000, 9) == 0x80000000);
    on_ranks(3, [](auto& comm) {
        allfold::signature many;
        many.what = "many";
        comm.open(many, allfold::detail::envelopes_lane - 20);
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
