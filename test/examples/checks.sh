# SPDX-License-Identifier: BSL-1.0
#
# For scripts that check programs: a folder of their own, and a report of each check that fails. The files out and err
# have the output of the last run of $program.

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
failures=0

fail() {
    echo "FAILED: $1"
    sed 's/^/    /' out err
    failures=$((failures + 1))
}

# succeeds <text on standard output> <arguments...>
succeeds() {
    local text=$1
    shift
    "$program" "$@" >out 2>err || fail "status $? instead of 0: $*"
    grep -qF -- "$text" out || fail "no '$text': $*"
    [ ! -s err ] || fail "something on standard error: $*"
}

# refuses <text of the message> <arguments...>: status 2, one line on standard error, nothing else
refuses() {
    local text=$1 status
    shift
    "$program" "$@" >out 2>err
    status=$?
    [ $status -eq 2 ] || fail "status $status instead of 2: $*"
    [ "$(wc -l <err)" -eq 1 ] || fail "not one line on standard error: $*"
    grep -qF -- "$text" err || fail "no '$text': $*"
    [ ! -s out ] || fail "something on standard output: $*"
}
