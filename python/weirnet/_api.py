"""The functions of the package; their options are those of the command's verbs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from . import _cluster, _weirnet
from ._progress import Progress, Shown
from ._weirnet import Assessment, Figure, Run, Sweep
from .errors import ScenarioError

#: Where a scenario runs: in virtual time, or on real packets (as root).
World = Literal["sim", "emu", "kernel", "vm"]
#: A scenario or a sweep: the path of a TOML file, or a dict with the same tables and keys.
Given = str | os.PathLike[str] | Mapping[str, Any]
Path = str | os.PathLike[str]


def _whole(least: int = 0, most: int = (1 << 64) - 1, **options: int | None) -> None:
    """Refuses numbers that an option cannot be, by the option's name; what is no number is Python's TypeError."""
    for name, value in options.items():
        if isinstance(value, int) and not least <= value <= most:
            raise ScenarioError(f"{name}: {value} cannot be; give a whole number from {least} to {most}")


def run(
    scenario: Given,
    *,
    on: World = "sim",
    seed: int | None = None,
    run: int = 0,
    out: Path | None = None,
    pcap: bool = False,
    trace: bool = False,
    large: bool = False,
    kernel: str | None = None,
    progress: Progress = None,
) -> Run:
    """Runs a scenario, as `weir run` does, and returns its tables.

    `seed` is in place of the scenario's; independent repetitions under one seed count `run` up from 0. With `out`, the
    command's files are written to that folder; `pcap` and `trace` need it. `large` runs also what is estimated to cost
    more than a slip of the pen should.

    Raises ScenarioError for a scenario that cannot be, and Interrupted on Ctrl-C, whose `result` is the run until then.
    """
    _whole(seed=seed, run=run)
    with Shown(progress) as told:
        return _weirnet.run(
            scenario,
            on=on,
            seed=seed,
            run=run,
            out=out,
            pcap=pcap,
            trace=trace,
            large=large,
            kernel=kernel,
            progress=told,
        )


def sweep(
    sweep: Given,
    *,
    out: Path | None = None,
    take: Sequence[Path] = (),
    jobs: int | None = None,
    client: Any = None,
    batch: int | None = None,
    retry_failed: bool = False,
    large: bool = False,
    max_cells: int = 1_000_000,
    progress: Progress = None,
) -> Sweep:
    """Runs every combination of a sweep, as `weir sweep` does, on all processors or on `jobs`.

    Each cell is kept in the folder `out` (`results/NAME`) as soon as it has run, so that a call that was
    interrupted, or whose ranges were changed, runs only what is missing. Results that are in the folders `take`, such
    as those of shards, are taken from there first.

    With a `dask.distributed.Client` cells run on its workers, `batch` of them at a time (by default as many as suit
    their cost and the number of workers), and are kept here all the same.
    """
    if client is None and batch is not None:
        raise ScenarioError("batch: it is for the workers of a client; give client, or jobs in its place")
    if client is not None and jobs is not None:
        raise ScenarioError("jobs: the workers of the client say how many cells run at a time; leave it out")
    _whole(least=1, jobs=jobs, batch=batch, max_cells=max_cells)
    with Shown(progress) as told:
        if client is not None:
            return _cluster.sweep(
                client,
                sweep,
                out=out,
                take=take,
                retry_failed=retry_failed,
                large=large,
                max_cells=max_cells,
                batch=batch,
                told=told,
            )
        return _weirnet.sweep(
            sweep,
            out=out,
            take=list(take),
            jobs=jobs,
            retry_failed=retry_failed,
            large=large,
            max_cells=max_cells,
            progress=told,
        )


def assess(
    capture: Path,
    *,
    preset: Literal["paper", "comsys", "robust"] = "paper",
    set: Mapping[str, Any] | None = None,
    flows: int = 65_536,
) -> Assessment:
    """Judges the flows of a capture (pcap or pcapng, plain or packed) as `weir assess` does.

    `set` gives parameters of the law in place of the preset's; `flows` is how many are distinguished.
    """
    _whole(least=1, most=(1 << 32) - 1, flows=flows)
    return _weirnet.assess(capture, preset=preset, set=None if set is None else dict(set), flows=flows)


def figure(
    id: str,
    *,
    on: World = "sim",
    out: Path | None = None,
    variant: str | None = None,
    quick: bool = False,
    runs: int | None = None,
    seed: int = 1,
    only: str | None = None,
    jobs: int | None = None,
    kernel: str | None = None,
    progress: Progress = None,
) -> Figure:
    """Makes a paper's figure again, as `weir figure run` does: the paper's numbers, ours beside them, and a page."""
    _whole(seed=seed)
    _whole(least=1, most=(1 << 32) - 1, runs=runs)
    _whole(least=1, jobs=jobs)
    with Shown(progress) as told:
        return _weirnet.figure(
            id,
            on=on,
            out=out,
            variant=variant,
            quick=quick,
            runs=runs,
            seed=seed,
            only=only,
            jobs=jobs,
            kernel=kernel,
            progress=told,
        )


def figures() -> list[dict[str, Any]]:
    """The figures that there are, as `weir figure list --json` has them."""
    return _weirnet.figures()
