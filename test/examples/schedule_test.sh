#!/usr/bin/env bash
# SPDX-License-Identifier: BSL-1.0
#
# Runs the program that lists, proves and draws schedules.
#
#     schedule_test.sh <program>

set -u
export LC_ALL=C
program=$(realpath "$1")
. "$(dirname "$0")/checks.sh"

succeeds '--algorithm NAME' --help
succeeds 'all_to_all       bruck'
collectives=$(sed -n '2,/^$/s/^\([a-z_]\{1,\}\).*/\1/p' out)
[ "$(wc -w <<<"$collectives")" -ge 12 ] || fail 'not all collectives are listed'

# aligned <title>: every row of the table in `out` has something below that title, which begins where the title does
aligned() {
    awk -v title="$1" '!at { at = index($0, title); next } /^$/ { exit } { wrong += substr($0, at - 1, 2) !~ /^ [^ ]/ }
        END { exit !at || wrong }' out || fail "not all below '$1'"
}
for title in order blocks ranks; do aligned $title; done
succeeds 'one_two_three_doubling' exclusive_scan
aligned order

# Every schedule, for some numbers of ranks: proved, and the counts from its steps equal the prover's, or the program
# fails.
for collective in $collectives; do
    for ranks in 1 2 7 12; do
        succeeds "$collective of $ranks rank" "$collective" --ranks $ranks
        grep -qE 'proved$' out || fail "nothing is proved: $collective of $ranks ranks"
        grep -qE 'WRONG|not tried' out && fail "not all is proved: $collective of $ranks ranks"
    done
done
succeeds 'two_level' all_reduce --ranks 12 --group 3

# One of them: proof, price, steps, picture.
succeeds 'proved: partners, no deadlock, results and order' all_to_all --algorithm bruck --ranks 12 --draw out.svg
for line in '  rounds          6' '  messages        4 of' '  volume          1.667 of' 'round 5' \
    '  rank 0   sends 1,3,5,7,9,11 to 1; takes 1,3,5,7,9,11 from 11' '  rank 11  keeps 0..11 as 11..0' 'drawn: out.svg'; do
    grep -qF -- "$line" out || fail "no line '$line'"
done
succeeds '  rank 0  sends 2 and 2 to 2; takes 0 from 4, folds it on the left' reduce_scatter --algorithm near_first --ranks 6
grep -qx '  rank 2  sends 4 to 4; takes 2 from 0, folds it on the left; also takes 2' out || fail 'the second part is lost'
grep -q 'and ;' out && fail 'a second part of nothing'
grep -q 'Bruck all_to_all, P = 12' out.svg && grep -q '</svg>' out.svg || fail 'no picture'
succeeds 'order           any' all_reduce --algorithm ring --ranks 100
grep -q 'round 0' out && fail 'thousands of steps nobody asked for'
succeeds 'round 197' all_reduce --algorithm ring --ranks 100 --steps
succeeds '  rank 0    sends to 1' barrier --algorithm dissemination --ranks 101 --steps
grep -q '  rank 100  sends to 0' out || fail 'numbers of three digits are not aligned'
succeeds 'keeps the identity' exclusive_scan --algorithm dissemination --ranks 5
succeeds 'rank 2  takes from 0' broadcast --algorithm binomial --ranks 4 --root 0
succeeds 'rank 0  sends to 3' permute --algorithm direct --ranks 4 --root 3

# Any number of ranks.
succeeds 'not tried for more than 128 ranks' all_reduce --algorithm recursive_doubling --ranks 1000000 --bytes 64M
grep -q '1.25 GiB of the rank that sends most' out || fail 'another volume'
succeeds 'that were counted' all_reduce --algorithm ring --ranks 1000000
succeeds 'of 1 rank that was counted' all_reduce --algorithm ring --ranks 1048576
succeeds 'Not all ranks were counted' broadcast --ranks 1000000
succeeds '20         20               1  not tried' scatter --ranks 1048576 --root 300001
succeeds 'not tried for more than 4 ranks' barrier --algorithm dissemination --ranks 5 --prove 4

# Bad command lines.
refuses "schedule: unknown collective 'all_reducer'" all_reducer
refuses "all_reduce has no algorithm 'bruck', but all_read" all_reduce --algorithm bruck
refuses 'mirrored_doubling has no schedule for 5 ranks' all_reduce --algorithm mirrored_doubling --ranks 5
refuses "schedule: --ranks: '0' is not a number from 1 to 1048576" all_reduce --ranks 0
refuses "'12x' is not a number" all_reduce --ranks 12x
refuses "'9999999999G' is not a number" all_reduce --bytes 9999999999G
refuses '--ranks: P is missing' all_reduce --ranks
refuses '--ranks: P is missing' all_reduce --ranks --steps
refuses '--ranks is given twice' all_reduce --ranks 3 --ranks=4
refuses '--steps takes no value' all_reduce --steps=yes
refuses "unknown option '--frobnicate'" all_reduce --frobnicate
refuses "unexpected argument 'all_to_all'" all_reduce all_to_all
refuses 'which one?' --ranks 3
refuses 'rank 8 is outside [0, 8)' reduce --root 8
refuses '--root: all_reduce has no root' all_reduce --root 3
refuses '8 ranks cannot be divided into groups of 3' reduce --group 3
refuses 'one algorithm is drawn at a time' reduce --draw out.svg
refuses 'at most 64 ranks' all_reduce --algorithm ring --ranks 65 --draw out.svg
refuses 'nowhere/out.svg: cannot be written' all_reduce --algorithm ring --draw nowhere/out.svg
echo before >log.txt
"$program" all_reduce --algorithm ring --draw /dev/stdout >>log.txt 2>err
[ $? -eq 2 ] && grep -q 'is the file that standard output goes to' err && [ "$(cat log.txt)" = before ] ||
    fail 'a picture in the file of standard output'

[ $failures -eq 0 ] && echo 'the program for schedules works as expected'
exit $((failures > 0))
