// SPDX-License-Identifier: BSL-1.0
#include "allfold/collective/all_to_all.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "allfold/collective/sync.hpp"
#include "allfold/schedule/bruck.hpp"
#include "allfold/transport/hierarchy.hpp"
#include "test/collective/all_to_all_checks.hpp"
#include "test/support/algebras.hpp"
#include "test/support/catch.hpp"
#include "test/support/groups.hpp"
#include "test/support/hierarchies.hpp"
#include "test/support/ranks.hpp"
#include "test/support/remote.hpp"
#include "test/support/sanitized.hpp"

using namespace test;

TEMPLATE_TEST_CASE("all_to_all gives every rank a block of each rank", "", words, integers) {
    for_each_group([](int size, const allfold::thread_tuning& tuning) {
        const auto body = [&](auto& comm) {
            check_all_to_all_with_all_algorithms<TestType>(
                comm,
                std::string(TestType::name) + ", rank " + std::to_string(comm.rank()) + " of " + std::to_string(size));
        };
        on_ranks(size, body, tuning);
    });
    SUCCEED();
}

TEST_CASE("all_to_all works where ranks share no memory") {
    for (const int size : group_sizes)
        on_ranks(
            size,
            [&](auto& base) {
                remote comm(base);
                check_all_to_all_with_all_algorithms<integers>(comm, std::to_string(size) + " ranks, remote");
            },
            roomy);
    SUCCEED();
}

TEST_CASE("all_to_all gives every thread of every process a block of each") {
    on_hierarchies_of_few(
        [](auto& comm, const std::string& where) { check_all_to_all_with_all_algorithms<words>(comm, where); });
    SUCCEED();
}

TEST_CASE("all_to_all can be started and prepared") {
    on_ranks(3, [](auto& comm) {
        std::vector<int> in{10 * comm.rank(), 10 * comm.rank() + 1, 10 * comm.rank() + 2}, out(3);
        const std::vector expected{comm.rank(), 10 + comm.rank(), 20 + comm.rank()};
        auto started = allfold::all_to_all.start(comm, in, out);
        started.wait();
        expect(out == expected, "started");
        auto prepared = allfold::all_to_all.prepare(comm, in);
        prepared();
        expect(in == expected, "prepared, in place");
    });
    SUCCEED();
}

TEST_CASE("a block that is not as long as its receiver expects is refused with both figures, and not touched") {
    std::vector<std::vector<int>> outputs(2);
    const auto outcomes = outcomes_on_ranks(2, [&](auto& comm) {
        using allfold::partition;
        const std::vector<int> in(comm.rank() == 0 ? 5 : 2, 1);
        auto& out = outputs[static_cast<std::size_t>(comm.rank())];
        out.assign(comm.rank() == 0 ? 2 : 3, -1);  // rank 1 expects 2 elements from rank 0, which sends 4
        allfold::all_to_all(
            comm, in, out,
            allfold::input_blocks{comm.rank() == 0 ? partition::sizes({1, 4}) : partition::sizes({1, 1})},
            allfold::output_blocks{comm.rank() == 0 ? partition::sizes({1, 1}) : partition::sizes({2, 1})});
    });
    CHECK(outcomes[1].code == allfold::errc::mismatch);
    CHECK(outcomes[1].says("all_to_all: rank 1 expects 2 elements from rank 0, which sends 4"));
    CHECK(outputs[1][0] == -1);
}

TEST_CASE("sizes that are wrong are refused before anything is sent, and a lack of room on all ranks") {
    using allfold::all_to_all, allfold::partition;
    struct problem {
        std::vector<int> in, sizes, out = std::vector<int>(2, -1);
        partition came = partition::even(0, 1);
    };
    const auto refused = [](const char* words, allfold::errc code, auto run) {
        const auto outcomes = outcomes_on_ranks(3, [&](auto& comm) {
            problem all{std::vector<int>(6, comm.rank()), {2, 2, 2}};
            try {
                run(comm, all);
            } catch (...) {
                expect(all.out == std::vector<int>(2, -1), "the output has been touched");
                throw;
            }
        });
        CHECK(outcomes[1].code == code);
        CHECK(outcomes[1].says(words));
        for (const outcome& each : outcomes) {
            INFO(each.text);
            CHECK(each.code.has_value());  // none has failed because of what has been touched
        }
    };
    const char* const too_few = "all_to_all: rank 1: the sizes add up to 5 elements, but the input has 6";
    refused(too_few, allfold::errc::bad_partition, [](auto& comm, problem& all) {
        if (comm.rank() == 1) all.sizes[1] = 1;
        all_to_all.start(comm, all.in, all.sizes, all.out, all.came).wait();
    });
    refused(too_few, allfold::errc::bad_partition, [](auto& comm, problem& all) {
        auto later = all_to_all.prepare(comm, all.in, all.sizes, all.out, all.came);
        if (comm.rank() == 1) all.sizes[1] = 1;
        later.start();
        later.wait();
    });
    refused("all_to_all: rank 1: there are 2 sizes for 3 ranks", allfold::errc::bad_partition,
            [](auto& comm, problem& all) {
                if (comm.rank() == 1) all.sizes = {3, 3};
                all_to_all.start(comm, all.in, all.sizes, all.out, all.came).wait();
            });
    refused("all_to_all: rank 1: the output has room for 2 elements, but 6 arrive", allfold::errc::mismatch,
            [](auto& comm, problem& all) {
                std::vector<int> large(6);
                const std::span<int> out(comm.rank() == 1 ? all.out : large);
                auto later = all_to_all.start(comm, all.in, all.sizes, out, all.came);
                later.wait();
            });
}

namespace {

struct text_of_12_bytes {
    std::array<char, 12> characters;
    friend bool operator==(const text_of_12_bytes&, const text_of_12_bytes&) = default;
};
/// An exchange by sizes of blocks of up to `most` elements: all of them short, or only those from one rank long. In
/// one turn the ranks start it, in another half of them.
template <class T, class Comm, class Sample>
void check_short_blocks(Comm& comm, std::size_t most, int turn, const std::string& where, Sample sample) {
    const int P = comm.size(), self = comm.rank();
    const auto length = [&](int from, int to) {
        return (from == turn % P ? most : most / 2 + 1) - static_cast<std::size_t>((from * 3 + to + turn) % 2);
    };
    std::vector<std::size_t> sizes;
    std::vector<T> in, expected, out;
    for (int r = 0; r < P; ++r) {
        sizes.push_back(length(self, r));
        for (std::size_t i = 0; i < length(self, r); ++i) in.push_back(sample(self * 16 + r, i));
        for (std::size_t i = 0; i < length(r, self); ++i) expected.push_back(sample(r * 16 + self, i));
    }
    allfold::partition layout = allfold::partition::even(0, 1);
    if ((turn + self) % 3 == 0)
        allfold::all_to_all.start(comm, in, sizes, out, layout).wait();
    else
        layout = allfold::all_to_all(comm, in, sizes, out);
    expect_equal(out, expected, where);
    for (int r = 0; r < P; ++r) expect(layout.extent(r) == length(r, self), where + ": what has arrived");
}
template <class Comm>
void check_short_blocks(Comm& comm, const std::string& where) {
    for (int turn = 0; turn < 6; ++turn)
        for (const std::size_t bytes : {4U, 44U, 48U, 52U, 64U, 400U}) {
            const std::string here = where + ", " + std::to_string(bytes) + " bytes, turn " + std::to_string(turn);
            check_short_blocks<int>(comm, bytes / 4, turn, here,
                                    [](int pair, std::size_t i) { return pair * 1000 + static_cast<int>(i); });
            check_short_blocks<text_of_12_bytes>(comm, bytes / 12 + 1, turn, here, [](int pair, std::size_t i) {
                return text_of_12_bytes{{static_cast<char>(pair), static_cast<char>(i), 'x'}};
            });
        }
}

}  // namespace

namespace {

/// At least one rank throws this, and no rank returns as if nothing had happened.
void require_error_on_all(const std::vector<outcome>& outcomes, allfold::errc code, const char* words) {
    CHECK(std::ranges::any_of(outcomes, [&](const outcome& each) { return each.code == code && each.says(words); }));
    for (const outcome& each : outcomes) {
        INFO(each.text);
        CHECK(each.code.has_value());
    }
}

}  // namespace

TEST_CASE("blocks that are about as short as the message that says how long they are arrive whole") {
    for (const int size : {1, 2, 3, 5, 8}) {
        if (size > fewer_if_sanitized(8, 3)) break;
        const std::string where = std::to_string(size) + " ranks";
        on_ranks(size, [&](auto& comm) { check_short_blocks(comm, where); });
        on_ranks(
            size,
            [&](auto& base) {
                remote comm(base);
                check_short_blocks(comm, where + ", remote");
            },
            roomy);
    }
    for (const int processes : {2, 3})
        on_ranks(processes, [&](auto& across) {
            allfold::run(across, 2, [&](auto& comm) { check_short_blocks(comm, "threads of threads"); });
        });
    SUCCEED();
}

TEST_CASE("short blocks by sizes of different types, or in memory that is read as well, are refused like long ones") {
    for (const int length : {1, 100}) {
        const auto types = outcomes_on_ranks(2, [length](auto& comm) {
            const std::vector<int> sizes(2, length);
            if (comm.rank() == 0) {
                std::vector<int> in(sizes.size() * static_cast<std::size_t>(length)), out;
                allfold::all_to_all(comm, in, sizes, out);
            } else {
                std::vector<float> in(sizes.size() * static_cast<std::size_t>(length)), out;
                allfold::all_to_all(comm, in, sizes, out);
            }
        });
        require_error_on_all(types, allfold::errc::mismatch, "float");
        const auto overlapping = outcomes_on_ranks(2, [length](auto& comm) {
            const std::vector<int> sizes(2, length);
            std::vector<int> x(3 * static_cast<std::size_t>(length));
            const std::span<int> all(x);
            allfold::all_to_all(comm, all.first(sizes.size() * static_cast<std::size_t>(length)), sizes,
                                all.last(sizes.size() * static_cast<std::size_t>(length)));
        });
        require_error_on_all(overlapping, allfold::errc::overlap, "overlap");
    }
}

TEST_CASE("all_to_all refuses what it cannot cut") {
    const auto uneven = outcomes_on_ranks(3, [](auto& comm) {
        std::vector<int> x(7);
        allfold::all_to_all(comm, x);
    });
    CHECK(uneven[0].code == allfold::errc::bad_partition);
    CHECK(uneven[0].says("has 7 elements, which cannot be divided into 3 blocks of equal length"));
    for (const std::size_t window : {std::size_t{0}, std::size_t{16}}) {
        const auto longer = outcomes_on_ranks(2, [&](auto& comm) {
            std::vector<int> x(20), y(40, -1);
            try {
                allfold::all_to_all(comm, x, y, allfold::window{window});
            } catch (const allfold::error&) {
                expect(y == std::vector<int>(40, -1), "the output has been touched");
                throw;
            }
        });
        CHECK(longer[0].code == allfold::errc::mismatch);
        CHECK(longer[1].code == allfold::errc::mismatch);
        CHECK(longer[0].says("the output has 40 elements, but 20 are needed"));
    }
    const auto in_place = outcomes_on_ranks(2, [](auto& comm) {
        std::vector<int> x(3);
        allfold::all_to_all(comm, x, allfold::input_blocks{allfold::partition::sizes({1, 2})},
                            allfold::output_blocks{allfold::partition::sizes({2, 1})});
    });
    CHECK(in_place[0].code == allfold::errc::bad_partition);
    CHECK(in_place[0].says("in place, input_blocks{} and output_blocks{} must be equal"));
    const auto bruck = outcomes_on_ranks(2, [](auto& comm) {
        const auto blocks = allfold::partition::sizes({1, 2});
        std::vector<int> x(3), y(comm.rank() == 0 ? 2 : 4);
        const auto own = allfold::partition::even(y.size(), 2);
        allfold::all_to_all(comm, x, y, allfold::bruck(), allfold::input_blocks{blocks}, allfold::output_blocks{own});
    });
    CHECK(bruck[0].code == allfold::errc::bad_partition);
    CHECK(bruck[0].says("Bruck needs blocks of equal length"));
}

TEST_CASE("all_to_all refuses blocks of two kinds in one memory") {
    for (const std::size_t few : {std::size_t{4}, std::size_t{60000}}) {
        const auto outcomes = outcomes_on_ranks(2, [few](auto& comm) {
            const std::size_t many = few + few / 2;
            std::vector<int> all(2 * many);
            const std::span memory(all);
            using allfold::partition;
            const auto even = partition::sizes({few, few});
            const auto in = comm.rank() == 0 ? even : partition::sizes({many, few});
            const auto out = comm.rank() == 0 ? partition::sizes({few, many}) : even;
            allfold::all_to_all(comm, memory.first(in.total()), memory.first(out.total()), allfold::input_blocks{in},
                                allfold::output_blocks{out});
        });
        for (const auto& each : outcomes)
            CHECK((each.code == allfold::errc::overlap || each.code == allfold::errc::peer_failed));
        CHECK((outcomes[0].says("cut into different blocks") && outcomes[1].says("cut into different blocks")));
    }
}

TEST_CASE("an all_to_all by sizes that is waited for takes the modes of its begin and its end") {
    on_ranks(3, [](auto& comm) {
        const int r = comm.rank();
        const std::vector<int> in(static_cast<std::size_t>(3 * (r + 1)), r), sizes(3, r + 1);
        std::vector<int> out;
        const auto layout = allfold::all_to_all(comm, in, sizes, out, allfold::in_sync::all, allfold::out_sync::all);
        expect(layout == allfold::partition::sizes({1, 2, 3}) && out == std::vector{0, 1, 1, 2, 2, 2}, "by sizes");
    });
    SUCCEED();
}

TEST_CASE("the block of a rank for itself must have the length of its place, which is left as it is if not") {
    for (const std::size_t place : {1u, 5u})
        for (const int P : {1, 2}) {
            const auto outcomes = outcomes_on_ranks(P, [place](auto& comm) {
                const auto ranks = static_cast<std::size_t>(comm.size());
                std::vector<std::size_t> sizes(ranks, 1), places(ranks, 1);
                if (comm.rank() == 0) {
                    sizes[0] = 3;
                    places[0] = place;
                }
                const auto in = allfold::partition::sizes(sizes), out = allfold::partition::sizes(places);
                const std::vector<int> x(in.total(), 7);
                std::vector<int> y(out.total(), -1);
                outcome own = outcome_of(
                    [&] { allfold::all_to_all(comm, x, y, allfold::input_blocks{in}, allfold::output_blocks{out}); });
                if (comm.rank() == 0) expect(y[0] == -1, "written");
                if (!own.succeeded()) throw std::runtime_error(own.text);
            });
            CHECK(outcomes[0].says("rank 0: the block of this rank for itself has 3 elements in the input, but " +
                                   std::to_string(place) + " in the output"));
        }
}

namespace {

/// A view that could be resized, as matrices of other libraries can.
struct resizable_view : allfold::tensor<int, 1> {
    using tensor::tensor;
    void resize(std::size_t) { throw wrong("resized"); }
};

}  // namespace

TEST_CASE("by sizes, a view may have more room than it needs, and an output is not resized if it is the input") {
    on_ranks(3, [](auto& comm) {
        const int self = comm.rank();
        const std::vector<int> in(static_cast<std::size_t>(3 * (self + 1)), self), sizes(3, self + 1);
        for (const std::ptrdiff_t stride : {1, 2}) {
            std::vector<int> memory(30, -1), expected(memory);
            for (std::size_t i = 0; const int x : {0, 1, 1, 2, 2, 2}) {
                expected[i] = x;
                i += static_cast<std::size_t>(stride);
            }
            resizable_view out(memory.data(), {10}, {stride});
            const auto layout = allfold::all_to_all(comm, in, sizes, out);
            expect(layout == allfold::partition::sizes({1, 2, 3}) && memory == expected, "a view with room");
        }
    });
    const auto small = outcomes_on_ranks(2, [](auto& comm) {
        const std::vector<int> in(4, comm.rank()), sizes(2, 2);
        std::vector<int> memory(8);
        allfold::all_to_all(comm, in, sizes, allfold::tensor<int, 1>(memory.data(), {3}, {2}));
    });
    CHECK((small[0].says("the output has room for 3 elements, but 4 arrive") ||
           small[1].says("the output has room for 3 elements, but 4 arrive")));
    for (const int length : {1, 40}) {
        const auto same = outcomes_on_ranks(2, [length](auto& comm) {
            const std::vector<int> sizes = comm.rank() == 0 ? std::vector{length, length} : std::vector{0, length};
            std::vector<int> x(static_cast<std::size_t>(sizes[0] + sizes[1]), 7);
            const std::size_t before = x.size();
            const outcome own = outcome_of([&] { allfold::all_to_all(comm, x, sizes, x); });
            expect(x.size() == before, "resized");
            if (!own.succeeded()) throw std::runtime_error(own.text);
        });
        CHECK((same[0].says("the output is also the input") || same[1].says("the output is also the input")));
    }
}

TEST_CASE("by sizes, an output of elements that cannot be made from nothing has room already") {
    struct token {
        explicit token(int n) : number(n) {}
        int number;
    };
    for (const auto& outcome : outcomes_on_ranks(2, [](auto& comm) {
             const std::vector<token> in(2, token(comm.rank()));
             const std::vector<int> sizes{1, 1};
             std::vector<token> out(3, token(7)), none;
             allfold::all_to_all(comm, in, sizes, out);
             expect(out.size() == 3 && out[0].number == 0 && out[1].number == 1 && out[2].number == 7, "by sizes");
             allfold::all_to_all(comm, in, sizes, none);
         }))
        CHECK(outcome.says("the output has room for 0 elements, but 2 arrive"));
}
