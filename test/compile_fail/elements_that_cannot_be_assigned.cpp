// SPDX-License-Identifier: BSL-1.0
// expect: allfold: received elements and folds are assigned, but this type cannot be: do without members that are const or references
#include <string>
#include <vector>

#include "allfold/allfold.hpp"

struct labelled {
#ifdef ALLFOLD_MUST_COMPILE
    std::string name;
#else
    const std::string name;
#endif
};

void caller(allfold::thread_communicator& comm, std::vector<labelled>& x) { allfold::broadcast(comm, x); }
