"""What an estimate says of a registered rule: exact comparison of rationals with a decimal threshold. Pure."""

from __future__ import annotations

import operator
from collections.abc import Callable
from fractions import Fraction

from ledger.events.claim import Prediction
from recompute.decided import Verdict
from recompute.estimate import Estimate

_HOLDS: dict[str, Callable[[Fraction, Fraction], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
}


def judge(prediction: Prediction, estimate: Estimate) -> tuple[Verdict, str]:
    """CONFIRMED, REFUTED or INCONCLUSIVE, and why in words.

    On the interval: confirmed when the rule holds for all of it, refuted when it holds for none of it. Of an interval
    without an upper end the missing end confirms nothing, and for refuting the value stands in for it.
    """
    rule = f"{prediction.comparator} {prediction.threshold}"
    holds, threshold = _HOLDS[prediction.comparator], Fraction(prediction.threshold)
    if estimate.value is None:
        return Verdict.INCONCLUSIVE, estimate.why
    if prediction.decides_on == "value":
        if holds(estimate.value, threshold):
            return Verdict.CONFIRMED, f"the value is {rule}"
        return Verdict.REFUTED, f"the value is not {rule}"
    if estimate.ends is None:
        return Verdict.INCONCLUSIVE, estimate.why or f"{prediction.statistic} has no interval to decide on"
    least, most = estimate.ends
    if prediction.comparator == "==":
        stands_in = False
        every = least == most == threshold
        none = (least is not None and threshold < least) or (most is not None and threshold > most)
    else:
        nearest, farthest = (least, most) if prediction.comparator in (">", ">=") else (most, least)
        stands_in = farthest is None
        every = nearest is not None and holds(nearest, threshold)
        none = not holds(estimate.value if farthest is None else farthest, threshold)
    if every and not none:
        return Verdict.CONFIRMED, f"all of the interval is {rule}"
    if none and not every:
        return Verdict.REFUTED, f"{'not even the value' if stands_in else 'none of the interval'} is {rule}"
    return Verdict.INCONCLUSIVE, f"the interval does not settle {rule}"
