"""Files from outside: what the mapping says, and what is refused by name."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ledger.errors import UsageProblem
from recompute.importers import read_data
from recompute.reported import Data

ROW = {"arm": "a", "task": "t", "sample_id": "s", "metric": "m", "value": 1}


def lines(*rows: Mapping[str, Any]) -> bytes:
    return "".join(json.dumps({**ROW, **row}) + "\n" for row in rows).encode()


def read(data: bytes, file: str = "d.jsonl", **more: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = read_data(data, Data.model_validate({"file": file, **more})).rows.to_pylist()
    return found


def test_a_file_in_our_own_columns_needs_no_mapping() -> None:
    (row,) = read(lines({"length": 5, "repeat": 2, "status": "error", "value": None, "detail": {"b": 1, "a": [2]}}))
    own = {"length": 5, "repeat": 2, "value": None, "status": "error", "detail": '{"a":[2],"b":1}'}
    assert row == {**ROW, "run_id": "", "stratum": "", "n_tokens": 0, **own}


def test_a_constant_stands_before_a_column_of_the_same_name() -> None:
    (row,) = read(lines({}), constants={"arm": "b", "stratum": 16})
    filled = {"run_id": "", "length": 0, "repeat": 0, "status": "ok", "n_tokens": 0, "detail": "{}"}
    assert row == {**ROW, **filled, "arm": "b", "stratum": "16"}


@pytest.mark.parametrize("text", ["1", "-0.5", "+.5", "1e-3", "nan", "inf", ""])
def test_numbers_of_a_csv(text: str) -> None:
    (row,) = read(f"sample_id,value\ns,{text}\n".encode(), "d.csv", constants={"arm": "a", "task": "t", "metric": "m"})
    expected = None if text == "" else float(text)
    assert row["value"] == expected or str(row["value"]) == str(expected) == "nan"


@pytest.mark.parametrize(
    "text", ["1_592", "\uff11\uff12", "n/a", "1,5", "0x10", "\u22121", "1 %", "true", "--1", "1e", "."]
)
def test_what_only_looks_like_a_number_is_none(text: str) -> None:
    with pytest.raises(UsageProblem, match=r"d\.tsv:2: a value that is no number"):
        read(f"sample_id\tvalue\ns\t{text}\n".encode(), "d.tsv", constants={"arm": "a", "task": "t", "metric": "m"})


def test_true_and_false_score_one_and_zero_among_themselves() -> None:
    rows = read(lines({"sample_id": "x", "value": True}, {"sample_id": "y", "value": False}))
    assert [row["value"] for row in rows] == [1.0, 0.0]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([{"value": "0.5"}], "d.jsonl:1: a value that is no number; found '0.5'"),
        ([{}, {"sample_id": "x", "value": True}], "d.jsonl:2: a value that is no number; found True"),
        ([{"value": [1]}], "no number; found [1]"),
        ([{"value": 10**400}], "no number"),
        ([{"sample_id": 7}, {"sample_id": "7"}], "d.jsonl:2: ids of two types; expected all text or all whole numbers"),
        ([{"sample_id": 1}, {"sample_id": True}], "d.jsonl:2: no name; expected text or a whole number; found True"),
        ([{"sample_id": 7.0}], "no name; expected text or a whole number; found 7.0"),
        ([{"sample_id": None}], "no name; expected text or a whole number; found None"),
        ([{"sample_id": ""}], "d.jsonl:1: a sample without an id"),
        ([{"sample_id": "\ud800"}], "d.jsonl: not Unicode text"),
        ([{"status": "fine"}], "no status; expected ok, error, skipped; found 'fine'"),
        ([{"repeat": 1.5}], "no whole number; found 1.5"),
        ([{"length": True}], "no whole number; found True"),
        ([{"n_tokens": 2**63}], "no whole number"),
        ([{"detail": "{"}], "no JSON object in the detail"),
        ([{"detail": [1]}], "no JSON object in the detail"),
        ([{}, {}], "d.jsonl: a sample is there more than once, 1 in all; found s; likely cause: repeats of one sample"),
    ],
)
def test_a_row_that_cannot_be_meant_is_refused_with_its_line(rows: list[dict[str, Any]], said: str) -> None:
    with pytest.raises(UsageProblem) as refused:
        read(lines(*rows))
    assert said in refused.value.line()
    assert "\n" not in refused.value.line()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"columns": {"vlaue": "value"}}, "no column of ours is called 'vlaue', did you mean 'value'?"),
        ({"columns": {"run_id": "arm"}}, "no column of ours is called 'run_id'"),
        ({"constants": {"detail.x": "y"}}, "no column of ours is called 'detail.x'"),
        ({"columns": {"value": "valeu"}}, "d.jsonl has no column 'valeu', did you mean 'value'?"),
        ({"where": {"filte": "x"}}, "d.jsonl has no column 'filte'"),
        ({"where": {"arm": "b"}}, "no row where arm = 'b'; found a"),
        ({"where": {"value": True}}, "no row where value = True; found 1"),
        ({"columns": {"arm": "task"}, "constants": {"arm": "b"}}, "in `columns` and in `constants`; found arm"),
        ({"file": "d.xlsx"}, "no such format is known; expected .csv, .tsv, .jsonl, .ndjson, .parquet; found .xlsx"),
        ({"file": "data"}, "found no suffix"),
    ],
)
def test_a_mapping_that_cannot_be_meant_is_refused_with_the_nearest_name(more: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageProblem) as refused:
        read(lines({}), **more)
    assert said in refused.value.line()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("sample_id,value\ns\n", "d.csv:2: a row is not as long as the header; expected 2 fields; found 1"),
        ("sample_id,value\ns,1,2\n", "expected 2 fields; found 3"),
        ('sample_id,value\n"s,1\n', "a quote that is not closed"),
        ("sample_id,sample_id\ns,1\n", "two columns have one name"),
        ("sample_id,value\n", "d.csv has no rows"),
        ("sample_id,value\ns,1\n\n", "d.csv:3: a row is not as long as the header"),
    ],
)
def test_a_csv_that_is_not_one_table_is_refused(data: str, said: str) -> None:
    with pytest.raises(UsageProblem) as refused:
        read(data.encode(), "d.csv", constants={"arm": "a", "task": "t", "metric": "m"})
    assert said in refused.value.line()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b'{"a": 1}\n[1]\n', "d.jsonl:2: no JSON object"),
        (b'{"a": 1, "a": 2}\n', "a key that is there twice"),
        (b'{"a": 1}\n\n{"a": 2}\n', "d.jsonl:2: no JSON"),
        (b'{"a": ' + b"[" * 100_000 + b"\n", "d.jsonl:1: no JSON"),
    ],
)
def test_lines_that_are_no_objects_are_refused(data: bytes, said: str) -> None:
    with pytest.raises(UsageProblem) as refused:
        read(data)
    assert said in refused.value.line()


def test_csv_texts_are_compared_as_texts_and_typed_values_by_type() -> None:
    constants = {"arm": "a", "task": "t", "metric": "m"}
    data = b"sample_id,value,shots\nx,1,5\ny,1,05\n"
    assert [row["sample_id"] for row in read(data, "d.csv", constants=constants, where={"shots": 5})] == ["x"]
    rows = lines({"shots": 5, "sample_id": "x"}, {"shots": "5", "sample_id": "y"}, {"shots": True, "sample_id": "z"})
    for wanted, found in ((5, "x"), ("5", "y"), (True, "z")):
        assert [row["sample_id"] for row in read(rows, where={"shots": wanted})] == [found]


def test_ids_keep_their_type_where_the_format_has_one() -> None:
    assert read_data(lines({"sample_id": 7}), Data(file="d.jsonl")).kind == "number"
    assert read_data(lines({}), Data(file="d.jsonl")).kind == "text"
    csv = b"sample_id,value\n7,1\n"
    constants: dict[str, str | int] = {"arm": "a", "task": "t", "metric": "m"}
    assert read_data(csv, Data(file="d.csv", constants=constants)).kind == ""


def test_the_types_of_a_parquet_file_are_read_or_refused() -> None:
    out = io.BytesIO()
    table = pa.table({**{key: [value] for key, value in ROW.items()}, "when": pa.array([0], pa.timestamp("s"))})
    pq.write_table(table.set_column(4, "value", pa.array([1], pa.decimal128(3, 1))), out)
    (row,) = read(out.getvalue(), "d.parquet", columns={"detail.when": "when"})
    assert (row["value"], row["detail"]) == (1.0, '{"when":"1970-01-01T00:00:00"}')
    with pytest.raises(UsageProblem, match="no name"):
        read(out.getvalue(), "d.parquet", columns={"sample_id": "when"})


def test_text_lines_may_hold_marks_that_python_would_split_at() -> None:
    data = json.dumps({**ROW, "sample_id": "a\u2028b\x85"}, ensure_ascii=False).encode() + b"\r\n"
    assert read(b"\xef\xbb\xbf" + data)[0]["sample_id"] == "a\u2028b\x85"
