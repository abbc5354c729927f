#!/usr/bin/env bash
# SPDX-License-Identifier: BSL-1.0
# Updates the port to a release.
#   update.sh ARCHIVE.tar.gz   to the release's version and hash, from the archive that vcpkg will download
#   update.sh VERSION          to the version, before there is a release; vcpkg then reports the hash
#   update.sh FOLDER           to this checkout instead of a release: archives it into vcpkg's downloads folder
set -euo pipefail
source=$(cd "$(dirname "$0")/../.." && pwd)
port=$source/packaging/vcpkg/ports/allfold
given=${1:?"the release's archive, a version, or vcpkg's folder of downloads"}

version_in() { sed -n 's/^#define ALLFOLD_VERSION_[A-Z]* //p' | paste -sd.; } # version_in <version.hpp

archive=$given
if [ -d "$given" ]; then
    version=$(version_in <"$source/include/allfold/version.hpp")
    archive=$given/allfold-allfold-v$version.tar.gz # vcpkg does not download a file that exists under this name
    tar -czf "$archive" -C "$source" --transform "s,^,allfold-$version/," CMakeLists.txt LICENSE cmake include src
fi

if [ -f "$archive" ]; then
    version=$(tar -xzOf "$archive" --wildcards '*/include/allfold/version.hpp' 2>/dev/null | version_in) || version=
    hash=$(sha512sum "$archive" | cut -d ' ' -f 1)
else
    version=$given
    hash=0
fi
if ! [[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]]; then
    echo "neither an archive of allfold, a version nor a folder: $given" >&2
    exit 2
fi

sed -i "s/\(\"version-semver\": \)\".*\"/\1\"$version\"/; /\"port-version\"/d" "$port/vcpkg.json"
sed -i "s/^\( *SHA512\) .*/\1 $hash/" "$port/portfile.cmake"
echo "allfold $version, SHA512 $hash"
