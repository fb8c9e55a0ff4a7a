"""What can go wrong, in the words of the command `weir`."""

from __future__ import annotations

from typing import Any


class WeirError(Exception):
    """Anything that Weir refuses or fails at; the more exact ones are below."""


class ScenarioError(WeirError, ValueError):
    """A scenario, a sweep, a figure or an option that cannot be. The message names the key and what would be right."""


class RunError(WeirError, RuntimeError):
    """A run that could not be made or finished, as where the kernel or a right is missing."""


class OutputError(WeirError, OSError):
    """Results that could not be written."""


class CaptureError(WeirError, ValueError):
    """A capture that cannot be opened or read."""


class PlotError(WeirError):
    """A plot that cannot be drawn or saved."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a run. `result` has what was done until then; where results are kept in files, they are there."""

    result: Any = None
