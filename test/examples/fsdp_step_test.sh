#!/usr/bin/env bash
# SPDX-License-Identifier: BSL-1.0
#
# Runs the program that trains with sharded parameters.
#
#     fsdp_step_test.sh <program>

set -u
export LC_ALL=C
program=$(realpath "$1")
digits=$(realpath "$(dirname "$0")/../../examples/fsdp_step/digits.txt")
. "$(dirname "$0")/checks.sh"

# curve <arguments...>: the loss, the share of correct answers and the bits of all parameters, epoch by epoch
curve() {
    succeeds 'bits of parameters' "$@"
    sed -n 's/^ *\([0-9]\{1,\}  *[0-9.]*  .*  [0-9a-f]\{16\}\)  .*/\1/p' out
}

succeeds '--ranks P' --help
grep -q 'Numbers may end in K, M or G' out || fail 'the help does not say what numbers look like'

# The same bits for every number of ranks, even if some ranks have no digit in a step, or few parameters.
curve --epochs 2 --ranks 1 >one
[ "$(wc -l <one)" -eq 3 ] || fail 'not a line for each epoch'
for ranks in 2 3 4; do
    curve --epochs 2 --ranks $ranks >other
    cmp -s one other || fail "another curve on $ranks ranks"
done
head -200 "$digits" >few.txt
few=(--data few.txt --held-out 20 --batch 7 --epochs 1 --seed 3)
curve "${few[@]}" --ranks 1 >one.few
for ranks in 2 3 4 13; do
    curve "${few[@]}" --ranks $ranks >other
    cmp -s one.few other || fail "another curve of few digits on $ranks ranks"
done

sed 's/$/\r/' few.txt >crlf.txt
curve "${few[@]/few.txt/crlf.txt}" --ranks 2 >other
cmp -s one.few other || fail 'another curve with the line ends of Windows'

# It learns; and rounded sums differ, otherwise this test could not fail.
learnt=$(awk 'NR == 1 { before = $2 } END { print ($2 < before / 4 && $3 > 80) }' one)
[ "$learnt" = 1 ] || fail "it has not learnt: $(cat one)"
curve "${few[@]}" --ranks 1 --rounded >one
curve "${few[@]}" --ranks 3 --rounded >other
cmp -s one other && fail 'rounded sums do not depend on the number of ranks'

# A bar on a terminal, and nothing there afterwards; elsewhere `succeeds` has checked that it shows nothing.
if command -v script >/dev/null; then
    script -qec "'$program' --data few.txt --held-out 20 --epochs 1" /dev/null >terminal </dev/null || fail 'status on a terminal'
    grep -q 'epoch 1 of 1 \[#.*\.\]' terminal || fail 'no bar on a terminal'
    tr '\r' '\n' <terminal | sed -n '/parameters in shards/,$p' | grep -q '\[#' && fail 'a bar within the result'
fi

refuses 'fsdp_step: nowhere.txt: cannot be read: No such file or directory' --data nowhere.txt
refuses 'fsdp_step: .: is a directory' --data .
: >empty.txt
refuses 'empty.txt: has no digits' --data empty.txt
(cat few.txt && echo '7 0012') >short.txt
refuses 'short.txt: line 201: is not a digit followed by 64 shades' --data short.txt
sed '$s/.$/h/' few.txt >shade.txt
refuses "shade.txt: line 200: 'h' is not a shade" --data shade.txt
refuses '--held-out: there are 195 digits in all' --data few.txt --held-out 195
(head -5 "$digits" && tail -1 "$digits") >one.txt
refuses '--held-out: there is 1 digit in all' --data one.txt --held-out 1
refuses "--ranks: '257' is not a number from 1 to 256" --ranks 257
refuses "unexpected argument '2'" 2

[ $failures -eq 0 ] && echo 'the curve is the same on any number of ranks'
exit $((failures > 0))
