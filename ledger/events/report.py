"""report: what was recomputed and printed, by digest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from ledger.book import Book
from ledger.events.base import Body, Count, Detail, Hash, Place, Text
from ledger.events.claim import RelativePath
from ledger.findings import Finding


class Report(Body):
    """The digests of the report's files and how many values were checked for it."""

    kind: ClassVar[str] = "report"
    text: Text
    files: dict[RelativePath, Hash]
    checked: Count
    detail: Detail

    def check(self, place: Place, book: Book) -> Iterator[Finding]:
        if not self.files:
            yield place.wrong("empty-report", "a report names no file")

    def summary(self) -> str:
        return f"{self.text} ({self.checked} values)"
