"""ratio_of_medians: how many times the baseline's median the arm's is: times to first token, among others."""

from __future__ import annotations

from recompute.statistics.base import OfRanks


class RatioOfMedians(OfRanks):
    """median(arm) / median(baseline), items drawn in pairs; undefined unless the baseline's median is positive."""

    arms = ("arm", "baseline")

    @property
    def share(self) -> float:
        return 0.5
