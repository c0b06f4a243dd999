"""mean: the mean of one arm."""

from __future__ import annotations

from recompute.statistics.base import OfMeans


class Mean(OfMeans):
    """sum_h w_h mean_h, in the unit of the values."""

    arms = ("arm",)
    numerator = (1,)
