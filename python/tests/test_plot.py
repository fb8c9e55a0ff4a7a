"""Plots: what they hold, and the files they go to."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import weirnet as weir
from weirnet import plot


@pytest.fixture
def runs(scenario: Path) -> list[weir.Run]:
    return [weir.run(scenario, run=number) for number in range(3)]


def test_a_distribution_ends_at_one_and_has_its_band(runs: list[weir.Run]) -> None:
    (axes,) = plot.cdf(runs).axes
    (line,) = axes.lines
    across, up = line.get_data()
    assert np.all(np.diff(up) >= 0) and up[-1] == pytest.approx(1.0)
    histogram = runs[0].sojourn
    median = np.interp(0.5, *_cumulated(histogram))
    assert np.interp(0.5, up, across) == pytest.approx(median, rel=0.5)
    assert len(axes.collections) == 1, "one band"
    (axes,) = plot.cdf({"a": runs[0], "b": runs[1:]}, of="flow", name="one", log=True).axes
    assert [line.get_label() for line in axes.lines] == ["a", "b"]
    with pytest.raises(weir.PlotError, match="called 'none'"):
        plot.cdf(runs, of="flow", name="none")


def _cumulated(table: weir.Table) -> tuple[np.ndarray, np.ndarray]:
    upper, count = np.array(table["upper_ns"]) / 1e6, np.array(table["count"])
    return np.cumsum(count) / count.sum(), upper


def test_a_series_is_the_mean_of_its_runs(runs: list[weir.Run]) -> None:
    (axes,) = plot.time(runs, name="one").axes
    (line,) = axes.lines
    own = [
        np.array(
            [
                bps
                for bps, flow in zip(run.flow_series["throughput_bps"], run.flow_series["flow"], strict=True)
                if flow == "one"
            ]
        )
        for run in runs
    ]
    length = min(map(len, own))
    assert line.get_ydata() == pytest.approx(np.mean([one[:length] for one in own], axis=0) / 1e6)
    (axes,) = plot.time(runs[0], "sojourn_mean_ms").axes
    assert axes.get_ylabel() == "sojourn mean, ms"
    with pytest.raises(weir.PlotError, match="no series has 'speed'; known are throughput_bps"):
        plot.time(runs, "speed")


def test_the_confidence_is_students() -> None:
    mean, low, high = plot.confidence(np.array([[1.0, 2.0], [2.0, np.nan], [3.0, 4.0]]))
    assert mean == pytest.approx([2.0, 3.0])
    # Three values with a deviation of 1: 4.303 / sqrt(3); two with one of sqrt(2): 12.706.
    assert high - mean == pytest.approx([4.303 / np.sqrt(3), 12.706])
    assert mean - low == pytest.approx(high - mean)


def test_quantiles_of_flows_enclose_the_median(runs: list[weir.Run]) -> None:
    (axes,) = plot.quantiles(runs).axes
    labels = [line.get_label() for line in axes.lines]
    assert "one" in labels and len(axes.collections) == 2 * len(labels)
    with pytest.raises(weir.PlotError, match="no flow called 'none'"):
        plot.quantiles(runs, flows=["none"])
    with pytest.raises(weir.PlotError, match="bin_s"):
        plot.quantiles(runs, bin_s=0)


def test_a_matrix_has_a_cell_for_each_pair(sweep: Path) -> None:
    made = weir.sweep(sweep, out="out")
    figure = plot.matrix(made, "link_utilisation")
    axes = figure.axes[0]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["reno", "cubic", "bbr"]
    assert axes.images[0].get_array().shape == (2, 3) and len(axes.texts) == 6
    turned = plot.matrix(made, "goodput_bps", rows="flow.0.controller", of="one")
    assert turned.axes[0].images[0].get_array().shape == (3, 2)
    with pytest.raises(weir.PlotError, match=r"'rtt' is not swept; swept are bottleneck.rate"):
        plot.matrix(made, "goodput_bps", rows="rtt")
    with pytest.raises(weir.PlotError, match="there is no 'speed'"):
        plot.matrix(made, "speed")


def test_files_are_the_same_each_time(runs: list[weir.Run], tmp_path: Path) -> None:
    for ending, begin in [("svg", b"<?xml"), ("pdf", b"%PDF"), ("png", b"\x89PNG")]:
        first, second = (tmp_path / f"{number}.{ending}" for number in (1, 2))
        for path in (first, second):
            plot.save(plot.cdf(runs), path)
        assert first.read_bytes().startswith(begin)
        assert first.read_bytes() == second.read_bytes(), ending
    with pytest.raises(weir.PlotError, match=r"'.gif' is none of"):
        plot.save(plot.cdf(runs), tmp_path / "a.gif")


def test_pgf_is_for_tex(runs: list[weir.Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(weir.PlotError, match="needs TeX"):
        plot.save(plot.cdf(runs), tmp_path / "a.pgf")
    monkeypatch.undo()
    if not any(map(shutil.which, ("xelatex", "lualatex", "pdflatex"))):
        pytest.skip("no TeX here, which measures the words of a .pgf")
    plot.save(plot.cdf(runs), tmp_path / "a.pgf")
    assert "pgfpicture" in (tmp_path / "a.pgf").read_text()
