#!/usr/bin/env bash
# SPDX-License-Identifier: BSL-1.0
#
# Runs the attention program as a user does: exit statuses, messages, files.
#
#     attention_cli_test.sh <program> <data directory>

set -u
export LC_ALL=C
program=$(realpath "$1")
data=$(realpath "$2")
. "$(dirname "$0")/checks.sh"

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

# npy <file> <descr> <shape> <bytes in printf's notation>
npy() {
    local header="{'descr': $2, 'fortran_order': False, 'shape': $3, }"
    printf '\x93NUMPY\1\0'"\\x$(printf %02x ${#header})"'\0' >"$1"
    printf '%s' "$header" >>"$1"
    printf '%b' "$4" >>"$1"
}
one='\0\0\x80\x3f' two='\0\0\0\x40' four='\0\0\x80\x40'

files=(--q "$data/q.npy" --k "$data/k.npy" --v "$data/v.npy")

# What works.
succeeds 'from NumPy'
succeeds 'from NumPy' --causal --ranks 3
succeeds 'from one rank in float64' --scale 0.5
grep -q 'from NumPy' out && fail 'NumPy computed with another scale'
succeeds 'Options:' --help
for ranks in 1 2 5 98; do succeeds "on $ranks rank" --ranks $ranks; done
succeeds 'merged by' --algorithm auto
for algorithm in recursive_doubling ring recursive_halving mirrored_doubling direct all_read flat_tree; do
    succeeds 'named by the caller' --algorithm $algorithm
done
succeeds 'named by the caller' --window 4096 --algorithm ring
succeeds 'write' "${files[@]}" --out o.npy --trace trace.json
[ "$(wc -c <o.npy)" -eq "$(wc -c <"$data/q.npy")" ] || fail 'o.npy has another size than q.npy'
grep -q 'local attention' trace.json || fail 'the trace lacks a phase'

# Queries that no key may answer are 0: three queries, one key.
npy q.npy "'<f4'" '(3, 1)' "$one$one$one"
npy k.npy "'<f4'" '(1, 1)' "$two"
npy v.npy "'<f4'" '(1, 2)' "$two$four"
succeeds 'from one rank' --q q.npy --k k.npy --v v.npy --causal --ranks 2 --out o.npy
printf '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'"$two$four" >expected
tail -c 24 o.npy | cmp -s - expected || fail 'rows without keys'
npy none.npy "'<f4'" '(0, 1)' ''
succeeds 'from one rank' --q q.npy --k none.npy --v none.npy
succeeds 'from one rank' --q none.npy --k k.npy --v v.npy

# Scores of 16 million: one key takes all, nothing overflows.
npy k.npy "'<f4'" '(2, 1)' '\0\0\x80\x4b\0\0\x80\xcb'
npy v.npy "'<f4'" '(2, 1)' "$two$four"
succeeds 'from one rank' --q q.npy --k k.npy --v v.npy --ranks 2 --out o.npy
tail -c 12 o.npy | cmp -s - <(printf "$two$two$two") || fail 'large scores'

# A half precision query has a half precision result: 1 and 1, all keys alike, values 2 and 4.
npy q.npy "'<f2'" '(1, 1)' '\0\x3c'
npy k.npy "'<f2'" '(2, 1)' '\0\x3c\0\x3c'
succeeds 'float16' --q q.npy --k k.npy --v v.npy --out o.npy
tail -c 2 o.npy | cmp -s - <(printf '\0\x42') || fail 'half precision'

# Bad command lines.
refuses '--sideways' --sideways
refuses '--q requires' --q q.npy
refuses '--ranks' --ranks 0
refuses '--ranks' --ranks many
refuses '--algorithm' --algorithm fastest
refuses 'neighbour exchange has no schedule for 5 ranks' --algorithm mirrored_doubling --ranks 5
refuses '--scale' --scale nan
refuses '--scale' --scale wide
refuses '--window' --window 0
refuses '--window' --window -3
refuses '--window' --window wide
refuses 'extra' extra

# Bad files: the message names the file.
bad() {
    local text=$1
    shift
    refuses "$text" "$@" --out never.npy
    [ ! -e never.npy ] || fail "a result for bad input: $*"
}
bad 'attention: gone.npy: not found' --q gone.npy --k k.npy --v v.npy
head -c 5000 "$data/k.npy" >cut.npy
bad 'attention: cut.npy: the header promises [2, 3, 97, 32] of float32, 74496 bytes; the file has 4872' \
    --q "$data/q.npy" --k cut.npy --v "$data/v.npy"
echo 'once upon a time' >story.npy
bad 'attention: story.npy: not a .npy file' --q story.npy --k k.npy --v v.npy
sed "s/'<f4'/'<i4'/" "$data/v.npy" >integers.npy
bad "attention: integers.npy: the elements are '<i4'" --q "$data/q.npy" --k "$data/k.npy" --v integers.npy
sed "s/'<f4'/'>f4'/" "$data/v.npy" >big.npy
bad 'attention: big.npy: the elements are big-endian' --q "$data/q.npy" --k "$data/k.npy" --v big.npy
npy structured.npy "[('x', '<f4')]" '(1, 1)' "$one"
bad 'attention: structured.npy: the elements are structured' --q structured.npy --k k.npy --v v.npy
npy flat.npy "'<f4'" '(1,)' "$one"
bad 'attention: flat.npy: shape [1] has 1 axes' --q flat.npy --k k.npy --v v.npy
npy shallow.npy "'<f4'" '(2, 0)' ''
bad 'attention: shallow.npy: shape [2, 0]: the last axis, the depth, is 0' --q q.npy --k k.npy --v shallow.npy
npy wide.npy "'<f4'" '(1, 2)' "$one$one"
bad 'attention: k.npy: shape [2, 1] does not fit wide.npy, shape [1, 2]: the depths' --q wide.npy --k k.npy --v v.npy
bad 'attention: wide.npy: shape [1, 2] does not fit k.npy, shape [2, 1]: the numbers of keys' \
    --q q.npy --k k.npy --v wide.npy
bad "shape [2, 1] does not fit $data/q.npy, shape [2, 3, 40, 32]: the axes before the last two" \
    --q "$data/q.npy" --k k.npy --v v.npy
refuses 'attention: no/such/o.npy: cannot be opened for writing' --out no/such/o.npy
refuses 'attention: no/such/trace.json: cannot be opened for writing' --trace no/such/trace.json
refuses 'attention: /dev/full: writing' --out /dev/full

[ $failures -eq 0 ] && echo "the attention program does as it should"
exit $((failures > 0))
