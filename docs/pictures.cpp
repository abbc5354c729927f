// SPDX-License-Identifier: BSL-1.0

/// @file
/// Draws the pictures of the documentation into the given folder.

#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <system_error>

#include "allfold/analysis/draw.hpp"
#include "allfold/collective/all_reduce.hpp"
#include "allfold/schedule/mirrored_doubling.hpp"
#include "allfold/schedule/recursive_doubling.hpp"

namespace {

bool write(const std::string& path, const std::string& text) {
    std::ofstream file(path);
    file << text;
    file.close();
    if (!file) std::cerr << "cannot write " << path << "\n";
    return static_cast<bool>(file);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) {
        std::cerr << "usage: pictures FOLDER\n";
        return 2;
    }
    const std::string folder = std::string(argv[1]) + "/";
    std::error_code none;  // a folder that cannot be made is reported when a picture is written there
    std::filesystem::create_directories(folder, none);
    const bool written =
        write(folder + "recursive_doubling_6.svg",
              allfold::draw(allfold::all_reduce, allfold::recursive_doubling{}, 6)) &&
        write(folder + "four_device_ring.svg", allfold::draw(allfold::all_reduce, allfold::mirrored_doubling{}, 4));
    return written ? 0 : 1;
}
