#!/usr/bin/env bash
# SPDX-License-Identifier: BSL-1.0
#
# Runs the program that sends tokens to experts and back.
#
#     moe_dispatch_test.sh <program>

set -u
export LC_ALL=C
program=$(realpath "$1")
. "$(dirname "$0")/checks.sh"

succeeds '--experts N' --help
grep -q 'Numbers may end in K, M or G' out || fail 'the help does not say what numbers look like'
same='the same bits as on one rank that has all experts'
for top in 1 2; do
    for ranks in 1 2 3 4 5 7 8 13; do
        succeeds "$same" --tokens 200 --experts 8 --top $top --ranks $ranks --seed $ranks
        # The rows of the table add up, whichever rank has the experts.
        sum=$(awk '/^ +[0-9]+ +[0-9]+ +[0-9]+ / { sum += $3 } END { print sum }' out)
        [ "$sum" -eq $((200 * top)) ] || fail "$sum tokens in the table: --ranks $ranks --top $top"
    done
done
succeeds "$same" --tokens 0 --ranks 3
succeeds "$same" --tokens 1 --ranks 5 --experts 2
succeeds "$same" --tokens 7 --ranks 6 --experts 1 --top 1
succeeds '100 tokens of 100; 75 went to another rank and back' --tokens 100 --ranks 4 --experts 1 --top 1

# The gate knows nothing about ranks.
"$program" --tokens 300 --ranks 2 | awk '/#/ { print $1, $3 }' >two
"$program" --tokens 300 --ranks 5 | awk '/#/ { print $1, $3 }' >five
[ -s two ] && cmp -s two five || fail 'experts get other tokens on other ranks'

refuses 'moe_dispatch: --top: a token cannot go to 2 of 1 expert' --experts 1
refuses "moe_dispatch: --top: '3' is not a number from 1 to 2" --top 3
refuses "'-1' is not a number" --tokens=-1
refuses "'0' is not a number" --ranks 0
refuses "unexpected argument 'data'" data

[ $failures -eq 0 ] && echo 'tokens find their experts and back'
exit $((failures > 0))
