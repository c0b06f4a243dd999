"""paired_difference: arm minus baseline, item by item (paper, section 3.4)."""

from __future__ import annotations

from recompute.statistics.base import OfMeans


class PairedDifference(OfMeans):
    """sum_h w_h mean_h(arm - baseline); samples, strata or documents weigh equally, as the design says."""

    arms = ("arm", "baseline")
    numerator = (1, -1)
