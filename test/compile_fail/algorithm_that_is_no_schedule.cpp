// SPDX-License-Identifier: BSL-1.0
// expect: allfold: this algorithm's type for the collective is not a schedule: it needs `keeps`, and blocks(), rounds() and operator[](round) that are const and return int, int and step

#include "allfold/allfold.hpp"

struct nothing_to_do {
    static constexpr const char* name = "nothing";

    struct broadcast : allfold::schedule_of<nothing_to_do> {
        using allfold::schedule_of<nothing_to_do>::schedule_of;
#ifdef ALLFOLD_MUST_COMPILE
        static constexpr allfold::order keeps = allfold::order::tree;
#endif
        [[nodiscard]] int blocks() const { return 1; }
        [[nodiscard]] int rounds() const { return 0; }
        [[nodiscard]] allfold::step operator[](int) const { return {}; }
    };
};

int main() {
    allfold::self comm;
    int x = 0;
    allfold::broadcast(comm, x, nothing_to_do{});
}
