#!/usr/bin/env bash
# SPDX-License-Identifier: BSL-1.0
#
# Runs the program that explores faulty programs.
#
#     explore_test.sh <program>

set -u
export LC_ALL=C
program=$(realpath "$1")
. "$(dirname "$0")/checks.sh"

succeeds 'explore [FOLDER]' --help
succeeds '5040 executions, all there are: no fault found'
for said in 'barrier, for rank 2, which has returned' 'is never received' 'changes it before the operation is done' \
    'replay: '; do
    grep -qF "$said" out || fail "nothing says '$said'"
done
mkdir pictures
succeeds 'picture: pictures/fault6.svg' pictures
[ "$(grep -l '^<svg.*' pictures/*.svg | wc -l)" -eq 6 ] || fail 'not six pictures'
echo before >pictures/fault1.svg
"$program" pictures >>pictures/fault1.svg 2>err
[ $? -eq 2 ] && grep -q 'is the file that standard output goes to' err && grep -q before pictures/fault1.svg ||
    fail 'a picture in the file of standard output'

refuses 'explore: nowhere: is not a directory' nowhere
refuses "unknown option '--fast'" --fast
refuses "unexpected argument 'more'" pictures more

[ $failures -eq 0 ] && echo 'every mistake is found'
exit $((failures > 0))
