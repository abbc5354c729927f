// SPDX-License-Identifier: BSL-1.0

/// @file
/// What exploring a program costs: executions per second on one core, and memory after few and after many of them.
///
///     build/bench/bench/explore [SECONDS]     explores each program repeatedly for that long (default 2 s)

#include "allfold/analysis/explore.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/collective/all_reduce.hpp"
#include "allfold/message.hpp"

namespace {

using allfold::explored_communicator;

/// Every other rank sends so many messages to rank 0, which receives them from any rank.
struct senders_to_one {
    int messages;
    int operator()(explored_communicator& comm) const {
        int sum = 0;
        if (comm.rank() != 0)
            for (int i = 0; i < messages; ++i) allfold::send(comm, i, allfold::to{0});
        else
            for (int i = 0, x = 0; i < messages * (comm.size() - 1); ++i, sum += x)
                allfold::receive(comm, x, allfold::from{allfold::any});
        return sum;
    }
};
/// Two all_reduce operations in flight; each rank waits for any of them.
int two_in_flight(explored_communicator& comm) {
    std::array<int, 2> x{comm.rank(), 1};
    std::array<allfold::operation, 2> all{allfold::all_reduce.start(comm, x[0], allfold::sum()),
                                          allfold::all_reduce.start(comm, x[1], allfold::sum())};
    for (int i = 0; i < 2; ++i) static_cast<void>(allfold::wait_any(all));
    return x[0] + x[1];
}

/// The median over explorations that are repeated for a while.
template <class Program>
[[nodiscard]] double executions_a_second(Program program, double seconds) {
    std::vector<double> rates;
    const auto begin = std::chrono::steady_clock::now();
    while (rates.size() < 5 || std::chrono::steady_clock::now() - begin < std::chrono::duration<double>(seconds)) {
        const auto found = allfold::explore(3, program);
        rates.push_back(static_cast<double>(found.executions() + found.redundant()) / found.seconds());
    }
    std::ranges::nth_element(rates, rates.begin() + static_cast<std::ptrdiff_t>(rates.size() / 2));
    return rates[rates.size() / 2];
}

/// The peak memory of this process so far. (`getrusage` would count the process that started it.)
[[nodiscard]] double peak_mebibytes() {
    std::ifstream status("/proc/self/status");
    for (std::string word; status >> word;)
        if (double kibibytes = 0; word == "VmHWM:" && status >> kibibytes) return kibibytes / 1024;
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    constexpr double wanted = 20000;
    char* end = nullptr;
    const double seconds = argc > 1 ? std::strtod(argv[1], &end) : 2;
    if (argc > 2 || (argc > 1 && (end == argv[1] || *end != '\0' || !(seconds >= 0 && seconds < 1000)))) {
        std::fputs("explore [SECONDS]: for each of two programs, from 0 to 1000\n", stderr);
        return 2;
    }
    std::printf("%-52s %14s %12s\n", "exploring, 3 ranks", "executions/s", "of 20,000/s");
    const auto show = [](const char* what, double rate) {
        std::printf("%-52s %14.0f %12.1f\n", what, rate, rate / wanted);
    };
    show("6 messages to one rank, which takes any", executions_a_second(senders_to_one{3}, seconds));
    show("two all_reduce in flight, waited for by wait_any", executions_a_second(two_in_flight, seconds));
    std::printf("\n%-52s %14s\n", "20 messages to one rank, executions", "peak, MiB");
    for (const std::uint64_t executions : {100u, 1000u, seconds < 1 ? 1000u : 100000u}) {
        allfold::explore_options options;
        options.executions = executions;
        const auto found = allfold::explore(3, senders_to_one{10}, options);
        std::printf("%-52llu %14.1f\n", static_cast<unsigned long long>(found.executions()), peak_mebibytes());
    }
}
