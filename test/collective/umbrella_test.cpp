// SPDX-License-Identifier: BSL-1.0
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "test/support/catch.hpp"

namespace {

namespace fs = std::filesystem;

/// Adds a header of the library and everything that it includes.
void add_included(const std::string& header, std::set<std::string>& all) {
    if (!all.insert(header).second) return;
    std::ifstream text("include/" + header);
    REQUIRE(text.good());
    const std::string begin = "#include \"";
    for (std::string line; std::getline(text, line);)
        if (line.starts_with(begin)) add_included(line.substr(begin.size(), line.rfind('"') - begin.size()), all);
}
std::set<std::string> included_by(const std::string& header) {
    std::set<std::string> all;
    add_included(header, all);
    return all;
}
void check_all_of(const std::string& folder, const std::set<std::string>& included) {
    int headers = 0;
    for (const auto& file : fs::directory_iterator("include/allfold/" + folder)) {
        if (!file.is_regular_file()) continue;
        INFO(file.path().string());
        CHECK(included.contains("allfold/" + folder + "/" + file.path().filename().string()));
        ++headers;
    }
    CHECK(headers > 5);
}

}  // namespace

TEST_CASE("collective.hpp includes every collective") {
    check_all_of("collective", included_by("allfold/collective.hpp"));
}

TEST_CASE("allfold.hpp includes every collective, algorithm and operator") {
    const auto included = included_by("allfold/allfold.hpp");
    check_all_of("collective", included);
    check_all_of("schedule", included);
    check_all_of("algebra", included);
}
