"""Markdown documents, and what holds for every document: places, refusals, contradictions, files."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.errors import CannotCheck, Problem, UsageProblem
from ledger.findings import Severity
from recompute.documents import READERS, Document, read_document
from recompute.printed import numbers

TABLE = """Table 9: RULER overall.

| Context | n | points [95 % CI] |
|:--|--:|---|
| 16,384 | 260 | \u22121.19 [\u22123.13, +0.79] |
| 32,768 | 260 | **\u22121.42** [\u22123.21, +0.35] |
"""


def read(source: str) -> Document:
    return READERS[".md"].read("paper.md", source)


def codes(document: Document) -> list[str]:
    return [finding.code for finding in document.findings]


def texts(document: Document, table: int = 0) -> list[list[str]]:
    return [[cell.text for cell in row] for row in document.tables[table].rows]


def test_a_table_with_its_caption_cells_and_places() -> None:
    document = read("Text.\n\n" + TABLE)
    (table,) = document.tables
    assert (table.name, table.number, table.line) == ("Table 9: RULER overall.", 1, 5)
    assert table.header == ("Context", "n", "points [95 % CI]")
    assert [cell.line for row in table.rows for cell in row] == [7, 7, 7, 8, 8, 8]
    cell = table.rows[1][2]
    assert (cell.text, cell.column) == ("\u22121.42 [\u22123.21, +0.35]", "points [95 % CI]")
    assert document.source[cell.start : cell.end] == "**\u22121.42** [\u22123.21, +0.35]"
    assert [n.value for n in cell.numbers] == [Fraction("-1.42"), Fraction("-3.21"), Fraction("0.35")]
    assert document.findings == ()


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_line_ends_and_a_byte_order_mark_move_no_place(tmp_path: Path, end: str, mark: str) -> None:
    source = mark + TABLE.replace("\n", end)
    (tmp_path / "paper.md").write_bytes(source.encode())
    document = read_document(tmp_path, "paper.md")
    assert document.source == source
    assert [cell.line for row in document.tables[0].rows for cell in row] == [5, 5, 5, 6, 6, 6]
    for row in document.tables[0].rows:
        for cell in row:
            assert [source[n.start : n.end] for n in cell.numbers] == [n.text for n in cell.numbers]


def test_a_table_on_the_first_line_after_a_byte_order_mark() -> None:
    document = read("\ufeff| a | b |\n|---|---|\n| 1 | 2 |\n")
    assert document.tables[0].header == ("a", "b")


def test_escaped_pipes_code_links_and_tags() -> None:
    document = read(
        "| a | b |\n|---|---|\n| x\\|y `p\\|q` | [4.5](https://x.org/12 't 3') |\n| <b>7</b><br>8 | `40.62` |\n"
        "| ![9.9](p10.png) | run `v3 7` 2 |\n| a&amp;b \\* | <sup>1</sup> 3.0[^4] |\n"
    )
    assert texts(document) == [["x|y p|q", "4.5"], ["7 8", "40.62"], ["9.9", "run v3 7 2"], ["a&b *", "3.0"]]
    values = [[[float(n.value or 0) for n in cell.numbers] for cell in row] for row in document.tables[0].rows]
    assert values == [[[], [4.5]], [[7, 8], [40.62]], [[9.9], [2]], [[], [3.0]]]
    assert document.findings == ()


@pytest.mark.parametrize(
    ("row", "cause", "found"),
    [
        ("| 1 |", "split or left out", "1: "),
        ("| 1 | 2 | 3 |", "split or left out", "3: "),
        ("| `a|b` | 2 |", "a pipe inside code", "3: "),
        ("Text right below.", "no empty line", "1: "),
        ("| 3,000 | | 4 |", "split or left out", "3: "),
    ],
)
def test_ragged_tables_are_refused_and_not_padded(row: str, cause: str, found: str) -> None:
    document = read(f"Table 3: x\n\n| a | b |\n|---|---|\n| 1 | 2 |\n{row}\n")
    assert document.tables == ()
    (finding,) = document.findings
    assert (finding.code, finding.severity, finding.exit_code) == ("ragged-table", Severity.ERROR, 1)
    assert (finding.where, finding.expected) == ("paper.md:6", "2")
    assert cause in finding.message
    assert "Table 3: x" in finding.message
    assert finding.found.startswith(found)


@pytest.mark.parametrize(
    "source",
    [
        "| a | b |\n|---|---|---|\n| 1 | 2 |\n",  # GitHub shows text: the header has other columns than the line below
        "| a | b |\n|---|---|\n| 1 | 2 |\n\n| 3 | 4 |\n",  # an empty line inside
        "- a list\n| a | b |\n|---|---|\n| 1 | 2 |\n",
        "a | b\n---|---|---\n1 | 2\n",
    ],
)
def test_rows_that_are_in_no_table_are_not_overlooked(source: str) -> None:
    document = read(source)
    assert codes(document) == ["ragged-table"]
    assert "in no table" in document.findings[0].message


HTML = "<table>\n<tr><th>arm</th><th>loss</th></tr>\n\n<tr><td>map</td><td>1.5</td></tr>\n</table>\n"


@pytest.mark.parametrize(
    ("source", "line", "found"),
    [
        (f"Text.\n\n{HTML}", 3, "1.5"),
        (HTML.replace("\n", "\r\n"), 1, "1.5"),
        ("- a list\n  <TABLE class='x'>\n  <tr><td>4</td></tr></TABLE>\n", 2, "4"),
        ("A row of text <table><tr><td>&minus;5</td></tr></table>.\n", 1, "\u22125"),
        ("<table>\n<tr><td>`12`</td></tr>\n</table>\nand `code`\n", 1, "12"),  # no code within HTML
        ("<table><tr><td><table><tr><td>x</td></tr></table></td><td>9</td></tr></table>\n", 1, "9"),
        ("<table>\n<tr><td>7\n", 1, "7"),
        ("<table><tr><td>1_000</td></tr></table>\n", 1, "1_000"),
        (f"{TABLE}\n<table><tr><td>40.62 %</td></tr></table>\n", 8, "40.62 %"),
    ],
)
def test_an_html_table_with_numbers_is_refused_by_name(source: str, line: int, found: str) -> None:
    document = read(source)
    refused = [finding for finding in document.findings if finding.code == "html-table"]
    assert [(one.severity, one.exit_code, one.where) for one in refused] == [(Severity.ERROR, 1, f"paper.md:{line}")]
    assert refused[0].found == f"<table> with {found}"
    assert "write it with pipes" in refused[0].message
    assert all(number not in document.prose for number in ("1.5", "40.62"))


@pytest.mark.parametrize(
    "source",
    [
        f"<!--\n{HTML}-->\n",
        f"```html\n{HTML}```\n",
        "Text.\n\n" + "".join(f"    {line}\n" for line in HTML.splitlines()),
        "write `<table><tr><td>5</td></tr></table>` here\n",
        "\\<table> 5 \\</table>\n",
        "<table width='5'><tr><td><img src='a1.png' width='300'></td><td>-</td></tr></table>\n",
        "</table> 5 <tablet>6</tablet>\n",
    ],
)
def test_an_html_table_that_is_not_shown_or_has_no_numbers_is_none(source: str) -> None:
    assert read(source).findings == ()


def test_one_column_no_outer_pipes_and_empty_cells() -> None:
    assert texts(read("a | b\n--|--\n1 | |\n|| 2\n")) == [["1", ""], ["", "2"]]
    assert texts(read("| a |\n|---|\n| 1 |\n| |\n")) == [["1"], [""]]
    assert texts(read("> | a | b |\n> |---|---|\n> | 1 | 2 |\n")) == [["1", "2"]]


def body(number: int) -> str:
    return f"| a |\n|---|\n| {number} |\n"


@pytest.mark.parametrize(
    ("source", "names"),
    [
        (f"Table 1: x\n\n{body(1)}\nTable 2: y\n\n{body(2)}", ["Table 1: x", "Table 2: y"]),
        (f"{body(1)}\nTable 1: x\n\n{body(2)}\nTable 2: y\n", ["Table 1: x", "Table 2: y"]),
        (f"**Table 1.** _x_\n{body(1)}", ["Table 1. x"]),
        (f"Some text\nTable 1: x\n{body(1)}", ["Table 1: x"]),
        (f"<!-- table: main -->\nTable 1: x\n\n{body(1)}", ["main"]),
        (f"<!-- table: main -->\n\nTable 1: x\n\n{body(1)}", ["main"]),
        (f"Table 1: x\n\n<!-- table: main -->\n\n{body(1)}", ["main"]),
        (f"Tables are good.\n\n{body(1)}", [""]),
        (f"{body(1)}\nText\n\nTable 2: y\n\n{body(2)}\nTable 3: z\n\n{body(3)}", ["", "Table 2: y", "Table 3: z"]),
    ],
)
def test_captions_and_markers(source: str, names: list[str]) -> None:
    document = read(source)
    assert [table.name for table in document.tables] == names
    assert [table.number for table in document.tables] == list(range(1, len(names) + 1))


def test_prose_keeps_what_is_said_and_blanks_the_rest() -> None:
    source = (
        "---\ndate: 2026-11-30\nseed: 41\n---\n# 4.2 Loss at 16 layers\n\n1. We lose **1.39** points\n- and 2 more\n\n"
        "```python\nx = 42\n```\n\n    y = 43\n\nInline `z = 44`, [45](http://x.org/46 'a'), <http://x.org/47>,\n"
        "<!-- 48 --> <span id='49'>50</span>, [a][51].\n\n[51]: http://x.org/52\n\n" + TABLE
    )
    document = read(source)
    assert len(document.prose) == len(source)
    assert [n.value for n in numbers(document.prose)] == [16, Fraction("1.39"), 2, 45, 50]
    assert all(source[n.start : n.end] == n.text for n in numbers(document.prose))
    assert document.findings == ()


def test_bad_numbers_in_cells_are_errors_with_line_text_and_cause() -> None:
    document = read("| a | b |\n|---|---|\n| x | 40. 6 2 |\n| y | \u2212-2.4 |\n| z | nan |\n| w | \uff14\uff10 |\n")
    assert codes(document) == ["bad-number"] * 4
    assert [finding.where for finding in document.findings] == [f"paper.md:{line}" for line in (3, 4, 5, 6)]
    assert all((f.severity, f.exit_code) == (Severity.ERROR, 1) for f in document.findings)
    assert "'40. 6 2' in column b; likely cause: a space inside a number" in document.findings[0].message
    assert [cell.numbers for row in document.tables[0].rows for cell in row] == [()] * 8


def test_bad_numbers_in_prose_fail_only_where_no_sentence_could_mean_them() -> None:
    document = read("Random rows change it by \u2212-2.4 points. Layers 1,2 and 3.\n")
    assert [(f.code, f.severity, f.exit_code) for f in document.findings] == [
        ("bad-number", Severity.ERROR, 1),
        ("bad-number", Severity.WARNING, 0),
    ]


@pytest.mark.parametrize(
    ("cell", "restored"),
    [
        ("1.39 [4.97, +2.19]", "-1.39 [-4.97, +2.19]"),
        ("8.9 [13.6, 5.4] (n = 138)", "-8.9 [-13.6, -5.4]"),
        ("+4.00 [2.40, 1.40]", "+4.00 [-2.40, 1.40]"),
        ("[0.548, 0.430]", "[-0.548, -0.430]"),
        ("0 [1, +1]", "0 [-1, +1]"),
        ("222.4 % (271.4 to 180.7)", "-222.4 % [-271.4, -180.7]"),
        ("$1.39$ [$4.97$, $+2.19$]", "-1.39 [-4.97, +2.19]"),
    ],
)
def test_a_lost_minus_sign_is_found_where_a_value_has_its_interval(cell: str, restored: str) -> None:
    document = read(f"| a |\n|---|\n| {cell} |\n")
    fits = restored == "+4.00 [-2.40, 1.40]"  # 4.00 is outside either way: no sign explains it
    (finding,) = document.findings
    assert (finding.code, finding.severity, finding.exit_code) == ("contradicts-itself", Severity.ERROR, 1)
    assert finding.where == "paper.md:3"
    assert finding.expected == ("" if fits else restored)
    assert ("a minus sign was lost" in finding.message) is not fits


@pytest.mark.parametrize(
    "cell",
    [
        "\u22121.39 [\u22124.97, +2.19]",
        "+2.4 [0.0, +4.7]",
        "100.0 % [100.0, 100.0]",
        "40.6 [40.62, 41.0]",  # right as far as its digits tell
        "0.2 to 0.5",
        "8.1 to 5.3",
        "12 of 23, 5 (3)",
        "1.5 \u00b1 0.2",
        "1.2 (n = 3, k = 2)",
        "30 pairs (1, 1)",
    ],
)
def test_what_does_not_contradict_itself(cell: str) -> None:
    assert read(f"| a |\n|---|\n| {cell} |\n").findings == ()


def test_running_text_is_searched_too_and_citations_are_no_intervals() -> None:
    document = read("It changes by 10.0 points [32.0, +12.0]. Shown in 2023 [12, 13], at split 12 (16, 8).\n")
    assert codes(document) == ["contradicts-itself"]
    assert document.findings[0].expected == "-10.0 points [-32.0, +12.0]"


def test_many_lost_signs_are_told_once_for_the_whole_text() -> None:
    rows = "".join(f"| {k} | 1.{k} [4.97, +2.19] |\n" for k in range(4))
    document = read(f"| k | d |\n|---|---|\n{rows}| 5 | 1.0 [0.5, 1.5] |\n\nAnd 3.0 points [9.0, +2.0] in text.\n")
    assert codes(document) == ["contradicts-itself"] * 5 + ["signs-lost"]
    summary = document.findings[-1]
    assert summary.message.startswith("5 of 6 values lie outside their own intervals")
    assert (summary.severity, summary.exit_code) == (Severity.ERROR, 1)


@pytest.mark.parametrize("between", [" ", " nats ", " nats on Llama "])
def test_words_between_a_value_and_its_interval_part_them_not(between: str) -> None:
    """As section 6.2 of the paper has it; a pattern that knows units only misses one of its 97."""
    for text, fits in ((f"0.413{between}[0.690, 0.075]", False), (f"0.063{between}[0.040, 0.090]", True)):
        document = read(f"It loses {text} more.\n")
        assert codes(document) == ([] if fits else ["contradicts-itself"])
        assert all("value lies outside its interval" in finding.message for finding in document.findings)


def test_lost_signs_in_a_refused_table_count_too() -> None:
    rows = "".join(f"| {k} | 1.{k} [4.97, +2.19] | |\n" for k in range(3))
    assert codes(read(f"| k | d |\n|---|---|\n{rows}")) == ["ragged-table", *["contradicts-itself"] * 3, "signs-lost"]


@given(
    rows=st.lists(
        st.lists(
            st.tuples(st.integers(-(10**7), 10**7), st.integers(0, 3), st.sampled_from(["", " %", "*", "\u00d7"])),
            min_size=2,
            max_size=2,
        ),
        min_size=1,
        max_size=5,
    ),
    end=st.sampled_from(["\n", "\r\n"]),
)
@settings(max_examples=60, deadline=None)
def test_what_was_written_is_read_at_the_place_it_was_written(rows: list[list[tuple[int, int, str]]], end: str) -> None:
    cells = [[f"{value / 10**places:.{places}f}{unit}" for value, places, unit in row] for row in rows]
    source = end.join(["| a | b |", "|---|---|", *(f"| {one} | {two} |" for one, two in cells), ""])
    document = read(source)
    assert texts(document) == [[cell.replace("*", "") if cell.count("*") else cell for cell in row] for row in cells]
    for row, told in zip(document.tables[0].rows, rows, strict=True):
        for cell, (value, places, _) in zip(row, told, strict=True):
            (number,) = cell.numbers
            assert (number.value, number.decimals) == (Fraction(value, 10**places), places)
            assert source[number.start : number.end] == number.text


def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "study").mkdir()
    study = tmp_path / "study"
    (tmp_path / "outside.md").write_text("x")
    (study / "link.md").symlink_to(tmp_path / "outside.md")
    (study / "latin.md").write_bytes(b"fine\nna\xefve\n")
    (study / "folder.md").mkdir()
    (study / "loop.md").symlink_to(study / "loop.md")
    cases: list[tuple[str, type[Problem], str]] = [
        ("gone.md", CannotCheck, "no file gone.md"),
        ("folder.md", CannotCheck, "no file folder.md"),
        ("latin.md", CannotCheck, "latin.md:2 is not UTF-8"),
        ("../outside.md", UsageProblem, "outside the study's folder"),
        ("link.md", UsageProblem, "outside the study's folder"),
        (str(tmp_path / "outside.md"), UsageProblem, "outside the study's folder"),
        ("paper.pdf", UsageProblem, "no document"),
        ("paper", UsageProblem, "no suffix"),
        ("nul\0.md", CannotCheck, "no file"),
        ("loop.md", Problem, "loop.md"),
    ]
    for file, kind, said in cases:
        with pytest.raises(kind) as problem:
            read_document(study, file)
        assert said in problem.value.line(), file
        assert "\n" not in problem.value.line()
