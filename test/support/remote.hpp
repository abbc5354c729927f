// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>

#include "allfold/transport/communicator.hpp"
#include "allfold/transport/forwarding.hpp"
#include "allfold/transport/thread.hpp"

namespace test {

/// Ranks that do not share memory, or behave as if they did not: all messages are copied. The group needs `roomy`
/// buffers.
class remote : public allfold::forwarding<allfold::thread_communicator> {
  public:
    static constexpr bool shares_memory = false;
    using forwarding::forwarding;

    [[nodiscard]] bool lends(std::size_t, bool) const { return false; }
};

static_assert(allfold::communicator<remote>);

inline constexpr allfold::thread_tuning roomy{.eager_bytes = std::size_t{1} << 20};

}  // namespace test
