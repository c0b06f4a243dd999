"""A published ledger: the index of every entry's hash, and in full only the entries chosen.

    chain.tsv        seq, kind, ts, leaf, prev of every entry
    entries.jsonl    the chosen lines, byte for byte
    bodies/          the chosen entries' outside bodies
    checkpoints/     the signed heads

The hashes alone make the chain and the tree, so a reader checks all of it; the kind and time of an entry
that is not published in full are the author's word. Genesis and key entries are always in full: without
them no signature could be checked.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ledger import events
from ledger.book import Book
from ledger.chain import ZERO, Frontier, leaf_hash
from ledger.encode import parse
from ledger.errors import CannotCheck, UsageProblem
from ledger.events.base import Place
from ledger.files import write_whole
from ledger.findings import Finding, error, exit_code, note
from ledger.pin import Pin, PinBoard
from ledger.session import own_pins
from ledger.store import LEDGER, Store
from ledger.verdict import Result, Verdict

INDEX = "chain.tsv"
ENTRIES = "entries.jsonl"
HEADER = ("seq", "kind", "ts", "leaf", "prev")
ALWAYS = {"genesis", "key"}
_HEX = re.compile(r"[0-9a-f]{64}", re.ASCII)


def is_published(folder: Path) -> bool:
    """Whether a folder holds a published ledger and not a whole one."""
    return (folder / INDEX).exists() and not (folder / LEDGER).exists()


def publish(store: Store, chosen: set[int], out: Path) -> tuple[int, int]:
    """Write the published form of a verified ledger; how many entries in full, and in all.

    Raises UsageProblem when `out` is not empty or a chosen entry does not exist.
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
            digest = entry["body"].get("body_sha256")
            data = store.side_body(digest) if isinstance(digest, str) else None
            if data is not None:
                write_whole(out / "bodies" / str(digest), data)
    beyond = sorted(seq for seq in chosen if not 0 <= seq < len(rows) - 1)
    if beyond:
        raise UsageProblem(f"there is no entry {beyond[0]}", expected=f"0 to {len(rows) - 2}")
    write_whole(out / INDEX, "".join(row + "\n" for row in rows).encode())
    write_whole(out / ENTRIES, b"".join(line + b"\n" for line in full))
    for path in sorted(store.checkpoints.glob("*.note")):
        write_whole(out / "checkpoints" / path.name, path.read_bytes())
    return len(full), len(rows) - 1


def verify_published(folder: Path, named: Sequence[Pin], tsa_roots: bytes = b"") -> Result:
    """Check a published ledger: the chain of hashes, every line given in full, every known head."""
    store = Store(folder)
    check = _Check(store, [*named, *own_pins(store)], tsa_roots)
    try:
        index = (folder / INDEX).read_bytes()
        lines = (folder / ENTRIES).read_bytes() if (folder / ENTRIES).exists() else b""
    except OSError as refused:
        raise CannotCheck(f"the published ledger cannot be read: {refused.strerror}") from None
    check.read_lines(lines)
    check.walk(index)
    return check.result()


class _Check:
    def __init__(self, store: Store, pins: Sequence[Pin], tsa_roots: bytes) -> None:
        self.store, self.tsa_roots = store, tsa_roots
        self.board = PinBoard(pins)
        self.findings: list[Finding] = list(self.board.skip_before(0))
        self.full: dict[str, bytes] = {}  # leaf -> line
        self.used: set[str] = set()
        self.kinds: Counter[str] = Counter()
        self.book, self.frontier, self.head = Book(), Frontier(), ZERO

    def read_lines(self, data: bytes) -> None:
        if data and not data.endswith(b"\n"):
            self._wrong(ENTRIES, "cut", "the last line has no newline: the file was cut short")
        for line in data.split(b"\n")[:-1]:
            self.full[leaf_hash(line).hex()] = line

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
        for leaf in self.full.keys() - self.used:
            self._wrong(ENTRIES, "stranger", "a line that is not in the index: it was changed or added", found=leaf)

    def _row(self, number: int, fields: list[str]) -> None:
        where = f"{INDEX}: entry {number}"
        if len(fields) != len(HEADER) or not _HEX.fullmatch(fields[3]) or fields[0] != str(number):
            self._wrong(where, "row", "not a row of the index", found=" ".join(fields)[:100])
            return
        _, kind, ts, leaf, prev = fields
        if prev != self.head:
            self._wrong(where, "chain", "`prev` is not the hash before it", expected=self.head, found=prev)
        self.kinds[kind] += 1
        if leaf in self.full:
            self.used.add(leaf)
            self.findings += self._line(where, number, kind, ts, leaf, prev)
        elif kind in ALWAYS:
            self._wrong(where, "withheld", f"a {kind} entry is not given in full, so no signature can be checked")
        self.head = leaf
        self.frontier.extend([bytes.fromhex(leaf)])
        if self.board.due == self.frontier.size:
            self.findings += self.board.check(self.book.origin, self.frontier)

    def _line(self, where: str, seq: int, kind: str, ts: str, leaf: str, prev: str) -> Iterator[Finding]:
        try:
            entry = parse(self.full[leaf])
            stated: tuple[Any, ...] = (entry["seq"], entry["kind"], entry["ts"], entry["prev"])
            if stated != (seq, kind, ts, prev):
                raise ValueError("the line says otherwise than its row in the index")
            body = entry["body"]
            if set(body) == {"body_bytes", "body_sha256"}:
                body = parse(self.store.side_body(str(body["body_sha256"])) or b"", limit=2**26)
            typed = events.read(kind, body)
        except (ValueError, KeyError, TypeError) as wrong:
            yield error("line", where, str(wrong), exit_code=3)
            return
        # Other entries may refer to ones withheld here; these two refer to nothing but the keys.
        if kind in ALWAYS:
            yield from typed.check(Place(seq, leaf, prev, "", self.tsa_roots), self.book)

    def _wrong(self, where: str, code: str, message: str, *, expected: str = "", found: str = "") -> None:
        self.findings.append(error(code, where, message, exit_code=3, expected=expected, found=found))

    def result(self) -> Result:
        size = self.frontier.size
        self.findings += self.board.beyond(size, torn=False)
        self.findings += self.board.signatures(self.book)
        hashed = size - len(self.used)
        self.findings.append(note("published", INDEX, f"{len(self.used)} entries in full, {hashed} as hashes only"))
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


def parse_selection(text: str) -> set[int]:
    """`0-5,9` -> {0, 1, 2, 3, 4, 5, 9}. Raises UsageProblem."""
    chosen: set[int] = set()
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or len(part) > 20:
            raise UsageProblem(f"{part!r} is no entry number or range", expected="like 0-5,9")
        chosen |= set(range(int(first), int(last or first) + 1))
    return chosen
