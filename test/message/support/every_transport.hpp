// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <initializer_list>
#include <string>

#include "allfold/error.hpp"
#include "allfold/message.hpp"
#include "allfold/transport/hierarchy.hpp"
#include "test/support/oracle.hpp"
#include "test/support/ranks.hpp"
#include "test/support/remote.hpp"

/// @file
/// Runs tests of messages on ranks of every kind, and checks the errors that they report.

namespace test {

using allfold::any;
using allfold::attach_buffer;
using allfold::detach_buffer;
using allfold::errc;
using allfold::exchange;
using allfold::from;
using allfold::message;
using allfold::mode;
using allfold::none;
using allfold::operation;
using allfold::persistent;
using allfold::probe;
using allfold::receive;
using allfold::receive_tag;
using allfold::send;
using allfold::status;
using allfold::status_in;
using allfold::tag;
using allfold::to;
using allfold::try_probe;

/// Runs `fn` on threads of processes, for each number of processes that divides `size`; a thread stands in for each
/// process.
template <class Fn>
void on_hierarchies(int size, Fn fn) {
    for (int processes = 1; processes <= size; ++processes)
        if (size % processes == 0)
            on_ranks(processes, [&](auto& across) { allfold::run(across, size / processes, fn); });
}

/// Runs `fn` on threads that hold short messages, on threads that lend messages of more than a few elements, on ranks
/// that share no memory, and on threads of processes.
template <class Fn>
void on_all_transports(int size, Fn fn) {
    on_ranks(size, [&](auto& comm) { fn(comm); });
    on_ranks(size, [&](auto& comm) { fn(comm); }, noticing);
    on_ranks(
        size,
        [&](auto& comm) {
            remote far(comm);
            fn(far);
        },
        roomy);
    on_hierarchies(size, [&](auto& comm) { fn(comm); });
}

inline void expect_error(const outcome& o, allfold::errc code, std::initializer_list<const char*> parts) {
    expect(o.code == code, "another code: " + o.text);
    for (const char* part : parts) expect(o.says(part), "\"" + o.text + "\" does not say " + part);
}

}  // namespace test
