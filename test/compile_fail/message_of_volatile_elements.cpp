// SPDX-License-Identifier: BSL-1.0
// expect: allfold: the elements are volatile: copy them to ordinary memory first

#include "allfold/message.hpp"
#include "allfold/transport/self.hpp"

int main() {
    allfold::self comm;
#ifdef ALLFOLD_MUST_COMPILE
    int x = 0;
#else
    volatile int x = 0;
#endif
    allfold::send(comm, x, allfold::to{0});
}
