#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Measures allfold, the machine's limits and MPI in alternating turns, and prints tables.

Times are microseconds per call, of the slowest rank: medians over turns of medians over batches. GB/s counts the
operand of one rank. Between two calls every contestant reads its result and writes new inputs, as a program does.

  ours/bound   the bound is the fastest of several collectives, or of several ways to pass messages one by one without
               matching, tags and lengths, written by hand for this size (bench/bound.hpp, message_bound.hpp); with
               more ranks than CPUs, with the best hand-written wait; for start, in_flight, persistent, lists, uneven blocks,
               columns, images and teams it is our blocking call on as many bytes without any of these
  MPI/ours     the best of the installed MPI libraries, in their default configuration, with processes as ranks; for
               the merge three all-reduces, as one does it with MPI; for lists and together, which MPI lacks, its
               calls one by one; for distributed_scan an all-gather of the block sums between two loops
  MPI/bound    in the last lines: what the bound reaches; about the most that MPI/ours can, where the bound is written by
               hand and ours/bound is above 1

A hypervisor may move the CPUs. Only figures of one placement are compared: smt (threads of one core), near (cores near
each other) or far; each has its own tables, and its own columns in the last lines, which give the geometric mean and
the worst size of each row. With more ranks than CPUs every contestant yields (MPICH cannot), and rank r is pinned to
CPU r modulo the number of CPUs.

--over-mpi compares allfold over MPI with the collectives of the same MPI library in the same processes, for every
library that is installed. Ratios above 1 favour allfold; they are medians over turns of the ratios within a turn.

  MPI/ours       MPI's own collective with MPI's or the user's operator; for the merge three all-reduces
  one/ours       for a merge: one all-reduce with the user's operator on an array of structs
  MPI/automatic  the same call with the default delegation
  MPI/agreed     delegated at every size, once the ranks agree: shows where automatic delegation would pay off
  MPI/always     delegated at every size without agreement

build/bench/bench/threads --table 2 all_reduce:8,1048576 prints allfold's times with the columns of nccl-tests."""

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

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
STATE, MATRIX = 264, 32  # bytes
LENGTHS = [8, 64, KIB, 16 * KIB, 256 * KIB, 4 * MIB, 64 * MIB]
SHORT = LENGTHS[:5]
LISTS = [KIB, 4 * KIB, 32 * KIB, 256 * KIB, 4 * MIB]
SIZES = {
    "all_reduce": LENGTHS,
    "merge": [states * STATE for states in (1, 32, KIB, 16 * KIB, 256 * KIB)],
    "all_gather": LENGTHS,
    "reduce_scatter": LENGTHS,
    "reduce_scatter_bf16": LENGTHS,
    "broadcast": LENGTHS,
    "scatter": LENGTHS,
    "gather": LENGTHS,
    "all_to_all": LENGTHS,
    "all_to_all_by_sizes": LENGTHS,
    "all_gather_uneven": LENGTHS,
    "reduce_scatter_uneven": LENGTHS,
    "all_gather_axis": [256, *LISTS],
    "permute": LENGTHS,
    "reduce": LENGTHS,
    "inclusive_scan": LENGTHS,
    "exclusive_scan": LENGTHS,
    "scan": [matrices * MATRIX for matrices in (1, 32, KIB, 32 * KIB)],
    "distributed_scan": LENGTHS[:6],
    "images": [images * 16 for images in (1, 16, 256, 16 * KIB, 256 * KIB)],
    "team": SHORT,
    "start": SHORT,
    "in_flight": SHORT,
    "persistent": SHORT,
    "list": LISTS,
    "reduce_scatter_list": LISTS,
    "all_gather_list": LISTS,
    "together": [3 * size for size in SHORT],
    "barrier": [0],
    "ping_pong": LENGTHS,
    "message_rate": SHORT,
    "halo": [faces * 24 for faces in (1, 16, 256, 4 * KIB, 64 * KIB, MIB)],
}
SIZES_OVER_MPI = {
    "all_reduce": LENGTHS,
    "all_gather": LENGTHS,
    "reduce_scatter": LENGTHS,
    "reduce_scatter_bf16": LENGTHS,
    "broadcast": LENGTHS,
    "scatter": LENGTHS,
    "gather": LENGTHS,
    "all_to_all": LENGTHS,
    "permute": LENGTHS,
    "reduce": LENGTHS,
    "inclusive_scan": LENGTHS,
    "exclusive_scan": LENGTHS,
    "merge": [states * STATE for states in (1, 4, 32, 256, KIB, 16 * KIB, 256 * KIB)],
    "product": [matrices * MATRIX for matrices in (1, 32, 512, 8 * KIB, 128 * KIB, 2 * MIB)],
    "scan": [matrices * MATRIX for matrices in (1, 32, 512, 8 * KIB, 128 * KIB, 2 * MIB)],
    "barrier": [0],
    "ping_pong": LENGTHS,
    "message_rate": SHORT,
    "halo": [faces * 24 for faces in (1, 16, 256, 4 * KIB, 64 * KIB, MIB)],
}
TITLES = {
    "all_reduce": "all_reduce, sum of floats",
    "merge": "all_reduce, softmax merge of states of 264 bytes",
    "all_gather": "all_gather of floats, bytes of all blocks",
    "reduce_scatter": "reduce_scatter, sum of floats",
    "reduce_scatter_bf16": "reduce_scatter of 16 bits each, folded in float",
    "broadcast": "broadcast of floats, and a barrier",
    "scatter": "scatter of floats, bytes of all blocks, and a barrier",
    "gather": "gather of floats, bytes of all blocks, and a barrier",
    "all_to_all": "all_to_all of floats, bytes of all blocks",
    "all_to_all_by_sizes": "all_to_all of floats in blocks of several lengths, of which a rank knows those that it sends",
    "all_gather_uneven": "all_gather of floats in blocks of several lengths, bytes of all",
    "reduce_scatter_uneven": "reduce_scatter, sum of floats in blocks of several lengths, bytes of all",
    "all_gather_axis": "all_gather of columns of a matrix of floats, bytes of all",
    "permute": "permute of floats to the next rank",
    "reduce": "reduce, sum of floats, and a barrier",
    "inclusive_scan": "inclusive_scan, sum of floats, and a barrier",
    "exclusive_scan": "exclusive_scan, sum of floats, and a barrier",
    "product": "all_reduce, product of 2x2 matrices",
    "scan": "inclusive_scan, product of 2x2 matrices, and a barrier",
    "distributed_scan": "inclusive_scan, sum of floats of one array in round-robin blocks of 64, and a barrier",
    "images": "all_reduce, sum of four operands of floats of each rank, bytes of the four",
    "team": "all_reduce, sum of floats, on a team of all ranks in reverse",
    "start": "all_reduce, sum of floats, started and waited for",
    "in_flight": "all_reduce, sum of floats, one of 16 in flight",
    "persistent": "all_reduce, sum of floats, prepared once, started and waited for",
    "list": "all_reduce, sum of floats, a list of eight tensors, bytes of all",
    "reduce_scatter_list": "reduce_scatter, sum of floats, a list of eight tensors, bytes of all",
    "all_gather_list": "all_gather of floats, a list of eight tensors, bytes of all",
    "together": "all_reduce, all_to_all and all_gather of floats together, bytes of all three",
    "barrier": "barrier",
    "ping_pong": "ping_pong of pairs of ranks, there and back",
    "message_rate": "one of 64 messages in flight each way, of pairs of ranks",
    "halo": "halo exchange in 3 dimensions, bytes of six faces",
}
LISTS_OF = ("list", "reduce_scatter_list", "all_gather_list")
ELEMENTS = {"merge": STATE, "scan": MATRIX, "product": MATRIX, "halo": 24, "together": 12, "all_gather_axis": 32,
            "images": 16, **dict.fromkeys(LISTS_OF, 32)}  # bytes; in other rows a float
IN_BLOCKS = ("all_gather", "reduce_scatter", "scatter", "gather", "all_to_all", "reduce_scatter_bf16",
             "reduce_scatter_list", "all_gather_list", "together", "all_gather_axis", "all_gather_uneven",
             "reduce_scatter_uneven")
IN_PAIRS = ("ping_pong", "message_rate")  # of ranks
WITHOUT_MPI = ("persistent",)  # needs MPI 4
PLACEMENTS = ("smt", "near", "far", "one")
MOST_RANKS = 16
UNBOUND = ["--bind-to", "none"]  # Open MPI and MPICH: programs bind themselves to CPUs
AUTOGROUP = pathlib.Path("/proc/self/autogroup")


class Parser(argparse.ArgumentParser):
    def error(self, message):
        self.exit(2, f"{self.prog}: {message}\n")


def read_options():
    parser = Parser(prog="./dev bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--over-mpi", action="store_true", help="compare allfold over MPI with MPI's own collectives")
    parser.add_argument("--ranks", help=f"numbers of ranks, up to {MOST_RANKS} (default 2,4,8; over MPI 2)")
    parser.add_argument("--rows", help=f"rows to measure, of {', '.join(SIZES)} (default the first two), "
                        f"over MPI of {', '.join(SIZES_OVER_MPI)} (default all)")
    parser.add_argument("--all", action="store_true", help="all rows")
    parser.add_argument("--sizes", help="bytes of an operand, such as 264 or 16K or 4M, instead of those of the rows")
    parser.add_argument("--rounds", help="number of turns of each contestant (default 5)")
    parser.add_argument("--both", action="store_true",
                        help="more turns, up to 5 times as many, until near and far have enough of them")
    parser.add_argument("--quick", action="store_true", help="about a minute: 3 rounds, 2 and 8 ranks, up to 4 MiB")
    parser.add_argument("--no-mpi", action="store_true", help="measure only allfold and the bound")
    parser.add_argument("--priority", action="store_true", help="keep other programs off the CPUs (as root)")
    parser.add_argument("--csv", type=pathlib.Path, metavar="FILE", help="where to write every measurement")
    parser.add_argument("--from", type=pathlib.Path, nargs="+", metavar="FILE", dest="earlier",
                        help="measure nothing: print the tables of what --csv wrote")
    parser.add_argument("--plot", type=pathlib.Path, metavar="FILE",
                        help="draw time against size, and the ratios (.svg, .png or .pdf; needs matplotlib)")
    parser.add_argument("--explore", action="store_true",
                        help="instead, measure exploration: executions per second, and memory")
    parser.add_argument("--programs", type=pathlib.Path, metavar="FOLDER", help="folder of the built programs",
                        default=pathlib.Path(__file__).parent.parent / "build/bench/bench")
    options = parser.parse_args()
    try:
        check(options)
    except ValueError as error:
        parser.error(error)
    return options


def check(options):
    """Replaces the texts of options by what they mean."""
    given = lambda option, default: default if option is None else option
    options.any_ranks = options.ranks is None
    ranks = given(options.ranks, "2" if options.over_mpi else "2,8" if options.quick else "2,4,8")
    options.ranks = [number("--ranks", text, 1, MOST_RANKS) for text in ranks.split(",")]
    options.rounds = number("--rounds", given(options.rounds, "3" if options.quick else "5"), 1, 1000)
    options.rows = rows_of(options)
    options.programs = options.programs.resolve()
    check_priority(options)
    check_files(options)
    if not options.earlier:
        check_programs(options)


def rows_of(options):
    """The rows to measure, with their sizes."""
    known = SIZES_OVER_MPI if options.over_mpi else SIZES
    every = options.all or options.over_mpi or options.earlier
    names = list(known) if every else ["all_reduce", "merge"]
    if options.rows is not None:
        names = options.rows.split(",")
    for name in names:
        if name not in known:
            raise ValueError(f"--rows: there is no row '{name}'; the rows are {', '.join(known)}")
    if options.rows is not None:
        check_pairs(names, options.ranks)
    rows = {name: known[name] for name in names}
    if options.sizes is not None:
        sizes = [size_of(text) for text in options.sizes.split(",")]
        rows = {name: default if default == [0] else sizes for name, default in rows.items()}
        for name in rows:
            for ranks in options.ranks:
                check_sizes(name, rows[name], ranks)
    elif options.quick:
        rows = {name: [size for size in sizes if size < 5 * MIB] for name, sizes in rows.items()}
    return rows


def number(option, text, least, most):
    if not text.isdecimal() or not least <= int(text) <= most:
        raise ValueError(f"{option}: '{text}' is not a number from {least} to {most}")
    return int(text)


def size_of(text):
    unit = {"K": KIB, "M": MIB}.get(text[-1:], 1)
    figures = text[:-1] if unit > 1 else text
    if not figures.isdecimal() or not 1 <= int(figures) * unit <= 4 * GIB:
        raise ValueError(f"--sizes: '{text}' is not a number of bytes from 1 to 4096M")
    return int(figures) * unit


def unit_of(row, ranks):
    """Bytes of the smallest operand: one element, or one for each rank."""
    return ELEMENTS.get(row, 4) * (ranks if row in IN_BLOCKS else 1)


def check_sizes(row, sizes, ranks):
    unit = unit_of(row, ranks)
    for size in sizes:
        if 0 < size < unit:
            raise ValueError(f"--sizes: {size} is less than one element of {row}, which takes {unit} bytes"
                             + (f" at {ranks} ranks" if row in IN_BLOCKS else ""))
        needed = size * ranks * 4 * {"in_flight": 16, "message_rate": 64}.get(row, 1)  # input, output, and as much to copy them into
        there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        if needed > there:
            raise ValueError(f"--sizes: {size} bytes of {row} at {ranks} ranks take {needed / GIB:.0f} GiB of memory, "
                             f"but there are {there / GIB:.0f}")


def is_chosen(options, row, ranks, size):
    """Whether what was measured earlier is one of the rows, numbers of ranks and sizes that are asked for."""
    any_size = options.sizes is None and not options.quick
    return (row in options.rows and (options.any_ranks or ranks in options.ranks)
            and (any_size or size in sizes_for(row, options.rows[row], ranks)))


def check_pairs(names, ranks):
    for name in names:
        if name in IN_PAIRS and all(each % 2 for each in ranks):
            raise ValueError(f"--ranks: {name} needs an even number of ranks")


def check_priority(options):
    if options.priority and (os.geteuid() != 0 or not AUTOGROUP.exists()):
        raise ValueError("--priority needs root, and a Linux kernel that schedules sessions as groups")


def check_programs(options):
    program = options.programs / ("explore" if options.explore else "threads")
    if not program.exists():
        raise ValueError(f"--programs: {program} is missing: ./dev bench builds it")


def check_files(options):
    if options.earlier and options.over_mpi:
        raise ValueError("--from reads the measurements of threads: it cannot be combined with --over-mpi")
    for option, file in (("--csv", options.csv), ("--plot", options.plot)):
        if file and (file.is_dir() or not os.access(file if file.exists() else file.parent, os.W_OK)):
            raise ValueError(f"{option}: {file} cannot be written")
    options.measurements = Measurements(min(3, options.rounds))
    for file in options.earlier or []:
        options.measurements.read(file, functools.partial(is_chosen, options))
    if options.earlier:
        options.ranks = sorted({ranks for _, ranks in options.measurements.seen})
    if not options.plot:
        return
    if options.over_mpi:
        raise ValueError("--plot draws the measurements of threads: it cannot be combined with --over-mpi")
    if options.plot.suffix not in (".svg", ".png", ".pdf"):
        raise ValueError(f"--plot: {options.plot} should end with .svg, .png or .pdf")
    try:
        import plot  # noqa: F401
    except ImportError:
        raise ValueError("--plot needs matplotlib, which is not installed: pip install matplotlib") from None


def sizes_for(row, sizes, ranks):
    """Sizes rounded down to whole elements, in equal blocks if there are blocks; none if the row needs pairs."""
    if row in IN_PAIRS and ranks % 2:
        return []
    unit = unit_of(row, ranks)
    return sorted({size // unit * unit for size in sizes if size == 0 or size >= unit})


def get_priority():
    """Raises the priority in a session of its own, since Linux divides CPU time among sessions first."""
    os.setsid()
    AUTOGROUP.write_text("-20")
    os.setpriority(os.PRIO_PROCESS, 0, -20)


def processors():
    return len(os.sched_getaffinity(0))


Library = collections.namedtuple("Library", "name launcher program yields")
# One that is measured in turn with others: `has(row, ranks)`, `run(ranks, cells)`.
Contestant = collections.namedtuple("Contestant", "name has run")


class Programs:
    """The built programs, and how they are started."""

    def __init__(self, options):
        self.threads = options.programs / "threads"
        self.prepare = get_priority if options.priority else None
        suffixes = {"openmpi": ".openmpi", "mpich": ".mpich", "default": ""}  # as in cmake/mpi_libraries.cmake
        found = [self.find_mpi(options.programs / f"mpi_{name}", suffix) for name, suffix in suffixes.items()]
        self.libraries = [library for library in found if library]

    def find_mpi(self, program, suffix):
        launcher = shutil.which(f"mpirun{suffix}") or shutil.which(f"mpiexec{suffix}")
        if not launcher or not program.exists():
            return None
        try:
            name = self.output([launcher, "-n", "1", *UNBOUND, program]).splitlines()[0].split(",")[0]
        except (subprocess.CalledProcessError, IndexError):
            return None
        return Library(name.replace(" Version:", "").replace("\t", " "), launcher, program,
                       yields=name.startswith("Open MPI"))

    def output(self, command):
        environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment,
                              preexec_fn=self.prepare).stdout

    def run_ours(self, ranks, cells):
        return self.output([self.threads, str(ranks), *cells])

    def run_mpi(self, library, ranks, cells, *, alone):
        command = [library.launcher, "-n", str(ranks), *UNBOUND]
        if library.yields:
            command += ["--use-hwthread-cpus"]  # as we count them: otherwise Open MPI starts one process for each core
        if library.yields and ranks > processors():
            command += ["--oversubscribe", "--mca", "mpi_yield_when_idle", "1"]
        return self.output([*command, library.program, *(["--peer"] if alone else []), str(ranks), *cells])

    def ours(self):
        return Contestant("", lambda row, ranks: True, self.run_ours)

    def peer(self, library):
        has = lambda row, ranks: row not in WITHOUT_MPI and (library.yields or ranks <= processors())
        return Contestant(library.name, has, functools.partial(self.run_mpi, library, alone=True))

    def over_mpi(self, library):
        return Contestant("", lambda row, ranks: True, functools.partial(self.run_mpi, library, alone=False))


# Of each contestant one time per turn; of the best bound and of the best MPI also its name.
Times = collections.namedtuple("Times", "ours bound mpi others bound_name mpi_name")


class Measurements:
    def __init__(self, needed_rounds):
        self.needed_rounds = needed_rounds
        self.lines = []
        self.times = collections.defaultdict(lambda: collections.defaultdict(list))
        self.seen = collections.defaultdict(set)  # contestants

    def take(self, contestant, ranks, rows):
        cells = [f"{row}:{','.join(map(str, sizes))}" for row, sizes in rows.items()
                 if sizes and contestant.has(row, ranks)]
        if not cells:
            return
        for line in csv.reader(contestant.run(ranks, cells).splitlines(), delimiter=";"):
            if line[1] == "MPI" and contestant.name:
                line[1] = f"MPI: {contestant.name}"
            self.add(line)

    def add(self, line):
        row, contestant, ranks, size, placement, median = line[:6]
        self.lines.append(line)
        self.seen[row, int(ranks)].add(contestant)
        self.times[row, int(ranks), placement, int(size)][contestant].append(float(median))

    def sizes(self, row, ranks, placement):
        """The sizes with enough turns."""
        found = sorted(key[3] for key in self.times if key[:3] == (row, ranks, placement))
        return [size for size in found if self.is_complete(row, ranks, placement, size)]

    def is_complete(self, row, ranks, placement, size):
        times = self.times.get((row, ranks, placement, size), {})
        needed = {"ours", *(who for who in self.seen[row, ranks] if who.startswith("MPI"))}
        return all(len(times.get(who, [])) >= self.needed_rounds for who in needed)

    def incomplete(self, rows, ranks, both):
        """The sizes of each row for which no placement has enough turns, or, if `both`, not both near and far."""
        enough = lambda row, size: [p for p in PLACEMENTS if self.is_complete(row, ranks, p, size)]
        is_done = lambda found: {"near", "far"} <= set(found) if both else found
        return {row: [size for size in sizes if not is_done(enough(row, size))] for row, sizes in rows.items()}

    def cell(self, row, ranks, placement, size):
        times = self.times[row, ranks, placement, size]
        bound, mpi = best_of(times, "bound: "), best_of(times, "MPI: ")
        others = {who: taken for who, taken in times.items() if who != "ours" and ": " not in who}
        return Times(times["ours"], times.get(bound, []), times.get(mpi, []), others,
                     bound.removeprefix("bound: "), mpi.removeprefix("MPI: "))

    def write(self, path):
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(COLUMNS)
            writer.writerows(self.lines)

    def read(self, path, is_wanted):
        try:
            with path.open(newline="") as file:
                lines = csv.reader(file)
                if next(lines, None) != COLUMNS:
                    raise ValueError
                for line in lines:
                    row, contestant, ranks, size = line[:4]
                    if row not in SIZES or contestant == "MPI":  # of --over-mpi
                        raise ValueError
                    if is_wanted(row, int(ranks), int(size)):
                        self.add(line)
        except OSError:
            raise ValueError(f"--from: {path} cannot be read") from None
        except (ValueError, csv.Error):
            raise ValueError(f"--from: {path} is not what --csv writes about threads") from None


COLUMNS = "row contestant ranks bytes placement median_us low_us high_us batches".split()


def best_of(times, kind):
    """The name of the fastest contestant of a kind; empty if there is none."""
    return min((who for who in times if who.startswith(kind)), key=lambda who: statistics.median(times[who]), default="")


def figure(x):
    return f"{x:.3f}" if x < 10 else f"{x:.1f}" if x < 100 else f"{x:.0f}"


def size_name(size):
    for unit, name in ((MIB, "M"), (KIB, "K")):
        if size and size % unit == 0:
            return f"{size // unit}{name}"
    return str(size)


def wide_spread(name, times):
    """The bounds of the middle half of the turns, if they are far apart."""
    if len(times) < 2:
        return []
    low, middle, high = statistics.quantiles(times, n=4, method="inclusive")
    return [f"{name} {figure(low)}..{figure(high)}"] if high - low > 0.15 * middle else []


def mean_and_worst(ratios, worst):
    """The geometric mean and the worst of ratios by size."""
    if not ratios:
        return "-"
    size = worst(ratios, key=ratios.get)
    return f"{statistics.geometric_mean(ratios.values()):.2f} ({ratios[size]:.2f} at {size_name(size)})"


class Table:
    """The table of one row at one number of ranks and one placement."""

    def __init__(self, measurements, row, ranks, placement):
        self.row, self.ranks, self.placement = row, ranks, placement
        self.title = f"{TITLES[row]}, P = {ranks}, {placement}"
        self.cells = {size: measurements.cell(row, ranks, placement, size)
                      for size in measurements.sizes(row, ranks, placement)}
        self.to_bound = {size: self.ratio(cell.ours, cell.bound) for size, cell in self.cells.items() if cell.bound}
        self.to_mpi = {size: self.ratio(cell.mpi, cell.ours) for size, cell in self.cells.items() if cell.mpi}
        self.bound_to_mpi = {size: self.to_mpi[size] * self.to_bound[size] for size in self.to_mpi.keys() & self.to_bound}

    @staticmethod
    def ratio(times, reference):
        return statistics.median(times) / statistics.median(reference)

    def print(self):
        print(f"\n{self.title}\n   bytes   ours us    GB/s  bound us    MPI us | ours/bound  MPI/ours |  n  notes")
        for size, cell in self.cells.items():
            ours = statistics.median(cell.ours)
            shown = lambda times: figure(statistics.median(times)) if times else "-"
            ratio = lambda ratios: f"{ratios[size]:.2f}" if size in ratios else "-"
            print(f"{size_name(size):>8} {figure(ours):>9} {size / ours / 1e3:>7.2f} {shown(cell.bound):>9} "
                  f"{shown(cell.mpi):>9} | {ratio(self.to_bound):>10} {ratio(self.to_mpi):>9} |"
                  f" {len(cell.ours):>2}  {'; '.join(self.notes(cell))}")

    @staticmethod
    def notes(cell):
        names = [f"{kind}: {name}" for kind, name in (("bound", cell.bound_name), ("MPI", cell.mpi_name)) if name]
        others = [f"{who} {figure(statistics.median(times))} ({Table.ratio(times, cell.ours):.2f} of ours)"
                  for who, times in cell.others.items()]
        spreads = [wide_spread(*named) for named in (("ours", cell.ours), ("bound", cell.bound), ("MPI", cell.mpi))]
        return names + others + sum(spreads, [])

    @staticmethod
    def print_means(tables):
        """Prints one line for each row and number of ranks."""
        places = [place for place in PLACEMENTS if any(table.placement == place for table in tables)]
        rows = collections.defaultdict(dict)
        for table in tables:
            rows[table.row, table.ranks][table.placement] = table
        cells = lambda groups: "".join(f"   {bound:<21}{mpi:<21}{limit:<9}" for bound, mpi, limit in groups)
        line = lambda row, ranks, groups: print(f"{row:<21} {ranks:>2}{cells(groups)}".rstrip())
        line("", "", [(place, "", "") for place in places])
        line("row", "P", [("ours/bound (worst)", "MPI/ours (worst)", "MPI/bound")] * len(places))
        for (row, ranks), by_place in rows.items():
            line(row, ranks, [by_place[place].ratios() if place in by_place else ("", "", "") for place in places])

    def ratios(self):
        limit = f"{statistics.geometric_mean(self.bound_to_mpi.values()):.2f}" if self.bound_to_mpi else "-"
        return mean_and_worst(self.to_bound, max), mean_and_worst(self.to_mpi, min), limit


class TableOverMpi:
    """The table of one row at one number of ranks and one placement, over one MPI library."""

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
            figures = [figure(statistics.median(taken)) for taken in times.values()]
            figures += [f"{ratio:.2f}" for ratio in self.ratios(size).values()]
            notes = [note for who in ("ours", "MPI") for note in wide_spread(who, times[who])]
            print(f"{size_name(size):>8}" + "".join(f"{each:>14}" for each in figures),
                  f"{len(times['ours']):>4}  {'; '.join(notes)}")

    @staticmethod
    def print_means(tables):
        for table in tables:
            by_size = {size: table.ratios(size) for size in table.cells}
            means = [f"{head} {mean_and_worst({size: by_size[size][head] for size in by_size}, min)}"
                     for head in next(iter(by_size.values()))]
            print(f"  {table.name:<32}" + "   ".join(means))


def measure(options, contestants, measurements, csv_file):
    """Measures turn by turn, and writes what there is even if a program fails."""
    try:
        take_turns(options, contestants, measurements)
    finally:
        if csv_file:
            measurements.write(csv_file)


def take_turns(options, contestants, measurements):
    for ranks in options.ranks:
        rows = {row: sizes_for(row, sizes, ranks) for row, sizes in options.rows.items()}
        for turn in range(options.rounds * (5 if options.both else 2)):
            if turn >= options.rounds:
                rows = measurements.incomplete(rows, ranks, options.both)
            if not any(rows.values()):
                break
            if sys.stderr.isatty():
                print(f"\rP = {ranks}, turn {turn + 1} ", end="", file=sys.stderr)
            for contestant in contestants:
                measurements.take(contestant, ranks, rows)
    if sys.stderr.isatty():
        print(end="\r", file=sys.stderr)


def print_tables(tables, start):
    for table in tables:
        table.print()
    print(f"\nGeometric means, and the worst size ({time.monotonic() - start:.0f} s):")
    if tables:
        tables[0].print_means(tables)
    else:
        print("  nothing was measured often enough at one placement: try more --rounds, or fewer other programs")


def tables_of(kind, measurements, options):
    tables = [kind(measurements, row, ranks, placement)
              for row in options.rows for ranks in options.ranks for placement in PLACEMENTS]
    return [table for table in tables if table.cells]


def compare_over_mpi(options, programs, library):
    start = time.monotonic()
    measurements = Measurements(min(3, options.rounds))
    csv_file = options.csv and options.csv.with_stem(f"{options.csv.stem}_{library.program.name}")
    measure(options, [programs.over_mpi(library)], measurements, csv_file)
    print(f"\n=== {library.name} ===")
    print_tables(tables_of(TableOverMpi, measurements, options), start)


def compare_threads(options, programs):
    start = time.monotonic()
    measurements = options.measurements
    if not options.earlier:
        peers = [] if options.no_mpi else map(programs.peer, programs.libraries)
        measure(options, [programs.ours(), *peers], measurements, options.csv)
    tables = tables_of(Table, measurements, options)
    print_tables(tables, start)
    if options.plot and tables:
        import plot
        plot.draw(options.plot, tables)


def what_is_there(options, programs):
    if options.earlier:
        return "measured earlier: " + ", ".join(map(str, options.earlier))
    names = [library.name for library in programs.libraries]
    if not names:
        names = ["MPI is missing (Debian: openmpi-bin, libopenmpi-dev): nothing to compare with"]
    elif not options.over_mpi and max(options.ranks) > processors():
        names = [library.name if library.yields else f"{library.name} (does not yield: up to {processors()} ranks only)"
                 for library in programs.libraries]
    count = f"{processors()} CPUs" if processors() > 1 else "a single CPU: near and far are missing"
    return "; ".join([*names, count, f"load {os.getloadavg()[0]:.1f}"])


def run(options):
    if options.explore:
        return subprocess.run([options.programs / "explore"], check=True)
    programs = None if options.earlier else Programs(options)
    print(what_is_there(options, programs), flush=True)
    if not options.over_mpi:
        return compare_threads(options, programs)
    for library in programs.libraries:
        compare_over_mpi(options, programs, library)


def main():
    try:
        run(read_options())
    except (subprocess.SubprocessError, OSError) as error:
        sys.exit(f"./dev bench: {error}")


main()
