// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <stdexcept>
#include <string>

/// @file
/// The one exception type of the library.

namespace allfold {

/// What went wrong, for programs; `error::what()` says it for people.
enum class errc {
    mismatch,       ///< ranks disagree: another collective, size, type, operator or root
    truncated,      ///< a message is shorter or longer than the receiver expects
    bad_rank,       ///< a rank or root outside [0, size)
    bad_partition,  ///< block sizes that do not add up
    bad_argument,   ///< null data with elements, a shape that does not fit
    overlap,        ///< input and output overlap without being the same
    timeout,        ///< a deadline passed
    peer_failed,    ///< another rank threw, or left while it was waited for
    transport,      ///< the transport itself failed
};

/// Thrown by every collective and transport. The text names the collective, the rank, the peer and both figures.
class error : public std::runtime_error {
  public:
    error(errc code, const std::string& text) : std::runtime_error(text), code_(code) {}
    [[nodiscard]] errc code() const noexcept { return code_; }

  private:
    errc code_;
};

}  // namespace allfold
