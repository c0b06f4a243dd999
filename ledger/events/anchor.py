"""anchor: evidence from outside that a checkpoint existed, made by one of the plug-ins in `ledger/anchors`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from ledger import anchors
from ledger.book import Book
from ledger.events.base import Body, Count, Hash, Place, Slug, Text
from ledger.findings import Finding, note
from ledger.note import Checkpoint


class Anchor(Body):
    """`size` and `root` name a checkpoint entered before; `evidence` is the plug-in's own, as texts."""

    kind: ClassVar[str] = "anchor"
    anchor: Slug
    size: Count
    root: Hash
    evidence: dict[str, Text]

    def check(self, place: Place, book: Book) -> Iterator[Finding]:
        if book.checkpoints.get(self.root) != str(self.size):
            yield place.wrong("anchors-nothing", f"anchors a tree of {self.size} that no checkpoint entered")
            return
        plugin = anchors.REGISTRY.get(self.anchor)
        if plugin is None:
            yield place.wrong("unknown-anchor", f"no plug-in {self.anchor}", expected=", ".join(anchors.REGISTRY))
            return
        try:
            reached = plugin.check(
                Checkpoint(book.origin, self.size, bytes.fromhex(self.root)), self.evidence, place.tsa_roots
            )
        except anchors.AnchorError as wrong:
            yield place.wrong("false-anchor", f"the {self.anchor} evidence does not hold: {wrong}")
            return
        book.anchors.append(f"entries 0 to {self.size - 1}: {reached}")
        yield note("anchored", f"entry {place.seq}", reached)

    def summary(self) -> str:
        return f"{self.anchor} over {self.size} entries"
