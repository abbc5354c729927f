// SPDX-License-Identifier: BSL-1.0
#include "allfold/transport/detail/envelope.hpp"

#include <array>
#include <cstddef>
#include <string>

#include "test/support/catch.hpp"

using allfold::signature;
namespace detail = allfold::detail;

namespace {

/// What another process knows once it has been told `s`.
signature after_introduction(detail::known_signatures& known, const signature& s) {
    std::array<std::byte, detail::longest_introduction> told;
    CHECK(detail::introduction::write(s, told.data()) % detail::line_of_message == 0);
    known.learn(s.hash(), told.data());
    told.fill(std::byte{0xff});
    return known.find(s.hash()).value();
}

}  // namespace

TEST_CASE("an introduction tells a signature in full, with all its names") {
    const signature sent{"all_reduce", allfold::order::rank, 3, 1000, 7, 42, "double", "sum", "ring"};
    detail::known_signatures known;
    const signature told = after_introduction(known, sent);
    CHECK(told.what == std::string("all_reduce"));
    CHECK(told.element_type == std::string("double"));
    CHECK(told.operator_type == std::string("sum"));
    CHECK(told.schedule == std::string("ring"));
    CHECK(told.level == allfold::order::rank);
    CHECK((told.root == 3 && told.elements == 1000 && told.layout == 7 && told.type_id == 42));
    CHECK(told.hash() == sent.hash());
}

TEST_CASE("names that are too long are cut, and the cut ones count as equal") {
    const std::string longer(2 * detail::longest_name, 'x');
    const signature sent{.what = longer.c_str(),
                         .element_type = longer.c_str(),
                         .operator_type = longer.c_str(),
                         .schedule = longer.c_str()};
    detail::known_signatures known;
    const signature told = after_introduction(known, sent);
    for (const char* name : {told.what, told.element_type, told.operator_type, told.schedule})
        CHECK(name == std::string(detail::longest_name, 'x'));
    CHECK(told.hash() == sent.hash());
}
