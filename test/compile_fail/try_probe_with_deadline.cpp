// SPDX-License-Identifier: BSL-1.0
// expect: allfold: try_probe does not wait: it takes no deadline

#include <chrono>

#include "allfold/message.hpp"
#include "allfold/transport/self.hpp"

int main() {
    allfold::self comm;
#ifdef ALLFOLD_MUST_COMPILE
    static_cast<void>(allfold::try_probe(comm, allfold::from{0}));
#else
    static_cast<void>(allfold::try_probe(comm, allfold::from{0}, allfold::deadline{std::chrono::seconds(1)}));
#endif
}
