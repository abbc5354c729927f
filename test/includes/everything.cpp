// SPDX-License-Identifier: BSL-1.0
// Every header, and enough calls to compile the bodies of their templates too.
// clang-format off: these macros come before all headers
#include "test/includes/macros.hpp"
// clang-format on

#include <chrono>
#include <complex>
#include <cstddef>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "every_header.hpp"

/// Functions of the library have types of this name inside.
struct state {};

template <class Comm>
static void use(Comm& comm) {
    using namespace allfold;
    const auto ranks = static_cast<std::size_t>(comm.size());
    std::vector<float> x(ranks, 1.0F), y(ranks), all(ranks * ranks);
    all_reduce(comm, x, sum{});
    all_reduce(comm, x, y, max{}, ring{});
    all_reduce(comm, x, min{}, order::tree, deadline{std::chrono::seconds(60)});
    broadcast(comm, x, root{0});
    reduce(comm, x, product{});
    inclusive_scan(comm, x, std::plus<>());
    exclusive_scan(comm, x, with_identity(commutative([](float a, float b) { return a + b; }), 0));
    reduce_scatter(comm, all, x, logical_or{});
    gather(comm, x, all);
    scatter(comm, all, x);
    permute(comm, x, y, shift{1}, proved_first{});
    std::vector<int> list(ranks);
    std::iota(list.begin(), list.end(), 0);
    permute(comm, x, destinations(list));
    all_gather(comm, x, all);
    all_to_all(comm, all, all, proved_first{});
    barrier(comm);
    all_reduce.start(comm, x, mean{}).wait();
    inclusive_scan.prepare(comm, x, sum{})();

    std::complex<double> z = 1;
    z = all_reduce(comm, z, sum{}) + broadcast(comm, z) + exclusive_scan(comm, std::complex<double>(1), sum{});
    located<float> lowest{1, 2};
    all_reduce(comm, lowest, min_loc{});
    std::vector<float> m(1), l(1), s(4);
    records softmax{m, l, tensor<float, 2>(s.data(), {1, 4})};
    all_reduce(comm, softmax, online_softmax{});
    float total = 0;
    reduce(comm, images(x, y), total, sum{});
    inclusive_scan(comm, distributed(x, block_cyclic{1, 0, ranks * ranks}),
                   distributed(y, block_cyclic{2, 1, ranks * ranks}), sum{}, order::global);
    static_cast<void>(all_reduce.plan(comm, 100, sum{}).name());
}

int main() {
    allfold::run(2, [](auto& comm) {
        use(comm);
        std::string word = "a";
        allfold::inclusive_scan(comm, word, std::plus<>());
    });
    allfold::self alone;
    allfold::trace_recorder recorder(1);
    allfold::traced comm(alone, recorder);
    use(comm);
#ifdef ALLFOLD_WITH_MPI
    allfold::mpi::run([](auto& processes) {
        use(processes);
        allfold::run(processes, 2, [](auto& threads) { allfold::barrier(threads); });
    });
#endif
#ifdef __SIZEOF_INT128__  // an integer according to <type_traits> in gnu++20 (see after_qt.cpp), but not in c++20
    static_assert(allfold::exact_operator<allfold::sum, allfold::detail::int128>);
    static_assert(allfold::operator_with_identity<allfold::min, allfold::detail::int128>);
#endif
    static_assert(allfold::proved(allfold::all_reduce, allfold::ring{}, 3));
}
