"""What a verification says: a verdict, its findings, and the state it can go on from."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ledger.book import Book
from ledger.findings import Finding

LIMITS = (
    "no chain can prove that nothing was seen before a claim was registered, that no other ledger was kept, "
    "or what the machine really ran"
)


class Verdict(StrEnum):
    """What a ledger is found to be. There is none (None) where nothing could be checked."""

    OK_PINNED = "OK-PINNED"
    OK_UNPINNED = "OK-UNPINNED"
    TORN = "TORN"
    TAMPERED = "TAMPERED"


@dataclass(frozen=True)
class State:
    """Where a verification stands after `size` entries and `offset` bytes: enough to go on from there."""

    size: int
    offset: int
    ledger_id: str
    head: str
    ts: str
    peaks: tuple[bytes, ...]
    book: Book


@dataclass
class Result:
    """The outcome of one verification."""

    verdict: Verdict | None
    findings: list[Finding]
    exit_code: int
    size: int
    head: str
    root: bytes
    kinds: Counter[str]
    book: Book
    pinned: int
    state: State | None = None
    fragment: bytes | None = None

    def reached(self) -> str:
        """How far the evidence goes, in words: whose heads cover how much, and what came from outside."""
        named = f"a head you named covers {self.pinned} of {self.size} entries" if self.pinned else "no head from you"
        return "; ".join([named, *(self.book.anchors or ["no anchor from outside: the author's word"])])

    def as_dict(self) -> dict[str, Any]:
        """Plain values for --json."""
        return {
            "ok": self.exit_code == 0,
            "exit_code": self.exit_code,
            "verdict": self.verdict.value if self.verdict else None,
            "ledger": self.book.name,
            "origin": self.book.origin,
            "entries": self.size,
            "kinds": dict(sorted(self.kinds.items())),
            "head": self.head,
            "root": self.root.hex(),
            "pinned_entries": self.pinned,
            "claims": [vars(claim) for claim in self.book.claims.values()],
            "open_runs": sorted(self.book.open_runs.values()),
            "keys": [vars(key) for key in self.book.keys],
            "anchors": self.book.anchors,
            "reached": self.reached(),
            "limits": LIMITS,
            "findings": [finding.as_dict() for finding in self.findings],
        }
