"""Raw lines -> findings and a verdict. Pure and total: any bytes give an answer, none an exception.

A ledger holds when, line by line:

 1. the line's bytes are the canonical form of what they say (`encode.parse`), and end in a newline;
 2. the envelope has its seven fields, `seq` counts from 0, `prev` is the hash of the line before,
    `id` is the ledger's own, and the first entry is its genesis;
 3. the body is one of the known kinds, and agrees with the entries before it (`events`);
 4. every tree head known from elsewhere (`pins`) is reproduced.

Only then is it OK, and OK-PINNED only when a head that the user named covers every entry.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ledger import events
from ledger.book import Book
from ledger.chain import ZERO, Frontier, leaf_hash
from ledger.encode import MAX_LINE, parse
from ledger.envelope import FIELDS, VERSION, is_ledger_id, is_time
from ledger.events.base import Body, Place
from ledger.findings import Finding, Severity, error, exit_code, warning
from ledger.pin import Pin, PinBoard
from ledger.side import Fetch, MissingBody, whole
from ledger.verdict import Result, State, Verdict

MAX_FINDINGS = 50
_BATCH = 1024


def no_side_body(_digest: str) -> bytes | None:
    """For ledgers read without their folder: no body outside the line can be had."""
    return None


@dataclass
class Verifier:
    """Feeds on raw lines, newline included, in order; `result` says what they amount to."""

    pins: Sequence[Pin] = ()
    side_body: Fetch = no_side_body
    tsa_roots: bytes = b""
    state: State | None = None
    findings: list[Finding] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        state = self.state or State(0, 0, "", ZERO, "", (), Book())
        self.size, self.offset, self.ledger_id = state.size, state.offset, state.ledger_id
        self.head, self.ts, self.book = state.head, state.ts, state.book
        self.frontier = Frontier(state.size, state.peaks)
        self.pending: list[bytes] = []
        self.fragment: bytes | None = None
        self.torn_bytes = 0
        self.errors = 0
        self.blind = False  # a body is missing: what later entries say of it cannot be held against them
        self.board = PinBoard(self.pins)
        self._add_all(self.board.skip_before(self.size))
        self._meet_pins()

    def feed(self, raw: bytes) -> None:
        """Check one line."""
        if not raw.endswith(b"\n"):
            self._torn(raw)
            if self.fragment is None:
                return
            line = raw
        else:
            line = raw[:-1]
        leaf = leaf_hash(line)
        try:
            entry = parse(line)
        except ValueError as wrong:
            self._wrong("not-canonical", str(wrong), "the line was edited, or written by another program")
        else:
            self._envelope(entry, leaf.hex())
        self.head = leaf.hex()
        self.offset += len(raw)
        self.size += 1
        self.pending.append(leaf)
        if len(self.pending) >= _BATCH:
            self._flush()
        if self.board.due == self.size:
            self._meet_pins()

    def result(self) -> Result:
        """The verdict over all that was fed."""
        self._flush()
        self._add_all(self.board.beyond(self.size, torn=bool(self.torn_bytes)))
        self._add_all(self.board.signatures(self.book))
        if self.size == 0 and self.fragment is None and not self.errors:
            self._add(
                error(
                    "nothing-to-check",
                    "ledger",
                    "there is no entry to check",
                    exit_code=6,
                    hint="ridgefill ledger init",
                )
            )
        code = exit_code(self.findings, checked=self.size)
        return Result(
            verdict=self._verdict(code),
            findings=self.findings,
            exit_code=code,
            size=self.size,
            head=self.head,
            root=self.frontier.root(),
            kinds=self.kinds,
            book=self.book,
            pinned=self.board.pinned,
            state=self._state() if code == 0 else None,
            fragment=self.fragment,
        )

    def _verdict(self, code: int) -> Verdict | None:
        if code == 0:
            return Verdict.OK_PINNED if self.board.pinned == self.size else Verdict.OK_UNPINNED
        return {3: Verdict.TAMPERED, 4: Verdict.TORN}.get(code)

    def _state(self) -> State:
        return State(self.size, self.offset, self.ledger_id, self.head, self.ts, tuple(self.frontier.peaks), self.book)

    def _meet_pins(self) -> None:
        self._flush()
        self._add_all(self.board.check(self.book.origin, self.frontier))

    def _flush(self) -> None:
        self.frontier.extend(self.pending)
        self.pending.clear()

    def _add_all(self, findings: Iterable[Finding]) -> None:
        for finding in findings:
            self._add(finding)

    def _add(self, finding: Finding) -> None:
        self.errors += finding.severity is Severity.ERROR
        # A rewritten ledger would give a finding a line; the first ones tell, and errors are never crowded out.
        if len(self.findings) < MAX_FINDINGS or (finding.severity is Severity.ERROR and self.errors <= MAX_FINDINGS):
            self.findings.append(finding)

    def _wrong(self, code: str, message: str, cause: str = "", *, expected: str = "", found: str = "") -> None:
        self._add(
            error(
                code,
                f"entry {self.size} (line {self.size + 1})",
                message + (f"; likely cause: {cause}" if cause else ""),
                exit_code=3,
                hint="compare with a copy: ridgefill ledger compare A B",
                expected=expected,
                found=found,
            )
        )

    def _torn(self, raw: bytes) -> None:
        """A last line without its newline: a whole entry that only lacks it, or a fragment that is no entry."""
        whole = len(raw) <= MAX_LINE
        try:
            whole = whole and parse(raw).get("prev") == self.head
        except ValueError:
            whole = False
        self.fragment = raw if whole else None
        self._add(
            error(
                "torn",
                f"entry {self.size} (line {self.size + 1})",
                f"the last line ends after {len(raw)} bytes without a newline: "
                + ("only the newline is missing" if whole else "a write was cut short"),
                exit_code=4,
                hint="ridgefill ledger repair",
            )
        )
        if not whole:
            self.torn_bytes = len(raw)

    def _envelope(self, entry: dict[str, Any], leaf: str) -> None:
        if entry.keys() != FIELDS:
            self._wrong("envelope", "not the seven fields of an entry", found=", ".join(sorted(entry))[:200])
            return
        seq, prev, ts, kind = entry["seq"], entry["prev"], entry["ts"], entry["kind"]
        if type(entry["v"]) is not int or entry["v"] != VERSION:
            self._wrong("version", "an entry of a version this program does not know", expected="1")
            return
        if type(seq) is not int or seq != self.size:
            self._wrong(
                "sequence",
                "out of sequence",
                "lines were removed, added or moved",
                expected=str(self.size),
                found=str(seq),
            )
        if prev != self.head:
            self._wrong(
                "chain",
                "`prev` is not the hash of the line before" if self.size else "`prev` of the first entry is not zero",
                f"entry {self.size - 1} was changed, or lines were removed" if self.size else "the start was cut off",
                expected=self.head,
                found=str(prev),
            )
        if not isinstance(ts, str) or not is_time(ts):
            self._wrong("time", "`ts` is not a UTC time with microseconds", found=str(ts)[:60])
        else:
            if ts < self.ts:
                self._add(warning("clock", f"entry {self.size}", f"dated {ts}, before the entry before it ({self.ts})"))
            self.ts = ts
        if self.size == 0:
            self._first(entry)
        elif entry["id"] != self.ledger_id:
            self._wrong("ledger-id", "an entry of another ledger", expected=self.ledger_id, found=str(entry["id"]))
        self._body(kind, entry["body"], leaf, str(prev))

    def _first(self, entry: dict[str, Any]) -> None:
        if entry["kind"] != "genesis":
            self._wrong(
                "genesis",
                "the first entry is not a genesis",
                "the start was cut off",
                found=str(entry["kind"]),
            )
        if not is_ledger_id(entry["id"]):
            self._wrong("ledger-id", "a ledger id is 32 hex digits", found=str(entry["id"])[:60])
        self.ledger_id = str(entry["id"])

    def _body(self, kind: Any, body: Any, leaf: str, prev: str) -> None:
        if not isinstance(kind, str) or not isinstance(body, dict):
            self._wrong("envelope", "`kind` is not a text or `body` not an object")
            return
        try:
            typed: Body = events.read(kind, whole(body, self.side_body))
        except MissingBody as missing:
            where, hint = f"entry {self.size}", "fetch the study's bodies/ folder"
            self._add(error("side-body-missing", where, str(missing), exit_code=6, hint=hint))
            self.blind = True
            return
        except ValueError as wrong:
            self._wrong("body", str(wrong))
            return
        self.kinds[kind] += 1
        root = ""
        if typed.needs_root:
            self._flush()
            root = self.frontier.root().hex()
        for finding in typed.check(Place(self.size, leaf, prev, root, self.tsa_roots), self.book):
            doubtful = self.blind and finding.severity is Severity.ERROR
            self._add(replace(finding, exit_code=6) if doubtful else finding)


def verify(
    lines: Iterable[bytes],
    *,
    pins: Sequence[Pin] = (),
    side_body: Fetch = no_side_body,
    tsa_roots: bytes = b"",
    state: State | None = None,
) -> Result:
    """Check raw lines (each with its newline) against themselves and the pins."""
    verifier = Verifier(pins, side_body, tsa_roots, state)
    for raw in lines:
        verifier.feed(raw)
    return verifier.result()
