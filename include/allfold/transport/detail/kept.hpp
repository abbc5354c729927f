// SPDX-License-Identifier: BSL-1.0
#pragma once

/// @file
/// What somebody keeps with a communicator, of which the transport knows nothing.

namespace allfold::detail {

class kept {
  public:
    kept() = default;
    kept(const kept&) = delete;
    kept& operator=(const kept&) = delete;
    virtual ~kept() = default;
};

}  // namespace allfold::detail
