#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Measures allfold beside what the machine allows and beside Open MPI, by turns, and prints tables.

Times are microseconds a call: medians over the turns of medians over batches, of the slowest rank. GB/s counts the
operand of one rank. Between two calls every contestant reads its result and writes new inputs, as a program does.

  ours/bound   the bound is the fastest of several collectives written by hand for this size (bench/bound.hpp)
  MPI/ours     Open MPI as it is installed, in processes; for the merge three all-reduces, as it is done with MPI

A hypervisor may move the processors about. Only figures of one placement are compared: smt (threads of one core), near
(cores near each other) or far; each has tables of its own. With more ranks than processors every contestant yields.

--over-mpi compares allfold over MPI with the collectives of the same MPI library in the same processes, for every
library that is there. Ratios above 1 are in favour of ours; they are medians over the turns, of ratios within a turn.

  MPI/ours       MPI's own collective with MPI's or the user's operator; for the merge three all-reduces
  one/ours       of a merge: one all-reduce with the user's operator on an array of structs
  MPI/automatic  the same call where nothing is said of delegate
  MPI/agreed     delegated at every size, once the ranks agree: where automatic delegation would pay off
  MPI/always     delegated at every size without agreement"""

import argparse
import collections
import csv
import functools
import math
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

KIB, MIB = 1 << 10, 1 << 20
STATE, MATRIX = 264, 32  # bytes
LENGTHS = [8, 64, KIB, 16 * KIB, 256 * KIB, 4 * MIB, 64 * MIB]
SIZES = {
    "all_reduce": LENGTHS,
    "merge": [states * STATE for states in (1, 32, KIB, 16 * KIB, 256 * KIB)],
    "reduce_scatter": LENGTHS,
    "scan": [matrices * MATRIX for matrices in (1, 32, KIB, 32 * KIB)],
    "barrier": [0],
}
SIZES_OVER_MPI = {
    "all_reduce": LENGTHS,
    "reduce_scatter": LENGTHS,
    "inclusive_scan": LENGTHS,
    "exclusive_scan": LENGTHS,
    "merge": [states * STATE for states in (1, 4, 32, 256, KIB, 16 * KIB, 256 * KIB)],
    "product": [matrices * MATRIX for matrices in (1, 32, 512, 8 * KIB, 128 * KIB, 2 * MIB)],
    "scan": [matrices * MATRIX for matrices in (1, 32, 512, 8 * KIB, 128 * KIB, 2 * MIB)],
    "barrier": [0],
}
TITLES = {
    "all_reduce": "all_reduce, sum of floats",
    "merge": "all_reduce, softmax merge of states of 264 bytes",
    "reduce_scatter": "reduce_scatter, sum of floats",
    "inclusive_scan": "inclusive_scan, sum of floats, and a barrier",
    "exclusive_scan": "exclusive_scan, sum of floats, and a barrier",
    "product": "all_reduce, product of 2x2 matrices",
    "scan": "inclusive_scan, product of 2x2 matrices, and a barrier",
    "barrier": "barrier",
}
PLACEMENTS = ("smt", "near", "far", "one")


def read_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--over-mpi", action="store_true", help="allfold over MPI beside MPI's own collectives")
    parser.add_argument("--ranks", help="numbers of ranks (default 2,4,8; over MPI 2)")
    parser.add_argument("--rows", help=f"of {', '.join(SIZES)} (default the first two), "
                        f"over MPI of {', '.join(SIZES_OVER_MPI)} (default all)")
    parser.add_argument("--all", action="store_true", help="all rows")
    parser.add_argument("--sizes", help="bytes of an operand, instead of those of the rows")
    parser.add_argument("--rounds", type=int, help="turns of each contestant (default 5)")
    parser.add_argument("--quick", action="store_true", help="at most a minute: 3 rounds, 2 and 8 ranks, up to 4 MiB")
    parser.add_argument("--no-mpi", action="store_true", help="ours and the bound only")
    parser.add_argument("--priority", action="store_true", help="keep other programs off the processors (as root)")
    parser.add_argument("--csv", type=pathlib.Path, metavar="FILE", help="where to write every measurement")
    parser.add_argument("--programs", type=pathlib.Path, metavar="FOLDER", help="of the built programs",
                        default=pathlib.Path(__file__).parent.parent / "build/bench/bench")
    options = parser.parse_args()
    numbers = lambda text: [int(number) for number in text.split(",")]
    options.ranks = numbers(options.ranks or ("2" if options.over_mpi else "2,8" if options.quick else "2,4,8"))
    options.rounds = options.rounds or (3 if options.quick else 5)
    known = SIZES_OVER_MPI if options.over_mpi else SIZES
    every = options.all or options.over_mpi
    names = options.rows.split(",") if options.rows else list(known) if every else ["all_reduce", "merge"]
    for name in set(names) - set(known):
        parser.error(f"there is no row {name}")
    options.rows = {name: numbers(options.sizes) if options.sizes else known[name] for name in names}
    if options.quick:
        options.rows = {name: [s for s in sizes if s < 5 * MIB] for name, sizes in options.rows.items()}
    return options


def sizes_for(row, sizes, ranks):
    """Blocks of reduce_scatter are equal, and not empty."""
    return [size for size in sizes if size % (4 * ranks) == 0] if row == "reduce_scatter" else sizes


def get_priority():
    """In a session of its own, since Linux shares the processors between sessions first."""
    os.setsid()
    pathlib.Path("/proc/self/autogroup").write_text("-20")
    os.setpriority(os.PRIO_PROCESS, 0, -20)


def is_crowded(ranks):
    return ranks > len(os.sched_getaffinity(0))


Library = collections.namedtuple("Library", "name launcher program")


class Programs:
    """The built programs, and how they are started."""

    def __init__(self, options):
        self.threads = options.programs / "threads"
        self.prepare = get_priority if options.priority else None
        found = [self.find_mpi(options.programs / f"mpi_{name}", name) for name in ("openmpi", "mpich", "mpi")]
        self.libraries = [library for library in found if library]
        self.peer = next((library for library in self.libraries if library.name.startswith("Open MPI")), None)

    def find_mpi(self, program, name):
        launcher = shutil.which(f"mpirun.{name}") or (name == "mpi" and shutil.which("mpirun"))
        if not launcher or not program.exists():
            return None
        try:
            name = self.output([launcher, "-n", "1", program]).splitlines()[0].split(",")[0]
        except subprocess.CalledProcessError:
            return None
        return Library(name.replace(" Version:", "").replace("\t", " "), launcher, program)

    def output(self, command):
        environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment,
                              preexec_fn=self.prepare).stdout

    def run_ours(self, ranks, cells):
        return self.output([self.threads, str(ranks), *cells])

    def run_mpi(self, library, ranks, cells, *, alone):
        command = [library.launcher, "-n", str(ranks)]
        if library.name.startswith("Open MPI"):
            command += ["--bind-to", "none"]
            if is_crowded(ranks):
                command += ["--oversubscribe", "--mca", "mpi_yield_when_idle", "1"]
        return self.output([*command, library.program, *(["--peer"] if alone else []), str(ranks), *cells])


# Of one contestant, one time a turn; of a bound, also its name.
Times = collections.namedtuple("Times", "ours bound mpi others bound_name")


class Measurements:
    def __init__(self, needed, needed_rounds):
        self.needed = needed
        self.needed_rounds = needed_rounds
        self.lines = []
        self.times = collections.defaultdict(lambda: collections.defaultdict(list))

    def take(self, run, ranks, rows):
        cells = [f"{row}:{','.join(map(str, sizes))}" for row, sizes in rows.items() if sizes]
        for line in csv.reader(run(ranks, cells).splitlines(), delimiter=";"):
            row, contestant, _, size, placement, median = line[:6]
            self.lines.append(line)
            self.times[row, ranks, placement, int(size)][contestant].append(float(median))

    def sizes(self, row, ranks, placement):
        """Those with enough turns."""
        found = sorted(key[3] for key in self.times if key[:3] == (row, ranks, placement))
        return [size for size in found if self.is_complete(row, ranks, placement, size)]

    def is_complete(self, row, ranks, placement, size):
        times = self.times[row, ranks, placement, size]
        return all(len(times[contestant]) >= self.needed_rounds for contestant in self.needed)

    def incomplete(self, rows, ranks):
        """The sizes of each row for which no placement has enough turns."""
        return {row: [size for size in sizes if not any(self.is_complete(row, ranks, p, size) for p in PLACEMENTS)]
                for row, sizes in rows.items()}

    def cell(self, row, ranks, placement, size):
        times = self.times[row, ranks, placement, size]
        ways = {who: taken for who, taken in times.items() if who.startswith("bound: ")}
        best = min(ways, key=lambda way: statistics.median(ways[way]))
        others = {who: taken for who, taken in times.items() if who not in ways and who not in ("ours", "MPI")}
        return Times(times["ours"], ways[best], times["MPI"], others, best.removeprefix("bound: "))

    def write(self, path):
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow("row contestant ranks bytes placement median_us low_us high_us batches".split())
            writer.writerows(self.lines)


def number(x):
    return f"{x:.3f}" if x < 10 else f"{x:.1f}" if x < 100 else f"{x:.0f}"


def size_name(size):
    for unit, name in ((MIB, "M"), (KIB, "K")):
        if size and size % unit == 0:
            return f"{size // unit}{name}"
    return str(size)


def wide_spread(name, times):
    """Between which the middle half of the turns lies, where that is far apart."""
    if len(times) < 2:
        return []
    low, middle, high = statistics.quantiles(times, n=4, method="inclusive")
    return [f"{name} {number(low)}..{number(high)}"] if high - low > 0.15 * middle else []


def geometric_mean(ratios):
    return math.exp(statistics.fmean(map(math.log, ratios)))


class Table:
    """Of one row at one number of ranks and one placement."""

    def __init__(self, measurements, row, ranks, placement):
        self.name = f"{row}, P = {ranks}, {placement}"
        self.title = f"{TITLES[row]}, P = {ranks}, {placement}"
        self.cells = {size: measurements.cell(row, ranks, placement, size)
                      for size in measurements.sizes(row, ranks, placement)}
        self.to_bound = [self.ratio(cell.ours, cell.bound) for cell in self.cells.values()]
        self.to_mpi = [self.ratio(cell.mpi, cell.ours) for cell in self.cells.values() if cell.mpi]

    @staticmethod
    def ratio(times, reference):
        return statistics.median(times) / statistics.median(reference)

    def print(self):
        print(f"\n{self.title}\n   bytes   ours us    GB/s  bound us    MPI us | ours/bound  MPI/ours |  n  notes")
        for size, cell in self.cells.items():
            ours, bound = statistics.median(cell.ours), statistics.median(cell.bound)
            mpi = statistics.median(cell.mpi) if cell.mpi else None
            notes = [f"bound: {cell.bound_name}"]
            notes += [f"{who} {number(statistics.median(times))}" for who, times in cell.others.items()]
            notes += wide_spread("ours", cell.ours) + wide_spread("bound", cell.bound) + wide_spread("MPI", cell.mpi)
            print(f"{size_name(size):>8} {number(ours):>9} {size / ours / 1e3:>7.2f} {number(bound):>9} "
                  f"{number(mpi) if mpi else '-':>9} | {ours / bound:>10.2f} {f'{mpi / ours:.2f}' if mpi else '-':>9} |"
                  f" {len(cell.ours):>2}  {'; '.join(notes)}")

    def print_means(self):
        mpi = f"{geometric_mean(self.to_mpi):>9.2f} (least {min(self.to_mpi):.2f})" if self.to_mpi else f"{'-':>9}"
        print(f"  {self.name:<36} ours/bound {geometric_mean(self.to_bound):>5.2f} (most {max(self.to_bound):.2f})"
              f"   MPI/ours {mpi}")


class TableOverMpi:
    """Of one row at one number of ranks and one placement, over one MPI library."""

    def __init__(self, measurements, row, ranks, placement):
        self.name = f"{row}, P = {ranks}, {placement}"
        self.title = f"{TITLES[row]}, P = {ranks}, {placement}"
        self.cells = {size: measurements.times[row, ranks, placement, size]
                      for size in measurements.sizes(row, ranks, placement)}

    def ratios(self, size):
        times = self.cells[size]
        ratio = lambda peer, who: statistics.median(p / w for p, w in zip(times[peer], times[who]))
        found = {f"MPI/{who}": ratio("MPI", who) for who in times if not who.startswith("MPI")}
        return {**found, "one/ours": ratio("MPI, one", "ours")} if "MPI, one" in times else found

    def print(self):
        first = next(iter(self.cells))
        heads = [f"{who} us" for who in self.cells[first]] + list(self.ratios(first))
        print(f"\n{self.title}\n   bytes" + "".join(f"{head:>14}" for head in heads) + "    n  notes")
        for size, times in self.cells.items():
            figures = [number(statistics.median(taken)) for taken in times.values()]
            figures += [f"{ratio:.2f}" for ratio in self.ratios(size).values()]
            notes = [note for who in ("ours", "MPI") for note in wide_spread(who, times[who])]
            print(f"{size_name(size):>8}" + "".join(f"{figure:>14}" for figure in figures),
                  f"{len(times['ours']):>4}  {'; '.join(notes)}")

    def print_means(self):
        ratios = {size: self.ratios(size) for size in self.cells}
        means = []
        for head in next(iter(ratios.values())):
            least = min(ratios, key=lambda size: ratios[size][head])
            mean = geometric_mean([each[head] for each in ratios.values()])
            means.append(f"{head} {mean:.2f} (least {ratios[least][head]:.2f} at {size_name(least)})")
        print(f"  {self.name:<32}" + "   ".join(means))


def measure(options, contestants, measurements):
    for ranks in options.ranks:
        rows = {row: sizes_for(row, sizes, ranks) for row, sizes in options.rows.items()}
        for turn in range(2 * options.rounds):
            if turn >= options.rounds:
                rows = measurements.incomplete(rows, ranks)
            if not any(rows.values()):
                break
            if sys.stderr.isatty():
                print(f"\rP = {ranks}, turn {turn + 1} ", end="", file=sys.stderr)
            for run in contestants:
                measurements.take(run, ranks, rows)
    if sys.stderr.isatty():
        print(end="\r", file=sys.stderr)


def print_tables(tables, start):
    for table in tables:
        table.print()
    print(f"\nGeometric means ({time.monotonic() - start:.0f} s):")
    for table in tables:
        table.print_means()


def tables_of(kind, measurements, options):
    tables = [kind(measurements, row, ranks, placement)
              for ranks in options.ranks for row in options.rows for placement in PLACEMENTS]
    return [table for table in tables if table.cells]


def compare_over_mpi(options, programs, library):
    start = time.monotonic()
    measurements = Measurements(("ours", "MPI"), min(3, options.rounds))
    measure(options, [functools.partial(programs.run_mpi, library, alone=False)], measurements)
    if options.csv:
        measurements.write(options.csv.with_stem(f"{options.csv.stem}_{library.program.name}"))
    print(f"\n=== {library.name} ===")
    print_tables(tables_of(TableOverMpi, measurements, options), start)


def compare_threads(options, programs):
    start = time.monotonic()
    contestants = [programs.run_ours]
    if programs.peer and not options.no_mpi:
        contestants.append(functools.partial(programs.run_mpi, programs.peer, alone=True))
    measurements = Measurements(("ours", "MPI")[:len(contestants)], min(3, options.rounds))
    measure(options, contestants, measurements)
    if options.csv:
        measurements.write(options.csv)
    print_tables(tables_of(Table, measurements, options), start)


def main():
    options = read_options()
    programs = Programs(options)
    names = [library.name for library in programs.libraries if options.over_mpi or library is programs.peer]
    print(*(names or ["MPI is missing (Debian: openmpi-bin, libopenmpi-dev): nothing to compare with"]),
          f"{len(os.sched_getaffinity(0))} processors, load {os.getloadavg()[0]:.1f}", sep="; ")
    if not options.over_mpi:
        return compare_threads(options, programs)
    for library in programs.libraries:
        compare_over_mpi(options, programs, library)


main()
