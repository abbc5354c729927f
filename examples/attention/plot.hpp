// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <string>
#include <allfold/transport/traced.hpp>
namespace attention {
[[nodiscard]] inline std::string plot(const allfold::trace_recorder&, int, const std::string& , bool ) { return ""; }
}
