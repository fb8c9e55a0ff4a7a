"""What the tests share: a small scenario, a sweep over it, and the command that came with the package."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

import weirnet as weir

# A shell may have started the tests with interrupts ignored, which their children would inherit.
signal.signal(signal.SIGINT, signal.default_int_handler)

SCENARIO = """\
seed = 7
[bottleneck]
rate = "10mbit"
rtt = "20ms"
qdisc = "pfifo limit 40p"
[[flow]]
name = "one"
stack = "tcp"
controller = "cubic"
duration = "3s"
[[flow]]
stack = "quic"
controller = "reno"
start = "0.5s"
bytes = "500kb"
[[flow]]
stack = "udp"
rate = "1mbit"
[[workload]]
name = "web"
kind = "requests"
stack = "tcp"
controller = "cubic"
size = "20kb"
think = "100ms"
requests = 5
"""

SWEEP = """\
repeat = 2
scenario = "base.toml"
[sweep]
bottleneck.rate = ["5mbit", "10mbit"]
flow.0.controller = ["reno", "cubic", "bbr"]
"""


def as_dict() -> dict[str, Any]:
    """SCENARIO once more."""
    return {
        "seed": 7,
        "bottleneck": {"rate": "10mbit", "rtt": "20ms", "qdisc": "pfifo limit 40p"},
        "flow": [
            {"name": "one", "stack": "tcp", "controller": "cubic", "duration": "3s"},
            {"stack": "quic", "controller": "reno", "start": "0.5s", "bytes": "500kb"},
            {"stack": "udp", "rate": "1mbit"},
        ],
        "workload": [
            {
                "name": "web",
                "kind": "requests",
                "stack": "tcp",
                "controller": "cubic",
                "size": "20kb",
                "think": "100ms",
                "requests": 5,
            }
        ],
    }


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results go where nobody looks for them."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "base.toml"
    path.write_text(SCENARIO)
    return path


@pytest.fixture
def sweep(scenario: Path) -> Path:
    path = scenario.with_name("sweep.toml")
    path.write_text(SWEEP)
    return path


def command(*words: str | Path, code: int = 0, real: bool = False) -> subprocess.CompletedProcess[str]:
    """Runs the command `weir` of the package. A run on real packets may warn that the machine was late."""
    done = subprocess.run([weir.program(), *words], capture_output=True, text=True, timeout=120)
    warned = real and done.returncode == 3 and "warning" in done.stderr
    assert done.returncode == code or warned, done.stderr
    return done


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """The lines that .ci/run counts, as cargo's tests print them."""
    stats = terminalreporter.stats
    count = {name: len(stats.get(name, [])) for name in ("passed", "failed", "error", "skipped")}
    for report in stats.get("skipped", []):
        terminalreporter.write_line(f"SKIPPED python {report.nodeid}: {report.longrepr[2].removeprefix('Skipped: ')}")
    failed = count["failed"] + count["error"]
    words = f"{count['passed']} passed; {failed} failed; {count['skipped']} ignored; of the Python package"
    terminalreporter.write_line(f"test result: {'FAILED' if failed else 'ok'}. {words}")
