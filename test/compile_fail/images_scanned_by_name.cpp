// SPDX-License-Identifier: BSL-1.0
// expect: allfold: an inclusive_scan of images runs an exclusive_scan of their folds: choose an algorithm for that, with any_algorithm(exclusive_scan, ...)
#include "allfold/allfold.hpp"

void caller(allfold::thread_communicator& comm, int& a, int& b) {
#ifdef ALLFOLD_MUST_COMPILE
    const allfold::any_algorithm direct(allfold::exclusive_scan, "direct");
#else
    const allfold::any_algorithm direct(allfold::inclusive_scan, "direct");
#endif
    allfold::inclusive_scan(comm, allfold::images(a, b), allfold::sum(), direct);
}
