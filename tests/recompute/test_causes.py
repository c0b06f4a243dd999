"""The likely cause of a number that differs: each one where it is the first that fits, and nothing where none does."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import pytest

from recompute import causes
from recompute.binding import bind
from recompute.check import check
from recompute.documents.markdown import Markdown
from recompute.estimate import Estimate
from recompute.load import parse_reported
from recompute.standing import Checked, Standing
from recompute.valued import Valued

# Two rows of seven columns; what is true of them.
TOML = """
[[table]]
id = "t"
file = "p.md"
name = "Table 1"
statistic = "mean"
unit = "percent"
rows = {Map = {task = "one"}, Exact = {task = "two"}}
[table.columns]
fill = {metric = "score", arm = "fill"}
stock = {metric = "score", arm = "stock"}
delta = {metric = "score", statistic = "paired_difference", arm = "fill", baseline = "stock", unit = "points"}
speed = {metric = "ms", statistic = "ratio_of_medians", arm = "fill", baseline = "stock", unit = ""}
change = {metric = "ms", statistic = "relative_change", arm = "fill", baseline = "stock"}
far = {metric = "far", arm = "fill"}
"""
TRUE: dict[str, tuple[str, str, int]] = {  # value, ends, n
    "Map/fill": ("7800/192", "31.25 50.5", 192),
    "Map/stock": ("8200/192", "33.3 52.1", 192),
    "Map/delta": ("-400/192", "-8.9 4.7", 192),
    "Map/speed": ("1.2495", "1.2 1.3", 192),
    "Map/change": ("-19.97", "-23 -17", 192),
    "Map/far": ("12.34", "11 13", 192),
    "Exact/fill": ("10900/311", "30.2 40.1", 311),
    "Exact/stock": ("11200/311", "31.3 41.4", 311),
    "Exact/delta": ("-300/311", "-5.1 3.5", 311),
    "Exact/speed": ("0.8", "0.7 0.9", 311),
    "Exact/change": ("25", "20 30", 311),
    "Exact/far": ("98.76", "95 99", 311),
}
RIGHT = {
    "Map/fill": "40.62 [31.2, 50.5]", "Map/stock": "42.71 [33.3, 52.1]", "Map/delta": "-2.08 [-8.9, 4.7]",
    "Map/speed": "1.2495 [1.2, 1.3]", "Map/change": "-20.0 [-23, -17]", "Map/far": "12.34 [11, 13]",
    "Exact/fill": "35.05 [30.2, 40.1]", "Exact/stock": "36.01 [31.3, 41.4]", "Exact/delta": "-0.96 [-5.1, 3.5]",
    "Exact/speed": "0.80 [0.7, 0.9]", "Exact/change": "25.0 [20, 30]", "Exact/far": "98.76 [95, 99]",
}  # fmt: skip


def checked(printed: Mapping[str, str]) -> list[Checked]:
    columns = ["fill", "stock", "delta", "speed", "change", "far"]
    lines = ["Table 1: x", "", f"| row | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for row in ("Map", "Exact"):
        lines.append(f"| {row} | " + " | ".join(printed[f"{row}/{column}"] for column in columns) + " |")
    document = Markdown().read("p.md", "\n".join(lines) + "\n")
    bindings = bind(parse_reported(TOML, "reported.toml"), {"p.md": document})
    values = {}
    for name, spec in bindings.specs.items():
        value, ends, n = TRUE[name.removeprefix("t/")]
        low, high = map(Fraction, ends.split())
        error = (0.02, 0.02) if name.endswith("far") else None
        values[name] = Valued(name, spec, Estimate(Fraction(value), n, 1, (low, high), error))
    return check(bindings, values, {})


def test_the_clean_table_has_no_cause_to_look_for() -> None:
    found = checked(RIGHT)
    assert {one.standing for one in found} == {Standing.MATCH}
    assert len(found) == 36


@pytest.mark.parametrize(
    ("cell", "printed", "cause"),
    [
        ("Map/delta", "2.08 [-8.9, 4.7]", "a minus sign is lost"),
        ("Map/delta", "+2.08 [-8.9, 4.7]", "the sign is the wrong one, or the arms are swapped"),
        ("Map/far", "-12.34 [11, 13]", "the sign is the wrong one"),
        ("Map/far", "0.1234 [11, 13]", "100 times too small"),
        ("Map/far", "1234 [11, 13]", "100 times too large"),
        ("Map/far", "123.4 [11, 13]", "the decimal point slipped"),
        ("Map/far", "1.234 [11, 13]", "the decimal point slipped"),
        ("Map/stock", "42.70 [33.3, 52.1]", "truncated, not rounded"),
        ("Map/speed", "1.3 [1.2, 1.3]", "rounded twice, the second time at a tie"),
        ("Map/speed", "0.8003 [1.2, 1.3]", "the arms are swapped"),
        ("Exact/change", "-20.0 [20, 30]", "the arms are swapped"),
        ("Map/delta", "-2.08 [-4.7, 4.7]", "the arms are swapped"),
        ("Map/far", "12.34 [12.3, 13]", "it is the value of the same value"),
        ("Map/far", "13.00 [11, 13]", "it is the high of the same value"),
        ("Map/far", "192 [11, 13]", "it is the n of the same value"),
        ("Map/fill", "35.05 [31.2, 50.5]", "it is the number of the cell below, t/Exact/fill"),
        ("Exact/fill", "40.62 [30.2, 40.1]", "it is the number of the cell above, t/Map/fill"),
        ("Exact/delta", "36.01 [-5.1, 3.5]", "it is the number of the cell to the left, t/Exact/stock"),
        ("Exact/change", "98.76 [20, 30]", "it is the number of the cell to the right, t/Exact/far"),
        ("Map/fill", "40.26 [31.2, 50.5]", "two digits are transposed"),
        ("Map/fill", "98.76 [31.2, 50.5]", "it is another cell of the table, t/Exact/far:value"),
        ("Map/fill", "30.2 [31.2, 50.5]", "it is another cell of the table, t/Exact/fill:low"),
        ("Map/delta", "-2.09 [-8.9, 4.7]", "the difference of rounded numbers"),
        ("Map/fill", "40.41 [31.2, 50.5]", "78 of 193, not of 192"),
        ("Map/stock", "26.37 [33.3, 52.1]", "82 of 311, not of 192"),
        ("Map/far", "12.34 [11, 12.89]", "another seed: it is within 6 Monte-Carlo errors"),
        ("Map/far", "12.94 [11, 13]", "one digit is wrong"),
        ("Map/far", "1.34 [11, 13]", "a digit is missing"),
        ("Map/far", "12.4 [11, 13]", "one digit is wrong"),
        ("Map/far", "152.34 [11, 13]", "a digit too many"),
        ("Map/far", "12.374 [11, 13]", "a digit too many"),
        ("Map/far", "77.7 [11, 13]", ""),
    ],
)
def test_each_cause_is_found(cell: str, printed: str, cause: str) -> None:
    wrong = [one for one in checked(RIGHT | {cell: printed}) if one.standing is not Standing.MATCH]
    assert [(one.value, one.standing.value) for one in wrong] == [(f"t/{cell}", "MISMATCH")]
    assert wrong[0].cause == cause


def test_every_cause_has_its_case() -> None:
    """A cause that is added needs a case above."""
    assert len(causes.CAUSES) == 13


def test_a_table_that_is_wrong_everywhere_is_told_everywhere() -> None:
    """The numbers of another run: no cause is common to all, each still has its line."""
    shifted = dict.fromkeys(RIGHT, "71.23 [61.1, 81.9]")
    assert [one.standing.value for one in checked(shifted)] == ["MISMATCH"] * 36
