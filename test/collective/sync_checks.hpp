// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "allfold/algebra/standard_functors.hpp"
#include "allfold/collective.hpp"
#include "test/support/oracle.hpp"

namespace test {

inline constexpr allfold::in_sync every_in[] = {allfold::in_sync::none, allfold::in_sync::mine, allfold::in_sync::all};
inline constexpr allfold::out_sync every_out[] = {allfold::out_sync::none, allfold::out_sync::mine,
                                                  allfold::out_sync::all};

inline std::string name_of(allfold::in_sync in, allfold::out_sync out) {
    return "in " + std::to_string(static_cast<int>(in)) + ", out " + std::to_string(static_cast<int>(out));
}

/// Checks that collectives give the same results in this mode as without it: called, started, and started repeatedly.
template <class Comm>
void check_sync_mode(Comm& comm, allfold::in_sync in, allfold::out_sync out) {
    const int size = comm.size(), self = comm.rank();
    const auto letter = [](int rank) { return std::string(1, static_cast<char>('a' + rank)); };
    std::string all, below;
    for (int r = 0; r < size; ++r) {
        if (r == self) below = all;
        all += letter(r);
    }
    const auto mode = name_of(in, out);
    for (const std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{3000}}) {
        std::vector<std::string> x(n, letter(self)), y(n);
        const auto is = [&](const std::vector<std::string>& got, const std::string& wanted) {
            for (const auto& each : got) expect(each == wanted, mode + ": got " + each + ", wanted " + wanted);
        };
        allfold::all_reduce(comm, x, y, std::plus(), in, out);
        is(y, all);
        allfold::inclusive_scan.start(comm, x, y, std::plus(), out, in).wait();
        is(y, below + letter(self));
        std::vector<std::string> at_root(n, "?");
        allfold::reduce(comm, x, at_root, std::plus(), in, out, allfold::root{size - 1});
        is(at_root, self == size - 1 ? all : "?");
        allfold::persistent scan = allfold::exclusive_scan.prepare(comm, x, y, std::plus(), in, out);
        for (int turn = 0; turn < 3; ++turn) {
            y.assign(n, "?");
            scan();
            if (self > 0) is(y, below);
            allfold::barrier(comm);
        }
        std::vector<std::string> gathered(n * static_cast<std::size_t>(size));
        allfold::gather(comm, x, gathered, in, out);
        if (self == 0 && n > 0) expect(gathered.front() == "a" && gathered.back() == letter(size - 1), mode);
        allfold::barrier(comm);
    }
}

template <class Comm>
void check_sync_modes(Comm& comm) {
    for (const auto in : every_in)
        for (const auto out : every_out) check_sync_mode(comm, in, out);
}

}  // namespace test
