"""Spec: what a value is, in words a study file can hold: a statistic of one metric over selected samples."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from ledger.errors import UsageProblem
from ledger.events.base import Part
from recompute.design import Weights
from recompute.intervals import Interval, Method
from recompute.statistics import STATISTICS, Statistic

Missing = Literal["error", "drop_pair", "score_zero"]
Unit = Literal["", "percent", "points"]
SCALES: dict[Unit, int] = {"": 1, "percent": 100, "points": 100}

_CALL = re.compile(r"^\s*([A-Za-z_][A-Za-z0-9_-]*)\s*(?:\((.*)\))?\s*$")


def read_statistic(text: str) -> Statistic:
    """`mean`, `paired_difference`, `quantile(q=0.99)` -> the statistic. Raises UsageProblem with the known names."""
    call = _CALL.match(text)
    name = call[1].replace("-", "_") if call else text
    if call is None or name not in STATISTICS:
        raise UsageProblem(f"no statistic is called {text!r}", expected=", ".join(STATISTICS))
    given: dict[str, float] = {}
    for part in filter(None, (piece.strip() for piece in (call[2] or "").split(","))):
        key, _, number = part.partition("=")
        try:
            given[key.strip()] = float(number)
        except ValueError:
            raise UsageProblem(f"{text!r} is no statistic", expected="name(key=number)", found=part) from None
    try:
        return STATISTICS[name](**given)
    except TypeError:
        raise UsageProblem(f"{name} takes no {', '.join(given)}", found=text) from None


def _known(text: str) -> str:
    try:
        read_statistic(text)
    except UsageProblem as unknown:
        raise ValueError(unknown.line()) from None
    return text


def _either(value: Any) -> tuple[Any, ...]:
    return (value,) if isinstance(value, str | int) else tuple(value)


StatisticText = Annotated[str, AfterValidator(_known)]
Names = Annotated[tuple[str, ...], Field(strict=False)]


class Spec(Part):
    """One value wanted.

    arm, baseline, exact: the arms that fill the statistic's columns, in that order. task, stratum, length, run: which
    samples, none named means all. where: fields of a sample's detail that must be so. strata: what samples are
    resampled within. document: the detail field that names a sample's document, for weights = "document".
    lattice: values are multiples of 1/lattice. missing: what becomes of a sample that an arm has no value for: refuse
    the value, drop it from every arm, or score it zero. n: how many items there must be.
    """

    statistic: StatisticText
    metric: str = Field(min_length=1)
    arm: str = Field(min_length=1)
    baseline: str = ""
    exact: str = ""
    task: str = ""
    stratum: str = ""
    length: int | None = None
    run: str = ""
    where: dict[str, str | int | bool] = Field(default_factory=dict)
    strata: Literal["stratum", "task", "length", "none"] = "stratum"
    weights: Weights = "sample"
    document: str = "document"
    lattice: int | None = Field(default=None, ge=1)
    interval: Method = "bca"
    law: Literal["resampled", "exact"] = "resampled"
    level: float = Field(default=0.95, gt=0, lt=1)
    resamples: int = Field(default=10_000, ge=100)
    missing: Missing = "error"
    unit: Unit = ""
    n: int | None = Field(default=None, ge=1)

    @property
    def how(self) -> Statistic:
        """The statistic."""
        return read_statistic(self.statistic)

    @property
    def ends(self) -> Interval:
        """The interval that is asked."""
        return Interval(self.interval, self.level, self.law)

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms named, one for each column of the statistic. Raises UsageProblem when the numbers differ."""
        named = tuple(arm for arm in (self.arm, self.baseline, self.exact) if arm)
        wanted = self.how.arms
        if len(named) != len(wanted):
            raise UsageProblem(f"{self.statistic} needs other arms", expected=", ".join(wanted), found=", ".join(named))
        return named

    @property
    def itself(self) -> bool:
        """Whether an arm is compared with itself: nothing is learned, and a dash may be printed."""
        return self.arm == self.baseline

    @property
    def scale(self) -> int:
        """What the metric is multiplied by for print."""
        return SCALES[self.unit]


def merged(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a Spec from general to particular; a later layer wins."""
    return {key: value for layer in layers for key, value in layer.items()}
