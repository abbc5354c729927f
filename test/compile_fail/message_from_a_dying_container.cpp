// SPDX-License-Identifier: BSL-1.0
// expect: allfold: this argument would be destroyed before the operation completes: pass a variable or a view

#include <vector>

#include "allfold/message.hpp"
#include "allfold/transport/self.hpp"

int main() {
    allfold::self comm;
    std::vector<float> x(4);
#ifdef ALLFOLD_MUST_COMPILE
    allfold::operation a = allfold::send.start(comm, x, allfold::to{0});
#else
    allfold::operation a = allfold::send.start(comm, std::vector<float>(4), allfold::to{0});
#endif
}
