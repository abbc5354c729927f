// SPDX-License-Identifier: BSL-1.0
// A program whose messages are single numbers on the stack, which an optimising compiler knows to have nothing beside
// them: it must not warn.
#include "allfold/message.hpp"
#include "allfold/transport/thread.hpp"

namespace {

template <class T>
T exchanged_with(allfold::thread_communicator& comm, T x) {
    using namespace allfold;
    const int other = 1 - comm.rank();
    T started{}, received{}, exchanged{}, prepared{};
    operation first = receive.start(comm, started, from{other});
    send(comm, x, to{other});
    first.wait();
    if (comm.rank() == 0) send(comm, x, to{other});
    receive(comm, received, from{other});
    if (comm.rank() == 1) send(comm, x, to{other});
    exchange(comm, x, to{other}, exchanged, from{other});
    persistent again = exchange.prepare(comm, x, to{other}, prepared, from{other});
    again();
    exchange(comm, x, to{other}, from{other});
    return static_cast<T>(started + received + exchanged + prepared + x);
}

}  // namespace

int main() {
    allfold::run(2, [](auto& comm) {
        if (exchanged_with(comm, 'a') != '\xe5' || exchanged_with(comm, 2.0) != 10.0) throw "another number";
    });
}
