# SPDX-License-Identifier: BSL-1.0
"""Draws what run.py measured: time against size, with the ratios below, one column per placement."""

import statistics

import matplotlib
import matplotlib.ticker

matplotlib.use("Agg")
import matplotlib.pyplot as pyplot  # noqa: E402

INK, PALE = "#24292f", "#d8dee4"
OURS, BOUND, MPI = "#0969da", "#57606a", "#d4770c"
PLACES = {"smt": "threads of one core", "near": "near cores", "far": "far cores", "one": "a single CPU"}
SETTINGS = {
    "font.family": "sans-serif",
    "font.size": 9,
    "text.color": INK,
    "axes.edgecolor": "#8c959f",
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": PALE,
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.8,
    "lines.markersize": 4,
    "legend.frameon": False,
    "svg.fonttype": "none",  # keep text as text
    "svg.hashsalt": "allfold",  # the same ids in every run
}


def size_name(size, _=None):
    for unit, name in ((1 << 20, " MiB"), (1 << 10, " KiB")):
        if size >= unit:
            return f"{size / unit:.4g}{name}"
    return f"{size:.0f} B"


def time_name(microseconds, _=None):
    for unit, name in ((1e6, "s"), (1e3, "ms"), (1, "µs")):
        if microseconds >= unit:
            return f"{microseconds / unit:g} {name}"
    return f"{microseconds * 1e3:.0f} ns"


def draw_times(axes, table):
    kinds = {
        "MPI": (MPI, "-", "s", {size: cell.mpi for size, cell in table.cells.items()}),
        "allfold": (OURS, "-", "o", {size: cell.ours for size, cell in table.cells.items()}),
        "bound": (BOUND, (0, (4, 2)), "", {size: cell.bound for size, cell in table.cells.items()}),
    }
    for name, (colour, style, marker, times) in kinds.items():
        times = {size: taken for size, taken in times.items() if taken}
        if not times:
            continue
        sizes = list(times)
        axes.plot(sizes, [statistics.median(times[size]) for size in sizes], color=colour, linestyle=style,
                  marker=marker, label=name, zorder=2 if name == "MPI" else 3)
        middle = [statistics.quantiles(times[size] * 2, n=4, method="inclusive") for size in sizes]
        axes.fill_between(sizes, [low for low, _, _ in middle], [high for _, _, high in middle], color=colour,
                          alpha=0.15, linewidth=0)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(time_name)
    axes.yaxis.set_minor_locator(matplotlib.ticker.NullLocator())
    axes.set_title(PLACES[table.placement], loc="left")
    axes.legend(loc="upper left")


def draw_ratios(axes, table):
    axes.axhline(1, color=INK, linewidth=0.8)
    for name, ratios, colour, marker in (("MPI / allfold", table.to_mpi, MPI, "s"),
                                         ("allfold / bound", table.to_bound, BOUND, "o")):
        if ratios:
            mean = statistics.geometric_mean(ratios.values())
            axes.plot(list(ratios), list(ratios.values()), color=colour, marker=marker, label=f"{name}, mean {mean:.2f}")
    axes.set_yscale("log", base=2)
    axes.yaxis.set_major_formatter(lambda x, _: f"{x:g}")
    axes.yaxis.set_minor_locator(matplotlib.ticker.NullLocator())
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, borderaxespad=0, borderpad=0.2, handlelength=1.5, fontsize=8,
                columnspacing=1.2)


def share_sizes(axes, sizes):
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [size_name(size) for size in sizes])
    axes.xaxis.set_minor_locator(matplotlib.ticker.NullLocator())
    axes.grid(True)
    axes.set_axisbelow(True)


def bands_of(tables):
    """For each row and number of ranks the tables by placement. A single size makes no line."""
    bands = {}
    for table in tables:
        if len(table.cells) > 1:
            bands.setdefault((table.row, table.ranks), []).append(table)
    return list(bands.values())


def draw(path, tables):
    bands = bands_of(tables)
    if not bands:
        return print("--plot: a single size makes no line, so nothing is drawn")
    columns = max(map(len, bands))
    with pyplot.rc_context(SETTINGS):
        figure = pyplot.figure(figsize=(1 + 4.2 * columns, 4.6 * len(bands)), layout="constrained")
        parts = figure.subfigures(len(bands), 1, squeeze=False)[:, 0]
        for part, band in zip(parts, bands):
            draw_band(part, band)
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, dpi=150)
    print(f"{path}: drawn")


def draw_band(part, band):
    part.suptitle(band[0].title.removesuffix(f", {band[0].placement}"), x=0.01, ha="left", fontsize=11)
    axes = part.subplots(2, len(band), sharex="col", sharey="row", squeeze=False, height_ratios=(2.2, 1))
    for (times, ratios), table in zip(axes.T, band):
        draw_times(times, table)
        draw_ratios(ratios, table)
        for each in (times, ratios):
            share_sizes(each, list(table.cells))
    for row, label in zip(axes, ("time of a call", "ratio")):
        row[0].set_ylabel(label)
