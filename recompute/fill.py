"""The recomputed numbers, written into the texts: cells and cited sentences of a draft. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import PurePath

from ledger.errors import Faults, UsageProblem
from recompute.bound import Bindings, Bound
from recompute.cites import BLANK
from recompute.documents import READERS
from recompute.documents.base import Document
from recompute.estimate import Estimate
from recompute.printed import Printed
from recompute.reported import placed
from recompute.rounding import equal, spell
from recompute.slots import hundredfold, in_unit, slot_of
from recompute.valued import Valued

Edit = tuple[int, int, str]  # characters of the file, and what becomes of them

UNDEFINED = "n/a"
# What may be written over: marks, dashes and numbers with what stands between them; never words.
_DRAFT = re.compile(rf"(?:{BLANK.pattern}|n/a|\\[%,]|[\d\s.,;:/%*+\-$\[\](){{}}\u00b1\u2013\u2014\u2212])*")
_PLACEHOLDER = re.compile(r"\{(?:value|low|high|n)\}")
_SEPARATOR = {".tex": re.compile(r"(?<!\\)&|\\\\"), "": re.compile(r"(?<!\\)\|")}


def fill(bindings: Bindings, values: Mapping[str, Valued]) -> dict[str, str]:
    """The new text of every file that changes. A number that is printed rightly already stays as it is; signs, units,
    thousands and decimals stay as they are printed; refused values are not written.

    Raises Faults where decimals are neither printed nor declared, UsageProblem for a format that is not written.
    """
    filler = _Filler(bindings, values)
    edits = filler.edits()
    if filler.faults:
        raise Faults(filler.faults, hint="declare `decimals` in reported.toml")
    texts = {}
    for file, changes in edits.items():
        reader = READERS[PurePath(file).suffix.lower()]
        if not reader.writable:
            writable = sorted(suffix for suffix, reader in READERS.items() if reader.writable)
            raise UsageProblem(
                f"{file} is not written: only drafts are", expected=" ".join(writable), hint="make it from the values"
            )
        source = bindings.documents[file].source
        texts[file] = _written(source, [*changes, *_padding(source, changes, PurePath(file).suffix.lower())])
    return texts


class _Filler:
    def __init__(self, bindings: Bindings, values: Mapping[str, Valued]) -> None:
        self.bindings, self.values = bindings, values
        self.faults: list[str] = []
        self.plus = {_column(bound) for bound in bindings.bounds if bound.number and "+" in bound.number.text}

    def edits(self) -> dict[str, list[Edit]]:
        """What changes, by file."""
        edits: dict[str, list[Edit]] = defaultdict(list)
        unprinted: dict[tuple[str, int, int], list[Bound]] = defaultdict(list)
        for bound in self.bindings.bounds:
            valued = self.values[bound.id] if bound.spec else None
            if valued is None or valued.estimate is None or (bound.dash and valued.spec.itself):
                continue
            if bound.number is None or bound.number.value is None:
                unprinted[bound.file, bound.start, bound.end].append(bound)
            elif (text := self._number(bound, bound.number, valued.estimate)) != bound.number.text:
                edits[bound.file].append((bound.start, bound.end, text))
        for (file, start, end), bounds in unprinted.items():
            old = self.bindings.documents[file].source[start:end]
            if _DRAFT.fullmatch(old) and (text := self._place(bounds, old)) != old:
                before = self.bindings.documents[file].source[start - 1 : start]
                edits[file].append((start, end, text if old or before != " " else f"{text} "))
        return edits

    def _number(self, bound: Bound, printed: Printed, estimate: Estimate) -> str:
        """A number in the place and style of the old one."""
        wanted = slot_of(estimate, bound.slot)
        if wanted is None:
            return UNDEFINED
        unit = "" if bound.slot == "n" or bound.spec is None else bound.spec.unit
        number = in_unit(printed, unit, bound.slot)
        if number is None:  # typed in another unit: without one it is in the value's own
            return self._spelled(wanted, printed.decimals, bound)
        if equal(wanted, number) == "match":
            return printed.text
        value = wanted * 100 if hundredfold(printed, unit, bound.slot) else wanted
        text = spell(value, printed.decimals, like=printed, signed=_column(bound) in self.plus)
        return self._minus(text, bound) if value < 0 <= (printed.value or 0) else text

    def _place(self, bounds: list[Bound], old: str) -> str:
        """A whole cell, or the mark in its place, by its pattern."""
        first, ids = bounds[0], [bound.id for bound in bounds]
        slots = [(slot_of(self._estimate(ids[at]), slot), slot) for at, slot in placed(first.pattern)]
        if all(wanted is None for wanted, _ in slots):
            return UNDEFINED if BLANK.search(old) else old
        if first.decimals is None:
            told = f"{ids[0]} has no number yet, and nothing says how many decimals it gets"
            self.faults.append(f"{first.file}:{first.line}: {told}")
            return old
        texts = iter([self._spelled(wanted, 0 if slot == "n" else first.decimals, first) for wanted, slot in slots])
        return _PLACEHOLDER.sub(lambda _: next(texts), first.pattern)

    def _estimate(self, name: str) -> Estimate:
        estimate = self.values[name].estimate
        return estimate if estimate is not None else Estimate(None, 0, 0)

    def _spelled(self, wanted: Fraction | None, decimals: int, bound: Bound) -> str:
        if wanted is None:
            return UNDEFINED
        return self._minus(spell(wanted, decimals, signed=_column(bound) in self.plus), bound)

    def _minus(self, text: str, bound: Bound) -> str:
        """A text with a bare minus sign, if it has one, with that of its place."""
        return text.replace("-", _minus(self.bindings.documents[bound.file], bound.start), 1)


def _column(bound: Bound) -> tuple[str, str, int]:
    """What shares a sign style: a column of a table, or the running text of a file."""
    return (bound.file, bound.at[0], bound.at[2]) if bound.at else (bound.file, "", 0)


def _minus(document: Document, place: int) -> str:
    if not document.file.lower().endswith(".tex"):
        return "\N{MINUS SIGN}"
    line = document.source[document.source.rfind("\n", 0, place) + 1 : place]
    in_math = len(re.findall(r"(?<!\\)\$", line)) % 2 == 1
    return "-" if in_math else "$-$"


def _padding(source: str, edits: list[Edit], suffix: str) -> Iterator[Edit]:
    """The spaces around cells, so that the separators stay where they are as far as there is room."""
    separator = _SEPARATOR.get(suffix, _SEPARATOR[""])
    longer: dict[int, int] = defaultdict(int)
    first: dict[int, int] = {}
    for start, end, text in sorted(edits):
        line_end = source.find("\n", end)
        found = separator.search(source, end, line_end if line_end >= 0 else len(source))
        if found:
            longer[found.start()] += len(text) - (end - start)
            first.setdefault(found.start(), start)
    for at, more in longer.items():
        after = at - len(source[:at].rstrip(" "))
        before = first[at] - len(source[: first[at]].rstrip(" "))
        if after <= 1 < before:  # aligned to the right, or empty
            yield first[at] - before, first[at], " " * max(1, before - more)
        elif after:
            yield at - after, at, " " * max(1, after - more)


def _written(source: str, edits: list[Edit]) -> str:
    pieces, last = [], 0
    for start, end, text in sorted(edits):
        pieces += [source[last:start], text]
        last = end
    return "".join([*pieces, source[last:]])
