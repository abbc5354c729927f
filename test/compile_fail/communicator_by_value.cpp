// SPDX-License-Identifier: BSL-1.0
// expect: allfold: what run() calls on each rank must take the communicator by reference, as in [&](auto& comm) { ... }

#include "allfold/transport/thread.hpp"

int main() {
#ifdef ALLFOLD_MUST_COMPILE
    allfold::run(2, [](auto& comm) { comm.progress(); });
#else
    allfold::run(2, [](auto comm) { comm.progress(); });
#endif
}
