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
_NAMED = re.compile(r"\{[^{}]*\}|([A-Za-z_]\w*)")
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

    def target(self, numbers: Numbers) -> Box | Fraction:
        """What the left number must meet: a box, or be a multiple of. Raises NoBox."""
        return self.range(numbers)[0] if self.granule is None else 100 * self.granule / self.items(numbers)

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


def meets(left: Printed, target: Box | Fraction) -> bool:
    """Whether a number that is printed so can be on the left. A percent of n items is at most 100, of either sign."""
    box = Box.of(left)
    if isinstance(target, Box):
        return box.meets(target)
    return ceil(box.low / target) * target <= box.high and box.meets(Box(Fraction(-100), Fraction(100)))


def written_out(text: str, let: Mapping[str, str]) -> str:
    """A text with every name that `let` knows, outside braces, as what it stands for, in brackets."""
    return _NAMED.sub(lambda found: f"({let[found[1]]})" if found[1] in let else found[0], text)


def parse(text: str, let: Mapping[str, str] | None = None) -> Equation:
    """`{id} = EXPR`. let: names that EXPR may use -> what they stand for. Raises UsageProblem in words."""
    names: dict[str, Reference] = {}
    of: dict[Reference, str] = {}

    def name(found: re.Match[str]) -> str:
        reference = (found[1], found[2] or "value")
        known = of.setdefault(reference, f"_{len(of)}")
        names[known] = reference
        return f" {known} "

    left, equals, right = REFERENCE.sub(name, written_out(text, let or {})).partition("=")
    if not equals or left.strip() not in names:
        raise UsageProblem("not a relation", expected="{ID} = an expression", found=text)
    counted = _COUNTED.fullmatch(right)
    expression = read(counted[2] if counted else right)
    if strange := expression.names.keys() - names.keys():
        raise UsageProblem("not a relation", expected="each ID in braces", found=", ".join(sorted(strange)))
    used = {known: reference for known, reference in names.items() if known in expression.names}
    return Equation(names[left.strip()], used, expression, GRANULES[counted[1]] if counted else None)
