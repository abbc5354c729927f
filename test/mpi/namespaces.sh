#!/usr/bin/env bash
# SPDX-License-Identifier: BSL-1.0
#
# Runs an Open MPI program as three processes, each in its own network namespace: all their messages go over TCP on
# lines with a delay. The counters of the lines prove that they did.
#
#     namespaces.sh <mpirun> <program> [argument...]
#
#     namespace 1                    namespace 2         namespace 3
#     bridge     10.213.47.1
#       port2 ---------------------- line 10.213.47.2
#       port3 ------------------------------------------ line 10.213.47.3
#
# Exit status 77: this machine does not allow it.

set -euo pipefail
export LC_ALL=C OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
subnet=10.213.47
space=allfold-$$-
scratch=$(mktemp -d)
trap clean_up EXIT

clean_up() {
    local each
    for each in 1 2 3; do
        ip netns pids $space$each 2>/dev/null | xargs --no-run-if-empty kill -9 2>/dev/null || true
        ip netns delete $space$each 2>/dev/null || true # and its interfaces
    done
    rm -rf "$scratch"
}

skip() {
    echo "not run: $1"
    exit 77
}

permitted() { # permitted COMMAND...: skips the test if it fails
    "$@" 2>"$scratch/why" || skip "$* does not work here: $(tail -n 1 "$scratch/why")"
}

connect() { # connect NAMESPACE: to the bridge
    permitted ip -n ${space}1 link add "port$1" type veth peer name line netns "$space$1"
    ip -n ${space}1 link set "port$1" master bridge up
    ip -n "$space$1" address add "$subnet.$1/24" dev line
    ip -n "$space$1" link set line up
}

slow_down() { # slow_down NAMESPACE INTERFACE: what is sent from there
    local queue
    for queue in "netem delay 2ms" "tbf rate 50mbit burst 4kb latency 50ms"; do
        # shellcheck disable=SC2086 # words of a command
        if tc -n "$space$1" qdisc add dev "$2" root $queue 2>"$scratch/why"; then
            echo "a line with $queue"
            return
        fi
    done
    echo "a line without delay: $(tail -n 1 "$scratch/why")"
}

carried() { # carried NAMESPACE: the bytes over its line, in the direction with fewer
    ip netns exec "$space$1" cat /sys/class/net/line/statistics/{rx,tx}_bytes | sort -n | head -n 1
}

[ "$(id -u)" = 0 ] || skip "only root makes network namespaces"
for tool in ip tc; do command -v $tool >/dev/null || skip "$tool is missing (Debian: iproute2)"; done
for each in 1 2 3; do
    permitted ip netns add $space$each
    ip -n $space$each link set lo up
done
permitted ip -n ${space}1 link add bridge type bridge
ip -n ${space}1 address add $subnet.1/24 dev bridge
ip -n ${space}1 link set bridge up
for each in 2 3; do
    connect $each
    slow_down 1 port$each
    slow_down $each line
done

# What stands in for ssh: agent ADDRESS COMMAND...
cat >"$scratch/agent" <<END
#!/bin/sh
number=\${1##*.}
shift
mkdir "$scratch/\$number"
TMPDIR="$scratch/\$number" exec ip netns exec $space\$number sh -c "\$*"
END
chmod +x "$scratch/agent"
TMPDIR="$scratch" ip netns exec ${space}1 timeout 100 "$1" -n 3 --host $subnet.1,$subnet.2,$subnet.3 --bind-to none \
    --mca plm_rsh_agent "$scratch/agent" --mca plm_rsh_no_tree_spawn 1 --leave-session-attached \
    --mca oob_tcp_if_include $subnet.0/24 \
    --mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include $subnet.0/24 "${@:2}" </dev/null

for each in 2 3; do
    bytes=$(carried $each)
    echo "line $each has carried at least $bytes bytes each way"
    [ "$bytes" -ge 100000 ] || exit 1 # starting the processes alone takes a tenth of that
done
