"""Expressions over printed numbers: read with Python's parser, evaluated over boxes, never with eval. Pure."""

from __future__ import annotations

import ast
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce

from ledger.errors import UsageProblem
from recompute.boxes import Box
from recompute.functions import STEPS

DEEPEST = 200  # far below what Python's own stack holds
ZERO = Box.point(0)


@dataclass(frozen=True)
class Ranged:
    """Where an expression lies, and its slope by each name: both hold the truth, and may be wider."""

    box: Box
    slopes: Mapping[str, Box] = field(default_factory=dict)

    def with_slopes(self, box: Box, mine: Box, other: Ranged, theirs: Box) -> Ranged:
        """A result whose slope is `mine` times ours plus `theirs` times the other's."""
        names = self.slopes.keys() | other.slopes.keys()
        slopes = {n: mine * self.slopes.get(n, ZERO) + theirs * other.slopes.get(n, ZERO) for n in names}
        return Ranged(box, slopes)


def _add(a: Ranged, b: Ranged) -> Ranged:
    return a.with_slopes(a.box + b.box, Box.point(1), b, Box.point(1))


def _subtract(a: Ranged, b: Ranged) -> Ranged:
    return a.with_slopes(a.box - b.box, Box.point(1), b, Box.point(-1))


def _multiply(a: Ranged, b: Ranged) -> Ranged:
    return a.with_slopes(a.box * b.box, b.box, b, a.box)


def _divide(a: Ranged, b: Ranged) -> Ranged:
    quotient, one = a.box / b.box, Box.point(1) / b.box
    return a.with_slopes(quotient, one, b, -(quotient * one))


def _sum(terms: Sequence[Ranged]) -> Ranged:
    return reduce(_add, terms)


def _mean(terms: Sequence[Ranged]) -> Ranged:
    return _divide(_sum(terms), Ranged(Box.point(len(terms))))


def _least(terms: Sequence[Ranged]) -> Ranged:
    box = Box(min(term.box.low for term in terms), min(term.box.high for term in terms))
    return Ranged(box, _any_slope(terms))


def _greatest(terms: Sequence[Ranged]) -> Ranged:
    box = Box(max(term.box.low for term in terms), max(term.box.high for term in terms))
    return Ranged(box, _any_slope(terms))


def _any_slope(terms: Sequence[Ranged]) -> dict[str, Box]:
    names = {name for term in terms for name in term.slopes}
    return {name: reduce(Box.around, (term.slopes.get(name, ZERO) for term in terms)) for name in names}


OPERATORS: dict[type[ast.operator], Callable[[Ranged, Ranged], Ranged]] = {
    ast.Add: _add,
    ast.Sub: _subtract,
    ast.Mult: _multiply,
    ast.Div: _divide,
}
FUNCTIONS: dict[str, Callable[[Sequence[Ranged]], Ranged]] = {
    "sum": _sum,
    "mean": _mean,
    "min": _least,
    "max": _greatest,
}
EXACT = "exact"  # of one name: its digits are the number, as of a count


@dataclass(frozen=True)
class Expression:
    """One expression over names. exact: names whose digits are the number itself; stepped: those in a function that
    has no slope.
    """

    tree: ast.expr
    text: str
    names: Counter[str]
    exact: frozenset[str]
    stepped: frozenset[str] = frozenset()

    def range(self, boxes: Mapping[str, Box]) -> tuple[Box, bool]:
        """Where it lies, and whether that is exactly so and not wider.

        A name that stands more than once counts as one number wherever the expression only rises or only falls with
        it: its ends are then put in everywhere at once. Raises NoBox for a divisor that may be zero.
        """
        boxes = {name: _middle(box) if name in self.exact else box for name, box in boxes.items()}
        whole = self._at(boxes)
        low, high, sure = dict(boxes), dict(boxes), True
        for name in (name for name, times in self.names.items() if times > 1 and not boxes[name].exact):
            slope, box = whole.slopes.get(name, ZERO), boxes[name]
            if name in self.stepped:
                sure = False
            elif slope.low >= 0:
                low[name], high[name] = Box.point(box.low), Box.point(box.high)
            elif slope.high <= 0:
                low[name], high[name] = Box.point(box.high), Box.point(box.low)
            else:
                sure = False
        found = Box(self._at(low).box.low, self._at(high).box.high)
        return found, sure or found.exact

    def _at(self, boxes: Mapping[str, Box]) -> Ranged:
        return _evaluate(self.tree, self.text, boxes)


def _middle(box: Box) -> Box:
    return Box.point((box.low + box.high) / 2)


def _evaluate(node: ast.expr, text: str, boxes: Mapping[str, Box]) -> Ranged:
    if isinstance(node, ast.Name):
        return Ranged(boxes[node.id], {node.id: Box.point(1)})
    if isinstance(node, ast.Constant):
        return Ranged(Box.point(_literal(node, text)))
    if isinstance(node, ast.UnaryOp):
        operand = _evaluate(node.operand, text, boxes)
        return _subtract(Ranged(ZERO), operand) if isinstance(node.op, ast.USub) else operand
    if isinstance(node, ast.BinOp):
        left, right = _evaluate(node.left, text, boxes), _evaluate(node.right, text, boxes)
        return OPERATORS[type(node.op)](left, right)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        terms = [_evaluate(argument, text, boxes) for argument in node.args]
        if node.func.id in STEPS:
            return Ranged(STEPS[node.func.id][2](*(term.box for term in terms)))
        return terms[0] if node.func.id == EXACT else FUNCTIONS[node.func.id](terms)
    raise TypeError(f"`read` lets no {type(node).__name__} pass")


def read(text: str) -> Expression:
    """An expression of names, decimal literals, + - * /, and the functions above. Raises UsageProblem."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # what Python's parser only warns of is a mistake here
            tree = ast.parse(text.strip(), mode="eval").body
        names: Counter[str] = Counter()
        exact: set[str] = set()
        _hold(tree, text.strip(), names, exact, 0)
        stepped = _in_steps(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as wrong:
        told = wrong.msg if isinstance(wrong, SyntaxError) else str(wrong) or "it is nested too deeply"
        raise UsageProblem(
            f"not an expression: {told}", expected="{ID}, numbers, + - * / and " + ", ".join(known())
        ) from None
    return Expression(tree, text.strip(), names, frozenset(exact), stepped)


def known() -> list[str]:
    """The functions an expression may call."""
    return [f"{name}()" for name in (*FUNCTIONS, *STEPS, EXACT)]


def _in_steps(tree: ast.expr) -> frozenset[str]:
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    steps = (call for call in calls if isinstance(call.func, ast.Name) and call.func.id in STEPS)
    return frozenset(
        name.id for call in steps for term in call.args for name in ast.walk(term) if isinstance(name, ast.Name)
    )


def _hold(node: ast.AST, text: str, names: Counter[str], exact: set[str], depth: int) -> None:
    """Look at every node before anything is evaluated. Raises ValueError in words."""
    if depth > DEEPEST:
        raise ValueError("it is nested too deeply")
    if isinstance(node, ast.Name):
        names[node.id] += 1
    elif isinstance(node, ast.Constant):
        _literal(node, text)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        _hold(node.operand, text, names, exact, depth + 1)
    elif isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        for side in (node.left, node.right):
            _hold(side, text, names, exact, depth + 1)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        if node.func.id not in (*FUNCTIONS, *STEPS, EXACT):
            raise ValueError(f"no function is called {node.func.id!r}")
        if node.func.id in STEPS:
            wanted, counts, _ = STEPS[node.func.id]
            if len(node.args) != wanted:
                raise ValueError(f"{node.func.id}() takes {wanted}, not {len(node.args)}")
            exact.update(term.id for at, term in enumerate(node.args) if at in counts and isinstance(term, ast.Name))
        if node.func.id == EXACT:
            if len(node.args) != 1 or not isinstance(node.args[0], ast.Name):
                raise ValueError("exact() takes one {ID}")
            exact.add(node.args[0].id)
        if not node.args:
            raise ValueError(f"{node.func.id}() of nothing")
        for argument in node.args:
            _hold(argument, text, names, exact, depth + 1)
    else:
        raise ValueError(f"{ast.get_source_segment(text, node) or 'a part of it'!r} is no part of a relation")


def _literal(node: ast.Constant, text: str) -> Fraction:
    """A decimal literal, exactly. Raises ValueError."""
    if type(node.value) not in (int, float):
        raise ValueError(f"{node.value!r} is no number")
    return Fraction(ast.get_source_segment(text, node) or "")
