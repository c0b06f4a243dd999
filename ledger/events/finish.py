"""finish: a run ended, with the digest of its sealed per-sample file; embeds the hash of its start entry."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

from ledger.book import Book
from ledger.events.base import Body, Count, Detail, Hash, Part, Place, Recorded
from ledger.events.start import RunId
from ledger.findings import Finding


class Samples(Part):
    """The sealed per-sample file."""

    sha256: Hash
    bytes: Count
    rows: Count


class Finish(Body):
    """The end of a run: its status, its samples when there are any, summary metrics as typed strings."""

    kind: ClassVar[str] = "finish"
    run: RunId
    start: Hash
    status: Literal["complete", "failed", "interrupted"]
    samples: Samples | None = None
    metrics: dict[str, Recorded]
    detail: Detail

    def check(self, place: Place, book: Book) -> Iterator[Finding]:
        run = book.open_runs.pop(self.start, None)
        if run is None:
            yield place.wrong(
                "finish-without-start",
                f"run {self.run} ends, but its start is not open: never begun, or ended already",
            )
        elif run != self.run:
            yield place.wrong("wrong-run", "the finish names another run than its start", expected=run, found=self.run)
        if self.status == "complete" and (self.samples is None or self.samples.rows == 0):
            yield place.wrong("no-samples", f"run {self.run} is said to be complete without one sample")

    def summary(self) -> str:
        return f"run {self.run} {self.status}" + (f", {self.samples.rows} rows" if self.samples else "")
