"""What every document format must hold: a new one is tested by being in the registry."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.findings import Severity
from recompute.documents import READERS, Document
from recompute.printed import numbers
from recompute.rounding import spell

EVERY = pytest.mark.parametrize("suffix", READERS)
ONCE = pytest.mark.parametrize("suffix", dict.fromkeys(reader.suffixes[0] for reader in READERS.values()))

# The same two rows in every format: arm, value with interval, count.
DELTA = "\u22121.39 [\u22124.97, +2.19]"
SAMPLES = {
    "markdown": f"| arm | delta | n |\n|---|---|---|\n| Map | {DELTA} | 1,592 |\n| No | n/a | 0.50 |\n",
    "latex": f"\\begin{{tabular}}{{lrr}}\narm & delta & n \\\\ \\midrule\nMap & {DELTA} & 1,592 \\\\\n"
    "No & n/a & 0.50 \\\\\n\\end{tabular}\n",
    "delimited": f'arm,delta,n\nMap,"{DELTA}","1,592"\nNo,n/a,0.50\n',
    "objects": f'[{{"arm": "Map", "delta": "{DELTA}", "n": "1,592"}},\n{{"arm": "No", "delta": "n/a", "n": 0.50}}]',
}
RAGGED = {
    "markdown": "| a | b |\n|---|---|\n| 1 |\n",
    "latex": "\\begin{tabular}{ll}\na & b \\\\\n1 \\\\\n\\end{tabular}\n",
    "delimited": "a,b\n1\n",
    "objects": '[{"a": 1, "b": 2}, {"a": 1}]',
}


def name(suffix: str) -> str:
    return type(READERS[suffix]).__module__.rpartition(".")[2]


def sample(texts: dict[str, str], suffix: str) -> str:
    return texts[name(suffix)].replace(",", "\t") if suffix == ".tsv" and texts is RAGGED else texts[name(suffix)]


def read(suffix: str, source: str) -> Document:
    return READERS[suffix].read(f"file{suffix}", source)


def table_of(suffix: str) -> Document:
    source = SAMPLES[name(suffix)]
    if suffix == ".tsv":
        source = 'arm\tdelta\tn\nMap\t"\u22121.39 [\u22124.97, +2.19]"\t1,592\nNo\tn/a\t0.50\n'
    return read(suffix, source)


@EVERY
def test_it_says_what_it_is(suffix: str) -> None:
    reader = READERS[suffix]
    module = __import__(type(reader).__module__, fromlist=["_"])
    assert module.__doc__.startswith(f"{name(suffix)}: ")
    assert type(reader).__doc__
    assert suffix in reader.suffixes
    assert all(one == one.lower() and one.startswith(".") for one in reader.suffixes)
    assert reader.writable is (name(suffix) in ("markdown", "latex"))


@EVERY
def test_the_same_table_reads_the_same(suffix: str) -> None:
    document = table_of(suffix)
    assert document.findings == ()
    (table,) = document.tables
    assert table.header == ("arm", "delta", "n")
    assert table.number == 1
    assert [[cell.text for cell in row] for row in table.rows] == [
        ["Map", "\u22121.39 [\u22124.97, +2.19]", "1,592"],
        ["No", "n/a", "0.50"],
    ]
    values = [[[n.value for n in cell.numbers] for cell in row] for row in table.rows]
    assert values == [
        [[], [Fraction("-1.39"), Fraction("-4.97"), Fraction("2.19")], [1592]],
        [[], [None], [Fraction(1, 2)]],
    ]
    assert table.rows[1][2].numbers[0].decimals == 2


@EVERY
def test_every_number_is_at_its_place_and_line(suffix: str) -> None:
    document = table_of(suffix)
    for row in document.tables[0].rows:
        for cell in row:
            assert document.source.count("\n", 0, cell.start) + 1 == cell.line == document.line_at(cell.start)
            for number in cell.numbers:
                assert document.source[number.start : number.end] == number.text
                assert cell.start <= number.start < number.end <= cell.end


@EVERY
def test_a_number_can_be_replaced_in_its_place(suffix: str) -> None:
    """What --write does, from the last place to the first; harmless in a copy of any format."""
    document = table_of(suffix)
    source = document.source
    numbers = [n for row in document.tables[0].rows for cell in row for n in cell.numbers if n.value is not None]
    for number in sorted(numbers, key=lambda number: -number.start):
        told = spell(number.value + 1, number.decimals, signed=number.signed, like=number)  # type: ignore[operator]
        source = source[: number.start] + told + source[number.end :]
    again = read(suffix, source)
    values = [n.value for row in again.tables[0].rows for cell in row for n in cell.numbers if n.value is not None]
    assert values == [number.value + 1 for number in numbers]  # type: ignore[operator]


@EVERY
def test_a_ragged_table_is_refused(suffix: str) -> None:
    document = read(suffix, sample(RAGGED, suffix))
    assert document.tables == ()
    assert [(f.code, f.severity, f.exit_code) for f in document.findings] == [("ragged-table", Severity.ERROR, 1)]
    assert document.findings[0].where.startswith(f"file{suffix}:")


@EVERY
def test_the_prose_has_the_length_of_the_source(suffix: str) -> None:
    document = table_of(suffix)
    assert len(document.prose) == len(document.source)
    assert "1,592" not in document.prose


# fmt: off
PIECES = st.sampled_from([
    "|", "\n", "\r\n", "\r", "-", "\u2212", "1", "2.5", "1,592", "[", "]", "(", ")", ", ", ".", "`", "*", "_", "$",
    "\\", "{", "}", "&", "%", "\\\\", "\\begin{tabular}{ll}", "\\end{tabular}", "\\multicolumn{2}{c}{", "\\hline",
    "\\caption{", "\\multirow{2}{*}{", "| a | b |\n|---|---|\n", "Table 1: x\n\n", "<!--", "-->", "```\n", "--", "n/a",
    "<sup>", "[^1]", "^", "e5", "\u00d710", "\u207b\u2075", "\uff11", "K", " ", "\t", "\u2009", '"', ":", "null", "NaN",
    "#", "> ", "- ", "\ufeff", "\\SI{", "}{\\second}", "\\verb|", "\x00", "\u2028", '{"a":', "[{", "}]",
    "\\textbf{", "~", "\\cellcolor[1]{2}", "\\%", " points", "\\times", "$-$", "\\alpha",
])
# fmt: on
SOURCES = st.one_of(st.text(max_size=200), st.lists(st.one_of(PIECES, st.text(max_size=2)), max_size=40).map("".join))


@ONCE
@given(source=SOURCES)
@settings(max_examples=200, deadline=None)
def test_no_text_is_an_exception_and_every_place_is_in_it(suffix: str, source: str) -> None:
    document = read(suffix, source)
    assert (document.source, len(document.prose)) == (source, len(source))
    for finding in document.findings:
        assert "\n" not in finding.line()
    for table in document.tables:
        for row in table.rows:
            assert len(row) == len(table.header)
            for cell in row:
                assert all(cell.start <= n.start <= n.end <= cell.end for n in cell.numbers)
                if name(suffix) != "objects":  # a JSON text may escape what it says
                    assert all(source[n.start : n.end] == n.text for n in cell.numbers)
    assert all(source[n.start : n.end] == n.text for n in numbers(document.prose))


@ONCE
def test_brackets_without_end_are_no_exception(suffix: str) -> None:
    for piece in (
        "[",
        "{",
        "(",
        '"',
        "{'a':",
        '{"a":',
        "\\begin{tabular}",
        "|",
        "> ",
        "`",
        "$",
        "<",
        "\\textbf{",
        "1,",
    ):
        document = read(suffix, piece * 3000)
        assert len(document.prose) == len(document.source)
