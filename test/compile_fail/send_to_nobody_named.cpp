// SPDX-License-Identifier: BSL-1.0
// expect: allfold: a send takes to{rank}, a receive or probe from{rank} or from{any}, an exchange both, each once

#include <vector>

#include "allfold/message.hpp"
#include "allfold/transport/self.hpp"

int main() {
    allfold::self comm;
    std::vector<float> x(4);
#ifdef ALLFOLD_MUST_COMPILE
    allfold::send(comm, x, allfold::to{0});
#else
    allfold::send(comm, x, allfold::from{0});
#endif
}
