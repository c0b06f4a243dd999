"""retract: a claim is withdrawn; it stays in the ledger and in every list."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from ledger.book import Book
from ledger.events.base import Body, Hash, Place, Text
from ledger.findings import Finding


class Retract(Body):
    """`target` is the hash of the claim's latest version."""

    kind: ClassVar[str] = "retract"
    target: Hash
    reason: Text

    def check(self, place: Place, book: Book) -> Iterator[Finding]:
        claim = book.claim_at(self.target)
        if claim is None or claim.version != self.target:
            yield place.wrong("retracts-nothing", f"retracts {self.target[:12]}, no claim's latest version")
            return
        if claim.retracted:
            yield place.wrong("retracts-twice", f"{claim.name or 'the claim'} is retracted already")
        claim.retracted = True

    def summary(self) -> str:
        return f"{self.target[:12]}: {self.reason}"
