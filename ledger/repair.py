"""Mending a torn ledger: keep every byte, cut only what was never a whole entry, and record it."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from ledger import memory
from ledger.errors import Tampered, Torn
from ledger.events.repair import Repair
from ledger.pin import Pin
from ledger.session import Session
from ledger.side import is_digest
from ledger.store import Entry
from ledger.verdict import Verdict


def repair_ledger(session: Session, *, accept_loss: bool) -> tuple[str, list[Entry]]:
    """Mend the ledger; what was done, and the repair entries (none when nothing was torn).

    Raises Tampered when the ledger is damaged in a way that no torn write explains, and Torn when a signed
    head shows that the torn entry was whole once, unless `accept_loss`.
    """
    store = session.store
    fragment = store.torn_tail()
    if fragment:
        result = session.check()
        if result.verdict is not Verdict.TORN:
            raise Tampered("the ledger is damaged beyond a torn write", hint="ridgefill ledger verify")
        lost = next((finding for finding in result.findings if finding.code == "torn-acknowledged"), None)
        if lost and not accept_loss:
            raise Torn(lost.message, cause="damage after the write, not a crash", hint=lost.hint)
        if result.fragment is not None:
            store.complete_tail(fragment)
        else:
            store.cut_tail(fragment)
            if lost:
                _set_aside_heads(store.checkpoints, result.size)
                memory.forget(store.first_id())
    return _record(session, fragment)


def _record(session: Session, fragment: bytes) -> tuple[str, list[Entry]]:
    """Enter every fragment that no repair entry names yet: also those of a repair that was itself cut short."""
    session.forget_result()
    book = session.current().book
    kept = sorted(session.store.torn.iterdir()) if session.store.torn.is_dir() else []
    new = [path for path in kept if path.name not in book.torn and is_digest(path.name)]
    bodies = [Repair(sha256=path.name, bytes=path.stat().st_size, action="cut") for path in new]
    if fragment and not bodies:
        bodies = [Repair(sha256=sha256(fragment).hexdigest(), bytes=len(fragment), action="completed")]
    if not bodies:
        return "nothing to repair: the last line is whole", []
    entries = session.append(lambda _result: bodies)
    return bodies[0].summary(), entries


def _set_aside_heads(checkpoints: Path, size: int) -> None:
    """Signed heads over a lost entry are evidence against the ledger: keep them, under another ending."""
    for path in checkpoints.glob("*.note"):
        if Pin.from_note(path.name, path.read_bytes(), named=False).size > size:
            path.rename(path.with_suffix(".lost"))
