"""Plots with matplotlib (`pip install weirnet[plot]`): distributions, time series with confidence bands, quantile
bands of flows, matrices of sweeps. Each function returns a matplotlib Figure; `save` writes it as SVG, PDF, PGF or
PNG."""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from ._weirnet import Run, Sweep, Table
from .errors import PlotError

# Okabe and Ito's colours, which the colour-blind can tell apart.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#f0e442")

# Two-sided 95 % quantiles of Student's t for 1, 2, ... degrees of freedom; beyond them the normal distribution's.
STUDENT = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip


class Drawn(Figure):
    """A figure that a notebook shows as SVG, whatever matplotlib is set to."""

    def _repr_svg_(self) -> str:
        text = io.StringIO()
        with matplotlib.rc_context({"svg.hashsalt": "weir"}):
            self.savefig(text, format="svg", metadata={"Date": None})
        return text.getvalue()


#: One run, or repetitions of one.
Runs = Run | Sequence[Run]
#: Runs by what they are called.
Named = Mapping[str, Runs] | Runs

_UNITS = {
    "_bps": (1e6, "Mbit/s"),
    "_ms": (1.0, "ms"),
    "_s": (1.0, "s"),
    "_bytes": (1e3, "kB"),
    "_packets": (1.0, "packets"),
}


def cdf(runs: Named, *, of: str = "queue", name: str | None = None, log: bool = False) -> Figure:
    """Cumulative distributions of sojourn times: of each queue, or with `of="flow"` of each flow; `name` chooses one.
    Of several runs, their mean with a 95 % confidence band."""
    if of not in ("queue", "flow"):
        raise PlotError(f"of: '{of}' is neither 'queue' nor 'flow'")
    figure, axes = _axes("time in the queue, ms", "share of packets")
    curves = 0
    for label, group in _named(runs).items():
        tables = [run.sojourn if of == "queue" else run.flow_sojourn for run in group]
        for one in _names(tables, of, name):
            parts = [_distribution(table, of, one) for table in tables]
            parts = [part for part in parts if len(part[0])]
            if not parts:
                continue
            grid = np.unique(np.concatenate([times for times, _ in parts]))
            curve = np.array([np.interp(grid, times, shares, left=0.0, right=1.0) for times, shares in parts])
            _band(axes, grid, curve, COLOURS[curves % len(COLOURS)], _label(label, one, name is not None))
            curves += 1
    if curves == 0:
        raise PlotError(f"no packet has left a {of}" + (f" called '{name}'" if name else ""))
    axes.set_ylim(0, 1)
    if log:
        axes.set_xscale("log")
    else:
        axes.set_xlim(left=0)
    axes.legend(frameon=False)
    return figure


def time(runs: Named, measure: str = "throughput_bps", *, name: str | None = None) -> Figure:
    """A measure over time, such as `throughput_bps` of flows or `sojourn_mean_ms` of queues: of several runs, the
    mean with a 95 % confidence band (Student's t). `name` chooses a flow or a queue."""
    groups = _named(runs)
    first = next(iter(groups.values()))[0]
    tables = {"flow": first.flow_series, "queue": first.queue_series}
    of = next((of for of, table in tables.items() if measure in table and measure not in ("time_s", of)), None)
    if of is None:
        known = [c for of, table in tables.items() for c in table.column_names if c not in ("time_s", "flow", "queue")]
        raise PlotError(f"measure: no series has '{measure}'; known are {', '.join(dict.fromkeys(known))}")
    scale, unit = _unit(measure)
    figure, axes = _axes("time, s", f"{measure.rsplit('_', 1)[0].replace('_', ' ')}, {unit}")
    curves = 0
    for label, group in groups.items():
        series = [run.flow_series if of == "flow" else run.queue_series for run in group]
        for one in _names(series, of, name):
            parts = [_series(table, of, one, measure) for table in series]
            length = min(len(times) for times, _ in parts)
            if length == 0:
                continue
            curve = np.array([values[:length] for _, values in parts]) / scale
            colour = COLOURS[curves % len(COLOURS)]
            _band(axes, parts[0][0][:length], curve, colour, _label(label, one, name is not None))
            curves += 1
    if curves == 0:
        raise PlotError(f"no {of} is called '{name}'")
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    axes.legend(frameon=False)
    return figure


def quantiles(runs: Runs, *, flows: Iterable[str] | None = None, bin_s: float = 0.5) -> Figure:
    """Round-trip times of each flow over time as its sender measured them: the median, and bands from the 25th to
    the 75th and from the 5th to the 95th percentile of all samples in bins of `bin_s` seconds, over all runs."""
    if not bin_s > 0:
        raise PlotError(f"bin_s: {bin_s} is not above 0; give seconds")
    group = _group(runs)
    figure, axes = _axes("time, s", "round-trip time, ms")
    names = list(flows) if flows is not None else _names([run.rtt for run in group], "flow", None)
    for place, name in enumerate(names):
        parts = [_series(run.rtt, "flow", name, "rtt_ms") for run in group]
        times = np.concatenate([times for times, _ in parts])
        values = np.concatenate([values for _, values in parts])
        if not len(times):
            raise PlotError(f"no flow called '{name}' has measured a round-trip time")
        bins = np.floor(times / bin_s).astype(int)
        present = np.unique(bins)
        quantiles = np.array([np.quantile(values[bins == one], (0.05, 0.25, 0.5, 0.75, 0.95)) for one in present])
        middle, colour = (present + 0.5) * bin_s, COLOURS[place % len(COLOURS)]
        axes.fill_between(middle, quantiles[:, 0], quantiles[:, 4], color=colour, alpha=0.15, linewidth=0)
        axes.fill_between(middle, quantiles[:, 1], quantiles[:, 3], color=colour, alpha=0.3, linewidth=0)
        axes.plot(middle, quantiles[:, 2], color=colour, label=name)
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
    return figure


def matrix(
    sweep: Sweep, measure: str, *, rows: str | None = None, columns: str | None = None, of: str | None = None
) -> Figure:
    """The mean of a measure of `sweep.means` for each pair of values of two keys: by default the first two that are
    swept. `of` is whose measure, where several have it. What other keys vary is averaged."""
    keys = sweep.keys
    if len(keys) < 2:
        raise PlotError(f"a matrix needs two keys; this sweep has {', '.join(keys) or 'none'}")
    rows, columns = rows or keys[0], columns or next(key for key in keys if key != (rows or keys[0]))
    for key in (rows, columns):
        if key not in keys:
            raise PlotError(f"'{key}' is not swept; swept are {', '.join(keys)}")
    means = sweep.means
    owners = [one for one, what in zip(means["of"], means["measure"], strict=True) if what == measure]
    if not owners:
        raise PlotError(f"measure: there is no '{measure}'; known are {', '.join(dict.fromkeys(means['measure']))}")
    of = of if of is not None else owners[0]
    cells: dict[tuple[str, str], list[float]] = {}
    across = zip(means["of"], means["measure"], means[rows], means[columns], means["mean"], strict=True)
    for one, what, row, column, mean in across:
        if one == of and what == measure:
            cells.setdefault((row, column), []).append(mean)
    if not cells:
        raise PlotError(f"of: '{of}' has no '{measure}'; those that have it: {', '.join(dict.fromkeys(owners))}")
    high = list(dict.fromkeys(row for row, _ in cells))
    wide = list(dict.fromkeys(column for _, column in cells))
    scale, unit = _unit(measure)
    values = np.array([[np.mean(cells.get((row, column), [np.nan])) for column in wide] for row in high]) / scale
    figure = Drawn(figsize=(1.6 + 1.0 * len(wide), 1.4 + 0.55 * len(high)), layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(values, cmap="cividis", aspect="auto")
    axes.set_xticks(range(len(wide)), wide, rotation=30 if max(map(len, wide)) > 8 else 0)
    axes.set_yticks(range(len(high)), high)
    axes.set_xlabel(columns)
    axes.set_ylabel(rows)
    middle = (np.nanmin(values) + np.nanmax(values)) / 2
    for (row, column), value in np.ndenumerate(values):
        if np.isfinite(value):
            colour = "white" if value < middle else "black"
            axes.text(column, row, f"{value:.3g}", ha="center", va="center", color=colour)
    figure.colorbar(image, ax=axes, label=f"{measure} of {of}" + (f", {unit}" if unit else ""))
    return figure


def save(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Writes a figure as its name's ending says: .svg, .pdf, .pgf (which takes a TeX installation) or .png. The same
    figure makes the same bytes of SVG and PDF."""
    ending = os.path.splitext(os.fspath(path))[1]
    if ending not in (".svg", ".pdf", ".pgf", ".png"):
        raise PlotError(f"{os.fspath(path)}: '{ending}' is none of .svg, .pdf, .pgf and .png")
    if ending == ".pgf" and not any(shutil.which(tex) for tex in ("xelatex", "lualatex", "pdflatex")):
        raise PlotError("a .pgf needs TeX to measure its words: install texlive-latex-base, or save .pdf or .svg")
    options: Any = {"svg.hashsalt": "weir", "svg.fonttype": "none", "pdf.fonttype": 42}
    if ending == ".pgf" and not shutil.which("xelatex"):
        options["pgf.texsystem"] = "lualatex" if shutil.which("lualatex") else "pdflatex"
    # Without a date the bytes are the same each time.
    metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(ending)
    with matplotlib.rc_context(options):
        figure.savefig(path, metadata=metadata, dpi=150)


def _group(runs: Runs) -> list[Run]:
    group = [runs] if isinstance(runs, Run) else list(runs)
    if not group:
        raise PlotError("there is no run to draw")
    return group


def _named(runs: Named) -> dict[str, list[Run]]:
    if isinstance(runs, Mapping):
        named = {str(name): _group(group) for name, group in runs.items()}
        if not named:
            raise PlotError("there is no run to draw")
        return named
    return {"": _group(runs)}


def _names(tables: Sequence[Table], of: str, name: str | None) -> list[str]:
    known = list(dict.fromkeys(one for table in tables for one in table[of]))
    if name is None:
        return known
    return [one for one in known if one == name]


def _label(group: str, one: str, chosen: bool) -> str:
    if not group:
        return one
    return group if chosen else f"{group}: {one}"


def _array(values: Sequence[Any]) -> np.ndarray[Any, Any]:
    return np.array([np.nan if value is None else value for value in values], dtype=float)


def _distribution(table: Table, of: str, name: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    mine = np.array([one == name for one in table[of]], dtype=bool)
    if not mine.any():
        return np.array([]), np.array([])
    upper, count = _array(table["upper_ns"])[mine] / 1e6, _array(table["count"])[mine]
    order = np.argsort(upper)
    return upper[order], np.cumsum(count[order]) / count.sum()


def _series(table: Table, of: str, name: str, measure: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    mine = np.array([one == name for one in table[of]], dtype=bool)
    if not mine.any():
        return np.array([]), np.array([])
    return _array(table["time_s"])[mine], _array(table[measure])[mine]


def _unit(measure: str) -> tuple[float, str]:
    return next(((scale, unit) for suffix, (scale, unit) in _UNITS.items() if measure.endswith(suffix)), (1.0, ""))


def _axes(across: str, up: str) -> tuple[Figure, Any]:
    figure = Drawn(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.subplots()
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _band(axes: Any, across: np.ndarray[Any, Any], curves: np.ndarray[Any, Any], colour: str, label: str) -> None:
    """The mean of some curves, and how far it can be trusted."""
    mean, low, high = confidence(curves)
    axes.plot(across, mean, color=colour, label=label)
    if len(curves) > 1:
        axes.fill_between(across, low, high, color=colour, alpha=0.2, linewidth=0)


def confidence(
    curves: np.ndarray[Any, Any],
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The mean of independent curves, one a row, and its 95 % confidence interval by Student's t. What is missing
    (nan) in a curve does not count."""
    there = np.isfinite(curves)
    count = there.sum(axis=0)
    filled = np.where(there, curves, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(count > 0, filled.sum(axis=0) / count, np.nan)
        squares = np.where(there, (curves - mean) ** 2, 0.0).sum(axis=0)
        deviation = np.sqrt(squares / np.maximum(count - 1, 1))
        quantile = np.array([STUDENT[min(one - 2, len(STUDENT) - 1)] if one > 1 else 0.0 for one in count])
        half = quantile * deviation / np.sqrt(np.maximum(count, 1))
    return mean, mean - half, mean + half
