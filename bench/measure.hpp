// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <sched.h>
#include <sys/resource.h>
#include <vector>

/// @file
/// How every contestant is timed, whether its ranks are threads or processes.

namespace bench {

[[nodiscard]] inline double now() {  // seconds
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Keeps the compiler from dropping or moving accesses to memory.
inline void keep(const void* memory) { asm volatile("" : : "r"(memory) : "memory"); }

inline void relax() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

/// The CPUs that this process may use.
[[nodiscard]] inline std::vector<int> processors() {
    static const std::vector<int> found = [] {
        cpu_set_t allowed;
        CPU_ZERO(&allowed);
        sched_getaffinity(0, sizeof allowed, &allowed);
        std::vector<int> numbers;
        for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
            if (CPU_ISSET(cpu, &allowed)) numbers.push_back(cpu);
        return numbers;
    }();
    return found;
}

[[nodiscard]] inline bool oversubscribed(int ranks) { return ranks > static_cast<int>(processors().size()); }

/// Pins the calling thread to its rank's CPU, even if several ranks share one: left alone, they are not spread evenly
/// for the first half second, and the first contestant would be measured with three of four ranks on one of two CPUs.
inline void pin(int rank) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(processors()[static_cast<std::size_t>(rank) % processors().size()], &one);
    sched_setaffinity(0, sizeof one, &one);
}

/// Low and high are samples that lie as far from the least as from the greatest; half of all, or somewhat more, lie
/// between them.
struct summary {
    double median = 0, low = 0, high = 0;  // seconds a call
    int samples = 0;
};

[[nodiscard]] inline summary summarize(std::vector<double> samples) {
    std::ranges::sort(samples);
    const std::size_t last = samples.size() - 1, quarter = last / 4;
    return {samples[(last + 1) / 2], samples[quarter], samples[last - quarter], static_cast<int>(samples.size())};
}

/// Several times a time slice (4 ms) if ranks share CPUs; well below one if they do not, so that another program spoils
/// only a few batches.
struct pace {
    double batch_seconds;
    std::size_t samples;
};
[[nodiscard]] inline pace pace_for(int ranks) { return oversubscribed(ranks) ? pace{20e-3, 5} : pace{0.5e-3, 11}; }

[[nodiscard]] inline long preemptions() {
    rusage used;
    getrusage(RUSAGE_THREAD, &used);
    return used.ru_nivcsw;
}

/// Times `call` in batches; a sample is the time of the slowest rank divided by the number of calls in the batch. If
/// every rank has its own CPU, batches in which another program took one away do not count, provided that enough others
/// are left.
///
/// A group has `size()`, `barrier()` and `max(double)`, which every rank calls alike.
template <class Group, class Call>
[[nodiscard]] summary measure(Group& group, Call&& call) {
    const pace wanted = pace_for(group.size());
    bool disturbed = false;
    const auto batch = [&](long calls) {
        group.barrier();
        const long before = preemptions();
        const double start = now();
        for (long i = 0; i < calls; ++i) call();
        const double seconds = now() - start;
        disturbed = group.max(preemptions() > before ? 1.0 : 0.0) > 0;
        return group.max(seconds);
    };

    batch(1);
    long calls = 1;
    for (double seconds = batch(1); seconds < 0.7 * wanted.batch_seconds && calls < 1 << 22; seconds = batch(calls)) {
        const double factor = std::clamp(wanted.batch_seconds / std::max(seconds, 1e-9), 1.0, 8.0);
        calls = std::max(calls + 1, static_cast<long>(static_cast<double>(calls) * factor));
    }

    std::vector<double> clean, all;
    const std::size_t enough = calls == 1 ? 3 : wanted.samples;  // one call takes long enough
    const double start = now();
    const auto patient = [&] { return group.max(now() - start) < 0.5; };
    while (clean.size() < enough && (all.size() < enough || patient())) {
        const double sample = batch(calls) / static_cast<double>(calls);
        all.push_back(sample);
        if (!disturbed || oversubscribed(group.size())) clean.push_back(sample);
    }
    return summarize(clean.size() >= 3 ? clean : all);
}

}  // namespace bench
