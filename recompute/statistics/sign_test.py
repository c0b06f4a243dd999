"""sign_test: whether arm beats baseline as often as it loses; exact, two-sided."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from recompute.coding import gridded
from recompute.design import Design
from recompute.quantities import Settled
from recompute.special import binomial_cdf
from recompute.statistics.base import Statistic, Values


class SignTest(Statistic):
    """The binomial p of gains against losses, ties left out; 1 when there is neither. Strata do not matter."""

    arms = ("arm", "baseline")

    def quantity(self, values: Values, design: Design, lattice: int | None) -> Settled:
        rows = gridded(values, lattice).rows
        difference = np.sign(rows[:, 0] - rows[:, 1])
        gains, losses = int((difference > 0).sum()), int((difference < 0).sum())
        p = min(1.0, 2 * binomial_cdf(min(gains, losses), gains + losses))
        return Settled(Fraction(p), {"gains": gains, "losses": losses, "ties": design.n - gains - losses})
