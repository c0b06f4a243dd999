"""relative_change: by what share of the baseline's mean the arm's mean differs from it."""

from __future__ import annotations

from recompute.statistics.base import OfMeans


class RelativeChange(OfMeans):
    """mean(arm) / mean(baseline) - 1; undefined unless the baseline's mean is positive, in every resample."""

    arms = ("arm", "baseline")
    numerator = (1, -1)
    denominator = (0, 1)
