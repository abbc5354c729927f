// SPDX-License-Identifier: BSL-1.0
#include "allfold/transport/detail/envelope.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <vector>

#include "test/support/catch.hpp"

using allfold::signature;
namespace detail = allfold::detail;

namespace {

/// What another process knows once `s` has been introduced.
signature after_introduction(detail::known_signatures& known, const signature& s) {
    std::array<std::byte, detail::longest_introduction> raw;
    CHECK(detail::introduction::write(s, raw.data()) % detail::line_of_message == 0);
    known.learn(s.hash(), raw.data());
    raw.fill(std::byte{0xff});
    return known.find(s.hash()).value();
}

}  // namespace

TEST_CASE("an introduction has a signature in full, with all its names") {
    signature sent;
    sent.elements = 1000;
    sent.borders = 7;
    sent.type_id = 42;
    sent.level = allfold::order::rank;
    sent.root = 3;
    sent.what = "all_reduce";
    sent.element_type = "double";
    sent.operator_type = "sum";
    sent.schedule = "ring";
    detail::known_signatures known;
    const signature got = after_introduction(known, sent);
    CHECK(got.what == std::string("all_reduce"));
    CHECK(got.element_type == std::string("double"));
    CHECK(got.operator_type == std::string("sum"));
    CHECK(got.schedule == std::string("ring"));
    CHECK(static_cast<const allfold::call_figures&>(got) == sent);
    CHECK(got.hash() == sent.hash());
}

TEST_CASE("names that are too long are cut, and the cut ones count as equal") {
    const std::string longer(2 * detail::longest_name, 'x');
    signature sent;
    sent.what = sent.element_type = sent.operator_type = sent.schedule = longer.c_str();
    detail::known_signatures known;
    const signature got = after_introduction(known, sent);
    for (const char* name : {got.what, got.element_type, got.operator_type, got.schedule})
        CHECK(name == std::string(detail::longest_name, 'x'));
    CHECK(got.hash() == sent.hash());
}

namespace {

/// What comes with an envelope: an introduction of `introduced` bytes, the table, and `rest` bytes.
std::vector<std::byte> head_of(std::uint64_t bytes, std::uint32_t introduced,
                               std::initializer_list<detail::payload_range> ranges, std::size_t rest) {
    const detail::envelope about{
        .introduced = introduced, .bytes = bytes, .ranges = static_cast<std::uint32_t>(ranges.size())};
    std::vector<std::byte> head(sizeof about + introduced + detail::range_table::padded_bytes(ranges.size()) + rest);
    std::memcpy(head.data(), &about, sizeof about);
    std::size_t at = sizeof about + introduced;
    for (const auto& range : ranges) {
        std::memcpy(head.data() + at, &range, sizeof range);
        at += sizeof range;
    }
    return head;
}

}  // namespace

TEST_CASE("an envelope counts only if what comes with it is as long as it says") {
    using detail::is_message;
    CHECK(is_message(head_of(0, 0, {}, 0)));
    CHECK(is_message(head_of(100, 64, {}, 100)));
    CHECK_FALSE(is_message(head_of(100, 64, {}, 99)));
    CHECK_FALSE(is_message(head_of(100, 64, {}, 101)));
    CHECK(is_message(head_of(1000, 64, {{100, 500}, {600, 300}}, 200)));
    CHECK_FALSE(is_message(std::vector<std::byte>(detail::envelope_bytes - 1)));
    CHECK_FALSE(is_message(std::vector<std::byte>(detail::envelope_bytes, std::byte{0x11})));
}

TEST_CASE("ranges that would be written outside of a payload, or over each other, are no message") {
    using detail::is_message;
    CHECK_FALSE(is_message(head_of(1000, 0, {{100, 500}}, 400)));  // 500 are missing
    CHECK_FALSE(is_message(head_of(1000, 0, {{600, 500}}, 500)));
    CHECK_FALSE(is_message(head_of(1000, 0, {{1001, 0}}, 1000)));
    CHECK_FALSE(is_message(head_of(1000, 0, {{100, 500}, {500, 300}}, 200)));
    CHECK_FALSE(is_message(head_of(1000, 0, {{500, 300}, {0, 500}}, 200)));
    CHECK_FALSE(is_message(head_of(1000, 0, {{100, ~std::uint64_t{0} - 50}}, 500)));
    auto too_many = head_of(1000, 0, {{0, 1000}}, 10000);
    const std::uint32_t ranges = detail::most_ranges + 1;
    std::memcpy(too_many.data() + offsetof(detail::envelope, ranges), &ranges, sizeof ranges);
    CHECK_FALSE(is_message(too_many));
}
