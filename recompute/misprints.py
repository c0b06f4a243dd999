"""What a printed number may have been meant to be: a sign, a factor, a digit gone wrong. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from recompute.printed import Printed

Misprint = tuple[str, Printed]  # in words, and the number that was meant


def sign(number: Printed) -> Iterator[Misprint]:
    """The other sign."""
    if number.value:
        words = "the sign is the wrong one" if number.signed else "a minus sign is lost"
        yield words, replace(number, value=-number.value)


def factor(number: Printed) -> Iterator[Misprint]:
    """A percent for a share or the reverse, or a decimal point in the wrong place."""
    value = _value(number)
    for words, power in (("100 times too large", 2), ("100 times too small", -2), ("the decimal point slipped", 1)):
        yield words, replace(number, value=value / Fraction(10) ** power, decimals=number.decimals + power)
    yield (
        "the decimal point slipped",
        replace(number, value=value * 10, decimals=number.decimals - 1),
    )


def transposed(number: Printed) -> Iterator[Misprint]:
    """Two digits that stand side by side, exchanged."""
    digits, sign = _digits(number)
    for at in range(len(digits) - 1):
        if digits[at] != digits[at + 1]:
            swapped = digits[:at] + digits[at + 1] + digits[at] + digits[at + 2 :]
            yield "two digits are transposed", _read(number, swapped, sign, number.decimals)


def typed(number: Printed) -> Iterator[Misprint]:
    """One digit wrong, missing or too many."""
    digits, sign = _digits(number)
    for at in range(len(digits)):
        for other in "0123456789":
            if other != digits[at]:
                meant = digits[:at] + other + digits[at + 1 :]
                yield "one digit is wrong", _read(number, meant, sign, number.decimals)
    for at in range(len(digits) + 1):
        for lost in "0123456789":
            meant = digits[:at] + lost + digits[at:]
            for decimals in (number.decimals, number.decimals + 1):
                yield "a digit is missing", _read(number, meant, sign, decimals)
    for at in range(len(digits) if len(digits) > 1 else 0):
        meant = digits[:at] + digits[at + 1 :]
        for decimals in {max(number.decimals - 1, 0), number.decimals}:
            yield "a digit too many", _read(number, meant, sign, decimals)


def shifted(number: Printed, away: Fraction) -> Printed:
    """A number farther from zero."""
    value = _value(number)
    return replace(number, value=value + (away if value >= 0 else -away))


def _value(number: Printed) -> Fraction:
    if number.value is None:
        raise ValueError(f"{number.text!r} is no number")
    return number.value


def _digits(number: Printed) -> tuple[str, int]:
    """The digits as they are printed, and the sign."""
    value = _value(number)
    whole = abs(value) * Fraction(10) ** number.decimals
    return str(int(whole)).rjust(number.decimals + 1, "0"), -1 if value < 0 else 1


def _read(number: Printed, digits: str, sign: int, decimals: int) -> Printed:
    return replace(number, value=sign * Fraction(int(digits)) / Fraction(10) ** decimals, decimals=decimals)
