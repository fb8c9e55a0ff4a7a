"""Wrong input says what the command says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import as_dict, command

import weirnet as weir

WRONG = {
    "unknown key": ('rtt = "20ms"', 'rrt = "20ms"'),
    "unit": ('"10mbit"', '"10mbitt"'),
    "type": ("seed = 7", 'seed = "seven"'),
    "key of a flow": ('controller = "cubic"', 'controler = "cubic"'),
    "discipline": ("pfifo limit 40p", "pfifo limt 40p"),
    "what cannot be": ('"10mbit"', '"0mbit"'),
    "no TOML": ("[bottleneck]", "[bottleneck"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_file_is_refused_in_the_commands_words(scenario: Path, what: str) -> None:
    scenario.write_text(scenario.read_text().replace(*WRONG[what], 1))
    theirs = command("run", scenario, "--on", "sim", code=1).stderr
    with pytest.raises(weir.ScenarioError) as raised:
        weir.run(scenario)
    assert theirs.removeprefix("weir: ").strip() == str(raised.value).strip()
    assert isinstance(raised.value, ValueError) and isinstance(raised.value, weir.WeirError)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"seed": "seven"}, "seed"),
        ({"sed": 7}, "did you mean `seed`?"),
        ({"bottleneck": {"rate": "10mbit", "rtt": "20 parsec", "qdisc": "pfifo"}}, "parsec"),
        ({"bottleneck": {"rate": "10mbit", "rtt": "20ms", "qdisc": "pfifu"}}, "did you mean 'pfifo'?"),
        ({"flow": [{"stack": "tcp", "controller": "qubic", "bytes": "1mb"}]}, "did you mean 'cubic'?"),
        ({"flow": []}, "a scenario needs at least one"),
        ({"seed": 1 << 70}, "too large a number"),
        # What a file's parser says is about lines that nobody has written here: the key stands in their place.
        ({"bottleneck": {"rate": "10mbyte", "rtt": "20ms", "qdisc": "pfifo"}}, "dict: bottleneck.rate: '10mbyte' is"),
        ({"bottleneck": {"rate": 10e6, "rtt": "20ms", "qdisc": "pfifo"}}, "dict: bottleneck.rate: this is neither"),
        (
            {"bottleneck": {"rate": "10mbit", "rtt": ["20ms"], "qdisc": "pfifo"}},
            "dict: bottleneck.rtt: this is neither",
        ),
        ({"bottleneck": {"rate": "10mbit", "qdisc": "pfifo"}}, "dict: bottleneck: missing field `rtt`"),
        ({"flow": [{"stack": "tpc", "controller": "cubic", "bytes": "1mb"}]}, "dict: flow.0.stack: unknown variant"),
        ({"flow": {"stack": "tcp"}}, "dict: flow: invalid type"),
        ({"bottleneck": None}, "dict: missing field `bottleneck`"),
        ({"scenario": {"bottleneck": {}}}, "dict: scenario: unknown field `scenario`"),
    ],
)
def test_a_dict_is_refused_with_its_key(change: dict[str, Any], words: str) -> None:
    given = as_dict() | change
    given.pop("workload" if "flow" in change else "", None)
    with pytest.raises(weir.ScenarioError) as raised:
        weir.run(given)
    assert words in str(raised.value) and str(raised.value).startswith("dict: ")
    assert "at line" not in str(raised.value)


def test_a_dict_in_itself_is_refused() -> None:
    given = as_dict()
    given["flow"][0]["bursts"] = given
    with pytest.raises(weir.ScenarioError, match=r"^dict: flow\.0\.bursts\.flow\..* does one contain itself"):
        weir.run(given)
    lists: list[Any] = []
    lists.append(lists)
    with pytest.raises(weir.ScenarioError, match="does one contain itself"):
        weir.run(as_dict() | {"flow": lists})


def test_the_text_of_a_file_is_no_path(scenario: Path) -> None:
    with pytest.raises(weir.ScenarioError, match=r"tomllib\.loads"):
        weir.run(scenario.read_text())


def test_a_line_of_a_dict_is_not_named() -> None:
    given = as_dict()
    given["flow"][1]["controller"] = "qubic"
    with pytest.raises(weir.ScenarioError, match=r"^dict: flow 2 \('QUIC.*'\): controller: ") as raised:
        weir.run(given)
    assert "line" not in str(raised.value)


@pytest.mark.parametrize("given", [None, 7, ["a"], {"bottleneck": object()}, {"name": b"x"}, {1: 2}])
def test_what_is_no_scenario_is_a_type_error(given: Any) -> None:
    with pytest.raises(TypeError):
        weir.run(given)
    with pytest.raises(TypeError):
        weir.sweep(given)


def test_a_sweep_is_refused_in_the_commands_words(sweep: Path) -> None:
    sweep.write_text(sweep.read_text().replace("flow.0.controller", "flow.0.contoller"))
    theirs = command("sweep", sweep, code=1).stderr
    with pytest.raises(weir.ScenarioError) as raised:
        weir.sweep(sweep)
    assert theirs.removeprefix("weir: ").strip() == str(raised.value)
    of_a_dict = {"sweep": {"bottleneck.rate": ["5mbit", "10mbyte"]}, "scenario": as_dict()}
    with pytest.raises(weir.ScenarioError, match=r"^dict: sweep\.bottleneck\.rate.*'10mbyte' is not a rate"):
        weir.sweep(of_a_dict)
    for jobs in (0, -1):
        with pytest.raises(weir.ScenarioError, match="^jobs: .*from 1"):
            weir.sweep({"sweep": {"seed": [1]}, "scenario": as_dict()}, jobs=jobs)


def test_options_are_refused_by_name(scenario: Path) -> None:
    with pytest.raises(weir.ScenarioError, match="on: no world is called 'sym'; did you mean 'sim'"):
        weir.run(scenario, on="sym")  # type: ignore[arg-type]
    with pytest.raises(weir.ScenarioError, match="pcap: it is a file"):
        weir.run(scenario, pcap=True)
    for wrong in ({"seed": -1}, {"seed": 1 << 64}, {"run": -1}):
        with pytest.raises(weir.ScenarioError, match=f"^{next(iter(wrong))}: .* cannot be; give a whole number from 0"):
            weir.run(scenario, **wrong)
    with pytest.raises(weir.ScenarioError, match="^runs: 0 cannot be"):
        weir.figure("crq/5", runs=0)
    with pytest.raises(TypeError, match="progress: give a function"):
        weir.run(scenario, progress=5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="sead"):
        weir.run(scenario, sead=3)  # type: ignore[call-arg]
    with pytest.raises(weir.ScenarioError, match="crq/5"):
        weir.figure("crq/55")
    with pytest.raises(weir.ScenarioError, match="has no variant"):
        weir.figure("crq/5", variant="none")


def test_files_that_cannot_be_are_told(scenario: Path, tmp_path: Path) -> None:
    with pytest.raises(weir.ScenarioError, match=r"cannot read nowhere.toml"):
        weir.run("nowhere.toml")
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(weir.OutputError, match="results need a directory") as raised:
        weir.run(scenario, out=file / "inside")
    assert isinstance(raised.value, OSError)
    with pytest.raises(weir.CaptureError, match=r"cannot open the capture nowhere.pcap"):
        weir.assess("nowhere.pcap")
    file.write_text("no capture at all, as anyone can see")
    with pytest.raises(weir.CaptureError, match="file"):
        weir.assess(file)


def test_parameters_of_the_law_are_checked(scenario: Path) -> None:
    weir.run(scenario, out="out", pcap=True)
    capture = "out/packets.pcapng"
    made = weir.assess(capture, preset="robust", set={"min_window_segments": 3})
    assert made.report["params"]["min_window_segments"] == 3
    with pytest.raises(weir.ScenarioError, match="did you mean 'min_window_segments'"):
        weir.assess(capture, set={"min_windw_segments": 3})
    with pytest.raises(weir.ScenarioError, match="use paper, comsys or robust"):
        weir.assess(capture, preset="papers")  # type: ignore[arg-type]
