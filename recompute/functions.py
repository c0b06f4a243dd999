"""Functions of boxes that an expression may call beside + - * /: steps, roots, counts behind printed percents. Pure.

What they give back holds the truth for every number in their boxes; nothing is said of its slope.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import accumulate

from recompute.boxes import Box, NoBox

QUARTER = Fraction(1, 4)
_SLACK = Fraction(1, 10**12)  # relative, around what a float function gives
_MOST = 20_000  # items of an exact law


def _floor(x: Box) -> Box:
    """The whole number at or below."""
    return Box(Fraction(math.floor(x.low)), Fraction(math.floor(x.high)))


def _ceil(x: Box) -> Box:
    """The whole number at or above."""
    return Box(Fraction(math.ceil(x.low)), Fraction(math.ceil(x.high)))


def _ln(x: Box) -> Box:
    """The natural logarithm."""
    if x.low <= 0:
        raise NoBox("a logarithm of what may not be above zero")
    return _around(math.log(x.low), math.log(x.high))


def _root(x: Box, degree: Box) -> Box:
    """The root of a whole degree: root(x, 2) is the square root."""
    n = _whole(degree, "a root's degree")
    if x.low < 0:
        raise NoBox("a root of what may be below zero")
    return _around(float(x.low) ** (1 / n), float(x.high) ** (1 / n))


def _items(percent: Box, n: Box) -> Box:
    """How many whole items of n print as this percent."""
    return _counted(percent, n, Fraction(1))


def _quarters(percent: Box, n: Box) -> Box:
    """How much credit of n items, each scored in quarters, prints as this percent."""
    return _counted(percent, n, QUARTER)


def _sign_test(gains: Box, losses: Box) -> Box:
    """The two-sided exact binomial p."""
    k, m = _whole(gains, "gains", least=0), _whole(losses, "losses", least=0)
    tail = sum(math.comb(k + m, i) for i in range(min(k, m) + 1))
    return Box.point(min(Fraction(1), Fraction(2 * tail, 2 ** (k + m))))


def _resampled(q: Box, gains: Box, losses: Box, n: Box) -> Box:
    """The q point of (gains - losses) / n when the n items are resampled, by the exact law and as `law` counts ends."""
    wins, defeats, items = _whole(gains, "gains", least=0), _whole(losses, "losses", least=0), _whole(n, "items")
    if not q.exact or not 0 < q.low < 1 or wins + defeats > items:
        raise NoBox("expected resampled(q, gains, losses, n) with q between 0 and 1")
    if items > _MOST:
        raise NoBox(f"an exact law of more than {_MOST} items")
    upper = q.low > Fraction(1, 2)
    up, down = (defeats, wins) if upper else (wins, defeats)  # mirrored, an upper end is a lower one
    chances, first = _power([down, items - wins - defeats, up], items)
    share = (1 - q.low if upper else q.low) * items**items
    place = next(at for at, below in enumerate(accumulate(chances)) if below >= share)
    return Box.point(Fraction((first + place) * (-1 if upper else 1), items))


def _power(terms: list[int], n: int) -> tuple[list[int], int]:
    """The coefficients of (terms[0] / x + terms[1] + terms[2] x)^n, exactly, and the power of the first."""
    first = -n
    while not terms[0]:
        terms, first = terms[1:], first + n
    found = [terms[0] ** n]
    for k in range(1, n * (len(terms) - 1) + 1):  # Euler's recurrence
        total = sum((i * (n + 1) - k) * terms[i] * found[k - i] for i in range(1, min(k, len(terms) - 1) + 1))
        found.append(total // (k * terms[0]))
    return found, first


def _counted(percent: Box, n: Box, unit: Fraction) -> Box:
    items = _whole(n, "a number of items")
    low = math.ceil(percent.low * items / 100 / unit) * unit
    high = math.floor(percent.high * items / 100 / unit) * unit
    if low > high:
        what = "quarters" if unit == QUARTER else "items"
        raise NoBox(f"no number of {what} of {items} is {float((percent.low + percent.high) / 2):g} percent")
    return Box(low, high)


def _whole(box: Box, what: str, least: int = 1) -> int:
    if not box.exact or box.low.denominator != 1 or box.low < least:
        raise NoBox(f"{what}: {float(box.low):g} is no whole number of at least {least}")
    return int(box.low)


def _around(low: float, high: float) -> Box:
    ends = Fraction(low), Fraction(high)
    return Box(ends[0] - abs(ends[0]) * _SLACK, ends[1] + abs(ends[1]) * _SLACK)


# name -> how many boxes it takes, which of them are counts that mean their digits, and what it gives.
STEPS: dict[str, tuple[int, Sequence[int], Callable[..., Box]]] = {
    "floor": (1, (), _floor),
    "ceil": (1, (), _ceil),
    "ln": (1, (), _ln),
    "root": (2, (1,), _root),
    "items": (2, (1,), _items),
    "quarters": (2, (1,), _quarters),
    "sign_test": (2, (0, 1), _sign_test),
    "resampled": (4, (1, 2, 3), _resampled),
}
