"""Ctrl-C, forks, threads and a running event loop. Each in a process of its own, which may not hang."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

LONG = """
import weirnet as weir
LONG = {
    "bottleneck": {"rate": "100mbit", "rtt": "20ms", "qdisc": "pfifo limit 100p"},
    "flow": [{"stack": "tcp", "controller": "cubic", "duration": "2000s"}],
    "measure": {"timeout": "2000s", "interval": "1s"},
}
SHORT = LONG | {"flow": [{"stack": "tcp", "controller": "cubic", "bytes": "2mb"}]}
def run(given=SHORT):
    return weir.run(given).flows["received_bytes"][0]
"""


def python(code: str, *, seconds: float = 60) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LONG + code], capture_output=True, text=True, timeout=seconds
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def interrupted(code: str) -> tuple[str, float]:
    """What is printed after Ctrl-C, and how long it took."""
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", LONG + code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begins\n"
    time.sleep(1.5)
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    took = time.monotonic() - began
    assert process.returncode == 0, err
    return out, took


# A busy machine may take long to let a process know; a run that did not hear would go on for a minute and more.
SOON_S = 8.0


def test_an_interrupt_ends_a_run_and_leaves_what_is_done() -> None:
    out, took = interrupted("""
import time
print("begins")
try:
    weir.run(LONG, out="out")
except weir.Interrupted as error:
    run = error.result
    print(run.was_interrupted, run.meta["meta"]["cut_short"], len(run.flow_series) > 0, error)
    assert isinstance(error, KeyboardInterrupt)
""")
    assert out.startswith("True interrupted True interrupted; the attribute `result`"), out
    assert Path("out/run.json").exists()
    assert took < SOON_S


def test_an_interrupt_ends_a_sweep_and_leaves_its_cells() -> None:
    out, took = interrupted("""
CELL = LONG | {"flow": [{"stack": "tcp", "controller": "cubic", "duration": "20s"}]}
SWEEP = {"name": "s", "sweep": {"seed": {"from": 1, "to": 2000, "step": 1}}, "scenario": CELL}
print("begins")
try:
    weir.sweep(SWEEP, out="out", jobs=2)
except weir.Interrupted as error:
    made = error.result
    left = made.cells - made.missing
    SWEEP["sweep"]["seed"] = list(range(1, left))
    again = weir.sweep(SWEEP, out="out")
    print(0 < left < made.cells, again.reused > 0, again.missing)
""")
    assert out == "True True 0\n"
    assert took < SOON_S


@pytest.mark.parametrize("call", ["weir.run(LONG)", "await asyncio.gather(asyncio.create_task(inner()), inner())"])
def test_an_interrupt_ends_a_call_that_blocks_a_loop(call: str) -> None:
    """Whose handler of the first Ctrl-C raises nothing, but cancels the main task."""
    out, took = interrupted(f"""
import asyncio
async def inner():
    weir.run(LONG)
async def main():
    print("begins")
    {call}
try:
    asyncio.run(main())
except weir.Interrupted as error:
    print(error.result.was_interrupted)
""")
    assert (out, took < SOON_S) == ("True\n", True)


def test_what_has_been_cancelled_may_still_run() -> None:
    out = python("""
import asyncio
async def main():
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        print(run())
async def outer():
    task = asyncio.create_task(main())
    await asyncio.sleep(0)
    task.cancel()
    await task
asyncio.run(outer())
""")
    assert out == "2097152\n"


def test_a_thread_ends_its_call_by_progress() -> None:
    """Python gives Ctrl-C to the main thread alone."""
    out, took = interrupted("""
import asyncio, threading
stop = threading.Event()
def progress(*_):
    if stop.is_set():
        raise KeyboardInterrupt
async def main():
    print("begins")
    try:
        await asyncio.to_thread(weir.run, LONG, progress=progress)
    finally:
        stop.set()
try:
    asyncio.run(main())
except KeyboardInterrupt:
    print("ended")
""")
    assert (out, took < SOON_S) == ("ended\n", True)


def test_an_interrupt_reaches_code_of_ones_own() -> None:
    out, took = interrupted("""
@weir.controller("mine")
class Mine(weir.Controller):
    def on_ack(self, ack):
        self.cwnd = 50.0
LONG["flow"][0]["controller"] = "mine"
print("begins")
try:
    weir.run(LONG)
except KeyboardInterrupt:
    print("ended")
""")
    assert (out, took < SOON_S) == ("ended\n", True)


def test_a_handler_of_ones_own_decides() -> None:
    out, _ = interrupted("""
import signal
heard = []
signal.signal(signal.SIGINT, lambda *_: heard.append(1))
print("begins")
SHORTER = LONG | {"flow": [{"stack": "tcp", "controller": "cubic", "duration": "400s"}]}
run = weir.run(SHORTER)
print(heard, run.was_interrupted)
""")
    assert out in ("[1] False\n", "[] False\n"), "it was heard, or the run was over"


def test_the_interpreters_lock_is_free_meanwhile() -> None:
    out = python("""
import threading
counted = 0
done = threading.Event()
def count():
    global counted
    while not done.is_set():
        counted += 1
thread = threading.Thread(target=count)
thread.start()
SHORTER = LONG | {"flow": [{"stack": "tcp", "controller": "cubic", "duration": "60s"}]}
before = counted
weir.run(SHORTER)
print(counted - before > 10_000)
done.set()
thread.join()
""")
    assert out == "True\n"


def test_threads_run_side_by_side() -> None:
    out = python("""
from concurrent.futures import ThreadPoolExecutor
@weir.controller("mine")
class Mine(weir.Controller):
    def on_ack(self, ack):
        self.cwnd = 20.0
OWN = SHORT | {"flow": [{"stack": "tcp", "controller": "mine", "bytes": "2mb"}]}
with ThreadPoolExecutor(6) as pool:
    print(set(pool.map(run, [SHORT, OWN] * 6)))
""")
    assert out == "{2097152}\n"


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_processes_run_while_threads_do(method: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        LONG
        + f"""
import multiprocessing, threading
if __name__ == "__main__":
    stop = threading.Event()
    def busy():
        while not stop.is_set():
            run()
    threads = [threading.Thread(target=busy) for _ in range(2)]
    for thread in threads:
        thread.start()
    context = multiprocessing.get_context("{method}")
    for _ in range(3):
        with context.Pool(2) as pool:
            print(pool.map(run, [SHORT] * 4))
    stop.set()
    for thread in threads:
        thread.join()
"""
    )
    done = subprocess.run([sys.executable, "-W", "ignore", program], capture_output=True, text=True, timeout=120)
    assert done.stdout.splitlines() == [str([2097152] * 4)] * 3, done.stderr


def test_a_running_loop_goes_on() -> None:
    out = python("""
import asyncio
async def main():
    ticks = 0
    async def tick():
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1
    ticker = asyncio.create_task(tick())
    # In the loop's own thread, as in a notebook's cell; then beside it.
    here = run()
    SHORTER = LONG | {"flow": [{"stack": "tcp", "controller": "cubic", "duration": "60s"}]}
    results = await asyncio.gather(*(asyncio.to_thread(run, given) for given in [SHORT, SHORTER, SHORT]))
    ticker.cancel()
    print(here, results[0], results[2], ticks > 3)
asyncio.run(main())
""")
    assert out == "2097152 2097152 2097152 True\n"


def test_an_error_of_progress_ends_the_call() -> None:
    out = python("""
def progress(done, left, note):
    raise LookupError("enough")
try:
    weir.run(LONG, progress=progress)
except LookupError as error:
    print(error)
""")
    assert out == "enough\n"
