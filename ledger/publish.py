"""A published ledger: the index of every entry's hash, and in full only the entries chosen.

    chain.tsv        seq, kind, ts, leaf, prev of every entry
    entries.jsonl    the chosen lines, byte for byte
    bodies/          the chosen entries' outside bodies
    checkpoints/     the signed heads
    index.note       the digest of chain.tsv, signed

The hashes alone make the chain and the tree, so a reader checks all of it; the kind and time of an entry
that is not published in full are the author's word, and `index.note`, signed with the ledger's key, keeps others
from changing them. Genesis and key entries are always in full: without them no signature could be checked.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from ledger import events
from ledger.book import Book
from ledger.chain import ZERO, Frontier, leaf_hash
from ledger.console import say
from ledger.encode import parse
from ledger.envelope import VERSION, is_time
from ledger.errors import CannotCheck, EnvironmentProblem, UsageProblem
from ledger.events.base import Place
from ledger.files import write_whole
from ledger.findings import Finding, error, exit_code, note, warning
from ledger.note import Note, NoteError, VerifierKey
from ledger.pin import Pin, PinBoard
from ledger.session import own_pins, sign_text
from ledger.side import MissingBody, whole
from ledger.store import LEDGER, Store
from ledger.verdict import Result, Verdict

INDEX = "chain.tsv"
INDEX_NOTE = "index.note"
ENTRIES = "entries.jsonl"
HEADER = ("seq", "kind", "ts", "leaf", "prev")
ALWAYS = {"genesis", "key"}
_HEX = re.compile(r"[0-9a-f]{64}", re.ASCII)
_RANGE = re.compile(r"(\d{1,15})(?:-(\d{1,15}))?", re.ASCII)


def is_published(folder: Path) -> bool:
    """Whether a folder holds a published ledger and not a whole one."""
    return (folder / INDEX).exists() and not (folder / LEDGER).exists()


def publish(store: Store, book: Book, chosen: set[int], out: Path) -> tuple[int, int]:
    """Write the published form of a verified ledger; how many entries in full, and in all.

    Raises UsageProblem when `out` is not a new or empty folder.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageProblem(f"{out} is there already", expected="a new or empty folder")
    rows = ["\t".join(HEADER)]
    full = []
    for raw in store.lines():
        line = raw.removesuffix(b"\n")
        entry = parse(line)
        rows.append("\t".join([str(entry["seq"]), entry["kind"], entry["ts"], leaf_hash(line).hex(), entry["prev"]]))
        if entry["seq"] in chosen or entry["kind"] in ALWAYS:
            full.append(line)
            digest = str(entry["body"].get("body_sha256"))
            data = store.side_body(digest)
            if data is not None:
                write_whole(out / "bodies" / digest, data)
    index = "".join(row + "\n" for row in rows).encode()
    write_whole(out / INDEX, index)
    write_whole(out / ENTRIES, b"".join(line + b"\n" for line in full))
    for path in sorted(store.checkpoints.glob("*.note")):
        write_whole(out / "checkpoints" / path.name, path.read_bytes())
    try:
        write_whole(out / INDEX_NOTE, sign_text(book, _index_text(book, index)).to_text().encode())
    except EnvironmentProblem as missing:
        say(f"warning: the index is not signed: {missing.line()}")
    return len(full), len(rows) - 1


def _index_text(book: Book, index: bytes) -> str:
    return f"ridgefill published index\n{book.origin}\n{sha256(index).hexdigest()}\n"


def verify_published(folder: Path, named: Sequence[Pin], tsa_roots: bytes = b"") -> Result:
    """Check a published ledger: the chain of hashes, every line given in full, every known head."""
    store = Store(folder)
    check = _Check(store, [*named, *own_pins(store)], tsa_roots)
    try:
        index = (folder / INDEX).read_bytes()
        lines = (folder / ENTRIES).read_bytes() if (folder / ENTRIES).exists() else b""
        signed = (folder / INDEX_NOTE).read_bytes() if (folder / INDEX_NOTE).exists() else None
    except OSError as refused:
        raise CannotCheck(f"the published ledger cannot be read: {refused.strerror}") from None
    check.read_lines(lines)
    check.walk(index)
    check.read_note(signed, index)
    return check.result()


class _Check:
    def __init__(self, store: Store, pins: Sequence[Pin], tsa_roots: bytes) -> None:
        self.store, self.tsa_roots = store, tsa_roots
        self.board = PinBoard(pins)
        self.findings: list[Finding] = list(self.board.skip_before(0))
        self.lines: deque[bytes] = deque()  # in full, in the order of the index
        self.full = 0
        self.kinds: Counter[str] = Counter()
        self.book, self.frontier, self.head = Book(), Frontier(), ZERO
        self.ledger_id: Any = None

    def read_lines(self, data: bytes) -> None:
        if data and not data.endswith(b"\n"):
            self._wrong(ENTRIES, "cut", "the last line has no newline: the file was cut short")
        self.lines.extend(data.split(b"\n")[:-1])

    def walk(self, index: bytes) -> None:
        try:
            text = index.decode("ascii")
        except UnicodeDecodeError:
            self._wrong(INDEX, "not-ascii", "the index is not ASCII")
            return
        rows = text.split("\n")
        if rows.pop() != "":
            self._wrong(INDEX, "cut", "the last line has no newline: the file was cut short")
        if not rows or tuple(rows.pop(0).split("\t")) != HEADER:
            self._wrong(INDEX, "header", "the index does not start with its header", expected=" ".join(HEADER))
            return
        for number, row in enumerate(rows):
            self._row(number, row.split("\t"))
        for line in self.lines:
            leaf = leaf_hash(line).hex()
            self._wrong(ENTRIES, "stranger", "a line that is not in the index: changed, added or moved", found=leaf)

    def read_note(self, signed: bytes | None, index: bytes) -> None:
        """The kinds and times of withheld entries are in no hash: only this signature covers them."""
        if signed is None:
            words = "the kind and time of an entry given as its hash can be changed by anyone who passes this on"
            self.findings.append(warning("index-unsigned", INDEX, words))
            return
        try:
            over = Note.from_text(signed)
            keys = [VerifierKey.from_text(state.vkey) for state in self.book.keys]
            if over.text != _index_text(self.book, index):
                raise NoteError("it is about another index")
            if not over.signers(keys):
                raise NoteError("no key of this ledger signed it")
        except NoteError as wrong:
            self._wrong(INDEX_NOTE, "index-signature", f"the index is not the one that was signed: {wrong}")

    def _row(self, number: int, fields: list[str]) -> None:
        where = f"{INDEX}: entry {number}"
        if len(fields) != len(HEADER) or not _HEX.fullmatch(fields[3]) or fields[0] != str(number):
            self._wrong(where, "row", "not a row of the index", found=" ".join(fields)[:100])
            return
        _, kind, ts, leaf, prev = fields
        if prev != self.head:
            self._wrong(where, "chain", "`prev` is not the hash before it", expected=self.head, found=prev)
        if kind not in events.REGISTRY or not is_time(ts) or (kind == "genesis") != (number == 0):
            self._wrong(where, "row", "no such kind or time can stand here", found=f"{kind} {ts}"[:100])
        self.kinds[kind] += 1
        if self.lines and leaf_hash(self.lines[0]).hex() == leaf:
            self.full += 1
            self.findings += self._line(where, number, self.lines.popleft(), fields)
        elif kind in ALWAYS:
            self._wrong(where, "withheld", f"a {kind} entry is not given in full, so no signature can be checked")
        self.head = leaf
        self.frontier.extend([bytes.fromhex(leaf)])
        if self.board.due == self.frontier.size:
            self.findings += self.board.check(self.book.origin, self.frontier)

    def _line(self, where: str, seq: int, line: bytes, fields: list[str]) -> Iterator[Finding]:
        _, kind, ts, leaf, prev = fields
        try:
            entry = parse(line)
            self.ledger_id = self.ledger_id or entry.get("id")
            stated = {"id": self.ledger_id, "kind": kind, "prev": prev, "seq": seq, "ts": ts, "v": VERSION}
            if {key: value for key, value in entry.items() if key != "body"} != stated:
                raise ValueError("the line says otherwise than its row in the index")
            typed = events.read(kind, whole(entry["body"], self.store.side_body))
        except MissingBody as missing:
            yield error("side-body-missing", where, str(missing), exit_code=6)
            return
        except (ValueError, KeyError) as wrong:
            yield error("line", where, str(wrong), exit_code=3)
            return
        # Other entries may refer to ones withheld here; these refer to keys and the tree, which are whole.
        if kind in ALWAYS or kind == "checkpoint":
            root = self.frontier.root().hex() if typed.needs_root else ""
            yield from typed.check(Place(seq, leaf, prev, root, self.tsa_roots), self.book)

    def _wrong(self, where: str, code: str, message: str, *, expected: str = "", found: str = "") -> None:
        self.findings.append(error(code, where, message, exit_code=3, expected=expected, found=found))

    def result(self) -> Result:
        size = self.frontier.size
        self.findings += self.board.beyond(size, torn=False)
        self.findings += self.board.signatures(self.book)
        hashed = size - self.full
        self.findings.append(note("published", INDEX, f"{self.full} entries in full, {hashed} as hashes only"))
        code = exit_code(self.findings, checked=size)
        ok = Verdict.OK_PINNED if self.board.pinned == size else Verdict.OK_UNPINNED
        return Result(
            verdict=ok if code == 0 else Verdict.TAMPERED if code == 3 else None,
            findings=self.findings,
            exit_code=code,
            size=size,
            head=self.head,
            root=self.frontier.root(),
            kinds=self.kinds,
            book=self.book,
            pinned=self.board.pinned,
        )


def parse_selection(text: str, size: int) -> set[int]:
    """`0-5,9` -> {0, 1, 2, 3, 4, 5, 9}, within a ledger of `size` entries. Raises UsageProblem."""
    chosen: set[int] = set()
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        match = _RANGE.fullmatch(part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, size)
        if not first <= last < size:
            raise UsageProblem(f"{part!r} is no entry number or range", expected=f"like 0-5,9, within 0 to {size - 1}")
        chosen |= set(range(first, last + 1))
    return chosen
