"""A sweep on the workers of a Dask cluster: the command's bytes, whoever is killed meanwhile."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import command

import weirnet as weir
from weirnet import _cluster
from weirnet._weirnet import Away, Home

# A trace and a scenario in files of their own, which workers do not have.
SWEEP = """\
name = "cluster"
repeat = 8
scenario = "base.toml"
[sweep]
bottleneck.qdisc = ["pie ecn", "codel", "pfifo limit 40p"]
flow.0.controller = ["reno", "cubic"]
"""
BASE = """\
[bottleneck]
rate = "10mbit"
rtt = "20ms"
qdisc = "codel"
trace = "link.trace"
[[flow]]
stack = "tcp"
controller = "cubic"
duration = "DURATION"
"""
CELLS = 48


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    return written(tmp_path, "2s")


def written(folder: Path, duration: str) -> Path:
    (folder / "link.trace").write_text("".join(f"{ms}\n" for ms in range(1, 200)))
    (folder / "base.toml").write_text(BASE.replace("DURATION", duration))
    path = folder / "sweep.toml"
    path.write_text(SWEEP)
    return path


class Cluster:
    """A scheduler and workers in processes of their own, which work in another folder."""

    def __init__(self, folder: Path, workers: int = 0) -> None:
        self.folder = folder
        self.folder.mkdir()
        self.file = folder / "scheduler.json"
        self.processes: list[subprocess.Popen[bytes]] = []
        # Who looks there finds no package.
        self.without = folder / "without"
        (self.without / "weirnet").mkdir(parents=True)
        (self.without / "weirnet" / "__init__.py").write_text("raise ImportError('it is not installed')")
        address = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard"]
        self.scheduler = self.start("scheduler", "--scheduler-file", self.file, *address, path=self.without)
        self.workers = [self.worker() for _ in range(workers)]

    def start(self, *words: str | Path, path: str | Path = "") -> subprocess.Popen[bytes]:
        said = (self.folder / f"{len(self.processes)}.log").open("wb")
        process = subprocess.Popen(
            [sys.executable, "-m", "dask", *words],
            cwd=self.folder,
            env=os.environ | {"PYTHONPATH": str(path)},
            stdout=said,
            stderr=said,
        )
        self.processes.append(process)
        return process

    def worker(self, path: str | Path = "") -> subprocess.Popen[bytes]:
        own = ["--no-nanny", "--nthreads", "1", "--host", "127.0.0.1", "--no-dashboard", "--memory-limit", "0"]
        return self.start("worker", "--scheduler-file", self.file, *own, path=path)

    def address(self) -> dict[str, str]:
        ends = time.monotonic() + 60
        while not self.file.exists():
            assert time.monotonic() < ends, self.said()
            time.sleep(0.02)
        return {"scheduler_file": str(self.file)}

    def said(self) -> str:
        return "\n".join(log.read_text() for log in sorted(self.folder.glob("*.log")))

    def end(self) -> None:
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Cluster]]:
    made: list[Cluster] = []

    def make(workers: int = 0) -> Cluster:
        made.append(Cluster(tmp_path_factory.mktemp("cluster") / "here", workers))
        return made[-1]

    yield make
    for one in made:
        one.end()


def connected(cluster: Cluster) -> Any:
    from distributed import Client

    return Client(**cluster.address(), timeout=60, set_as_default=False)


def same_as_the_commands(sweep: Path, out: Path | str) -> None:
    command("sweep", sweep, "--out", "theirs")
    for name in ("sweep.csv", "means.csv", "sweep.parquet", "sweep.html"):
        assert Path(out, name).read_bytes() == Path("theirs", name).read_bytes(), name


def test_what_comes_home_is_what_was_asked_for_or_not_taken(sweep: Path) -> None:
    home = Home(sweep, out="out")
    assert home.missing == list(range(CELLS))
    away = Away(home.parcel())
    first, second = away.run([0, 1])
    assert first != second
    assert not home.keep(0, second), "another cell's"
    changed = first.replace(b'"received_bytes":', b'"received_bytes":9', 1)
    assert changed != first
    for text in (changed, first[:-20], b""):
        assert not home.keep(0, text)
    assert home.keep(0, first) and home.keep(1, second)
    home.fail(2, "as was to be shown")
    made = home.finish("a test", True)
    assert (made.missing, made.failed[0][0], made.failed[0][2]) == (CELLS - 3, 2, "as was to be shown")
    assert Home(sweep, out="out").missing == list(range(3, CELLS))
    assert Home(sweep, out="out", retry_failed=True).missing == list(range(2, CELLS))


def test_a_worker_of_another_build_opens_no_parcel(sweep: Path) -> None:
    parcel = Home(sweep, out="out").parcel()
    other = parcel.replace(b'"weir":"0.', b'"weir":"9.', 1)
    assert other != parcel
    for given in (other, b"{}"):
        with pytest.raises(weir.RunError, match="use the same package on both sides"):
            Away(given)


def test_batches_follow_from_what_cells_cost_and_who_works(sweep: Path) -> None:
    home = Home(sweep, out="out")
    cells = home.missing
    assert sorted(cell for batch in home.batches(cells, 5) for cell in batch) == cells
    assert {len(batch) for batch in home.batches(cells, 1)} == {1}
    cell_s = home.expected(cells) / CELLS * _cluster.PACKET_S
    # With few cells each thread still gets several batches; with many, a batch takes the more the more threads ask.
    assert _cluster.batch_cells(home, cells, 2) == CELLS // (2 * _cluster.BATCHES_PER_THREAD)
    many = cells * 10_000
    few_threads, more_threads = (_cluster.batch_cells(home, many, threads) * cell_s for threads in (1, 100))
    assert few_threads == pytest.approx(_cluster.LEAST_BATCH_S, rel=0.1)
    assert more_threads == pytest.approx(100 * _cluster.TASK_S / _cluster.SCHEDULER_SHARE, rel=0.1)


def test_a_cell_that_ends_its_workers_fails_alone(sweep: Path) -> None:
    class KilledWorker(Exception):
        pass

    home = Home(sweep, out="out")
    work = _cluster._Work(None, home, None)
    assert work.failed([3, 4, 5], KilledWorker()) == [[3], [4, 5]]
    assert work.failed([3], KilledWorker()) == []
    (failed,) = home.finish("a test", False).failed
    assert failed[0] == 3 and failed[2].startswith("each worker that ran it was killed"), failed
    with pytest.raises(weir.RunError, match="No module named 'weirnet'; all workers need the package"):
        work.failed([4], RuntimeError("worker tcp://x: No module named 'weirnet'"))


@pytest.mark.parametrize(
    ("text", "options", "says"),
    [
        ('name = "x"\nworld = "emu"\n', {}, "world sim alone; .*--shard"),
        ("", {"batch": 0}, "batch: 0"),
        ("", {"jobs": 2}, "jobs: the workers"),
        ("", {"client": None, "batch": 3}, "batch: .*give client"),
        ("", {"client": SimpleNamespace(asynchronous=True)}, "client: it is asynchronous"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, text: str, options: dict[str, Any], says: str) -> None:
    path = written(tmp_path, "2s")
    path.write_text(text + SWEEP.replace('name = "cluster"\n', ""))
    if text:
        base = tmp_path / "base.toml"
        base.write_text(BASE.replace("DURATION", "2s").replace('trace = "link.trace"\n', ""))
        path.write_text(path.read_text().replace('"pie ecn", ', ""))
    with pytest.raises(weir.ScenarioError, match=says):
        weir.sweep(path, **({"client": SimpleNamespace()} | options))


def test_a_class_of_this_process_is_refused(sweep: Path) -> None:
    @weir.controller("only-here")
    class OnlyHere(weir.Controller):
        def on_ack(self, ack: weir.Ack) -> None:
            pass

    sweep.write_text(sweep.read_text().replace('"cubic"', '"only-here"'))
    with pytest.raises(weir.ScenarioError, match="'only-here' is a Python class of this process"):
        weir.sweep(sweep, client=SimpleNamespace())


def test_shards_are_taken(sweep: Path) -> None:
    """The package makes no shards, but takes cells of its own from elsewhere."""
    whole = weir.sweep(sweep, out="whole")
    taken = weir.sweep(sweep, out="taken", take=["whole"])
    assert (whole.reused, taken.reused, taken.damaged) == (0, CELLS, 0)
    command("sweep", sweep, "--out", "theirs")
    with pytest.raises(weir.ScenarioError, match="--take theirs: .*another program"):
        weir.sweep(sweep, out="other", take=["theirs"])


def test_killed_workers_lose_nothing(cluster: Callable[..., Cluster], tmp_path: Path) -> None:
    sweep = written(tmp_path, "20s")
    here = cluster(3)
    said = []

    def progress(done: float, left: float | None, note: str) -> None:
        said.append((done, left, note))
        for number, at in enumerate((0.1, 0.4)):
            if done >= at and here.workers[number].poll() is None:
                here.workers[number].kill()
                here.workers[number].wait()

    with connected(here) as client:
        made = weir.sweep(sweep, out="ours", client=client, batch=2, progress=progress)
        assert (made.cells, made.missing, made.failed, made.reused) == (CELLS, 0, [], 0)
        assert [worker.poll() for worker in here.workers] == [-signal.SIGKILL, -signal.SIGKILL, None]
        same_as_the_commands(sweep, "ours")
        again = weir.sweep(sweep, out="ours", client=client)
        assert again.reused == CELLS
    assert said[-1][0] == pytest.approx(1.0) and said[-1][2].startswith(f"{CELLS}/{CELLS} runs; ")
    assert any(left is not None and left > 0 for _, left, _ in said)


def test_a_worker_of_another_build_is_refused(
    cluster: Callable[..., Cluster], sweep: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    package = Path(weir.__file__).parent
    shutil.copytree(package, elsewhere / "weirnet", ignore=shutil.ignore_patterns("bin"))
    (module,) = (elsewhere / "weirnet").glob("_weirnet*.so")
    with module.open("ab") as file:
        file.write(b"another build")
    here = cluster()
    for path, says in (
        (elsewhere, "the sweep is run by weir .* and this is weir .*; use the same package"),
        (here.without, "it is not installed; all workers need the package"),
    ):
        worker = here.worker(path)
        with connected(here) as client:
            with pytest.raises(weir.RunError, match=f"worker tcp://127.0.0.1:.*: {says}"):
                weir.sweep(sweep, out="ours", client=client)
            assert not list(Path("ours").glob("cells/*/*")), "it has run nothing"
        worker.kill()
        worker.wait()


def test_a_scheduler_that_goes_loses_nothing_that_was_done(cluster: Callable[..., Cluster], tmp_path: Path) -> None:
    sweep = written(tmp_path, "20s")
    first = cluster(2)

    def progress(done: float, left: float | None, note: str) -> None:
        if done > 0.2:
            first.scheduler.kill()

    client = connected(first)
    with pytest.raises(weir.RunError, match="the scheduler has gone away.* cells have a result in ours"):
        weir.sweep(sweep, out="ours", client=client, batch=2, progress=progress)
    kept = len(list(Path("ours").glob("cells/*/*.json")))
    assert 0.2 * CELLS <= kept < CELLS
    with contextlib.suppress(TimeoutError):
        client.close(timeout=0)
    second = cluster(1)
    with connected(second) as client:
        made = weir.sweep(sweep, out="ours", client=client)
    assert (made.reused, made.missing) == (kept, 0)
    same_as_the_commands(sweep, "ours")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_in_a_destructor_is_not_lost(cluster: Callable[..., Cluster], sweep: Path) -> None:
    class Dropped:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGINT)

    dropped = 0

    def progress(done: float, left: float | None, note: str) -> None:
        nonlocal dropped
        if done > 0.2 and not dropped:
            dropped = 1
            Dropped()

    handler = signal.getsignal(signal.SIGINT)
    with connected(cluster(1)) as client, pytest.raises(weir.Interrupted) as ended:
        weir.sweep(sweep, out="ours", client=client, batch=2, progress=progress)
    assert dropped and 0 < ended.value.result.missing < CELLS
    assert signal.getsignal(signal.SIGINT) is handler


def on_a_cluster(*words: str | Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "weirnet", "sweep", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_the_command_goes_on_after_an_interrupt(cluster: Callable[..., Cluster], tmp_path: Path) -> None:
    sweep = written(tmp_path, "60s")
    here = cluster(1)
    here.address()
    words = [sweep, "--scheduler", here.file, "--out", "ours", "--batch", "1"]
    running = on_a_cluster(*words)
    ends = time.monotonic() + 60
    while len(list(Path("ours").glob("cells/*/*.json"))) < 3:
        assert time.monotonic() < ends and running.poll() is None, (here.said(), running.communicate())
        time.sleep(0.02)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=30)
    assert running.returncode == 130, err
    assert "cells are missing; the same command goes on from here" in err and "sweep.html" in out
    assert len(Path("ours/sweep.csv").read_text().splitlines()) >= 4
    sweep = written(tmp_path, "2s")
    running = on_a_cluster(sweep, f"--scheduler={here.file}", "--out", "short")
    out, err = running.communicate(timeout=120)
    assert (running.returncode, err) == (0, ""), err
    same_as_the_commands(sweep, "short")
    assert out.replace("short/", "theirs/") == command("sweep", sweep, "--out", "theirs").stdout


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--jobs", "2", "--scheduler", "x:1"], 2, "--jobs: the cluster has as many"),
        (["--shard=1/2", "--scheduler", "x:1"], 2, "--shard: a cluster needs no shards"),
        (["--scheduler", "127.0.0.1:9"], 1, "--scheduler 127.0.0.1:9: no scheduler of Dask answers"),
    ],
)
def test_a_command_that_cannot_be_says_why(sweep: Path, words: list[str], code: int, says: str) -> None:
    running = on_a_cluster(sweep, *words)
    _, err = running.communicate(timeout=60)
    assert running.returncode == code and says in err, err
