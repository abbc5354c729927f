#!/usr/bin/env bash
# SPDX-License-Identifier: BSL-1.0
# Builds and runs a user's project for each way to get allfold: run.sh WORK [WAY...]. WORK is a folder to write in.
set -euo pipefail
if [ $# = 0 ]; then
    echo "run.sh WORK [WAY...]" >&2
    exit 2
fi
work=$(mkdir -p "$1" && cd "$1" && pwd)
cd "$(dirname "$0")/../.."

# Like a user's shell: each project's own test sets what makes Open MPI start ranks as root.
unset "${!OMPI_@}"

project() { # project FOLDER NAME OPTION...
    cmake -G Ninja -S "test/consume/$1" -B "$work/$2" "${@:3}"
    cmake --build "$work/$2"
    ctest --test-dir "$work/$2" --no-tests=error --output-on-failure
}

refuses() { # refuses TEXT COMMAND...: the command fails with this text, however it breaks lines
    local said
    if said=$("${@:2}" 2>&1) || [[ $(tr -s ' \n' ' ' <<<"$said") != *"$1"* ]]; then
        printf '%s\n' "$said" "Not refused with: $1"
        return 1
    fi
    echo "refused: $1"
}

refused() { # refused TEXT FOLDER OPTION...: the project does not get what it asks allfold for
    refuses "$1" cmake --fresh -G Ninja -S "test/consume/$2" -B "$work/refused" "${@:3}"
}

installed() { # into a prefix that is moved afterwards
    if [ -e "$work/prefix" ]; then return; fi
    cmake -G Ninja -S . -B "$work/library" -D ALLFOLD_DEVELOPMENT=OFF -D ALLFOLD_BUILD_COMPILED=ON -D CMAKE_BUILD_TYPE=Release
    cmake --build "$work/library"
    cmake --install "$work/library" --prefix "$work/first" >"$work/installed.txt"
    mv "$work/first" "$work/prefix"
}

# A release, with just the files that packages need.
version=$(sed -n 's/^#define ALLFOLD_VERSION_[A-Z]* //p' include/allfold/version.hpp | paste -sd.)
archive=$work/allfold-$version.tar.gz
archived() { tar -czf "$archive" --transform "s,^,allfold-$version/," CMakeLists.txt LICENSE cmake include src; }
homepage=$(sed -n 's/.*HOMEPAGE_URL "\(.*\)".*/\1/p' CMakeLists.txt)

by_cmake() {
    installed
    local here=(-D CMAKE_PREFIX_PATH="$work/prefix")
    project cmake cmake "${here[@]}" -D catch2=ON
    project cmake cmake_mpi "${here[@]}" -D components=mpi
    project cmake cmake_compiled "${here[@]}" -D components=compiled
    refused "its component mpi needs an MPI" cmake "${here[@]}" -D components=mpi -D CMAKE_DISABLE_FIND_PACKAGE_MPI=ON
    refused "it has no component cuda, only mpi and compiled" cmake "${here[@]}" -D components=cuda
}

by_subdirectory() {
    project subdirectory subdirectory -D CMAKE_CXX_FLAGS='-Wall -Wextra -Wshadow -Werror'
    refused "allfold::mpi needs ALLFOLD_MPI=ON" subdirectory -D components=mpi
    refused "allfold::compiled needs ALLFOLD_BUILD_COMPILED=ON" subdirectory -D components=compiled
}

by_fetch_content() {
    archived
    project fetch_content fetch_content -D archive="$archive"
}

by_pkg_config() {
    installed
    export PKG_CONFIG_PATH=$work/prefix/share/pkgconfig
    # shellcheck disable=SC2046 # flags are words
    c++ -std=c++20 test/consume/main.cpp $(pkg-config --cflags --libs allfold) -o "$work/by_pkg_config"
    "$work/by_pkg_config"
    # shellcheck disable=SC2046
    mpicxx -std=c++20 test/consume/mpi.cpp $(pkg-config --cflags --libs allfold-mpi) -o "$work/by_pkg_config_mpi"
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 \
        mpirun -n 2 "$work/by_pkg_config_mpi"
}

by_copy() {
    cp -r include "$work/copy"
    c++ -std=c++20 -I "$work/copy" -pthread test/consume/main.cpp -o "$work/by_copy"
    "$work/by_copy"
}

by_conan() {
    python3 -m venv "$work/venv"
    "$work/venv/bin/pip" install --quiet conan
    export PATH=$work/venv/bin:$PATH CONAN_HOME=$work/conan
    conan profile detect
    conan remote remove conancenter
    sed -i s/build_type=Release/build_type=Debug/ "$CONAN_HOME/profiles/default"  # faster to build
    echo "tools.cmake.cmaketoolchain:generator=Ninja" >"$CONAN_HOME/global.conf"
    conan inspect . | grep -Fx "homepage: $homepage"
    conan create . --build=missing
    conan create . --build=missing --options='&:mpi=True'
    conan create . --build=missing --options='&:compiled=True'

    local deployed=$work/conan_config_deps
    mkdir "$deployed"
    (cd "$deployed" && conan install --requires="allfold/$version" --generator=CMakeConfigDeps --generator=CMakeToolchain \
        --deployer=direct_deploy)
    cmp LICENSE "$deployed/direct_deploy/allfold/licenses/LICENSE"
    project cmake conan_consumer -D CMAKE_TOOLCHAIN_FILE="$deployed/conan_toolchain.cmake" \
        -D CMAKE_BUILD_TYPE=Debug -D way=conan_config_deps

    refused_by_conan gcc 11 12
    refused_by_conan clang 13 14
}

refused_by_conan() { # refused_by_conan COMPILER VERSION OLDEST
    refuses "allfold needs $1 $3 or newer, not $2" conan install --requires="allfold/$version" \
        --output-folder="$work/conan_refused" --settings=compiler="$1" --settings=compiler.version="$2" \
        --settings=compiler.libcxx=libstdc++11
}

by_vcpkg() {
    archived
    local copy=$work/vcpkg
    mkdir -p "$copy/downloads"
    cp -r CMakeLists.txt LICENSE cmake include packaging src "$copy"
    refuses "neither" "$copy/packaging/vcpkg/update.sh" neither
    "$copy/packaging/vcpkg/update.sh" "$archive"
    diff packaging/vcpkg/ports/allfold/vcpkg.json "$copy/packaging/vcpkg/ports/allfold/vcpkg.json"  # has this version
    grep -qF "\"homepage\": \"$homepage\"" packaging/vcpkg/ports/allfold/vcpkg.json
    "$copy/packaging/vcpkg/update.sh" "$copy/downloads"
    cmake -D port="$copy/packaging/vcpkg/ports/allfold" -D DOWNLOADS="$copy/downloads" -D work="$copy/work" \
        -D CURRENT_PACKAGES_DIR="$copy/installed" -P test/consume/vcpkg/stand_in.cmake
    project cmake vcpkg_consumer -D CMAKE_PREFIX_PATH="$copy/installed" -D way=vcpkg -D components=mpi
    echo "not run: vcpkg itself, which is not available here; stand-ins for its functions ran the port"
}

ways=("${@:2}")
if [ ${#ways[@]} = 0 ]; then ways=(cmake subdirectory fetch_content pkg_config copy conan vcpkg); fi
for way in "${ways[@]}"; do "by_$way"; done
