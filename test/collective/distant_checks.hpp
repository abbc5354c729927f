// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <sys/mman.h>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/collective/all_gather.hpp"
#include "allfold/collective/all_to_all.hpp"
#include "allfold/collective/reduce_scatter.hpp"
#include "allfold/data/partition.hpp"
#include "allfold/engine/options.hpp"
#include "test/support/oracle.hpp"

/// @file
/// Collectives whose blocks lie gigabytes apart, at offsets that fit in 32 bits as elements, but not as bytes.

namespace test {

/// A mapping of which hardly a page is ever touched.
template <class T>
class vast {
  public:
    explicit vast(std::size_t n)
        : bytes_(n * sizeof(T)),
          memory_(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
        expect(memory_ != MAP_FAILED, std::to_string(bytes_) + " bytes of addresses");
    }
    vast(const vast&) = delete;
    vast& operator=(const vast&) = delete;
    ~vast() { munmap(memory_, bytes_); }
    [[nodiscard]] std::span<T> all() const { return {static_cast<T*>(memory_), bytes_ / sizeof(T)}; }

  private:
    std::size_t bytes_;
    void* memory_;
};

template <class Comm>
void check_distant_blocks(Comm& comm, const std::string& where) {
    constexpr std::size_t apart = (std::size_t{6} << 30) / sizeof(int), n = 100;
    const int rank = comm.rank(), size = comm.size();
    const vast<int> memory(apart + n);
    const std::span<int> all = memory.all();
    std::vector<std::size_t> first;
    for (int r = 0; r < size; ++r) first.push_back(apart / static_cast<std::size_t>(r + 1));
    const auto block = [&](int r) { return all.subspan(first[static_cast<std::size_t>(r)], n); };
    const auto blocks = allfold::partition::even(n * static_cast<std::size_t>(size), size);
    const allfold::displacements displaced(first);
    const auto fill = [&] {  // with what differs for each pair of ranks
        for (int r = 0; r < size; ++r)
            for (int& each : block(r)) each = 100 * rank + r;
    };
    std::vector<int> own(n, rank);
    allfold::all_gather(comm, own, all, blocks, displaced);
    for (int r = 0; r < size; ++r) expect_equal(block(r), std::vector<int>(n, r), where + ", all_gather");
    fill();
    allfold::reduce_scatter(comm, all, own, allfold::sum(), blocks, displaced);
    expect_equal(own, std::vector<int>(n, size * (50 * (size - 1) + rank)), where + ", reduce_scatter");
    allfold::all_to_all(comm, all, allfold::input_blocks{blocks}, allfold::input_displacements{displaced});
    for (int r = 0; r < size; ++r)
        expect_equal(block(r), std::vector<int>(n, 100 * r + rank), where + ", all_to_all in place");
}

}  // namespace test
