"""claim: what is expected, how it will be decided, before any run. Open, or sealed behind a salted commitment."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from ledger.book import Book, ClaimState
from ledger.events.base import Body, Decimal, Hash, Part, Place, Slug, Text
from ledger.findings import Finding, warning

RelativePath = Annotated[str, Field(min_length=1, max_length=1024)]


class Prediction(Part):
    """A decision rule fixed in advance: `statistic` of `metric` stands in `comparator` to `threshold`.

    `decides_on`: whether the point estimate or its whole interval must satisfy the rule.
    """

    id: Slug
    metric: Text
    statistic: Text
    comparator: Literal["<", "<=", ">", ">=", "=="]
    threshold: Decimal
    decides_on: Literal["value", "interval"] = "interval"
    arm: str = ""
    baseline: str = ""
    task: str = ""
    n: Annotated[int, Field(ge=1)]  # nothing is decided on no sample
    seeds: list[int]
    exclusions: Text
    stop_rule: Text


class Claim(Body):
    """A claim in full. `files` are the sha256 digests of the configuration files it names."""

    kind: ClassVar[str] = "claim"
    claim: Slug
    text: Text
    exploratory: bool
    predictions: list[Prediction]
    follows: Slug | None = None
    files: dict[RelativePath, Hash]

    @model_validator(mode="after")
    def _decidable(self) -> Claim:
        if not self.predictions and not self.exploratory:
            raise ValueError("a claim without a prediction cannot be decided; add one or set exploratory = true")
        ids = [prediction.id for prediction in self.predictions]
        if len(ids) != len(set(ids)):
            raise ValueError("two predictions of one claim share an id")
        return self

    def check(self, place: Place, book: Book) -> Iterator[Finding]:
        if self.claim in book.names:
            yield place.wrong("claim-twice", f"the claim {self.claim} is registered already; amend it instead")
            return
        if self.follows is not None and self.follows not in book.names:
            yield place.wrong("unknown-follow-up", f"follows {self.follows}, which no earlier entry registers")
        yield from odd_characters(self.text, place)
        book.claims[place.leaf] = ClaimState(self.claim, place.seq, place.leaf, told=[place.seq])
        book.versions[place.leaf] = place.leaf
        book.names[self.claim] = place.leaf

    def summary(self) -> str:
        return f"{self.claim}: {self.text}" + (" (exploratory)" if self.exploratory else "")


class SealedClaim(Body):
    """A claim whose text is withheld: SHA-256(salt || canonical body), the 256-bit salt kept privately."""

    kind: ClassVar[str] = "claim"
    commitment: Hash

    def check(self, place: Place, book: Book) -> Iterator[Finding]:
        yield from ()
        book.claims[place.leaf] = ClaimState("", place.seq, place.leaf, commitment=self.commitment)
        book.versions[place.leaf] = place.leaf

    def summary(self) -> str:
        return f"sealed {self.commitment[:12]}"


def read_claim(body: dict[str, Any]) -> Body:
    """The claim of either shape."""
    return (SealedClaim if "commitment" in body else Claim).model_validate(body)


def odd_characters(text: str, place: Place) -> Iterator[Finding]:
    """Warn of characters that make a text read otherwise than it is stored (Unicode TR 36, TR 39)."""
    if text.isascii():
        return
    hidden = sorted({f"U+{ord(c):04X}" for c in text if unicodedata.category(c) in {"Cf", "Cc", "Zl", "Zp"}})
    if hidden:
        yield warning("hidden-characters", f"entry {place.seq}", f"the text holds {', '.join(hidden)}")
    if unicodedata.normalize("NFC", text) != text:
        yield warning("not-nfc", f"entry {place.seq}", "the text is not in Unicode normal form C")
    if any(_mixed(word) for word in text.split()):
        yield warning("mixed-scripts", f"entry {place.seq}", "a word mixes Latin with look-alike letters")


def _mixed(word: str) -> bool:
    scripts = {unicodedata.name(c, "?").split(" ")[0] for c in word if c.isalpha()}
    return "LATIN" in scripts and bool(scripts & {"CYRILLIC", "GREEK"})
