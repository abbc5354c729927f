#!/usr/bin/env bash
# SPDX-License-Identifier: BSL-1.0
#
# Runs the program that finds the records of CSV files.
#
#     csv_index_test.sh <program>

set -u
export LC_ALL=C
program=$(realpath "$1")
. "$(dirname "$0")/checks.sh"

# has <records> <text in printf's notation>: that many records, for all numbers of ranks
has() {
    local ranks
    printf '%b' "$2" >file.csv
    for ranks in 1 2 3 5 8; do succeeds ", $1 record" file.csv --check --ranks $ranks; done
}

succeeds '--record N' --help
grep -q 'Numbers may end in K, M or G' out || fail 'the help does not say what numbers look like'

# Files as one writes them by hand.
has 1 'a'
has 1 'a\n'
has 2 'a\n\n'
has 2 'a,b\r\n1,2'
has 2 '"a\nb",c\r\n"d"\n'
has 1 '"a\n""\n"""\n'
has 3 'a"b\nc"d\n"e"f\n'
has 2 '\0357\0273\0277"a\nb",c\nd\n'
has 2 '"\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n",a\nb\n'
has 1 '""""""""""""""""""""""""""""""""""""""""""""""""""""""""'
has 3 ',,,,\n"""\n""",\n,'
printf 'x\n"y\nz"\nlast' >file.csv
succeeds 'last' file.csv --record 3 --ranks 3
[ "$(cat out)" = 'last' ] || fail 'another third record'
succeeds 'z"' file.csv --record 2
refuses 'csv_index: --record: there are 3 records' file.csv --record 4

# A long one, however it is cut; and what Python makes of it.
succeeds 'both methods find the same records' --make 100K long.csv --check
[ "$(wc -c <long.csv)" -ge 102400 ] || fail 'a short file'
records=$(sed -n 's/.*, \([0-9]*\) records.*/\1/p' out)
for ranks in 1 2 3 4 5 6 7 8 12 13 16; do
    for parts in 1 2 4; do
        succeeds ", $records records" long.csv --check --ranks $ranks --stretches $parts
    done
done
if command -v python3 >/dev/null; then
    succeeds '' long.csv --record $((records - 1)) --ranks 3
    python3 - "$records" out <<'END' || fail 'Python finds other records'
import csv, sys
with open('long.csv', newline='') as file:
    rows = list(csv.reader(file))
with open(sys.argv[2], newline='') as file:
    row = list(csv.reader(file))
assert len(rows) == int(sys.argv[1]), len(rows)
assert row == [rows[-2]], row
END
fi
# The three lines of figures are aligned; the median of two is half way between them.
succeeds 'ratio of 2 turns' long.csv --turns 2 --ranks 2
awk '/\(.* to .*\)/ { sub(/MB\/s/, "    "); ++found; ++lines[at = match($0, /\(/)]
        n = split($0, words, /[ ()]+/); off = 2 * words[n - 4] - words[n - 3] - words[n - 1]
        wrong += off * off > (/ratio/ ? .0005 : 4.5) }
    END { exit wrong || found != 3 || lines[at] != 3 }' out || fail 'figures of two turns'

# A text without a file is in memory only.
TMPDIR=$PWD/nowhere succeeds 'a generated text: ' --make 20K --turns 1

# Bad files and bad command lines.
refuses 'csv_index: nowhere.csv: cannot be read: No such file or directory' nowhere.csv
refuses '.: is not a regular file' .
mkfifo pipe.csv
timeout 10 "$program" pipe.csv >out 2>err
[ $? -eq 2 ] && grep -q 'csv_index: pipe.csv: is not a regular file' err || fail 'a pipe'
: >empty.csv
refuses 'csv_index: empty.csv: is empty' empty.csv
printf '\357\273\277' >empty.csv
refuses 'csv_index: empty.csv: is empty' empty.csv
printf 'a,b\n1,"2\n3,4\n5,6\n' >open.csv
refuses 'csv_index: open.csv: record 2, which begins at byte 4, has a quote that is never closed' open.csv
refuses 'record 2, which begins at byte 4' open.csv --check --ranks 7
refuses 'long.csv already exists' --make 1K long.csv
refuses '--make: ' --make 0
refuses '--stretches: 1, 2 or 4, not 3' --make 1K never.csv --stretches 3
[ ! -e never.csv ] || fail 'a file, although --stretches is wrong'
printf 'a' >one.csv
refuses 'csv_index: --record: there is 1 record' one.csv --record 2
refuses 'csv_index: nowhere/x.csv: cannot be written' --make 1K nowhere/x.csv
refuses "unexpected argument 'more.csv'" long.csv more.csv

[ $failures -eq 0 ] && echo 'the index of CSV files is right'
exit $((failures > 0))
