"""`weir.run` beside `weir run`."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from conftest import as_dict, command

import weirnet as weir


def test_tables_are_the_commands_to_the_byte(scenario: Path) -> None:
    command("run", scenario, "--on", "sim", "--out", "theirs")
    run = weir.run(scenario, out="ours")
    theirs = {path.name: path.read_bytes() for path in Path("theirs").iterdir()}
    ours = {path.name: path.read_bytes() for path in Path("ours").iterdir()}
    assert ours == theirs
    tables = {f"{name}.csv": table.to_csv().encode() for name, table in run.tables.items()}
    assert tables == {name: content for name, content in theirs.items() if name.endswith(".csv")}
    assert len(tables) == 10, "all tables that such a run has"
    assert run.to_json().encode() == theirs["run.json"]
    assert run.page().encode() == theirs["report.html"]
    assert {path.name for path in run.save("again")} == set(theirs)


def test_a_dict_is_a_file(scenario: Path) -> None:
    file, table = weir.run(scenario), weir.run(as_dict())
    assert table.tables.keys() == file.tables.keys()
    for name, one in file.tables.items():
        assert one.to_csv() == table.tables[name].to_csv(), name
    assert (file.name, table.name) == ("base", "run")


def test_seed_and_run_are_the_commands(scenario: Path) -> None:
    scenario.write_text(scenario.read_text().replace("[[workload]]", "[[workload]]\nseed_is = 1", 0))
    command("run", scenario, "--on", "sim", "--seed", "3", "--run", "2", "--out", "theirs")
    run = weir.run(scenario, seed=3, run=2)
    assert run.requests.to_csv() == Path("theirs/requests.csv").read_text()
    assert run.meta["meta"]["seed"] == {"seed": 3, "run": 2}
    assert json.loads(run.to_json()) == run.meta


def test_captures_and_traces_are_files(scenario: Path) -> None:
    weir.run(scenario, out="ours", pcap=True, trace=True)
    command("run", scenario, "--on", "sim", "--pcap", "--trace", "--out", "theirs")
    for name in ("packets.pcapng", "packets.tr"):
        assert Path("ours", name).read_bytes() == Path("theirs", name).read_bytes()
    flows = weir.assess("ours/packets.pcapng").flows
    assert "TCP" in flows["stack"]
    theirs = command("assess", "theirs/packets.pcapng", "--json").stdout
    assert weir.assess("ours/packets.pcapng").to_json() == theirs.rstrip("\n")


def test_a_run_shows_itself(scenario: Path) -> None:
    run = weir.run(scenario)
    words = str(run)
    assert words in command("run", scenario, "--on", "sim").stdout
    html = run._repr_html_()
    assert "goodput" in html and "<pre>" in html
    table = run.flows._repr_html_()
    assert table.count("<tr>") == 1 + len(run.flows) and "<th>goodput_bps</th>" in table
    assert repr(run) == "<weirnet.Run 'base' in world sim, seed 7, run 0>"
    assert "flow_series" in dir(run)


def test_names_cannot_inject_html() -> None:
    given = as_dict()
    given["flow"][0]["name"] = "<script>alert(1)</script>"
    run = weir.run(given)
    for html in (run._repr_html_(), run.flows._repr_html_()):
        assert "<script" not in html and "&lt;script" in html


def test_numbers_and_paths_of_other_kinds_are_taken() -> None:
    import numpy as np

    given = as_dict()
    given["seed"] = np.int64(7)
    given["flow"][2]["count"] = np.int32(2)
    given["flow"] = tuple(given["flow"])
    given["bottleneck"]["loss"] = None
    run = weir.run(given)
    assert run.meta["meta"]["seed"]["seed"] == 7
    assert [name for name in run.flows["flow"] if name.startswith("UDP")] == ["UDP 1", "UDP 2"]


def test_progress_is_told(scenario: Path) -> None:
    scenario.write_text(scenario.read_text().replace('"3s"', '"200s"').replace("10mbit", "100mbit"))
    told: list[tuple[float, float | None, str]] = []
    weir.run(scenario, progress=lambda *step: told.append(step))
    parts = [done for done, _, _ in told]
    assert parts == sorted(parts) and parts and 0 < parts[0] <= 1
    assert told[0][2] == "base"


def test_figures_are_the_commands() -> None:
    known = json.loads(command("figure", "list", "--json").stdout)
    assert weir.figures() == known
    made = weir.figure("crq/5", quick=True, only="CoDel drop, 5ms", out="ours")
    command(
        "figure", "run", "crq/5", "--on", "sim", "--quick", "--only", "CoDel drop, 5ms", "--out", "theirs", "--json"
    )
    ours, theirs = made.meta, json.loads(Path("theirs/figure.json").read_text())
    assert ours["rows"] == theirs["rows"] and len(made.table) == len(theirs["rows"]) > 0
    assert ours["statements"] == theirs["statements"] == made.statements
    assert Path("ours/figure.txt").read_text() == Path("theirs/figure.txt").read_text()
    assert "<pre>" in made._repr_html_() and made.page() == Path("ours/figure.html").read_text()


@pytest.mark.skipif(os.geteuid() != 0, reason="root: it runs in network namespaces")
def test_a_run_on_real_packets_is_the_commands() -> None:
    """In this process as in the command's: the same tables, and all that was asked for arrives."""
    text = """\
[bottleneck]
rate = "20mbit"
rtt = "10ms"
qdisc = "bfifo limit 2bdp"
[[flow]]
stack = "tcp"
controller = "cubic"
bytes = "500kb"
[[flow]]
stack = "quic"
controller = "weir-cubic"
bytes = "500kb"
"""
    Path("real.toml").write_text(text)
    command("run", "real.toml", "--on", "emu", "--out", "theirs", real=True)
    open_files, threads = len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))
    run = weir.run("real.toml", on="emu", out="ours")
    assert (run.meta["meta"]["world"], run.was_interrupted) == ("emu", False)
    assert run.flows["wanted_bytes"] == [500 << 10] * 2
    assert all(received >= 500 << 10 for received in run.flows["received_bytes"])
    assert len(os.listdir("/proc/self/fd")) == open_files and len(os.listdir("/proc/self/task")) <= threads
    names = {path.name for path in Path("theirs").iterdir()}
    assert {path.name for path in Path("ours").iterdir()} == names
    for name in (name for name in names if name.endswith(".csv")):
        ours, theirs = (Path(folder, name).read_text().split("\n", 1)[0] for folder in ("ours", "theirs"))
        assert ours == theirs, name
