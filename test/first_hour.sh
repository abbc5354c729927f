#!/usr/bin/env bash
# SPDX-License-Identifier: BSL-1.0
#
# The first hour of a new user: a fresh clone, the commands of the README, and typical mistakes, each with what must be
# printed then.
#
#     test/first_hour.sh [--debian] [--tests] FOLDER
#
# FOLDER     is created, and gets a clone of what is committed
# --debian   in a minimal Debian below FOLDER (debootstrap, as root), where the commands install what they need
# --tests    also ./dev test, which takes longer than everything else

set -euo pipefail
repository=$(realpath "$(dirname "$0")/..")
in_debian='' with_tests='' folder=''
for argument in "$@"; do
    case $argument in
        --debian) in_debian=1 ;;
        --tests) with_tests=--tests ;;
        *) folder=$argument ;;
    esac
done
if [ -z "$folder" ]; then
    sed -n '4,/^$/s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
mkdir -p "$folder"
folder=$(realpath "$folder")

if [ -n "$in_debian" ]; then
    root=$folder/debian
    suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
    debootstrap --variant=minbase "$suite" "$root" >"$folder/debootstrap.log"
    cp -r /etc/apt "$root/etc/"  # the package sources
    git clone -q "$repository" "$root/srv/clone"
    exec unshare --mount sh -c 'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && exec chroot "$0" "$@"' "$root" \
        env -i HOME=/srv PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C \
        /srv/clone/test/first_hour.sh $with_tests /srv/hour
fi

# --- The clone, and the folder of a user who works elsewhere.

if [ -d "$repository/.git" ] && command -v git >/dev/null; then
    git clone -q "$repository" "$folder/allfold"
else
    cp -r "$repository" "$folder/allfold"
fi
allfold=$folder/allfold
mkdir -p "$folder/elsewhere"
cd "$folder/elsewhere"
failures=0

# tried NAME STATUS COMMAND...: runs the command, and keeps its output in the files out and err.
tried() {
    local name=$1 wanted=$2 status=0
    shift 2
    echo "- $name"
    "$@" >out 2>err </dev/null || status=$?
    if [ $status != "$wanted" ]; then wrong "$name: status $status instead of $wanted"; fi
}
wrong() {
    echo "FAILED: $1"
    sed 's/^/    /' out err | head -50
    failures=$((failures + 1))
}
prints() { grep -qF -- "$1" out || wrong "nothing on standard output says '$1'"; }
complains() { grep -qF -- "$1" err || wrong "nothing on standard error says '$1'"; }
is_quiet() { [ ! -s err ] || wrong "something on standard error"; }
# says_only TEXT: the first line that is not the context of an include has the text, and there are at most two errors.
says_only() {
    grep -v -e '^In file included from' -e '^ *from ' err >said || true
    head -1 said | grep -qF -- "$1" || wrong "the first thing said is not '$1'"
    [ "$(grep -c 'error:' err)" -le 2 ] || wrong "$(grep -c 'error:' err) errors instead of one"
}

tried 'what there is' 0 "$allfold/dev"
prints './dev demo'
tried 'a command that there is not' 2 "$allfold/dev" frobnicate
complains "unknown command 'frobnicate'"

tried 'the main job, which installs what it needs' 0 "$allfold/dev" demo
prints 'from NumPy'
prints 'total'
tried 'the main job again' 0 "$allfold/dev" demo
is_quiet
cp "$allfold"/examples/attention/data/[qkv].npy .
tried 'files of the folder where one is' 0 "$allfold/dev" demo --q q.npy --k k.npy --v v.npy --out o.npy
[ -s o.npy ] || wrong 'no o.npy where the user is'
tried 'a file that is not there' 2 "$allfold/dev" demo --q nowhere.npy --k k.npy --v v.npy
complains 'nowhere.npy: not found'
unset unset_variable
tried 'a shell variable that is not set' 2 "$allfold/dev" demo --q "${unset_variable:-}" --k k.npy --v v.npy
complains '--q'
tried 'far more ranks than cores' 0 "$allfold/dev" demo --ranks 256
prints 'take turns'
tried 'as many ranks as --help allows' 0 "$allfold/dev" demo --ranks 1024
prints 'on 1024 ranks'
tried 'one more' 2 "$allfold/dev" demo --ranks 1025
complains '1024'
tried 'every other mistake with the main job' 0 \
    "$allfold/test/examples/attention_cli_test.sh" "$allfold/build/demo/examples/attention" "$allfold/examples/attention/data"

tried 'an example that there is not' 2 "$allfold/dev" example frobnicate
complains 'which one of these? attention'

compile=(c++ -I "$allfold/include" -pthread "$allfold/examples/quick_start.cpp" -o quick_start)
tried 'the example of the README, by copy' 0 "${compile[@]}" -std=c++20
is_quiet
tried 'which runs' 0 ./quick_start
prints '6 abcd'
tried 'C++17 by mistake' 1 "${compile[@]}" -std=c++17
says_only 'C++20'
tried 'without exceptions' 1 "${compile[@]}" -std=c++20 -fno-exceptions
says_only 'exceptions'
tried 'names of Qt and Windows as macros' 0 "${compile[@]}" -std=c++20 -Dslots= -Dsignals=public -Demit= \
    -Dsmall=char -Dnear= -Dfar=
printf '#include <cstdio>\n#define min(a, b) ((a) < (b) ? (a) : (b))\n#include <allfold/allfold.hpp>\n' >macro.cpp
tried 'a macro that interferes' 1 c++ -std=c++20 -I "$allfold/include" -c macro.cpp
says_only 'the macro min interferes'

mkdir -p mpi
cat >mpi/CMakeLists.txt <<END_OF_PROJECT
cmake_minimum_required(VERSION 3.25)
project(mine CXX)
add_subdirectory("$allfold" allfold)
add_executable(mine "$allfold/examples/quick_start.cpp")
target_link_libraries(mine PRIVATE allfold::mpi)
END_OF_PROJECT
tried 'allfold::mpi without its option' 1 cmake -G Ninja -S mpi -B mpi/build
complains 'ALLFOLD_MPI=ON'

if [ -n "$with_tests" ]; then
    tried 'the tests' 0 "$allfold/dev" test
    tail -5 out
fi

if [ $failures != 0 ]; then
    echo "$failures of the first hour's steps went wrong"
    exit 1
fi
echo 'the first hour went well'
