// SPDX-License-Identifier: BSL-1.0
#include "allfold/collective/any_algorithm.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "allfold/analysis/proved_first.hpp"
#include "allfold/collective.hpp"
#include "allfold/schedule/mirrored_doubling.hpp"
#include "allfold/schedule/schedule_of.hpp"
#include "allfold/schedule/step.hpp"
#include "allfold/transport/hierarchy.hpp"
#include "test/support/algebras.hpp"
#include "test/support/algorithms.hpp"
#include "test/support/catch.hpp"
#include "test/support/oracle.hpp"
#include "test/support/ranks.hpp"

using namespace test;
using allfold::any_algorithm;
using allfold::errc;
using allfold::order;
using allfold::sum;

namespace {

struct greatest_common_divisor {
    static constexpr const char* name = "greatest common divisor";
    static constexpr allfold::law_set laws = allfold::law::associative | allfold::law::commutative;
    int operator()(int a, int b) const { return std::gcd(a, b); }
};

/// One call, out of place: what rank r holds afterwards depends on the order of all operands.
template <class Algebra, class Collective, class Algorithm>
std::vector<typename Algebra::element> outcome_with(allfold::thread_communicator& comm, const Collective& call,
                                                    const Algorithm& algorithm) {
    constexpr auto promise = Collective::promise;
    const auto ranks = static_cast<std::size_t>(comm.size());
    std::vector<typename Algebra::element> in(ranks), out(ranks);
    for (std::size_t i = 0; i < ranks; ++i) in[i] = Algebra::sample(comm.rank(), i);
    const auto cut = [&](auto& whole, bool is_block) { return std::span(whole).first(is_block ? 1 : ranks); };
    const bool takes_block =
        std::string_view(promise.name) == "all_gather" || std::string_view(promise.name) == "gather";
    const bool gives_block =
        std::string_view(promise.name) == "reduce_scatter" || std::string_view(promise.name) == "scatter";
    if constexpr (std::is_same_v<Collective, std::remove_const_t<decltype(allfold::barrier)>>)
        call(comm, algorithm);
    else if constexpr (promise.folds)
        call(comm, cut(in, takes_block), cut(out, gives_block), Algebra::operation(), algorithm);
    else if constexpr (std::is_same_v<Collective, std::remove_const_t<decltype(allfold::broadcast)>>)
        call(comm, out = in, algorithm);
    else
        call(comm, cut(in, takes_block), cut(out, gives_block), algorithm);
    return out;
}

template <class Algebra, class Collective>
void check_all_algorithms(const Collective& call, int size) {
    for_each_algorithm_type<1>(call, size, [&](const auto& named) {
        const char* const name = named.name;
        INFO(Collective::promise.name << ", " << name << ", " << size << " ranks");
        CHECK_NOTHROW(on_ranks(size, [&](allfold::thread_communicator& comm) {
            const any_algorithm chosen(call, named);
            const auto expected = outcome_with<Algebra>(comm, call, named);
            expect(outcome_with<Algebra>(comm, call, chosen) == expected, "another outcome");
            for (int again = 0; again < 3; ++again)  // short calls are then done without the engine
                expect(outcome_with<Algebra>(comm, call, named) == expected, "another outcome again");
            // Ranks may name the same algorithm in any of three ways.
            const auto known = any_algorithm<Collective>::names();
            const bool has_name = std::ranges::find(known, name) != known.end();
            const auto mixed = comm.rank() == 0 ? outcome_with<Algebra>(comm, call, chosen)
                               : has_name && comm.rank() % 2
                                   ? outcome_with<Algebra>(comm, call, any_algorithm(call, name))
                                   : outcome_with<Algebra>(comm, call, named);
            expect(mixed == expected, "another outcome where ranks name it in several ways");
        }));
    });
    for (const std::string_view name : any_algorithm<Collective>::names()) {
        INFO(Collective::promise.name << ", " << name << ", " << size << " ranks");
        const any_algorithm chosen(call, name);
        CHECK(chosen.name() == name);
    }
}

}  // namespace

TEST_CASE("an algorithm that is chosen at run time does what it does as a type") {
    for (const int size : {1, 2, 5, 8}) {
        check_all_algorithms<words>(allfold::barrier, size);
        check_all_algorithms<words>(allfold::broadcast, size);
        check_all_algorithms<words>(allfold::scatter, size);
        check_all_algorithms<words>(allfold::gather, size);
        check_all_algorithms<words>(allfold::all_gather, size);
        check_all_algorithms<words>(allfold::all_to_all, size);
        check_all_algorithms<matrices>(allfold::reduce, size);
        check_all_algorithms<matrices>(allfold::all_reduce, size);
        check_all_algorithms<matrices>(allfold::reduce_scatter, size);
        check_all_algorithms<matrices>(allfold::inclusive_scan, size);
        check_all_algorithms<matrices>(allfold::exclusive_scan, size);
    }
}

TEST_CASE("an algorithm is found by its name, however that is spelled") {
    using all_reduce_algorithm = any_algorithm<std::remove_const_t<decltype(allfold::all_reduce)>>;
    CHECK(all_reduce_algorithm::names() == std::vector<std::string_view>{"all-read", "circulant", "direct", "flat tree",
                                                                         "recursive doubling", "recursive halving",
                                                                         "ring", "two-level", "two-level halving"});
    for (const char* spelled : {"recursive doubling", "recursive_doubling", "Recursive-Doubling"})
        CHECK(all_reduce_algorithm(allfold::all_reduce, spelled).name() == std::string_view("recursive doubling"));
    for (const char* type : {"binomial", "scatter_all_gather", "Two-Level"})  // as the documentation lists them
        CHECK_NOTHROW(any_algorithm(allfold::broadcast, type));
    try {
        const any_algorithm unknown(allfold::broadcast, "rings");
        FAIL(unknown.name());
    } catch (const allfold::error& e) {
        CHECK(e.code() == errc::bad_argument);
        CHECK(e.what() ==
              std::string_view("broadcast has no algorithm 'rings', but binomial tree, direct, scatter and all-gather, "
                               "two-level"));
    }
}

TEST_CASE("a plan counts the bytes of blocks as a call cuts them, into whole cache lines") {
    const auto sent = [](std::size_t bytes) {
        return allfold::all_reduce.plan(4, bytes, sum(), allfold::ring()).bytes_sent();
    };
    CHECK(sent(64) == 2 * 64);  // a single block, which is not cut
    CHECK(sent(1024) == 2 * 3 * 256);
}

TEST_CASE("a plan has no schedule of a rank that does not exist") {
    const allfold::plan planned = allfold::all_reduce.plan(4, 100, sum());
    for (const int rank : {-1, 4}) {
        const std::string why = "plan: rank " + std::to_string(rank) + " is not in [0, 4)";
        CHECK_THROWS_WITH(planned.schedule(rank), why);
        CHECK_THROWS_WITH(planned.bytes_sent_by(rank), why);
    }
}

TEST_CASE("an operator that has a name is no algorithm") {
    CHECK_NOTHROW(on_ranks(2, [](auto& comm) {
        std::vector<int> x{12 * (comm.rank() + 1)}, y(1);
        allfold::all_reduce(comm, x, y, greatest_common_divisor{});
        expect(y[0] == 12, "out of place");
        allfold::all_reduce(comm, x, greatest_common_divisor{});
        expect(x == y, "in place");
    }));
}

TEST_CASE("an algorithm chosen at run time runs, and is in the plan") {
    any_algorithm chosen(allfold::all_reduce, "ring");
    CHECK(allfold::all_reduce.plan(4, 100, sum(), chosen).name() == std::string_view("ring"));
    chosen = any_algorithm(allfold::all_reduce, allfold::mirrored_doubling{});
    CHECK(allfold::all_reduce.plan(4, 100, sum(), chosen).name() == std::string_view("mirrored doubling"));
    on_ranks(4, [&](auto& comm) {
        std::vector<int> x(10, comm.rank()), y(10);
        allfold::all_reduce.start(comm, x, y, sum(), chosen).wait();
        expect(y == std::vector(10, 6), "start");
        auto prepared = [&] {
            const any_algorithm soon_gone(allfold::all_reduce, "flat_tree");
            return allfold::all_reduce.prepare(comm, x, y, sum(), soon_gone);
        }();
        for (int turn = 1; turn <= 3; ++turn) {
            x.assign(10, comm.rank() * turn);
            prepared();
            expect(y == std::vector(10, 6 * turn), "prepare");
        }
    });
}

namespace {

/// A chain of all ranks that starts at the root, which the caller tells how many segments to send.
struct chain {
    static constexpr const char* name = "chain";
    static constexpr bool has_parameters = true;
    int segments;

    class broadcast : public allfold::schedule_of<chain> {
      public:
        static constexpr order keeps = order::tree;
        constexpr broadcast(const allfold::setting& where, const chain& a) : schedule_of(where), n_(a.segments) {}
        [[nodiscard]] constexpr int blocks() const { return n_; }
        [[nodiscard]] constexpr int rounds() const { return size() > 1 ? n_ + size() - 2 : 0; }
        [[nodiscard]] constexpr allfold::step operator[](int round) const {
            using allfold::block_set, allfold::peers, allfold::slot;
            const int v = (rank() - root() + size()) % size(), sent = round - v, received = sent + 1;
            allfold::step s{.source = v == 0 ? slot::input : slot::result};
            if (round == 0 && v == 0) s.local = allfold::keep_input(block_set::all(n_));
            if (v + 1 < size() && sent >= 0 && sent < n_) {
                s.to = peers::one((rank() + 1) % size());
                s.send = block_set::one(sent);
            }
            if (v > 0 && received >= 0 && received < n_) {
                s.from = peers::one((rank() - 1 + size()) % size());
                s.receive = block_set::one(received);
            }
            return s;
        }

      private:
        int n_;
    };
};

}  // namespace

TEST_CASE("an all_to_all by sizes takes an algorithm chosen at run time") {
    on_ranks(3, [](auto& comm) {
        const int r = comm.rank();
        const std::vector<int> in{r, r, r}, sizes{1, 2, 0};
        std::vector<int> out;
        allfold::all_to_all(comm, in, sizes, out, any_algorithm(allfold::all_to_all, "pairwise"));
        const std::vector<std::vector<int>> expected{{0, 1, 2}, {0, 0, 1, 1, 2, 2}, {}};
        expect(out == expected[static_cast<std::size_t>(r)], "called");
        out.clear();
        allfold::partition layout = allfold::partition::even(0, 1);
        allfold::operation started = [&] {
            const any_algorithm soon_gone(allfold::all_to_all, "direct");
            return allfold::all_to_all.start(comm, in, sizes, out, layout, soon_gone);
        }();
        started.wait();
        expect(out == expected[static_cast<std::size_t>(r)], "started");
    });
    SUCCEED();
}

TEST_CASE("an algorithm chosen at run time keeps its parameters") {
    const any_algorithm chosen(allfold::broadcast, chain{4});
    CHECK(allfold::broadcast.plan(3, 100, chosen).schedule(0).blocks() == 4);
    on_ranks(3, [&](auto& comm) {
        std::string word = comm.rank() == 1 ? "from rank 1" : "";
        allfold::broadcast(comm, word, allfold::root{1}, chosen, allfold::proved_first{});
        expect(word == "from rank 1", "broadcast");
    });
    for (const outcome& each : outcomes_on_ranks(3, [&](auto& comm) {
             std::string word = "same";
             allfold::broadcast(comm, word, any_algorithm(allfold::broadcast, chain{comm.rank() == 2 ? 5 : 4}));
         })) {
        INFO(each.text);
        CHECK((each.code == errc::mismatch || each.code == errc::peer_failed));
    }
}

TEST_CASE("what an algorithm cannot do is refused when it is called") {
    const auto refused = [](int size, const char* words, auto call) {
        for (const outcome& each : outcomes_on_ranks(size, [&](auto& comm) {
                 std::vector<std::string> x(2, "x");
                 try {
                     call(comm, x);
                 } catch (...) {
                     expect(x == std::vector<std::string>(2, "x"), "the data have been written");
                     throw;
                 }
             })) {
            INFO(each.text);
            CHECK((each.code == errc::bad_argument || each.code == errc::peer_failed));
            CHECK(each.says(words));
        }
    };
    refused(3, "ring keeps order::any, but the call needs order::rank", [](auto& comm, auto& x) {
        allfold::all_reduce(comm, x, std::plus<>(), any_algorithm(allfold::all_reduce, "ring"));
    });
    refused(3, "two-level keeps order::rank, but the call needs order::tree", [](auto& comm, auto& x) {
        allfold::all_reduce(comm, x, std::plus<>(), any_algorithm(allfold::all_reduce, "two_level"), order::tree);
    });
    refused(3, "mirrored doubling has no schedule for 3 ranks; it supports 1, 2, 4", [](auto& comm, auto& x) {
        allfold::all_reduce(comm, x, std::plus<>(), any_algorithm(allfold::all_reduce, allfold::mirrored_doubling{}));
    });
    refused(3, "Bruck needs blocks of equal length", [](auto& comm, auto& x) {
        std::vector<std::string> out;
        allfold::all_to_all(comm, x, std::vector{1, 0, 1}, out, any_algorithm(allfold::all_to_all, "bruck"));
    });
    refused(3, "Bruck needs blocks of equal length", [](auto& comm, auto& x) {
        std::vector<std::string> out;
        const std::vector<int> sizes{1, 0, 1};
        allfold::partition layout = allfold::partition::even(0, 1);
        allfold::all_to_all.start(comm, x, sizes, out, layout, any_algorithm(allfold::all_to_all, "bruck")).wait();
    });
    for (const outcome& each : outcomes_on_ranks(3, [](auto& comm) {
             int n = 1;
             allfold::all_reduce(comm, n, sum(),
                                 any_algorithm(allfold::all_reduce, comm.rank() == 1 ? "ring" : "direct"));
         })) {
        INFO(each.text);
        CHECK(each.says("ring"));
        CHECK(each.says("direct"));
    }
    for (const outcome& each : outcomes_on_ranks(2, [](auto& across) {
             allfold::run(across, 2, [](auto& comm) {
                 int n = 1;
                 allfold::all_reduce(comm, n, sum(), any_algorithm(allfold::all_reduce, "two_level"));
                 expect(n == 4, "two levels");
                 allfold::all_reduce(comm, n, sum(), any_algorithm(allfold::all_reduce, "ring"));
             });
         })) {
        INFO(each.text);
        CHECK(each.says("ring has no schedule for ranks in groups of 2, of which only the first communicates"));
    }
}
