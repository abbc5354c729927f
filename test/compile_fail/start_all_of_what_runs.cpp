// SPDX-License-Identifier: BSL-1.0
// expect: allfold: start_all starts what prepare returns (persistent): what start returns runs already

#include <vector>

#include "allfold/allfold.hpp"

#ifdef ALLFOLD_MUST_COMPILE
void caller(std::vector<allfold::persistent>& all) { allfold::start_all(all); }
#else
void caller(std::vector<allfold::operation>& all) { allfold::start_all(all); }
#endif
