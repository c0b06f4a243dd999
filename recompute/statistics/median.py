"""median: of one arm."""

from __future__ import annotations

from recompute.statistics.base import OfRanks


class Median(OfRanks):
    """The middle value, or the mean of the middle two."""

    arms = ("arm",)

    @property
    def share(self) -> float:
        return 0.5
