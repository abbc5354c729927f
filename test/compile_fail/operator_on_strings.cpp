// SPDX-License-Identifier: BSL-1.0
// expect: allfold: the operator cannot be called as T(const T&, const T&) on this element type: give it such a const call operator
#include <functional>
#include <string>
#include <vector>

#include "allfold/allfold.hpp"

void caller(allfold::thread_communicator& comm, std::vector<std::string>& words) {
#ifdef ALLFOLD_MUST_COMPILE
    allfold::all_reduce(comm, words, std::plus<>());
#else
    allfold::all_reduce(comm, words, allfold::product());
#endif
}
