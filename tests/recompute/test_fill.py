"""Writing the recomputed numbers into a draft: what stays, what becomes of marks, and that twice changes nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.errors import Faults, UsageProblem
from recompute.binding import bind
from recompute.check import check
from recompute.documents import READERS, read_document
from recompute.estimate import Estimate
from recompute.fill import fill
from recompute.load import parse_reported
from recompute.reported import Reported
from recompute.standing import Standing
from recompute.valued import Valued

HEAD = """
[[table]]
id = "t"
file = "FILE"
name = "Table 1"
statistic = "mean"
arm = "map"
rows = "task"
columns = "metric"
"""
TEX = "\\begin{table}\\caption{Table 1: x}\\begin{tabular}{lr}\nrow & c \\\\\nROWS\\end{tabular}\\end{table}\nPROSE\n"
Numbers = Mapping[str, tuple[Fraction | None, Fraction, Fraction]]


def study(fields: str, file: str = "p.md") -> Reported:
    return parse_reported(HEAD.replace("FILE", file) + fields, "reported.toml")


def draft(rows: Mapping[str, str], prose: str = "", file: str = "p.md") -> str:
    if file.endswith(".tex"):
        return TEX.replace("ROWS", "".join(f"{row} & {cell} \\\\\n" for row, cell in rows.items())).replace(
            "PROSE", prose
        )
    lines = [f"| {row} | {cell} |" for row, cell in rows.items()]
    return "\n".join([prose, "", "Table 1: x", "", "| row | c |", "|---|---|", *lines, ""])


def written(reported: Reported, text: str, numbers: Numbers, file: str = "p.md") -> tuple[str, list[Standing]]:
    """The filled text, and the standings in it; the same again changes nothing."""
    reader = READERS[Path(file).suffix]

    def once(source: str) -> tuple[str, list[Standing]]:
        bindings = bind(reported, {file: reader.read(file, source)})
        values = {}
        for name, spec in bindings.specs.items():
            value, low, high = numbers[name.split("/")[1]]
            values[name] = Valued(name, spec, Estimate(value, 57, 1, (low, high), why="none" if value is None else ""))
        changed = fill(bindings, values)
        return changed.get(file, source), [one.standing for one in check(bindings, values, {})]

    first, _ = once(text)
    second, standings = once(first)
    assert second == first
    return first, standings


def one(cell: str, value: str | None, fields: str = "decimals = 2\n", ends: str = "0 1", file: str = "p.md") -> str:
    """What becomes of one cell."""
    low, high = map(Fraction, ends.split())
    numbers = {"r": (None if value is None else Fraction(value), low, high)}
    text, standings = written(study(fields, file), draft({"r": cell}, file=file), numbers, file)
    assert set(standings) <= {Standing.MATCH}
    pattern = "r & " if file.endswith(".tex") else "| r | "
    return text.split(pattern)[1].split("\n")[0].rstrip(" |\\")


@pytest.mark.parametrize(
    ("cell", "value", "becomes"),
    [
        ("?", "0.1234", "0.12"),
        ("…", "0.1234", "0.12"),
        ("TODO", "0.1234", "0.12"),
        ("", "0.1234", "0.12"),
        ("—", "-0.1234", "\N{MINUS SIGN}0.12"),
        ("0.5", "0.1234", "0.1"),  # as many digits as are printed
        ("0.5000", "0.1234", "0.1234"),
        ("0.10", "0.1", "0.10"),
        ("+0.50", "0.1234", "+0.12"),
        ("+0.50", "-0.1234", "\N{MINUS SIGN}0.12"),
        ("\N{MINUS SIGN}0.50", "-0.1234", "\N{MINUS SIGN}0.12"),
        ("-0.50", "-0.1234", "-0.12"),
        ("**0.50**", "0.1234", "**0.12**"),
        ("50.0 %", "0.1234", "12.3 %"),
        ("3,592 MiB", "1592.3", "1,592 MiB"),
        ("1{,}000", "1592.3", "1{,}592"),
        ("0.126", "0.125", "0.125"),
        ("0.13", "0.125", "0.12"),  # half-even
        ("0.12†", "0.1234", "0.12†"),
        ("0.50", None, "n/a"),
        ("?", None, "n/a"),
        ("", None, ""),
        ("n/a", None, "n/a"),
    ],
)
def test_what_becomes_of_a_cell(cell: str, value: str | None, becomes: str) -> None:
    assert one(cell, value) == becomes


@pytest.mark.parametrize(
    ("cell", "becomes"),
    [
        ("?", "0.12 [\N{MINUS SIGN}0.50, 1.25]"),
        ("? [?, ?]", "0.12 [\N{MINUS SIGN}0.50, 1.25]"),
        ("0.1 [\N{MINUS SIGN}0.2, 0.3]", "0.1 [\N{MINUS SIGN}0.5, 1.2]"),
        ("+0.1 [-0.2, +0.3]", "+0.1 [-0.5, +1.2]"),
        ("0.12 [—, —]", "0.12 [\N{MINUS SIGN}0.50, 1.25]"),
    ],
)
def test_a_cell_with_an_interval(cell: str, becomes: str) -> None:
    fields = 'decimals = 2\ncell = "{value} [{low}, {high}]"\n'
    assert one(cell, "0.1234", fields, "-0.5 1.25") == becomes


def test_counts_are_whole_and_lists_are_written_in_order() -> None:
    assert one("?", "0.1234", 'decimals = 3\ncell = "{value} / {n}"\n') == "0.123 / 57"
    toml = HEAD.replace("FILE", "p.md").replace('columns = "metric"', 'columns = {c = ["a", "b"]}') + "decimals = 1\n"
    text, standings = written(
        parse_reported(toml, "r"), draft({"r": "?"}), {"r": (Fraction(1, 3), Fraction(0), Fraction(1))}
    )
    assert "| r | 0.3 / 0.3 |" in text
    assert standings == [Standing.MATCH] * 2


@pytest.mark.parametrize(
    ("cell", "value", "becomes"),
    [
        ("?", "0.1234", "0.12"),
        ("?", "-0.1234", "$-$0.12"),
        ("$0.50$", "-0.1234", "$-0.12$"),
        ("$-0.50$", "0.1234", "$0.12$"),
        ("0.50", "-0.1234", "$-$0.12"),
        (r"\textbf{0.50}", "0.1234", r"\textbf{0.12}"),
        (r"50.0\,\%", "0.1234", r"12.3\,\%"),
        ("1{,}000", "1592.3", "1{,}592"),
    ],
)
def test_latex_keeps_its_own_ways(cell: str, value: str, becomes: str) -> None:
    assert one(cell, value, file="p.tex") == becomes


def test_words_are_never_written_over() -> None:
    numbers = {"r": (Fraction(1, 8), Fraction(0), Fraction(1))}
    text = draft({"r": "see the text"})
    filled, standings = written(study("decimals = 2\n"), text, numbers)
    assert (filled, standings) == (text, [Standing.MISSING])


def test_columns_stay_aligned_as_far_as_there_is_room() -> None:
    text = (
        "Table 1: x\n\n| row |     c | note |\n|-----|------:|------|\n| a   | 10.55 | x    |\n"
        "| b   | 9.55  | y    |\n| c   |       | z    |\n| d |?| w |\n"
    )
    toml = HEAD.replace("FILE", "p.md").replace('columns = "metric"', 'columns = {c = "c"}') + "decimals = 2\n"
    numbers = {
        row: (Fraction(value), Fraction(0), Fraction(1))
        for row, value in zip("abcd", ("9.5", "10.5", "2", "3"), strict=True)
    }
    filled, _ = written(parse_reported(toml, "r"), text, numbers)
    assert filled == (
        "Table 1: x\n\n| row |     c | note |\n|-----|------:|------|\n| a   | 9.50  | x    |\n"
        "| b   | 10.50 | y    |\n| c   |  2.00 | z    |\n| d |3.00| w |\n"
    )


def test_cites_are_written_in_place() -> None:
    cites = (
        "decimals = 2\n[[cite]]\nfile = 'p.md'\ndecimals = 3\n"
        "text = 'loses {t/r/c} nats, from {t/r/c:low} to {t/r/c:high}'\n"
        "[[cite]]\nfile = 'p.md'\ntext = 'or {t/r/c} %, n = {t/r/c:n}'\n"
    )
    prose = "It loses ? nats, from\n-0.10 to TODO there,\nor 50 %, n = 12 in all."
    numbers = {"r": (Fraction("0.1234"), Fraction("0.05"), Fraction("0.3"))}
    filled, standings = written(study(cites), draft({"r": "0.12"}, prose), numbers)
    assert filled.startswith("It loses 0.123 nats, from\n0.05 to 0.300 there,\nor 12 %, n = 57 in all.\n")
    assert set(standings) == {Standing.MATCH}


def test_no_decimals_anywhere_is_a_fault_with_its_place() -> None:
    bindings = bind(study(""), {"p.md": READERS[".md"].read("p.md", draft({"r": "?", "s": "0.5", "u": "?"}))})
    values = {name: Valued(name, spec, Estimate(Fraction(1), 1, 1)) for name, spec in bindings.specs.items()}
    with pytest.raises(Faults) as caught:
        fill(bindings, values)
    assert [fault[:7] for fault in caught.value.faults] == ["p.md:7:", "p.md:9:"]
    assert "decimals" in caught.value.line()


@pytest.mark.parametrize(("file", "text"), [("p.csv", "row,c\nr,0.5\n"), ("p.json", '[{"row": "r", "c": 0.5}]')])
def test_data_files_are_refused_by_name(tmp_path: Path, file: str, text: str) -> None:
    (tmp_path / file).write_text(text)
    reported = parse_reported(HEAD.replace("FILE", file).replace("Table 1", "#1"), "reported.toml")
    bindings = bind(reported, {file: read_document(tmp_path, file)})
    values = {name: Valued(name, spec, Estimate(Fraction(1), 1, 1)) for name, spec in bindings.specs.items()}
    with pytest.raises(UsageProblem, match=f"{file} is not written"):
        fill(bindings, values)
    agreed = {name: Valued(name, spec, Estimate(Fraction(1, 2), 1, 1)) for name, spec in bindings.specs.items()}
    assert fill(bindings, agreed) == {}


def test_a_refused_value_is_left_as_it_is() -> None:
    bindings = bind(study("decimals = 1\n"), {"p.md": READERS[".md"].read("p.md", draft({"r": "0.5", "s": "?"}))})
    values = {name: Valued(name, spec, refused="NaN") for name, spec in bindings.specs.items()}
    assert fill(bindings, values) == {}


CELLS = """?|…|TODO||—|n/a|0.5|12.345|+1.5|-2.50|**3.1**|1,234.5|4.5 [1.5, 7.5]|+4.5 [-1.5, +7.5]|? [?, ?]|n/a [1, 2]
9|$-0.5$|5.0 %|- [?, 3.0]|\N{MINUS SIGN}7"""
VALUES = st.one_of(st.none(), st.fractions(-3000, 3000, max_denominator=997))


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(re.split(r"[|\n]", CELLS)), VALUES, VALUES, VALUES), min_size=1, max_size=5),
    st.sampled_from(["p.md", "p.tex"]),
    st.booleans(),
    st.integers(0, 4),
)
def test_whatever_the_draft_all_match_afterwards_and_twice_changes_nothing(
    cells: list[tuple[str, Fraction | None, Fraction | None, Fraction | None]], file: str, interval: bool, decimals: int
) -> None:
    pattern = 'cell = "{value} [{low}, {high}]"\n' if interval else ""
    texts, numbers = {}, {}
    for at, (cell, value, low, high) in enumerate(cells):
        if "%" in cell and file == "p.tex":
            cell = cell.replace("%", r"\%")
        texts[f"r{at}"] = cell
        numbers[f"r{at}"] = (value, low or Fraction(0), high or Fraction(1))
    _, standings = written(study(f"decimals = {decimals}\n{pattern}", file), draft(texts, file=file), numbers, file)
    assert set(standings) <= {Standing.MATCH}


def test_the_marks_of_a_cell_say_how_it_is_printed() -> None:
    """`? [?, ?] %` asks for the interval, `? / ?` for two values, and `?` alone for one."""
    from recompute.binding import _drafted

    assert _drafted("? [?, ?] %", 1) == "{value} [{low}, {high}] %"
    assert _drafted("? / ?", 2) == "{value} / {value}"
    assert _drafted("?", 1) == "{value}"
    assert _drafted("? [?, ?] / ? [?, ?]", 2) == "{value} [{low}, {high}] / {value} [{low}, {high}]"
    assert _drafted("? of ?", 1) == ""
