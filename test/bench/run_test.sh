#!/usr/bin/env bash
# SPDX-License-Identifier: BSL-1.0
#
# Runs the benchmarks as a user does: what is refused, what is computed from known times, what is missing.
#
#     run_test.sh <folder of the built programs>

set -u
export LC_ALL=C PYTHONDONTWRITEBYTECODE=1
programs=$(realpath "$1")
repository=$(realpath "$(dirname "$0")/../..")
. "$repository/test/examples/checks.sh"

bench() { "$repository/bench/run.py" --programs absent "$@"; } # measures nothing
threads() { "$programs/threads" "$@"; }
exploring() { "$programs/explore" "$@"; }

# succeeds <text on standard output> <command...>
succeeds() {
    local text=$1
    shift
    "$@" >out 2>err || fail "status $? instead of 0: $*"
    grep -qF -- "$text" out || fail "no '$text': $*"
    [ ! -s err ] || fail "something on standard error: $*"
}

# refuses <text of the message> <command...>: status 2, one line on standard error, nothing else
refuses() {
    local text=$1 status
    shift
    "$@" >out 2>err
    status=$?
    [ $status -eq 2 ] || fail "status $status instead of 2: $*"
    [ "$(wc -l <err)" -eq 1 ] || fail "not one line on standard error: $*"
    grep -qF -- "$text" err || fail "no '$text': $*"
    [ ! -s out ] || fail "something on standard output: $*"
}

# prints <extended regular expression>: a line of the last run
prints() { grep -qxE -- "$1" out || fail "no line '$1'"; }

# --- What is refused.

refuses "no row 'all_reuce'" bench --rows all_reuce
refuses "no row ''" bench --rows ''
refuses "no row 'start'" bench --over-mpi --rows start
refuses "--ranks: '0' is not a number from 1 to 16" bench --ranks 0
refuses "--ranks: '17'" bench --ranks 2,17
refuses "--ranks: 'two'" bench --ranks two
refuses "--rounds: '0'" bench --rounds 0
refuses "--sizes: '0'" bench --sizes 0
refuses "--sizes: '-8'" bench --sizes=-8
refuses "--sizes: ''" bench --sizes 8,
refuses "--sizes: '4097M'" bench --sizes 4097M
refuses "--ranks: ''" bench --ranks ''
refuses "--sizes: 'K'" bench --sizes K
refuses "64 is less than one element of merge, which takes 264 bytes" bench --over-mpi --sizes 64
refuses "2 is less than one element of all_reduce, which takes 4 bytes" bench --rows all_reduce --sizes 64,2
refuses "8 is less than one element of reduce_scatter, which takes 16 bytes at 4 ranks" \
    bench --rows reduce_scatter --ranks 2,4 --sizes 8
refuses "8 is less than one element of all_gather_uneven, which takes 16 bytes at 4 ranks" \
    bench --rows all_gather_uneven --ranks 4 --sizes 8
refuses "of memory" bench --rows in_flight --ranks 16 --sizes 4096M
refuses "unrecognized arguments: --bogus" bench --bogus
refuses "--csv: absent/t.csv cannot be written" bench --csv absent/t.csv
refuses "--from: absent.csv cannot be read" bench --from absent.csv
refuses "absent/threads is missing" bench
refuses "absent/explore is missing" bench --explore
refuses "ping_pong needs an even number of ranks" bench --rows ping_pong --ranks 1,3
refuses "should end with" bench --plot picture.jpeg2000
refuses "--over-mpi" bench --over-mpi --plot p.svg
mkdir without && echo 'raise ImportError' >without/matplotlib.py
refuses "needs matplotlib" env PYTHONPATH=without "$repository/bench/run.py" --plot p.svg

refuses "missing arguments: RANKS ROW:BYTES,BYTES,..." threads 2
refuses "'17' is not a number from 1 to 16" threads 17 all_reduce:8
refuses "there is no row product" threads 2 product:32
refuses "all_reduce: sizes are missing" threads 2 all_reduce
refuses "all_gather: 12 bytes are not a multiple of 8" threads 2 all_gather:12
refuses "all_gather_uneven: 8 bytes are not a multiple of 16" threads 4 all_gather_uneven:8
refuses "'3' is not a number from 4" threads --table 2 all_reduce:3

# --- Known times: one size twice as slow as the bound, one equal to it; MPI 3 and 12 times slower, and the other
# library never best.

# times <placement> <size> <contestant> <microseconds>
times() { for _ in 1 2 3; do echo "all_reduce,$3,2,$2,$1,$4,$4,$4,11"; done; }
{
    echo row,contestant,ranks,bytes,placement,median_us,low_us,high_us,batches
    for where in near far; do
        times $where 8 ours 2
        times $where 8 "bound: slots" 1
        times $where 8 "bound: cells" 1.5
        times $where 8 "MPI: A" 6
        times $where 8 "MPI: B" 7
        times $where 1024 ours 4
        times $where 1024 "bound: slots" 4
        times $where 1024 "MPI: A" 50
        times $where 1024 "MPI: B" 48
    done
    times near 64 ours 3 | head -n 2 # not often enough
} >known.csv
succeeds "measured earlier" bench --from known.csv
prints ' +8 +2\.000 +0\.00 +1\.000 +6\.000 \| +2\.00 +3\.00 \| +3  bound: slots; MPI: A'
prints ' +1K +4\.000 +0\.26 +4\.000 +48\.0 \| +1\.00 +12\.00 \| +3  bound: slots; MPI: B'
prints ' +near +far'
prints 'all_reduce +2 +1\.41 \(2\.00 at 8\) +6\.00 \(3\.00 at 8\) +8\.49 +1\.41 \(2\.00 at 8\) +6\.00 \(3\.00 at 8\) +8\.49'
! grep -q '^ *64 ' out || fail "a size that was not measured often enough is in the table"
if python3 -c 'import matplotlib' 2>/dev/null; then
    succeeds "picture.svg: drawn" bench --from known.csv --plot picture.svg
    for text in "near cores" "far cores" "MPI / allfold, mean 6.00" "allfold / bound, mean 1.41" "1 KiB"; do
        grep -qF "$text" picture.svg || fail "no '$text' in the picture"
    done
else
    echo "not run: the picture, without matplotlib"
fi

succeeds "measured earlier" bench --from known.csv --sizes 1K --ranks 2,4
prints ' +1K .*'
! grep -q '^ *8 ' out || fail "a size that was not asked for is in the table"
succeeds "nothing was measured" bench --from known.csv --ranks 4

refuses "cannot be combined with --over-mpi" bench --from known.csv --over-mpi
head -n 1 known.csv >over_mpi.csv
echo all_reduce,MPI,2,8,near,1,1,1,11 >>over_mpi.csv
refuses "is not what --csv writes about threads" bench --from over_mpi.csv
echo "row,time" >other.csv
echo all_reduce,ours,two >>known.csv
refuses "known.csv is not what --csv writes" bench --from known.csv
refuses "is not what --csv writes" bench --from other.csv
printf '%200000s\n' x >>other.csv
sed -i '1s/.*/row,contestant,ranks,bytes,placement,median_us,low_us,high_us,batches/' other.csv
refuses "is not what --csv writes" bench --from other.csv

# --- What the programs print. They check for themselves that results are right.

rows="all_reduce merge all_gather reduce_scatter reduce_scatter_bf16 broadcast scatter gather all_to_all all_to_all_by_sizes all_gather_uneven
    reduce_scatter_uneven all_gather_axis permute reduce images team
    inclusive_scan exclusive_scan scan distributed_scan start in_flight persistent list reduce_scatter_list all_gather_list together barrier"
size_of() { case $1 in merge) echo 264 ;; barrier) echo 0 ;; together) echo 24,24576 ;; *) echo 64,16384 ;; esac; }
for row in $rows; do
    succeeds "$row;ours;2;" threads 2 "$row:$(size_of "$row")"
    grep -q "^$row;bound: .*;2;" out || fail "$row has no bound"
done
succeeds "scan;bound: slots, counter;3;96;" threads 3 scan:96
for row in ping_pong:64,16384 message_rate:64,1024 halo:24,24576; do
    succeeds "${row%%:*};ours;2;" threads 2 "$row"
    grep -q "^${row%%:*};bound: .*;2;" out || fail "${row%%:*} has no bound"
done
succeeds "all_to_all_by_sizes;bound: cells, counter;3;96;" threads 3 all_to_all_by_sizes:96
succeeds "halo;bound: cells of any length;3;240;" threads 3 halo:240

refuses "explore [SECONDS]" exploring abc
refuses "explore [SECONDS]" exploring -1
succeeds "20 messages to one rank" exploring 0
prints '1000 +[0-9.]+'

succeeds "# all_gather, 3 ranks" threads --table 3 all_reduce:196608 all_gather:196608 reduce:196608
prints '# +size +count +type +redop +time +algbw +busbw'
prints ' +196608 +49152 +float +sum .*'
prints ' +196608 +16384 +float +none .*'
cp out three_rows
succeeds "# gather and a barrier, 3 ranks" threads --table 3 gather:196608 permute:196608 all_to_all_by_sizes:196608 merge:26400
awk '!/^#/ { factor = (++n == 2) ? 1 : (n == 4) ? 4 / 3 : 2 / 3; off = $7 - factor * $6; if (off > .02 || off < -.02) exit 1 }' \
    out || fail "factors of the bus"
cp three_rows out
awk '!/^#/ { factor = (++n == 1) ? 4 / 3 : (n == 2) ? 2 / 3 : 1; off = $7 - factor * $6; if (off > .02 || off < -.02) exit 1 }' \
    out || fail "factors of the bus"

# --- What is missing is reported, and the rest of the table is still printed.

succeeds "a single CPU: near and far are missing" taskset -c 0 bash -c \
    "'$repository/bench/run.py' --programs '$programs' --no-mpi --ranks 2 --rows barrier --rounds 1"
prints 'barrier, P = 2, one'
mkdir bare && ln -s "$programs/threads" bare/threads
cd bare
succeeds "a single CPU" taskset -c 0 bash -c \
    "'$repository/bench/run.py' --programs . --no-mpi --ranks 2 --rows barrier --rounds 1"
cd ..
succeeds "MPI is missing" "$repository/bench/run.py" --programs bare --ranks 2 --rows barrier --rounds 1 --csv t.csv
prints 'row +P +ours/bound \(worst\) +MPI/ours \(worst\) +MPI/bound'
grep -qE '^barrier,ours,2,0,' t.csv || fail "no measurements in --csv"

[ $failures -eq 0 ] || exit 1
