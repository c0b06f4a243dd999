"""checkpoint: the signed tree head over all entries before this one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from ledger.book import Book
from ledger.events.base import Body, Place, Text
from ledger.findings import Finding
from ledger.note import Checkpoint as TreeHead
from ledger.note import Note, NoteError, VerifierKey


class Checkpoint(Body):
    """`note` is the signed note as it was published."""

    kind: ClassVar[str] = "checkpoint"
    needs_root: ClassVar[bool] = True
    note: Text

    def check(self, place: Place, book: Book) -> Iterator[Finding]:
        try:
            signed = Note.from_text(self.note)
            head = TreeHead.from_note(signed)
            signers = signed.signers([VerifierKey.from_text(book.key_in_force())])
        except NoteError as wrong:
            yield place.wrong("bad-checkpoint", f"the checkpoint cannot be read: {wrong}")
            return
        expected = f"{book.origin}, {place.seq} entries, root {place.root}"
        found = f"{head.origin}, {head.size} entries, root {head.root.hex()}"
        if found != expected:
            yield place.wrong("false-checkpoint", "not the head it stands at", expected=expected, found=found)
        if not signers:
            yield place.wrong("unsigned-checkpoint", "not signed by the key in force", expected=book.key_in_force())
        book.checkpoints[place.root] = str(place.seq)

    def summary(self) -> str:
        return f"tree of {self.note.split(chr(10))[1]}" if self.note.count("\n") > 1 else ""
