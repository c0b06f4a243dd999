"""Verified reading and writing of one study's ledger: what the commands and the runner call.

A writer first brings itself up to date (from what this machine remembers, else from the start), refuses on
anything but an OK chain, holds its new entries against the book, appends, then signs the new head.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

from pydantic import ValidationError

from ledger import memory
from ledger.book import Book
from ledger.chain import Frontier
from ledger.console import say
from ledger.errors import CannotCheck, EnvironmentProblem, Problem, Tampered, Torn, UsageProblem
from ledger.events import one_line
from ledger.events.base import Body, Place
from ledger.files import write_whole
from ledger.findings import Finding, Severity
from ledger.keys import key_path, load_key
from ledger.note import ED25519, Checkpoint, Note, NoteError, VerifierKey, public_bytes, sign
from ledger.pin import Pin
from ledger.store import Entry, Head, Store
from ledger.verdict import Result, State
from ledger.verify import verify

HEAD_NOTE = "head.note"
_RETRIES = 1000

Make = Callable[[Result], Sequence[Body]]


class _MovedError(Exception):
    """Another writer appended between our check and our append."""


class Session:
    """One study's ledger, checked before it is believed."""

    def __init__(self, folder: Path) -> None:
        self.store = Store(folder)
        self._result: Result | None = None

    # --- reading

    def check(self, pins: Sequence[Pin] = (), *, tsa_roots: bytes = b"", start: State | None = None) -> Result:
        """Verify everything (or everything after `start`) against the pins, our own signed heads and memory."""
        own = own_pins(self.store)
        remembered = self._remembered()
        if start and not self.store.reaches(start.offset, start.head):
            start = None  # what came before is not there as it was: a full check will say what is wrong
        heads = [memory.as_pin(remembered)] if remembered else []
        result = verify(
            self.store.lines(start.offset if start else 0) if self.store.exists() else (),
            pins=[*pins, *own, *heads],
            side_body=self.store.side_body,
            tsa_roots=tsa_roots,
            state=start,
        )
        if result.state:
            self._remember(result.state, {pin.size for pin in own})
        return result

    def current(self) -> Result:
        """The ledger as it stands, which must hold. Raises Torn, Tampered or CannotCheck otherwise."""
        state = self._result.state if self._result else self._remembered()
        result = self._advance(state) if state and self.store.reaches(state.offset, state.head) else self.check()
        _demand(result)
        self._result = result
        return result

    def verified(self) -> Result:
        """As `current`, with every entry looked at again. For what reads all of them anyway."""
        self._result = self.check()
        _demand(self._result)
        return self._result

    def forget_result(self) -> None:
        """Look at the file anew at the next call."""
        self._result = None

    def _advance(self, state: State) -> Result:
        """Check only what came after `state`."""
        own = [pin for pin in own_pins(self.store) if pin.size >= state.size]
        return verify(
            self.store.lines(state.offset),
            pins=own,
            side_body=self.store.side_body,
            state=replace(state, book=deepcopy(state.book)),
        )

    def _remembered(self) -> State | None:
        ledger_id = self.store.first_id()
        return memory.recall(ledger_id) if ledger_id else None

    def _remember(self, state: State, keep: set[int]) -> None:
        try:
            memory.remember(state, keep)
        except EnvironmentProblem as refused:
            say(f"warning: this machine cannot remember the ledger's head: {refused.message}")

    # --- writing

    def append(self, make: Make) -> list[Entry]:
        """Append what `make` returns for the ledger as it stands, sign the new head, remember it.

        Raises UsageProblem when a new entry would contradict the ledger; then nothing was added.
        """
        for _ in range(_RETRIES):
            result = self.current()
            try:
                bodies = make(result)
            except ValidationError as wrong:
                raise UsageProblem(f"not entered: {one_line(wrong)}") from None
            _refuse(bodies, result)
            try:
                entries = self.store.append_with(lambda head, r=result, b=bodies: _unmoved(head, r, b))  # type: ignore[misc]
            except _MovedError:
                continue
            self._after(result)
            return entries
        raise EnvironmentProblem("other writers never left a moment to append", hint="try again")

    def _after(self, before: Result) -> None:
        assert before.state is not None  # noqa: S101 - current() demanded an OK chain
        self._result = self._advance(before.state)
        _demand(self._result)
        self.try_sign_head()
        if self._result.state:
            self._remember(self._result.state, {pin.size for pin in own_pins(self.store)})

    def sign_head(self) -> Note:
        """Write checkpoints/head.note over the ledger as it stands. Raises EnvironmentProblem without the key."""
        note = sign_over(self.current())
        write_whole(self.store.checkpoints / HEAD_NOTE, note.to_text().encode())
        return note

    def try_sign_head(self) -> None:
        """As sign_head, where entries are durable already: what fails after them must not deny them."""
        try:
            self.sign_head()
        except EnvironmentProblem as refused:
            say(f"warning: entered, but the new head is not signed: {refused.message}")


def sign_over(result: Result) -> Note:
    """A checkpoint over a ledger that holds, signed by its key in force. Raises EnvironmentProblem."""
    return sign_text(result.book, Checkpoint(result.book.origin, result.size, result.root).text())


def sign_text(book: Book, text: str) -> Note:
    """A note signed by the ledger's key in force. Raises EnvironmentProblem when it is not on this machine."""
    origin = book.origin
    private = load_key(origin)
    if VerifierKey(origin, ED25519, public_bytes(private)).text() != book.key_in_force():
        raise EnvironmentProblem(
            f"the private key at {key_path(origin)} is not the one in force",
            expected=book.key_in_force(),
            cause="the key was rotated on another machine, or a rotation was interrupted here",
            hint="copy the key in force here, or take up a new one: ridgefill ledger key --lost",
        )
    return Note(text, (sign(text, origin, private),))


def own_pins(store: Store) -> list[Pin]:
    """The signed heads beside the ledger. Raises Tampered when one of them is no checkpoint."""
    pins = []
    for path in sorted(store.checkpoints.glob("*.note")) if store.checkpoints.is_dir() else []:
        try:
            pins.append(Pin.from_note(f"checkpoints/{path.name}", path.read_bytes(), named=False))
        except NoteError as wrong:
            raise Tampered(
                f"checkpoints/{path.name} is no checkpoint: {wrong}",
                cause="it was edited, or cut short in a copy",
                hint="restore it from a copy",
            ) from None
    return pins


def _unmoved(head: Head, result: Result, bodies: Sequence[Body]) -> Sequence[Body]:
    if (head.size, head.leaf) != (result.size, result.head):
        raise _MovedError
    return bodies


def _refuse(bodies: Sequence[Body], result: Result) -> None:
    """Hold new entries against the book before they are written: what `verify` would call wrong never gets in."""
    book = deepcopy(result.book)
    prev, frontier = result.head, Frontier(result.size, result.state.peaks if result.state else ())
    for number, body in enumerate(bodies):
        seq = result.size + number
        stand_in = f"{seq:064x}"  # the leaf hash depends on the time of writing
        place = Place(seq, stand_in, prev, frontier.root().hex())
        for finding in body.check(place, book):
            if finding.severity is Severity.ERROR:
                raise UsageProblem(f"not entered: {finding.message}", expected=finding.expected, found=finding.found)
            if finding.severity is Severity.WARNING:
                say(finding.line())
        prev = stand_in
        frontier.extend([bytes.fromhex(stand_in)])


def _demand(result: Result) -> None:
    """Raise what the findings amount to, unless the ledger holds."""
    errors = [finding for finding in result.findings if finding.severity is Severity.ERROR]
    if errors:
        raise _as_problem(next(finding for finding in errors if finding.exit_code == result.exit_code))


def _as_problem(finding: Finding) -> Problem:
    kind = {3: Tampered, 4: Torn, 6: CannotCheck}.get(finding.exit_code, Tampered)
    return kind(
        f"{finding.where}: {finding.message}",
        expected=finding.expected,
        found=finding.found,
        hint=finding.hint or "ridgefill ledger verify",
    )
