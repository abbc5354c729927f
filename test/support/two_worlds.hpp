// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>

#include "allfold/transport/thread.hpp"
#include "test/support/watchdog.hpp"

namespace test {

/// Runs `fn(a, b)` on all ranks under a watchdog; a and b are two communicators of the same threads.
template <class Fn>
void on_two_communicators(int size, Fn fn, const allfold::thread_tuning& tuning = {}) {
    const watchdog watch("two communicators", std::chrono::seconds(40));
    allfold::thread_world second(size, tuning);
    allfold::run(
        size,
        [&](allfold::thread_communicator& a) {
            allfold::thread_communicator b = second.communicator(a.rank());
            fn(a, b);
        },
        tuning);
}

}  // namespace test
