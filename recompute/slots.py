"""What a slot of an estimate is (value, low, high, n), and a printed number in the unit of a value."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from recompute.boxes import Box
from recompute.estimate import Estimate
from recompute.printed import Printed
from recompute.spec import Unit

_TYPED: dict[str, Unit] = {"%": "percent", "points": "points"}


def slot_of(estimate: Estimate, slot: str) -> Fraction | None:
    """The number of a slot; None where it is undefined or there is no such end."""
    if slot == "n":
        return Fraction(estimate.n)
    if slot == "value":
        return estimate.value
    return (estimate.ends or (None, None))[slot == "high"]


def error_of(estimate: Estimate, slot: str) -> Fraction | None:
    """The Monte-Carlo standard error of an end; None for every other slot, and where nothing was drawn."""
    if slot not in ("low", "high"):
        return None
    error = (estimate.error or (None, None))[slot == "high"]
    return None if error is None else Fraction(error)


def reach_of(estimate: Estimate, slot: str) -> Box | None:
    """Between which points other draws put an end; None as `error_of`."""
    ends = (estimate.reach or (None, None))[slot == "high"] if slot in ("low", "high") else None
    return ends and Box(*ends)


def hundredfold(number: Printed, unit: Unit, slot: str) -> bool:
    """Whether a share is printed as a percent: 94.64 % says 0.9464, to four decimals."""
    return slot != "n" and not unit and number.unit in _TYPED


def in_unit(number: Printed, unit: Unit, slot: str) -> Printed | None:
    """A printed number in a value's unit; None when it is printed in another unit."""
    if number.value is not None and hundredfold(number, unit, slot):
        return replace(number, value=number.value / 100, decimals=number.decimals + 2)
    typed = _TYPED.get(number.unit, unit)
    return number if slot == "n" or typed == unit else None
