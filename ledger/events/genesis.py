"""genesis: the ledger's name, origin and first key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from ledger.book import Book, KeyState
from ledger.events.base import Body, Place, Text
from ledger.findings import Finding
from ledger.note import NoteError, VerifierKey


class Genesis(Body):
    """The first entry; `origin` names the ledger in every checkpoint, `key` is the vkey that signs them."""

    kind: ClassVar[str] = "genesis"
    made_by: Text
    name: Text
    origin: Text
    key: Text

    def check(self, place: Place, book: Book) -> Iterator[Finding]:
        if place.seq != 0:
            yield place.wrong("second-genesis", "a ledger has one genesis entry, the first")
            return
        try:
            if VerifierKey.from_text(self.key).name != self.origin:
                raise NoteError("it is not named by the ledger's origin")
        except NoteError as wrong:
            yield place.wrong("bad-key", f"the genesis key is not acceptable: {wrong}")
        book.origin, book.name = self.origin, self.name
        book.keys.append(KeyState(self.key, 0, "named in the genesis entry"))

    def summary(self) -> str:
        return self.name
