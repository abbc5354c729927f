#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Measures what a translation unit pays for allfold, beside the standard library and Boost.MPI, and prints a table.

Seconds are CPU time of the compiler (user and system), MB its peak memory: medians over turns, in each of which every
unit is compiled once. The last columns are ratios of seconds at -O2 to the unit that only includes <algorithm> and to
the one with a single boost::mpi::all_reduce of a float. A unit that does not compile is left out."""

import argparse
import collections
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

INCLUDE = pathlib.Path(__file__).parent.parent / "include"

COLLECTIVES = """#include <allfold/allfold.hpp>
#include <vector>
using namespace allfold;
void all_twelve(thread_communicator& comm, std::vector<float>& x, std::vector<float>& y) {
    barrier(comm);
    broadcast(comm, x);
    scatter(comm, x, y);
    gather(comm, y, x);
    all_to_all(comm, x);
    permute(comm, x, shift{1});
    reduce(comm, x, sum{});
    all_reduce(comm, x, sum{});
    reduce_scatter(comm, x, y, sum{});
    all_gather(comm, y, x);
    inclusive_scan(comm, x, sum{});
    exclusive_scan(comm, x, sum{});
}
"""
ONE = """#include <allfold/algebra/arithmetic.hpp>
#include <allfold/collective/all_reduce.hpp>
#include <allfold/transport/{header}.hpp>
#include <vector>
void one({type}& comm, std::vector<float>& x) {{ allfold::all_reduce(comm, x, allfold::sum{{}}); }}
"""
COMPILED = "one all_reduce, allfold::compiled"
BOOST = "one boost::mpi::all_reduce, float"
BOOST_ONE = """#include <boost/mpi.hpp>
#include <functional>
float one(const boost::mpi::communicator& world, float x) {
    return boost::mpi::all_reduce(world, x, std::plus<float>());
}
"""
BOOST_STRUCT = """#include <boost/mpi.hpp>
struct state {
    float maximum, sum;
    template <class Archive>
    void serialize(Archive& archive, unsigned) { archive & maximum & sum; }
};
struct merge {
    state operator()(const state& a, const state& b) const {
        return {a.maximum > b.maximum ? a.maximum : b.maximum, a.sum + b.sum};
    }
};
state one(const boost::mpi::communicator& world, const state& x) { return boost::mpi::all_reduce(world, x, merge()); }
"""
UNITS = {
    "empty": "",
    "<algorithm>": "#include <algorithm>\n",
    "<allfold/allfold.hpp>": "#include <allfold/allfold.hpp>\n",
    "one all_reduce, threads": ONE.format(header="thread", type="allfold::thread_communicator"),
    COMPILED: ONE.format(header="thread", type="allfold::thread_communicator"),
    "all collectives, threads": COLLECTIVES,
    "one all_reduce, MPI": ONE.format(header="mpi", type="allfold::mpi::communicator"),
    "<boost/mpi.hpp>": "#include <boost/mpi.hpp>\n",
    BOOST: BOOST_ONE,
    "one boost::mpi::all_reduce, struct": BOOST_STRUCT,
}
STAGES = {"-fsyntax-only": ["-fsyntax-only"], "-O2": ["-O2", "-c", "-o", os.devnull]}

Cost = collections.namedtuple("Cost", "seconds megabytes")


class Parser(argparse.ArgumentParser):
    def error(self, message):
        self.exit(2, f"{self.prog}: {message}\n")


def at_least_one(text):
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number from 1")
    return int(text)


def read_options():
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=at_least_one, default=3, help="number of turns of each unit (default 3)")
    parser.add_argument("--compilers", default="g++,clang++-19", help="default g++,clang++-19, of which those that are installed")
    parser.add_argument("--units", default="", help="only units with one of these comma-separated words in their names")
    parser.add_argument("--include", type=pathlib.Path, default=INCLUDE, metavar="FOLDER",
                        help="another copy of allfold's headers")
    options = parser.parse_args()
    words = options.units.split(",")
    options.units = [unit for unit in UNITS if any(word in unit for word in words)]
    if not options.units:
        parser.error(f"--units: no unit has one of these words; the units are {', '.join(UNITS)}")
    wanted = options.compilers.split(",")
    options.compilers = [compiler for compiler in wanted if shutil.which(compiler)]
    if not options.compilers:
        parser.error(f"--compilers: {' and '.join(wanted)} cannot be found")
    return options


def flags_of_mpi():
    """Finds the headers of Open MPI or another MPI; as system headers, about which compilers do not warn."""
    wrapper = shutil.which("mpicxx.openmpi") or shutil.which("mpicxx")
    if not wrapper:
        return []
    for show in ("-showme:compile", "-compile_info"):  # Open MPI, MPICH
        shown = subprocess.run([wrapper, show], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        if shown.returncode == 0:
            words = shown.stdout.split()
            return [flag for word in words if word.startswith("-I") for flag in ("-isystem", word[2:])]
    return []


def cost_of(unit, command):
    """The cost of one run of a compiler and the processes that it starts; None if it fails."""
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            log.seek(0)
            errors = [line for line in log.read().decode(errors="replace").splitlines() if "error:" in line]
            print(f"{command[0]}: left out: {unit}: {errors[0] if errors else 'see the compiler'}", file=sys.stderr)
            return None
    return Cost(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def measure(compiler, units, flags, rounds, folder):
    """The median costs of each unit and stage; those that do not compile are left out."""
    sources = {unit: pathlib.Path(folder) / f"unit{number}.cpp" for number, unit in enumerate(units)}
    for unit, source in sources.items():
        source.write_text(UNITS[unit])
    costs = collections.defaultdict(list)
    failed = set()
    for _ in range(rounds):
        for unit, source in sources.items():
            for stage, arguments in STAGES.items():
                if unit in failed:
                    continue
                compiled = ["-DALLFOLD_COMPILED"] if unit == COMPILED else []
                cost = cost_of(unit, [compiler, "-std=c++20", *flags, *compiled, *arguments, str(source)])
                if cost:
                    costs[unit, stage].append(cost)
                else:
                    failed.add(unit)
    return {key: Cost(*map(statistics.median, zip(*taken))) for key, taken in costs.items() if key[0] not in failed}


def ratio(costs, unit, reference):
    if (reference, "-O2") not in costs:
        return "-"
    return f"{costs[unit, '-O2'].seconds / costs[reference, '-O2'].seconds:.1f}"


def print_table(compiler, costs):
    version = subprocess.run([compiler, "--version"], stdout=subprocess.PIPE, text=True).stdout.splitlines()[0]
    print(f"\n{version}\n{'':36}  -fsyntax-only         -O2    | at -O2, over")
    print(f"{'':36} seconds    MB  seconds    MB | <algorithm>  Boost.MPI")
    for unit in UNITS:
        if (unit, "-O2") in costs:
            cells = [f"{costs[unit, stage].seconds:>7.2f} {costs[unit, stage].megabytes:>5.0f}" for stage in STAGES]
            ratios = f"{ratio(costs, unit, '<algorithm>'):>11} {ratio(costs, unit, BOOST):>10}"
            print(f"{unit:36} {'  '.join(cells)} | {ratios}")


def main():
    options = read_options()
    mpi = flags_of_mpi()
    if not mpi:
        print("MPI is missing (Debian: libopenmpi-dev, libboost-mpi-dev): nothing to compare with")
    flags = ["-I", str(options.include), *mpi]
    units = [unit for unit in options.units if mpi or not ("MPI" in unit or "mpi::" in unit or "mpi.hpp" in unit)]
    print(f"{len(os.sched_getaffinity(0))} CPUs, load {os.getloadavg()[0]:.1f}, {options.rounds} turns")
    with tempfile.TemporaryDirectory() as folder:
        for compiler in options.compilers:
            print_table(compiler, measure(compiler, units, flags, options.rounds, folder))


main()
