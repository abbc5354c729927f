#!/usr/bin/env bash
# SPDX-License-Identifier: BSL-1.0
#
# Runs a program of Open MPI as three processes, each in a network namespace of its own, so that all they say to each
# other goes by TCP through interfaces whose counters tell how much it was.
#
#     namespaces.sh <mpirun> <program> [argument...]
#
#     namespace 1: 10.213.47.1     namespace 2: 10.213.47.2     namespace 3: 10.213.47.3
#     bridge
#       port2 ------------------------------ up                          |
#       port3 ----------------------------------------------------------- up
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
        ip netns pids $space$each 2>/dev/null | xargs --no-run-if-empty kill 2>/dev/null || true
        ip netns delete $space$each 2>/dev/null || true # and its interfaces
    done
    rm -rf "$scratch"
}

skip() {
    echo "not run: $1"
    exit 77
}

within() { ip netns exec "$space$1" "${@:2}"; } # within NAMESPACE COMMAND...

connect() { # connect NAMESPACE: by a veth to the bridge
    ip -n ${space}1 link add "port$1" type veth peer name uplink netns "$space$1"
    ip -n ${space}1 link set "port$1" master bridge up
    ip -n "$space$1" address add "$subnet.$1/24" dev uplink
    ip -n "$space$1" link set uplink up
}

build() {
    local each
    for each in 1 2 3; do
        ip netns add $space$each
        ip -n $space$each link set lo up
    done
    ip -n ${space}1 link add bridge type bridge
    ip -n ${space}1 address add $subnet.1/24 dev bridge
    ip -n ${space}1 link set bridge up
    connect 2
    connect 3
}

[ "$(id -u)" = 0 ] || skip "network namespaces need root"
for tool in ip tc; do command -v $tool >/dev/null || skip "$tool is missing (Debian: iproute2)"; done
build

cat >"$scratch/agent" <<END
#!/bin/sh
# What ssh is elsewhere: agent ADDRESS COMMAND...
namespace=$space\${1##*.}
shift
exec ip netns exec "\$namespace" sh -c "\$*"
END
chmod +x "$scratch/agent"

within 1 timeout 60 "$1" -n 3 --host $subnet.1,$subnet.2,$subnet.3 --bind-to none \
    --mca plm_rsh_agent "$scratch/agent" --mca plm_rsh_no_tree_spawn 1 \
    --mca oob_tcp_if_include $subnet.0/24 \
    --mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include $subnet.0/24 "${@:2}"
for i in bridge port2 port3; do within 1 cat /sys/class/net/$i/statistics/{rx,tx}_bytes; done
