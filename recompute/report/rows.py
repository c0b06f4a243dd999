"""The values table: a row for every value and for every printed number that no value stands behind."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from recompute.estimate import Estimate
from recompute.report.digits import UNITS, interval_text, value_text
from recompute.report.model import Report
from recompute.spec import Spec
from recompute.standing import Checked, Standing
from recompute.valued import Valued

# The gravest first: a row of several printed numbers stands as its worst one.
_GRAVITY = (
    Standing.MISMATCH,
    Standing.REFUSED,
    Standing.MISSING,
    Standing.STALE,
    Standing.UNBOUND,
    Standing.MATCH_OTHER_TIE,
    Standing.MC_CONSISTENT,
    Standing.RELATION_ONLY,
    Standing.MATCH,
)
_PLACES = re.compile(r"\.(\d+)")


@dataclass(frozen=True)
class Print:
    """One place where a value is printed: its point, interval and n together."""

    where: str
    cell: str
    text: str
    remarks: tuple[str, ...]


@dataclass(frozen=True)
class Row:
    """One row. standing: None when it is printed nowhere."""

    id: str
    told: str
    value: Valued | None
    recomputed: str
    interval: str
    unit: str
    standing: Standing | None
    fails: bool
    prints: tuple[Print, ...]


def rows(report: Report) -> list[Row]:
    """Values in their order, then printed numbers without a value in theirs."""
    by_value: dict[str, list[Checked]] = {value.id: [] for value in report.values}
    alone: list[list[Checked]] = []
    for checked in report.checked:
        if checked.value:
            by_value.setdefault(checked.value, []).append(checked)
        else:
            alone.append([checked])
    values = {value.id: value for value in report.values}
    found = [_row(name, values.get(name), group, strict=report.strict) for name, group in by_value.items()]
    return found + [_row("", None, group, strict=report.strict) for group in alone]


def described(spec: Spec) -> str:
    """A spec in words: `paired_difference of loss: map against exact; task ruler, split 15`."""
    arms = " against ".join(filter(None, (spec.arm, spec.baseline, spec.exact)))
    chosen = {"task": spec.task, "stratum": spec.stratum, "length": spec.length, "run": spec.run, **spec.where}
    named = ", ".join(f"{key} {value}" for key, value in chosen.items() if value not in ("", None))
    return f"{spec.statistic} of {spec.metric}: {arms}" + (f"; {named}" if named else "")


def how(estimate: Estimate) -> str:
    """What an estimate rests on, in words."""
    errors = [f"{error:.2g}" for error in estimate.error or () if error is not None]
    told = [
        f"{estimate.n} items in {estimate.strata} {'stratum' if estimate.strata == 1 else 'strata'}",
        f"{estimate.resamples} resamples" if estimate.resamples else "no resampling",
        f"Monte-Carlo error of the ends {', '.join(errors)}" if errors else "",
        *estimate.flags,
        *(f"{name.replace('_', ' ')}: {number}" for name, number in estimate.counts.items() if number),
        estimate.why,
    ]
    return "; ".join(filter(None, told))


def _row(name: str, value: Valued | None, group: Sequence[Checked], *, strict: bool) -> Row:
    estimate = value.estimate if value else None
    places = max((len(found[1]) for one in group if (found := _PLACES.search(one.recomputed))), default=None)
    standings = {one.standing for one in group}
    return Row(
        name,
        described(value.spec) if value else "",
        value,
        value_text(estimate, places) or next((one.recomputed for one in group if one.recomputed), ""),
        interval_text(estimate, places),
        UNITS[value.spec.unit] if value else "",
        next((standing for standing in _GRAVITY if standing in standings), None),
        any(one.fails(strict=strict) for one in group),
        tuple(_prints(group)),
    )


def _prints(group: Sequence[Checked]) -> Iterable[Print]:
    places: dict[tuple[str, int, str, str, str], list[Checked]] = {}
    for one in group:
        places.setdefault((one.file, one.line, one.table, one.row, one.column), []).append(one)
    for (file, line, *cell), slots in places.items():
        remarks = dict.fromkeys(_remark(one) for one in slots)
        yield Print(f"{file}:{line}", " / ".join(filter(None, cell)), _printed(slots), tuple(filter(None, remarks)))


def _remark(checked: Checked) -> str:
    if checked.standing is Standing.MATCH:
        return ""
    told = (checked.rule, checked.cause and f"likely cause: {checked.cause}")
    said = "; ".join(filter(None, told))
    return f"{checked.slot or 'number'} {checked.standing.value}: {said}" if said else ""


def _printed(slots: Iterable[Checked]) -> str:
    text = {one.slot or "value": one.printed or "nothing" for one in slots}
    parts = [text[slot] for slot in ("value",) if slot in text]
    if "low" in text and "high" in text:
        parts.append(f"[{text.pop('low')}, {text.pop('high')}]")
    return " ".join([*parts, *(f"{slot} {text[slot]}" for slot in ("low", "high", "n") if slot in text)])
