"""`weir sweep FILE --scheduler ADDRESS`: the command's sweep, on the workers of a Dask cluster."""

from __future__ import annotations

import argparse
import importlib
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from . import _cluster
from ._progress import Shown
from ._weirnet import Sweep
from .errors import Interrupted, WeirError

FAILED, DOUBTFUL, INTERRUPTED = 1, 3, 130
# Failed cells that are reported one by one.
TOLD = 10
# How long a scheduler has to answer.
CONNECT_S = 5
# What has another meaning on a cluster, and what to do.
ELSEWHERE = {
    "--jobs": "the cluster has as many jobs as its workers have threads; leave it out",
    "--shard": "a cluster needs no shards; leave it out, or --scheduler",
    "--dry-run": "nothing runs there; leave out --scheduler",
}


def asked_for(words: list[str]) -> bool:
    """Whether a command line is this module's."""
    return words[:1] == ["sweep"] and any(word.split("=")[0] == "--scheduler" for word in words)


def _arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="weir sweep", description=__doc__, allow_abbrev=False)
    parser.add_argument("file", type=Path, help="the sweep, a TOML file")
    parser.add_argument("--scheduler", required=True, metavar="ADDRESS", help="host:port, or the scheduler's file")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where all results go [default: results/NAME]")
    parser.add_argument("--take", type=Path, nargs="+", default=[], metavar="DIR", help="take results from there first")
    parser.add_argument("--batch", type=int, metavar="N", help="cells that travel together [default: by their cost]")
    parser.add_argument("--max-cells", type=int, default=1_000_000, metavar="N", help="how many cells there may be")
    parser.add_argument("--large", action="store_true", help="run also what is estimated to cost very much")
    parser.add_argument("--retry-failed", action="store_true", help="run cells again that failed")
    parser.add_argument("--json", action="store_true", help="print JSON: what ran, and a summary")
    for word in words:
        remedy = ELSEWHERE.get(word.split("=")[0])
        if remedy:
            parser.error(f"{word.split('=')[0]}: {remedy}")
    return parser.parse_args(words)


def _connected(address: str) -> Any:
    try:
        dask: Any = importlib.import_module("distributed")
    except ImportError as error:
        raise WeirError(f"--scheduler: {error}; pip install 'weirnet[dask]'") from None
    # A file of `dask scheduler --scheduler-file`.
    where = {"scheduler_file": address} if Path(address).is_file() else {"address": address}
    try:
        return dask.Client(**where, timeout=CONNECT_S, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise WeirError(f"--scheduler {address}: no scheduler of Dask answers there: {error}") from None


def _say(words: str) -> None:
    print(f"weir: {words}", file=sys.stderr)


def _end(made: Sweep) -> int:
    """Says what the command says, and how it ended."""
    cells = made.cells
    if made.reused:
        _say(f"{made.reused} of {cells} cells had their result from an earlier command")
    if made.damaged:
        _say(f"{made.damaged} of {cells} cells had a stored result that is not as it was written; they ran again")
    if made.doubtful:
        _say(f"warning: {made.doubtful} of {cells} cells are doubtful; column `warnings` of the table says why")
    for cell, what, error in made.failed[:TOLD]:
        _say(f"cell {cell} failed ({what}): {error}")
    if made.failed:
        why = "column `error` of the table says why; --retry-failed runs them again"
        _say(f"{len(made.failed)} of {cells} cells failed; {why}")
    if made.missing:
        _say(f"{made.missing} of {cells} cells are missing; the same command goes on from here")
    return FAILED if made.failed else DOUBTFUL if made.doubtful else 0


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def main(words: list[str]) -> int:
    """Runs the sweep that `words` name. Returns the exit code."""
    given = _arguments(words)
    signal.signal(signal.SIGTERM, _interrupt)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        signal.signal(signal.SIGHUP, _interrupt)
    code = 0
    try:
        client = _connected(given.scheduler)
        try:
            with Shown(sys.stderr.isatty()) as told:
                made = _cluster.sweep(
                    client,
                    given.file,
                    out=given.out,
                    take=given.take,
                    retry_failed=given.retry_failed,
                    large=given.large,
                    max_cells=given.max_cells,
                    batch=given.batch,
                    told=told,
                    command=" ".join(["weir", "sweep", *words]),
                    rows=False,
                )
        except Interrupted as ended:
            made, code = ended.result, INTERRUPTED
        finally:
            # It may wait for a scheduler that has gone.
            with suppress(OSError):
                client.close(timeout=1)
    except KeyboardInterrupt:
        return INTERRUPTED
    except WeirError as error:
        _say(str(error))
        return FAILED
    print(made.to_json() if given.json else f"{made}\nPlots and tables: {made.out / 'sweep.html'}")
    how = _end(made)
    return code or how
