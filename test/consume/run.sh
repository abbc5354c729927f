#!/usr/bin/env bash
# SPDX-License-Identifier: BSL-1.0
# For each way to get allfold a user's project, built and run: run.sh WORK [WAY...]. WORK is a folder to write in.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mkdir -p "$1" && cd "$1" && pwd)

# Open MPI starts nothing for root, and no more ranks than there are cores, unless told.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1

project() { # project FOLDER NAME OPTION...
    cmake -G Ninja -S "test/consume/$1" -B "$work/$2" "${@:3}"
    cmake --build "$work/$2"
    ctest --test-dir "$work/$2" --no-tests=error --output-on-failure
}

refused() { # refused TEXT OPTION...: the project does not find allfold, and is told why
    local said
    if said=$(cmake -G Ninja -S test/consume/cmake -B "$work/refused" "${@:2}" 2>&1) ||
        [[ $(tr -s ' \n' ' ' <<<"$said") != *"$1"* ]]; then
        printf '%s\n' "$said" "Not refused with: $1"
        return 1
    fi
    echo "refused: $1"
}

installed() { # into a prefix that moves afterwards
    if [ -e "$work/prefix" ]; then return; fi
    cmake -G Ninja -S . -B "$work/library" -D ALLFOLD_DEVELOPMENT=OFF -D ALLFOLD_BUILD_COMPILED=ON -D CMAKE_BUILD_TYPE=Release
    cmake --build "$work/library"
    cmake --install "$work/library" --prefix "$work/first" >"$work/installed.txt"
    mv "$work/first" "$work/prefix"
}

# A release, as far as packages need its files.
version=$(sed -n 's/^#define ALLFOLD_VERSION_[A-Z]* //p' include/allfold/version.hpp | paste -sd.)
archive=$work/allfold-$version.tar.gz
archived() { tar -czf "$archive" --transform "s,^,allfold-$version/," CMakeLists.txt LICENSE cmake include src; }

by_cmake() {
    installed
    local here=(-D CMAKE_PREFIX_PATH="$work/prefix")
    project cmake cmake "${here[@]}"
    project cmake cmake_mpi "${here[@]}" -D components=mpi
    project cmake cmake_compiled "${here[@]}" -D components=compiled
    refused "its component mpi needs an MPI" "${here[@]}" -D components=mpi -D CMAKE_DISABLE_FIND_PACKAGE_MPI=ON
    refused "it has no component cuda, only mpi and compiled" "${here[@]}" -D components=cuda
}

by_subdirectory() { project subdirectory subdirectory; }

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
    echo "tools.cmake.cmaketoolchain:generator=Ninja" >"$CONAN_HOME/global.conf"
    conan create . --build=missing
    conan create . --build=missing --options='&:mpi=True'
    conan create . --build=missing --options='&:compiled=True'
}

by_vcpkg() {
    archived
    local copy=$work/vcpkg
    cp -r packaging/vcpkg "$copy"
    if "$copy/update.sh" neither; then return 1; fi
    "$copy/update.sh" "$archive"
    diff packaging/vcpkg/ports/allfold/vcpkg.json "$copy/ports/allfold/vcpkg.json"  # it has the version of version.hpp
    cmake -D port="$copy/ports/allfold" -D archive="$archive" -D work="$copy/work" -D CURRENT_PACKAGES_DIR="$copy/installed" \
        -P test/consume/vcpkg/stand_in.cmake
    project cmake vcpkg_consumer -D CMAKE_PREFIX_PATH="$copy/installed" -D way=vcpkg -D components=mpi
    echo "not run: vcpkg itself, which is not to be had here; stand-ins for its functions ran the port"
}

ways=("${@:2}")
if [ ${#ways[@]} = 0 ]; then ways=(cmake subdirectory fetch_content pkg_config copy conan vcpkg); fi
for way in "${ways[@]}"; do "by_$way"; done
