"""CSV, TSV and JSON documents: quotes, digits as they are written, places, and what is refused."""

from __future__ import annotations

import csv
import io
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recompute.documents import READERS, Document


def read(suffix: str, source: str) -> Document:
    return READERS[suffix].read(f"results/t9{suffix}", source)


def texts(document: Document) -> list[list[str]]:
    return [[cell.text for cell in row] for row in document.tables[0].rows]


def test_quotes_line_ends_empty_lines_and_a_byte_order_mark() -> None:
    document = read(".csv", '\ufeffarm,"a ""b"""\r\n"x, ""y""","1,592"\r\n\r\n"two\nlines",2.50')
    assert document.findings == ()
    (table,) = document.tables
    assert (table.name, table.header) == ("t9", ("arm", 'a "b"'))
    assert texts(document) == [['x, "y"', "1,592"], ["two\nlines", "2.50"]]
    assert [row[1].line for row in table.rows] == [2, 5]
    assert [document.source[n.start : n.end] for row in table.rows for n in row[1].numbers] == ["1,592", "2.50"]


@pytest.mark.parametrize(
    ("source", "where", "said"),
    [
        ("a,b\n1,592,3\n", "results/t9.csv:2", "a thousands comma without quotes"),
        ("a,b\n1\n", "results/t9.csv:2", "another number of cells"),
        ('a,b\n"1"x,2\n', "results/t9.csv:1", "a quote"),
        ('a,b\n"1,2\n', "results/t9.csv:1", "a quote"),
    ],
)
def test_a_csv_that_is_no_table_is_refused(source: str, where: str, said: str) -> None:
    document = read(".csv", source)
    assert document.tables == ()
    assert [(f.code, f.where) for f in document.findings] == [("ragged-table", where)]
    assert said in document.findings[0].message


def test_an_empty_file_has_no_table() -> None:
    assert read(".csv", "").tables == read(".tsv", "\n\n").tables == ()


@given(
    st.lists(
        st.lists(st.text(st.sampled_from('ab"1,.\t\n \u22122'), max_size=6), min_size=2, max_size=2),
        min_size=1,
        max_size=6,
    ),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_what_the_csv_module_writes_is_read_back_in_place(rows: list[list[str]], end: str, every: bool) -> None:
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator=end, quoting=csv.QUOTE_ALL if every else csv.QUOTE_MINIMAL).writerows(
        [["a", "b"], *rows]
    )
    document = read(".csv", out.getvalue())
    assert texts(document) == [[text.strip() for text in row] for row in rows]
    for row, wanted in zip(document.tables[0].rows, rows, strict=True):
        for cell, text in zip(row, wanted, strict=True):
            assert document.source[cell.start : cell.end].replace('""', '"') == text


def test_json_keeps_digits_and_finds_places() -> None:
    source = '{"t9": [{"v": 0.50, "id": "x", "ci": [-4.97, 2.19]},\n {"ci": null, "v": 1e-5, "id": "y"}], "seed": 3}'
    document = read(".json", source)
    assert document.findings == ()
    (table,) = document.tables
    assert (table.name, table.header) == ("t9", ("id", "v", "ci"))
    assert texts(document) == [["x", "0.50", "[-4.97, 2.19]"], ["y", "1e-5", ""]]
    found = [n for row in table.rows for cell in row for n in cell.numbers]
    assert [(n.text, n.decimals) for n in found] == [("0.50", 2), ("-4.97", 2), ("2.19", 2), ("1e-5", 5)]
    assert all(source[n.start : n.end] == n.text for n in found)
    assert [row[0].line for row in table.rows] == [1, 2]


def test_json_text_with_escapes_is_read_and_its_cell_is_the_place() -> None:
    source = '[{"a": "\\u22121.39 [\\u22124.97, +2.19]"}]'
    (cell,) = read(".json", source).tables[0].rows[0]
    assert [str(n.value) for n in cell.numbers] == ["-139/100", "-497/100", "219/100"]
    assert {(n.start, n.end) for n in cell.numbers} == {(cell.start, cell.end)}
    assert source[cell.start : cell.end] == "\\u22121.39 [\\u22124.97, +2.19]"


def test_two_lists_are_two_tables() -> None:
    document = read(".json", '{"a": [{"x": 1}], "b": [{"y": 2}]}')
    assert [(table.name, table.number) for table in document.tables] == [("a", 1), ("b", 2)]


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("[1", "no JSON"),
        ("", "no JSON"),
        ("[1, 2]", "no table"),
        ('{"a": 3}', "no table"),
        ('[{"a": 1}, {"b": 2}]', "other keys"),
        ('[{"a": 1}, {"a": 2, "b": 3}]', "other keys"),
        ('[{"a": 1}, {"a": 1, "a": 2}]', "other keys"),
    ],
)
def test_json_that_is_no_table_is_refused(source: str, said: str) -> None:
    document = read(".json", source)
    assert document.tables == ()
    assert [finding.code for finding in document.findings] == ["ragged-table"]
    assert said in document.findings[0].message


def test_json_numbers_that_are_not_finite_are_refused() -> None:
    document = read(".json", '[{"a": NaN}, {"a": -Infinity}]')
    assert [finding.code for finding in document.findings] == ["bad-number"] * 2


KEYS = st.text(max_size=3)


@given(
    st.lists(st.fixed_dictionaries({"k": KEYS, "v": st.integers(-(10**9), 10**9)}), min_size=1, max_size=4),
    st.booleans(),
)
@settings(max_examples=80, deadline=None)
def test_what_the_json_module_writes_is_read_back(rows: list[dict[str, object]], ascii_only: bool) -> None:
    source = json.dumps(rows, ensure_ascii=ascii_only)
    document = read(".json", source)
    assert texts(document) == [[str(row[key]) for key in rows[0]] for row in rows]
    for row in document.tables[0].rows:
        number = row[list(rows[0]).index("v")]
        assert source[number.start : number.end] == number.text
