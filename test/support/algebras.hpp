// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <tuple>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/algebra/operator.hpp"
#include "allfold/algebra/standard_functors.hpp"

/// @file
/// Operators with samples: what the tests of all collectives fold.

namespace test {

/// Concatenation: objects that own memory, and any mistake in the order of operands shows in the result.
struct words {
    using element = std::string;
    static constexpr const char* name = "words";
    static constexpr bool exact = true;
    static auto operation() { return std::plus<>(); }
    static element sample(int rank, std::size_t i) { return char('a' + rank) + std::to_string(i % 10); }
    static element margin() { return "margin"; }
};

struct matrix {
    std::uint32_t a, b, c, d;
    friend bool operator==(const matrix&, const matrix&) = default;
    friend matrix operator*(const matrix& x, const matrix& y) {
        return {x.a * y.a + x.b * y.c, x.a * y.b + x.b * y.d, x.c * y.a + x.d * y.c, x.c * y.b + x.d * y.d};
    }
};

/// Products of matrices: bytes to a transport, but the order matters.
struct matrices {
    using element = matrix;
    static constexpr const char* name = "matrices";
    static constexpr bool exact = true;
    static auto operation() {
        return allfold::associative([](const matrix& x, const matrix& y) { return x * y; });
    }
    static element sample(int rank, std::size_t i) {
        const auto r = static_cast<std::uint32_t>(rank), n = static_cast<std::uint32_t>(i);
        return {2 * r + 1, n, r * n + 1, 2 * n + 1};
    }
    static element margin() { return {0xdead, 0xbeef, 0xdead, 0xbeef}; }
};

/// Sums of floating-point numbers: commutative, but the bits depend on the bracketing.
struct floats {
    using element = float;
    static constexpr const char* name = "floats";
    static constexpr bool exact = false;
    static auto operation() { return allfold::sum(); }
    static element sample(int rank, std::size_t i) {
        constexpr std::array scales{1.0F, 1e-3F, 3e2F, 7e-2F, 1e3F};
        return (1.1F + static_cast<float>(i % 101) * 0.37F + static_cast<float>(rank)) *
               scales[(static_cast<std::size_t>(rank) + i) % scales.size()];
    }
    static element margin() { return -7777.0F; }
};

struct integers {
    using element = int;
    static constexpr const char* name = "integers";
    static constexpr bool exact = true;
    static auto operation() { return std::plus<>(); }
    static element sample(int rank, std::size_t i) { return rank * 1009 + static_cast<int>(i % 10007); }
    static element margin() { return -7777; }
};

struct maxima {
    using element = double;
    static constexpr const char* name = "maxima";
    static constexpr bool exact = true;
    static auto operation() { return allfold::max(); }
    static element sample(int rank, std::size_t i) { return std::sin(static_cast<double>(i) + 10.0 * rank); }
    static element margin() { return -7777.0; }
};

/// An operator with state: addition modulo what the lambda has captured.
struct residues {
    using element = unsigned;
    static constexpr const char* name = "residues";
    static constexpr bool exact = true;
    static auto operation() {
        return allfold::commutative([modulus = 1009U](unsigned x, unsigned y) { return (x + y) % modulus; });
    }
    static element sample(int rank, std::size_t i) {
        return (977U * static_cast<unsigned>(rank) + static_cast<unsigned>(i)) % 1009U;
    }
    static element margin() { return 7777U; }
};

/// What every collective folds in its test. To sanitizers all algebras look like one of the first: they have memory of
/// their own, or they do not.
#ifdef ALLFOLD_TEST_SANITIZED
using folded_algebras = std::tuple<words, matrices>;
using number_algebras = std::tuple<integers>;
#else
using folded_algebras = std::tuple<words, matrices, floats>;
using number_algebras = std::tuple<integers, maxima, residues>;
#endif

}  // namespace test
