"""A value and its interval as printed, value [low, high], and whether they contradict each other."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product

from recompute.printed import Printed
from recompute.rounding import box

_OPENED = re.compile(r"(?P<bracket>[\[(])\s*\\?\$?\s*$")
_BETWEEN = re.compile(r"[\s$}*]*(?:,|;|to)[\s${*]*")
_CLOSED = re.compile(r"[\s$}*]*\\?[\])]")
_NEAR = re.compile(r"[^\d\[\]()|\n.,;:]{0,30}")


@dataclass(frozen=True)
class Triple:
    """A printed interval, and the value before it where there is one."""

    text: str
    low: Printed
    high: Printed
    value: Printed | None = None

    @property
    def fits(self) -> bool:
        """Whether the ends are in order and the value is between them, as far as the printed digits can tell."""
        return _fits([number for number in (self.low, self.value, self.high) if number is not None])

    @property
    def restored(self) -> str:
        """How it reads when lost minus signs are put back, "" when that does not help."""
        parts = [number for number in (self.low, self.value, self.high) if number is not None]
        choices = [(True, False) if number.value and not number.signed else (False,) for number in parts]
        for flips in product(*choices):
            lost = list(zip(flips, parts, strict=True))
            if any(flips) and _fits([_negated(number) if flip else number for flip, number in lost]):
                low, *value, high = [f"-{number.text}" if flip else number.text for flip, number in lost]
                return f"{' '.join([*value, ''])}[{low}, {high}]"
        return ""


def triples(text: str, numbers: Sequence[Printed], *, at: int = 0, prose: bool = False) -> Iterator[Triple]:
    """Every printed interval of a text. at: where the text begins in its file, as in `numbers`.

    Bare whole numbers are an interval only in square brackets in a cell: else they may be layers, or sources.
    """
    for index in range(len(numbers) - 1):
        low, high = numbers[index], numbers[index + 1]
        if low.value is None or high.value is None:
            continue
        opened = _OPENED.search(text, max(0, low.start - at - 6), low.start - at)
        closed = _CLOSED.match(text, high.end - at)
        if opened is None or closed is None or not _BETWEEN.fullmatch(text, low.end - at, high.start - at):
            continue
        bare = not any(number.signed or number.decimals or number.unit for number in (low, high))
        if bare + prose + (opened["bracket"] == "(") > 1:
            continue
        value = numbers[index - 1] if index else None
        if value is not None and (value.value is None or not _NEAR.fullmatch(text, value.end - at, opened.start())):
            value = None
        start = opened.start() if value is None else value.start - at
        yield Triple(text[start : closed.end()], low, high, value)


def _fits(parts: Sequence[Printed]) -> bool:
    return all(_in_order(before, after) for before, after in pairwise(parts))


def _in_order(before: Printed, after: Printed) -> bool:
    """Whether the numbers behind two prints can be in order; rounding to the same digit keeps it."""
    if before.decimals == after.decimals and before.value is not None and after.value is not None:
        return before.value <= after.value
    return box(before)[0] <= box(after)[1]


def _negated(number: Printed) -> Printed:
    assert number.value is not None  # noqa: S101 - only numbers with a value are of a triple
    return Printed(number.text, number.start, number.end, -number.value, number.decimals)
