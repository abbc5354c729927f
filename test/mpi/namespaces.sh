#!/usr/bin/env bash
# SPDX-License-Identifier: BSL-1.0
#
# Runs a program of Open MPI as three processes, each in a network namespace of its own: all that they say to each other
# goes by TCP over slow lines. The counters of the lines tell that it did.
#
#     namespaces.sh <mpirun> <program> [argument...]
#
#     namespace 1                    namespace 2         namespace 3
#     bridge     10.213.47.1
#       port2 ---------------------- line 10.213.47.2
#       port3 ------------------------------------------ line 10.213.47.3
#
# Exit status 77: this machine does not permit it.

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

within() { ip netns exec "$space$1" "${@:2}"; } # within NAMESPACE COMMAND...

permitted() { # permitted COMMAND...: or skips
    "$@" 2>"$scratch/why" || skip "$* does not work here: $(tail -n 1 "$scratch/why")"
}

make_namespace() { # make_namespace NUMBER
    permitted ip netns add "$space$1"
    ip -n "$space$1" link set lo up
}

connect() { # connect NAMESPACE: to the bridge
    permitted ip -n ${space}1 link add "port$1" type veth peer name line netns "$space$1"
    ip -n ${space}1 link set "port$1" master bridge up
    ip -n "$space$1" address add "$subnet.$1/24" dev line
    ip -n "$space$1" link set line up
}

slow_down() { # slow_down NAMESPACE INTERFACE: what leaves there; says how
    local queue
    for queue in "netem delay 2ms" "tbf rate 50mbit burst 4kb latency 50ms"; do
        # shellcheck disable=SC2086 # words of a command
        if tc -n "$space$1" qdisc add dev "$2" root $queue 2>"$scratch/why"; then
            echo "$queue"
            return
        fi
    done
    echo "no delay: $(tail -n 1 "$scratch/why")"
}

# Bytes that the two lines have carried, both ways, the line that carried less.
carried() {
    local each
    for each in 2 3; do
        within $each cat /sys/class/net/line/statistics/{rx,tx}_bytes
    done | sort -n | head -n 1
}

[ "$(id -u)" = 0 ] || skip "only root makes network namespaces"
for tool in ip tc; do command -v $tool >/dev/null || skip "$tool is missing (Debian: iproute2)"; done
for each in 1 2 3; do make_namespace $each; done
permitted ip -n ${space}1 link add bridge type bridge
ip -n ${space}1 address add $subnet.1/24 dev bridge
ip -n ${space}1 link set bridge up
for each in 2 3; do
    connect $each
    slow_down 1 "port$each"
    slow_down "$each" line
done | sort | uniq -c

# What ssh is elsewhere: agent ADDRESS COMMAND...
cat >"$scratch/agent" <<END
#!/bin/sh
namespace=$space\${1##*.}
shift
exec ip netns exec "\$namespace" sh -c "\$*"
END
chmod +x "$scratch/agent"

run() {
within 1 timeout 100 "$1" -n 3 --host $subnet.1,$subnet.2,$subnet.3 --bind-to none \
    --mca plm_rsh_agent "$scratch/agent" --mca plm_rsh_no_tree_spawn 1 --mca oob_tcp_if_include $subnet.0/24 \
    --mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include $subnet.0/24 "${@:2}"
}
run "$@"
carried
