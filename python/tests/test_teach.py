"""Controllers and disciplines written in Python."""

from __future__ import annotations

import collections
from pathlib import Path
from typing import Any

import pytest

import weirnet as weir


def scenario(controller: str = "reno", qdisc: str = "pfifo limit 40p", ecn: bool = False) -> dict[str, Any]:
    return {
        "bottleneck": {"rate": "10mbit", "rtt": "20ms", "qdisc": qdisc},
        "flow": [{"stack": "tcp", "controller": controller, "ecn": ecn, "duration": "10s"}],
    }


def test_a_controller_of_ones_own_carries_data() -> None:
    seen: list[weir.Ack] = []

    @weir.controller("aimd-of-mine", "as reno, in eight lines")
    class Aimd(weir.Controller):
        def start(self) -> None:
            self.slow_start = True
            assert (self.mss, self.cwnd, self.pacing) == (1448, 10.0, None)

        def on_handshake(self, rtt_s: float) -> None:
            assert rtt_s == pytest.approx(0.02)

        def on_ack(self, ack: weir.Ack) -> None:
            if len(seen) < 2000:
                seen.append(ack)
            if ack.is_congestion:
                self.slow_start = False
                self.cwnd = max(self.cwnd / 2, 2.0)
            elif ack.is_window_limited:
                self.cwnd += ack.delivered if self.slow_start else ack.delivered / self.cwnd

    mine = weir.run(scenario("aimd-of-mine"))
    reno = weir.run(scenario("reno"))
    goodput = mine.flows["goodput_bps"][0]
    assert 0.9 < goodput / reno.flows["goodput_bps"][0] < 1.1
    assert mine.flows["controller"] == ["aimd-of-mine"]
    assert weir.controllers()["aimd-of-mine"] == "as reno, in eight lines"
    times = [ack.now_s for ack in seen]
    assert times == sorted(times) and sum(ack.delivered for ack in seen) > 1000
    assert all(ack.rtt_s is None or ack.rtt_s >= 0.02 for ack in seen)
    assert seen[-1].min_rtt_s == pytest.approx(0.02, rel=0.1)
    assert any(ack.is_congestion and ack.lost > 0 for ack in seen)
    again = weir.run(scenario("aimd-of-mine"))
    assert again.flow_series.to_csv() == mine.flow_series.to_csv(), "the same seed, the same bytes"


def test_pacing_and_marks_are_a_controllers() -> None:
    @weir.controller("paced")
    class Paced(weir.Controller):
        ecn = "accurate"
        marks = 0

        def start(self) -> None:
            self.cwnd, self.pacing = 1000.0, 4e6

        def on_ack(self, ack: weir.Ack) -> None:
            type(self).marks += ack.marked

    run = weir.run(scenario("paced"))
    assert 3.5e6 < run.flows["goodput_bps"][0] < 4.2e6
    assert run.flows["ecn"] == [True]
    weir.run(
        scenario("paced", "step threshold 0p limit 100p")
        | {"bottleneck": {"rate": "4mbit", "rtt": "20ms", "qdisc": "step threshold 1p"}}
    )
    assert Paced.marks > 100


def test_a_class_can_be_defined_again(tmp_path: Path) -> None:
    def define(window: float) -> None:
        # As cells of a notebook do: each has a text of its own.
        path = tmp_path / f"cell{window}.py"
        path.write_text(f"""
import weirnet as weir
@weir.controller("again")
class Again(weir.Controller):
    def on_ack(self, ack):
        self.cwnd = {window}
""")
        code = compile(path.read_text(), str(path), "exec")
        exec(code, {"__name__": "__main__"})

    sweep = {"sweep": {"bottleneck.rate": ["10mbit", "20mbit"]}, "scenario": scenario("again")}
    define(4.0)
    few = weir.run(scenario("again")).flows["goodput_bps"][0]
    kept = weir.sweep(sweep, out="out")
    assert weir.sweep(sweep, out="out").reused == 2
    define(8.0)
    assert weir.run(scenario("again")).flows["goodput_bps"][0] > 1.8 * few
    changed = weir.sweep(sweep, out="out")
    assert changed.reused == 0, "another class's cells are not found"
    assert changed.table["goodput_bps"][0] > 1.8 * kept.table["goodput_bps"][0]


def test_what_a_class_throws_comes_out_where_it_was_called() -> None:
    @weir.controller("throws")
    class Throws(weir.Controller):
        def on_ack(self, ack: weir.Ack) -> None:
            if ack.total_delivered > 50:
                raise LookupError("fifty are enough")

    with pytest.raises(LookupError, match="fifty are enough") as raised:
        weir.run(scenario("throws"))
    assert raised.traceback[-1].name == "on_ack"

    @weir.controller("throws")
    class Begins(weir.Controller):
        def start(self) -> None:
            raise LookupError("not today")

    with pytest.raises(LookupError, match="not today"):
        weir.run(scenario("throws"))

    @weir.controller("throws")
    class Nothing(weir.Controller):
        pass

    with pytest.raises(NotImplementedError, match="Nothing has no on_ack"):
        weir.run(scenario("throws"))

    @weir.controller("throws")
    class Senseless(weir.Controller):
        def on_ack(self, ack: weir.Ack) -> None:
            self.cwnd = float("nan")

    with pytest.raises(ValueError, match="controller 'throws': cwnd is NaN"):
        weir.run(scenario("throws"))


def test_names_and_classes_are_checked() -> None:
    class Fine(weir.Controller):
        def on_ack(self, ack: weir.Ack) -> None: ...

    with pytest.raises(weir.WeirError, match="there is a congestion control 'reno' already"):
        weir.controller("reno")(Fine)
    with pytest.raises(weir.WeirError, match="cannot name a congestion control"):
        weir.controller("My Own")(Fine)
    with pytest.raises(weir.WeirError, match="there is a queue discipline 'codel' already"):
        weir.discipline("codel")(type("Mine", (weir.Discipline,), {}))
    with pytest.raises(TypeError, match=r"inherits weirnet.Controller"):
        weir.controller("mine")(dict)  # type: ignore[type-var]
    with pytest.raises(ValueError, match="ecn: there is no 'clasic'; did you mean 'classic'"):
        weir.controller("mine")(type("Mine", (Fine,), {"ecn": "clasic"}))
    weir.controller("fine")(Fine)
    with pytest.raises(weir.ScenarioError, match="'fine' is a Python class, which runs in world sim alone"):
        weir.run(scenario("fine") | {"flow": [{"stack": "quic", "controller": "fine", "duration": "1s"}]}, on="emu")


class Fifo(weir.Discipline):
    """Drop-tail, as pfifo is."""

    def start(self) -> None:
        self.packets: collections.deque[weir.Packet] = collections.deque()

    def enqueue(self, packet: weir.Packet, now_s: float) -> None:
        if len(self.packets) == self.limit:
            packet.drop()
        else:
            self.packets.append(packet)

    def dequeue(self, now_s: float) -> weir.Packet | None:
        return self.packets.popleft() if self.packets else None


def test_a_discipline_of_ones_own_is_the_same_as_weirs() -> None:
    weir.discipline("fifo-of-mine")(Fifo)
    mine = weir.run(scenario("cubic", "fifo-of-mine limit 40"))
    pfifo = weir.run(scenario("cubic", "pfifo limit 40p"))
    for name in ("flows", "queues", "sojourn", "queue_series", "rtt"):
        assert mine.tables[name].to_csv() == pfifo.tables[name].to_csv(), name
    assert "fifo-of-mine" in weir.disciplines()
    with pytest.raises(weir.ScenarioError, match="limit"):
        weir.run(scenario("cubic", "fifo-of-mine limt 40"))


def test_a_discipline_may_drop_and_mark_at_the_head() -> None:
    @weir.discipline("old-ones-go")
    class OldOnesGo(Fifo):
        def dequeue(self, now_s: float) -> weir.Packet | None:
            while len(self.packets) > 1 and now_s - self.packets[0].arrived_s > self.target_s:
                if self.packets[0].mark():
                    break
                self.packets.popleft().drop()
            return super().dequeue(now_s)

    late = weir.run(scenario("cubic", "old-ones-go target 8ms"))
    assert late.queues["aqm_dropped_packets"][0] > 0 and late.queues["marked_packets"] == [0]
    assert late.queues["sojourn_max_ms"][0] < 9.5
    marked = weir.run(scenario("cubic", "old-ones-go target 8ms", ecn=True))
    assert marked.queues["marked_packets"][0] > 0 and marked.flows["dropped"] == [0]
    assert not late.warnings and not marked.warnings, "no packet was lost sight of"


def test_a_discipline_that_loses_packets_is_told_so() -> None:
    @weir.discipline("loses")
    class Loses(Fifo):
        def dequeue(self, now_s: float) -> weir.Packet | None:
            return None

    with pytest.raises(ValueError, match="dequeue returned None, but 1 packets are queued"):
        weir.run(scenario("cubic", "loses"))

    @weir.discipline("loses")
    class Doubles(Fifo):
        def dequeue(self, now_s: float) -> weir.Packet | None:
            return self.packets[0] if self.packets else None

    with pytest.raises(ValueError, match="a packet that is not queued"):
        weir.run(scenario("cubic", "loses"))

    @weir.discipline("loses")
    class Guesses(Fifo):
        def dequeue(self, now_s: float) -> Any:
            return 7

    with pytest.raises(TypeError, match="must return a packet or None"):
        weir.run(scenario("cubic", "loses"))

    @weir.discipline("loses")
    class Unable(Fifo):
        def start(self) -> None:
            raise LookupError("nothing there")

    with pytest.raises(weir.ScenarioError, match="the class of 'loses' cannot begin: LookupError: nothing there"):
        weir.run(scenario("cubic", "loses"))
