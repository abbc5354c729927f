// SPDX-License-Identifier: BSL-1.0
#include "allfold/algebra/set_union.hpp"

#include <cctype>
#include <cstddef>
#include <cstring>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "allfold/algebra/check_laws.hpp"
#include "allfold/algebra/operator.hpp"
#include "allfold/collective.hpp"
#include "allfold/data/serializer.hpp"
#include "test/support/algorithms.hpp"
#include "test/support/catch.hpp"
#include "test/support/oracle.hpp"
#include "test/support/ranks.hpp"
#include "test/support/remote.hpp"

using namespace test;
using allfold::law;
using allfold::law_set;
using allfold::laws_of;
using allfold::set_union;

using set = std::set<int>;
using list = std::vector<int>;

namespace {

constexpr law_set all_laws = law::associative | law::commutative | law::idempotent | law::exact;

struct in_any_case {
    bool operator()(char a, char b) const { return std::tolower(a) < std::tolower(b); }
};
using letters = std::set<char, in_any_case>;

/// Rank r has r itself, and 10·t + r mod 3 for t = 0 to 4.
set set_of(int rank) {
    set mine{rank};
    for (int tens = 0; tens < 5; ++tens) mine.insert(10 * tens + rank % 3);
    return mine;
}

}  // namespace

/// Lets sets be sent between ranks that do not share memory.
template <>
struct allfold::serializer<set> {
    static std::size_t bytes(const set& x) { return x.size() * sizeof(int); }
    static void write(const set& x, std::byte* to) {
        for (const int each : x) {
            std::memcpy(to, &each, sizeof each);
            to += sizeof each;
        }
    }
    static set read(std::span<const std::byte> from) {
        set x;
        for (std::size_t i = 0; i < from.size(); i += sizeof(int)) {
            int each = 0;
            std::memcpy(&each, from.data() + i, sizeof each);
            x.insert(each);
        }
        return x;
    }
};

TEST_CASE("a union holds what is in either set") {
    CHECK(set_union()(set{1, 3, 5}, set{2, 3}) == set{1, 2, 3, 5});
    CHECK(set_union()(list{1, 3, 5}, list{2, 3}) == list{1, 2, 3, 5});
    CHECK(set_union()(list{1, 1, 4}, list{1, 4, 4}) == list{1, 1, 4, 4});
    CHECK(set_union()(set{}, set{}).empty());
    using words = std::vector<std::string>;
    CHECK(set_union()(words{"a", "c"}, words{"b"}) == words{"a", "b", "c"});
}

TEST_CASE("a union keeps the left one of equivalent elements, and then does not commute") {
    CHECK(*set_union()(letters{'a'}, letters{'A'}).begin() == 'a');
    CHECK(*set_union()(letters{'A'}, letters{'a'}).begin() == 'A');
    STATIC_REQUIRE(laws_of<set_union, letters> == (law::associative | law::idempotent | law::exact));
    CHECK(allfold::check_laws(set_union(), {letters{}, letters{'a', 'B'}, letters{'A'}, letters{'b', 'c'}}));
}

TEST_CASE("unions keep their laws") {
    CHECK(allfold::check_laws(set_union(), {set{}, set{1}, set{1, 2}, set{2, 7, 9}}).text() ==
          "all declared laws hold on 4 samples");
    CHECK(allfold::check_laws(set_union(), {list{}, list{1}, list{1, 1}, list{1, 2, 2}, list{0, 7}}).text() ==
          "all declared laws hold on 5 samples");
    STATIC_REQUIRE(laws_of<set_union, set> == all_laws);
    STATIC_REQUIRE(laws_of<set_union, std::set<int, std::greater<>>> == all_laws);
    STATIC_REQUIRE(laws_of<set_union, std::vector<std::string>> == all_laws);
    STATIC_REQUIRE(laws_of<set_union, std::vector<double>> == law_set{});  // elements may be NaN
    STATIC_REQUIRE(allfold::operator_with_identity<set_union, set>);
    STATIC_REQUIRE(allfold::operator_with_identity<set_union, list>);
}

TEST_CASE("where a set's comparator holds something no set is empty in all orders, so there is no identity") {
    using ordered = std::set<int, bool (*)(int, int)>;
    const ordered odd({1, 3}, [](int a, int b) { return a > b; }), even({2, 4}, odd.key_comp());
    CHECK(set_union()(odd, even) == ordered({4, 3, 2, 1}, odd.key_comp()));
    STATIC_REQUIRE(allfold::associative_operator<set_union, ordered>);
    STATIC_REQUIRE_FALSE(allfold::operator_with_identity<set_union, ordered>);
    STATIC_REQUIRE(allfold::operator_with_identity<set_union, letters>);
    STATIC_REQUIRE(allfold::operator_with_identity<set_union, list>);
}

TEST_CASE("there is no union of numbers, words or multisets") {
    STATIC_REQUIRE_FALSE(allfold::binary_operation<set_union, int>);
    STATIC_REQUIRE_FALSE(allfold::binary_operation<set_union, std::string>);
    STATIC_REQUIRE_FALSE(allfold::binary_operation<set_union, std::multiset<int>>);
}

TEST_CASE("all ranks get the union of their sets, by every algorithm") {
    for (const int size : {1, 2, 3, 5, 8}) {
        set expected;
        for (int r = 0; r < size; ++r) expected = set_union()(expected, set_of(r));
        on_ranks(size, [&](auto& comm) {
            for_each_algorithm(allfold::all_reduce, size, [&](const std::string& name, auto... options) {
                set mine = set_of(comm.rank());
                allfold::all_reduce(comm, mine, set_union(), options...);
                expect(mine == expected, name);
            });
            const set mine = set_of(comm.rank());
            list sorted(mine.begin(), mine.end());
            allfold::all_reduce(comm, std::span(&sorted, 1), set_union());
            expect_equal(sorted, expected, "sorted lists");
            set before = set_of(comm.rank());
            allfold::exclusive_scan(comm, before, set_union());
            set lower;
            for (int r = 0; r < comm.rank(); ++r) lower = set_union()(lower, set_of(r));
            expect(before == lower, "exclusive_scan");
        });
        on_ranks(
            size,
            [&](allfold::thread_communicator& base) {
                remote comm(base);
                set mine = set_of(comm.rank());
                allfold::all_reduce(comm, mine, set_union());
                expect(mine == expected, "through a serializer");
            },
            roomy);
    }
    SUCCEED();
}
