"""The grammar of a printed number: what it says, to which digit, and every real number it may stand for."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Printed:
    """One number as it is printed.

    text: its characters, sign and unit included; start, end: its place in the text it was read from.
    value: exactly what the digits say, None for n/a and a dash; decimals: digits after the point; unit: "%", "points",
    "x" and so on, "" for none; signed: whether a sign is printed.
    """

    text: str
    start: int
    end: int
    value: Fraction | None
    decimals: int = 0
    unit: str = ""
    signed: bool = False
