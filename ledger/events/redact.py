"""redact: a claim will be published as its hash only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from ledger.book import Book
from ledger.events.base import Body, Hash, Place, Text
from ledger.findings import Finding


class Redact(Body):
    """`target` is the hash of any version of a claim. The chain is unchanged: its leaf hash is published."""

    kind: ClassVar[str] = "redact"
    target: Hash
    reason: Text

    def check(self, place: Place, book: Book) -> Iterator[Finding]:
        claim = book.claim_at(self.target)
        if claim is None:
            yield place.wrong("redacts-nothing", f"redacts {self.target[:12]}, no version of a claim")
            return
        claim.redacted = True

    def summary(self) -> str:
        return f"{self.target[:12]}: {self.reason}"
