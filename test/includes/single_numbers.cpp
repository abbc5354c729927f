// SPDX-License-Identifier: BSL-1.0
// A program of single numbers on the stack, which an optimising compiler knows to have nothing beside them: it must not
// warn.
#include <vector>

#include "allfold/algebra/top_k.hpp"
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

allfold::top<int, 1> greatest_of(const std::vector<allfold::located<int>>& values) {
    allfold::top<int, 1> best;
    for (const auto& x : values) best.insert(x);
    return best;
}

}  // namespace

int main() {
    if (greatest_of({{1, 0}, {2, 1}}).found()[0].value != 2) throw "another number";
    allfold::run(2, [](auto& comm) {
        if (exchanged_with(comm, 'a') != '\xe5' || exchanged_with(comm, 2.0) != 10.0) throw "another number";
    });
}
