// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "bench/stage.hpp"
#include "bench/workload.hpp"
#include <allfold/message.hpp>

/// @file
/// The rows of messages, as allfold does them on any transport, and where their messages are sent.

namespace bench {

/// The rank with which a rank exchanges messages in rows of pairs.
[[nodiscard]] inline int partner_of(int rank) { return rank ^ 1; }

namespace ours {

/// There and back, one after the other.
template <class Comm>
void ping_pong(Comm& comm, std::span<const float> input, std::span<float> output) {
    using namespace allfold;
    const int partner = partner_of(comm.rank());
    if (comm.rank() < partner) {
        send(comm, input, to{partner});
        receive(comm, output, from{partner});
    } else {
        receive(comm, output, from{partner});
        send(comm, input, to{partner});
    }
}

/// Many messages to the partner, and as many from it, at the same time.
template <class Comm>
void message_rate(Comm& comm, const auto& inputs, const auto& outputs) {
    using namespace allfold;
    const int partner = partner_of(comm.rank());
    std::array<operation, messages_in_flight> received, sent;
    for (std::size_t i = 0; i < messages_in_flight; ++i) received[i] = receive.start(comm, outputs[i], from{partner});
    for (std::size_t i = 0; i < messages_in_flight; ++i) sent[i] = send.start(comm, inputs[i], to{partner});
    wait_all(sent);
    wait_all(received);
}

}  // namespace ours

/// The ranks as a periodic grid: 2 of them along x, and then along y, as long as their number is even, the rest along
/// z. Neighbours are below and above in x, y, z.
class neighbours {
  public:
    neighbours(int rank, int size) {
        const std::array<int, 3> extents = extents_of(size);
        for (std::size_t axis = 0, stride = 1; axis < 3; ++axis) {
            const int extent = extents[axis], step = static_cast<int>(stride), here = rank / step % extent;
            const auto at = [&](int there) { return rank + (there - here) * step; };
            ranks_[2 * axis] = at((here + extent - 1) % extent);
            ranks_[2 * axis + 1] = at((here + 1) % extent);
            stride *= static_cast<std::size_t>(extent);
        }
    }
    [[nodiscard]] int operator[](std::size_t face) const { return ranks_[face]; }

  private:
    [[nodiscard]] static std::array<int, 3> extents_of(int size) {
        std::array<int, 3> extents{1, 1, 1};
        for (std::size_t axis = 0; size % 2 == 0 && axis < 2; ++axis, size /= 2) extents[axis] = 2;
        extents[2] = size;
        return extents;
    }
    std::array<int, faces_of_a_cube> ranks_{};
};

/// The face at the other end of its axis.
[[nodiscard]] constexpr std::size_t opposite_of(std::size_t face) { return face ^ 1u; }

template <class T>
[[nodiscard]] std::span<T> face_of(std::span<T> all, std::size_t face) {
    const std::size_t n = all.size() / faces_of_a_cube;
    return all.subspan(face * n, n);
}

/// Floats of six faces, each of which is received from the opposite side of a neighbour.
struct faces_of_floats : sum_of_floats {
    [[nodiscard]] static bool right(const buffer& output, int rank, int ranks) {
        const neighbours around(rank, ranks);
        const auto x = output.all<const element>();
        for (std::size_t face = 0; face < faces_of_a_cube; ++face) {
            const auto mine = face_of(x, face);
            if (!are_of(mine, around[face], opposite_of(face) * mine.size())) return false;
        }
        return true;
    }
};

namespace ours {

/// Sends each rank's faces to its neighbours. The tag of a face is the side that it comes from.
template <class Comm>
void halo(Comm& comm, const neighbours& around, std::span<const float> input, std::span<float> output) {
    using namespace allfold;
    std::array<operation, 2 * faces_of_a_cube> all;
    for (std::size_t face = 0; face < faces_of_a_cube; ++face)
        all[face] =
            receive.start(comm, face_of(output, face), from{around[face]}, tag{static_cast<int>(opposite_of(face))});
    for (std::size_t face = 0; face < faces_of_a_cube; ++face)
        all[faces_of_a_cube + face] =
            send.start(comm, face_of(input, face), to{around[face]}, tag{static_cast<int>(face)});
    wait_all(all);
}

}  // namespace ours
}  // namespace bench
