"""Controllers and queue disciplines written in Python, for teaching and for trying an idea out: in world `sim`
alone, and some fifteen times slower than those in Rust."""

from __future__ import annotations

import hashlib
import inspect
import random as _random
import uuid
from collections.abc import Callable
from typing import ClassVar, TypeVar

from . import _weirnet
from ._weirnet import Ack, Packet

C = TypeVar("C", bound="Controller")
D = TypeVar("D", bound="Discipline")


class Controller:
    """A congestion controller. Each flow has an object of the class; what it sets in `cwnd` and `pacing` counts.

    @weir.controller("halving")
    class Halving(weir.Controller):
        def on_ack(self, ack):
            if ack.is_congestion:
                self.cwnd /= 2
            else:
                self.cwnd += ack.delivered / self.cwnd
    """

    #: How its packets take part in ECN: "off", "classic" (RFC 3168), "accurate" (each mark is reported) or "scalable"
    #: (the same with ECT(1)).
    ecn: ClassVar[str] = "off"

    #: Payload bytes of a full packet.
    mss: int
    #: Packets that may be in flight: 10 to begin with, never fewer than 1.
    cwnd: float
    #: The rate of payload in bit/s; None sends as the window allows.
    pacing: float | None
    #: Draws of the flow's own, which its run's seed decides.
    random: _random.Random

    def start(self) -> None:
        """The connection begins; what a class needs besides is set here."""

    def on_handshake(self, rtt_s: float) -> None:
        """The handshake took that long: the first that is known of the round trip."""

    def on_ack(self, ack: Ack) -> None:
        """An acknowledgement came, or packets were declared lost."""
        raise NotImplementedError(f"{type(self).__name__} has no on_ack")

    def on_timeout(self, now_s: float) -> None:
        """Nothing was heard for so long that all in flight is held lost. One packet goes out by default."""
        self.cwnd = 1.0


class Discipline:
    """A queue discipline. Each packet that comes is kept or dropped by `enqueue` and leaves by `dequeue`.

    @weir.discipline("shortfifo")
    class ShortFifo(weir.Discipline):
        limit = 20

        def start(self):
            self.packets = collections.deque()

        def enqueue(self, packet, now_s):
            if len(self.packets) == self.limit:
                packet.drop()
            else:
                self.packets.append(packet)

        def dequeue(self, now_s):
            return self.packets.popleft() if self.packets else None
    """

    #: The link's rate in bit/s and the round trip without queues in seconds.
    rate_bps: int
    rtt_s: float
    #: What a scenario may say behind the name: `qdisc = "shortfifo limit 50 target 5ms"`. The class has the defaults.
    limit: int = 1000
    target_s: float = 0.005

    def start(self) -> None:
        """A run begins, with an empty queue."""

    def enqueue(self, packet: Packet, now_s: float) -> None:
        """A packet comes: keep it, or `packet.drop()`. Others may be dropped for it."""
        raise NotImplementedError(f"{type(self).__name__} has no enqueue")

    def dequeue(self, now_s: float) -> Packet | None:
        """The packet that goes next, marked or not, and None if none is queued. Others may be dropped before it."""
        raise NotImplementedError(f"{type(self).__name__} has no dequeue")


def controller(name: str, what: str = "a Python class") -> Callable[[type[C]], type[C]]:
    """Makes a class known as the controller `name`. The same name again replaces the class, as a notebook's cell does
    that is run again; names of Weir's own cannot be taken."""

    def known(cls: type[C]) -> type[C]:
        _demand(cls, Controller, "controller")
        _weirnet.register_controller(name, what, cls, _code(cls))
        return cls

    return known


def discipline(name: str) -> Callable[[type[D]], type[D]]:
    """Makes a class known as the queue discipline `name`, as `controller` does for controllers."""

    def known(cls: type[D]) -> type[D]:
        _demand(cls, Discipline, "discipline")
        _weirnet.register_discipline(name, cls, _code(cls))
        return cls

    return known


def controllers() -> dict[str, str]:
    """All controllers, each with a few words."""
    return dict(_weirnet.controllers())


def disciplines() -> list[str]:
    """All queue disciplines."""
    return _weirnet.disciplines()


def _demand(cls: object, base: type, what: str) -> None:
    if not (isinstance(cls, type) and issubclass(cls, base)):
        raise TypeError(f"a {what} is a class that inherits weirnet.{base.__name__}, not {cls!r}")


def _code(cls: type) -> str:
    """A word that changes whenever the text of the class or of what it inherits does: cells of a sweep are kept under
    it. What the class reads besides, such as a global variable, is not in it."""
    try:
        texts = [inspect.getsource(part) for part in cls.__mro__ if part.__module__ not in ("builtins", __name__)]
    except (OSError, TypeError):
        return uuid.uuid4().hex
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]
