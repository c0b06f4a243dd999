"""Predictions as a forest plot: one panel for each statistic, metric and unit, so that a scale means something."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from recompute.decided import Decided
from recompute.estimate import Estimate
from recompute.report.digits import interval_text, value_text
from recompute.report.scale import Scale, percent

_RULE = re.compile(r".*: (<=|>=|==|<|>) ([+-]?\d+(?:\.\d+)?) ", re.DOTALL)  # as `recompute.rules.Rule.words` writes it


@dataclass(frozen=True)
class Bar:
    """One prediction. Places are percentages of the panel's width.

    low, high: None for no interval, an open end runs to the edge; threshold: None when the rule's words give none;
    holds: from where to where the rule holds, (start, width).
    """

    decided: Decided
    title: str
    point: str
    ends: tuple[str, str] | None
    caps: tuple[str, ...]
    threshold: str | None
    holds: tuple[str, str] | None


@dataclass(frozen=True)
class Panel:
    """Predictions that share a scale. zero: where 0 is, None when it is not in the panel."""

    metric: str
    statistic: str
    unit: str
    bars: tuple[Bar, ...]
    ticks: tuple[tuple[str, str], ...]
    zero: str | None


def threshold(rule: str) -> tuple[str, Fraction] | None:
    """Comparator and number of a rule in words; None when it has none."""
    found = _RULE.match(rule)
    return (found[1], Fraction(found[2])) if found else None


def panels(decided: Iterable[Decided]) -> tuple[Panel, ...]:
    """The panels, in the order in which the ledger first has one of their predictions."""
    groups: dict[tuple[str, str, str], list[tuple[Decided, Estimate]]] = {}
    for one in decided:
        if one.value and one.value.estimate and one.value.estimate.value is not None:
            spec = one.value.spec
            groups.setdefault((spec.metric, spec.statistic, spec.unit), []).append((one, one.value.estimate))
    return tuple(_panel(key, members) for key, members in groups.items())


def _panel(key: tuple[str, str, str], members: list[tuple[Decided, Estimate]]) -> Panel:
    limits = [rule[1] for one, _ in members if (rule := threshold(one.rule))]
    numbers = [number for _, estimate in members for number in (estimate.value, *(estimate.ends or ()))]
    scale = Scale.over(float(number) for number in (*numbers, *limits) if number is not None)
    zero = percent(scale.at(0)) if scale.low <= 0 <= scale.high else None
    ticks = tuple((text, percent(place)) for text, place in scale.ticks())
    return Panel(*key, tuple(_bar(one, estimate, scale) for one, estimate in members), ticks, zero)


def _bar(decided: Decided, estimate: Estimate, scale: Scale) -> Bar:
    def at(number: Fraction | None, edge: str) -> str:
        return edge if number is None else percent(scale.at(float(number)))

    low, high = estimate.ends or (None, None)
    rule = threshold(decided.rule)
    return Bar(
        decided,
        " ".join(filter(None, (value_text(estimate), interval_text(estimate)))),
        at(estimate.value, ""),
        (at(low, "0%"), at(high, "100%")) if estimate.ends else None,
        tuple(at(end, "") for end in (low, high) if end is not None),
        percent(scale.at(float(rule[1]))) if rule else None,
        _holds(rule, scale) if rule else None,
    )


def _holds(rule: tuple[str, Fraction], scale: Scale) -> tuple[str, str] | None:
    place = scale.at(float(rule[1]))
    if rule[0] == "==":
        return None
    return ("0%", percent(place)) if rule[0].startswith("<") else (percent(place), percent(1 - place))
