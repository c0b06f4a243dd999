"""What an importer gives: a file's columns as they stand, before anything is made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ledger.errors import UsageProblem
from runs.crosscheck import nearest


@dataclass(frozen=True)
class Raw:
    """name: the file's; columns: their name -> one value a row, None where there is none.

    places: the line or row of each; typed: whether the format tells numbers from text.
    """

    name: str
    columns: Mapping[str, Sequence[Any]]
    places: Sequence[int]
    typed: bool

    def refuse(self, row: int, what: str, *, expected: str = "", found: str = "", hint: str = "") -> UsageProblem:
        """The one line about one row."""
        return UsageProblem(f"{self.name}:{self.places[row]}: {what}", expected=expected, found=found, hint=hint)

    def lacks(self, column: str, *, hint: str) -> UsageProblem:
        """The one line about a column that is not there; it names those that are."""
        near = nearest(column, set(self.columns))  # where none is near it lists them all
        found = "" if near.startswith(";") else ", ".join(self.columns)
        return UsageProblem(f"{self.name} has no column {column!r}{near}", found=found, hint=hint)


class Importer(Protocol):
    """One format."""

    @property
    def format(self) -> str:
        """What [[data]] calls it."""
        ...

    @property
    def suffixes(self) -> tuple[str, ...]:
        """Of the files that are read so when nothing else is said."""
        ...

    def read(self, data: bytes, name: str) -> Raw:
        """A whole file's rows, or none of them. Raises UsageProblem for a file that is cut short or no such file."""
        ...


def lines_of(data: bytes, name: str) -> str:
    """The text of a file of lines, whole. Raises UsageProblem when it is no UTF-8 or may be cut short."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as wrong:
        raise UsageProblem(f"{name} is not UTF-8", found=f"{wrong.reason} at byte {wrong.start}") from None
    if not text.endswith("\n"):
        raise UsageProblem(
            f"{name} does not end with a line break",
            cause="it was cut short" if text else "it is empty",
            hint="fetch it again; if it is whole, add the line break",
        )
    return text
