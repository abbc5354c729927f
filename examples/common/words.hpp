// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <string>

namespace examples {

/// "1 rank", "2 ranks"
[[nodiscard]] inline std::string counted(std::size_t n, const std::string& noun) {
    return std::to_string(n) + " " + noun + (n == 1 ? "" : "s");
}
[[nodiscard]] inline std::string counted(int n, const std::string& noun) {
    return counted(static_cast<std::size_t>(n), noun);
}

/// "there is 1 rank", "there are 2 ranks"
[[nodiscard]] inline std::string there_are(std::size_t n, const std::string& noun) {
    return (n == 1 ? "there is " : "there are ") + counted(n, noun);
}

}  // namespace examples
