"""What a statistic is made of: a quotient of totals, or order statistics. Each can be had for every resample."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recompute.design import Design

Counts = NDArray[np.float64]  # [rows, n]
Points = NDArray[np.float64]  # [rows]


@dataclass(frozen=True)
class Quotient:
    """A total over `unit`, or over another total: means, differences, ratios and shares of means.

    numerator, denominator: whole numbers [n], coded by `coding.weighted`; slack: how much equal numerators may differ.
    A quotient of whole numbers is rounded once, so equal ones stay equal.
    """

    numerator: NDArray[np.int64]
    denominator: NDArray[np.int64] | None
    unit: Fraction
    slack: int

    @property
    def columns(self) -> list[NDArray[np.int64]]:
        """What is totalled in each resample."""
        return [self.numerator] if self.denominator is None else [self.numerator, self.denominator]

    @property
    def scale(self) -> Fraction:
        """value = point / scale."""
        return self.unit if self.denominator is None else Fraction(1)

    def value(self) -> Fraction | None:
        """The quotient of all items; None when its denominator is not positive."""
        if self.denominator is None:
            return Fraction(int(self.numerator.sum())) / self.unit
        below = int(self.denominator.sum())
        return Fraction(int(self.numerator.sum()), below) if below > 0 else None

    def points(self, totals: NDArray[np.float64]) -> Points:
        """Totals [rows, columns] -> points [rows]; NaN where the denominator is not positive."""
        if self.denominator is None:
            return totals[:, 0]
        return _over([totals[:, 0], totals[:, 1]])

    def observed(self) -> float:
        """The point of all items."""
        return float(self.points(np.array([[column.sum() for column in self.columns]], dtype=np.float64))[0])

    def tolerance(self) -> float:
        """How far apart two points may be that are equal."""
        if self.denominator is None:
            return float(self.slack)
        below = float(self.denominator.sum())
        return self.slack * (1 + abs(float(self.numerator.sum()) / below)) / below

    def influence(self, design: Design) -> NDArray[np.float64]:
        """The jackknife influence of each item, [n]: in closed form for a mean, by totals without it for a ratio."""
        if self.denominator is None:
            return np.asarray(self.numerator * design.size_of - _stratum_totals(self.numerator, design), np.float64)
        return jackknife(_over([_without(column, design) for column in self.columns]), design)


@dataclass(frozen=True)
class Settled:
    """A value that needs no resampling and has no interval."""

    value: Fraction
    counts: Mapping[str, int]


@dataclass(frozen=True)
class Ranks:
    """The q-quantile of one column, or of the first over the second; numpy's `linear` rule (type 7).

    rows: whole numbers [n, 1 or 2], coded by `coding.gridded`.
    """

    rows: NDArray[np.int64]
    q: float
    unit: Fraction

    @property
    def columns(self) -> list[NDArray[np.int64]]:
        """What varies."""
        return list(self.rows.T)

    @property
    def scale(self) -> Fraction:
        """value = point / scale."""
        return self.unit if self.rows.shape[1] == 1 else Fraction(1)

    def value(self) -> Fraction | None:
        """The quantile of all items, exactly, or the ratio; None when the second quantile is not positive."""
        place, part = self._place(len(self.rows))
        ranked = np.sort(self.rows, axis=0)
        upper = ranked[min(place + 1, len(ranked) - 1)]
        tops = [int(low) + Fraction(part) * int(high - low) for low, high in zip(ranked[place], upper, strict=True)]
        if len(tops) == 1:
            return tops[0] / self.unit
        return tops[0] / tops[1] if tops[1] > 0 else None

    def points(self, counts: Counts) -> Points:
        """Counts [rows, n] -> points [rows]; NaN where the second quantile is not positive."""
        place, part = self._place(len(self.rows))
        found = []
        for column in self.columns:
            order = np.argsort(column, kind="stable")
            ranked = column[order].astype(np.float64)
            reached = np.cumsum(counts[:, order], axis=1)
            low = ranked[(reached <= place).sum(axis=1)]
            found.append(low if not part else low + part * (ranked[(reached <= place + 1).sum(axis=1)] - low))
        return _over(found)

    def observed(self) -> float:
        """The point of all items."""
        return float(self.points(np.ones((1, len(self.rows))))[0])

    def tolerance(self) -> float:
        """Equal quantiles are equal numbers."""
        return 0.0

    def influence(self, design: Design) -> NDArray[np.float64]:
        """The jackknife influence of each item, [n]."""
        n = len(self.rows)
        place, part = self._place(n - 1)
        found = []
        for column in self.columns:
            order = np.argsort(column, kind="stable")
            ranked = column[order].astype(np.float64)
            own = np.empty(n, dtype=np.int64)
            own[order] = np.arange(n)
            low = ranked[place + (own <= place)]
            high = ranked[np.minimum(place + 1 + (own <= place + 1), n - 1)]
            found.append(low + part * (high - low))
        return jackknife(_over(found), design)

    def _place(self, n: int) -> tuple[int, float]:
        place, part = divmod((n - 1) * self.q, 1)
        return int(place), part


def jackknife(without: NDArray[np.float64], design: Design) -> NDArray[np.float64]:
    """The statistic without each item [n] -> the item's influence: (size - 1)(the stratum's mean - that)."""
    mean = _stratum_totals(without, design) / design.size_of
    return np.asarray((design.size_of - 1) * (mean - without), np.float64)


def varying(columns: list[NDArray[np.int64]], design: Design) -> NDArray[np.bool_]:
    """Whether anything varies within each stratum, [strata]."""
    spans = [
        np.maximum.reduceat(column, design.starts) > np.minimum.reduceat(column, design.starts) for column in columns
    ]
    return np.asarray(np.logical_or.reduce(spans), np.bool_)


def _stratum_totals(column: NDArray[Any], design: Design) -> NDArray[Any]:
    """For each item the total of its stratum, [n]."""
    return np.repeat(np.add.reduceat(column, design.starts), design.sizes)


def _without(column: NDArray[np.int64], design: Design) -> NDArray[np.float64]:
    """The weighted total without each item, its stratum keeping its weight; an item alone in its stratum stays."""
    own = _stratum_totals(column, design)
    left = np.maximum(design.size_of - 1, 1)
    return np.asarray(column.sum() + (own - design.size_of * column) / left, np.float64)


def _over(found: list[NDArray[np.float64]]) -> Points:
    if len(found) == 1:
        return found[0]
    blank = np.full(len(found[0]), np.nan)
    np.divide(found[0], found[1], out=blank, where=found[1] > 0)
    return blank


Quantity = Quotient | Ranks | Settled
