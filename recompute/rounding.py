"""Rounding of exact values to a printed precision, and what a printed number may stand for. No floats."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Literal

from recompute import grammar
from recompute.printed import Printed

Tie = Literal["even", "away"]
Equality = Literal["match", "other tie", "no"]

_MANTISSA = re.compile(r"[0-9.](?:[0-9.,\u00a0\u2009\u202f]|\{,\}|\\,(?=[0-9]))*(?<=[0-9])")


def rounded(value: Fraction, decimals: int, *, tie: Tie = "even") -> Fraction:
    """The nearest multiple of 10**-decimals; of two equally near, the even one, or the one away from zero."""
    unit = Fraction(10) ** -decimals
    ulps = value / unit
    if tie == "away" and ulps.denominator == 2:
        return unit * (ulps + Fraction(1 if ulps > 0 else -1, 2))
    return unit * round(ulps)


def equal(value: Fraction, printed: Printed) -> Equality:
    """Whether a value prints like this, at the precision of the print. A tie rounded the other way is told apart."""
    if printed.value is None:
        return "no"
    if rounded(value, printed.decimals) == printed.value:
        return "match"
    ulps = value * Fraction(10) ** printed.decimals
    low, high = box(printed)
    return "other tie" if ulps.denominator == 2 and low <= value <= high else "no"


def box(printed: Printed) -> tuple[Fraction, Fraction]:
    """The least and the greatest value that prints like this: half a unit of its last digit to both sides, closed."""
    if printed.value is None:
        raise ValueError(f"{printed.text} is no number")
    half = Fraction(10) ** -printed.decimals / 2
    return printed.value - half, printed.value + half


def spell(
    value: Fraction, decimals: int, *, tie: Tie = "even", signed: bool = False, like: Printed | None = None
) -> str:
    """A value in digits. signed: with a plus when it is positive; zero has no sign.

    like: the print whose minus sign, thousands, leading zero, power of ten, unit and marks are kept.
    """
    shape = _MANTISSA.search(like.text) if like is not None and like.value is not None else None
    if like is None or shape is None:
        return _sign("", value, decimals, tie, signed) + _digits(value, decimals, tie)
    before, tail = like.text[: shape.start()], like.text[shape.end() :]
    power = grammar.power(tail) if grammar.SCIENTIFIC.match(tail) else 0
    group = grammar.SEPARATOR.search(shape[0])
    value, decimals = value / Fraction(10) ** power, decimals + power
    digits = _digits(value, decimals, tie, group[0] if group else "")
    if shape[0].startswith(".") and digits.startswith("0."):
        digits = digits[1:]
    return _sign(before, value, decimals, tie, signed) + digits + tail


def _digits(value: Fraction, decimals: int, tie: Tie, group: str = "") -> str:
    """The absolute value's digits."""
    exact = abs(rounded(value, decimals, tie=tie))
    places = max(decimals, 0)
    digits = str(int(exact * 10**places)).rjust(places + 1, "0")
    whole, fraction = (digits[:-places], digits[-places:]) if places else (digits, "")
    if group:
        whole = f"{int(whole):,}".replace(",", group)
    return f"{whole}.{fraction}" if fraction else whole


def _sign(before: str, value: Fraction, decimals: int, tie: Tie, signed: bool) -> str:
    """What stands before the digits: the sign, in the style of `before` where that has one."""
    exact = rounded(value, decimals, tie=tie)
    wanted = "-" if exact < 0 else "+" if exact > 0 and signed else ""
    old = grammar.SIGN.search(before)
    if old is None:
        return before + wanted
    if old[0] != "+" and wanted == "-":
        return before
    bare = re.sub(r"\$[-+]\$|\{[-+]\}", "", before)
    if not wanted and bare != before:
        return bare
    rest = before[: old.start()] + before[old.end() :]
    if not wanted and rest.strip():
        wanted = "+"  # `-**1**` cannot lose it without losing the other half of its marks
    return before[: old.start()] + wanted + (before[old.end() :] if wanted else "")
