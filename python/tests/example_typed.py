"""What `mypy --strict` sees of the package: test_typing.py."""

from __future__ import annotations

import weirnet as weir


@weir.controller("typed")
class Typed(weir.Controller):
    """A controller with types."""

    def on_ack(self, ack: weir.Ack) -> None:
        rtt: float | None = ack.rtt_s
        self.cwnd += ack.delivered / self.cwnd if rtt is not None else 0.0


@weir.discipline("typed")
class TypedFifo(weir.Discipline):
    """A discipline with types."""

    def start(self) -> None:
        self.packets: list[weir.Packet] = []

    def enqueue(self, packet: weir.Packet, now_s: float) -> None:
        self.packets.append(packet)

    def dequeue(self, now_s: float) -> weir.Packet | None:
        return self.packets.pop(0) if self.packets else None


def rates(scenario: dict[str, object]) -> dict[str, float]:
    """Each flow's goodput."""
    try:
        run: weir.Run = weir.run(scenario, seed=1, progress=lambda done, left, note: None)
    except weir.ScenarioError as error:
        raise SystemExit(str(error)) from error
    table: weir.Table = run.flows
    return dict(zip(table["flow"], table["goodput_bps"], strict=True))


def swept(path: str) -> list[str]:
    """The keys of a sweep."""
    made: weir.Sweep = weir.sweep(path, jobs=2)
    return made.keys


if __name__ == "__main__":
    print(rates({"bottleneck": {}}), swept("sweep.toml"))
