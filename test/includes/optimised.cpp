// SPDX-License-Identifier: BSL-1.0
// Compiled with optimisation. Single numbers on the stack, which the compiler then knows to have nothing beside them:
// it must not warn. And products of complex numbers for a processor with fused operations: all ranks must have the same
// bits, namely those of four products that are rounded before they are added.
#include <complex>
#include <cstdio>
#include <cstring>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/algebra/top_k.hpp"
#include "allfold/collective/all_reduce.hpp"
#include "allfold/message.hpp"
#include "allfold/schedule/recursive_doubling.hpp"
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

using complex = std::complex<double>;

complex product_of(const complex& a, const complex& b) {
    const volatile double rr = a.real() * b.real(), ii = a.imag() * b.imag(), ri = a.real() * b.imag(),
                          ir = a.imag() * b.real();
    return {rr - ii, ri + ir};
}
complex operand(int rank, std::size_t i) {
    return {1.0 / (3 + rank + double(i)), 0.7 - 1.0 / (2 + rank * 5 + double(i))};
}

bool same_bits(const std::vector<complex>& a, const std::vector<complex>& b) {
    return std::memcmp(a.data(), b.data(), a.size() * sizeof(complex)) == 0;
}

bool products_have_the_same_bits() {
    bool is_right = true;
    for (const std::size_t n : {std::size_t{1}, std::size_t{5}, std::size_t{1000}}) {
        std::vector<complex> wanted(n);
        for (std::size_t i = 0; i < n; ++i)
            wanted[i] = product_of(product_of(operand(0, i), operand(1, i)), operand(2, i));
        std::vector<std::vector<complex>> chosen(3), doubled(3);
        allfold::run(3, [&](auto& comm) {
            std::vector<complex> x(n);
            for (std::size_t i = 0; i < n; ++i) x[i] = operand(comm.rank(), i);
            auto y = x;
            allfold::all_reduce(comm, x, allfold::product{}, allfold::order::tree);
            allfold::all_reduce(comm, y, allfold::product{}, allfold::recursive_doubling{});
            chosen[static_cast<std::size_t>(comm.rank())] = x;
            doubled[static_cast<std::size_t>(comm.rank())] = y;
        });
        for (std::size_t r = 0; r < 3; ++r)
            is_right = is_right && same_bits(chosen[r], wanted) && same_bits(doubled[r], wanted);
    }
    return is_right;
}

void exchange_numbers() {
    if (greatest_of({{1, 0}, {2, 1}}).found()[0].value != 2) throw "another number";
    allfold::run(2, [](auto& comm) {
        if (exchanged_with(comm, 'a') != '\xe5' || exchanged_with(comm, 2.0) != 10.0) throw "another number";
    });
}

}  // namespace

int main() {
    exchange_numbers();
    const bool is_right = products_have_the_same_bits();
    std::puts(is_right ? "the same bits" : "other bits");
    return is_right ? 0 : 1;
}
