// SPDX-License-Identifier: BSL-1.0
// Calls every collective once, on three threads: the comment beside each call says what the ranks hold afterwards.
#include <cstdio>
#include <span>
#include <vector>

#include "allfold/allfold.hpp"

using vec = std::vector<int>;

int main() {
    bool all_right = true;
    allfold::run(3, [&](allfold::communicator auto& comm) {
        const int r = comm.rank();
        bool right = true;
        const auto holds = [&](const vec& found, const vec& expected) { right = right && found == expected; };
        const vec operand{r, 10 * r};  // 0 0, 1 10 and 2 20
        const allfold::sum sum;

        vec x = operand;
        allfold::broadcast(comm, x, allfold::root{1});
        holds(x, {1, 10});  // what rank 1 had

        x = operand;
        allfold::all_reduce(comm, x, sum);
        holds(x, {3, 30});  // the sum, on all ranks

        vec total(2);
        allfold::reduce(comm, operand, total, sum, allfold::root{2});
        holds(total, r == 2 ? vec{3, 30} : vec{0, 0});  // the sum, on rank 2

        const vec column{1, 2, 3};
        vec own(1);
        allfold::reduce_scatter(comm, column, own, sum);
        holds(own, {3 * (r + 1)});  // block r of the sum

        vec whole(3);
        allfold::all_gather(comm, own, whole);
        holds(whole, {3, 6, 9});  // the blocks of all ranks

        vec gathered(r == 0 ? 3U : 0U);
        allfold::gather(comm, own, gathered, allfold::root{0});
        holds(gathered, r == 0 ? vec{3, 6, 9} : vec{});  // the same on rank 0 only

        own = {0};
        allfold::scatter(comm, gathered, own, allfold::root{0});
        holds(own, {3 * (r + 1)});  // and back: block r of what rank 0 has

        const vec for_each{10 * r, 10 * r + 1, 10 * r + 2};
        vec from_each(3);
        allfold::all_to_all(comm, for_each, from_each);
        holds(from_each, {r, 10 + r, 20 + r});  // block r of each rank

        vec neighbours(2);
        allfold::permute(comm, operand, neighbours, allfold::shift{1});
        holds(neighbours, r == 0 ? vec{2, 20} : vec{r - 1, 10 * (r - 1)});  // what the rank below had

        vec up_to(2);
        allfold::inclusive_scan(comm, operand, up_to, sum);
        holds(up_to, r == 0 ? vec{0, 0} : r == 1 ? vec{1, 10} : vec{3, 30});  // the sum of ranks 0 to r

        vec below(2);
        allfold::exclusive_scan(comm, operand, below, sum);
        holds(below, r < 2 ? vec{0, 0} : vec{1, 10});  // the sum of ranks before r

        int a = r, b = 1, count = 0;
        allfold::all_reduce(comm, allfold::images(a, b), count, sum);
        holds({count}, {6});  // the sum of the two operands of each rank

        vec elements{r, r + 3};  // of the array 0, 1, 2, 3, 4, 5, dealt out one by one
        const allfold::block_cyclic layout{.block = 1, .count = 6};
        int element_sum = 0;
        allfold::operation started =
            allfold::all_reduce.start(comm, allfold::distributed(elements, layout), element_sum, sum);
        started.wait();
        holds({element_sum}, {15});

        int least = r, step = 7 * r;
        allfold::together(comm, allfold::all_reduce.with(least, allfold::min{}),
                          allfold::broadcast.with(step, allfold::root{2}));
        holds({least, step}, {0, 14});  // two collectives as one operation

        int wrong = right ? 0 : 1;
        allfold::all_reduce(comm, wrong, sum);

        allfold::barrier(comm);  // nobody continues before all have arrived

        if (r == 0) all_right = wrong == 0;
    });
    std::puts(all_right ? "all ranks hold what they should" : "something is wrong");
    return all_right ? 0 : 1;
}
