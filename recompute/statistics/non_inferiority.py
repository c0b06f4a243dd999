"""non_inferiority: how much worse the arm may be than the baseline, at most (paper, section 3.4)."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

from recompute.estimate import Estimate
from recompute.statistics.base import OfMeans

MISS = 0.05  # the floor is the one-sided 95 % bound, whatever level the bootstrap is asked for


def floor(n: int) -> float:
    """-(1 - 0.05^(1/n)): n samples without a failure cannot rule out a failure rate up to this, in shares.

    The Clopper-Pearson bound for no failure of n.
    """
    return math.expm1(math.log(MISS) / n)


def fewest(margin: float) -> int:
    """The fewest samples with which a margin (a share, 0 to 1) can be met at all: floor(n) > -margin."""
    n = math.ceil(math.log(MISS) / math.log1p(-margin))
    return n if floor(n) > -margin else n + 1


class NonInferiority(OfMeans):
    """arm - baseline with one end, its lower bound: the smaller of the bootstrap's and the binomial floor.

    Scores lie in [0, 1]. Not inferior by a margin m: the lower end is above -m, strictly.
    """

    arms = ("arm", "baseline")
    numerator = (1, -1)
    within = (0, 1)
    side = "low"

    def conclude(self, estimate: Estimate) -> Estimate:
        bound = Fraction(floor(estimate.n))
        if estimate.ends is None or estimate.ends[0] is None or estimate.ends[0] < bound:
            return estimate
        return replace(estimate, ends=(bound, None), error=None, reach=None, flags=(*estimate.flags, "floor"))
