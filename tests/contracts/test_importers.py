"""The contract of every importer: the same rows whatever the format, and a file that is not whole gives none."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import PurePath
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ledger.errors import UsageProblem
from recompute.importers import IMPORTERS, read_data
from recompute.reported import Data

SUFFIXES = [suffix for importer in IMPORTERS for suffix in importer.suffixes]
ROWS: list[dict[str, Any]] = [
    {"doc": 'ä, "b"', "filter": "strict", "acc": 0.5, "tokens": 12, "book": "x"},
    {"doc": "line\nbreak", "filter": "strict", "acc": math.nan, "tokens": 7, "book": "y"},
    {"doc": "007", "filter": "loose", "acc": None, "tokens": 0, "book": "y"},
    {"doc": "007", "filter": "strict", "acc": -1e-3, "tokens": 3, "book": "y"},
]
COLUMNS = {"sample_id": "doc", "value": "acc", "n_tokens": "tokens", "detail.document": "book"}
CONSTANTS: dict[str, str | int] = {"arm": "fill", "task": "qa", "metric": "acc", "length": 16}


def separated(delimiter: str) -> bytes:
    out = io.StringIO()
    writer = csv.DictWriter(out, list(ROWS[0]), delimiter=delimiter)
    writer.writeheader()
    writer.writerows(ROWS)
    return out.getvalue().encode()


def written(suffix: str) -> bytes:
    """ROWS as others write them. A new format needs a line here."""
    if suffix in (".csv", ".tsv"):
        return separated("," if suffix == ".csv" else "\t")
    if suffix in (".jsonl", ".ndjson"):
        return "".join(json.dumps(row) + "\n" for row in ROWS).encode()
    assert suffix == ".parquet"
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(ROWS), out)
    return out.getvalue()


def told(suffix: str, **more: Any) -> Data:
    return Data.model_validate(
        {"file": f"data/results{suffix}", "columns": COLUMNS, "constants": CONSTANTS, "where": {"filter": "strict"}}
        | more
    )


def test_suffixes_are_lower_case_and_read_by_one_importer() -> None:
    assert len(set(SUFFIXES)) == len(SUFFIXES)
    assert all(suffix == PurePath(f"x{suffix}").suffix.lower() for suffix in SUFFIXES)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_format_gives_the_same_rows(suffix: str) -> None:
    for name in (suffix, suffix.upper()):
        rows = read_data(written(suffix), told(name)).rows.to_pylist()
        assert [(row["sample_id"], row["n_tokens"], row["detail"]) for row in rows] == [
            ('ä, "b"', 12, '{"document":"x"}'),
            ("line\nbreak", 7, '{"document":"y"}'),
            ("007", 3, '{"document":"y"}'),
        ]
        assert [rows[0]["value"], rows[2]["value"]] == [0.5, -0.001]
        assert math.isnan(rows[1]["value"])
        fixed = {(row["run_id"], row["arm"], row["task"], row["metric"], row["length"], row["status"]) for row in rows}
        assert fixed == {("", "fill", "qa", "acc", 16, "ok")}


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_cut_by_one_byte_or_more_gives_no_row(suffix: str) -> None:
    """Bug log 8 (inspect_ai#2949)."""
    whole = written(suffix)
    for cut in {1, 2, 3, len(whole) // 2, len(whole) - 1, len(whole)}:
        with pytest.raises(UsageProblem) as refused:
            read_data(whole[:-cut], told(suffix))
        assert refused.value.exit_code == 2
        assert f"data/results{suffix}" in refused.value.line()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_bytes_that_are_no_such_file_are_refused_in_one_line(suffix: str) -> None:
    for data in (b"", b"\n", b"\xff\xfe\x00\n", b"[1, 2]\n", b'"open\n', b"\x00" * 64 + b"\n", b"PAR1" * 4 + b"\n"):
        with pytest.raises(UsageProblem) as refused:
            read_data(data, told(suffix))
        assert "\n" not in refused.value.line()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_one_sample_under_two_filters_is_refused_until_one_is_named(suffix: str) -> None:
    """Bug log 4 (lm-evaluation-harness#1687)."""
    with pytest.raises(UsageProblem) as refused:
        read_data(written(suffix), told(suffix, where={}))
    line = refused.value.line()
    assert "a sample is there more than once, 1 in all; found 007" in line
    assert 'filter: loose, strict; next: where = { filter = "loose" }' in line
