// SPDX-License-Identifier: BSL-1.0
#include <version>

#include "test/support/catch.hpp"

#if defined(__cpp_lib_mdspan)
#include <mdspan>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/collective.hpp"
#include "test/support/ranks.hpp"

using namespace allfold;

static_assert(tensor_view<std::mdspan<float, std::dextents<int, 2>>>);
static_assert(tensor_view<std::mdspan<const int, std::extents<std::size_t, 4>, std::layout_left>>);

TEST_CASE("an mdspan is a tensor view, whatever its layout") {
    CHECK_NOTHROW(test::on_ranks(2, [](auto& comm) {
        std::vector<int> in{0, 1, 2, 3, 4, 5}, out(6);
        std::mdspan<int, std::extents<int, 2, 3>> result(out.data());
        if (comm.rank() == 0)
            all_reduce(comm, std::mdspan<const int, std::extents<int, 2, 3>>(in.data()), result, sum{});
        else
            all_reduce(comm, std::mdspan<const int, std::extents<int, 2, 3>, std::layout_left>(in.data()), result,
                       sum{});
        if (out != std::vector<int>{0, 3, 6, 4, 7, 10}) throw std::logic_error("layouts");
        all_reduce(comm, result, sum{});
        if (out[5] != 20) throw std::logic_error("in place");
        std::mdspan<int, std::extents<int>> scalar(&out[1]);
        all_reduce(comm, scalar, sum{});
        if (out[1] != 12) throw std::logic_error("rank 0");
    }));
}
#else
TEST_CASE("this standard library has no mdspan") { SUCCEED("clang with libc++ and C++23 runs the real test"); }
#endif
