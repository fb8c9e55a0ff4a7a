"""Tables in the hands of others."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pandas
import polars
import pyarrow
import pytest

import weirnet as weir


@pytest.fixture
def run(scenario: Path) -> weir.Run:
    return weir.run(scenario)


def test_pandas_polars_and_duckdb_take_a_table_in_one_line(run: weir.Run) -> None:
    names = run.flows["flow"]
    frame = pandas.DataFrame.from_arrow(run.flows)
    assert list(frame["flow"]) == names and list(frame.columns) == run.flows.column_names
    assert frame["goodput_bps"].to_list() == run.flows["goodput_bps"]
    frame = polars.DataFrame(run.flows)
    assert frame["flow"].to_list() == names and frame["ecn"].dtype == polars.Boolean
    assert frame["wanted_bytes"].to_list() == run.flows["wanted_bytes"], "what is missing is null"
    series = run.flow_series
    (rows,) = duckdb.sql("select count(*) from series where flow = 'one'").fetchall()[0]
    assert rows == series["flow"].count("one") > 0


def test_nothing_is_copied(run: weir.Run) -> None:
    def addresses(table: pyarrow.Table) -> list[int]:
        buffers = [buffer for column in table.columns for chunk in column.chunks for buffer in chunk.buffers()]
        return [buffer.address for buffer in buffers if buffer is not None]

    first, second = pyarrow.table(run.flow_series), pyarrow.table(run.flow_series)
    assert addresses(first) == addresses(second)
    frame = polars.DataFrame(run.flow_series)
    assert frame["throughput_bps"].to_arrow().buffers()[1].address in addresses(first)
    del run
    assert first["flow"][0].as_py() == "one", "a table outlives the run"


def test_a_table_has_the_types_of_its_columns(run: weir.Run) -> None:
    schema = pyarrow.schema(run.flows)
    assert schema.field("flow").type == pyarrow.string()
    assert schema.field("ecn").type == pyarrow.bool_()
    assert schema.field("dropped").type == pyarrow.int64()
    assert schema.field("fct_s").type == pyarrow.float64()
    empty = weir.run(
        {
            "bottleneck": {"rate": "10mbit", "rtt": "20ms", "qdisc": "pfifo"},
            "flow": [{"stack": "udp", "rate": "1mbit", "duration": "1s"}],
        }
    ).rtt
    assert len(empty) == 0 and pyarrow.table(empty).num_rows == 0
    assert pyarrow.schema(empty).field("rtt_ms").type == pyarrow.float64(), "also where no row says so"


def test_a_table_can_be_read_without_anything(run: weir.Run) -> None:
    flows = run.flows
    assert len(flows) == flows.num_rows == 3 and flows.name == "flows"
    assert flows.row(0)["flow"] == "one" == flows["flow"][0] and flows.row(-1) == flows.row(2)
    assert flows.to_dict()["flow"] == flows["flow"] and "flow" in flows and "flaw" not in flows
    with pytest.raises(KeyError, match="table flows has no column 'flaw'; did you mean 'flow'"):
        flows["flaw"]
    with pytest.raises(IndexError, match="3 rows, not a row 3"):
        flows.row(3)
    with pytest.raises(AttributeError, match="this run has no 'flow'; did you mean 'flows'"):
        run.flow  # type: ignore[attr-defined]  # noqa: B018
