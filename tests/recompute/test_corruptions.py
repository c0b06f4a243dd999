"""Random single-cell corruptions of a correct report of 400 cells: every one found, no false alarm on the clean one."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction

import pytest

from recompute.binding import bind
from recompute.check import check
from recompute.documents import READERS
from recompute.estimate import Estimate
from recompute.load import parse_reported
from recompute.printed import numbers
from recompute.rounding import spell
from recompute.standing import Checked, Standing
from recompute.valued import Valued

ROWS, COLUMNS = 40, 10  # every other column has intervals
TOML = """
[[table]]
id = "points"
file = "FILE"
name = "Table 1"
statistic = "mean"
arm = "map"
rows = "task"
columns = "metric"
[[table]]
id = "intervals"
file = "FILE"
name = "Table 2"
statistic = "mean"
unit = "percent"
arm = "map"
rows = "task"
columns = "metric"
"""
Place = tuple[str, int, int]  # table, row, column
Cells = dict[Place, str]  # what is printed


def study(seed: int) -> tuple[dict[str, Estimate], Cells]:
    """Values as they might be recomputed, and how each is printed rightly."""
    draw = random.Random(seed)
    estimates: dict[str, Estimate] = {}
    cells: Cells = {}
    for row in range(ROWS):
        for column in range(COLUMNS):
            table = ("points", "intervals")[column % 2]
            value = Fraction(draw.randint(-99_999, 99_999), draw.choice((1009, 777, 503)))  # no ties
            name = f"{table}/row {row}/col {column}"
            decimals = draw.randint(1, 4)
            if table == "points":
                estimates[name] = Estimate(value, 503, 1)
                cells[table, row, column] = spell(value, decimals)
                continue
            ends = (value - Fraction(draw.randint(1, 4000), 301), value + Fraction(draw.randint(1, 4000), 301))
            error = (0.004, 0.004) if draw.random() < 0.5 else None
            estimates[name] = Estimate(value, 503, 1, ends, error, 10_000 if error else 0)
            low, high = (spell(end, decimals) for end in ends)
            cells[table, row, column] = f"{spell(value, decimals)} [{low}, {high}]"
    return estimates, cells


def report(cells: Cells, suffix: str) -> tuple[str, dict[Place, int]]:
    """The text, and the line of each cell's row."""
    lines: list[str] = []
    at: dict[Place, int] = {}
    for number, table in enumerate(("points", "intervals"), start=1):
        columns = sorted({column for name, _, column in cells if name == table})
        header = [f"col {column}" for column in columns]
        if suffix == ".md":
            lines += [
                f"Table {number}: {table}",
                "",
                f"| row | {' | '.join(header)} |",
                "|---" * (len(columns) + 1) + "|",
            ]
        else:
            lines += [r"\begin{table}", rf"\caption{{Table {number}: {table}}}", r"\begin{tabular}{lrrrrr}"]
            lines += [f"row & {' & '.join(header)} \\\\"]
        for row in range(ROWS):
            texts = [cells[table, row, column] for column in columns]
            joined = (
                f"| row {row} | {' | '.join(texts)} |" if suffix == ".md" else f"row {row} & {' & '.join(texts)} \\\\"
            )
            lines.append(joined)
            at.update({(table, row, column): len(lines) for column in columns})
        lines += [""] if suffix == ".md" else [r"\end{tabular}", r"\end{table}", ""]
    return "\n".join(lines) + "\n", at


def checked(cells: Cells, estimates: Mapping[str, Estimate], suffix: str) -> list[Checked]:
    """Every standing, and what the reader itself refuses."""
    file = f"report{suffix}"
    document = READERS[suffix].read(file, report(cells, suffix)[0])
    bindings = bind(parse_reported(TOML.replace("FILE", file), "reported.toml"), {file: document})
    values = {name: Valued(name, spec, estimates[name], key="k") for name, spec in bindings.specs.items()}
    refused = [Checked(Standing.REFUSED, file, 0, cause=one.line()) for one in document.findings]
    return [*check(bindings, values, {}), *refused]


def corrupted(
    draw: random.Random, cells: Cells, estimates: Mapping[str, Estimate]
) -> tuple[str, tuple[str, int, int], str]:
    """(kind, where, what is printed then); always another text, value or precision than the right one."""
    while True:
        kind = draw.choice(list(KINDS))
        place = draw.choice(list(cells))
        right = cells[place]
        found = draw.choice(list(re.finditer(r"-?\d+\.\d+", right)))
        wrong = KINDS[kind](draw, found[0], place, cells)
        text = right[: found.start()] + wrong + right[found.end() :]
        before, after = (tuple((one.value, one.decimals) for one in numbers(printed)) for printed in (right, text))
        if before != after and not _also_right(right, text, estimates["{}/row {}/col {}".format(*place)]):
            return kind, place, text


def _also_right(right: str, text: str, estimate: Estimate) -> bool:
    """Whether the other text is a right print too, of other precision: 40.6 for 40.62."""
    wanted = [estimate.value, *(estimate.ends or ())]
    printed = numbers(text)
    return len(printed) == len(numbers(right)) and all(
        one.value == round(Fraction(value or 0), one.decimals) for one, value in zip(printed, wanted, strict=True)
    )


def _digit(draw: random.Random, number: str, *_: object) -> str:
    at = draw.choice([place for place, char in enumerate(number) if char.isdigit()])
    return number[:at] + draw.choice("0123456789") + number[at + 1 :]


def _dropped(draw: random.Random, number: str, *_: object) -> str:
    at = draw.choice([place for place, char in enumerate(number) if char.isdigit()])
    return number[:at] + number[at + 1 :]


def _doubled(draw: random.Random, number: str, *_: object) -> str:
    at = draw.choice([place for place, char in enumerate(number) if char.isdigit()])
    return number[:at] + number[at] + number[at:]


def _transposed(draw: random.Random, number: str, *_: object) -> str:
    at = draw.choice([place for place in range(len(number) - 1) if number[place : place + 2].isdigit()] or [0])
    return number[:at] + number[at + 1] + number[at] + number[at + 2 :]


def _flipped(draw: random.Random, number: str, *_: object) -> str:
    return number[1:] if number.startswith("-") else f"-{number}"


def _rounded_wrongly(draw: random.Random, number: str, *_: object) -> str:
    decimals = len(number.partition(".")[2])
    return spell(Fraction(number) + draw.choice((-1, 1)) * Fraction(1, 10**decimals), decimals)


def _hundredfold(draw: random.Random, number: str, *_: object) -> str:
    decimals = len(number.partition(".")[2])
    return spell(Fraction(number) * draw.choice((Fraction(100), Fraction(1, 100))), decimals)


def _neighbour(draw: random.Random, number: str, place: Place, cells: Cells) -> str:
    table, row, column = place
    other = cells[draw.choice([at for at in ((table, row - 1, column), (table, row + 1, column)) if at in cells])]
    return numbers(other)[0].text


def _emptied(draw: random.Random, number: str, *_: object) -> str:
    return draw.choice(("n/a", "?", "", "1_000", "3.1.4"))


KINDS = {
    kind.__name__.strip("_"): kind
    for kind in (
        _digit,
        _dropped,
        _doubled,
        _transposed,
        _flipped,
        _rounded_wrongly,
        _hundredfold,
        _neighbour,
        _emptied,
    )
}


@pytest.mark.parametrize(("suffix", "times"), [(".md", 200), (".tex", 50)])
def test_every_corruption_is_found_at_its_place_and_the_clean_report_is_quiet(suffix: str, times: int) -> None:
    draw = random.Random(5)
    estimates, cells = study(11)
    assert len(cells) == 400
    clean = checked(cells, estimates, suffix)
    assert len(clean) == 200 + 3 * 200
    assert {one.standing for one in clean} == {Standing.MATCH}
    lines = report(cells, suffix)[1]
    seen: Counter[str] = Counter()
    for _ in range(times):
        kind, place, text = corrupted(draw, cells, estimates)
        wrong = [one for one in checked(cells | {place: text}, estimates, suffix) if one.standing is not Standing.MATCH]
        table, row, column = place
        at = (lines[place], f"row {row}", f"col {column}")
        here = [one for one in wrong if (one.line, one.row, one.column) == at]
        told = [one.finding().line() for one in wrong]
        assert here, (kind, cells[place], text, told)
        assert all(one.line in (lines[place], 0) for one in wrong), (kind, text, told)  # nothing else is accused
        # An end that moves by less than another seed would move it is told, and is no failure.
        assert any(one.fails(strict=False) or one.standing is Standing.MC_CONSISTENT for one in here), told
        if all(one.standing is Standing.MC_CONSISTENT for one in here):
            assert estimates[f"{table}/row {row}/col {column}"].error
            seen["within Monte-Carlo error"] += 1
        seen[kind] += 1
    assert set(KINDS) <= set(seen), "a kind was never drawn"
    assert seen["within Monte-Carlo error"] <= times // 10
