// SPDX-License-Identifier: BSL-1.0
#include "allfold/message.hpp"

#include <array>
#include <vector>

#include "allfold/collective.hpp"
#include "test/support/catch.hpp"
#include "test/support/oracle.hpp"
#include "test/support/ranks.hpp"
#include "test/support/remote.hpp"

using namespace test;
using namespace allfold;

TEST_CASE("ping-pong") {
    on_ranks(2, [](auto& comm) {
        for (const std::size_t n : {0u, 1u, 1000u, 100000u})
            for (int i = 0; i < 20; ++i) {
                std::vector<int> x(n, i), y(n, -1);
                const int other = 1 - comm.rank();
                if (comm.rank() == 0) {
                    send(comm, x, to{other});
                    receive(comm, y, from{other});
                } else {
                    receive(comm, y, from{other});
                    send(comm, y, to{other});
                }
                expect(x == y, "wrong");
            }
    });
    SUCCEED();
}
