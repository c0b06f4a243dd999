"""Boxes: every real number that a printed one may stand for, and exact arithmetic with them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from recompute.printed import Printed
from recompute.rounding import box


class NoBox(Exception):
    """The result is bounded by nothing; the text says why."""


@dataclass(frozen=True)
class Box:
    """The numbers from low to high, ends included: a tie may have been rounded either way."""

    low: Fraction
    high: Fraction

    @classmethod
    def point(cls, number: Fraction | int) -> Box:
        """One number, known exactly."""
        return cls(Fraction(number), Fraction(number))

    @classmethod
    def of(cls, printed: Printed) -> Box:
        """Half a unit of the last printed digit either side. ValueError where no number is printed."""
        return cls(*box(printed))

    @property
    def exact(self) -> bool:
        """Whether it holds one number only."""
        return self.low == self.high

    def holds(self, number: Fraction | int) -> bool:
        """Whether a number lies in it."""
        return self.low <= number <= self.high

    def meets(self, other: Box) -> bool:
        """Whether some number lies in both."""
        return self.low <= other.high and other.low <= self.high

    def around(self, other: Box) -> Box:
        """The smallest box that holds both."""
        return Box(min(self.low, other.low), max(self.high, other.high))

    def __neg__(self) -> Box:
        return Box(-self.high, -self.low)

    def __add__(self, other: Box) -> Box:
        return Box(self.low + other.low, self.high + other.high)

    def __sub__(self, other: Box) -> Box:
        return Box(self.low - other.high, self.high - other.low)

    def __mul__(self, other: Box) -> Box:
        ends = [mine * theirs for mine in (self.low, self.high) for theirs in (other.low, other.high)]
        return Box(min(ends), max(ends))

    def __truediv__(self, other: Box) -> Box:
        if other.holds(0):
            raise NoBox("it divides by a number that may be zero")
        return self * Box(1 / other.high, 1 / other.low)
