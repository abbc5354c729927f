// SPDX-License-Identifier: BSL-1.0
#include <cstdio>
#include <string>
#include <vector>

#include <allfold/allfold.hpp>

int main() {
    allfold::run(4, [](auto& comm) {  // four ranks, one thread each
        std::vector<float> gradient(1000, static_cast<float>(comm.rank()));
        allfold::all_reduce(comm, gradient, allfold::sum{});  // in place: 0 + 1 + 2 + 3 everywhere

        const auto join = allfold::associative([](const std::string& a, const std::string& b) { return a + b; });
        std::string word(1, static_cast<char>('a' + comm.rank()));
        allfold::inclusive_scan(comm, word, join);  // your own operator, in rank order: a, ab, abc, abcd

        if (comm.rank() == 3) std::printf("%g %s\n", static_cast<double>(gradient[0]), word.c_str());
    });
}
