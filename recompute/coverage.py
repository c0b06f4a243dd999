"""How often a 95 % BCa interval holds the true mean of skewed data: the part of a bench that is no time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from recompute.design import Design
from recompute.estimate import Estimate
from recompute.evaluate import Ask, estimates
from recompute.statistics import STATISTICS

RESAMPLES = 5_000  # the paper's BCa, section 3.4
STRATA = 5

# generator, replications and each item's stratum [items] -> values [replications, items]
World = Callable[[np.random.Generator, int, NDArray[np.int64]], NDArray[np.float64]]

# name -> what draws, and the true mean; strata are of equal size
WORLDS: dict[str, tuple[World, float]] = {
    "exponential": (lambda rng, times, stratum: rng.exponential(1, (times, len(stratum))), 1.0),
    "strata of unlike scale": (
        lambda rng, times, stratum: rng.exponential(1.0 + stratum, (times, len(stratum))),
        (STRATA + 1) / 2,
    ),
    "one in ten wins or loses": (
        lambda rng, times, stratum: rng.choice([1.0, -1.0, 0.0], (times, len(stratum)), p=[0.02, 0.08, 0.9]),
        -0.06,
    ),
}


def coverage(world: str, items: int, replications: int) -> float:
    """The share of replications whose interval holds the truth. Replications share their resamples, not their data."""
    draw, truth = WORLDS[world]
    stratum = np.arange(items) * STRATA // items
    design = Design.of([f"{i:06}" for i in range(items)], [str(h) for h in stratum], resamples=RESAMPLES)
    drawn = draw(np.random.default_rng(0), replications, stratum)
    told = estimates([Ask(STATISTICS["mean"](), values[:, None]) for values in drawn], design)
    return sum(_holds(one, truth) for one in told) / replications


def _holds(told: Estimate, truth: float) -> bool:
    low, high = told.ends or (None, None)
    return low is not None and high is not None and low <= truth <= high
