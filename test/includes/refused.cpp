// SPDX-License-Identifier: BSL-1.0
// Someone else's program. libstdc++ undefines min and max if it is included after they are defined.
#include <cstddef>
#ifdef ALLFOLD_INCLUDED_BEFORE
#include "allfold/error.hpp"
#endif
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
