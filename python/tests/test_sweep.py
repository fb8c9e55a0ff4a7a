"""`weir.sweep` beside `weir sweep`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import as_dict, command

import weirnet as weir


@pytest.mark.parametrize("jobs", [1, 2, None])
def test_tables_are_the_commands_to_the_byte(sweep: Path, jobs: int | None) -> None:
    command("sweep", sweep, "--out", "theirs")
    made = weir.sweep(sweep, out="ours", jobs=jobs)
    for name in ("sweep.csv", "means.csv", "sweep.parquet"):
        assert Path("ours", name).read_bytes() == Path("theirs", name).read_bytes(), name
    assert made.table.to_csv() == Path("theirs/sweep.csv").read_text()
    assert made.means.to_csv() == Path("theirs/means.csv").read_text()
    assert made.keys == ["bottleneck.rate", "flow.0.controller"]
    assert (made.cells, made.reused, made.missing, made.failed, made.doubtful) == (12, 0, 0, [], 0)
    theirs = json.loads(Path("theirs/sweep.json").read_text())
    assert made.meta | {"command": ""} == theirs | {"command": ""}


def test_a_second_call_runs_what_is_new(sweep: Path) -> None:
    weir.sweep(sweep, out="out")
    again = weir.sweep(sweep, out="out")
    assert (again.cells, again.reused) == (12, 12)
    sweep.write_text(sweep.read_text().replace('"5mbit"', '"5mbit", "6mbit"'))
    more = weir.sweep(sweep, out="out")
    assert (more.cells, more.reused) == (18, 12)
    assert "had their result" in more._repr_html_()


def test_the_command_and_the_package_keep_their_cells_apart(sweep: Path) -> None:
    """They are two builds, of which one may be newer."""
    command("sweep", sweep, "--out", "out")
    assert weir.sweep(sweep, out="out").reused == 0


def test_a_dict_is_a_sweep() -> None:
    rates = ["5mbit", "10mbit"]
    made = weir.sweep({"name": "mine", "repeat": 2, "sweep": {"bottleneck.rate": rates}, "scenario": as_dict()})
    assert (made.name, str(made.out), made.cells) == ("mine", "results/mine", 4)
    assert set(made.table["bottleneck.rate_bps"]) == {5_000_000, 10_000_000}
    assert set(made.means["bottleneck.rate"]) == set(rates)


def test_cells_that_fail_are_told(sweep: Path) -> None:
    @weir.controller("fails-at-once")
    class Fails(weir.Controller):
        def on_ack(self, ack: weir.Ack) -> None:
            raise ZeroDivisionError("as was to be shown")

    sweep.write_text(sweep.read_text().replace('"bbr"', '"fails-at-once"'))
    made = weir.sweep(sweep, out="out")
    assert len(made.failed) == 4
    number, what, why = made.failed[0]
    assert number == 4 and "fails-at-once" in what
    assert why.startswith("ZeroDivisionError: as was to be shown (") and "test_sweep.py, line" in why
    assert sum(error is not None for error in made.table["error"]) == 4
