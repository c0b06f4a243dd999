"""What every document format gives: tables of cells and the running text, each number with its place in the file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

from ledger.findings import Finding
from recompute.printed import Printed


@dataclass(frozen=True)
class Cell:
    """One cell as it is printed.

    text: as a reader sees it; line: from 1; start, end: its characters in the file, for writing.
    numbers: every number in it, in order, with their places in the file; row: its row's label columns.
    """

    text: str
    line: int
    start: int
    end: int
    column: str
    numbers: tuple[Printed, ...] = ()


@dataclass(frozen=True)
class Table:
    """One table. name: its caption, or the marker before it; number: its place in the file, from 1."""

    name: str
    number: int
    line: int
    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True)
class Document:
    """A file as it was read. source: its text; prose: the same length, with everything blanked that is no running text
    (tables, code, comments, commands), so that a place in it is a place in the file.

    findings: what could not be read and is refused: ragged tables, cells that contradict themselves.
    """

    file: str
    source: str
    tables: tuple[Table, ...]
    prose: str
    findings: tuple[Finding, ...] = field(default=())

    def line_at(self, offset: int) -> int:
        """The line of a character, from 1."""
        return self.source.count("\n", 0, offset) + 1


class Reader(ABC):
    """One format. suffixes: lower case, with the dot; writable: whether a printed number can be replaced in place."""

    suffixes: ClassVar[tuple[str, ...]]
    writable: ClassVar[bool]

    @abstractmethod
    def read(self, file: str, source: str) -> Document:
        """The document; `file` is its name in findings. What cannot be read is a finding, never an exception."""
