// SPDX-License-Identifier: BSL-1.0
#include "allfold/algebra/widened.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/algebra/check_laws.hpp"
#include "allfold/algebra/mean.hpp"
#include "allfold/algebra/operator.hpp"
#include "allfold/collective.hpp"
#include "test/support/algorithms.hpp"
#include "test/support/catch.hpp"
#include "test/support/oracle.hpp"
#include "test/support/ranks.hpp"
#include "test/support/remote.hpp"

using namespace test;
using allfold::mean;
using allfold::sum;
using allfold::widened;

namespace {

/// The upper half of a float, as libraries have it that know no such type: converts when asked, rounds to nearest.
class bfloat16 {
  public:
    bfloat16() = default;
    explicit bfloat16(float x) : bits_(rounded(std::bit_cast<std::uint32_t>(x))) {}
    explicit operator float() const { return std::bit_cast<float>(std::uint32_t{bits_} << 16); }
    friend bool operator==(bfloat16, bfloat16) = default;

  private:
    static std::uint16_t rounded(std::uint32_t x) {
        return static_cast<std::uint16_t>((x + 0x7FFF + ((x >> 16) & 1)) >> 16);
    }
    std::uint16_t bits_ = 0;
};

constexpr int sizes[] = {1, 2, 3, 5, 8};

/// 256 on rank 0, and 1 on all others: with 8 bits each fold with 1 is rounded down to 256 again.
float operand(int rank) { return rank == 0 ? 256 : 1; }
float total(int size) { return 255 + static_cast<float>(size); }

/// What holds of every T that converts to and from float.
template <class T>
void check_on_ranks() {
    for (const int size : sizes) {
        const auto body = [&](auto& comm) {
            const std::size_t n = 20;
            const std::vector<T> in(n, T(operand(comm.rank())));
            for_each_algorithm(allfold::all_reduce, size, [&](const std::string& name, auto... options) {
                std::vector<T> out(n), x = in;
                allfold::all_reduce(comm, in, out, widened<sum, float>(), options...);
                expect(out == std::vector<T>(n, T(total(size))), name + ": rounded more than once");
                allfold::all_reduce(comm, x, widened<sum, float>(), options...);
                expect(x == out, name + ": in place");
            });
            const auto blocks = allfold::partition::ceil(n, size);
            const std::size_t mine = blocks.extent(comm.rank());
            std::vector<T> shard(mine);
            std::vector<float> wide(mine);
            allfold::reduce_scatter(comm, in, shard, widened<sum, float>(), blocks);
            expect(shard == std::vector<T>(mine, T(total(size))), "reduce_scatter");
            allfold::reduce_scatter(comm, in, wide, widened<sum, float>(), blocks);
            expect(wide == std::vector<float>(mine, total(size)), "reduce_scatter to floats, which rounds nothing");
            const T average = allfold::all_reduce(comm, in[0], widened<mean, float>());
            expect(average == T(total(size) / static_cast<float>(size)), "mean");
        };
        on_ranks(size, body);
    }
}

}  // namespace

TEST_CASE("bits of 16 are folded in float and rounded once, where the type is a class") {
    CHECK(static_cast<float>(bfloat16(256 + 1)) == 256);  // which the test relies on
    check_on_ranks<bfloat16>();
    SUCCEED();
}

#ifdef __FLT16_MAX__
TEST_CASE("halves are folded in float and rounded once") {
    check_on_ranks<_Float16>();
    constexpr int size = 5;
    on_ranks(size, [](auto& comm) {
        const std::vector<_Float16> in(3, static_cast<_Float16>(comm.rank() == 0 ? 2048.0F : 1.0F));
        std::vector<_Float16> once = in, each = in;
        allfold::all_reduce(comm, once, widened<sum, float>(), allfold::order::rank);
        expect(once[0] == static_cast<_Float16>(2052.0F), "widened");
        allfold::all_reduce(comm, each, sum(), allfold::order::tree, allfold::all_read());
        expect(each[0] != once[0], "sum rounds as often as it folds, or the test says nothing");
    });
    SUCCEED();
}
#endif

TEST_CASE("floats are folded in double, and the result holds for every order") {
    on_ranks(3, [](auto& comm) {
        const float mine = comm.rank() == 1 ? 1 : comm.rank() == 0 ? 0x1p30F : -0x1p30F;
        expect(allfold::all_reduce(comm, mine, widened<sum, double>()) == 1, "cancels");
        float before = mine;
        allfold::exclusive_scan(comm, before, widened<sum, double>());
        expect(comm.rank() > 0 || before == 0, "identity");
    });
    SUCCEED();
}

TEST_CASE("widened has the laws of its operator on the wider type, and folds that alone") {
    using op = widened<sum, float>;
    STATIC_REQUIRE(allfold::laws_of<op, float> == allfold::laws_of<sum, float>);
    STATIC_REQUIRE(allfold::laws_of<widened<allfold::max, float>, float> == allfold::laws_of<allfold::max, float>);
    STATIC_REQUIRE(allfold::operator_with_identity<op, float>);
    STATIC_REQUIRE(allfold::lifting_operator<op, bfloat16>);
    STATIC_REQUIRE_FALSE(allfold::lifting_operator<op, float>);
    STATIC_REQUIRE_FALSE(allfold::lifting_operator<op, double>);  // which would lose digits
    STATIC_REQUIRE_FALSE(allfold::binary_operation<op, double>);
    STATIC_REQUIRE_FALSE(allfold::binary_operation<op, bfloat16>);
    CHECK(allfold::check_laws(op(), {0.0F, 1.0F, -3.0F, 1e6F}));
}

TEST_CASE("an operator with state is widened with it") {
    const float limit = 300;
    const auto capped = allfold::commutative([limit](float a, float b) { return a + b < limit ? a + b : limit; });
    on_ranks(3, [&](auto& comm) {
        const auto most = allfold::all_reduce(comm, bfloat16(200), widened<decltype(capped), float>{capped});
        expect(most == bfloat16(limit), "capped");
    });
    SUCCEED();
}
