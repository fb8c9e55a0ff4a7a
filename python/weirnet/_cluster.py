"""A sweep on the workers of a Dask cluster.

Cells travel as numbers, in batches; the sweep's text and files go once to each worker. What comes home is the text of a
cell's file under its checksum, and `Home.keep` takes only what it would have written itself. So workers need no folder,
and what a worker, the scheduler or this process had done when it ended is not done again.
"""

from __future__ import annotations

import importlib
import os
import signal
import threading
import time
import zlib
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from ._progress import ProgressCallback
from ._weirnet import Away, Home, Sweep
from .errors import Interrupted, RunError, ScenarioError

# What a packet that is expected takes where it is simulated, and what a task takes in the scheduler, both in seconds of
# a processor as measured (docs/guide/clusters.md).
PACKET_S = 0.2e-6
TASK_S = 1.5e-3
# Part of its time that the scheduler may be busy with tasks.
SCHEDULER_SHARE = 0.2
# A batch takes so long at least: its own cost on a worker is little beside that. It is what a lost worker loses.
LEAST_BATCH_S = 0.25
# Workers that are taken to come where none is there yet.
EXPECTED_THREADS = 100
# So many batches for each thread even out what estimates are wrong by.
BATCHES_PER_THREAD = 4
# Batches that come home in one message.
AT_ONCE = 64
# How often this process looks for what has come home, and how often it asks who is there.
LOOK_S = 0.02
ASK_S = 2.0

_opened: dict[str, Away] = {}
_opening = threading.Lock()


def _errand(cells: Sequence[int], name: str, parcel: bytes) -> bytes:
    """What a worker is asked for: `run_batch` of its own package."""
    try:
        from weirnet._cluster import run_batch

        return run_batch(cells, name, parcel)
    except Exception as error:
        from distributed import get_worker

        raise RuntimeError(f"worker {get_worker().address}: {error}") from None


# What belongs to no module is sent whole. So the scheduler, which reads it too, needs no package.
_errand.__module__ = "__main__"


def run_batch(cells: Sequence[int], name: str, parcel: bytes) -> bytes:
    """Runs cells of a sweep. `name` is the parcel's, which is opened once in each process."""
    with _opening:
        away = _opened.get(name)
        if away is None:
            away = Away(parcel)
            _opened.clear()
            _opened[name] = away
    return zlib.compress(b"".join(away.run(list(cells))), 1)


def batch_cells(home: Home, cells: Sequence[int], threads: int) -> int:
    """How many cells a batch has in the mean, if `threads` threads work at them."""
    cell_s = home.expected(list(cells)) * PACKET_S / len(cells)
    batch_s = max(LEAST_BATCH_S, (threads or EXPECTED_THREADS) * TASK_S / SCHEDULER_SHARE)
    most = len(cells) // (BATCHES_PER_THREAD * max(threads, 1))
    return max(1, min(round(batch_s / cell_s), most))


def sweep(
    client: Any,
    given: str | os.PathLike[str] | Mapping[str, Any],
    *,
    out: str | os.PathLike[str] | None,
    take: Sequence[str | os.PathLike[str]],
    retry_failed: bool,
    large: bool,
    max_cells: int,
    batch: int | None,
    told: ProgressCallback | None,
    command: str = "weirnet.sweep",
    rows: bool = True,
) -> Sweep:
    """Runs a sweep on the workers of `client`; the other arguments are those of `weirnet.sweep`."""
    if getattr(client, "asynchronous", False):
        raise ScenarioError("client: it is asynchronous; give a dask.distributed.Client without asynchronous=True")
    if batch is not None and batch < 1:
        raise ScenarioError(f"batch: {batch}; a batch has one cell at least")
    home = Home(given, out=out, take=list(take), retry_failed=retry_failed, large=large, max_cells=max_cells)
    work = _Work(client, home, told)
    interrupt = None
    try:
        with _interrupts() as again:
            work.run(batch, again)
    except KeyboardInterrupt as error:
        interrupt = error
    finally:
        work.release()
    made = home.finish(command, rows)
    if interrupt is None:
        return made
    ended = Interrupted("interrupted; the attribute `result` has what was done until then")
    ended.result = made
    raise ended from interrupt


class _Work:
    """What workers are asked for, and what has come home of it."""

    def __init__(self, client: Any, home: Home, told: ProgressCallback | None) -> None:
        self.client, self.home, self.told = client, home, told
        self.name = f"weir-{uuid4().hex}"
        self.parcel: Any = None
        # Batches under way, by future.
        self.batches: dict[Any, list[int]] = {}
        self.sent = 0
        self.done = home.cells - len(home.missing)
        self.began = time.monotonic()
        self.asked = -ASK_S
        self.threads = 0
        self.left = self.expected = home.expected(home.missing)

    def run(self, batch: int | None, interrupt: Callable[[], None]) -> None:
        """Runs it all. `interrupt` is called now and then, and may raise."""
        dask: Any = importlib.import_module("distributed")
        cells = self.home.missing
        if not cells:
            return
        try:
            self.ask()
            parcel = self.home.parcel()
            with _talking():
                self.parcel = self.client.submit(bytes, parcel, key=f"{self.name}-parcel")
            batches = self.home.batches(cells, batch or batch_cells(self.home, cells, self.threads))
            waiting = dask.as_completed(self.send(batches), loop=self.client.loop)
            while not waiting.is_empty():
                ended = waiting.next_batch(block=False)
                for at in range(0, len(ended), AT_ONCE):
                    again = self.receive(ended[at : at + AT_ONCE])
                    waiting.update(self.send(again))
                if not ended:
                    time.sleep(LOOK_S)
                    self.ask()
                self.tell()
                interrupt()
        except _Gone as error:
            raise RunError(self.gone()) from error

    def send(self, batches: list[list[int]]) -> list[Any]:
        """Asks for batches."""
        if not batches:
            return []
        keys = [f"{self.name}-{self.sent + number}" for number in range(len(batches))]
        self.sent += len(batches)
        packed = [array("Q", batch) for batch in batches]
        options = {"key": keys, "pure": False, "name": self.name, "parcel": self.parcel}
        with _talking():
            futures: list[Any] = self.client.map(_errand, packed, **options)
        self.batches.update(zip(futures, batches, strict=True))
        return futures

    def receive(self, ended: list[Any]) -> list[list[int]]:
        """Stores what has come of batches. Returns those that have to be asked for again."""
        again = []
        ready = []
        for future in ended:
            if future.status == "error":
                with _talking():
                    error = future.exception()
                again += self.failed(self.batches.pop(future), error)
            elif future.status == "cancelled":
                raise _Gone
            else:
                # Or it was, and is lost with its worker: it runs again while it is waited for.
                ready.append(future)
        with _talking():
            results = self.client.gather(ready)
        for future, result in zip(ready, results, strict=True):
            cells = self.batches.pop(future)
            texts = zlib.decompress(result).split(b"\n")[:-1]
            kept = [self.home.keep(cell, text + b"\n") for cell, text in zip(cells, texts, strict=True)]
            if not all(kept):
                cell = cells[kept.index(False)]
                raise RunError(f"cell {cell} has come home as another one, or changed; this is a fault of weir")
            self.count(cells)
        return again

    def failed(self, cells: list[int], error: BaseException) -> list[list[int]]:
        """What to do with a batch that no worker could end."""
        if type(error).__name__ != "KilledWorker":
            raise RunError(f"{error}; all workers need the package weirnet that is here")
        if len(cells) > 1:
            # One of them may be the cause, and the others are not to suffer.
            return [cells[: len(cells) // 2], cells[len(cells) // 2 :]]
        self.home.fail(cells[0], "each worker that ran it was killed; it may need more memory than a worker has")
        self.count(cells)
        return []

    def count(self, cells: list[int]) -> None:
        self.done += len(cells)
        self.left -= self.home.expected(cells)

    def ask(self) -> None:
        """Asks now and then who works."""
        if time.monotonic() - self.asked >= ASK_S:
            self.asked = time.monotonic()
            with _talking():
                self.threads = sum(self.client.nthreads().values())

    def tell(self) -> None:
        if self.told is None:
            return
        done = 1.0 - self.left / self.expected
        spent = time.monotonic() - self.began
        left = spent * (1.0 - done) / done if done > 0.0 else None
        who = f"{self.threads} threads" if self.threads else "no workers yet"
        self.told(done, left, f"{self.done}/{self.home.cells} runs; {who}")

    def gone(self) -> str:
        words = "the scheduler has gone away, or has forgotten the sweep"
        kept = f"{self.done} of {self.home.cells} cells have a result in {self.home.out}"
        return f"{words}; {kept}; the same call with a scheduler goes on from there"

    def release(self) -> None:
        """Wants nothing any more: what no worker has begun is not run."""
        for future in [*self.batches, self.parcel]:
            if future is not None:
                future.release()
        self.batches.clear()


class _Gone(Exception):
    """The scheduler does not answer, or has cancelled batches that nobody here has cancelled."""


@contextmanager
def _interrupts() -> Iterator[Callable[[], None]]:
    """Gives what raises an interrupt again that was lost.

    Python ignores what is raised in a destructor, and the futures of a cluster spend time in theirs.
    """
    raised = False
    handlers: dict[int, Callable[..., Any]] = {}

    def handle(number: int, frame: Any) -> None:
        nonlocal raised
        try:
            handlers[number](number, frame)
        except KeyboardInterrupt:
            raised = True
            raise

    def again() -> None:
        if raised:
            raise KeyboardInterrupt

    # Only the main thread has handlers.
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            handler = signal.getsignal(number)
            if callable(handler):
                handlers[number] = handler
                signal.signal(number, handle)
    try:
        yield again
    finally:
        for taken, before in handlers.items():
            signal.signal(taken, before)


@contextmanager
def _talking() -> Iterator[None]:
    """Talks to the scheduler."""
    try:
        yield
    except (OSError, CancelledError) as error:
        raise _Gone from error
