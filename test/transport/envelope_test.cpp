// SPDX-License-Identifier: BSL-1.0
#include "allfold/transport/detail/envelope.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <optional>
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
    sent.lists = "0 2 5 7 ";
    detail::known_signatures known;
    const signature got = after_introduction(known, sent);
    CHECK(got.what == std::string("all_reduce"));
    CHECK(got.element_type == std::string("double"));
    CHECK(got.operator_type == std::string("sum"));
    CHECK(got.schedule == std::string("ring"));
    CHECK(got.lists == std::string("0 2 5 7 "));
    CHECK(static_cast<const allfold::call_parameters&>(got) == sent);
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

TEST_CASE("of many signatures the latest are known, and earlier ones are introduced again") {
    detail::known_signatures known;
    detail::introductions introduced(2);
    constexpr std::size_t many = 20000;
    signature each;
    const auto learn = [&](std::size_t number) {
        each.elements = number;
        std::array<std::byte, detail::longest_introduction> raw;
        detail::introduction::write(each, raw.data());
        known.learn(each.hash(), raw.data());
        return each.hash();
    };
    std::uint32_t call = 0;
    const std::uint32_t first = learn(0);
    CHECK(introduced.is_due(1, first, ++call));
    CHECK_FALSE(introduced.is_due(1, first, ++call));
    std::size_t due = 0;
    for (std::size_t number = 1; number < many; ++number) due += introduced.is_due(1, learn(number), ++call) ? 1U : 0U;
    CHECK(due == many - 1);
    CHECK_FALSE(known.find(first));
    for (std::size_t back = 1; back <= detail::known_signatures::least; ++back) {
        each.elements = many - back;
        if (known.find(each.hash()).value_or(signature()).elements != many - back) FAIL(back << " back is not known");
    }
    CHECK_FALSE(introduced.is_due(1, each.hash(), ++call));
    CHECK(introduced.is_due(1, first, ++call));
    CHECK_FALSE(introduced.is_due(1, first, ++call));
}

namespace {

constexpr std::size_t most_in_chunks = 4096;

bool is_message(const std::vector<std::byte>& came) { return detail::open_envelope(came, most_in_chunks).has_value(); }

/// An envelope with what is sent along: an introduction of `introduced` lines, a table if there is one, and `rest`
/// bytes.
std::vector<std::byte> head_of(std::uint8_t introduced, std::size_t rest,
                               std::optional<detail::payload_table::head> table = {},
                               std::initializer_list<detail::payload_range> ranges = {}) {
    const std::size_t lines = introduced * detail::line_of_message;
    const std::size_t tabled = table ? detail::payload_table::padded_bytes(ranges.size()) : 0;
    std::vector<std::byte> head(detail::envelope_bytes + lines + tabled + rest);
    const detail::envelope about{.introduced = introduced,
                                 .table = static_cast<std::uint8_t>(table ? 1 + ranges.size() : 0),
                                 .tally = static_cast<std::uint16_t>(head.size())};
    std::memcpy(head.data(), &about, sizeof about);
    if (table)
        detail::payload_table::write(*table, {ranges.begin(), ranges.size()}, head.data() + sizeof about + lines);
    return head;
}
std::vector<std::byte> head_of_ranges(std::uint64_t bytes, std::initializer_list<detail::payload_range> ranges,
                                      std::size_t rest) {
    return head_of(0, rest, detail::payload_table::head{bytes, 0}, ranges);
}

}  // namespace

TEST_CASE("an envelope counts only if what comes with it is as long as it says") {
    CHECK(is_message(head_of(0, 0)));
    CHECK(is_message(head_of(1, 100)));
    CHECK(is_message(head_of(1, most_in_chunks)));
    CHECK_FALSE(is_message(head_of(1, most_in_chunks + 1)));
    auto other = head_of(1, 100);
    other.push_back(std::byte{0});
    CHECK_FALSE(is_message(other));
    CHECK(is_message(head_of(1, 200, detail::payload_table::head{1000, 0}, {{100, 500}, {600, 300}})));
    CHECK_FALSE(is_message(std::vector<std::byte>(detail::envelope_bytes - 1)));
    CHECK_FALSE(is_message(std::vector<std::byte>(detail::envelope_bytes)));
    CHECK_FALSE(is_message(std::vector<std::byte>(detail::envelope_bytes, std::byte{0x11})));
}

TEST_CASE("an envelope tells where what came along lies") {
    const auto plain = head_of(0, 10);
    auto opened = detail::open_envelope(plain, most_in_chunks).value();
    CHECK(opened.introduction == nullptr);
    CHECK(opened.table == nullptr);
    CHECK(opened.payload == plain.data() + detail::envelope_bytes);
    CHECK(opened.came == 10);
    const auto full = head_of(2, 10, detail::payload_table::head{1000, 64});
    opened = detail::open_envelope(full, most_in_chunks).value();
    CHECK(opened.introduction == full.data() + detail::envelope_bytes);
    CHECK(opened.table == opened.introduction + 2 * detail::line_of_message);
    CHECK(opened.payload == opened.table + detail::payload_table::padded_bytes(0));
    CHECK(opened.came == 10);
    CHECK(opened.read_table().bytes() == 1000);
    CHECK(opened.read_table().chunk() == 64);
    CHECK(opened.read_table().late() == 0);
}

TEST_CASE("chunks that would be written outside of a buffer are no message") {
    const auto in_chunks = [](std::uint64_t bytes, std::size_t came, std::uint32_t late = 0) {
        return is_message(head_of(0, came, detail::payload_table::head{bytes, 64, late}));
    };
    CHECK(in_chunks(most_in_chunks, 0, 100));
    CHECK_FALSE(in_chunks(most_in_chunks, 100, 100));  // the beginning is sent along or last, not both
    CHECK_FALSE(in_chunks(most_in_chunks, 0));
    CHECK_FALSE(in_chunks(100, 0, 100));
    CHECK_FALSE(in_chunks(100, 0, ~std::uint32_t{0}));
    CHECK(in_chunks(most_in_chunks, 100));
    CHECK_FALSE(in_chunks(most_in_chunks + 1, 100));
    CHECK_FALSE(in_chunks(100, 100));  // nothing is left for chunks
    CHECK_FALSE(in_chunks(99, 100));
    CHECK_FALSE(is_message(head_of(0, 100, detail::payload_table::head{1000, 64}, {{0, 900}})));
}

TEST_CASE("ranges that would be written outside of a payload, or over each other, are no message") {
    CHECK_FALSE(is_message(head_of_ranges(1000, {{100, 500}}, 400)));  // 500 are missing
    CHECK_FALSE(is_message(head_of_ranges(1000, {{600, 500}}, 500)));
    CHECK_FALSE(is_message(head_of_ranges(1000, {{1001, 0}}, 1000)));
    CHECK_FALSE(is_message(head_of_ranges(1000, {{100, 500}, {500, 300}}, 200)));
    CHECK_FALSE(is_message(head_of_ranges(1000, {{500, 300}, {0, 500}}, 200)));
    CHECK_FALSE(is_message(head_of_ranges(1000, {{100, ~std::uint64_t{0} - 50}}, 500)));
    auto too_many = head_of_ranges(1000, {{0, 1000}}, 10000);
    const std::uint8_t table = detail::max_ranges + 2;
    std::memcpy(too_many.data() + offsetof(detail::envelope, table), &table, sizeof table);
    CHECK_FALSE(is_message(too_many));
}
