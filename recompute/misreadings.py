"""Why a relation between printed numbers does not hold: causes tried in a fixed order, the first that fits is told."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

from ledger.errors import UsageProblem
from recompute import misprints
from recompute.bound import Bindings, Bound
from recompute.boxes import Box, NoBox
from recompute.equations import Equation, Numbers, meets
from recompute.expressions import read
from recompute.misprints import Misprint
from recompute.printed import Printed

NEAR_N = 3


@dataclass(frozen=True)
class Case:
    """One relation that fails. left: the number it speaks of; bounds: the numbers it is made of, by name.

    vouched: whether another relation holds, and would not with that number much changed.
    """

    equation: Equation
    left: Bound
    bounds: Mapping[str, Bound]
    bindings: Bindings
    vouched: Callable[[Bound], bool]

    @property
    def number(self) -> Printed:
        """What is printed on the left."""
        return self.left.digits

    @property
    def numbers(self) -> dict[str, Printed]:
        """What is printed on the right."""
        return {name: bound.digits for name, bound in self.bounds.items()}

    @cached_property
    def target(self) -> Box | Fraction:
        """What the left number should meet."""
        return self.equation.target(self.numbers)

    def holds(self, left: Printed) -> bool:
        """Whether it holds with another number on the left."""
        try:
            return meets(left, self.target)
        except NoBox:
            return False

    def holds_with(self, name: str, number: Printed) -> bool:
        """Whether it holds with another number on the right."""
        return self._holds(self.equation, {**self.numbers, name: number})

    def holds_as(self, right: str) -> bool:
        """Whether it holds with another right side."""
        try:
            return self._holds(replace(self.equation, right=read(right)), self.numbers)
        except UsageProblem:
            return False  # it was nested as deeply as is allowed

    def _holds(self, equation: Equation, numbers: Numbers) -> bool:
        try:
            return meets(self.number, equation.target(numbers))
        except NoBox:
            return False


def likely(case: Case) -> str:
    """The first cause that fits, in one line; nothing when none does."""
    return next(filter(None, (cause(case) for cause in CAUSES)), "")


def _meant(case: Case, misprint: Callable[[Printed], Iterable[Misprint]]) -> str:
    """The left number, and those on the right that nothing vouches for, as they may have been meant."""
    left = next((f"{words} in {_name(case.left)}" for words, meant in misprint(case.number) if case.holds(meant)), "")
    told = []
    for name, bound in case.bounds.items() if case.equation.granule is None else ():  # else nearly every n would do
        fits = (words for words, meant in misprint(case.numbers[name]) if case.holds_with(name, meant))
        if not case.vouched(bound) and (words := next(fits, "")):
            told.append(f"{words} in {_name(bound)}")
    if left and not (told and case.vouched(case.left)):
        told = [left, *told]
    return ", or ".join(told[:2])


def _name(bound: Bound) -> str:
    return bound.id if bound.slot == "value" else f"{bound.id}:{bound.slot}"


def _sign(case: Case) -> str:
    return _meant(case, misprints.sign)


def _other_kind(case: Case) -> str:
    """A ratio where a difference is meant, or the reverse; the operands exchanged."""
    tree, text = case.equation.right.tree, case.equation.right.text
    if case.equation.granule is not None or not isinstance(tree, ast.BinOp):
        return ""
    a, b = (f"({ast.get_source_segment(text, side)})" for side in (tree.left, tree.right))
    others: dict[type[ast.operator], list[tuple[str, str]]] = {
        ast.Sub: [
            ("it is the relative change in percent, not the difference", f"100 * ({a} / {b} - 1)"),
            ("it is the ratio, not the difference", f"{a} / {b}"),
            ("it is the ratio of the two changes, not their difference", f"((100 + {a}) / (100 + {b}) - 1) * 100"),
        ],
        ast.Div: [
            ("it is the difference, not the ratio", f"{a} - {b}"),
            ("the ratio is upside down", f"{b} / {a}"),
        ],
    }
    for words, other in others.get(type(tree.op), []):
        if case.holds_as(other):
            return words
    return ""


def _factor(case: Case) -> str:
    return _meant(case, misprints.factor)


def _truncated(case: Case) -> str:
    """As if the digits that follow had been cut off."""
    away = misprints.shifted(case.number, Fraction(10) ** -case.number.decimals / 2)
    return "truncated, not rounded" if case.equation.granule is None and case.holds(away) else ""


def _neighbour(case: Case) -> str:
    if case.equation.granule is not None:
        return ""  # a neighbour is a number of items too
    for way, other, number in _around(case, case.left):
        if case.holds(number):
            return f"the number {way} would fit, {_name(other)}"
    for name, bound in case.bounds.items():
        for way, other, number in _around(case, bound):
            if case.holds_with(name, number):
                return f"it holds with the cell {way} of {_name(bound)}, {_name(other)}"
    return ""


def _around(case: Case, bound: Bound) -> Iterator[tuple[str, Bound, Printed]]:
    for way, other in case.bindings.neighbours(bound):
        if other.slot == bound.slot and (other.id, other.slot) in case.bindings.printed:
            yield way, other, other.digits


def _other_n(case: Case) -> str:
    """`k_of(n)` with a few items more or fewer."""
    if case.equation.granule is None:
        return ""
    try:
        n = int(case.equation.items(case.numbers))
    except NoBox:
        return ""
    near = [n + off for size in range(1, NEAR_N + 1) for off in (-size, size) if n + off > 0]
    fits = [other for other in near if case.holds_as(str(other))]
    return f"n = {' or '.join(map(str, sorted(fits[:2])))} would fit, not {n}" if fits else ""


def _transposed(case: Case) -> str:
    return _meant(case, misprints.transposed)


def _typed(case: Case) -> str:
    return _meant(case, misprints.typed)


CAUSES = (_sign, _other_n, _other_kind, _factor, _truncated, _neighbour, _transposed, _typed)
