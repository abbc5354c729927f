// SPDX-License-Identifier: BSL-1.0
// expect: allfold: between processes only their first threads talk: name two_level, two_level_halving or no algorithm

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "allfold/allfold.hpp"
#include "allfold/transport/hierarchy.hpp"

struct message {
    std::uint32_t signature() const { return 0; }
    std::size_t bytes() const { return 0; }
    std::byte* packed() const { return nullptr; }
    std::span<const allfold::part> parts() const { return {}; }
};

struct process {
    static constexpr bool shares_memory = false;
    using arrival_type = message;
    int rank() const { return 0; }
    int size() const { return 1; }
    allfold::background& background() { return operations; }
    allfold::lane open(const allfold::signature&, unsigned) { return 0; }
    std::optional<allfold::signature> announced(int, allfold::lane) const { return std::nullopt; }
    bool lends(std::size_t, bool) const { return false; }
    bool try_post(int, allfold::lane, const allfold::outgoing&) { return true; }
    template <class Sink>
    bool try_receive(int, allfold::lane, Sink&&) {
        return false;
    }
    template <allfold::pending_work Work>
    void wait(Work&, std::optional<std::chrono::steady_clock::time_point>) {}
    template <allfold::pending_work Work>
    bool look_around(Work&, std::optional<std::chrono::steady_clock::time_point>) {
        return false;
    }
    void abandon() {}

    allfold::background operations;
};

int main() {
    process processes;
    allfold::run(processes, 2, [](auto& comm) {
        std::vector<float> x(4);
#ifdef ALLFOLD_MUST_COMPILE
        allfold::all_reduce(comm, x, allfold::sum{}, allfold::two_level{});
#else
        allfold::all_reduce(comm, x, allfold::sum{}, allfold::ring{});
#endif
    });
}
