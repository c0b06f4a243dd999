"""loss_removed: the share of the filled arm's added loss that a splice takes away (paper, section 6.9, Table 23)."""

from __future__ import annotations

from recompute.statistics.base import OfMeans


class LossRemoved(OfMeans):
    """(filled - spliced) / (filled - exact) of mean losses; undefined unless filling adds loss, in every resample."""

    arms = ("spliced", "filled", "exact")
    numerator = (-1, 1, 0)
    denominator = (0, 1, -1)
