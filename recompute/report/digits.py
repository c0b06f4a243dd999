"""Numbers as the report's views show them: exact, to a chosen digit, the same for a value and its interval."""

from __future__ import annotations

from math import floor, log10

from recompute.estimate import Estimate
from recompute.rounding import spell
from recompute.spec import Unit

DIGITS = 5
UNITS: dict[Unit, str] = {"": "", "percent": "%", "points": "points"}


def places_for(estimate: Estimate) -> int:
    """Places that give the largest of value and ends DIGITS significant digits; at least none, at most twelve."""
    largest = max((abs(number) for number in (estimate.value, *(estimate.ends or ())) if number is not None), default=0)
    if not largest:
        return 0
    return min(12, max(0, DIGITS - 1 - floor(log10(largest))))


def value_text(estimate: Estimate | None, places: int | None = None) -> str:
    """The value; "" where there is none."""
    if estimate is None or estimate.value is None:
        return ""
    return spell(estimate.value, places_for(estimate) if places is None else places)


def interval_text(estimate: Estimate | None, places: int | None = None) -> str:
    """`[low, high]`, an open end as inf; "" where there is no interval."""
    if estimate is None or estimate.ends is None:
        return ""
    shown = places_for(estimate) if places is None else places
    low, high = estimate.ends
    left = "(-inf" if low is None else f"[{spell(low, shown)}"
    right = "inf)" if high is None else f"{spell(high, shown)}]"
    return f"{left}, {right}"


def estimate_text(estimate: Estimate) -> str:
    """Value, interval and number of items."""
    return " ".join(filter(None, (value_text(estimate) or "undefined", interval_text(estimate), f"n={estimate.n}")))
