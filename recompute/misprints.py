"""What a printed number may have been meant to be: a sign, a factor, a digit gone wrong. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from fractions import Fraction

from recompute.printed import Printed
from recompute.rounding import rounded

WRONG, LOST, ADDED = "one digit is wrong", "a digit is missing", "a digit too many"
Misprint = tuple[str, Printed]  # in words, and the number that was meant


def sign(number: Printed) -> Iterator[Misprint]:
    """The other sign."""
    if number.value:
        words = "the sign is the wrong one" if number.signed else "a minus sign is lost"
        yield words, replace(number, value=-number.value)


def factor(number: Printed) -> Iterator[Misprint]:
    """A percent for a share or the reverse, or a decimal point in the wrong place."""
    value = _value(number)
    slipped = "the decimal point slipped"
    for words, power in (("100 times too large", 2), ("100 times too small", -2), (slipped, 1), (slipped, -1)):
        yield words, replace(number, value=value / Fraction(10) ** power, decimals=number.decimals + power)


def transposed(number: Printed) -> Iterator[Misprint]:
    """Two digits that stand side by side, exchanged."""
    digits, sign = _digits(number)
    for at in range(len(digits) - 1):
        if digits[at] != digits[at + 1]:
            swapped = digits[:at] + digits[at + 1] + digits[at] + digits[at + 2 :]
            if _printable(swapped, number.decimals):
                yield "two digits are transposed", _read(number, swapped, sign, number.decimals)


def typed(number: Printed) -> Iterator[Misprint]:
    """One digit doubled, wrong, missing or too many: the fewer ways there are to go wrong so, the sooner."""
    digits, sign = _digits(number)
    yield from _without(number, [at for at in range(1, len(digits)) if digits[at] == digits[at - 1]])
    for at in range(len(digits)):
        for other in "0123456789":
            meant = digits[:at] + other + digits[at + 1 :]
            if other != digits[at] and _printable(meant, number.decimals):
                yield WRONG, _read(number, meant, sign, number.decimals)
    for at in range(len(digits) + 1):
        for lost in "0123456789":
            meant = digits[:at] + lost + digits[at:]
            for decimals in (number.decimals, number.decimals + 1):
                if _printable(meant, decimals):
                    yield LOST, _read(number, meant, sign, decimals)
    yield from _without(number, range(len(digits) if len(digits) > 1 else 0))


def _without(number: Printed, places: Iterable[int]) -> Iterator[Misprint]:
    """The number without one of its digits."""
    digits, sign = _digits(number)
    for at in places:
        meant = digits[:at] + digits[at + 1 :]
        for decimals in {max(number.decimals - 1, 0), number.decimals}:
            if _printable(meant, decimals):
                yield ADDED, _read(number, meant, sign, decimals)


def typing_error(number: Printed, wanted: Fraction) -> str:
    """`typed` where it is known what should be printed: in words, or nothing."""
    printed, sign = _digits(number)
    for more, told in ((0, (WRONG, LOST, ADDED)), (1, (LOST,)), (-1, (ADDED,))):
        decimals = number.decimals + more
        meant, other = _digits(replace(number, value=rounded(wanted, decimals), decimals=decimals))
        if sign == other and (words := _edit(printed, meant)) in told:
            return words
    return ""


def _edit(printed: str, meant: str) -> str:
    """The one change that makes digits of others; nothing when it takes more, or none."""
    if len(printed) == len(meant):
        return WRONG if sum(a != b for a, b in zip(printed, meant, strict=True)) == 1 else ""
    words, shorter, longer = (LOST, printed, meant) if len(printed) < len(meant) else (ADDED, meant, printed)
    return words if any(longer[:at] + longer[at + 1 :] == shorter for at in range(len(longer))) else ""


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


def _printable(digits: str, decimals: int) -> bool:
    """Whether anyone prints so: without zeros before the whole number."""
    return len(digits) - decimals == 1 or (len(digits) > decimals and not digits.startswith("0"))


def _read(number: Printed, digits: str, sign: int, decimals: int) -> Printed:
    return replace(number, value=sign * Fraction(int(digits)) / Fraction(10) ** decimals, decimals=decimals)
