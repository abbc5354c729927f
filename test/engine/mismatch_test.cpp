// SPDX-License-Identifier: BSL-1.0
#include "allfold/engine/mismatch.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/algebra/standard_functors.hpp"
#include "allfold/collective.hpp"
#include "allfold/data/partition.hpp"
#include "allfold/data/raw_rows.hpp"
#include "allfold/data/records.hpp"
#include "allfold/data/tensor_view.hpp"
#include "allfold/data/tensors.hpp"
#include "allfold/engine/options.hpp"
#include "allfold/schedule/mirrored_doubling.hpp"
#include "allfold/schedule/recursive_doubling.hpp"
#include "allfold/schedule/ring.hpp"
#include "test/support/catch.hpp"
#include "test/support/disagreements.hpp"
#include "test/support/oracle.hpp"
#include "test/support/ranks.hpp"
#include "test/support/remote.hpp"

using namespace test;
using allfold::errc;
using allfold::partition;
using allfold::sum;

namespace {

/// Runs `call(comm)` on all ranks and then a barrier, where a rank that has not noticed the failure learns of it.
template <class Call>
std::vector<outcome> outcomes_of(int size, Call call) {
    return outcomes_on_ranks(size, [&](auto& comm) {
        call(comm);
        allfold::barrier(comm);
    });
}

/// Makes a call that throws, and must leave x as it was.
template <class T, class Call>
void leaves_alone(const T& x, Call call) {
    const T before = x;
    try {
        call();
    } catch (const allfold::error&) {
        expect(x == before, "the data has been written");
        throw;
    }
}

/// At least one rank must fail with `code` and a text that has all of `parts`. All others must fail with the same code,
/// or because of a rank that did.
void check_failure(const std::vector<outcome>& outcomes, errc code, std::initializer_list<std::string_view> parts) {
    const auto is_cause = [&](const outcome& o) {
        return o.code == code && std::ranges::all_of(parts, [&](auto part) { return o.says(part); });
    };
    const auto is_consequence = [&](const outcome& o) {
        return o.code == errc::peer_failed && std::ranges::any_of(outcomes, [&](const outcome& other) {
                   return other.code == code && o.says(other.text);
               });
    };
    CHECK(std::ranges::any_of(outcomes, is_cause));
    for (std::size_t r = 0; r < outcomes.size(); ++r) {
        INFO("rank " << r << ": " << outcomes[r].text);
        CHECK((outcomes[r].code == code || is_consequence(outcomes[r])));
    }
}

/// Every rank must find the fault by itself.
void check_everywhere(const std::vector<outcome>& outcomes, errc code, std::initializer_list<std::string_view> parts) {
    for (std::size_t r = 0; r < outcomes.size(); ++r) {
        INFO("rank " << r << ": " << outcomes[r].text);
        CHECK(outcomes[r].code == code);
        CHECK(outcomes[r].says("rank " + std::to_string(r)));
        for (const auto part : parts) CHECK(outcomes[r].says(part));
    }
}

struct plain_sum {
    static constexpr allfold::law_set laws = allfold::law::associative | allfold::law::commutative;
    int operator()(int a, int b) const { return a + b; }
};

constexpr int group_sizes_here[] = {2, 3, 5};
/// Short enough for a cell, short enough for a slot, and long enough to be lent.
constexpr std::size_t lengths[] = {3, 1000, 100000};

}  // namespace

TEST_CASE("different sizes are a mismatch that names both ranks and figures, and leaves the data alone") {
    for (const int size : group_sizes_here)
        for (const std::size_t n : lengths)
            for (const std::size_t other : {std::size_t{0}, std::size_t{1}, n - 1, n + 1, 10 * n}) {
                INFO("P = " << size << ", n = " << n << ", but " << other << " at rank 1");
                std::array<bool, 5> untouched{};
                const auto outcomes = outcomes_of(size, [&](auto& comm) {
                    const std::size_t mine = comm.rank() == 1 ? other : n;
                    std::vector<int> in(mine, comm.rank()), out(mine, -1);
                    const auto is = [](int value) { return [value](int x) { return x == value; }; };
                    try {
                        allfold::all_reduce(comm, in, out, sum());
                    } catch (const allfold::error&) {
                        untouched[static_cast<std::size_t>(comm.rank())] =
                            std::ranges::all_of(in, is(comm.rank())) && std::ranges::all_of(out, is(-1));
                        throw;
                    }
                });
                check_failure(outcomes, errc::mismatch,
                              {"all_reduce", "rank 1", " " + std::to_string(n), " " + std::to_string(other)});
                for (int r = 0; r < size; ++r) CHECK(untouched[static_cast<std::size_t>(r)]);
            }
}

TEST_CASE("different sizes in place leave the data alone") {
    for (const int size : group_sizes_here)
        for (const std::size_t n : lengths) {
            const auto outcomes = outcomes_of(size, [&](auto& comm) {
                std::vector<int> x(comm.rank() == 1 ? n + 1 : n, comm.rank());
                const std::vector<int> before = x;
                try {
                    allfold::all_reduce(comm, x, sum());
                } catch (const allfold::error&) {
                    expect(x == before, "the data has been written");
                    throw;
                }
            });
            check_failure(outcomes, errc::mismatch, {"all_reduce", "rank 1", "elements"});
        }
}

TEST_CASE("different sizes are found with a named algorithm too") {
    const auto sizes_differ = [](auto algorithm) {
        return outcomes_of(3, [=](auto& comm) {
            std::vector<int> x(comm.rank() == 1 ? 101 : 100);
            allfold::all_reduce(comm, x, sum(), algorithm);
        });
    };
    check_failure(sizes_differ(allfold::ring()), errc::mismatch, {"all_reduce", "101", "100", "rank 1"});
    check_failure(sizes_differ(allfold::recursive_doubling()), errc::mismatch, {"all_reduce", "101", "100", "rank 1"});
}

TEST_CASE("different collectives are a mismatch that names both") {
    const auto outcomes = outcomes_of(3, [](auto& comm) {
        int x = 1;
        if (comm.rank() == 1)
            allfold::barrier(comm);
        else
            allfold::all_reduce(comm, x, sum());
    });
    check_failure(outcomes, errc::mismatch, {"rank 1", "calls all_reduce", "calls barrier"});
}

TEST_CASE("collectives in another order on one rank are a mismatch that names both") {
    const auto outcomes = outcomes_of(2, [](auto& comm) {
        int x = 1;
        if (comm.rank() == 1) allfold::inclusive_scan(comm, x, sum());
        allfold::all_reduce(comm, x, sum());
        if (comm.rank() == 0) allfold::inclusive_scan(comm, x, sum());
    });
    check_failure(outcomes, errc::mismatch, {"calls all_reduce", "calls inclusive_scan"});
}

TEST_CASE("different element types are a mismatch that names both") {
    const auto outcomes = outcomes_of(3, [](auto& comm) {
        std::vector<int> a(10);
        std::vector<float> b(10);
        if (comm.rank() == 1)
            allfold::all_reduce(comm, b, sum());
        else
            allfold::all_reduce(comm, a, sum());
    });
    check_failure(outcomes, errc::mismatch, {"all_reduce", "type int", "type float"});
}

TEST_CASE("different operators are a mismatch that names both") {
    const auto outcomes = outcomes_of(3, [](auto& comm) {
        std::vector<int> x(10);
        if (comm.rank() == 1)
            allfold::all_reduce(comm, x, plain_sum());
        else
            allfold::all_reduce(comm, x, allfold::max());
    });
    check_failure(outcomes, errc::mismatch, {"all_reduce", "folds with", "allfold::max", "plain_sum"});
}

TEST_CASE("different order levels are a mismatch that names both") {
    const auto outcomes = outcomes_of(2, [](auto& comm) {
        std::vector<float> x(10);
        if (comm.rank() == 1)
            allfold::all_reduce(comm, x, sum(), allfold::order::tree);
        else
            allfold::all_reduce(comm, x, sum());
    });
    check_failure(outcomes, errc::mismatch, {"all_reduce", "order", "tree", "any"});
}

TEST_CASE("different algorithms are a mismatch that names both") {
    const auto outcomes = outcomes_of(3, [](auto& comm) {
        std::vector<int> x(10);
        if (comm.rank() == 1)
            allfold::all_reduce(comm, x, sum(), allfold::ring());
        else
            allfold::all_reduce(comm, x, sum(), allfold::recursive_doubling());
    });
    check_failure(outcomes, errc::mismatch, {"all_reduce", "ring", "recursive doubling"});
}

TEST_CASE("different windows are a mismatch") {
    const auto outcomes = outcomes_of(3, [](auto& comm) {
        std::vector<int> x(1000);
        allfold::all_reduce(comm, x, sum(), allfold::window{comm.rank() == 1 ? 64U : 128U});
    });
    check_failure(outcomes, errc::mismatch, {"all_reduce", "rank 1", "windows of 16", "windows of 32", "elements"});

    const auto pairs = outcomes_of(2, [](auto& comm) {
        std::vector<int> x(2000);
        allfold::all_to_all(comm, x, allfold::window{comm.rank() == 1 ? 400U : 800U});
    });
    check_failure(pairs, errc::mismatch, {"all_to_all", "rank 1", "windows of 100", "windows of 200", "elements"});
}

TEST_CASE("a window that only one of two ranks names is a mismatch, also if it holds a whole block") {
    const auto outcomes = outcomes_of(2, [](auto& comm) {
        std::vector<int> a(100000), b(100000), all_a(200000), all_b(200000);
        const allfold::tensors mine{a, b}, all{all_a, all_b};
        if (comm.rank() == 0)
            allfold::all_gather(comm, mine, all, allfold::window{1U << 30});
        else
            allfold::all_gather(comm, mine, all);
    });
    check_failure(outcomes, errc::mismatch,
                  {"all_gather", "rank 0 has windows of 200000 elements", "rank 1 has no windows"});
}

TEST_CASE("different partitions of the same total are a mismatch that tells of both") {
    const auto partitions_differ = [](std::size_t grain, auto at_one, auto elsewhere) {
        return outcomes_of(3, [=](auto& comm) {
            const partition blocks = comm.rank() == 1 ? at_one(10 * grain) : elsewhere(10 * grain);
            std::vector<int> x(10 * grain), block(blocks.extent(comm.rank()));
            allfold::all_gather(comm, block, x, blocks);
        });
    };
    const auto even = [](std::size_t n) { return partition::even(n, 3); };
    const auto ceil = [](std::size_t n) { return partition::ceil(n, 3); };
    for (const std::size_t grain : {std::size_t{1}, std::size_t{1000}, std::size_t{50002}}) {
        const auto text = [&](std::size_t a, std::size_t b) {
            return "cuts blocks of " + std::to_string(a) + " to " + std::to_string(b);
        };
        const std::size_t n = 10 * grain, longest = (n + 2) / 3;
        check_failure(partitions_differ(grain, ceil, even), errc::mismatch,
                      {"all_gather", "rank 1", text(n / 3, longest), text(n - 2 * longest, longest)});
        check_failure(
            partitions_differ(grain, even,
                              [](std::size_t m) { return partition::sizes({m / 2, m / 4, m - m / 2 - m / 4}); }),
            errc::mismatch,
            {"all_gather", "rank 1", "blocks of up to " + std::to_string(longest),
             "blocks of up to " + std::to_string(n / 2)});
    }
    check_failure(partitions_differ(
                      1, [](std::size_t) { return partition::sizes({5, 3, 2}); },
                      [](std::size_t) { return partition::sizes({5, 2, 3}); }),
                  errc::mismatch, {"all_gather", "rank 1", "blocks of 2 to 5", "in another order"});
}

TEST_CASE("blocks of the same lengths in another order are a mismatch of reduce_scatter") {
    const auto outcomes = outcomes_of(2, [](auto& comm) {
        std::vector<int> x(9);
        allfold::reduce_scatter(comm, x, sum(), comm.rank() == 1 ? partition::sizes({4, 5}) : partition::even(9, 2));
    });
    check_failure(outcomes, errc::mismatch, {"reduce_scatter", "rank 1", "blocks of 4 to 5", "in another order"});
}

TEST_CASE("partitions with the same borders are the same, however they were described") {
    on_ranks(2, [](auto& comm) {
        std::vector<int> x(8, 1);
        allfold::reduce_scatter(comm, x, sum(), comm.rank() == 1 ? partition::sizes({4, 4}) : partition::even(8, 2));
        allfold::all_gather(comm, x, comm.rank() == 0 ? partition::sizes({4, 4}) : partition::ceil(8, 2));
        expect(x == std::vector(8, 2), "wrong sums");
    });
    SUCCEED();
}

TEST_CASE("two lambdas of one signature in one function are different operators") {
    const auto outcomes = outcomes_of(2, [](auto& comm) {
        int x = 5;
        const auto add = allfold::commutative([](int a, int b) { return a + b; });
        const auto multiply = allfold::commutative([](int a, int b) { return a * b; });
        if (comm.rank() == 0)
            allfold::all_reduce(comm, x, add);
        else
            allfold::all_reduce(comm, x, multiply);
    });
    check_failure(outcomes, errc::mismatch, {"all_reduce", "folds with", "lambda", "rank 1"});
    for (const auto& each : outcomes) UNSCOPED_INFO(each.text);
#if !defined(__clang__)  // clang spells out where a lambda is defined
    CHECK(outcomes[0].says("different type of the same name"));
    CHECK(outcomes[0].says("each lambda expression is a distinct operator"));
#endif
}

TEST_CASE("different widths of rows are a mismatch") {
    const auto outcomes = outcomes_of(2, [](auto& comm) {
        std::vector<float> x(12);
        const std::size_t width = comm.rank() == 1 ? 3 : 2;
        allfold::all_reduce(comm, allfold::records(allfold::tensor<float, 2>(x.data(), {4, width})), sum());
    });
    check_failure(outcomes, errc::mismatch, {"all_reduce", "rank 1", "rows of 8", "rows of 12", "bytes"});
}

TEST_CASE("different roots are a mismatch for the ranks that hear of both") {
    for (const std::size_t n : lengths) {
        const auto outcomes = outcomes_of(4, [&](auto& comm) {
            std::vector<int> x(n);
            allfold::reduce(comm, x, sum(), allfold::root{comm.rank() == 3 ? 1 : 0});
        });
        check_failure(outcomes, errc::mismatch, {"reduce", "rank 3", "names root 1", "names root 0"});
    }
}

TEST_CASE("two roots that wait for each other without a message are a mismatch") {
    const auto outcomes = outcomes_of(2, [](auto& comm) {
        int x = 1;
        allfold::reduce(comm, x, sum(), allfold::root{comm.rank()});
    });
    check_failure(outcomes, errc::mismatch, {"reduce", "names root 0", "names root 1"});
}

TEST_CASE("two roots that wait for each other to read what they lend are a mismatch") {
    const auto outcomes = outcomes_of(2, [](auto& comm) {
        std::vector<int> x(300000);
        allfold::broadcast(comm, x, allfold::root{comm.rank()});
    });
    check_failure(outcomes, errc::mismatch, {"broadcast", "names root 0", "names root 1"});
}

TEST_CASE("two roots of a short broadcast are found with the next message, which names that call and both roots") {
    for (const int size : {2, 3})
        for (const std::size_t n : {std::size_t{1}, std::size_t{1000}}) {
            const auto outcomes = outcomes_of(size, [&](auto& comm) {
                allfold::barrier(comm);
                std::vector<int> x(n, comm.rank());
                allfold::broadcast(comm, x, allfold::root{comm.rank() == 1 ? 1 : 0});
            });
            for (const auto& each : outcomes) UNSCOPED_INFO("P = " << size << ": " << each.text);
            check_failure(outcomes, errc::mismatch, {"call 2", "broadcast", "names root 0", "names root 1"});
        }
}

TEST_CASE("a call that differed is named some calls later too, where no message went between") {
    const auto outcomes = outcomes_of(3, [](auto& comm) {
        std::vector<int> x(3);
        allfold::broadcast(comm, x, allfold::root{comm.rank() == 2 ? 2 : 0});
        for (int turn = 0; turn < 3; ++turn) allfold::broadcast(comm, x, allfold::root{1});
    });
    check_failure(outcomes, errc::mismatch, {"call 1", "broadcast", "names root 0", "names root 2"});
}

TEST_CASE("no rank waits for ever if one names another root or permutation") {
    for (const int size : {2, 3, 6})
        for (std::size_t which = 0; which < disagreements.size(); ++which)
            for (const std::size_t n : {1U, 3000U})
                for (const bool is_remote : {false, true}) {
                    INFO(disagreements[which] << ", " << n << " elements, " << size << " ranks, remote: " << is_remote);
                    const auto call = [&](auto& comm) {
                        disagree(comm, which, n, comm.rank() == 1);
                        allfold::barrier(comm);
                    };
                    const auto outcomes = outcomes_on_ranks(
                        size,
                        [&](auto& comm) {
                            remote far(comm);
                            is_remote ? call(far) : call(comm);
                        },
                        roomy);
                    const auto is_found = [](const outcome& each) { return each.code == errc::mismatch; };
                    CHECK(std::ranges::any_of(outcomes, is_found));
                }
}

TEST_CASE("a root outside of the ranks is a bad rank, wherever it is named") {
    for (const int root : {-1, 3, 1000}) {
        const auto named = std::to_string(root);
        check_everywhere(outcomes_of(3,
                                     [&](auto& comm) {
                                         int x = 1;
                                         allfold::broadcast(comm, x, allfold::root{root});
                                     }),
                         errc::bad_rank, {"broadcast", named, "[0, 3)"});
        check_everywhere(outcomes_of(3,
                                     [&](auto& comm) {
                                         int x = 1;
                                         allfold::reduce(comm, x, sum(), allfold::root{root});
                                     }),
                         errc::bad_rank, {"reduce", named, "[0, 3)"});
        check_failure(outcomes_of(3,
                                  [&](auto& comm) {
                                      int x = 1;
                                      allfold::broadcast(comm, x, allfold::root{comm.rank() == 2 ? root : 0});
                                  }),
                      errc::bad_rank, {"broadcast", "rank 2", named});
    }
}

TEST_CASE("a partition that does not fit is a bad partition") {
    const auto reduce_scatter_with = [](const partition& blocks) {
        return outcomes_of(3, [&](auto& comm) {
            std::vector<int> x(10), out(10);
            allfold::reduce_scatter(comm, x, sum(), blocks);
        });
    };
    const auto all_gather_with = [](const partition& blocks) {
        return outcomes_of(3, [&](auto& comm) {
            std::vector<int> x(10);
            allfold::all_gather(comm, x, blocks);
        });
    };
    check_everywhere(reduce_scatter_with(partition::sizes({4, 4, 3})), errc::bad_partition,
                     {"reduce_scatter", "11", "10"});
    check_everywhere(reduce_scatter_with(partition::even(10, 4)), errc::bad_partition, {"reduce_scatter", "4", "3"});
    check_everywhere(all_gather_with(partition::sizes({5, 5})), errc::bad_partition, {"all_gather", "2", "3"});
    check_everywhere(all_gather_with(partition::ceil(9, 3)), errc::bad_partition, {"all_gather", "9", "10"});
}

TEST_CASE("an input or output of the wrong size is a mismatch on its own rank") {
    std::vector<int> five(5), six(6);
    check_everywhere(outcomes_of(1, [&](auto& comm) { allfold::all_reduce(comm, five, six, sum()); }), errc::mismatch,
                     {"all_reduce", "the output", "6", "5"});
    check_everywhere(outcomes_of(1, [&](auto& comm) { allfold::inclusive_scan(comm, five, six, sum()); }),
                     errc::mismatch, {"inclusive_scan", "the output", "6", "5"});
    check_everywhere(outcomes_of(1, [&](auto& comm) { allfold::exclusive_scan(comm, five, six, sum()); }),
                     errc::mismatch, {"exclusive_scan", "the output", "6", "5"});
    check_everywhere(outcomes_of(1, [&](auto& comm) { allfold::reduce(comm, five, six, sum()); }), errc::mismatch,
                     {"reduce", "the output", "6", "5"});
    check_everywhere(outcomes_of(1, [&](auto& comm) { allfold::reduce_scatter(comm, five, six, sum()); }),
                     errc::mismatch, {"reduce_scatter", "the output", "6", "5"});
    check_everywhere(outcomes_of(1, [&](auto& comm) { allfold::all_gather(comm, five, six); }), errc::mismatch,
                     {"all_gather", "the input", "5", "6"});
    check_everywhere(outcomes_of(1, [&](auto& comm) { allfold::broadcast(comm, five, six); }), errc::mismatch,
                     {"broadcast", "the input", "5", "6"});
}

TEST_CASE("input and output that overlap in part are rejected before anything is sent") {
    for (const std::size_t n : {std::size_t{10}, std::size_t{100000}})
        check_everywhere(outcomes_of(3,
                                     [&](auto& comm) {
                                         std::vector<int> x(n + 1);
                                         std::iota(x.begin(), x.end(), comm.rank());
                                         const std::span all(x);
                                         leaves_alone(
                                             x, [&] { allfold::all_reduce(comm, all.first(n), all.last(n), sum()); });
                                     }),
                         errc::overlap, {"all_reduce", "overlap", "4 bytes before"});
}

TEST_CASE("a block that overlaps the whole elsewhere than at its own place is rejected") {
    const auto outcomes = outcomes_of(2, [](auto& comm) {
        std::vector<int> x(10);
        allfold::reduce_scatter(comm, x, std::span(x).first(5), sum());
    });
    CHECK(outcomes[1].code == errc::overlap);
    CHECK(outcomes[0].code == errc::peer_failed);
}

TEST_CASE("the same memory for input and output is in place, and neighbouring memory is apart") {
    on_ranks(3, [](auto& comm) {
        const auto r = static_cast<std::size_t>(comm.rank());
        for (const std::size_t block : {std::size_t{2}, std::size_t{50000}}) {
            std::vector<int> x(3 * block, 1), y(6 * block, 1);
            allfold::all_reduce(comm, x, x, sum());
            expect(x == std::vector(3 * block, 3), "all_reduce");
            allfold::reduce_scatter(comm, x, std::span(x).subspan(r * block, block), sum());
            expect(std::ranges::all_of(std::span(x).subspan(r * block, block), [](int i) { return i == 9; }),
                   "reduce_scatter");
            allfold::all_gather(comm, std::span(x).subspan(r * block, block), x);
            expect(x == std::vector(3 * block, 9), "all_gather");
            allfold::inclusive_scan(comm, std::span(y).first(3 * block), std::span(y).last(3 * block), sum());
            expect(y.front() == 1 && y.back() == comm.rank() + 1, "inclusive_scan");
        }
    });
    SUCCEED();
}

TEST_CASE("elements at a null address are a bad argument, no elements are none") {
    const allfold::tensor<int, 1> five(nullptr, {5}), none(nullptr, {0});
    check_everywhere(outcomes_of(2, [&](auto& comm) { allfold::all_reduce(comm, five, sum()); }), errc::bad_argument,
                     {"all_reduce", "5 elements", "null"});
    std::vector<int> x(5);
    check_everywhere(outcomes_of(2, [&](auto& comm) { allfold::all_reduce(comm, five, x, sum()); }), errc::bad_argument,
                     {"all_reduce", "the input", "null"});
    const std::span<int> nowhere(static_cast<int*>(nullptr), 4);
    const std::string words = "4 elements but a null data pointer";
    const auto refused = [](const std::string& text, auto call) {
        check_failure(outcomes_of(2, call), errc::bad_argument, {text.c_str()});
    };
    refused("image 1 has " + words,
            [&](auto& comm) { allfold::all_reduce(comm, allfold::images(std::span(x).first(4), nowhere), x, sum()); });
    refused("output 0 has " + words, [&](auto& comm) {
        std::vector<int> whole(8);
        allfold::reduce_scatter(comm, allfold::images(whole, whole), nowhere, sum());
    });
    const std::vector<int> sizes{2, 2}, in(4);
    refused("input has " + words, [&](auto& comm) {
        std::vector<int> out;
        allfold::all_to_all(comm, nowhere, sizes, out);
    });
    refused("output has " + words, [&](auto& comm) { allfold::all_to_all(comm, in, sizes, nowhere); });
    const allfold::block_cyclic layout{4, 0, 8};
    on_ranks(2, [&](auto& comm) {
        int total = 0;
        std::vector<int> own(4);
        const auto mine = comm.rank() == 1 ? nowhere : std::span(own);
        const outcome refusal =
            outcome_of([&] { allfold::all_reduce(comm, allfold::distributed(mine, layout), total, sum()); });
        expect(refusal.code == errc::bad_argument, refusal.text);
        expect(refusal.says("rank 1 has elements of the array but a null data pointer"), refusal.text);
        allfold::barrier(comm);  // since all ranks have thrown, the communicator is not broken
    });
    on_ranks(2, [&](auto& comm) {
        allfold::all_reduce(comm, none, sum());
        allfold::all_reduce(comm, none, none, sum());
        allfold::broadcast(comm, none);
        allfold::all_gather(comm, none);
    });
}

TEST_CASE("null elements are fine where they do not matter") {
    on_ranks(3, [](auto& comm) {
        const allfold::tensor<int, 1> nowhere(nullptr, {5});
        std::vector<int> in(5, 1), out(5);
        if (comm.rank() == 1) {
            allfold::reduce(comm, in, allfold::tensor<int, 1>(out.data(), {5}), sum(), allfold::root{1});
            allfold::broadcast(comm, allfold::tensor<int, 1>(in.data(), {5}), out, allfold::root{1});
        } else {
            allfold::reduce(comm, in, nowhere, sum(), allfold::root{1});
            allfold::broadcast(comm, nowhere, out, allfold::root{1});
        }
        expect(out == in, "not broadcast");
    });
    SUCCEED();
}

TEST_CASE("an algorithm that does not exist for the number of ranks is a bad argument") {
    for (const int size : {3, 5, 6})
        check_everywhere(
            outcomes_of(size,
                        [](auto& comm) {
                            int x = 1;
                            allfold::all_reduce(comm, x, sum(), allfold::mirrored_doubling());
                        }),
            errc::bad_argument,
            {"all_reduce", "has no schedule for", std::to_string(size) + " ranks", "it supports 1, 2, 4, 8"});
}

TEST_CASE("records whose tensors differ in their rows are a bad argument") {
    const auto outcomes = outcomes_of(2, [](auto& comm) {
        std::vector<float> a(4), b(6);
        allfold::all_reduce(comm, allfold::records(a, b), sum());
    });
    for (const auto& each : outcomes) {
        CHECK(each.code == errc::bad_argument);
        CHECK(each.says("records"));
        CHECK(each.says("4"));
        CHECK(each.says("6"));
    }
}

TEST_CASE("input and output rows of different widths are a bad argument") {
    check_everywhere(outcomes_of(2,
                                 [](auto& comm) {
                                     std::vector<float> a(8), b(12);
                                     allfold::all_reduce(
                                         comm, allfold::records(allfold::tensor<float, 2>(a.data(), {4, 2})),
                                         allfold::records(allfold::tensor<float, 2>(b.data(), {4, 3})), sum());
                                 }),
                     errc::bad_argument, {"all_reduce", "widths"});
}

TEST_CASE("start and prepare find the same faults before anything is sent") {
    check_everywhere(outcomes_of(2,
                                 [](auto& comm) {
                                     int x = comm.rank() + 1;
                                     leaves_alone(x, [&] {
                                         static_cast<void>(allfold::broadcast.start(comm, x, allfold::root{2}));
                                     });
                                 }),
                     errc::bad_rank, {"broadcast", "root 2"});
    check_everywhere(outcomes_of(2,
                                 [](auto& comm) {
                                     int x = comm.rank() + 1;
                                     leaves_alone(x, [&] {
                                         static_cast<void>(allfold::broadcast.prepare(comm, x, allfold::root{2}));
                                     });
                                 }),
                     errc::bad_rank, {"broadcast", "root 2"});
}

TEST_CASE("a mismatch in the background is thrown where the operation is waited for") {
    const auto outcomes = outcomes_of(2, [](auto& comm) {
        std::vector<int> x(comm.rank() == 1 ? 7 : 8);
        auto op = allfold::all_reduce.start(comm, x, sum());
        op.wait();
    });
    check_failure(outcomes, errc::mismatch, {"all_reduce", "7", "8"});
}

TEST_CASE("a call that one rank prepares is a mismatch with any that is not prepared, started or not") {
    for (const bool same : {false, true})
        for (const bool starts : {false, true})
            for (const std::size_t n : lengths) {
                const auto outcomes = outcomes_of(2, [&](auto& comm) {
                    std::vector<int> x(n), all(2 * n);
                    const auto call = [&] { allfold::all_reduce(comm, x, sum()); };
                    if (comm.rank() == 1) {
                        auto op = allfold::all_reduce.prepare(comm, x, sum());
                        if (starts) op();
                    } else if (same) {
                        call();
                    } else {
                        allfold::all_gather(comm, x, all);
                    }
                    call();
                });
                check_failure(
                    outcomes, errc::mismatch,
                    {same ? "rank 0 calls all_reduce" : "rank 0 calls all_gather", "rank 1 prepares all_reduce"});
            }
}

TEST_CASE("so is an operation of several collectives that one rank prepares") {
    for (const std::size_t n : lengths)
        check_failure(outcomes_of(2,
                                  [&](auto& comm) {
                                      std::vector<int> x(n), y(n);
                                      const auto first = allfold::all_reduce.with(x, sum());
                                      const auto second = allfold::broadcast.with(y);
                                      if (comm.rank() == 1) {
                                          auto op = allfold::together.prepare(comm, first, second);
                                          allfold::barrier(comm);
                                      } else {
                                          allfold::together(comm, first, second);
                                      }
                                  }),
                      errc::mismatch, {"rank 0 calls all_reduce", "rank 1 prepares all_reduce"});
}

TEST_CASE("a mismatch is found although the other rank has made many calls since") {
    for (const std::size_t since : {3U, 8U, 100U}) {
        const auto outcomes =
            outcomes_of(3, [&](auto& comm) {  // rank 2 forgets the first broadcast, and waits for rank 0
                int x = 0;
                if (comm.rank() == 2) {
                    allfold::all_reduce(comm, x, sum());
                    return;
                }
                for (std::size_t n = 0; n < since; ++n) {
                    std::vector<int> y(1 + n);
                    allfold::broadcast(comm, y, allfold::root{1});
                }
                allfold::broadcast(comm, x, allfold::root{2});
            });
        check_failure(outcomes, errc::mismatch, {"all_reduce", "rank 2", "rank 0"});
        check_failure(outcomes_of(2,
                                  [&](auto& comm) {
                                      int x = 0;
                                      if (comm.rank() == 1) {
                                          allfold::all_reduce(comm, x, sum());
                                          return;
                                      }
                                      const auto never_started = allfold::barrier.prepare(comm);
                                      std::vector<std::vector<int>> y(since);
                                      std::vector<allfold::operation> in_flight;
                                      for (auto& each : y) {
                                          each.resize(1 + in_flight.size());
                                          in_flight.push_back(allfold::all_reduce.start(comm, each, sum()));
                                      }
                                      wait_all(in_flight);
                                  }),
                      errc::mismatch, {"all_reduce", "rank 0", "rank 1"});
    }
}

TEST_CASE("operations of several collectives make the same calls on all ranks, however late one is") {
    using allfold::in_sync, allfold::out_sync;
    for (const std::size_t n : lengths)
        for (int late = 0; late < 3; ++late) {
            const auto outcomes = outcomes_of(3, [&](auto& comm) {
                const auto be_late = [&] {  // the others wait long enough to look what this rank calls
                    if (comm.rank() == late) std::this_thread::sleep_for(std::chrono::milliseconds(10));
                };
                std::vector<int> x(n, 1), y(n), sent(3 * n, comm.rank()), received;
                partition layout = partition::even(0, 1);
                auto exchange = allfold::all_to_all.start(comm, sent, std::vector{n, n, n}, received, layout);
                be_late();
                exchange.wait();
                auto synchronised = allfold::all_reduce.start(comm, x, sum(), in_sync::all, out_sync::all);
                be_late();
                synchronised.wait();
                auto several =
                    allfold::together.start(comm, allfold::all_reduce.with(x, sum()), allfold::broadcast.with(y));
                be_late();
                several.wait();
                expect(x == std::vector<int>(n, 9) && received.size() == 3 * n, "wrong result");
            });
            for (const outcome& each : outcomes) {
                INFO(each.text);
                CHECK(each.succeeded());
            }
        }
}

TEST_CASE("an operator that says on one rank only that it is commutative is a mismatch that names both") {
    for (const bool asks : {false, true})  // if the caller names an order, the levels are the same
        for (const int before : {0, 3})    // preceding calls that agree, of which the later ones are remembered
            check_failure(outcomes_of(3,
                                      [&](auto& comm) {
                                          std::vector<int> x(10);
                                          const auto call = [&](bool commutes) {
                                              const auto op = allfold::commutative_if(commutes, plain_sum());
                                              if (asks)
                                                  allfold::all_reduce(comm, x, op, allfold::order::tree);
                                              else
                                                  allfold::all_reduce(comm, x, op);
                                          };
                                          for (int i = 0; i < before; ++i) call(true), call(false);
                                          call(comm.rank() != 1);
                                      }),
                          errc::mismatch, {"all_reduce", "rank 1", "declared commutative", "declared not commutative"});
}

TEST_CASE("what needs a commutative operator is a bad argument for one that says that it is not") {
    const auto call = [](auto& comm, bool commutes, auto... options) {
        int x = 1;
        allfold::all_reduce(comm, x, allfold::commutative_if(commutes, plain_sum()), options...);
        expect(x == comm.size(), "the sum");
    };
    on_ranks(3, [&](auto& comm) {
        call(comm, true, allfold::ring{});
        call(comm, true, allfold::order::any);
    });
    check_everywhere(outcomes_of(3, [&](auto& comm) { call(comm, false, allfold::ring{}); }), errc::bad_argument,
                     {"all_reduce", "ring", "not commutative"});
    check_everywhere(outcomes_of(3, [&](auto& comm) { call(comm, false, allfold::order::any); }), errc::bad_argument,
                     {"all_reduce", "order::any", "not commutative"});
    const auto plan_of = [](bool commutes) {
        return allfold::all_reduce.plan<int>(4, 8, allfold::commutative_if(commutes, plain_sum()), allfold::ring{});
    };
    CHECK_THROWS_AS(plan_of(false), allfold::error);
    CHECK_NOTHROW(plan_of(true));
}

TEST_CASE("raw rows of different alignments are a mismatch that names both") {
    for (const int before : {0, 3})
        check_failure(outcomes_of(2,
                                  [&](auto& comm) {
                                      alignas(64) std::array<std::byte, 80> x{};
                                      const auto call = [&](std::size_t alignment) {
                                          allfold::all_reduce(comm, allfold::raw_rows(x.data(), 5, 16, alignment),
                                                              std::bit_xor<>());
                                      };
                                      for (int i = 0; i < before; ++i) call(4), call(8);
                                      call(comm.rank() == 1 ? 4 : 8);
                                  }),
                      errc::mismatch, {"all_reduce", "rank 1", "aligned to 8", "aligned to 4"});
}

TEST_CASE("raw rows that are not aligned as they are said to be are a bad argument") {
    const auto outcomes = [](std::size_t first, std::size_t size, std::size_t alignment, std::size_t other) {
        return outcomes_of(2, [=](auto& comm) {
            alignas(64) std::array<std::byte, 512> x{}, y{};
            allfold::all_gather(comm, allfold::raw_rows(x.data() + first, 1, size, alignment),
                                allfold::raw_rows(y.data(), 2, size, other));
        });
    };
    check_everywhere(outcomes(4, 16, 8, 8), errc::bad_argument,
                     {"the input", "multiple of its stated alignment of 8 bytes"});
    check_everywhere(outcomes(0, 12, 8, 8), errc::bad_argument, {"elements of 12 bytes", "aligned to 8"});
    check_everywhere(outcomes(0, 24, 12, 12), errc::bad_argument, {"aligned to 12", "power of two"});
    check_everywhere(outcomes(0, 128, 128, 128), errc::bad_argument, {"aligned to 128", "at most 64"});
    check_everywhere(outcomes(0, 16, 0, 0), errc::bad_argument, {"aligned to 0", "power of two"});
    check_everywhere(outcomes(0, 16, 8, 4), errc::bad_argument, {"input is aligned to 8", "output to 4"});
}
