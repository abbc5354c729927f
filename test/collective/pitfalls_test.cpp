// SPDX-License-Identifier: BSL-1.0
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/algebra/check_laws.hpp"
#include "allfold/algebra/mean.hpp"
#include "allfold/collective.hpp"
#include "allfold/data/partition.hpp"
#include "allfold/data/records.hpp"
#include "allfold/data/tensors.hpp"
#include "allfold/schedule/detail/doubling.hpp"
#include "allfold/schedule/ring.hpp"
#include "allfold/transport/self.hpp"
#include "test/collective/distant_checks.hpp"
#include "test/support/algebras.hpp"
#include "test/support/algorithms.hpp"
#include "test/support/catch.hpp"
#include "test/support/oracle.hpp"
#include "test/support/ranks.hpp"
#include "test/support/remote.hpp"
#include "test/support/wrapping.hpp"

/// @file
/// Bugs that implementations of collectives have had, according to their issue trackers. Each one has a numbered test
/// here, over shared memory and with messages. Pitfall 25, a schedule that fails only with many ranks, is tested in
/// schedule/circulant_test.cpp.

using namespace test;
using allfold::partition;
using allfold::sum;

namespace {

/// Runs the check on ranks that share memory and on ranks that do not.
template <class Check>
void on_both(std::initializer_list<int> sizes, Check check) {
    for (const int size : sizes) {
        on_ranks(size, [&](auto& comm) { check(comm, std::to_string(size) + " ranks"); }, impatient);
        on_ranks(
            size,
            [&](auto& base) {
                remote comm(base);
                check(comm, std::to_string(size) + " remote ranks");
            },
            roomy);
    }
    SUCCEED();
}

template <class T>
std::vector<T> vector_of(std::span<const T> values) {
    return {values.begin(), values.end()};
}

/// Elements surrounded by others that must stay untouched.
struct fenced {
    explicit fenced(std::size_t n) : memory(n + 4, -7) {}
    [[nodiscard]] std::span<int> inside() { return std::span(memory).subspan(2, memory.size() - 4); }
    [[nodiscard]] bool is_intact() const {
        return memory[0] == -7 && memory[1] == -7 && memory.end()[-1] == -7 && memory.end()[-2] == -7;
    }
    std::vector<int> memory;
};

}  // namespace

TEST_CASE("pitfall 1: reduce_scatter keeps the order of an operator that does not commute") {
    on_both({2, 3, 5, 8}, [](auto& comm, const std::string& where) {
        const problem<words> p(comm.size(), static_cast<std::size_t>(3 * comm.size() + 1));
        const auto blocks = partition::even(p.size(), comm.size());
        for_each_algorithm<1>(allfold::reduce_scatter, comm.size(), [&](const char* name, auto... how) {
            const auto in = vector_of(p.operand(comm.rank()));
            std::vector<std::string> out(blocks.extent(comm.rank()));
            allfold::reduce_scatter(comm, in, out, p.op, how...);
            expect_same<words>(out, p.total().subspan(blocks.offset(comm.rank()), out.size()), where + name);
        });
    });
}

TEST_CASE("pitfall 2: all_reduce folds from the first rank to the last at every size") {
    on_both({3, 4, 7, 8}, [](auto& comm, const std::string& where) {
        const problem<words> p(comm.size(), 3);
        for_each_algorithm<1>(allfold::all_reduce, comm.size(), [&](const char* name, auto... how) {
            auto x = vector_of(p.operand(comm.rank()));
            allfold::all_reduce(comm, x, p.op, how...);
            expect_same<words>(x, p.total(), where + name);
        });
    });
}

TEST_CASE("pitfall 3: all_reduce gives every rank the same bits") {
    on_both({3, 4, 7, 8}, [](auto& comm, const std::string& where) {
        for_each_algorithm(allfold::all_reduce, comm.size(), [&](const char* name, auto... how) {
            const problem<floats> p(comm.size(), 100);
            std::vector<float> x = vector_of(p.operand(comm.rank())),
                               all(x.size() * static_cast<std::size_t>(comm.size()));
            allfold::all_reduce(comm, x, allfold::mean(), how...);
            allfold::all_gather(comm, x, all);
            for (std::size_t i = 0; i < all.size(); ++i)
                expect(std::bit_cast<std::uint32_t>(all[i]) == std::bit_cast<std::uint32_t>(x[i % x.size()]),
                       where + ": other bits: " + name);
        });
    });
}

TEST_CASE("pitfall 4: reduce to any root keeps the order of an operator that does not commute") {
    on_both({1, 2, 3, 5}, [](auto& comm, const std::string& where) {
        const problem<matrices> p(comm.size(), 70);
        for (int root = 0; root < comm.size(); ++root)
            for_each_algorithm<1>(allfold::reduce, comm.size(), [&](const char* name, auto... how) {
                const auto in = vector_of(p.operand(comm.rank()));
                std::vector<matrix> out(comm.rank() == root ? in.size() : 0);
                allfold::reduce(comm, in, out, p.op, allfold::root{root}, how...);
                if (comm.rank() == root) expect_same<matrices>(out, p.total(), where + ", " + name);
            });
    });
}

TEST_CASE("pitfall 5: in place every input counts, and that of the root once") {
    on_both({1, 2, 3, 5}, [](auto& comm, const std::string& where) {
        const problem<matrices> p(comm.size(), 70);
        for (int root = 0; root < comm.size(); ++root)
            for_each_algorithm<1>(allfold::reduce, comm.size(), [&](const char* name, auto... how) {
                auto x = vector_of(p.operand(comm.rank()));
                auto op = allfold::reduce.start(comm, x, p.op, allfold::root{root}, how...);
                op.wait();
                if (comm.rank() == root) expect_same<matrices>(x, p.total(), where + ", " + name);
            });
    });
}

TEST_CASE("pitfall 6: in place is where the operand lies, given once or twice") {
    on_both({1, 2, 3, 5}, [](auto& comm, const std::string& where) {
        const int size = comm.size(), last = size - 1;
        for (const std::size_t n : {7U, 20000U}) {
            fenced memory(n);
            const std::span<int> x = memory.inside();
            std::ranges::fill(x, 1);
            const auto check = [&](int wanted, const char* name) {
                expect_equal(x, std::vector<int>(n, wanted), where + ", " + name);
                expect(memory.is_intact(), where + ": beyond, " + name);
                std::ranges::fill(x, 1);
            };
            for_each_algorithm(allfold::all_reduce, size, [&](const char* name, auto... how) {
                allfold::all_reduce(comm, x, x, sum(), how...);
                check(size, name);
            });
            for_each_algorithm(allfold::exclusive_scan, size, [&](const char* name, auto... how) {
                allfold::exclusive_scan(comm, x, x, sum(), how...);
                check(comm.rank(), name);
            });
            std::ranges::fill(x, comm.rank() + 1);
            allfold::broadcast(comm, x, x, allfold::root{last});
            check(size, "broadcast");
            allfold::reduce(comm, x, x, sum(), allfold::root{last});
            if (comm.rank() == last) check(size, "reduce");
        }
        fenced all(3 * static_cast<std::size_t>(size));
        const auto own = all.inside().subspan(3 * static_cast<std::size_t>(comm.rank()), 3);
        std::ranges::fill(own, comm.rank());
        allfold::all_gather(comm, own, all.inside());
        for (std::size_t i = 0; i < all.inside().size(); ++i)
            expect(all.inside()[i] == static_cast<int>(i / 3), where + ", all_gather");
        expect(all.is_intact(), where + ": beyond, all_gather");
    });
}

TEST_CASE("pitfall 7: no collective uses its input as scratch") {
    on_both({2, 3, 8}, [](auto& comm, const std::string& where) {
        const problem<integers> p(comm.size(), 480);
        const auto before = vector_of(p.operand(comm.rank()));
        auto in = before, out = before;
        const auto is_kept = [&](const char* name) { expect(in == before, where + ": the input of " + name); };
        const std::size_t extent = in.size() / static_cast<std::size_t>(comm.size());
        for_each_algorithm(allfold::all_reduce, comm.size(), [&](const char* name, auto... how) {
            allfold::all_reduce(comm, in, out, sum(), how...);
            is_kept(name);
        });
        for_each_algorithm(allfold::reduce, comm.size(), [&](const char* name, auto... how) {
            allfold::reduce(comm, in, out, sum(), allfold::root{1}, how...);
            is_kept(name);
        });
        for_each_algorithm(allfold::reduce_scatter, comm.size(), [&](const char* name, auto... how) {
            allfold::reduce_scatter(comm, in, std::span(out).first(extent), sum(), how...);
            is_kept(name);
        });
        for_each_algorithm(allfold::inclusive_scan, comm.size(), [&](const char* name, auto... how) {
            allfold::inclusive_scan(comm, in, out, sum(), how...);
            is_kept(name);
        });
        for_each_algorithm(allfold::all_to_all, comm.size(), [&](const char* name, auto... how) {
            allfold::all_to_all(comm, in, out, how...);
            is_kept(name);
        });
    });
}

namespace {

/// Three elements for each even rank, and none for the others.
partition some_empty(int size) {
    std::vector<std::size_t> extents;
    for (int r = 0; r < size; ++r) extents.push_back(r % 2 == 1 ? 0 : 3);
    return partition::sizes(extents);
}

}  // namespace

TEST_CASE("pitfall 8: nothing is written beyond the own block") {
    on_both({1, 2, 5}, [](auto& comm, const std::string& where) {
        const auto blocks = some_empty(comm.size());
        const std::size_t extent = blocks.extent(comm.rank());
        fenced x(blocks.total()), shard(extent);
        std::ranges::fill(x.inside(), 1);
        allfold::reduce_scatter(comm, x.inside(), shard.inside(), sum(), blocks);
        allfold::reduce_scatter(comm, x.inside(), sum(), blocks);
        const auto own = x.inside().subspan(blocks.offset(comm.rank()), extent);
        expect_equal(own, std::vector<int>(extent, comm.size()), where + ": in place");
        expect_equal(shard.inside(), own, where + ": out of place");
        expect(x.is_intact() && shard.is_intact(), where + ": beyond");
    });
}

TEST_CASE("pitfall 9: blocks lie where displacements say, also that of a rank alone") {
    on_both({1, 2, 5}, [](auto& comm, const std::string& where) {
        const int rank = comm.rank(), size = comm.size();
        std::vector<std::size_t> first;
        for (int r = 0; r < size; ++r) first.push_back(static_cast<std::size_t>(5 * (size - r)));
        const allfold::displacements displaced(first);
        const auto blocks = some_empty(size), threes = partition::even(3 * static_cast<std::size_t>(size), size);
        const std::vector<int> own(blocks.extent(rank), rank), in(threes.total(), rank);
        fenced room(static_cast<std::size_t>(5 * size + 8));
        constexpr int any = -1;
        const auto check = [&](bool odd_ones, const char* name) {
            for (std::size_t i = 0; i < room.inside().size(); ++i) {
                const int block = size - static_cast<int>(i / 5);
                const bool is_in_block = i >= 5 && i % 5 < 3 && block >= 0 && block < size;
                const bool is_written = is_in_block && (odd_ones || block % 2 == 0);
                expect(room.inside()[i] == (is_written ? block : -7), where + ", " + name);
            }
            expect(room.is_intact(), where + ": beyond, " + name);
        };
        allfold::all_gather(comm, own, room.inside(), blocks, displaced);
        check(false, "all_gather");
        allfold::all_to_all(comm, in, room.inside(), allfold::input_blocks{threes}, allfold::output_blocks{threes},
                            allfold::output_displacements{displaced});
        check(true, "all_to_all");

        const auto in_place = [&](const char* name, auto before, auto call, auto after) {
            for (std::size_t i = 0; i < room.inside().size(); ++i) {
                const int block = size - static_cast<int>(i / 5);
                room.inside()[i] = i % 5 < 3 && block >= 0 && block < size ? before(block) : -7;
            }
            call();
            for (std::size_t i = 0; i < room.inside().size(); ++i) {
                const int block = size - static_cast<int>(i / 5);
                const int wanted = i % 5 < 3 && block >= 0 && block < size ? after(block) : -7;
                expect(wanted == any || room.inside()[i] == wanted, where + ", in place, " + name);
            }
            expect(room.is_intact(), where + ": beyond, in place, " + name);
        };
        in_place(
            "reduce_scatter", [&](int block) { return 10 * rank + block; },
            [&] { allfold::reduce_scatter(comm, room.inside(), sum(), threes, displaced); },
            [&](int block) { return block == rank ? size * (5 * (size - 1) + rank) : any; });
        in_place(
            "all_to_all", [&](int block) { return 10 * rank + block; },
            [&] {
                allfold::all_to_all(comm, room.inside(), allfold::input_blocks{threes},
                                    allfold::input_displacements{displaced});
            },
            [&](int block) { return 10 * block + rank; });
    });
}

TEST_CASE("pitfall 10: arguments that only the root uses may be anything on other ranks") {
    on_both({2, 3}, [](auto& comm, const std::string& where) {
        for (int root = 0; root < comm.size(); ++root) {
            const bool is_root = comm.rank() == root;
            const auto ranks = static_cast<std::size_t>(comm.size());
            std::vector<int> own(4, comm.rank()), all(is_root ? 4 * ranks : 1, -7);
            allfold::gather(comm, own, all, allfold::root{root});
            for (std::size_t i = 0; is_root && i < all.size(); ++i)
                expect(all[i] == static_cast<int>(i / 4), where + ": gather");
            allfold::scatter(comm, all, own, allfold::root{root});
            expect(own == std::vector<int>(4, comm.rank()), where + ": scatter");
            expect(is_root || all == std::vector<int>{-7}, where + ": written beside the root");
        }
    });
}

TEST_CASE("pitfall 11: who has no elements takes part, also without memory") {
    on_both({1, 2, 5}, [](auto& comm, const std::string& where) {
        const auto blocks = some_empty(comm.size());
        const std::vector<int> own(blocks.extent(comm.rank()), 4);
        std::vector<int> all(blocks.total());
        for_each_algorithm(allfold::all_gather, comm.size(), [&](const char* name, auto... how) {
            std::ranges::fill(all, 0);
            allfold::all_gather(comm, own, all, blocks, how...);
            expect(all == std::vector<int>(blocks.total(), 4), where + ", " + name);
        });
        const std::span<int> nothing;
        allfold::all_reduce(comm, nothing, nothing, sum());
        allfold::all_gather(comm, nothing, nothing);
        allfold::all_to_all(comm, nothing, nothing);
        allfold::broadcast(comm, nothing);
        allfold::exclusive_scan(comm, nothing, nothing, sum());
        allfold::barrier(comm);
    });
}

TEST_CASE("pitfall 12: numbers beyond 2^31") {
    constexpr std::size_t huge = std::size_t{7} << 31;
    constexpr auto blocks = [](int block) {
        const auto even = partition::even(huge + 1, 3);
        return std::pair(even.offset(block), even.extent(block));
    };
    CHECK(blocks(2).first + blocks(2).second == huge + 1);
    CHECK(blocks(1).first == blocks(0).second);
    CHECK(allfold::all_reduce.plan(8, huge, sum()).schedule(0).rounds() > 0);

    const auto sent = allfold::all_reduce.plan(8, huge, sum(), allfold::ring()).bytes_sent();
    CHECK(sent == 2 * 7 * (huge / 8));

    on_both({1, 2, 3}, [](auto& comm, const std::string& where) { check_distant_blocks(comm, where); });
    on_ranks(2, [](auto& comm) {
        constexpr std::size_t apart = std::size_t{6} << 30, bytes = apart + 100;
        const vast<char> memory(bytes);
        const std::span<char> all = memory.all();
        const std::vector<char> own(100, static_cast<char>('a' + comm.rank()));
        allfold::all_gather(comm, own, all, partition::even(200, 2), allfold::displacements{apart, 0});
        expect(all[apart] == 'a' && all[bytes - 1] == 'a' && all[0] == 'b' && all[99] == 'b' && all[100] == 0,
               "blocks at displacements beyond 2^32");
    });
}

TEST_CASE("pitfall 13: broadcasts in blocks of which the last are short, or empty") {
    on_both({3, 5, 6, 7}, [](auto& comm, const std::string& where) {
        const auto ranks = static_cast<std::size_t>(comm.size());
        for (const std::size_t n : {ranks - 1, ranks + 1, 4 * ranks + 2}) {
            const problem<matrices> p(comm.size(), n);
            for_each_algorithm(allfold::broadcast, comm.size(), [&](const char* name, auto... how) {
                auto x = vector_of(p.operand(comm.rank()));
                allfold::broadcast(comm, x, allfold::root{2}, how...);
                expect_same<matrices>(x, p.operand(2), where + ", " + name);
            });
        }
    });
}

TEST_CASE("pitfall 14: fewer elements than ranks, or than windows, or none") {
    on_both({3, 5, 6, 7}, [](auto& comm, const std::string& where) {
        for (const std::size_t n : {std::size_t{0}, std::size_t{1}, static_cast<std::size_t>(comm.size() - 1)}) {
            const problem<matrices> p(comm.size(), n);
            for (const std::size_t window : {1U, 17U, 40U})
                for_each_algorithm<1>(allfold::all_reduce, comm.size(), [&](const char* name, auto... how) {
                    auto x = vector_of(p.operand(comm.rank()));
                    allfold::all_reduce(comm, x, p.op, allfold::window{window}, how...);
                    expect_same<matrices>(x, p.total(), where + ", " + name);
                });
        }
    });
}

TEST_CASE("pitfall 15: windows cut elements alike where ranks have them in other shapes") {
    on_both({3, 5}, [](auto& comm, const std::string& where) {
        const problem<matrices> p(comm.size(), 22);
        for (const std::size_t window : {1U, 17U, 40U})
            for_each_algorithm<1>(allfold::all_reduce, comm.size(), [&](const char* name, auto... how) {
                const auto in = p.operand(comm.rank());
                std::vector<matrix> x(2 * in.size());
                const std::ptrdiff_t stride = comm.rank() % 2 == 1 ? 2 : 1;
                const allfold::tensor<matrix, 1> view(x.data(), {in.size()}, {stride});
                for (std::size_t i = 0; i < in.size(); ++i) view(i) = in[i];
                allfold::all_reduce(comm, view, p.op, allfold::window{window}, how...);
                for (std::size_t i = 0; i < in.size(); ++i) expect(view(i) == p.total()[i], where + ", " + name);
            });
    });
}

TEST_CASE("pitfall 16: an operation that is started again uses current data and addresses") {
    on_both({2, 3}, [](auto& comm, const std::string& where) {
        std::vector<std::vector<int>> buffers(3, std::vector<int>(50));
        std::vector<int> kept(50);
        auto again = allfold::all_reduce.prepare(comm, kept, sum());
        for (int turn = 0; turn < 300; ++turn) {  // every cell of a channel is reused many times
            auto& x = buffers[static_cast<std::size_t>(turn) % 3];
            x.assign(50, turn + comm.rank());
            kept.assign(50, turn);
            allfold::all_reduce(comm, x, sum());
            again();
            const int size = comm.size();
            expect(x == std::vector<int>(50, turn * size + size * (size - 1) / 2), where + ": called again");
            expect(kept == std::vector<int>(50, turn * size), where + ": started again");
        }
    });
    on_both({2, 3}, [](auto& comm, const std::string& where) {
        const int rank = comm.rank(), size = comm.size();
        const auto n = static_cast<std::size_t>(4 * size);
        std::vector<int> memory(10 * n);  // an input and an output, elsewhere in each turn
        for (int turn = 0; turn < 8; ++turn) {
            const auto [in, out] = std::pair(std::span(memory).subspan(static_cast<std::size_t>(turn) * n, n),
                                             std::span(memory).subspan(static_cast<std::size_t>(turn + 1) * n, n));
            const auto own = in.first(4), block = out.first(4);
            const auto check = [&](const char* name, std::span<const int> got, auto wanted) {
                for (std::size_t i = 0; i < got.size(); ++i)
                    expect(got[i] == wanted(static_cast<int>(i / 4)), where + ", again: " + name);
                std::ranges::fill(memory, 0);
                for (std::size_t i = 0; i < n; ++i) in[i] = 100 * turn + 10 * rank + static_cast<int>(i / 4);
            };
            const auto sent = [&](int from, int to) { return 100 * turn + 10 * from + to; };
            const auto sum_below = [&](int end, int to) { return end * (100 * turn + 5 * (end - 1) + to); };
            check("nothing", {}, [](int) { return 0; });
            allfold::all_gather(comm, own, out);
            check("all_gather", out, [&](int r) { return sent(r, 0); });
            allfold::all_to_all(comm, in, out);
            check("all_to_all", out, [&](int r) { return sent(r, rank); });
            allfold::reduce_scatter(comm, in, block, sum());
            check("reduce_scatter", block, [&](int) { return sum_below(size, rank); });
            allfold::inclusive_scan(comm, in, out, sum());
            check("inclusive_scan", out, [&](int r) { return sum_below(rank + 1, r); });
            allfold::broadcast(comm, in, allfold::root{1});
            check("broadcast", in, [&](int r) { return sent(1, r); });
        }
        check_lanes_that_wrap(comm, where);
    });
}

TEST_CASE("pitfall 17: the input may be written as soon as the call returns") {
    on_both({2, 3}, [](auto& comm, const std::string& where) {
        for (const std::size_t n : {1U, 300U, 40000U}) {
            std::vector<int> x(n), y(n);
            for (int turn = 0; turn < 40; ++turn) {
                x.assign(n, turn);
                allfold::all_reduce(comm, x, y, sum());
                x.assign(n, 1 << 20);  // no rank may see this
                expect(y.front() == turn * comm.size() && y.back() == y.front(), where);
            }
        }
    });
}

TEST_CASE("pitfall 18: flags follow their data") {
    on_both({2, 3}, [](auto& comm, const std::string& where) {
        for (const std::size_t n : {1U, 300U, 40000U}) {
            std::vector<int> x(n);
            for (int turn = 0; turn < 40; ++turn) {
                x.assign(n, comm.rank() == 0 ? turn : -1);
                allfold::broadcast(comm, x);
                expect(x.front() == turn && x.back() == turn, where + ": data of another turn");
            }
        }
    });
}

TEST_CASE("pitfall 19: a rank alone gets all of its own input") {
    on_both({1}, [](auto& comm, const std::string& where) {
        for (const std::size_t n : {1U, 1027U}) {
            std::vector<double> in(n), out(n), expected(n);
            std::iota(in.begin(), in.end(), 0.5);
            const auto check = [&](const char* name) {
                expect(std::exchange(out, {}) == in, where + ", " + name);
                out.resize(n);
            };
            allfold::all_reduce(comm, in, out, allfold::mean());
            check("all_reduce");
            allfold::reduce(comm, in, out, sum());
            check("reduce");
            allfold::reduce_scatter(comm, in, out, allfold::mean());
            check("reduce_scatter");
            allfold::inclusive_scan(comm, in, out, sum());
            check("inclusive_scan");
            allfold::all_gather(comm, in, out);
            check("all_gather");
            allfold::gather(comm, in, out);
            check("gather");
            allfold::scatter(comm, in, out);
            check("scatter");
            allfold::all_to_all(comm, in, out);
            check("all_to_all");
            allfold::permute(comm, in, out, allfold::shift{3});
            check("permute");
        }
    });
}

TEST_CASE("pitfall 20: the neighbour on the left is the one on the right") {
    on_both({2}, [](auto& comm, const std::string& where) {
        const problem<matrices> p(2, 200), q(2, 30);
        for_each_algorithm<1>(allfold::reduce_scatter, 2, [&](const char* name, auto... how) {
            auto x = vector_of(p.operand(comm.rank())), y = vector_of(q.operand(comm.rank()));
            auto first = allfold::reduce_scatter.start(comm, x, p.op, how...);
            auto second = allfold::reduce_scatter.start(comm, y, q.op, how...);
            (comm.rank() == 0 ? first : second).wait();
            wait_all(first, second);
            const auto own = static_cast<std::size_t>(comm.rank());
            expect_same<matrices>(std::span(x).subspan(100 * own, 100), p.total().subspan(100 * own, 100),
                                  where + name);
            expect_same<matrices>(std::span(y).subspan(15 * own, 15), q.total().subspan(15 * own, 15), where + name);
        });
        std::vector<int> in(5, comm.rank()), out(5, -7);
        for (const int by : {1, -1}) {
            allfold::permute(comm, in, out, allfold::shift{by});
            expect(out == std::vector<int>(5, 1 - comm.rank()), where + ": permute");
        }
    });
}

TEST_CASE("pitfall 21: all of several outputs are written") {
    on_both({3}, [](auto& comm, const std::string& where) {
        std::vector<int> a(4, 1), b(200, 2), c(1, 3), u(4), v(200), w(1);
        allfold::all_reduce(comm, allfold::tensors{a, b, c}, allfold::tensors{u, v, w}, sum());
        expect(u.back() == 3 && v.back() == 6 && w[0] == 9, where + ": a list");
        std::vector<float> x(4, 1), y(4);
        allfold::records from{a, x}, to{u, y};
        allfold::broadcast(comm, from, to, allfold::root{2});
        expect(u.back() == 1 && y.back() == 1, where + ": records");
    });
}

TEST_CASE("pitfall 22: an exclusive scan in place sends what it had, and ranks 0 and 1 are right") {
    on_both({1, 2, 3, 5}, [](auto& comm, const std::string& where) {
        const problem<words> p(comm.size(), 3);
        const auto op = allfold::with_identity(p.op, "");
        for_each_algorithm<1>(allfold::exclusive_scan, comm.size(), [&](const char* name, auto... how) {
            auto x = vector_of(p.operand(comm.rank()));
            allfold::exclusive_scan(comm, x, op, how...);
            const auto expected = comm.rank() == 0 ? std::vector<std::string>(3) : vector_of(p.prefix(comm.rank() - 1));
            expect_equal(x, expected, where + ", " + name);
        });
    });
}

TEST_CASE("pitfall 23: logarithms are those of integers") {
    using allfold::detail::ceil_log2;
    for (int bit = 1; bit < std::numeric_limits<int>::digits; ++bit) {
        const int power = 1 << bit;
        CHECK(ceil_log2(power) == bit);
        CHECK(ceil_log2(power - 1) == (bit == 1 ? 0 : bit));
        if (bit + 1 < std::numeric_limits<int>::digits) CHECK(ceil_log2(power + 1) == bit + 1);
    }
}

TEST_CASE("pitfall 24: no operator commutes unless declared, and declarations can be checked") {
    const auto second = [](int, int b) { return b; };
    STATIC_REQUIRE(!allfold::commutative_operator<decltype(allfold::associative(second)), int>);
    CHECK(allfold::check_laws(allfold::associative(second), {1, 2, 3}));
    CHECK(!allfold::check_laws(allfold::commutative(second), {1, 2, 3}));
}

TEST_CASE("pitfall 26: the oracle itself folds from the first rank to the last") {
    const problem<words> p(4, 1);
    CHECK(p.prefix(2)[0] == "a0b0c0");
    CHECK(p.total()[0] == "a0b0c0d0");
}
