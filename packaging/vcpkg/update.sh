#!/usr/bin/env bash
# SPDX-License-Identifier: BSL-1.0
# Makes the port one of a release.
#   update.sh ARCHIVE.tar.gz   the release's version and hash, from the archive that vcpkg will download
#   update.sh VERSION          the version before there is a release; vcpkg then says the hash
set -euo pipefail
port=$(dirname "$0")/ports/allfold

if [ -f "${1:?"the release's archive, or a version"}" ]; then
    version=$(tar -xzOf "$1" --wildcards '*/include/allfold/version.hpp' |
        sed -n 's/^#define ALLFOLD_VERSION_[A-Z]* //p' | paste -sd.)
    hash=$(sha512sum "$1" | cut -d ' ' -f 1)
else
    version=$1
    hash=0
fi
if ! [[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]]; then
    echo "neither an archive of allfold nor a version: $1" >&2
    exit 2
fi

sed -i "s/\(\"version-semver\": \)\".*\"/\1\"$version\"/; /\"port-version\"/d" "$port/vcpkg.json"
sed -i "s/^\( *SHA512\) .*/\1 $hash/" "$port/portfile.cmake"
echo "allfold $version, SHA512 $hash"
