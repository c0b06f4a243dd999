"""The law of a resampled statistic: by drawing from it, or exactly where the statistic lives on a lattice.

An end is the innermost point that leaves at most alpha beyond it, counted from its own side: always a point that the
statistic can take, and mirrored when the arms are swapped, which quantile rules that interpolate or always round up
are not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ledger.errors import UsageProblem
from recompute.design import Design

WIDEST = 2**22  # points of an exact law
REACH = 3  # errors of its rank that another set of draws may read an end at
ROUNDING = 1e-9  # of a probability or a rank: alpha = 1 - 0.95 is not 5 % to the last bit


class Law(Protocol):
    """Points of the statistic in its own unit, and how they are distributed."""

    def below(self, point: float, slack: float) -> float:
        """P(T < point) + P(T = point) / 2, equal being within slack."""

    def low(self, alpha: float) -> Fraction:
        """The smallest point with at least alpha at or below it."""

    def high(self, alpha: float) -> Fraction:
        """The largest point with at least alpha at or above it."""

    def spread(self, alpha: float, variance: float, *, upper: bool) -> float | None:
        """The standard error of an end whose share has this variance per draw; None when nothing was drawn."""

    def reach(self, alpha: float, variance: float, *, upper: bool) -> tuple[Fraction, Fraction] | None:
        """The points between which other draws put the end, REACH errors of its rank either side; None as above."""


@dataclass(frozen=True)
class Draws:
    """Resampled points [resamples], sorted; value = point / unit."""

    points: NDArray[np.float64]
    unit: Fraction

    def below(self, point: float, slack: float) -> float:
        less = int(np.searchsorted(self.points, point - slack, "left"))
        not_more = int(np.searchsorted(self.points, point + slack, "right"))
        return (less + not_more) / (2 * len(self.points))

    def low(self, alpha: float) -> Fraction:
        return Fraction(float(self.points[self._rank(alpha)])) / self.unit

    def high(self, alpha: float) -> Fraction:
        return Fraction(float(self.points[-1 - self._rank(alpha)])) / self.unit

    def spread(self, alpha: float, variance: float, *, upper: bool) -> float:
        # Two errors to either side: on a lattice one step is often wider than one error.
        under, above = self._around(alpha, 2, variance, upper=upper)
        return (above - under) / 4 / float(self.unit)

    def reach(self, alpha: float, variance: float, *, upper: bool) -> tuple[Fraction, Fraction]:
        under, above = self._around(alpha, REACH, variance, upper=upper)
        return Fraction(under) / self.unit, Fraction(above) / self.unit

    def _around(self, alpha: float, errors: int, variance: float, *, upper: bool) -> tuple[float, float]:
        """The points so many errors of the rank below and above an end."""
        last = len(self.points) - 1
        rank = last - self._rank(alpha) if upper else self._rank(alpha)
        steps = max(1, round(errors * math.sqrt(len(self.points) * variance)))
        return float(self.points[max(0, rank - steps)]), float(self.points[min(last, rank + steps)])

    def _rank(self, alpha: float) -> int:
        return min(max(math.ceil(len(self.points) * alpha - ROUNDING), 1), len(self.points)) - 1


@dataclass(frozen=True)
class Lattice:
    """The exact law: chances [points] of first, first + step, ...; value = point / unit."""

    first: int
    step: int
    chances: NDArray[np.float64]
    unit: Fraction

    def below(self, point: float, slack: float) -> float:
        place = (round(point) - self.first) // self.step
        return float(self.chances[:place].sum() + self.chances[place] / 2)

    def low(self, alpha: float) -> Fraction:
        return self._at(int(np.searchsorted(np.cumsum(self.chances), alpha - ROUNDING)))

    def high(self, alpha: float) -> Fraction:
        return self._at(len(self.chances) - 1 - int(np.searchsorted(np.cumsum(self.chances[::-1]), alpha - ROUNDING)))

    def spread(self, alpha: float, variance: float, *, upper: bool) -> None:
        return None

    def reach(self, alpha: float, variance: float, *, upper: bool) -> None:
        return None

    def _at(self, place: int) -> Fraction:
        return (self.first + self.step * min(max(place, 0), len(self.chances) - 1)) / self.unit


def lattice_law(column: NDArray[np.int64], design: Design, unit: Fraction) -> Lattice:
    """The law of the total of one draw per item, each from its stratum: the strata's laws convolved (by FFT).

    Chances are right to about 1e-13. Raises UsageProblem when the lattice has too many points.
    """
    strata = np.split(column, design.starts[1:])
    least = [int(stratum.min()) for stratum in strata]
    step = int(np.gcd.reduce(np.concatenate([stratum - low for stratum, low in zip(strata, least, strict=True)]))) or 1
    width = 1 + sum(len(stratum) * int(stratum.max() - low) // step for stratum, low in zip(strata, least, strict=True))
    if width > WIDEST:
        raise UsageProblem(
            "the exact law has too many points",
            expected=f"at most {WIDEST}",
            found=str(width),
            cause="values that are no multiples of a coarse step",
            hint="use resamples",
        )
    length = 1 << (width - 1).bit_length()
    spectrum = np.ones(length // 2 + 1, dtype=np.complex128)
    for stratum, low in zip(strata, least, strict=True):
        one = np.bincount((stratum - low) // step, minlength=length) / len(stratum)
        spectrum *= np.fft.rfft(one) ** len(stratum)
    chances = np.clip(np.fft.irfft(spectrum, length)[:width], 0, None)
    first = sum(len(stratum) * low for stratum, low in zip(strata, least, strict=True))
    return Lattice(first, step, chances, unit)
