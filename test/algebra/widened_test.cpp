// SPDX-License-Identifier: BSL-1.0
#include "allfold/algebra/widened.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <complex>
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
#include "allfold/data/partition.hpp"
#include "allfold/data/tensor_view.hpp"
#include "allfold/schedule/all_read.hpp"
#include "allfold/schedule/direct.hpp"
#include "test/support/algorithms.hpp"
#include "test/support/catch.hpp"
#include "test/support/oracle.hpp"
#include "test/support/ranks.hpp"
#include "test/support/remote.hpp"

using namespace test;

using allfold::detail::narrower;
static_assert(narrower<std::int16_t, std::int32_t> && narrower<std::uint16_t, std::int32_t> &&
              narrower<std::int16_t, float> && narrower<std::int32_t, double> && narrower<float, double>);
static_assert(!narrower<std::int16_t, std::uint32_t>);        // has no -1
static_assert(!narrower<std::int32_t, std::complex<float>>);  // has 24 of 31 bits
static_assert(!narrower<float, std::int64_t>);
using allfold::mean;
using allfold::sum;
using allfold::widened;

namespace {

/// The upper half of a float, as libraries define it where the compiler has no such type: conversions are explicit and
/// round to nearest.
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

/// 256 on rank 0, and 1 on all others: with 8 bits of precision, adding 1 to 256 always rounds back down to 256.
float operand(int rank) { return rank == 0 ? 256 : 1; }
float total(int size) { return 255 + static_cast<float>(size); }

/// Checks what must hold for every T that converts to and from float.
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
    CHECK(static_cast<float>(bfloat16(256 + 1)) == 256);  // the test relies on this
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

namespace {

/// Ranks without shared memory that count the bytes they send.
class counting : public remote {
  public:
    using remote::remote;

    [[nodiscard]] bool try_post(int to, allfold::lane on, const allfold::outgoing& message) {
        const bool is_posted = remote::try_post(to, on, message);
        if (is_posted) sent += message.bytes;
        return is_posted;
    }
    std::size_t sent = 0;
};

/// Another element type of the same size.
struct sixteenths {
    std::int16_t number = 0;

    sixteenths() = default;
    explicit sixteenths(float x) : number(static_cast<std::int16_t>(x * 16)) {}
    explicit operator float() const { return static_cast<float>(number) / 16; }
};

/// The fold of the canonical tree, by a schedule for which states are sent, because it does not declare `folds_once`.
template <class T>
std::vector<T> folded_in_states(auto& comm, const std::vector<T>& in) {
    std::vector<T> out(in.size());
    allfold::all_reduce(comm, in, out, widened<sum, float>(), allfold::order::tree, allfold::all_read());
    return out;
}

template <class T>
std::vector<T> random_elements(std::size_t n, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<T> made;
    for (std::size_t i = 0; i < n; ++i)
        made.push_back(T(std::ldexp(static_cast<float>(random() % 255), -static_cast<int>(random() % 9))));
    return made;
}

/// Checks the collectives of `direct`, for which the elements themselves are sent.
template <class T>
void check_values(auto& comm, std::size_t n, unsigned seed) {
    const auto op = widened<sum, float>();
    const auto tree = allfold::order::tree;
    const int size = comm.size(), rank = comm.rank();
    const std::string where = std::to_string(size) + " ranks, " + std::to_string(n) + " elements";
    const std::vector<T> in = random_elements<T>(n, seed + static_cast<unsigned>(rank));
    const std::vector<T> expected = folded_in_states(comm, in);
    std::vector<T> out(n), x = in;
    allfold::all_reduce(comm, in, out, op, tree, allfold::direct());
    expect(out == expected, where + ", all_reduce");
    allfold::all_reduce(comm, x, op, tree, allfold::direct());
    expect(x == expected, where + ", all_reduce in place");
    out.assign(n, T(0.0F));
    auto prepared = allfold::all_reduce.prepare(comm, in, out, op, tree, allfold::direct());
    for (int turn = 0; turn < 2; ++turn) prepared();
    expect(out == expected, where + ", all_reduce prepared");

    std::vector<std::size_t> lengths(static_cast<std::size_t>(size), 0);
    lengths.front() = n - n / 3;
    lengths.back() += n / 3;
    const auto blocks = allfold::partition::sizes(lengths);
    const auto first = expected.begin() + static_cast<std::ptrdiff_t>(blocks.offset(rank));
    const std::vector<T> wanted(first, first + static_cast<std::ptrdiff_t>(blocks.extent(rank)));
    std::vector<T> shard(wanted.size());
    allfold::reduce_scatter(comm, in, shard, op, blocks, tree, allfold::direct());
    expect(shard == wanted, where + ", reduce_scatter");
    x = in;
    allfold::reduce_scatter(comm, x, op, blocks, tree, allfold::direct());
    expect(std::equal(wanted.begin(), wanted.end(), x.begin() + static_cast<std::ptrdiff_t>(blocks.offset(rank))),
           where + ", reduce_scatter in place");
    std::vector<T> at_root(rank == size - 1 ? n : 0);
    allfold::reduce(comm, in, at_root, op, allfold::root{size - 1}, tree, allfold::direct());
    expect(rank < size - 1 || at_root == expected, where + ", reduce");

    // Every second element of an array, both for the input and for the result.
    std::vector<T> apart(2 * n, T(1.0F)), result(2 * n, T(2.0F));
    for (std::size_t i = 0; i < n; ++i) apart[2 * i] = in[i];
    const auto every_second = [n](std::vector<T>& of) {
        return allfold::tensor(of.data(), std::array{n}, std::array{std::ptrdiff_t{2}});
    };
    allfold::all_reduce(comm, every_second(apart), every_second(result), op, tree, allfold::direct());
    for (std::size_t i = 0; i < n; ++i)
        expect(result[2 * i] == expected[i] && result[2 * i + 1] == T(2.0F), where + ", strided");
}

}  // namespace

TEST_CASE("elements that are folded all at once travel as they are, and come to the same bits") {
    const unsigned seed = std::random_device()();
    INFO("seed " << seed);
    constexpr std::size_t lengths[] = {0, 1, 7, 513, 20000};
    for (const int size : {1, 2, 3, 5, 8})
        for (const std::size_t n : lengths) {
            CHECK_NOTHROW(on_ranks(size, [&](auto& comm) { check_values<bfloat16>(comm, n, seed); }));
            if (size > 3) continue;
            CHECK_NOTHROW(on_ranks(
                size,
                [&](auto& base) {
                    remote comm(base);
                    check_values<bfloat16>(comm, n, seed);
                },
                roomy));
        }
}

TEST_CASE("16 bits of each element are sent, where few ranks share no memory") {
    constexpr std::size_t n = 24000;
    for (const int size : {2, 3, 4})
        on_ranks(
            size,
            [size](auto& base) {
                counting comm(base);
                const std::vector<bfloat16> in(n, bfloat16(static_cast<float>(comm.rank())));
                std::vector<bfloat16> out(n), shard(n / static_cast<std::size_t>(size));
                const auto others = static_cast<std::size_t>(size - 1), bytes = shard.size() * sizeof(bfloat16);
                allfold::reduce_scatter(comm, in, shard, widened<sum, float>());
                expect(comm.sent == others * bytes, "reduce_scatter sends " + std::to_string(comm.sent) + " bytes");
                expect(shard[0] == bfloat16(static_cast<float>(size * (size - 1) / 2)), "reduce_scatter");
                comm.sent = 0;
                allfold::all_reduce(comm, in, out, widened<sum, float>());
                const std::size_t all = allfold::all_reduce(base, comm.sent, sum());
                expect(all == 2 * others * n * sizeof(bfloat16), "all_reduce sends " + std::to_string(all) + " bytes");
                expect(out == std::vector<bfloat16>(n, shard[0]), "all_reduce");
                const auto planned =
                    allfold::reduce_scatter.template plan<bfloat16>(comm, n * sizeof(bfloat16), widened<sum, float>());
                expect(planned.bytes_sent() == others * bytes, "planned are " + std::to_string(planned.bytes_sent()));
            },
            roomy);
    SUCCEED();
}

TEST_CASE("ranks that fold elements of different types in one are told") {
    const auto outcomes = outcomes_on_ranks(2, [](auto& comm) {
        if (comm.rank() == 0) {
            std::vector<bfloat16> x(10000);
            allfold::all_reduce(comm, x, widened<sum, float>());
        } else {
            std::vector<sixteenths> x(10000);
            allfold::all_reduce(comm, x, widened<sum, float>());
        }
    });
    for (const outcome& each : outcomes) {
        CHECK((each.code == allfold::errc::mismatch || each.code == allfold::errc::peer_failed));
        CHECK(each.says("has elements of type"));
        CHECK(each.says("bfloat16"));
    }
}

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

TEST_CASE("what an integer cannot hold becomes the nearest that it can, the identity of min and max among it") {
    on_ranks(3, [](auto& comm) {
        const auto byte = static_cast<signed char>(comm.rank() == 1 ? -100 : -90);
        expect(allfold::all_reduce(comm, byte, widened<sum, int>()) == -128, "a sum");
        const signed char least = allfold::exclusive_scan(comm, byte, widened<allfold::min, int>());
        expect(least == (comm.rank() == 0 ? 127 : comm.rank() == 1 ? -90 : -100), "least before");
        const signed char in_float = allfold::exclusive_scan(comm, byte, widened<allfold::max, float>());
        expect(in_float == (comm.rank() == 0 ? -128 : -90), "greatest before, in float");
        const auto large = static_cast<unsigned char>(200);
        expect(allfold::all_reduce(comm, large, widened<sum, long>()) == 255, "of bytes without sign");
        std::uint32_t word = 0;
        allfold::all_reduce(comm, byte, word, widened<sum, long>());
        expect(word == 0, "a negative sum");
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
    STATIC_REQUIRE_FALSE(allfold::lifting_operator<op, double>);  // it would lose digits
    STATIC_REQUIRE_FALSE(allfold::binary_operation<op, double>);
    STATIC_REQUIRE_FALSE(allfold::binary_operation<op, bfloat16>);
    CHECK(allfold::check_laws(op(), {0.0F, 1.0F, -3.0F, 1e6F}));
}

TEST_CASE("widened says what its operator says about commutativity at run time") {
    const auto add = [](float a, float b) { return a + b; };
    for (const bool commutes : {false, true}) {
        const widened<decltype(allfold::commutative_if(commutes, add)), float> op{
            allfold::commutative_if(commutes, add)};
        CHECK(op.commutative() == commutes);
    }
    STATIC_REQUIRE_FALSE(allfold::detail::says_commutative<widened<sum, float>, float>);
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
