"""Estimate: what a statistic says of the samples, exactly, and why it says nothing when it does not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its interval.

    value, ends: rationals, so that a tie is a tie when they are rounded for print; None where undefined, and an
        end that a one-sided interval does not have is None too.
    n, strata: items (documents, if those are weighed equally) and strata of the design; resamples: 0 when none drawn.
    error: Monte-Carlo standard error of each end, in the unit of the value; None where no resampling made the end.
    reach: between which points other draws put each end (`recompute.law`); wider than 3 errors on a coarse lattice.
    why: one line, when the value or the interval is undefined.
    flags: "degenerate" (no stratum varies, the interval is the point), "floor" (the binomial floor is the bound).
    counts: what else was counted, by name.
    """

    value: Fraction | None
    n: int
    strata: int
    ends: tuple[Fraction | None, Fraction | None] | None = None
    error: tuple[float | None, float | None] | None = None
    resamples: int = 0
    why: str = ""
    flags: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    reach: tuple[tuple[Fraction, Fraction] | None, tuple[Fraction, Fraction] | None] | None = None

    def scaled(self, factor: int) -> Estimate:
        """The same in another unit: 100 for points or percent. ValueError when the factor is not positive."""
        if factor < 1:
            raise ValueError(f"a unit is a positive whole number of the old one, not {factor}")
        times = [None if end is None else end * factor for end in self.ends or ()]
        wide = [None if error is None else error * factor for error in self.error or ()]
        far = [None if ends is None else (ends[0] * factor, ends[1] * factor) for ends in self.reach or ()]
        return replace(
            self,
            value=None if self.value is None else self.value * factor,
            ends=(times[0], times[1]) if times else None,
            error=(wide[0], wide[1]) if wide else None,
            reach=(far[0], far[1]) if far else None,
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain values for --json; the exact value and ends as text beside their floats."""
        ends = self.ends or (None, None)
        return {
            "value": _float(self.value),
            "low": _float(ends[0]),
            "high": _float(ends[1]),
            "exact": [None if number is None else str(number) for number in (self.value, *ends)],
            "monte_carlo_error": list(self.error) if self.error else None,
            "monte_carlo_reach": [ends and [float(end) for end in ends] for ends in self.reach] if self.reach else None,
            "n": self.n,
            "strata": self.strata,
            "resamples": self.resamples,
            "why": self.why,
            "flags": list(self.flags),
            "counts": dict(self.counts),
        }


def _float(number: Fraction | None) -> float | None:
    return None if number is None else float(number)
