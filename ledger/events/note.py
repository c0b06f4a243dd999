"""note: words for the reader."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from ledger.book import Book
from ledger.events.base import Body, Place, Text
from ledger.findings import Finding


class NoteEntry(Body):
    """A remark that nothing depends on."""

    kind: ClassVar[str] = "note"
    text: Text

    def check(self, place: Place, book: Book) -> Iterator[Finding]:
        yield from ()

    def summary(self) -> str:
        return self.text
