"""Weir, a bottleneck you can see into: scenarios of congestion control, run, measured and judged.

>>> import weirnet as weir
>>> run = weir.run({
...     "bottleneck": {"rate": "20mbit", "rtt": "40ms", "qdisc": "codel"},
...     "flow": [{"stack": "tcp", "controller": "cubic", "duration": "10s"}],
... })
>>> run.flows["goodput_bps"][0] > 15e6
True

`pandas.DataFrame.from_arrow(run.flows)`, `polars.DataFrame(run.flows)` and DuckDB read the tables without a copy.
"""

from __future__ import annotations

from . import _weirnet, errors
from ._api import World, assess, figure, figures, run, sweep
from ._command import program
from ._weirnet import Ack, Assessment, Figure, Packet, Run, Sweep, Table, __version__
from .errors import CaptureError, Interrupted, OutputError, PlotError, RunError, ScenarioError, WeirError
from .teach import Controller, Discipline, controller, controllers, discipline, disciplines

__all__ = [
    "Ack",
    "Assessment",
    "CaptureError",
    "Controller",
    "Discipline",
    "Figure",
    "Interrupted",
    "OutputError",
    "Packet",
    "PlotError",
    "Run",
    "RunError",
    "ScenarioError",
    "Sweep",
    "Table",
    "WeirError",
    "World",
    "__version__",
    "assess",
    "controller",
    "controllers",
    "discipline",
    "disciplines",
    "errors",
    "figure",
    "figures",
    "program",
    "run",
    "sweep",
]

# Micro-VMs are given the command, which is another program than this one.
_weirnet.set_program(program())
