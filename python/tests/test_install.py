"""The wheel in environments that have nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WHEELS = Path(os.environ.get("WEIR_WHEELS", ROOT / "target" / "python" / "wheels"))

SAY = """
import sys, weirnet as weir
run = weir.run({"bottleneck": {"rate": "10mbit", "rtt": "20ms", "qdisc": "codel"},
                "flow": [{"stack": "tcp", "controller": "cubic", "bytes": "1mb"}]})
assert "numpy" not in sys.modules and "matplotlib" not in sys.modules
print(sys.version_info[:2], run.flows["received_bytes"], weir.__version__)
"""


def wheel() -> Path:
    wheels = sorted(WHEELS.glob("weirnet-*.whl"), key=lambda path: path.stat().st_mtime)
    assert wheels, f"no wheel in {WHEELS}"
    return wheels[-1]


def interpreter(version: str) -> str | None:
    """A bare Python of a version, from wherever this machine keeps one."""
    if f"{sys.version_info[0]}.{sys.version_info[1]}" == version:
        return sys._base_executable if hasattr(sys, "_base_executable") else sys.executable
    pyenv = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python3"))
    return str(pyenv[-1]) if pyenv else shutil.which(f"python{version}")


@pytest.mark.parametrize("version", ["3.11", "3.13"])
def test_the_wheel_is_all_that_it_takes(version: str, tmp_path: Path) -> None:
    python = interpreter(version)
    if python is None:
        pytest.skip(f"there is no Python {version} here")
    env = tmp_path / "env"
    subprocess.run([python, "-m", "venv", env], check=True, timeout=120)
    installed = [env / "bin" / "pip", "install", "--no-index", "--no-deps", "--quiet", wheel()]
    subprocess.run([*installed, "--disable-pip-version-check"], check=True, timeout=120)
    clean = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    said = subprocess.run([env / "bin" / "python", "-c", SAY], capture_output=True, text=True, env=clean, timeout=60)
    assert said.returncode == 0, said.stderr
    release = tuple(map(int, version.split(".")))
    assert said.stdout.startswith(f"{release} [1048576] ")
    command = [env / "bin" / "weir", "--version"]
    said = subprocess.run(command, capture_output=True, text=True, env=clean, timeout=60)
    assert said.stdout.startswith("weir "), said.stderr
    command = [env / "bin" / "python", "-m", "weirnet", "run"]
    said = subprocess.run(command, capture_output=True, text=True, env=clean, timeout=60)
    assert said.returncode == 2 and "Usage: weir run" in said.stderr, "it is the command itself"


def test_the_wheel_has_what_belongs_in_it() -> None:
    with zipfile.ZipFile(wheel()) as archive:
        names = archive.namelist()
        mode = archive.getinfo("weirnet/bin/weir").external_attr >> 16
        (metadata,) = [name for name in names if name.endswith("METADATA")]
        text = archive.read(metadata).decode()
    assert mode & 0o111, "the command can be executed"
    assert "cp311-abi3-" in wheel().name
    for ending in ("LICENSE-APACHE", "LICENSE-MIT", "LICENSE-GPL-2.0", "LICENSE-BSD-2", "py.typed", "_weirnet.pyi"):
        assert any(name.endswith(ending) for name in names), ending
    assert not any("tests" in name or name.endswith(".rs") for name in names)
    assert "License-Expression: (MIT OR Apache-2.0) AND (GPL-2.0-only OR BSD-2-Clause)" in text
