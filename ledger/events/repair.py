"""repair: a write had been cut short; what was torn is kept and named."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

from ledger.book import Book
from ledger.events.base import Body, Count, Hash, Place
from ledger.findings import Finding


class Repair(Body):
    """`sha256` and `bytes` of the fragment kept in ledger.torn/; `completed`: only the newline was missing."""

    kind: ClassVar[str] = "repair"
    sha256: Hash
    bytes: Count
    action: Literal["cut", "completed"]

    def check(self, place: Place, book: Book) -> Iterator[Finding]:
        yield from ()
        book.torn.append(self.sha256)

    def summary(self) -> str:
        return f"{self.action} {self.bytes} bytes"
