// SPDX-License-Identifier: BSL-1.0
#include "allfold/analysis/draw.hpp"

#include <string>
#include <vector>

#include "allfold/schedule/all_read.hpp"
#include "allfold/schedule/binomial.hpp"
#include "allfold/schedule/direct.hpp"
#include "allfold/schedule/dissemination.hpp"
#include "allfold/schedule/halving.hpp"
#include "allfold/schedule/recursive_doubling.hpp"
#include "allfold/schedule/ring.hpp"
#include "test/support/catch.hpp"

using allfold::draw;
using Catch::Matchers::ContainsSubstring;

namespace {

/// The texts of a picture, one a line, without marks.
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

/// Every element is closed, and in the right order.
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

}  // namespace

TEST_CASE("a picture has a title, all ranks and rounds, and an arrow for each message") {
    const std::string picture = draw<allfold::recursive_doubling::all_reduce>(6);
    CHECK(well_formed(picture));
    CHECK(arrows(picture) == allfold::prove<allfold::recursive_doubling::all_reduce>(6).messages);
    CHECK_THAT(texts(picture), ContainsSubstring("recursive doubling all_reduce, P = 6: 4 rounds, order::tree\n") &&
                                   ContainsSubstring("rank 5\n") && ContainsSubstring("round 3\n"));
}

TEST_CASE("a picture tells the side of each fold") {
    const std::string found = texts(draw<allfold::recursive_doubling::all_reduce>(6));
    CHECK_THAT(found, ContainsSubstring("0 ∘ 1\n") && ContainsSubstring("0..1 ∘ 2..3\n") &&
                          ContainsSubstring("0..3 ∘ 4..5\n") && ContainsSubstring("\n0..5\n"));
    CHECK_THAT(draw<allfold::recursive_doubling::all_reduce>(6),
               ContainsSubstring("<tspan font-weight='bold'>0</tspan><tspan> ∘ </tspan><tspan>1</tspan>"));
}

TEST_CASE("a picture names blocks where there are several") {
    CHECK_THAT(texts(draw<allfold::ring::all_reduce>(4)),
               ContainsSubstring("b2: 3 ∘ 0\n") && ContainsSubstring("b1: 2..3,0 ∘ 1\n"));
    CHECK_THAT(texts(draw<allfold::halving::reduce_scatter>(6)),
               ContainsSubstring("b0..1,4: 0..1 ∘ 2..3\n") && ContainsSubstring("b2..3,5\n"));
}

TEST_CASE("a picture shows several peers at once, and their operands in rank order") {
    const std::string direct = draw<allfold::direct::all_reduce>(4);
    CHECK(arrows(direct) == 24);
    CHECK_THAT(texts(direct), ContainsSubstring("b1: 0 ∘ 1 ∘ 2 ∘ 3\n") && ContainsSubstring("b0..1,3: 0..3\n"));
    CHECK_THAT(texts(draw<allfold::all_read::all_reduce>(8)), ContainsSubstring("\n0..7\n"));
    CHECK_THAT(texts(draw<allfold::all_read::exclusive_scan>(4)), ContainsSubstring("\n0 ∘ 1 ∘ 2\n"));
}

TEST_CASE("a picture shows what is folded before it is sent") {
    CHECK_THAT(texts(draw<allfold::dissemination::exclusive_scan>(6)),
               ContainsSubstring("2 ∘ 3\n") && ContainsSubstring("0..1 ∘ 2..4\n"));
}

TEST_CASE("a picture of a rooted schedule depends on the root, and a barrier shows messages alone") {
    CHECK(draw<allfold::binomial::reduce>(6, 0) != draw<allfold::binomial::reduce>(6, 2));
    const std::string barrier = draw<allfold::dissemination::barrier>(5);
    CHECK(arrows(barrier) == 15);
    CHECK_THAT(texts(barrier),
               ContainsSubstring("dissemination barrier, P = 5: 3 rounds\n") && !ContainsSubstring("∘"));
}

TEST_CASE("a composed schedule is named after both parts") {
    using mixed = allfold::composed<allfold::halving::reduce_scatter, allfold::ring::all_gather>;
    CHECK_THAT(texts(draw<mixed>(4)), ContainsSubstring("recursive halving, then ring all_reduce, P = 4: 5 rounds"));
    CHECK_THAT(texts(draw<allfold::ring::all_reduce>(4)),
               ContainsSubstring("ring all_reduce, P = 4: 6 rounds, order::any"));
}

TEST_CASE("one rank alone is drawn without rounds, and a name is written as XML wants it") {
    const auto make = [](int rank) { return allfold::ring::all_reduce(rank, 1); };
    const std::string picture = draw(1, make, allfold::claim_of<allfold::ring::all_reduce>(), "<mine> & yours");
    CHECK(well_formed(picture));
    CHECK(arrows(picture) == 0);
    CHECK_THAT(picture, ContainsSubstring("&lt;mine> &amp; yours all_reduce, P = 1: 0 rounds"));
}

TEST_CASE("a schedule that is wrong is drawn all the same") {
    struct one_sided : allfold::recursive_doubling::all_reduce {
        using all_reduce::all_reduce;
        allfold::step operator[](int round) const {
            allfold::step s = allfold::recursive_doubling::all_reduce::operator[](round);
            if (rank() == 0) s.to = {};
            return s;
        }
    };
    const std::string picture = draw<one_sided>(4);
    CHECK(well_formed(picture));
    CHECK(arrows(picture) == 6);
}
