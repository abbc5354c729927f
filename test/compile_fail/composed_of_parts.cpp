// SPDX-License-Identifier: BSL-1.0
// expect: allfold: composed<> takes schedules without also(), scratch(), sent_to() and received_from(): write a schedule of your own instead

#include "allfold/allfold.hpp"

#ifdef ALLFOLD_MUST_COMPILE
using first = allfold::ring::reduce_scatter;
#else
using first = allfold::near_first::reduce_scatter;
#endif

int main() { return allfold::composed<first, allfold::ring::all_gather>({0, 2}).blocks() - 2; }
