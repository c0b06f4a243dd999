"""start: a run begins, under claims registered before it, with its pins; written before the first sample."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar

from pydantic import Field

from ledger.book import Book
from ledger.events.base import Body, Detail, Hash, Place
from ledger.findings import Finding

RUN_ID_DIGITS = 16
RunId = Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]


def run_id(prev: str) -> str:
    """A run's id: the head of `prev`, so it is unique, unknown beforehand, and checkable from the chain."""
    return prev[:RUN_ID_DIGITS]


class Start(Body):
    """`claims` are the hashes of the claim versions this run is about; `pins` says what it may use."""

    kind: ClassVar[str] = "start"
    run: RunId
    claims: list[Hash]
    exploratory: bool
    pins: list[Detail]
    detail: Detail

    def check(self, place: Place, book: Book) -> Iterator[Finding]:
        if self.run != run_id(place.prev):
            yield place.wrong(
                "run-id",
                "the run id is not the one this place gives",
                expected=run_id(place.prev),
                found=self.run,
            )
        if not self.claims and not self.exploratory:
            yield place.wrong("start-without-claim", f"run {self.run} names no claim and is not exploratory")
        for version in self.claims:
            claim = book.claim_at(version)
            if claim is None:
                yield place.wrong("unregistered", f"run {self.run} is about {version[:12]}, no earlier claim")
            elif claim.retracted:
                yield place.wrong("retracted", f"run {self.run} is about claim {claim.name}, retracted before")
            elif claim.version != version:
                yield place.wrong("superseded", f"run {self.run} is about an amended version of {claim.name}")
        book.open_runs[place.leaf] = self.run

    def summary(self) -> str:
        return f"run {self.run}" + (" (exploratory)" if self.exploratory else "")
