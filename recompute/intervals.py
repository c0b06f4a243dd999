"""Intervals from a law: percentile, and bias-corrected and accelerated (BCa; Efron 1987), stratified.

Davison and Hinkley 1997, section 5.3.2 and eq. 5.25 for several samples; at most what `scipy.stats.bootstrap` does for
a statistic of several samples, one sample a stratum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ledger.errors import UsageProblem
from recompute.design import Design
from recompute.law import Law
from recompute.special import normal_cdf, normal_quantile

Method = Literal["bca", "percentile", "none"]
Side = Literal["both", "low"]
Ends = tuple[Fraction | None, Fraction | None]
Errors = tuple[float | None, float | None]
Reach = tuple[Fraction, Fraction] | None


@dataclass(frozen=True)
class Interval:
    """Which interval is asked. law "exact" needs a mean or a difference on a lattice, and draws nothing."""

    method: Method = "bca"
    level: float = 0.95
    law: Literal["resampled", "exact"] = "resampled"

    def __post_init__(self) -> None:
        if not 0 < self.level < 1:
            raise UsageProblem("no such level", expected="a share between 0 and 1", found=str(self.level))

    def tail(self, side: Side) -> float:
        """The share beyond an end: a one-sided 95 % bound is the 5 % end."""
        return (1 - self.level) / (2 if side == "both" else 1)


class Found(NamedTuple):
    """The ends, the standard error of each, and between which points other draws put it (`Law.reach`)."""

    ends: Ends
    error: Errors
    reach: tuple[Reach, Reach]


class Undefined(Exception):
    """The interval has no meaning; the text says why."""


def acceleration(influence: NDArray[np.float64], design: Design) -> float:
    """a of BCa from the influence l [n] of each item: sum(u^3) / (6 sum(u^2)^1.5) with u = l / stratum size.

    For a weighted mean l = w (x - mean of the stratum), w the stratum's weight: the closed form, no jackknife.
    """
    u = influence / design.size_of
    square = math.fsum(u * u)
    return math.fsum(u * u * u) / (6 * square**1.5) if square else 0.0


def percentile(law: Law, alpha: float, side: Side) -> Found:
    """The alpha and 1 - alpha ends of the law."""
    noise = alpha * (1 - alpha)
    return _read(law, side, (alpha, noise), (alpha, noise))


def bca(law: Law, alpha: float, side: Side, observed: float, slack: float, a: float) -> Found:
    """The BCa ends; `observed` in the law's own unit. Raises Undefined."""
    below = law.below(observed, slack)
    if not 0 < below < 1:
        raise Undefined("BCa is undefined: every resample lies on one side of the value")
    z0, z = normal_quantile(below), normal_quantile(alpha)
    low = _tail(z0, z, a, below)
    # The upper end is the lower one of the mirrored law.
    return _read(law, side, low, low if side == "low" else _tail(-z0, z, -a, 1 - below))


def _read(law: Law, side: Side, low: tuple[float, float], high: tuple[float, float]) -> Found:
    """The ends at these shares beyond them, each with the variance per draw of its rank."""
    below = law.low(low[0]), law.spread(*low, upper=False), law.reach(*low, upper=False)
    if side == "low":
        return Found((below[0], None), (below[1], None), (below[2], None))
    above = law.high(high[0]), law.spread(*high, upper=True), law.reach(*high, upper=True)
    return Found((below[0], above[0]), (below[1], above[1]), (below[2], above[2]))


def _tail(z0: float, z: float, a: float, below: float) -> tuple[float, float]:
    """The share beyond the end, and the variance per draw of the rank it is read at.

    That rank errs with the draws near the end and, through z0, with those on either side of the value; the two are
    correlated: both count the draws beyond the end.
    """
    bent = 1 - a * (z0 + z)
    if not bent > 0:  # NaN neither
        raise Undefined("BCa is undefined: the acceleration is too large for this level")
    at = z0 + (z0 + z) / bent
    share = normal_cdf(at)
    slope = math.exp((z0 * z0 - at * at) / 2) * (1 + 1 / bent**2)  # d share / d below
    both = min(share, below) - share * below
    return share, max(0.0, share * (1 - share) + slope**2 * below * (1 - below) - 2 * slope * both)
