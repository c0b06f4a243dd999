"""gap_closed: the share of the filled arm's gap to exact that a splice closes (paper, section 6.9, Table 23)."""

from __future__ import annotations

from recompute.statistics.base import OfMeans


class GapClosed(OfMeans):
    """(spliced - filled) / (exact - filled) of mean scores; undefined unless exact is better, in every resample."""

    arms = ("spliced", "filled", "exact")
    numerator = (1, -1, 0)
    denominator = (0, -1, 1)
