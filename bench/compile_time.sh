#!/usr/bin/env bash
# SPDX-License-Identifier: BSL-1.0
# What a translation unit pays for allfold: seconds of processor time of the compiler, medians of three.
#
#   bench/compile_time.sh        CXX=<compiler> chooses the compiler, g++ otherwise
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT

seconds() { # seconds ARGUMENT...: one run of the compiler
    local TIMEFORMAT='%U %S'
    if ! { time "${CXX:-g++}" -std=c++20 -Iinclude "$@" 2>"$folder/log"; } 2>"$folder/time"; then
        cat "$folder/log" >&2
        exit 1
    fi
    awk '{ print $1 + $2 }' "$folder/time"
}

median() { # median ARGUMENT...
    for _ in 1 2 3; do seconds "$@"; done | sort -n | sed -n 2p
}

row() { # row TITLE, with the source on standard input
    local syntax optimised
    cat >"$folder/unit.cpp"
    syntax=$(median -O0 -fsyntax-only "$folder/unit.cpp")
    optimised=$(median -O2 -c "$folder/unit.cpp" -o "$folder/unit.o")
    printf '%-42s %18.2f %8.2f\n' "$1" "$syntax" "$optimised"
}

printf '%-42s %18s %8s\n' "seconds, ${CXX:-g++}" '-O0 -fsyntax-only' '-O2'
row '#include <algorithm>' <<'END'
#include <algorithm>
END
row '#include <allfold/allfold.hpp>' <<'END'
#include <allfold/allfold.hpp>
END
row 'one all_reduce of floats' <<'END'
#include <allfold/allfold.hpp>
#include <vector>
void sum(allfold::thread_communicator& comm, std::vector<float>& x) { allfold::all_reduce(comm, x, allfold::sum{}); }
END
