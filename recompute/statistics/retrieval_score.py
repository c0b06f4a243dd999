"""retrieval_score: the mean share of needles found (paper, section 3.1)."""

from __future__ import annotations

from recompute.statistics.base import OfMeans


class RetrievalScore(OfMeans):
    """The weighted mean of scores in [0, 1].

    Filled-region retrieval is this over the samples whose needles all lie in the prefix: a set fixed per model and
    shared by all arms and splits, so it is the design that says which.
    """

    arms = ("arm",)
    numerator = (1,)
    within = (0, 1)
