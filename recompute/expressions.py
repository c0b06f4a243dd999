"""Expressions over printed numbers: read with Python's parser, evaluated over boxes, never with eval. Pure."""

from __future__ import annotations

import ast
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache, reduce

from ledger.errors import UsageProblem
from recompute.boxes import Box
from recompute.functions import STEPS

DEEPEST = 200  # far below what Python's own stack holds
ZERO = Box.point(0)
Place = tuple[int, int]  # line and column of a node


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
    has no slope; literals: its numbers, by their place.
    """

    tree: ast.expr
    text: str
    names: Counter[str]
    exact: frozenset[str]
    stepped: frozenset[str]
    literals: Mapping[Place, Ranged]

    def range(self, boxes: Mapping[str, Box]) -> tuple[Box, bool]:
        """Where it lies, and whether that is exactly so and not wider.

        A name that stands more than once counts as one number wherever the expression only rises or only falls with
        it: its ends are then put in everywhere at once. Raises NoBox for a divisor that may be zero.
        """
        boxes = {name: _middle(box) if name in self.exact else box for name, box in boxes.items()}
        whole = self._at(boxes)
        repeated = [name for name, times in self.names.items() if times > 1 and not boxes[name].exact]
        if not repeated:
            return whole.box, True
        low, high, sure = dict(boxes), dict(boxes), True
        for name in repeated:
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
        return _evaluate(self.tree, self.literals, boxes)


def _middle(box: Box) -> Box:
    return Box.point((box.low + box.high) / 2)


def _evaluate(node: ast.expr, literals: Mapping[Place, Ranged], boxes: Mapping[str, Box]) -> Ranged:
    if isinstance(node, ast.Name):
        box = boxes[node.id]
        return Ranged(box, {} if box.exact else {node.id: Box.point(1)})
    if isinstance(node, ast.Constant):
        return literals[node.lineno, node.col_offset]
    if isinstance(node, ast.UnaryOp):
        operand = _evaluate(node.operand, literals, boxes)
        return _subtract(Ranged(ZERO), operand) if isinstance(node.op, ast.USub) else operand
    if isinstance(node, ast.BinOp):
        left, right = _evaluate(node.left, literals, boxes), _evaluate(node.right, literals, boxes)
        return OPERATORS[type(node.op)](left, right)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        terms = [_evaluate(argument, literals, boxes) for argument in node.args]
        if node.func.id in STEPS:
            return Ranged(STEPS[node.func.id][2](*(term.box for term in terms)))
        return terms[0] if node.func.id == EXACT else FUNCTIONS[node.func.id](terms)
    raise TypeError(f"`read` lets no {type(node).__name__} pass")


@lru_cache(maxsize=4096)
def read(text: str) -> Expression:
    """An expression of names, decimal literals, + - * /, and the functions above. Raises UsageProblem."""
    text = text.strip()
    reader = _Reader(text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # what Python's parser only warns of is a mistake here
            tree = ast.parse(text, mode="eval").body
        reader.hold(tree, 0)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as wrong:
        told = wrong.msg if isinstance(wrong, SyntaxError) else str(wrong) or "it is nested too deeply"
        raise UsageProblem(
            f"not an expression: {told}", expected="{ID}, numbers, + - * / and " + ", ".join(known())
        ) from None
    return Expression(tree, text, reader.names, frozenset(reader.exact), frozenset(reader.stepped), reader.literals)


def known() -> list[str]:
    """The functions an expression may call."""
    return [f"{name}()" for name in (*FUNCTIONS, *STEPS, EXACT)]


@dataclass
class _Reader:
    """Looks at every node before anything is evaluated, and notes what an Expression is made of."""

    text: str
    names: Counter[str] = field(default_factory=Counter)
    exact: set[str] = field(default_factory=set)
    stepped: set[str] = field(default_factory=set)
    literals: dict[Place, Ranged] = field(default_factory=dict)

    def hold(self, node: ast.AST, depth: int, *, step: bool = False) -> None:
        """One node and all below. step: within a function that has no slope. Raises ValueError in words."""
        if depth > DEEPEST:
            raise ValueError("it is nested too deeply")
        if isinstance(node, ast.Name):
            self.names[node.id] += 1
            self.stepped |= {node.id} if step else set()
        elif isinstance(node, ast.Constant):
            self.literals[node.lineno, node.col_offset] = Ranged(Box.point(self._literal(node)))
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            self.hold(node.operand, depth + 1, step=step)
        elif isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            for side in (node.left, node.right):
                self.hold(side, depth + 1, step=step)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
            self._call(node.func.id, node.args)
            for argument in node.args:
                self.hold(argument, depth + 1, step=step or node.func.id in STEPS)
        else:
            raise ValueError(f"{ast.get_source_segment(self.text, node) or 'a part of it'!r} is no part of a relation")

    def _call(self, function: str, arguments: Sequence[ast.expr]) -> None:
        if function not in (*FUNCTIONS, *STEPS, EXACT):
            raise ValueError(f"no function is called {function!r}")
        if not arguments:
            raise ValueError(f"{function}() of nothing")
        if function == EXACT and (len(arguments) != 1 or not isinstance(arguments[0], ast.Name)):
            raise ValueError("exact() takes one {ID}")
        wanted, counts, _ = STEPS.get(function, (len(arguments), (0,) if function == EXACT else (), None))
        if len(arguments) != wanted:
            raise ValueError(f"{function}() takes {wanted}, not {len(arguments)}")
        self.exact.update(term.id for at, term in enumerate(arguments) if at in counts and isinstance(term, ast.Name))

    def _literal(self, node: ast.Constant) -> Fraction:
        """A decimal literal, exactly. Raises ValueError."""
        if type(node.value) not in (int, float):
            raise ValueError(f"{node.value!r} is no number")
        return Fraction(ast.get_source_segment(self.text, node) or "")
