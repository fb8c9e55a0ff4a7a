"""The types of the package."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import weirnet as weir
from weirnet import _weirnet

HERE = Path(__file__).parent


def mypy(*words: str | Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", *words],
        capture_output=True, text=True, cwd=HERE.parent, timeout=300,
    )  # fmt: skip
    return done.stdout + done.stderr


def test_mypy_has_nothing_to_say() -> None:
    assert mypy("weirnet", HERE / "example_typed.py") == ""


def test_mypy_sees_a_slip(tmp_path: Path) -> None:
    slip = tmp_path / "slip.py"
    slip.write_text("import weirnet as weir\nweir.run({}, on='sym').flows['a'].upper()\nweir.run({}, sead=1)\n")
    said = mypy(slip)
    for words in ('"Literal[', '"upper"', '"sead"'):
        assert words in said, said


def test_the_stubs_name_what_there_is() -> None:
    """Every class, method and function of the module has its place in the stubs, and nothing else has."""
    tree = ast.parse(Path(weir.__file__).with_name("_weirnet.pyi").read_text())
    stubs = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    own = {name for name in vars(_weirnet) if not name.startswith("__")} - {"Statement"}
    assert own == set(stubs) - {"Statement"}
    tables = set(vars(_weirnet.Run)) | {
        "flows", "queues", "sojourn", "flow_sojourn", "queue_series", "flow_series", "rtt", "requests",
        "detections", "assessments", "choices",
    }  # fmt: skip
    for name, node in stubs.items():
        if not isinstance(node, ast.ClassDef) or name == "Statement":
            continue
        found = tables if name == "Run" else set(vars(getattr(_weirnet, name)))
        listed = {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
        listed |= {item.target.id for item in node.body if isinstance(item, ast.AnnAssign)}  # type: ignore[union-attr]
        plain = {
            "__repr__",
            "__str__",
            "__doc__",
            "__module__",
            "__getattribute__",
            "__getattr__",
            "__dir__",
            "__new__",
        }
        assert listed - plain == found - plain, name


@pytest.mark.parametrize("name", weir.__all__)
def test_what_is_exported_is_documented(name: str) -> None:
    thing = getattr(weir, name)
    assert name in ("World", "__version__") or (thing.__doc__ or "").strip(), name
