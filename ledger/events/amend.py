"""amend: a new version of a claim, with its reason; the old one stays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from ledger.book import Book
from ledger.events.base import Body, Hash, Place, Text
from ledger.events.claim import Claim, odd_characters
from ledger.findings import Finding


class Amend(Body):
    """`target` is the hash of the claim's latest version; `claim` replaces it from here on."""

    kind: ClassVar[str] = "amend"
    target: Hash
    reason: Text
    claim: Claim

    def check(self, place: Place, book: Book) -> Iterator[Finding]:
        claim = book.claim_at(self.target)
        if claim is None:
            yield place.wrong("amends-nothing", f"amends {self.target[:12]}, which is no version of a claim")
            return
        if claim.version != self.target:
            yield place.wrong(
                "amends-old-version",
                f"amends an old version of {claim.name}",
                expected=claim.version,
                found=self.target,
            )
        if claim.retracted:
            yield place.wrong("amends-retracted", f"amends {claim.name}, which is retracted")
        if claim.name != self.claim.claim:
            yield place.wrong("renames", "an amendment keeps the claim's name", expected=claim.name)
        yield from odd_characters(self.claim.text, place)
        book.versions[place.leaf] = book.versions[self.target]
        claim.version = place.leaf
        claim.amended += 1
        claim.told.append(place.seq)

    def summary(self) -> str:
        return f"{self.claim.claim}: {self.reason}"
