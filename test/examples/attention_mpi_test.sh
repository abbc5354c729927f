#!/usr/bin/env bash
# SPDX-License-Identifier: BSL-1.0
#
# Runs the attention program over MPI: processes give the same bits as threads, and all of them end when something is
# wrong.
#
#     attention_mpi_test.sh <mpirun> <program over MPI> <program on threads> <data directory>

set -u
export LC_ALL=C OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none # more ranks than cores
export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe                          # the same for Open MPI 5
mpirun=$1
program=$(realpath "$2")
threads=$(realpath "$3")
data=$(realpath "$4")
. "$(dirname "$0")/checks.sh"

# on <ranks> <arguments...>: within half a minute
on() {
    timeout 30 "$mpirun" -n "$1" "$program" "${@:2}" >out 2>err
}

# succeeds <ranks> <arguments...>: one report, for that many ranks
succeeds() {
    on "$@" || fail "status $? instead of 0: $*"
    [ "$(grep -c "on $1 rank" out)" -eq 1 ] || fail "not one report: $*"
}

# repeats_threads <ranks> <arguments...>
repeats_threads() {
    succeeds "$@" --out processes.npy
    "$threads" --ranks "$@" --out threads.npy >out 2>err || fail "on threads: $*"
    cmp -s processes.npy threads.npy || fail "not the bits of the threads: $*"
    rm -f processes.npy threads.npy
}

# refuses <text of the message> <ranks> <arguments...>: status 2, one line from the program, and no result
refuses() {
    local text=$1 status
    shift
    on "$@" --out never.npy
    status=$?
    [ $status -eq 2 ] || fail "status $status instead of 2: $*"
    [ "$(grep -cE '^(attention|allfold): ' err)" -eq 1 ] || fail "not one message: $*"
    grep -qF -- "attention: $text" err || fail "no '$text': $*"
    [ ! -s never.npy ] || fail "a result: $*"
    rm -f never.npy
}

for ranks in 1 2 3 5; do
    repeats_threads $ranks --algorithm ring
    repeats_threads $ranks --algorithm recursive_doubling --causal
    succeeds $ranks --causal
    grep -q 'from NumPy' out || fail "no comparison with NumPy: $ranks ranks"
done
for each in q k v; do sed "1s/'<f4'/'<f8'/; 1s/, 32)/, 16)/" "$data/$each.npy" >$each.npy; done # two floats make a double
repeats_threads 3 --algorithm ring --q q.npy --k k.npy --v v.npy
grep -q float64 out || fail 'not in double'
succeeds 3 --ranks 3 --q "$data/q.npy" --k "$data/k.npy" --v "$data/v.npy" --window 4096 --trace trace.json
grep -q 'local attention' trace.json || fail 'the trace lacks a phase'
succeeds 3 --no-check --causal --causal-from top-left --plot picture.svg
grep -q 'not checked' out || fail 'a check with --no-check'
grep -q 'as rank 0 saw it' picture.svg || fail 'the picture does not say whose it is'
succeeds 3
for phase in 'start' 'share' 'float64 reference' 'gather'; do grep -q "^  $phase  " out || fail "no time of: $phase"; done
on 3 --scale 1e308
[ $? -eq 1 ] && grep -q 'deviates by more than rounding explains' out || fail 'scores beyond float'
on 2 --help || fail "status $? instead of 0: --help"
[ "$(grep -c 'Options:' out)" -eq 1 ] || fail 'not one help'

head -c 5000 "$data/k.npy" >cut.npy
refuses 'cut.npy: the header promises' 3 --q "$data/q.npy" --k cut.npy --v "$data/v.npy"
refuses 'gone.npy: not found' 5 --q gone.npy --k cut.npy --v cut.npy
refuses '--ranks' 2 --ranks 3
refuses '--trace: the name of the file is empty' 2 --trace ''
refuses '--trace never.npy is the same file as --out' 2 --trace never.npy
refuses '--algorithm' 2 --algorithm fastest
refuses 'all_reduce: rank 0: mirrored doubling has no schedule for 3 ranks' 3 --algorithm mirrored_doubling

printf '#!/bin/sh\nexec "$0" "$@" >/dev/full\n' | sed "s|\$0|$program|" >full.sh && chmod +x full.sh
program=$PWD/full.sh
on 2
[ $? -eq 2 ] || fail 'status on a full disk'
[ "$(grep -c '^attention: standard output: cannot be written: No space left on device' err)" -eq 1 ] || fail 'full disk'

[ $failures -eq 0 ] && echo "the attention program does over MPI as it does on threads"
exit $((failures > 0))
