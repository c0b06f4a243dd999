"""Pins: tree heads known from somewhere, that a ledger must reproduce."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ledger.book import Book, KeyState
from ledger.chain import Frontier
from ledger.findings import Finding, error, note, warning
from ledger.note import Checkpoint, Note, NoteError, VerifierKey

COMPARE = "compare with a copy: ridgefill ledger compare A B"


@dataclass(frozen=True)
class Pin:
    """`named`: the user gave it, so it may earn OK-PINNED; other heads can only find the ledger wrong.

    `note` is None for a head this machine remembered, which nobody signed.
    """

    label: str
    origin: str
    size: int
    root: bytes
    named: bool
    note: Note | None = None

    @classmethod
    def from_note(cls, label: str, data: bytes, *, named: bool) -> Pin:
        """Read a checkpoint. Raises NoteError."""
        note = Note.from_text(data)
        head = Checkpoint.from_note(note)
        return cls(label, head.origin, head.size, head.root, named, note)


class PinBoard:
    """The pins of one verification, in order of size; `pinned` is how far a named one was reproduced."""

    def __init__(self, pins: Sequence[Pin]) -> None:
        self.pins = pins
        self.pinned = 0
        self._waiting = sorted(pins, key=lambda pin: -pin.size)

    @property
    def due(self) -> int:
        """The size at which the next pin wants to be checked; -1 when none waits."""
        return self._waiting[-1].size if self._waiting else -1

    def skip_before(self, size: int) -> Iterator[Finding]:
        """Pass over the pins that cover less than a check that starts at `size` can see."""
        while self._waiting and self._waiting[-1].size < max(size, 1):
            pin = self._waiting.pop()
            yield note("pin-behind", pin.label, f"covers {pin.size} entries, before where this check began")

    def check(self, origin: str, frontier: Frontier) -> Iterator[Finding]:
        """Compare every pin of the frontier's size with its root."""
        while self.due == frontier.size:
            pin = self._waiting.pop()
            root = frontier.root()
            if pin.origin != origin:
                yield _contradicts(pin, "is of another ledger", pin.origin, origin)
            elif pin.root != root:
                yield _contradicts(pin, f"saw other entries among the first {pin.size}", pin.root.hex(), root.hex())
            elif pin.named:
                self.pinned = pin.size

    def beyond(self, size: int, *, torn: bool) -> Iterator[Finding]:
        """What it means that pins cover more entries than there are."""
        for pin in self._waiting:
            if torn and pin.size == size + 1:
                yield error(
                    "torn-acknowledged",
                    pin.label,
                    f"this head covers the torn entry {size}: it was whole once",
                    exit_code=4,
                    hint="restore the ledger from a copy, or `ridgefill ledger repair --accept-loss`",
                )
            else:
                yield error(
                    "shrunk",
                    pin.label,
                    "the end of the ledger was cut off",
                    exit_code=3,
                    expected=f"{pin.size} entries",
                    found=f"{size} entries",
                    hint="restore the ledger from a copy; for an older copy on purpose, `verify --forget`",
                )

    def signatures(self, book: Book) -> Iterator[Finding]:
        """Which key each signed pin rests on; an altered one, or an own head without our signature, is an error."""
        keys: dict[VerifierKey, list[KeyState]] = {}
        for state in book.keys:
            try:
                keys.setdefault(VerifierKey.from_text(state.vkey), []).append(state)
            except NoteError:
                continue  # the key's own entry is an error already
        for pin in self.pins:
            if pin.note is None:
                continue
            try:
                signers = [key for key, _ in pin.note.signers(list(keys))]
            except NoteError as wrong:
                yield error("pin-signature", pin.label, f"the checkpoint was altered: {wrong}", exit_code=3)
                continue
            ours = [(key, state) for key in signers for state in keys[key] if state.signs(pin.size)]
            for key, state in ours:
                words = f"covers {pin.size} entries and rests on key {key.id.hex()}, {state.how}"
                yield note("rests-on", pin.label, words)
            why = "signed by a key that was not in force there" if signers else "no key of this ledger signed it"
            if not ours and pin.named:
                yield warning("pin-unsigned", pin.label, f"{why}; only you vouch for it")
            elif not ours:
                yield error("pin-signature", pin.label, why, exit_code=3)


def _contradicts(pin: Pin, what: str, expected: str, found: str) -> Finding:
    message = f"this head {what}: the ledger was rewritten, or this is not its head"
    return error("pin", pin.label, message, exit_code=3, expected=expected, found=found or "no ledger", hint=COMPARE)
