// SPDX-License-Identifier: BSL-1.0
#include "test/message/support/predicted.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "allfold/analysis/explored_communicator.hpp"
#include "test/analysis/each_execution.hpp"

template class allfold::detail::engine<allfold::explored_communicator>;

namespace test {

outcomes outcomes_of(const random_program& program, allfold::explore_options options) {
    outcomes all;
    std::vector<std::uint32_t> now(static_cast<std::size_t>(program.size()));
    std::vector<bool> have_returned(now.size());
    options.executions = 1000;
    after_each_execution(options, [&] {
        if (std::ranges::find(have_returned, false) == have_returned.end()) all.seen.insert(now);
    });
    all.found = allfold::explore(
        program.size(),
        [&](allfold::explored_communicator& comm) {
            const auto rank = static_cast<std::size_t>(comm.rank());
            have_returned[rank] = false;
            program.run(comm, now[rank]);
            have_returned[rank] = true;
        },
        options);
    for (const allfold::finding& each : all.found.findings()) all.faults.insert(each.what);
    return all;
}

outcomes predicted(const random_program& program) {
    allfold::explore_options options;
    options.sends = program.may_wait() ? allfold::standard_sends::each_by_itself : allfold::standard_sends::held;
    options.tests = 20;  // as often in vain as it may happen
    return outcomes_of(program, options);
}

}  // namespace test
