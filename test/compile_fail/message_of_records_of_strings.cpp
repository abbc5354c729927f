// SPDX-License-Identifier: BSL-1.0
// expect: allfold: records in a message must have trivially copyable elements: send each tensor separately

#include <string>
#include <vector>

#include "allfold/message.hpp"
#include "allfold/transport/self.hpp"

int main() {
    allfold::self comm;
    std::vector<std::string> x(4);
    std::vector<int> y(4);
#ifdef ALLFOLD_MUST_COMPILE
    allfold::send(comm, allfold::records{y, y}, allfold::to{0});
#else
    allfold::send(comm, allfold::records{x, y}, allfold::to{0});
#endif
}
