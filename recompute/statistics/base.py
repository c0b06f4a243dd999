"""What a statistic is: the arms it reads, and the quantity it makes of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ledger.errors import UsageProblem
from recompute.coding import gridded, weighted
from recompute.design import Design
from recompute.estimate import Estimate
from recompute.intervals import Side
from recompute.quantities import Quantity, Quotient, Ranks

Values = NDArray[np.float64]  # [n, arms], in the design's order (`Design.align`)


@dataclass(frozen=True)
class Statistic(ABC):
    """One statistic. arms: what the columns of the values are, in order; side: which ends its interval has."""

    arms: ClassVar[tuple[str, ...]]
    side: ClassVar[Side] = "both"

    @abstractmethod
    def quantity(self, values: Values, design: Design, lattice: int | None) -> Quantity:
        """What is to be resampled. `lattice`: values are multiples of 1/lattice (1: whole, 4: quarter points)."""

    def conclude(self, estimate: Estimate) -> Estimate:
        """The last word on an estimate."""
        return estimate


class OfMeans(Statistic):
    """A combination of the arms' weighted means, over another one or over nothing.

    numerator, denominator: one coefficient an arm, 0, 1 or -1, at most two of them not 0 (`coding.ROOM`).
    within: the range every value must lie in.
    """

    numerator: ClassVar[tuple[int, ...]]
    denominator: ClassVar[tuple[int, ...] | None] = None
    within: ClassVar[tuple[float, float] | None] = None

    def quantity(self, values: Values, design: Design, lattice: int | None) -> Quotient:
        if self.within is not None:
            _hold_within(values, design, *self.within)
        coded = weighted(values, design, lattice)
        over = None if self.denominator is None else coded.rows @ np.array(self.denominator, dtype=np.int64)
        return Quotient(coded.rows @ np.array(self.numerator, dtype=np.int64), over, coded.unit, coded.slack)


class OfRanks(Statistic):
    """A quantile of the arm, or of the first arm over the second; items weigh equally."""

    def quantity(self, values: Values, design: Design, lattice: int | None) -> Ranks:
        if design.weights == "stratum":
            raise UsageProblem(
                "a quantile does not weigh strata",
                expected='weights = "sample" or "document"',
                found='"stratum"',
            )
        coded = gridded(values, lattice)
        return Ranks(coded.rows, self.share, coded.unit)

    @property
    @abstractmethod
    def share(self) -> float:
        """The share of items below the quantile."""


def _hold_within(values: Values, design: Design, low: float, high: float) -> None:
    outside = ((values < low) | (values > high)).any(axis=1)
    if outside.any():
        first = int(np.argmax(outside))
        raise UsageProblem(
            "a score is out of range",
            expected=f"{low:g} to {high:g}",
            found=f"{float(values[first].max()):g} for {design.items[first]}",
            cause="percents where shares are meant",
        )
