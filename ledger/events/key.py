"""key: a new signing key, endorsed by the old one, or taken up because the old one is lost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from ledger.book import Book, KeyState
from ledger.events.base import Body, Place, Text
from ledger.findings import Finding, warning
from ledger.note import Note, NoteError, VerifierKey


def endorsement_text(origin: str, seq: int, new: str) -> str:
    """What the old key signs to hand over to the new one, at one place of one ledger only."""
    return f"ridgefill key rotation\n{origin}\n{seq}\n{new}\n"


class Key(Body):
    """`new` is a vkey; `endorsement` the note signed by the key in force, empty when that key is lost."""

    kind: ClassVar[str] = "key"
    new: Text
    endorsement: str
    reason: Text

    def check(self, place: Place, book: Book) -> Iterator[Finding]:
        how = f"taken up at entry {place.seq} because the key before was lost; nothing endorses it"
        try:
            if VerifierKey.from_text(self.new).name != book.origin:
                raise NoteError("it is not named by the ledger's origin")
            if self.endorsement:
                signed = Note.from_text(self.endorsement)
                if signed.text != endorsement_text(book.origin, place.seq, self.new):
                    raise NoteError("the endorsement is about something else")
                if not signed.signers([VerifierKey.from_text(book.key_in_force())]):
                    raise NoteError("the endorsement is not signed by the key in force")
                how = f"endorsed at entry {place.seq} by the key before"
        except NoteError as wrong:
            yield place.wrong("bad-key", f"the new key is not acceptable: {wrong}")
            return
        if not self.endorsement:
            yield warning("key-lost", f"entry {place.seq}", f"the key {self.new.split('+')[1]} was {how}")
        if book.keys:
            book.keys[-1].until = place.seq
        book.keys.append(KeyState(self.new, place.seq, how))

    def summary(self) -> str:
        return ("rotated: " if self.endorsement else "lost: ") + self.reason
