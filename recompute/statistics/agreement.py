"""agreement: the share of steps at which the arm's likeliest token is the exact arm's (paper, section 3.1)."""

from __future__ import annotations

from recompute.statistics.base import OfMeans


class Agreement(OfMeans):
    """The weighted mean of one share in [0, 1] per document: documents weigh equally, however long they are."""

    arms = ("arm",)
    numerator = (1,)
    within = (0, 1)
