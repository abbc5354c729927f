// SPDX-License-Identifier: BSL-1.0
#include "examples/attention/ranks.hpp"

template std::vector<double> attention::attend_on_ranks(problem<double>&, team, rank_options, report&,
                                                        allfold::trace_recorder&);
#ifdef ALLFOLD_ATTENTION_MPI
template void attention::attend_with_rank_0<double>(team);
#endif
