// SPDX-License-Identifier: BSL-1.0
#include "allfold/engine/arguments.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstddef>
#include <functional>
#include <limits>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/algebra/mean.hpp"
#include "allfold/algebra/standard_functors.hpp"
#include "allfold/collective.hpp"
#include "allfold/collective/distributed.hpp"
#include "allfold/collective/images.hpp"
#include "allfold/data/block_cyclic.hpp"
#include "allfold/data/records.hpp"
#include "allfold/data/tensor_view.hpp"
#include "allfold/data/tensors.hpp"
#include "allfold/schedule/direct.hpp"
#include "allfold/schedule/recursive_doubling.hpp"
#include "allfold/schedule/recursive_halving.hpp"
#include "allfold/schedule/ring.hpp"
#include "test/support/catch.hpp"
#include "test/support/oracle.hpp"
#include "test/support/ranks.hpp"

using namespace test;
using allfold::sum;
using allfold::tensor;

namespace elsewhere {

/// A third-party view type with its own member names.
struct grid {
    float* first;
    int rows, columns;
    std::ptrdiff_t pitch;
};

/// A matrix of 2 by 3 of which some elements are the same, as a mapping of `std::mdspan` may say.
struct anti_diagonals {
    using element_type = int;
    struct mapping_type {
        [[nodiscard]] static bool is_unique() { return false; }
    };

    int* first;

    [[nodiscard]] static constexpr std::size_t rank() { return 2; }
    [[nodiscard]] static std::size_t extent(std::size_t i) { return 2 + i; }
    [[nodiscard]] static std::ptrdiff_t stride(std::size_t) { return 1; }
    [[nodiscard]] int* data() const { return first; }
    [[nodiscard]] static mapping_type mapping() { return {}; }
};

}  // namespace elsewhere

template <>
struct allfold::tensor_traits<elsewhere::grid> {
    using element_type = float;
    static constexpr std::size_t rank = 2;
    static std::size_t extent(const elsewhere::grid& g, std::size_t i) {
        return static_cast<std::size_t>(i == 0 ? g.rows : g.columns);
    }
    static std::ptrdiff_t stride(const elsewhere::grid& g, std::size_t i) { return i == 0 ? g.pitch : 1; }
    static float* data(const elsewhere::grid& g) { return g.first; }
};

namespace {

/// Row r, column c of a rank's matrix.
float entry(int rank, std::size_t r, std::size_t c) {
    return static_cast<float>(100 * rank) + static_cast<float>(10 * r + c);
}
/// The sum of that entry over all ranks.
float entry_sum(int ranks, std::size_t r, std::size_t c) {
    return static_cast<float>(100 * ranks * (ranks - 1) / 2) +
           static_cast<float>(ranks) * static_cast<float>(10 * r + c);
}

void fill(const tensor<float, 2>& m, int rank) {
    for (std::size_t r = 0; r < m.extent(0); ++r)
        for (std::size_t c = 0; c < m.extent(1); ++c) m(r, c) = entry(rank, r, c);
}
void expect_sums(const tensor<float, 2>& m, int ranks, const std::string& where) {
    for (std::size_t r = 0; r < m.extent(0); ++r)
        for (std::size_t c = 0; c < m.extent(1); ++c) expect(m(r, c) == entry_sum(ranks, r, c), where);
}
tensor<float, 2> transposed(const tensor<float, 2>& m) {
    return {m.data(), {m.extent(1), m.extent(0)}, {m.stride(1), m.stride(0)}};
}

constexpr int group_sizes_here[] = {1, 2, 3, 5};

}  // namespace

TEST_CASE("a view of a part of a matrix is folded, what lies around it stays") {
    for (const int size : group_sizes_here)
        on_ranks(size, [&](auto& comm) {
            std::vector<float> memory(10 * 8, -1);
            const tensor<float, 2> part(memory.data() + 9, {4, 3}, {8, 2});
            fill(part, comm.rank());
            allfold::all_reduce(comm, part, sum());
            expect_sums(part, size, "strided, in place");
            expect(std::ranges::count(memory, -1.0F) == 80 - 12, "written around the part");
        });
    SUCCEED();
}

TEST_CASE("a matrix is folded into its transpose, element by element") {
    for (const int size : group_sizes_here)
        for (const std::size_t rows : {std::size_t{3}, std::size_t{300}})
            on_ranks(size, [&](auto& comm) {
                std::vector<float> a(rows * 50), b(rows * 50);
                const tensor<float, 2> in(a.data(), {rows, 50}), out(b.data(), {50, rows});
                fill(in, comm.rank());
                allfold::all_reduce(comm, in, transposed(out), sum());
                expect_sums(transposed(out), size, "transposed");
                expect(in(2, 7) == entry(comm.rank(), 2, 7), "the input has been written");
            });
    SUCCEED();
}

TEST_CASE("a strided result of every collective arrives where it belongs") {
    on_ranks(3, [](auto& comm) {
        const int r = comm.rank();
        std::vector<int> memory(18);
        const tensor<int, 1> every_third(memory.data(), {6}, {3}), every_ninth(memory.data() + 1, {2}, {9});
        const auto set = [&](int value) {
            std::ranges::fill(memory, -1);
            for (std::size_t i = 0; i < 6; ++i) every_third(i) = value + static_cast<int>(i);
        };
        const auto expect_values = [&](int factor, int constant, const char* where) {
            for (std::size_t i = 0; i < 6; ++i)
                expect(every_third(i) == factor * static_cast<int>(i) + constant, where);
            expect(std::ranges::count(memory, -1) == 12, where);
        };
        set(r);
        allfold::broadcast(comm, every_third, allfold::root{2});
        expect_values(1, 2, "broadcast");
        set(r);
        allfold::reduce(comm, every_third, sum(), allfold::root{1});
        expect_values(r == 1 ? 3 : 1, r == 1 ? 3 : r, "reduce");
        set(r);
        allfold::inclusive_scan(comm, every_third, sum());
        expect_values(r + 1, r * (r + 1) / 2, "inclusive_scan");
        set(r);
        allfold::exclusive_scan(comm, every_third, sum());
        expect_values(r, r * (r - 1) / 2, "exclusive_scan");
        set(r);
        allfold::reduce_scatter(comm, every_third, every_ninth, sum());
        expect(every_ninth(0) == 3 * (2 * r) + 3 && every_ninth(1) == 3 * (2 * r + 1) + 3, "reduce_scatter");
        set(r);
        every_ninth(0) = 10 * r;
        every_ninth(1) = 10 * r + 1;
        allfold::all_gather(comm, every_ninth, every_third);
        for (std::size_t i = 0; i < 6; ++i)
            expect(every_third(i) == 10 * static_cast<int>(i / 2) + static_cast<int>(i % 2), "all_gather");
        set(-5);
        for (std::size_t i = 2 * static_cast<std::size_t>(r), n = 0; n < 2; ++n) every_third(i + n) = r;
        allfold::all_gather(comm, every_third);
        for (std::size_t i = 0; i < 6; ++i) expect(every_third(i) == static_cast<int>(i / 2), "all_gather in place");
    });
    SUCCEED();
}

TEST_CASE("elements that share memory are read") {
    CHECK_NOTHROW(on_ranks(3, [](auto& comm) {
        std::vector<int> memory(12, 1), flat(12);
        const tensor<int, 2> repeated(memory.data(), {4, 3}, {0, 1}), plain(flat.data(), {4, 3});
        allfold::all_reduce(comm, repeated, plain, sum());
        expect(flat == std::vector<int>(12, 3), "an input");
        allfold::all_reduce(comm, repeated, sum());
        expect(memory[0] == 3 && memory[2] == 3 && memory[3] == 1, "an operand in place");
        allfold::all_reduce(comm, tensor<int, 2>(flat.data(), {0, 3}, {0, 0}), sum());
        allfold::all_reduce(comm, tensor<int, 2>(flat.data(), {1, 3}, {0, 2}), sum());
    }));
}

TEST_CASE("elements that share memory are not written") {
    const auto expect_refused = [](auto call, std::string_view text) {
        const auto outcomes = outcomes_on_ranks(2, [&](auto& comm) {
            std::vector<int> memory(12, 1), flat(12);
            const tensor<int, 2> repeated(memory.data(), {4, 3}, {0, 1}), plain(flat.data(), {4, 3});
            call(comm, plain, repeated);
        });
        for (const outcome& each : outcomes) {
            INFO(each.text);
            CHECK(each.code == allfold::errc::bad_argument);
            CHECK(each.says(text));
        }
    };
    expect_refused(
        [](auto& comm, const auto& plain, const auto& repeated) { allfold::all_reduce(comm, plain, repeated, sum()); },
        "the output has elements that share memory: axis 0 of extent 4 has stride 0");
    expect_refused(
        [](auto& comm, const auto& plain, const auto& repeated) {
            std::vector<int> more(12);
            const tensor<int, 2> further(more.data(), {4, 3});
            allfold::exclusive_scan(comm, allfold::records(plain, plain), allfold::records(further, repeated), sum());
        },
        "tensor 1 of the output");
    expect_refused(
        [](auto& comm, const auto& plain, const auto&) {
            std::vector<int> in(6);
            allfold::all_reduce(comm, tensor<int, 2>(in.data(), {2, 3}), elsewhere::anti_diagonals{plain.data()},
                                sum());
        },
        "its mapping is not unique");
}

TEST_CASE("a prepared operation reads and writes a strided view anew each time") {
    on_ranks(2, [](auto& comm) {
        std::vector<int> memory(8);
        const tensor<int, 1> even(memory.data(), {4}, {2});
        auto op = allfold::all_reduce.prepare(comm, even, sum());
        for (int turn = 0; turn < 3; ++turn) {
            for (std::size_t i = 0; i < 4; ++i) even(i) = turn + comm.rank();
            op();
            for (std::size_t i = 0; i < 4; ++i) expect(even(i) == 2 * turn + 1, "wrong sum");
        }
    });
    SUCCEED();
}

TEST_CASE("operations in flight unpack strided results when they are done") {
    on_ranks(3, [](auto& comm) {
        std::vector<int> memory(8, 1);
        const tensor<int, 1> even(memory.data(), {4}, {2}), odd(memory.data() + 1, {4}, {2});
        auto a = allfold::all_reduce.start(comm, even, sum());
        auto b = allfold::all_reduce.start(comm, odd, allfold::max());
        wait_all(b, a);
        expect(memory == std::vector{3, 1, 3, 1, 3, 1, 3, 1}, "wrong result");
    });
    SUCCEED();
}

TEST_CASE("tensors of rank 0 and 3, also with negative strides, are folded") {
    on_ranks(3, [](auto& comm) {
        int scalar = comm.rank();
        allfold::all_reduce(comm, tensor<int, 0>(&scalar, {}), sum());
        expect(scalar == 3, "rank 0");

        std::vector<int> cube(24), reversed(24);
        std::iota(cube.begin(), cube.end(), 100 * comm.rank());
        const tensor<int, 3> in(cube.data(), {2, 3, 4}), out(reversed.data() + 23, {2, 3, 4}, {-12, -4, -1});
        allfold::all_reduce(comm, in, out, sum());
        for (std::size_t i = 0; i < 24; ++i) expect(reversed[23 - i] == 300 + 3 * static_cast<int>(i), "rank 3");
    });
    SUCCEED();
}

TEST_CASE("a foreign type with tensor_traits is folded in place") {
    on_ranks(2, [](auto& comm) {
        std::vector<float> memory(20, static_cast<float>(comm.rank() + 1));
        allfold::all_reduce(comm, elsewhere::grid{memory.data(), 4, 3, 5}, sum());
        expect(std::ranges::count(memory, 3.0F) == 12, "wrong number of sums");
    });
    SUCCEED();
}

TEST_CASE("spans, arrays of both kinds, and ranges of constants are operands") {
    on_ranks(3, [](auto& comm) {
        const std::array<int, 3> in{comm.rank(), 1, 2};
        int plain[3] = {comm.rank(), 1, 2};
        std::array<int, 3> out{};
        allfold::all_reduce(comm, in, out, sum());
        allfold::all_reduce(comm, plain, sum());
        expect(out == std::array{3, 3, 6} && std::ranges::equal(plain, out), "wrong sums");
        const std::vector<int> constant(4, 2);
        std::vector<int> sums(4);
        allfold::all_reduce(comm, std::span(constant), std::span(sums), sum());
        allfold::all_reduce(comm, tensor<const int, 1>(constant.data(), {4}), sums, sum());
        expect(sums == std::vector(4, 6), "wrong sums of constants");
    });
    SUCCEED();
}

TEST_CASE("a call that waits reads an input that nobody else has") {
    on_ranks(3, [](auto& comm) {
        const auto mine = [&](std::size_t n) {
            return std::vector<std::string>(n, std::string(1, "abc"[comm.rank()]));
        };
        std::vector<std::string> fold(5), all(6);
        for (int turn = 0; turn < 2; ++turn) {
            allfold::all_reduce(comm, mine(5), fold, std::plus());
            expect(fold[4] == "abc", "all_reduce: " + fold[4]);
            allfold::all_gather(comm, mine(2), all);
            expect(all[1] == "a" && all[2] == "b" && all[5] == "c", "all_gather");
            std::vector<int> sums(4);
            allfold::all_reduce(comm, std::vector<int>(4, comm.rank()), sums, allfold::sum());
            expect(sums[3] == 3, "sum");
        }
    });
    SUCCEED();
}

TEST_CASE("a single object is a tensor of one, and a string is a single object") {
    on_ranks(3, [](auto& comm) {
        double x = comm.rank();
        allfold::all_reduce(comm, x, allfold::max());
        expect(x == 2, "scalar");
        const int mine = comm.rank();
        int before = -1;
        allfold::exclusive_scan(comm, mine, before, sum());
        expect(before == (comm.rank() == 0 ? 0 : comm.rank() == 1 ? 0 : 1), "scan of scalars");
        std::string word(1, static_cast<char>('a' + comm.rank()));
        allfold::all_reduce(comm, word, std::plus<>());
        expect(word == "abc", "string");
        std::complex<double> z(comm.rank(), 1);
        allfold::all_reduce(comm, z, sum());
        expect(z == std::complex<double>(3, 3), "complex");
        std::vector<int> all(3);
        allfold::all_gather(comm, mine, all);
        expect(all == std::vector{0, 1, 2}, "all_gather of scalars");
    });
    SUCCEED();
}

namespace {

template <std::size_t Alignment>
struct alignas(Alignment) aligned {
    int value = 0;
    bool is_aligned() const { return reinterpret_cast<std::uintptr_t>(this) % Alignment == 0; }
};

/// A sum that fails if an operand is not aligned as its type demands.
template <class T>
auto aligned_sum() {
    return allfold::commutative([](const T& a, const T& b) {
        expect(a.is_aligned() && b.is_aligned(), "an operand is not aligned");
        return T{a.value + b.value};
    });
}

template <class T>
void check_aligned() {
    for (const int size : group_sizes_here)
        for (const std::size_t n : {std::size_t{1}, std::size_t{7}, std::size_t{2000}})
            on_ranks(size, [&](auto& comm) {
                const auto check = [&](auto... algorithm) {
                    for (int turn = 0; turn < 50 / size; ++turn) {
                        std::vector<T> x(n, T{comm.rank() + 1});
                        allfold::all_reduce(comm, x, aligned_sum<T>(), algorithm...);
                        for (const T& each : x) expect(each.value == size * (size + 1) / 2, "wrong sum");
                    }
                };
                check();
                check(allfold::all_read());
                check(allfold::ring());
                check(allfold::recursive_halving());
                check(allfold::recursive_doubling());
            });
    SUCCEED();
}

}  // namespace

TEST_CASE("elements aligned to 32 bytes are folded where they are aligned") { check_aligned<aligned<32>>(); }
TEST_CASE("elements aligned to 128 bytes are folded where they are aligned") { check_aligned<aligned<128>>(); }

namespace {

/// Folds products as sums of logarithms, so a state is not an element.
struct product_by_logarithms {
    static constexpr allfold::law_set laws = allfold::law::associative | allfold::law::commutative;
    double operator()(double a, double b) const { return a + b; }
    static double lift(int value) { return std::log2(value); }
    static int lower(double state, int) { return static_cast<int>(std::lround(std::exp2(state))); }
};

}  // namespace

TEST_CASE("an operator with lift and lower folds states, in every collective") {
    on_ranks(3, [](auto& comm) {
        const int r = comm.rank();
        const product_by_logarithms op;
        const std::vector<int> in{1 << r, 2, 3};
        std::vector<int> x = in, out(3), block(1);
        allfold::all_reduce(comm, in, out, op);
        expect(out == std::vector{8, 8, 27}, "all_reduce");
        allfold::all_reduce(comm, x, op);
        expect(x == out, "all_reduce in place");
        allfold::reduce(comm, in, out, op, allfold::root{1});
        expect(r != 1 || out == x, "reduce");
        allfold::reduce_scatter(comm, in, block, op);
        expect(block[0] == x[static_cast<std::size_t>(r)], "reduce_scatter");
        x = in;
        allfold::reduce_scatter(comm, x, op);
        expect(x[static_cast<std::size_t>(r)] == block[0], "reduce_scatter in place");
        allfold::inclusive_scan(comm, in, out, op);
        expect(out == std::vector{1 << (r * (r + 1) / 2), 2 << r, r == 0 ? 3 : r == 1 ? 9 : 27}, "inclusive_scan");
        out = {-1, -1, -1};
        allfold::exclusive_scan(comm, in, out, op);
        expect(r == 0 ? out[0] == -1 : out[1] == 1 << r, "exclusive_scan");
    });
    SUCCEED();
}

TEST_CASE("an operator with lift and lower can be prepared, and lifts anew each time") {
    on_ranks(3, [](auto& comm) {
        std::vector<int> in(4), out(4);
        auto op = allfold::all_reduce.prepare(comm, in, out, product_by_logarithms());
        for (int turn = 1; turn < 5; ++turn) {
            std::ranges::fill(in, turn);
            op();
            expect(out == std::vector(4, turn * turn * turn), "wrong product");
        }
    });
    SUCCEED();
}

TEST_CASE("a mean divides by the number of contributions, which in a scan is that of the prefix") {
    on_ranks(4, [](auto& comm) {
        const int r = comm.rank();
        std::vector<double> in(3, r), out(3);
        allfold::all_reduce(comm, in, out, allfold::mean());
        expect(out == std::vector(3, 1.5), "all_reduce");
        allfold::reduce(comm, in, out, allfold::mean(), allfold::root{2});
        expect(r != 2 || out == std::vector(3, 1.5), "reduce");
        allfold::inclusive_scan(comm, in, out, allfold::mean());
        expect(out == std::vector(3, r / 2.0), "inclusive_scan");
        allfold::exclusive_scan(comm, in, out, allfold::mean());
        expect(r == 0 ? std::isnan(out[0]) : out == std::vector(3, (r - 1) / 2.0),
               "exclusive_scan: of nothing it is NaN");
        allfold::inclusive_scan(comm, in, out, allfold::mean(), allfold::direct());
        expect(out == std::vector(3, r / 2.0), "inclusive_scan in one pass");
        allfold::exclusive_scan(comm, in, out, allfold::mean(), allfold::direct());
        expect(r == 0 ? std::isnan(out[0]) : out == std::vector(3, (r - 1) / 2.0), "exclusive_scan in one pass");
        double x = r;
        allfold::reduce(comm, x, allfold::mean(), allfold::root{1});
        expect(x == (r == 1 ? 1.5 : r), "reduce in place writes at the root only");
    });
    SUCCEED();
}

TEST_CASE("a lone rank's mean and lifted fold are its own operand") {
    on_ranks(1, [](auto& comm) {
        std::vector<double> x{1.5, 2.5};
        allfold::all_reduce(comm, x, allfold::mean());
        expect(x == std::vector{1.5, 2.5}, "mean");
        std::vector in{1, 2, 8}, out{0, 0, 0};
        allfold::all_reduce(comm, in, out, product_by_logarithms());
        expect(out == in, "lifted");
    });
    SUCCEED();
}

TEST_CASE("an operator that deduces what it returns folds the elements of whatever has them") {
    const auto plus = allfold::commutative([](auto a, auto b) { return a + b; });
    on_ranks(2, [&](auto& comm) {
        std::vector<int> x{1, 2}, y(2), shard(1);
        allfold::all_reduce(comm, x, y, plus);
        allfold::all_reduce(comm, std::span(x), plus);
        expect(y == x && x == std::vector{2, 4}, "a range");
        std::vector<std::string> words{"a"};
        allfold::all_reduce(comm, words, plus);
        expect(words[0] == "aa", "objects");
        allfold::all_reduce(comm, allfold::tensors{x, y}, plus);
        allfold::records both{x, y};
        allfold::all_reduce(comm, both, plus);
        expect(x == std::vector{8, 16} && y == x, "a list, and records");
        allfold::reduce_scatter(comm, x, shard, plus);
        expect(shard[0] == (comm.rank() == 0 ? 16 : 32), "a block");
        allfold::exclusive_scan.start(comm, y, allfold::with_identity(plus, 0)).wait();
        expect(y[0] == 8 * comm.rank(), "a scan in flight");
        int first = 1, second = 2, total = 0;
        allfold::all_reduce(comm, allfold::images(first, second), total, plus);
        expect(total == 6, "images");
        const allfold::block_cyclic layout{1, 0, 4};
        allfold::all_reduce(comm, allfold::distributed(x, layout), total, plus);
        expect(total == 48, "an array");
        std::vector<short> narrow{1};
        allfold::all_reduce(comm, narrow, allfold::commutative([](short a, short b) { return a + b; }));
        expect(narrow[0] == 2, "what it returns is wider than an element");
    });
    SUCCEED();
}

namespace {

/// Counts its live objects. After `copies_left` copies, the next one throws.
struct fragile {
    static inline int alive = 0, copies_left = 0;
    fragile() { ++alive; }
    fragile(const fragile&) {
        if (copies_left-- == 0) throw std::runtime_error("no copy");
        ++alive;
    }
    fragile& operator=(const fragile&) = default;
    ~fragile() { --alive; }
};

}  // namespace

TEST_CASE("an element whose copy throws is none") {
    {
        const fragile one;
        allfold::detail::packed<fragile> several;
        several.reserve(3);
        fragile::copies_left = 3;  // two for the first element, and one for the second
        several.put(0, one);
        CHECK_THROWS_WITH(several.put(1, one), "no copy");
        CHECK(fragile::alive == 2);
    }
    CHECK(fragile::alive == 0);
}

namespace {

/// Cannot be assigned, but its bytes can be.
struct numbered {
    const int id;
    double value;
};

}  // namespace

TEST_CASE("elements that are only moved need no assignment, wherever they lie") {
    on_ranks(2, [](auto& comm) {
        const int self = comm.rank();
        std::vector<numbered> x(4, numbered{self, 1.0 + self}), y(x);
        const auto are_of = [](const std::vector<numbered>& of, std::size_t i, int rank) {
            expect(of[i].id == rank && of[i].value == 1.0 + rank, "element " + std::to_string(i));
        };
        allfold::broadcast(comm, tensor<numbered, 1>(x.data(), {2}, {2}));
        are_of(x, 0, 0);
        are_of(x, 1, self);
        are_of(x, 2, 0);
        allfold::broadcast(comm, allfold::tensors(std::span(x).last(1), y), allfold::root{1});
        are_of(x, 3, 1);
        are_of(y, 3, 1);
        std::vector<numbered> own(1, numbered{self, 1.0 + self});
        allfold::all_gather(comm, own, std::span(y).first(2), allfold::shards{1, 0});
        are_of(y, 0, 1);
        are_of(y, 1, 0);
    });
    SUCCEED();
}
