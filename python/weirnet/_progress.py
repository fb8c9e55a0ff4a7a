"""How far a call is: a bar in a notebook, a line on a terminal, or whatever a caller makes of it."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from typing import Any

#: Called with the part that is done, the seconds that are left or None, and what is at work.
ProgressCallback = Callable[[float, float | None, str], object]
#: None shows a bar in a notebook; True shows one anywhere; False shows none.
Progress = ProgressCallback | bool | None

# What is over sooner needs no bar.
PATIENCE_S = 0.7


def in_notebook() -> bool:
    """Whether a notebook's kernel runs this."""
    ipython = sys.modules.get("IPython")
    if ipython is None:
        return False
    shell = ipython.get_ipython()
    return shell is not None and hasattr(shell, "kernel")


class _Bar:
    def __init__(self, *, html: bool) -> None:
        self.began = time.monotonic()
        self.html = html
        self.handle: Any = None

    def __call__(self, done: float, left: float | None, note: str) -> None:
        if time.monotonic() - self.began < PATIENCE_S:
            return
        words = f"{done:4.0%}" + ("" if left is None else f", {left:.0f} s left") + (f"  {note}" if note else "")
        if not self.html:
            sys.stderr.write(f"\r\x1b[K{words}")
            sys.stderr.flush()
            self.handle = True
            return
        ipython: Any = importlib.import_module("IPython.display")
        line = f'<progress value="{done:.4f}" max="1" style="width:40%"></progress> <code>{_escaped(words)}</code>'
        bar = ipython.HTML(line)
        if self.handle is None:
            self.handle = ipython.display(bar, display_id=True)
        else:
            self.handle.update(bar)

    def close(self) -> None:
        if self.handle is None:
            return
        if self.html:
            ipython: Any = importlib.import_module("IPython.display")
            self.handle.update(ipython.HTML(""))
        else:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")


class Shown:
    """A progress for the time of a call."""

    def __init__(self, progress: Progress) -> None:
        self.bar: _Bar | None = None
        self.call: ProgressCallback | None = None
        if callable(progress):
            self.call = progress
        elif progress is not None and not isinstance(progress, bool):
            raise TypeError(f"progress: give a function of three arguments, True, False or None, not {type(progress)}")
        elif progress or (progress is None and in_notebook()):
            self.bar = self.call = _Bar(html=in_notebook())

    def __enter__(self) -> ProgressCallback | None:
        return self.call

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.close()
