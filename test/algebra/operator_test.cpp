// SPDX-License-Identifier: BSL-1.0
#include "allfold/algebra/operator.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/algebra/check_laws.hpp"
#include "test/support/catch.hpp"

using allfold::law;
using allfold::law_set;
using allfold::row;
using allfold::stretch;
using allfold::stretch_operation;

namespace {

struct says_associative {
    static constexpr law_set laws = law::associative;
};

/// The smallest model of an associative operator on int: no default constructor, no identity, no template.
struct smallest : says_associative {
    explicit smallest(int) {}
    int operator()(int a, int) const { return a; }
};

struct undeclared {
    int operator()(int a, int) const { return a; }
};

struct not_const : says_associative {
    int operator()(int a, int) { return a; }
};

struct not_copyable : says_associative {
    not_copyable(not_copyable&&) = default;
    int operator()(int a, int) const { return a; }
};

struct wrong_result : says_associative {
    std::string operator()(int, int) const { return {}; }
};

struct needs_mutable_operands : says_associative {
    int operator()(int& a, int&) const { return a; }
};

struct one_operand : says_associative {
    int operator()(int a) const { return a; }
};

/// Declares that it is commutative, but not that it is associative, as every operator must be.
struct only_commutative {
    int operator()(int a, int b) const { return (a + b) / 2; }
    static constexpr law_set laws = law::commutative | law::idempotent;
};

/// Addition modulo a number known only at run time.
struct add_modulo {
    int modulus;
    constexpr int operator()(int a, int b) const { return (a + b) % modulus; }
    [[nodiscard]] constexpr int identity() const { return 0; }
    [[nodiscard]] constexpr int lift(int value) const { return value % modulus; }
    [[nodiscard]] constexpr double lower(int state, int contributions) const { return state * 1.0 / contributions; }
    static constexpr law_set laws = law::associative | law::exact;
};

/// Laws and identity that depend on the element type.
struct by_type {
    template <class T>
    T operator()(const T& a, const T&) const {
        return a;
    }
    template <class T>
    static constexpr law_set laws_on = std::is_integral_v<T> ? law::associative | law::commutative : law::associative;
    template <std::same_as<short> T>
    static T identity() {
        return 7;
    }
};

struct row_operator {
    void operator()(row<const float, const int> left, row<const float, const int> right, row<float, int> out) const {
        std::get<0>(out)[0] = std::get<0>(left)[0] + std::get<0>(right)[0];
        std::get<1>(out)[0] = std::get<1>(left)[0];
    }
    static constexpr law_set laws = law::associative;
};

struct matrix {
    int a, b, c, d;
    friend constexpr bool operator==(const matrix&, const matrix&) = default;
    friend constexpr matrix operator*(const matrix& x, const matrix& y) {
        return {x.a * y.a + x.b * y.c, x.a * y.b + x.b * y.d, x.c * y.a + x.d * y.c, x.c * y.b + x.d * y.d};
    }
};

int add(int a, int b) { return a + b; }

struct final_adder final {
    int offset;
    int operator()(int a, int b) const { return a + b + offset; }
};

/// A third-party operator whose class cannot be changed.
struct foreign {
    int operator()(int a, int) const { return a; }
    static constexpr law_set laws = law::associative;
};

/// Operators on many elements at once: the smallest model, and near misses.
struct of_stretches {
    void operator()(stretch<const int>, stretch<const int>, stretch<int>) const {}
};
struct of_two_stretches {
    void operator()(stretch<const int>, stretch<int>) const {}
};
struct of_variable_stretches {
    void operator()(stretch<int>, stretch<int>, stretch<int>) const {}
};
struct of_stretches_if_variable {
    void operator()(stretch<const int>, stretch<const int>, stretch<int>) {}
};
struct of_stretches_of_two {
    void operator()(const allfold::stretches<const int, const float>&,
                    const allfold::stretches<const int, const float>&, const allfold::stretches<int, float>&) const {}
};

}  // namespace

TEST_CASE("an operator that takes many elements at once takes constants on both sides, while const") {
    STATIC_REQUIRE(stretch_operation<of_stretches, int>);
    STATIC_REQUIRE(allfold::binary_operation<of_stretches, row<int>>);  // each tensor by itself
    STATIC_REQUIRE(stretch_operation<of_stretches_of_two, row<int, float>>);
    STATIC_REQUIRE_FALSE(stretch_operation<of_stretches, float>);
    STATIC_REQUIRE_FALSE(stretch_operation<of_two_stretches, int>);
    STATIC_REQUIRE_FALSE(stretch_operation<of_variable_stretches, int>);
    STATIC_REQUIRE_FALSE(stretch_operation<of_stretches_if_variable, int>);
    STATIC_REQUIRE_FALSE(stretch_operation<std::plus<int>, int>);
    STATIC_REQUIRE_FALSE(allfold::binary_operation<of_variable_stretches, int>);
    STATIC_REQUIRE_FALSE(allfold::associative_operator<of_stretches, int>);
    STATIC_REQUIRE(allfold::associative_operator<decltype(allfold::associative(of_stretches())), int>);
}

TEST_CASE("a flag decides whether an operator is commutative, whatever its type says") {
    const auto plus = allfold::commutative_if(false, std::plus<int>());
    using operation = std::remove_const_t<decltype(plus)>;
    STATIC_REQUIRE(allfold::commutative_operator<std::plus<int>, int>);
    STATIC_REQUIRE_FALSE(allfold::commutative_operator<operation, int>);
    STATIC_REQUIRE(allfold::associative_operator<operation, int>);
    CHECK_FALSE(plus.commutative());
    CHECK(allfold::commutative_if(true, std::plus<int>()).commutative());
    CHECK(allfold::with_identity(allfold::commutative_if(true, std::plus<int>()), 0).commutative());
    CHECK(plus(2, 3) == 5);
}

template <>
struct allfold::operator_laws<foreign, int> {
    static constexpr law_set value = law::associative | law::commutative | law::exact;
};

TEST_CASE("a set of laws has those that were put into it and no other") {
    constexpr law_set none;
    constexpr law_set two = law::associative | law::exact;
    STATIC_REQUIRE_FALSE(none.has(law::associative));
    STATIC_REQUIRE(two.has(law::associative));
    STATIC_REQUIRE(two.has(law::exact));
    STATIC_REQUIRE_FALSE(two.has(law::commutative));
    STATIC_REQUIRE((two | law::commutative).has(law::commutative));
    STATIC_REQUIRE((two | none) == two);
}

TEST_CASE("the smallest model is an associative operator, and nothing more") {
    STATIC_REQUIRE(allfold::binary_operation<smallest, int>);
    STATIC_REQUIRE(allfold::associative_operator<smallest, int>);
    STATIC_REQUIRE(allfold::associative_operator<const smallest&, int>);
    STATIC_REQUIRE_FALSE(allfold::commutative_operator<smallest, int>);
    STATIC_REQUIRE_FALSE(allfold::idempotent_operator<smallest, int>);
    STATIC_REQUIRE_FALSE(allfold::exact_operator<smallest, int>);
    STATIC_REQUIRE_FALSE(allfold::operator_with_identity<smallest, int>);
    STATIC_REQUIRE_FALSE(allfold::lifting_operator<smallest, int>);
    STATIC_REQUIRE_FALSE(allfold::lowering_operator<smallest, int>);
}

TEST_CASE("a type that lacks one requirement is no operator") {
    STATIC_REQUIRE(allfold::binary_operation<undeclared, int>);
    STATIC_REQUIRE_FALSE(allfold::associative_operator<undeclared, int>);
    STATIC_REQUIRE_FALSE(allfold::binary_operation<not_const, int>);
    STATIC_REQUIRE_FALSE(allfold::binary_operation<not_copyable, int>);
    STATIC_REQUIRE_FALSE(allfold::binary_operation<wrong_result, int>);
    STATIC_REQUIRE_FALSE(allfold::binary_operation<needs_mutable_operands, int>);
    STATIC_REQUIRE_FALSE(allfold::binary_operation<one_operand, int>);
    STATIC_REQUIRE_FALSE(allfold::binary_operation<smallest, std::string>);
    STATIC_REQUIRE_FALSE(allfold::binary_operation<int, int>);
    STATIC_REQUIRE_FALSE(allfold::associative_operator<only_commutative, int>);
    STATIC_REQUIRE_FALSE(allfold::commutative_operator<only_commutative, int>);
    STATIC_REQUIRE_FALSE(allfold::idempotent_operator<only_commutative, int>);
}

TEST_CASE("a lambda gets its laws by declaration") {
    const auto larger = [](int a, int b) { return a < b ? b : a; };
    STATIC_REQUIRE_FALSE(allfold::associative_operator<decltype(larger), int>);
    STATIC_REQUIRE(allfold::associative_operator<decltype(allfold::associative(larger)), int>);
    STATIC_REQUIRE_FALSE(allfold::commutative_operator<decltype(allfold::associative(larger)), int>);
    STATIC_REQUIRE(allfold::commutative_operator<decltype(allfold::commutative(larger)), int>);
    STATIC_REQUIRE(allfold::commutative_operator<decltype(allfold::commutative(allfold::associative(larger))), int>);
}

TEST_CASE("a declared operator keeps its captures, also when copied or moved") {
    const auto plus_offset = [](int offset) {
        return allfold::associative([offset](int a, int b) { return a + b + offset; });
    };
    const auto one = plus_offset(1), thousand = plus_offset(1000);
    STATIC_REQUIRE(std::same_as<decltype(one), decltype(thousand)>);
    CHECK(one(1, 2) == 4);
    CHECK(thousand(1, 2) == 1003);

    const auto copy = one;
    auto moved = allfold::associative(
        [text = std::string("-")](const std::string& a, const std::string& b) { return a + text + b; });
    const auto target = std::move(moved);
    CHECK(copy(1, 2) == 4);
    CHECK(target("a", "b") == "a-b");
}

TEST_CASE("a declared operator may share what it cannot copy") {
    const auto modulus = std::make_shared<int>(7);
    const auto op = allfold::commutative([modulus](int a, int b) { return (a + b) % *modulus; });
    const std::array copies{op, op};
    *modulus = 5;
    for (const auto& copy : copies) CHECK(copy(3, 4) == 2);
}

TEST_CASE("a generic lambda that takes any number of arguments folds elements") {
    const auto largest = allfold::commutative([](auto... x) { return std::max({x...}); });
    STATIC_REQUIRE(allfold::commutative_operator<decltype(largest), int>);
    STATIC_REQUIRE(allfold::commutative_operator<decltype(largest), allfold::row<int, double>>);
    STATIC_REQUIRE_FALSE(allfold::stretch_operation<decltype(largest), int>);
    CHECK(largest(3, 5) == 5);
}

TEST_CASE("a function, a std::function and a final class can be declared") {
    CHECK(allfold::commutative(add)(1, 2) == 3);
    CHECK(allfold::commutative(&add)(1, 2) == 3);
    CHECK(allfold::commutative(std::function(add))(1, 2) == 3);
    CHECK(allfold::associative(final_adder{5})(1, 2) == 8);
    STATIC_REQUIRE(allfold::commutative_operator<decltype(allfold::commutative(add)), int>);
    STATIC_REQUIRE(allfold::commutative_operator<decltype(allfold::commutative(std::function(add))), int>);
    STATIC_REQUIRE_FALSE(allfold::binary_operation<decltype(allfold::commutative(add)), std::string>);
}

TEST_CASE("a declaration adds to what an operator has already") {
    const auto op = allfold::commutative(add_modulo{10});
    STATIC_REQUIRE(allfold::laws_of<decltype(op), int> == (law::associative | law::commutative | law::exact));
    STATIC_REQUIRE(allfold::operator_with_identity<decltype(op), int>);
    STATIC_REQUIRE(allfold::lifting_operator<decltype(op), int>);
    STATIC_REQUIRE(allfold::lowering_operator<decltype(op), int>);
    CHECK(op(7, 8) == 5);
    CHECK(op.lift(23) == 3);
    CHECK(op.lower(3, 2) == 1.5);
    CHECK(allfold::identity_of<int>(op) == 0);
}

TEST_CASE("an operator gets an identity by declaration, and keeps what it has") {
    constexpr auto op = allfold::with_identity(add_modulo{10}, 10);
    STATIC_REQUIRE(allfold::laws_of<decltype(op), int> == (law::associative | law::exact));
    STATIC_REQUIRE(allfold::operator_with_identity<decltype(op), int>);
    STATIC_REQUIRE(allfold::identity_of<int>(op) == 10);  // instead of 0
    STATIC_REQUIRE(op(7, 8) == 5);
    STATIC_REQUIRE(op.lift(23) == 3);
    STATIC_REQUIRE(op.lower(3, 2) == 1.5);

    const auto larger = allfold::with_identity([](int a, int b) { return a < b ? b : a; }, -1);
    STATIC_REQUIRE_FALSE(allfold::associative_operator<decltype(larger), int>);  // an identity adds no laws
    const auto declared = allfold::commutative(larger);
    STATIC_REQUIRE(allfold::commutative_operator<decltype(declared), int>);
    CHECK(allfold::identity_of<int>(declared) == -1);
    CHECK(allfold::identity_of<int>(allfold::with_identity(allfold::commutative(add), 0)) == 0);
    CHECK(allfold::identity_of<int>(allfold::with_identity(allfold::with_identity(allfold::associative(&add), 1), 2)) ==
          2);
    CHECK(allfold::with_identity(final_adder{5}, 0)(1, 2) == 8);
    CHECK(allfold::check_laws(allfold::with_identity(allfold::sum{}, 0), {1, -1, 7}));
    CHECK_FALSE(allfold::check_laws(allfold::with_identity(allfold::sum{}, 1), {1, -1, 7}));
}

TEST_CASE("an identity that is given becomes an element where that is without loss of meaning") {
    const auto first = allfold::with_identity(by_type{}, 3);
    CHECK(allfold::identity_of<double>(first) == 3);
    CHECK(allfold::identity_of<short>(first) == 3);  // instead of its own
    STATIC_REQUIRE_FALSE(allfold::operator_with_identity<decltype(first), std::string>);
    STATIC_REQUIRE_FALSE(allfold::operator_with_identity<decltype(allfold::with_identity(by_type{}, 0.5)), int>);
    CHECK(allfold::identity_of<std::string>(allfold::with_identity(by_type{}, "")).empty());
}

TEST_CASE("an operator on rows gets a value for each tensor as its identity") {
    constexpr auto op = allfold::with_identity(row_operator{}, std::tuple(0, 7));
    STATIC_REQUIRE(allfold::detail::folds_rows<decltype(op), row<float, int>>);
    STATIC_REQUIRE(allfold::detail::given_identity_fits<decltype(op), row<float, int>>);
    STATIC_REQUIRE_FALSE(
        allfold::detail::given_identity_fits<decltype(allfold::with_identity(row_operator{}, 0)), row<float, int>>);
    std::array<float, 2> some{1, 2};
    std::array<int, 1> one{3};
    op.set_identity(row<float, int>{some, one});
    CHECK(some == std::array<float, 2>{0, 0});
    CHECK(one[0] == 7);
}

TEST_CASE("laws and identities may depend on the element type") {
    STATIC_REQUIRE(allfold::commutative_operator<by_type, int>);
    STATIC_REQUIRE(allfold::associative_operator<by_type, float>);
    STATIC_REQUIRE_FALSE(allfold::commutative_operator<by_type, float>);
    STATIC_REQUIRE(allfold::operator_with_identity<by_type, short>);
    STATIC_REQUIRE_FALSE(allfold::operator_with_identity<by_type, int>);
    CHECK(allfold::identity_of<short>(by_type{}) == 7);
}

TEST_CASE("what is declared for a foreign type comes before what it says itself") {
    STATIC_REQUIRE(allfold::laws_of<foreign, int> == (law::associative | law::commutative | law::exact));
    STATIC_REQUIRE(allfold::laws_of<const foreign&, int> == allfold::laws_of<foreign, int>);
    STATIC_REQUIRE(allfold::laws_of<foreign, long> == law_set(law::associative));
}

TEST_CASE("an operation on elements is one on rows of them, with the laws that it has on all") {
    STATIC_REQUIRE(allfold::commutative_operator<by_type, row<int, long>>);
    STATIC_REQUIRE(allfold::associative_operator<by_type, row<int, float>>);
    STATIC_REQUIRE_FALSE(allfold::commutative_operator<by_type, row<int, float>>);
    STATIC_REQUIRE_FALSE(allfold::detail::folds_rows<by_type, row<int, float>>);
    STATIC_REQUIRE_FALSE(allfold::binary_operation<smallest, row<int, std::string>>);
}

TEST_CASE("an operation on rows need not be one on their elements") {
    STATIC_REQUIRE(allfold::detail::folds_rows<row_operator, row<float, int>>);
    STATIC_REQUIRE(allfold::associative_operator<row_operator, row<float, int>>);
    STATIC_REQUIRE_FALSE(allfold::binary_operation<row_operator, row<int, float>>);
    STATIC_REQUIRE_FALSE(allfold::binary_operation<row_operator, row<float>>);
    STATIC_REQUIRE_FALSE(allfold::binary_operation<row_operator, float>);
    STATIC_REQUIRE(allfold::commutative_operator<decltype(allfold::commutative(row_operator{})), row<float, int>>);
}

TEST_CASE("concatenation of strings is associative but not commutative") {
    const auto concatenate = allfold::associative([](const std::string& a, const std::string& b) { return a + b; });
    CHECK(allfold::check_laws(concatenate, {std::string(), std::string("a"), std::string("b"), std::string("ab")}));
    CHECK_FALSE(allfold::commutative_operator<decltype(concatenate), std::string>);
    CHECK(concatenate("a", "b") != concatenate("b", "a"));
}

TEST_CASE("the product of 2x2 matrices is associative but not commutative") {
    constexpr matrix rotate{0, -1, 1, 0}, shear{1, 1, 0, 1}, singular{1, 2, 2, 4};
    const auto multiply = allfold::associative([](const matrix& x, const matrix& y) { return x * y; });
    CHECK(allfold::check_laws(multiply, {rotate, shear, singular}));
    CHECK_FALSE(allfold::commutative_operator<decltype(multiply), matrix>);
    CHECK(multiply(rotate, shear) != multiply(shear, rotate));
}
