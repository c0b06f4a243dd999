"""reveal: the text behind a sealed claim, proved by its salt."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import ClassVar

from ledger.book import Book
from ledger.encode import canonical
from ledger.events.base import Body, Hash, Place
from ledger.events.claim import Claim, odd_characters
from ledger.findings import Finding


def commitment(salt: str, claim: Claim) -> str:
    """SHA-256(salt || canonical body) in hex; the salt is 32 random bytes, here in hex."""
    return sha256(bytes.fromhex(salt) + canonical(claim.plain())).hexdigest()


class Reveal(Body):
    """`target` is the hash of the sealed claim's entry."""

    kind: ClassVar[str] = "reveal"
    target: Hash
    salt: Hash
    claim: Claim

    def check(self, place: Place, book: Book) -> Iterator[Finding]:
        sealed = book.claim_at(self.target)
        if sealed is None or not sealed.commitment or sealed.name:
            yield place.wrong("reveals-nothing", f"reveals {self.target[:12]}, which is no sealed claim")
            return
        found = commitment(self.salt, self.claim)
        if found != sealed.commitment:
            yield place.wrong(
                "false-reveal",
                "this text is not the one committed to",
                expected=sealed.commitment,
                found=found,
            )
            return
        if self.claim.claim in book.names:
            yield place.wrong("claim-twice", f"the claim {self.claim.claim} is registered already")
            return
        yield from odd_characters(self.claim.text, place)
        sealed.name = self.claim.claim
        sealed.told.append(place.seq)
        book.names[sealed.name] = book.versions[self.target]

    def summary(self) -> str:
        return f"{self.claim.claim}: {self.claim.text}"
