// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>

#include "allfold/transport/communicator.hpp"
#include "allfold/transport/forwarding.hpp"
#include "allfold/transport/thread.hpp"

namespace test {

/// Ranks that do not share memory, or behave as if they did not: all messages are copied, and the group needs `roomy`
/// buffers; or else long ones are lent, as over MPI.
class remote : public allfold::forwarding<allfold::thread_communicator> {
  public:
    static constexpr bool shares_memory = false;
    explicit remote(allfold::thread_communicator& base, bool lends = false) noexcept
        : forwarding(base), lends_(lends) {}

    [[nodiscard]] bool lends(std::size_t bytes, bool copyable) const { return lends_ && base().lends(bytes, copyable); }

  private:
    bool lends_;
};

static_assert(allfold::communicator<remote>);

inline constexpr allfold::thread_tuning roomy{.eager_bytes = std::size_t{1} << 20};

}  // namespace test
