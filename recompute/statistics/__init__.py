"""One statistic a file: pure, values and a design in, an Estimate out (`recompute.evaluate`).

To add one: write `statistics/NAME.py` with a class that is a `Statistic`, and a line for it below.
"""

from __future__ import annotations

from recompute.statistics.agreement import Agreement
from recompute.statistics.base import Statistic, Values
from recompute.statistics.gap_closed import GapClosed
from recompute.statistics.loss_removed import LossRemoved
from recompute.statistics.mean import Mean
from recompute.statistics.median import Median
from recompute.statistics.non_inferiority import NonInferiority
from recompute.statistics.paired_difference import PairedDifference
from recompute.statistics.quantile import Quantile
from recompute.statistics.ratio_of_medians import RatioOfMedians
from recompute.statistics.relative_change import RelativeChange
from recompute.statistics.retrieval_score import RetrievalScore
from recompute.statistics.sign_test import SignTest

__all__ = ["STATISTICS", "Statistic", "Values"]

STATISTICS: dict[str, type[Statistic]] = {
    "mean": Mean,
    "median": Median,
    "quantile": Quantile,
    "paired_difference": PairedDifference,
    "ratio_of_medians": RatioOfMedians,
    "relative_change": RelativeChange,
    "loss_removed": LossRemoved,
    "gap_closed": GapClosed,
    "retrieval_score": RetrievalScore,
    "sign_test": SignTest,
    "non_inferiority": NonInferiority,
    "agreement": Agreement,
}
