"""Bound: a printed number and the value it is bound to. Bindings: all of them, what binding hands to checking."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from ledger.findings import Finding
from recompute.documents.base import Document
from recompute.printed import Printed
from recompute.spec import Spec
from recompute.standing import Checked

At = tuple[str, int, int]  # table of reported.toml, row and column of the document


@dataclass(frozen=True)
class Bound:
    """A slot of a value where it is printed or, without a `number`, where the value should be.

    file, line, table, row, column: where, for a reader; start, end: the characters of the number, or of the cell or
    mark in its place; at: its cell, None in running text; spec: None for what is printed only; decimals: declared for
    what is still to be written; pattern: how what stands there is printed; why: why it was not taken for a number;
    named: it is a text, `number.text`, and no number.
    """

    id: str
    slot: str
    file: str
    line: int
    start: int
    end: int
    number: Printed | None
    spec: Spec | None
    table: str = ""
    row: str = ""
    column: str = ""
    at: At | None = None
    decimals: int | None = None
    pattern: str = ""
    why: str = ""
    named: bool = False

    @property
    def dash(self) -> bool:
        """Whether a dash or n/a is printed."""
        return self.number is not None and self.number.value is None

    @property
    def digits(self) -> Printed:
        """The number. ValueError where none is printed."""
        if self.number is None or self.number.value is None:
            raise ValueError(f"no number is printed for {self.id}")
        return self.number


@dataclass(frozen=True)
class Bindings:
    """specs: what every value and cell is, by id; bounds: every slot that is printed or should be.

    told: what needs no value to be told: numbers that nobody claims, and labels and sentences that are not there.
    findings: labels that make no Spec.
    """

    specs: Mapping[str, Spec]
    bounds: tuple[Bound, ...] = ()
    told: tuple[Checked, ...] = ()
    findings: tuple[Finding, ...] = ()
    documents: Mapping[str, Document] = field(default_factory=dict)

    @cached_property
    def printed(self) -> dict[tuple[str, str], list[Bound]]:
        """(id, slot) -> every place that prints a number for it."""
        found: dict[tuple[str, str], list[Bound]] = defaultdict(list)
        for bound in self.bounds:
            if bound.number is not None and bound.number.value is not None:
                found[bound.id, bound.slot].append(bound)
        return dict(found)

    @cached_property
    def named(self) -> dict[str, Bound]:
        """id -> the text that is printed for it."""
        return {bound.id: bound for bound in self.bounds if bound.named}

    @cached_property
    def cells(self) -> dict[At, list[Bound]]:
        """What each cell of a table holds."""
        found: dict[At, list[Bound]] = defaultdict(list)
        for bound in self.bounds:
            if bound.at is not None:
                found[bound.at].append(bound)
        return dict(found)

    def neighbours(self, bound: Bound) -> list[tuple[str, Bound]]:
        """The same place in the cells around, each with its direction."""
        if bound.at is None:
            return []
        table, row, column = bound.at
        around = {"above": (row - 1, column), "below": (row + 1, column)}
        around |= {"to the left": (row, column - 1), "to the right": (row, column + 1)}
        return [(way, other) for way, (r, c) in around.items() for other in self.cells.get((table, r, c), [])]
