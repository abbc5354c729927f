// SPDX-License-Identifier: BSL-1.0
#include "allfold/engine/prefixes.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "allfold/algebra/operator.hpp"
#include "allfold/engine/row_table.hpp"
#include "test/support/algebras.hpp"
#include "test/support/catch.hpp"
#include "test/support/guarded.hpp"

using allfold::detail::functions_of_rows;
using allfold::detail::place;
using allfold::detail::row_layout;
using allfold::detail::store;

namespace {

/// An operator on rows of two columns: it multiplies matrices, and appends the digits of numbers.
struct of_rows {
    void operator()(allfold::row<const test::matrix, const int> a, allfold::row<const test::matrix, const int> b,
                    allfold::row<test::matrix, int> out) const {
        std::get<0>(out)[0] = std::get<0>(a)[0] * std::get<0>(b)[0];
        std::get<1>(out)[0] = 10 * std::get<1>(a)[0] + std::get<1>(b)[0];
    }
};

/// Where the prefixes are written.
enum class to { others, the_own, the_next };

/// Folds the prefixes of `count` operands of `rows` rows, and checks them and the memory around them. `make(k, i)` is
/// row i of operand k.
template <class Op, class T, class Make>
void check(const Op& op, int count, std::size_t rows, to where, store how, const Make& make) {
    std::vector<test::guarded<T>> operands, others;
    std::vector<std::vector<T>> expected;
    for (int k = 0; k <= count; ++k) {
        std::vector<T> x;
        for (std::size_t i = 0; i < rows; ++i) x.push_back(make(k, i));
        operands.emplace_back(std::span<const T>(x), make(77, 0));
        others.emplace_back(rows, make(78, 0));
        for (std::size_t i = 0; k > 0 && i < rows; ++i) x[i] = op(expected.back()[i], x[i]);
        expected.push_back(x);
    }
    const auto lies_at = [](test::guarded<T>& memory) { return reinterpret_cast<std::byte*>(memory.span().data()); };
    std::vector<std::byte*> inputs, outputs;
    for (int k = 0; k < count; ++k) {
        const auto at = static_cast<std::size_t>(k);
        inputs.push_back(lies_at(operands[at]));
        outputs.push_back(lies_at(where == to::others ? others[at] : operands[at + (where == to::the_next ? 1 : 0)]));
    }
    std::vector<place> sources, targets;
    for (std::size_t k = 0; k < inputs.size(); ++k) {
        sources.push_back({&inputs[k], 0});
        targets.push_back({&outputs[k], 0});
    }
    const std::size_t bytes = sizeof(T);
    const row_layout layout{&functions_of_rows<Op, T>, &op, &bytes, bytes};
    allfold::detail::fold_prefixes(layout, sources, targets, rows, how);
    for (std::size_t k = 0; k < outputs.size(); ++k)
        REQUIRE(std::ranges::equal(std::span(reinterpret_cast<const T*>(outputs[k]), rows), expected[k]));
    for (const auto& each : operands) REQUIRE(each.margins_are_untouched());
    for (const auto& each : others) REQUIRE(each.margins_are_untouched());
}

template <class Algebra>
void check_all(store how) {
    const auto op = Algebra::operation();
    for (const int count : {1, 2, 3, 8})
        for (const std::size_t rows : {std::size_t{1}, std::size_t{15}, std::size_t{1024}, std::size_t{2500}})
            for (const to where : {to::others, to::the_own, to::the_next})
                check<decltype(op), typename Algebra::element>(op, count, rows, where, how, Algebra::sample);
}

}  // namespace

TEST_CASE("prefixes are folded from left to right, to other memory, in place, or to that of the next operand") {
    check_all<test::matrices>(store::plain);
    check_all<test::integers>(store::plain);
    check_all<test::words>(store::plain);
}

TEST_CASE("prefixes are the same past the cache") {
    check_all<test::matrices>(store::streaming);
    check_all<test::integers>(store::streaming);
    check_all<test::words>(store::streaming);
}

TEST_CASE("prefixes of rows of several columns") {
    const of_rows op;
    for (const store how : {store::plain, store::streaming})
        for (const bool shifted : {false, true}) {
            constexpr std::size_t rows = 700;
            std::vector<std::vector<test::matrix>> a(4);
            std::vector<std::vector<int>> b(4);
            for (int k = 0; k < 4; ++k)
                for (std::size_t i = 0; i < rows; ++i) {
                    a[static_cast<std::size_t>(k)].push_back(test::matrices::sample(k, i));
                    b[static_cast<std::size_t>(k)].push_back(k + 1);
                }
            const auto before = a;
            std::vector<std::vector<std::byte*>> columns;
            for (std::size_t k = 0; k < 4; ++k)
                columns.push_back(
                    {reinterpret_cast<std::byte*>(a[k].data()), reinterpret_cast<std::byte*>(b[k].data())});
            std::vector<place> places;
            for (const auto& each : columns) places.push_back({each.data(), 0});
            const std::size_t bytes[] = {sizeof(test::matrix), sizeof(int)};
            const row_layout layout{&functions_of_rows<of_rows, allfold::row<test::matrix, int>>, &op, bytes,
                                    sizeof(test::matrix) + sizeof(int)};
            allfold::detail::fold_prefixes(layout, std::span(places).first(3),
                                           std::span(places).subspan(shifted ? 1 : 0, 3), rows, how);
            const std::size_t last = shifted ? 3 : 2;
            for (std::size_t i = 0; i < rows; ++i) {
                REQUIRE(a[last][i] == before[0][i] * before[1][i] * before[2][i]);
                REQUIRE(a[last - 1][i] == before[0][i] * before[1][i]);
                REQUIRE(b[last][i] == 123);
                REQUIRE(b[last - 1][i] == 12);
            }
        }
}

TEST_CASE("rows are filled with the identity, past the cache too") {
    const auto op = allfold::with_identity(test::matrices::operation(), test::matrix{1, 2, 3, 4});
    const std::size_t bytes = sizeof(test::matrix);
    const row_layout layout{&functions_of_rows<std::remove_const_t<decltype(op)>, test::matrix>, &op, &bytes, bytes};
    for (const store how : {store::plain, store::streaming})
        for (const std::size_t rows : {std::size_t{0}, std::size_t{3}, std::size_t{256}, std::size_t{1000}}) {
            test::guarded<test::matrix> memory(rows, test::matrices::margin());
            std::byte* const first = reinterpret_cast<std::byte*>(memory.span().data());
            allfold::detail::fill_with_identity(layout, {&first, 0}, rows, how);
            for (const auto& each : memory.span()) REQUIRE(each == test::matrix{1, 2, 3, 4});
            REQUIRE(memory.margins_are_untouched());
        }
    const auto without = test::matrices::operation();
    const row_layout untouched{&functions_of_rows<std::remove_const_t<decltype(without)>, test::matrix>, &without,
                               &bytes, bytes};
    test::guarded<test::matrix> memory(5, test::matrices::margin());
    std::byte* const first = reinterpret_cast<std::byte*>(memory.span().data());
    allfold::detail::fill_with_identity(untouched, {&first, 0}, 5, store::plain);
    for (const auto& each : memory.span()) CHECK(each == test::matrices::margin());
}
