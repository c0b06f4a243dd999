"""The plots a study asks for: a bound table as lines or bars with its intervals."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log

from recompute.estimate import Estimate
from recompute.report.digits import UNITS, interval_text, value_text
from recompute.report.model import Report
from recompute.report.scale import Scale, percent
from recompute.reported import Plot, Table
from recompute.valued import Valued

HEIGHT = 240  # of the field, px
_NUMBER = re.compile(r"([+-]?\d+(?:[.,]\d+)?)\s*([KkM]?)\b")
_TIMES = {"": 1.0, "k": 1024.0, "m": 1024.0**2}
_SIDE_BY_SIDE = 40  # characters that fit under a plot on a phone
_LOG_FROM = 10  # a range this many times its start is drawn by its logarithm


@dataclass(frozen=True)
class Point:
    """One value. x, width: percentages; y, low, high: px from the top; low, high: None without an interval."""

    label: str
    text: str
    x: str
    y: float
    low: float | None
    high: float | None
    left: str = ""
    width: str = ""


@dataclass(frozen=True)
class Series:
    """One line or one colour of bars. shift: px to the right, so that whiskers do not hide each other."""

    name: str
    points: tuple[Point, ...]
    shift: float = 0.0


@dataclass(frozen=True)
class Chart:
    """One plot, ready to be drawn."""

    plot: Plot
    series: tuple[Series, ...]
    x: str
    y: str
    x_ticks: tuple[tuple[str, str], ...]
    y_ticks: tuple[tuple[str, float], ...]
    floor: float
    missing: int
    height: int = HEIGHT

    @property
    def slanted(self) -> bool:
        """Whether the labels of the x axis would run into each other side by side."""
        return len(self.x_ticks) > 1 and sum(len(label) + 2 for label, _ in self.x_ticks) > _SIDE_BY_SIDE


Cells = Mapping[tuple[str, str], Estimate | None]
Places = Mapping[str, tuple[str, float]]  # label -> what the axis says of it, and where


def charts(report: Report) -> tuple[Chart, ...]:
    """A chart for each plot, also for one that has nothing to show."""
    tables = {table.id: table for table in report.reported.tables}
    return tuple(_chart(plot, tables.get(plot.table), report.values) for plot in report.plots)


def _chart(plot: Plot, table: Table | None, values: Sequence[Valued]) -> Chart:
    mine = [] if table is None else [(_labels(value.id, table), value) for value in values if _of(value, table)]
    turn = plot.series == "columns"
    cells = {(column, row) if turn else (row, column): value.estimate for (row, column), value in mine}
    names, labels = _kept([name for name, _ in cells], plot.only), _kept([label for _, label in cells], plot.only)
    drawn = {key: one for key, one in cells.items() if key[0] in names and key[1] in labels}
    numbers = [
        float(number)
        for one in drawn.values()
        if one is not None
        for number in (one.value, *(one.ends or ()))
        if number is not None
    ]
    bars = plot.kind == "bar"
    scale = Scale.over(numbers, zero=bars or _near_zero(numbers))
    places, logarithmic = (_spread(labels), False) if bars else _placed(labels)
    units = dict.fromkeys(UNITS[value.spec.unit] or value.spec.metric for _, value in mine)
    series = tuple(
        Series(
            name,
            tuple(_points(name, drawn, places, scale, (index, len(names)) if bars else None)),
            0.0 if bars else 4.0 * (index - (len(names) - 1) / 2),
        )
        for index, name in enumerate(names)
    )
    return Chart(
        plot,
        series,
        ", ".join(filter(None, (plot.x, "logarithmic" if logarithmic else ""))),
        plot.y or (next(iter(units)) if len(units) == 1 else ""),
        tuple((text, percent(place)) for text, place in places.values()),
        tuple((text, _down(place)) for text, place in scale.ticks()),
        _down(scale.at(0)) if scale.low <= 0 <= scale.high else float(HEIGHT),
        len(names) * len(labels) - sum(len(one.points) for one in series),
    )


def _of(value: Valued, table: Table) -> bool:
    return value.id.startswith(f"{table.id}/")


def _labels(name: str, table: Table) -> tuple[str, str]:
    """Row and column of a cell's id; a label may hold a slash, so the declared ones are looked for first."""
    cell = name[len(table.id) + 1 :]
    several = r"(?:#\d+)?"  # one of several values of a cell is a column by itself
    for column in sorted(table.columns, key=len, reverse=True) if isinstance(table.columns, dict) else ():
        if found := re.fullmatch(rf"(.*)/({re.escape(column)}{several})", cell, re.DOTALL):
            return found[1], found[2]
    for row in sorted(table.rows, key=len, reverse=True) if isinstance(table.rows, dict) else ():
        if cell.startswith(f"{row}/"):
            return row, cell[len(row) + 1 :]
    row, _, column = cell.rpartition("/")
    return row, column


def _kept(labels: Iterable[str], only: Sequence[str]) -> list[str]:
    """Each label once; those named by `only`, if it names any of them."""
    each = list(dict.fromkeys(labels))
    return [label for label in each if label in only] or each


def _near_zero(numbers: Sequence[float]) -> bool:
    return bool(numbers) and min(map(abs, numbers)) < 0.5 * max(map(abs, numbers))


def _placed(labels: Sequence[str]) -> tuple[Places, bool]:
    """Labels as the numbers they say and where those are, if each says another one; evenly otherwise.

    The second answer: whether the places are of the numbers' logarithms.
    """
    said = [found for label in labels if (found := _NUMBER.search(label))]
    known = [float(one[1].replace(",", "")) * _TIMES[one[2].lower()] for one in said]
    if len(labels) < 2 or len(set(known)) < len(labels):
        return _spread(labels), False
    logarithmic = min(known) > 0 and max(known) >= _LOG_FROM * min(known)
    if logarithmic:
        known = [log(number) for number in known]
    scale = Scale.over(known, room=0.08)
    texts = (one[0].strip() for one in said)
    return {label: (text, scale.at(at)) for label, text, at in zip(labels, texts, known, strict=True)}, logarithmic


def _spread(labels: Sequence[str]) -> Places:
    return {label: (label, (index + 0.5) / len(labels)) for index, label in enumerate(labels)}


def _down(place: float) -> float:
    return round(HEIGHT * (1 - place), 1)


def _points(name: str, cells: Cells, places: Places, scale: Scale, group: tuple[int, int] | None) -> Iterable[Point]:
    for label, (_, place) in places.items():
        estimate = cells.get((name, label))
        if estimate is None or estimate.value is None:
            continue
        left = width = ""
        if group is not None:
            index, of = group
            each = 0.8 / len(places) / of
            start = place + each * (index - of / 2)
            left, width, place = percent(start + each * 0.06), percent(each * 0.88), start + each / 2
        low, high = (
            (_down(scale.at(float(end))) if end is not None else None) for end in estimate.ends or (None, None)
        )
        text = " ".join(filter(None, (value_text(estimate), interval_text(estimate))))
        yield Point(label, text, percent(place), _down(scale.at(float(estimate.value))), low, high, left, width)
