// SPDX-License-Identifier: BSL-1.0
#include "examples/attention/ranks.hpp"

template std::vector<float> attention::attend_on_ranks(const problem<float>&, int, const merge_options&, report&,
                                                       allfold::trace_recorder&);
