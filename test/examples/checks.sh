# SPDX-License-Identifier: BSL-1.0
#
# For scripts that check programs: a folder of their own, and what to say when a check fails. The last run's output is
# in the files out and err.

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
failures=0

fail() {
    echo "FAILED: $1"
    sed 's/^/    /' out err
    failures=$((failures + 1))
}
