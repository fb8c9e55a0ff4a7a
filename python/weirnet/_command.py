"""The command `weir`, which comes with the package."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from . import _cluster_command


def program() -> Path:
    """The executable of the command, the same that `cargo install` makes."""
    return Path(__file__).parent / "bin" / "weir"


def main() -> None:
    """Becomes the command: no Python is left in the process. Only a sweep on a cluster is made here."""
    if _cluster_command.asked_for(sys.argv[1:]):
        sys.exit(_cluster_command.main(sys.argv[2:]))
    path = program()
    try:
        os.execv(path, ["weir", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"weir: cannot run {path}: {error}; this package was built without the command (make wheel has it)")
