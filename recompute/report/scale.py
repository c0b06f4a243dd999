"""Numbers to places in a drawing, and the round numbers that an axis names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor, log10

from recompute.rounding import spell

_STEPS = (1, 2, 5, 10)
_FINEST = 1e-9  # of a range, against the size of its numbers: floats draw no finer


@dataclass(frozen=True)
class Scale:
    """A range [low, high], low < high, with room around it: 0 is its start, 1 its end."""

    low: float
    high: float

    @classmethod
    def over(cls, numbers: Iterable[float], *, zero: bool = False, room: float = 0.06) -> Scale:
        """The range of these numbers, as wide as they are large when they are all the same. zero: 0 is in it always."""
        known = [*numbers, *([0.0] if zero else [])] or [0.0]
        low, high = min(known), max(known)
        large = max(-low, high)
        wide = high - low if high - low > _FINEST * large else large
        pad = room * (wide if wide > _FINEST else 1.0)
        return cls(low if zero and low == 0 else low - pad, high if zero and high == 0 > low else high + pad)

    def at(self, number: float) -> float:
        """Where a number is."""
        return (number - self.low) / (self.high - self.low)

    def ticks(self, about: int = 6) -> list[tuple[str, float]]:
        """About so many round numbers within the range, as text and place."""
        rough = (self.high - self.low) / about
        power = floor(log10(rough))
        step = Fraction(10) ** power * next(one for one in _STEPS if one * 10.0**power >= rough * 0.999)
        places = max(0, -power)
        first, last = ceil(self.low / float(step) - 1e-9), floor(self.high / float(step) + 1e-9)
        return [(spell(step * k, places), self.at(float(step * k))) for k in range(first, last + 1)]


def percent(place: float) -> str:
    """A place as the percentage that SVG takes, so that a drawing is as wide as its room."""
    return f"{100 * place:.2f}%"
