// SPDX-License-Identifier: BSL-1.0
#include "allfold/analysis/draw.hpp"

#include <string>
#include <utility>
#include <vector>

#include "allfold/collective.hpp"
#include "allfold/schedule/all_read.hpp"
#include "allfold/schedule/binomial.hpp"
#include "allfold/schedule/compose.hpp"
#include "allfold/schedule/direct.hpp"
#include "allfold/schedule/dissemination.hpp"
#include "allfold/schedule/linear.hpp"
#include "allfold/schedule/recursive_doubling.hpp"
#include "allfold/schedule/recursive_halving.hpp"
#include "allfold/schedule/ring.hpp"
#include "allfold/schedule/schedule_of.hpp"
#include "allfold/schedule/two_level.hpp"
#include "test/support/catch.hpp"

using allfold::draw;
using Catch::Matchers::ContainsSubstring;

namespace {

/// The texts of a picture, one per line, without markup.
std::string texts(const std::string& picture) {
    std::string found;
    for (std::size_t at = picture.find("<text"); at != std::string::npos; at = picture.find("<text", at + 1)) {
        bool inside = false;
        for (std::size_t i = at; picture.compare(i, 7, "</text>") != 0; ++i) {
            if (picture[i] == '<') inside = false;
            if (inside) found += picture[i];
            if (picture[i] == '>') inside = true;
        }
        found += "\n";
    }
    return found;
}

int arrows(const std::string& picture) {
    int n = 0;
    for (std::size_t at = picture.find("marker-end"); at != std::string::npos; at = picture.find("marker-end", at + 1))
        ++n;
    return n;
}

/// Whether every XML element is closed, in the right order.
bool well_formed(const std::string& picture) {
    std::vector<std::string> open;
    for (std::size_t at = picture.find('<'); at != std::string::npos; at = picture.find('<', at + 1)) {
        const std::size_t end = picture.find('>', at);
        if (end == std::string::npos) return false;
        const std::string tag = picture.substr(at + 1, end - at - 1);
        const std::string name = tag.substr(0, tag.find(' '));
        if (tag.back() == '/') continue;
        if (tag.front() != '/') {
            open.push_back(name);
        } else {
            if (open.empty() || "/" + open.back() != tag) return false;
            open.pop_back();
        }
    }
    return open.empty();
}

struct mixed {
    static constexpr const char* name = "halving, then ring";
    using all_reduce = allfold::composed<allfold::recursive_halving::reduce_scatter, allfold::ring::all_gather>;
};

struct one_sided : allfold::recursive_doubling::all_reduce {
    using all_reduce::all_reduce;
    allfold::step operator[](int round) const {
        allfold::step s = allfold::recursive_doubling::all_reduce::operator[](round);
        if (rank() == 0) s.to = {};
        return s;
    }
};
struct broken {
    static constexpr const char* name = "broken";
    using all_reduce = one_sided;
};

/// Both blocks are sent in one message, in a later round than that of its receive, and are received in two parts.
struct late {
    static constexpr const char* name = "late";
    struct broadcast : allfold::schedule_of<late> {
        static constexpr allfold::order keeps = allfold::order::tree;
        using schedule_of::schedule_of;
        [[nodiscard]] int blocks() const { return 2; }
        [[nodiscard]] int rounds() const { return 2; }
        allfold::step operator[](int round) const {
            const allfold::block_set first = allfold::block_set::one(0);
            if (rank() == 0 && round == 0) return {.local = allfold::keep_input(allfold::block_set::all(2))};
            if (rank() == 0) return {.to = allfold::peers::one(1), .send = allfold::block_set::all(2)};
            if (round == 0) return {.from = allfold::peers::one(0), .receive = first, .has_more = true};
            return {};
        }
        [[nodiscard]] allfold::step also(int) const { return {.receive = allfold::block_set::one(1)}; }
    };
};

}  // namespace

TEST_CASE("a picture has a title, all ranks and rounds, and an arrow for each message") {
    const std::string picture = draw(allfold::all_reduce, allfold::recursive_doubling{}, 6);
    CHECK(well_formed(picture));
    CHECK(arrows(picture) == allfold::prove(allfold::all_reduce, allfold::recursive_doubling{}, 6).messages);
    CHECK_THAT(texts(picture), ContainsSubstring("recursive doubling all_reduce, P = 6: 4 rounds, order::tree\n") &&
                                   ContainsSubstring("rank 5\n") && ContainsSubstring("round 3\n"));
}

TEST_CASE("a picture tells the side of each fold") {
    const std::string found = texts(draw(allfold::all_reduce, allfold::recursive_doubling{}, 6));
    CHECK_THAT(found, ContainsSubstring("0 ∘ 1\n") && ContainsSubstring("0..1 ∘ 2..3\n") &&
                          ContainsSubstring("0..3 ∘ 4..5\n") && ContainsSubstring("\n0..5\n"));
    CHECK_THAT(draw(allfold::all_reduce, allfold::recursive_doubling{}, 6),
               ContainsSubstring("<tspan font-weight='bold'>0</tspan><tspan> ∘ </tspan><tspan>1</tspan>"));
}

TEST_CASE("a picture names blocks where there are several") {
    CHECK_THAT(texts(draw(allfold::all_reduce, allfold::ring{}, 4)),
               ContainsSubstring("b2: 3 ∘ 0\n") && ContainsSubstring("b1: 2..3,0 ∘ 1\n"));
    CHECK_THAT(texts(draw(allfold::reduce_scatter, allfold::recursive_halving{}, 6)),
               ContainsSubstring("b0..1,4: 0..1 ∘ 2..3\n") && ContainsSubstring("b2..3,5\n"));
}

TEST_CASE("a picture shows several peers at once, and their operands in rank order") {
    const std::string direct = draw(allfold::all_reduce, allfold::direct{}, 4);
    CHECK(arrows(direct) == 24);
    CHECK_THAT(texts(direct), ContainsSubstring("b1: 0 ∘ 1 ∘ 2 ∘ 3\n") && ContainsSubstring("b0..1,3: 0..3\n"));
    CHECK_THAT(texts(draw(allfold::all_reduce, allfold::all_read{}, 8)), ContainsSubstring("\n0..7\n"));
    CHECK_THAT(texts(draw(allfold::exclusive_scan, allfold::all_read{}, 4)), ContainsSubstring("\n0 ∘ 1 ∘ 2\n"));
}

TEST_CASE("a picture shows all prefixes of a block, and who gets which of them") {
    const std::string direct = draw(allfold::inclusive_scan, allfold::direct{}, 4);
    CHECK(arrows(direct) == 24);
    CHECK_THAT(texts(direct), ContainsSubstring("b2: 0 ∘ 1\nb2: 0 ∘ 1 ∘ 2\nb2: 0 ∘ 1 ∘ 2 ∘ 3\n") &&
                                  ContainsSubstring("b2\n") && ContainsSubstring("b0,2..3: 0..1\n") &&
                                  ContainsSubstring("b0..2: 0..3\n"));
}

TEST_CASE("a picture says of many blocks which have come, and counts folds only where something is folded") {
    CHECK_THAT(texts(draw(allfold::gather, allfold::linear{}, 6)),
               ContainsSubstring("\nb1..5\n") && !ContainsSubstring("folds"));
    CHECK_THAT(texts(draw(allfold::inclusive_scan, allfold::direct{}, 6)), ContainsSubstring("\n5 folds\n"));
}

TEST_CASE("a picture shows what is folded before it is sent") {
    CHECK_THAT(texts(draw(allfold::exclusive_scan, allfold::dissemination{}, 6)),
               ContainsSubstring("2 ∘ 3\n") && ContainsSubstring("0..1 ∘ 2..4\n"));
}

TEST_CASE("a picture of a rooted schedule depends on the root, and a barrier shows messages alone") {
    CHECK(draw(allfold::reduce, allfold::binomial{}, 6, 0) != draw(allfold::reduce, allfold::binomial{}, 6, 2));
    const std::string barrier = draw(allfold::barrier, allfold::dissemination{}, 5);
    CHECK(arrows(barrier) == 15);
    CHECK_THAT(texts(barrier),
               ContainsSubstring("dissemination barrier, P = 5: 3 rounds\n") && !ContainsSubstring("∘"));
}

TEST_CASE("a picture bears the name of the algorithm") {
    CHECK_THAT(texts(draw(allfold::all_reduce, mixed{}, 4)),
               ContainsSubstring("halving, then ring all_reduce, P = 4: 5 rounds"));
    CHECK_THAT(texts(draw(allfold::all_reduce, allfold::ring{}, 4)),
               ContainsSubstring("ring all_reduce, P = 4: 6 rounds, order::any"));
}

TEST_CASE("one rank alone is drawn without rounds, and a name is written as XML wants it") {
    const auto make = [](int rank) { return allfold::ring::all_reduce({rank, 1}); };
    const allfold::claim claimed = claim_of(allfold::all_reduce, allfold::ring{});
    const std::string picture = draw(1, make, claimed, "<mine> & yours");
    CHECK(well_formed(picture));
    CHECK(arrows(picture) == 0);
    CHECK_THAT(picture, ContainsSubstring("&lt;mine> &amp; yours all_reduce, P = 1: 0 rounds"));
}

TEST_CASE("what is no character in XML is drawn as U+FFFD") {
    const auto name_drawn = [](const std::string& name) {
        const auto make = [](int rank) { return allfold::ring::all_reduce({rank, 1}); };
        const std::string all = draw(1, make, claim_of(allfold::all_reduce, allfold::ring{}), name);
        const std::size_t begin = all.find("<tspan font-weight='bold'>") + 26;
        return all.substr(begin, all.find(" all_reduce", begin) - begin);
    };
    const std::string none = "\xEF\xBF\xBD";
    CHECK(name_drawn("\x1B[31mred\tand \x80 end") == none + "[31mred\tand " + none + " end");
    CHECK(name_drawn("]]> but ] ]>") == "]]&gt; but ] ]>");
    for (const char* const letter :
         {"\xC2\x80", "\xE2\x88\x98", "\xEE\x80\x80", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"})
        CHECK(name_drawn(letter) == letter);
    const std::pair<std::string, int> invalid[]{{"\xC1\xBF", 2},     {"\xE0\x9F\xBF", 3},     {"\xED\xA0\x80", 3},
                                                {"\xEF\xBF\xBF", 3}, {"\xF4\x90\x80\x80", 4}, {"\xF8", 1},
                                                {"\xE2\x88 ", 2}};
    for (const auto& [bytes, count] : invalid) {
        std::string expected;
        for (int i = 0; i < count; ++i) expected += none;
        INFO(bytes.size() << " bytes, " << count);
        CHECK(name_drawn(bytes) == expected + (bytes.back() == ' ' ? " " : ""));
    }
}

TEST_CASE("a schedule that is wrong is drawn as far as it goes, and who waits for whom then") {
    const std::string picture = draw(allfold::all_reduce, broken{}, 4);
    CHECK(well_formed(picture));
    CHECK(arrows(picture) == 5);  // rank 1 never gets to its second message
    CHECK_THAT(texts(picture), ContainsSubstring("0 ∘ 1\n") && ContainsSubstring("waits for rank 0\n"));
}

TEST_CASE("a message that is received in another round than it is sent is drawn, and so is one of two parts") {
    CHECK(allfold::prove(allfold::broadcast, late{}, 2).ok());
    const std::string found = texts(draw(allfold::broadcast, late{}, 2));
    CHECK_THAT(found, ContainsSubstring("b0..1\n") && ContainsSubstring("b0..1: 0\n"));
}

TEST_CASE("what does not exist is not drawn") {
    const auto why = [](auto draws) {
        try {
            static_cast<void>(draws());
        } catch (const allfold::error& e) {
            return std::string(e.what());
        }
        return std::string();
    };
    CHECK(why([] { return draw(allfold::all_reduce, allfold::ring{}, 0); }) ==
          "draw: ring has no schedule for 0 ranks in groups of 1");
    CHECK(why([] { return draw(allfold::all_reduce, allfold::two_level{}, 4, 0, 3); }) ==
          "draw: two-level has no schedule for 4 ranks in groups of 3");
    CHECK(why([] { return draw(allfold::broadcast, allfold::binomial{}, 4, 9); }) == "draw: root 9 of 4 ranks");
}
