// SPDX-License-Identifier: BSL-1.0
// A program of somebody else's. libstdc++ undefines min and max where it comes after them.
#include <cstddef>
#ifdef ALLFOLD_DEFINE_MIN
#define min(a, b) ((a) < (b) ? (a) : (b))
#endif
#ifdef ALLFOLD_DEFINE_MAX
#define max(a, b) ((a) < (b) ? (b) : (a))
#endif
#ifdef ALLFOLD_DEFINE_CHECK
#define check(assertion) ((void)(assertion))
#endif

#include "allfold/allfold.hpp"

int main() { return allfold::self{}.rank(); }
