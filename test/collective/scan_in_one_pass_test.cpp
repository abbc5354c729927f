// SPDX-License-Identifier: BSL-1.0
#include <algorithm>
#include <cstddef>
#include <numeric>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/algebra/operator.hpp"
#include "allfold/collective/exclusive_scan.hpp"
#include "allfold/collective/inclusive_scan.hpp"
#include "allfold/data/records.hpp"
#include "allfold/data/tensor_view.hpp"
#include "allfold/schedule/direct.hpp"
#include "test/support/algebras.hpp"
#include "test/support/catch.hpp"
#include "test/support/oracle.hpp"
#include "test/support/ranks.hpp"

/// @file
/// What one-pass scans over shared memory must do beyond what every algorithm must do.

using namespace test;
using allfold::direct;
using allfold::sum;
using allfold::tensor;

namespace {

constexpr int group_sizes[]{2, 3, 4, 8};

int sum_below(int rank) { return rank * (rank + 1) / 2; }  // the sum of r + 1 over the ranks below

}  // namespace

TEST_CASE("some ranks scan in place and others do not") {
    for (const int size : group_sizes)
        for (const unsigned in_place : {0b01010101U, 0b10101010U, 0b00001111U})
            on_ranks(size, [&](auto& comm) {
                const problem<matrices> p(size, 3000);
                const int r = comm.rank();
                const std::string where = "rank " + std::to_string(r) + " of " + std::to_string(size);
                std::vector<matrix> in(p.operand(r).begin(), p.operand(r).end()), out(in.size());
                const auto scan = [&](const auto& collective, const auto& op) {
                    if ((in_place >> r & 1U) == 0) {
                        collective(comm, in, out, op, direct());
                    } else {
                        out = in;
                        collective(comm, out, op, direct());
                    }
                };
                scan(allfold::inclusive_scan, p.op);
                expect_equal(out, p.prefix(r), where);
                scan(allfold::exclusive_scan, allfold::with_identity(p.op, matrix{1, 0, 0, 1}));
                if (r > 0)
                    expect_equal(out, p.prefix(r - 1), where + ", exclusive");
                else
                    expect_equal(out, std::vector(out.size(), matrix{1, 0, 0, 1}), where + ", the identity");
                expect_equal(in, p.operand(r), where + ": the input has been written");
            });
    SUCCEED();
}

TEST_CASE("elements that lie apart are scanned in one pass") {
    on_ranks(4, [](auto& comm) {
        const int r = comm.rank();
        constexpr std::size_t n = 5000;
        std::vector<int> memory(3 * n, -1);
        const tensor<int, 1> every_third(memory.data(), {n}, {3});
        const auto fill = [&] {
            for (std::size_t i = 0; i < n; ++i) memory[3 * i] = r + 1;
        };
        const auto expect_values = [&](int there, const char* what) {
            for (std::size_t i = 0; i < memory.size(); ++i) expect(memory[i] == (i % 3 == 0 ? there : -1), what);
        };
        fill();
        allfold::inclusive_scan(comm, every_third, sum(), direct());
        expect_values(sum_below(r + 1), "inclusive");
        fill();
        allfold::exclusive_scan(comm, every_third, sum(), direct());
        expect_values(sum_below(r), "exclusive");
        fill();
        const auto without_identity = allfold::associative([](int a, int b) { return a + b; });
        allfold::exclusive_scan(comm, every_third, without_identity, direct());
        expect_values(r == 0 ? 1 : sum_below(r), "exclusive, without an identity");
    });
    SUCCEED();
}

TEST_CASE("records are scanned in one pass") {
    struct of_rows {
        void operator()(allfold::row<const int, const matrix> a, allfold::row<const int, const matrix> b,
                        allfold::row<int, matrix> out) const {
            std::get<0>(out)[0] = std::get<0>(a)[0] + std::get<0>(b)[0];
            std::get<1>(out)[0] = std::get<1>(a)[0] * std::get<1>(b)[0];
        }
    };
    const auto op = allfold::with_identity(allfold::associative(of_rows{}), std::tuple(0, matrix{1, 0, 0, 1}));
    for (const int size : group_sizes)
        on_ranks(size, [&](auto& comm) {
            const problem<matrices> p(size, 1000);
            const int r = comm.rank();
            const std::vector<int> ones(p.size(), r + 1);
            const std::vector<matrix> operand(p.operand(r).begin(), p.operand(r).end());
            const auto check = [&](const auto& collective, int operands) {
                const auto look = [&](const std::vector<int>& sums, const std::vector<matrix>& products,
                                      const char* what) {
                    expect_equal(sums, std::vector(p.size(), sum_below(operands)), what);
                    if (operands == 0)
                        expect_equal(products, std::vector(p.size(), matrix{1, 0, 0, 1}), what);
                    else
                        expect_equal(products, p.prefix(operands - 1), what);
                };
                std::vector<int> a = ones, c(p.size(), -1);
                std::vector<matrix> b = operand, d(p.size());
                collective(comm, allfold::records(a, b), allfold::records(c, d), op, direct());
                look(c, d, "records");
                collective(comm, allfold::records(a, b), op, direct());
                look(a, b, "records in place");
            };
            check(allfold::inclusive_scan, r + 1);
            check(allfold::exclusive_scan, r);
        });
    SUCCEED();
}

TEST_CASE("vectors that exceed the cache are scanned past it") {
    constexpr int size = 3;
    constexpr std::size_t n = (std::size_t{9} << 20) / sizeof(int) + 7;  // 54 MiB in all
    on_ranks(size, [&](auto& comm) {
        const int r = comm.rank();
        std::vector<int> in(n + 1), out(n + 1, -1);
        std::iota(in.begin(), in.end(), r);
        const std::span<int> x = std::span(in).first(n), y = std::span(out).subspan(1);  // not aligned to cache lines
        const auto expect_prefixes = [&](std::span<const int> got, int operands, const char* what) {
            for (std::size_t i = 0; i < n; ++i) {
                const int wanted = operands * static_cast<int>(i) + operands * (operands - 1) / 2;
                if (got[i] != wanted) throw wrong(what + std::string(": element ") + std::to_string(i));
            }
        };
        allfold::inclusive_scan(comm, x, y, sum());
        expect_prefixes(y, r + 1, "inclusive");
        allfold::exclusive_scan(comm, x, y, sum());
        expect_prefixes(y, r, "exclusive");
        expect(out[0] == -1 && in[n] == r + static_cast<int>(n), "written outside of the operands");
        allfold::exclusive_scan(comm, x, sum());
        expect_prefixes(x, r, "exclusive, in place");
    });
    SUCCEED();
}

TEST_CASE("a scan in one pass may be prepared and started again") {
    on_ranks(3, [](auto& comm) {
        const int r = comm.rank();
        std::vector<std::string> in(100), out(100);
        const auto join = allfold::associative([](const std::string& a, const std::string& b) { return a + b; });
        auto scan = allfold::inclusive_scan.prepare(comm, in, out, join, direct());
        auto below = allfold::exclusive_scan.prepare(comm, in, allfold::with_identity(join, ""), direct());
        for (int turn = 0; turn < 4; ++turn) {
            const std::string all{static_cast<char>('a' + turn), static_cast<char>('b' + turn),
                                  static_cast<char>('c' + turn)};
            std::ranges::fill(in, std::string(1, all[static_cast<std::size_t>(r)]));
            scan();
            expect_equal(out, std::vector(100, all.substr(0, static_cast<std::size_t>(r) + 1)), "inclusive");
            below();
            expect_equal(in, std::vector(100, all.substr(0, static_cast<std::size_t>(r))), "exclusive");
        }
    });
    SUCCEED();
}

TEST_CASE("an operator that throws in the pass releases all ranks") {
    const auto fragile = allfold::associative([](int a, int b) {
        if (b == 3 && a > 1) throw std::runtime_error("fragile");
        return a + b;
    });
    const auto scan = [&](auto& comm) {
        std::vector<int> x(500, comm.rank() + 1);
        allfold::inclusive_scan(comm, x, fragile, direct());
    };
    CHECK_THROWS_WITH(on_ranks(4, scan), "fragile");
}
