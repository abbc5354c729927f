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
repository=$(realpath "$(dirname "$0")/../..")
. "$(dirname "$0")/checks.sh"

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
succeeds 'from the float64 reference' --scale 0.5
grep -q 'from NumPy' out && fail 'NumPy computed with another scale'
succeeds 'Options:' --help
for ranks in 1 2 5 98; do succeeds "on $ranks rank" --ranks $ranks; done
succeeds 'merged by' --algorithm auto
succeeds 'one rank: there is nothing to merge' --ranks 1
grep -qE 'merged by|the merge|gather' out && fail 'one rank merges'
succeeds 'ranks take turns on' --ranks 98
succeeds 'not checked' --no-check
grep -q 'from NumPy' out || fail '--no-check: no comparison with NumPy'
grep -q 'float64 reference  *[0-9]' out && fail 'a reference with --no-check'

# seconds: the times in the table on standard input, one per line, all in seconds
seconds() {
    sed -n '/^time of/,/^$/{/^  /{s/^  .\{34\} *\([0-9.]*\) \([mu]\{0,1\}s\).*/\1 \2/p}}' |
        awk '{ print $1 * ($2 == "us" ? 1e-6 : $2 == "ms" ? 1e-3 : 1) }'
}
succeeds 'total'
for phase in start read 'start of the ranks' 'local attention' merge normalise gather 'float64 reference' \
    'merges for the medians below' 'comparison with NumPy' 'the rest' total; do
    grep -q "^  $phase  .*[0-9] [mu]\{0,1\}s" out || fail "no time of: $phase"
done
seconds <out | awk '{ last = $1; sum += $1 } END { exit !(NR == 12 && sum >= 1.98 * last) }' ||
    fail 'the rows of the table do not add up to the total'
for algorithm in recursive_doubling ring recursive_halving mirrored_doubling direct all_read flat_tree; do
    succeeds 'named by the caller' --algorithm $algorithm
done
succeeds 'named by the caller' --window 4096 --algorithm ring
succeeds 'write' "${files[@]}" --out o.npy --trace trace.json
[ "$(wc -c <o.npy)" -eq "$(wc -c <"$data/q.npy")" ] || fail 'o.npy differs in size from q.npy'
grep -q 'local attention' trace.json || fail 'the trace lacks a phase'

# A picture: well-formed, with a bar for each phase, and an arrow for each message that shows its bytes.
succeeds 'total' --plot picture.svg
if command -v python3 >/dev/null; then
    python3 - <<'END' || fail 'the picture is not well-formed'
import xml.etree.ElementTree as xml
texts = [t.text for t in xml.parse('picture.svg').iter('{http://www.w3.org/2000/svg}title')]
for wanted in ('rank 3: local attention', 'rank 0: merge', 'rank 0 to rank 1: 8.0 KiB, posted at', 'rank 2: gather'):
    assert any(t.startswith(wanted) for t in texts), wanted
END
fi
succeeds 'total' --plot picture.svg --ranks 1
grep -q '</svg>' picture.svg || fail 'no picture of one rank'

# Queries that no key may answer are 0: three queries, one key.
npy q.npy "'<f4'" '(3, 1)' "$one$one$one"
npy k.npy "'<f4'" '(1, 1)' "$two"
npy v.npy "'<f4'" '(1, 2)' "$two$four"
succeeds 'from the float64 reference' --q q.npy --k k.npy --v v.npy --causal --ranks 2 --out o.npy
printf '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'"$two$four" >expected
tail -c 24 o.npy | cmp -s - expected || fail 'rows without keys'
# PyTorch's other mask: query i sees the keys up to its own position.
npy k2.npy "'<f4'" '(2, 1)' "$two$two"
npy v2.npy "'<f4'" '(2, 1)' "$two$four"
succeeds 'causal from the top left' --q q.npy --k k2.npy --v v2.npy --causal --causal-from top-left --out o.npy
tail -c 12 o.npy | cmp -s - <(printf "$two"'\0\0\x40\x40\0\0\x40\x40') || fail 'causal from the top left'
succeeds 'causal,' --q q.npy --k k2.npy --v v2.npy --causal --causal-from bottom-right --out o.npy
tail -c 12 o.npy | cmp -s - <(printf '\0\0\0\0'"$two"'\0\0\x40\x40') || fail 'causal from the bottom right'
succeeds 'causal from the top left' --causal --causal-from top-left
grep -q 'from NumPy' out && fail 'NumPy computed from the other corner'

npy none.npy "'<f4'" '(0, 1)' ''
succeeds 'from the float64 reference' --q q.npy --k none.npy --v none.npy
succeeds 'from the float64 reference' --q none.npy --k k.npy --v v.npy

# Scores of 16 million: one key takes all, nothing overflows.
npy k.npy "'<f4'" '(2, 1)' '\0\0\x80\x4b\0\0\x80\xcb'
npy v.npy "'<f4'" '(2, 1)' "$two$four"
succeeds 'from the float64 reference' --q q.npy --k k.npy --v v.npy --ranks 2 --out o.npy
tail -c 12 o.npy | cmp -s - <(printf "$two$two$two") || fail 'large scores'

# A half precision query has a half precision result: 1 and 1, all keys alike, values 2 and 4.
npy q.npy "'<f2'" '(1, 1)' '\0\x3c'
npy k.npy "'<f2'" '(2, 1)' '\0\x3c\0\x3c'
succeeds 'float16' --q q.npy --k k.npy --v v.npy --out o.npy
tail -c 2 o.npy | cmp -s - <(printf '\0\x42') || fail 'half precision'

# A result that float cannot represent is distinguished from a correct one, even if all of it overflows.
"$program" --scale 1e308 --out scaled.npy >out 2>err
[ $? -eq 1 ] || fail 'status 0 with scores beyond float'
grep -q 'deviates by more than rounding explains: element .* is nan' out || fail 'no line on the wrong element'
npy infinite.npy "'<f4'" '(2, 1)' '\0\0\x80\x7f'"$four"
succeeds 'at most 0 %' --q q.npy --k k2.npy --v infinite.npy
# Nor are equal values, whose rounding errors all have the same sign, reported as wrong.
npy zero.npy "'<f4'" '(1, 1)' '\0\0\0\0'
many=20000
npy zeros.npy "'<f4'" "($many, 1)" '' && head -c $((4 * many)) /dev/zero >>zeros.npy
npy tenths.npy "'<f4'" "($many, 1)" '' && for ((i = 0; i < many; ++i)); do echo -ne '\xcd\xcc\xcc\x3d'; done >>tenths.npy
succeeds 'of what rounding allows' --q zero.npy --k zeros.npy --v tenths.npy --ranks 1

# Long work shows its progress on a terminal, and leaves nothing there; elsewhere `succeeds` has checked that it shows
# nothing.
if command -v script >/dev/null; then
    script -qec "'$program' --ranks 2" /dev/null >terminal </dev/null || fail 'status on a terminal'
    grep -q 'local attention *\[.*\] .* %' terminal || fail 'no bar on a terminal'
    tr '\r' '\n' <terminal | sed -n '/^attention of/,$p' | grep -q '%.*\[' && fail 'a bar within the result'
    tr '\r' '\n' <terminal | grep -qF $'\033[Kattention of' || fail 'the bar was not cleared'
else
    echo 'not tested: the bar on a terminal (util-linux has `script`)'
fi

# Output appears whole or not at all, with the permissions of an ordinary file; links and devices remain what they are.
mkdir whole && cd whole
succeeds 'write' --out o.npy --trace t.json --plot p.svg
[ "$(ls -A | tr '\n' ' ')" = 'err o.npy out p.svg t.json ' ] || fail "left behind: $(ls -A | tr '\n' ' ')"
(umask 027 && "$program" --out masked.npy >out)
[ "$(stat -c %a masked.npy)" = 640 ] || fail 'the umask is not kept'
chmod 604 masked.npy && ln -s masked.npy link.npy && echo old >masked.npy
succeeds 'write' --out link.npy --trace /dev/null
[ -L link.npy ] && [ "$(stat -c %a masked.npy)" = 604 ] && cmp -s masked.npy o.npy || fail 'through a link'
"$program" --no-check --out /dev/stdout 2>err | head -c $(wc -c <o.npy) | cmp -s - o.npy || fail '/dev/stdout'
before=$(ls -A)
refuses 'mirrored doubling has no schedule' --algorithm mirrored_doubling --ranks 5 --out n.npy --trace n.json --plot n.svg
[ "$(ls -A)" = "$before" ] || fail "left behind: $(ls -A | tr '\n' ' ')"
cd ..

# A file given twice, under whatever names.
cp "$data/q.npy" mine.npy && ln -s mine.npy alias.npy && cp mine.npy copy.npy
self=(--q mine.npy --k mine.npy --v mine.npy)
succeeds 'float64 reference' "${self[@]}" --out own.npy
refuses '--out mine.npy is the same file as --q mine.npy' "${self[@]}" --out mine.npy
refuses '--trace ./alias.npy is the same file as --q mine.npy' "${self[@]}" --trace ./alias.npy
refuses '--plot ./x is the same file as --out x' --out x --plot ./x
refuses '--trace whole/../x is the same file as --out x' --out x --trace whole/../x
ln -s x dangling
refuses '--trace dangling is the same file as --out x' --out x --trace dangling
cp "$data/k.npy" kept.npy
refuses "is the same file as the demo's data" --out "$data/k.npy"
cmp -s kept.npy "$data/k.npy" || { fail "the demo's data changed" && cp kept.npy "$data/k.npy"; }
cmp -s mine.npy copy.npy || fail 'an input changed'
[ ! -e x ] || fail 'a refused output exists'
"$program" --out same >same 2>err
[ $? -eq 2 ] && grep -q 'same: is the file that standard output goes to' err ||
    fail 'the result in the file of standard output'

# Writing fails: the message says why.
refuses 'attention: whole: cannot be written: Is a directory' --out whole
refuses 'attention: q.npy/o.npy: cannot be written: Not a directory' --out q.npy/o.npy
if [ "$(id -u)" != 0 ]; then
    chmod 555 whole
    refuses 'attention: whole/new.npy: cannot be written: Permission denied' --out whole/new.npy
    chmod 755 whole
fi
(ulimit -f 1 && trap '' XFSZ && "$program" "${files[@]}" --out too_large.npy >out 2>err)
[ $? -eq 2 ] && grep -q 'attention: too_large.npy: cannot be written: File too large' err || fail 'a limit on files'
ls -A | grep -qE '^\.unfinished|too_large' && fail 'part of a file is left'
for arguments in '' --help; do
    "$program" $arguments >/dev/full 2>err
    [ $? -eq 2 ] || fail "status on a full disk: $arguments"
    [ "$(cat err)" = 'attention: standard output: cannot be written: No space left on device' ] || fail 'full disk'
done

# Bad command lines.
empty='the name of the file is empty'
refuses "attention: --q: $empty" --q '' --k '' --v ''
refuses "attention: --q: $empty" --q '' --k k.npy --v v.npy
refuses "attention: --k: $empty" --q q.npy --k '' --v v.npy
refuses "attention: --v: $empty" --q q.npy --k k.npy --v ''
for option in --out --trace --plot; do
    refuses "attention: $option: $empty" $option ''
    refuses "attention: $option: there is no value after the =" $option= --causal
done
refuses '--causal-from requires --causal' --causal-from top-left
refuses '--causal-from' --causal --causal-from middle
refuses '--sideways' --sideways
refuses '--q requires' --q q.npy
refuses '--ranks' --ranks 0
refuses '--ranks' --ranks many
refuses '--algorithm' --algorithm fastest
refuses 'mirrored doubling has no schedule for 5 ranks' --algorithm mirrored_doubling --ranks 5
refuses '--scale' --scale nan
refuses '--scale' --scale wide
refuses '--window' --window 0
refuses '--window' --window -3
refuses '--window' --window 99999999999999999999
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
npy many.npy "'<f4'" '(4611686018427387904, 0, 3)' ''
bad 'attention: many.npy: shape [4611686018427387904, 0, 3] has no elements, but its other extents are too large' \
    --q many.npy --k many.npy --v many.npy
npy deep.npy "'<f4'" '(0, 5, 4611686018427387904)' ''
bad 'attention: deep.npy: shape [0, 5, 4611686018427387904] has no elements, but' --q deep.npy --k deep.npy --v deep.npy
bad 'attention: shallow.npy: shape [2, 0]: the last axis, the depth, is 0' --q q.npy --k k.npy --v shallow.npy
npy wide.npy "'<f4'" '(1, 2)' "$one$one"
bad 'attention: k.npy: shape [2, 1] does not fit wide.npy, shape [1, 2]: the depths' --q wide.npy --k k.npy --v v.npy
bad 'attention: wide.npy: shape [1, 2] does not fit k.npy, shape [2, 1]: the numbers of keys' \
    --q q.npy --k k.npy --v wide.npy
bad "shape [2, 1] does not fit $data/q.npy, shape [2, 3, 40, 32]: the axes before the last two" \
    --q "$data/q.npy" --k k.npy --v v.npy
for option in --out --trace --plot; do
    refuses 'attention: no/such/file: cannot be written: No such file or directory' $option no/such/file
    refuses 'attention: /dev/full: cannot be written: No space left on device' $option /dev/full
done

# ./dev demo looks for files in the user's working directory, also when it is called through a link. Nothing is built
# here.
mkdir -p repository/build/demo/examples tools user
cp "$repository/dev" repository
echo '[ "$1" != --version ] || echo cmake version 3.25.0' >tools/cmake
echo 'pwd && echo "$@"' >repository/build/demo/examples/attention
touch tools/ninja
chmod +x tools/* repository/build/demo/examples/attention
ln -s ../repository/dev tools/demo
mkdir -p prefix/include/CLI && touch prefix/include/CLI/CLI.hpp
for dev in ../repository/dev ../tools/demo; do
    (cd user && PATH=$scratch/tools:$PATH CXX=sh CMAKE_PREFIX_PATH=$scratch/prefix $dev demo --q q.npy) >out 2>err
    [ "$(cat out)" = "$(printf '%s\n' "$scratch/user" '--q q.npy')" ] || fail "$dev demo is not where the user is"
done

[ $failures -eq 0 ] && echo "the attention program works as expected"
exit $((failures > 0))
