"""A document while it is read: its cells with their places, and everything that is wrong with its numbers."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace

from ledger.findings import Finding, error, warning
from recompute.documents.base import Cell, Document, Table
from recompute.documents.triples import Triple, triples
from recompute.printed import Flaw, read

MANY = 3  # contradictions of one kind that are no slip of the pen

_LINE_END = re.compile(r"\r\n|\n|\r")


def blanked(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """The text with some of it as spaces: the same length, the same lines."""
    pieces, last = [], 0
    for start, end in spans:
        if end > last:
            pieces += [text[last:start], re.sub(r"[^\r\n]", " ", text[max(start, last) : end])]
            last = end
    return "".join([*pieces, text[last:]])


class Draft:
    """What a reader fills. file: its name in findings; source: its text."""

    def __init__(self, file: str, source: str) -> None:
        self.file = file
        self.source = source
        self.findings: list[Finding] = []
        self.tables: list[Table] = []
        self.line_starts = [0, *(match.end() for match in _LINE_END.finditer(source))]
        self._triples: list[tuple[int, Triple]] = []

    def line_at(self, offset: int) -> int:
        """The line of a character, from 1."""
        return bisect_right(self.line_starts, offset)

    def line(self, number: int) -> tuple[int, int]:
        """The characters of a line, from 0, without its end; an empty place behind the last."""
        if number >= len(self.line_starts):
            return len(self.source), len(self.source)
        start = self.line_starts[number]
        end = self.line_starts[number + 1] if number + 1 < len(self.line_starts) else len(self.source)
        while end > start and self.source[end - 1] in "\r\n":
            end -= 1
        return start, end

    def refuse(self, code: str, offset: int, message: str, *, expected: str = "", found: str = "") -> None:
        """A finding that makes the check fail."""
        where = f"{self.file}:{self.line_at(offset)}"
        self.findings.append(error(code, where, message, exit_code=1, expected=expected, found=found))

    def cell(self, start: int, end: int, column: str, *, text: str | None = None, spelled: str | None = None) -> Cell:
        """A cell. text: as a reader sees it; spelled: its characters with blanks for what is no text. Where those are
        not as many as in the source, because it escapes some, the whole cell is the place of its numbers.
        """
        source = self.source[start:end]
        spelled = source if spelled is None else spelled
        reading = read(spelled, at=start)
        numbers = reading.numbers
        if len(spelled) != len(source):
            numbers = tuple(replace(number, start=start, end=end) for number in numbers)
        line = self.line_at(start)
        for flaw in reading.flaws:
            self._flaw(flaw, line, f" in column {column}" if column else "", certain=True)
        if len(reading.numbers) > 1:
            self._triples += [(line, triple) for triple in triples(spelled, reading.numbers, at=start)]
        return Cell(source if text is None else text, line, start, end, column, numbers)

    def table(self, name: str, offset: int, header: Sequence[str], rows: Iterable[Sequence[Cell]]) -> None:
        """A table that was read."""
        number = len(self.tables) + 1
        self.tables.append(Table(name, number, self.line_at(offset), tuple(header), tuple(map(tuple, rows))))

    def done(self, prose: str, rest: str) -> Document:
        """The document. rest: its prose and whatever else has numbers and is in no table that was read."""
        reading = read(rest)
        for flaw in reading.flaws:
            self._flaw(flaw, self.line_at(flaw.start), "", certain=flaw.certain)
        for triple in triples(rest, reading.numbers, prose=True):
            self._triples.append((self.line_at(triple.low.start), triple))
        self._contradictions()
        return Document(self.file, self.source, tuple(self.tables), prose, tuple(self.findings))

    def _flaw(self, flaw: Flaw, line: int, place: str, *, certain: bool) -> None:
        where, message = f"{self.file}:{line}", f"no number: {flaw.text!r}{place}; likely cause: {flaw.cause}"
        if certain:
            self.findings.append(error("bad-number", where, message, exit_code=1, found=flaw.text))
        else:
            self.findings.append(warning("bad-number", where, message))

    def _contradictions(self) -> None:
        against = sorted((pair for pair in self._triples if not pair[1].fits), key=lambda pair: pair[1].low.start)
        lost = 0
        for line, triple in against:
            restored = triple.restored
            lost += bool(restored)
            wrong = "the value lies outside its interval" if triple.value else "the ends are not in order"
            cause = "; likely cause: a minus sign was lost" if restored else ""
            self.findings.append(
                error(
                    "contradicts-itself",
                    f"{self.file}:{line}",
                    f"{wrong}{cause}",
                    exit_code=1,
                    expected=restored,
                    found=triple.text,
                )
            )
        if lost >= MANY:
            values = [triple for _, triple in self._triples if triple.value]
            outside = sum(not triple.fits for triple in values)
            told = f"{outside} of {len(values)} values lie outside their own intervals, running text counted"
            self.findings.append(
                error(
                    "signs-lost",
                    self.file,
                    f"{told}; likely cause: the text has lost its minus signs, as text extracted from a PDF does",
                    exit_code=1,
                    hint="take the numbers from the text's own source",
                )
            )
