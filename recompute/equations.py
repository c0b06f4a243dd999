"""`{id} = EXPR` over printed numbers: read, and held over their rounding boxes. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor

from ledger.errors import UsageProblem
from recompute.boxes import Box, NoBox
from recompute.expressions import Expression, read
from recompute.printed import Printed
from recompute.reported import REFERENCE
from recompute.rounding import spell

# What a score may be a multiple of, as a part of one item: `k_of(n)` is a percent, k whole items of n.
GRANULES = {"k_of": Fraction(1), "quarters_of": Fraction(1, 4)}
_COUNTED = re.compile(rf"\s*({'|'.join(GRANULES)})\s*\((.*)\)\s*", re.DOTALL)
MORE_DIGITS = 3

Reference = tuple[str, str]
Numbers = Mapping[str, Printed]  # by the name that a reference has in the expression


@dataclass(frozen=True)
class Equation:
    """One relation. left: what it speaks of; names: name in the expression -> (id, slot).

    granule: None when the left side is the expression; else the left side is 100 k / expression, k a multiple of it.
    """

    left: Reference
    names: Mapping[str, Reference]
    right: Expression
    granule: Fraction | None = None

    def range(self, numbers: Numbers) -> tuple[Box, bool]:
        """Where the right side lies, and whether exactly so (`Expression.range`). Raises NoBox."""
        return self.right.range({name: Box.of(number) for name, number in numbers.items()})

    def holds(self, left: Printed, numbers: Numbers) -> bool:
        """Whether there are numbers that are printed so and make it true. Raises NoBox."""
        if self.granule is None:
            return Box.of(left).meets(self.range(numbers)[0])
        n = self.items(numbers)
        box = Box.of(left)
        unit = 100 * self.granule / n
        return ceil(box.low / unit) * unit <= box.high and max(abs(box.low), abs(box.high)) <= 100 + unit

    def items(self, numbers: Numbers) -> Fraction:
        """n of `k_of(n)`: counts are what their digits say. Raises NoBox."""
        n, _ = self.right.range({name: Box.point(number.value or 0) for name, number in numbers.items()})
        if not n.exact or n.low.denominator != 1 or n.low < 1:
            raise NoBox(f"{n.low} is no number of items")
        return n.low

    def shown(self, left: Printed, numbers: Numbers) -> str:
        """The right side at three more digits than the left one. Raises NoBox."""
        places = max(left.decimals + MORE_DIGITS, 0)
        if self.granule is not None and left.value is not None:
            unit = 100 * self.granule / self.items(numbers)
            below = floor(left.value / unit)
            near = [k for k in (below, below + 1) if Box.of(left).holds(k * unit)] or [below, below + 1]
            return " or ".join(f"{spell(k * unit, places)} (k = {float(k * self.granule):g})" for k in near)
        box, sure = self.range(numbers)
        ends = dict.fromkeys((spell(box.low, places), spell(box.high, places)))
        return ("" if sure else "within ") + " to ".join(ends)


def parse(text: str) -> Equation:
    """`{id} = EXPR`. Raises UsageProblem in words."""
    names: dict[str, Reference] = {}
    of: dict[Reference, str] = {}

    def name(found: re.Match[str]) -> str:
        reference = (found[1], found[2] or "value")
        known = of.setdefault(reference, f"_{len(of)}")
        names[known] = reference
        return f" {known} "

    left, equals, right = REFERENCE.sub(name, text).partition("=")
    if not equals or left.strip() not in names:
        raise UsageProblem("not a relation", expected="{ID} = an expression", found=text)
    counted = _COUNTED.fullmatch(right)
    expression = read(counted[2] if counted else right)
    if strange := expression.names.keys() - names.keys():
        raise UsageProblem("not a relation", expected="each ID in braces", found=", ".join(sorted(strange)))
    used = {known: reference for known, reference in names.items() if known in expression.names}
    return Equation(names[left.strip()], used, expression, GRANULES[counted[1]] if counted else None)
