"""The only file that opens ledger.jsonl: lock, append, fsync, read raw lines.

    <study>/ledger.jsonl      the chain
    <study>/ledger.lock       who may append
    <study>/bodies/<sha256>   bodies above 60 KiB
    <study>/ledger.torn/      fragments that a repair kept
    <study>/checkpoints/      signed heads: head.note is the newest

An append is acknowledged when it returns: its bytes were written in one write and synced.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from ledger.chain import ZERO, leaf_hash
from ledger.encode import MAX_BODY, MAX_LINE, canonical, parse
from ledger.envelope import VERSION, is_ledger_id
from ledger.errors import CannotCheck, EnvironmentProblem, Tampered, Torn, UsageProblem
from ledger.events.base import Body
from ledger.events.genesis import Genesis
from ledger.files import RefusalsOf, write_all, write_whole
from ledger.lock import Lock, shared
from ledger.side import MAX_SIDE_BODY, is_digest, stand_in

LEDGER = "ledger.jsonl"


class Head(NamedTuple):
    """The end of the chain: how many entries, the hash of the last (hex), the ledger's id."""

    size: int
    leaf: str
    ledger_id: str


class Entry(NamedTuple):
    """An entry that was appended: its place, its leaf hash (hex) and its line without the newline."""

    seq: int
    leaf: str
    line: bytes


class Store:
    """One study's ledger on disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / LEDGER
        self._name = str(self.path)
        self.checkpoints = folder / "checkpoints"
        self.bodies = folder / "bodies"
        self.torn = folder / "ledger.torn"
        self._lock = Lock(folder / "ledger.lock")
        self._refusals = RefusalsOf(self.path)
        self._descriptor = -1
        self._known: tuple[int, int, Head] | None = None  # inode, length, head after our own last append

    # --- reading

    def exists(self) -> bool:
        """Whether there is a ledger file, empty or not."""
        return self.path.exists()

    def lines(self, offset: int = 0) -> Iterator[bytes]:
        """Raw lines from a byte offset, newline included; an overlong line is cut, never held whole.

        Writers are kept out only while the length is read, so a verification sees whole appends.
        """
        with shared(self._lock.path), self._opened() as file:
            end = os.fstat(file.fileno()).st_size
        with self._opened() as file:
            file.seek(offset)
            left = end - offset
            while left > 0 and (line := file.readline(min(MAX_LINE + 2, left))):
                left -= len(line)
                if len(line) > MAX_LINE + 1 and not line.endswith(b"\n"):
                    while left > 0 and (rest := file.readline(min(MAX_LINE, left))):
                        left -= len(rest)
                        if rest.endswith(b"\n"):
                            line += b"\n"
                            break
                yield line

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            raise CannotCheck(
                f"there is no {LEDGER} in {self.folder}",
                hint="ridgefill ledger init, or -C the study's folder",
            ) from None
        except (IsADirectoryError, PermissionError) as refused:
            raise EnvironmentProblem(f"{LEDGER} cannot be read: {refused.strerror}") from None
        with file:
            yield file

    def first_id(self) -> str:
        """The ledger's id as its first line states it; empty when there is no such line, or no proper id in it."""
        try:
            with self.path.open("rb") as file:
                ledger_id = parse(file.readline(MAX_LINE + 1).removesuffix(b"\n"))["id"]
        except (OSError, ValueError, KeyError):
            return ""
        return str(ledger_id) if is_ledger_id(ledger_id) else ""

    def reaches(self, offset: int, leaf: str) -> bool:
        """Whether the line that ends before byte `offset` still has this hash (hex)."""
        try:
            with self.path.open("rb") as file:
                tail = _tail(file.fileno(), offset)
        except OSError:
            return False
        whole = len(tail) == min(offset, MAX_LINE + 2) and tail.endswith(b"\n")
        return whole and leaf_hash(_last_line(tail)).hex() == leaf

    def side_body(self, digest: str) -> bytes | None:
        """The bytes of a body kept outside the line; None when they are not there."""
        if not is_digest(digest):
            return None
        try:
            with (self.bodies / digest).open("rb") as file:
                return file.read(MAX_SIDE_BODY + 1)
        except OSError:
            return None

    def head(self) -> Head:
        """The end of the chain, read from the file's end. Raises Torn, Tampered, CannotCheck."""
        with self._opened() as file:
            return self._read_head(file.fileno())

    def _read_head(self, descriptor: int) -> Head:
        tail = _tail(descriptor, os.fstat(descriptor).st_size)
        if not tail:
            raise CannotCheck(f"{LEDGER} is empty", cause="it was emptied", hint="restore it from a copy")
        if not tail.endswith(b"\n"):
            raise Torn(
                f"the last line of {LEDGER} has no newline: a write was cut short",
                hint="ridgefill ledger repair",
            )
        line = _last_line(tail)
        try:
            entry = parse(line)
            return Head(entry["seq"] + 1, leaf_hash(line).hex(), entry["id"])
        except (ValueError, KeyError, TypeError) as wrong:
            raise Tampered(f"the last line of {LEDGER} is no entry: {wrong}", hint="ridgefill ledger verify") from None

    # --- writing

    def create(self, genesis: Genesis, ledger_id: str) -> Entry:
        """Start a ledger; its file appears with the genesis entry in it, or not at all."""
        self.folder.mkdir(parents=True, exist_ok=True)
        entry = _entry(Head(0, ZERO, ledger_id), "genesis", genesis.plain())
        try:
            write_whole(self.path, entry.line + b"\n", replace=False)
        except FileExistsError:
            raise UsageProblem(
                f"{self.path} is there already", hint="ridgefill ledger verify, or choose another folder"
            ) from None
        return entry

    def append(self, *bodies: Body) -> list[Entry]:
        """Append entries in one durable write. Raises Torn, Tampered, EnvironmentProblem; then nothing was added."""
        return self.append_with(lambda _head: bodies)

    def append_with(self, make: Callable[[Head], Sequence[Body]]) -> list[Entry]:
        """As append, with bodies that depend on where they will stand; `make` runs under the lock."""
        with self._refusals, self._lock:
            inode, length, head = self._end()
            entries = []
            for body in make(head):
                entry = self._entry(head, body)
                entries.append(entry)
                head = Head(entry.seq + 1, entry.leaf, head.ledger_id)
            data = b"".join(entry.line + b"\n" for entry in entries)
            self._known = None
            self._write(data, length)
            self._known = inode, length + len(data), head
        return entries

    def _end(self) -> tuple[int, int, Head]:
        """Inode, length and head now; the file is read only when someone else has written it."""
        try:
            status = os.stat(self._name)  # noqa: PTH116 - on the path of every append
        except FileNotFoundError:
            raise CannotCheck(f"there is no {LEDGER} in {self.folder}", hint="ridgefill ledger init") from None
        known = self._known
        if known and (status.st_ino, status.st_size) == known[:2]:
            return known
        self.close_file()
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        status = os.fstat(self._descriptor)
        return status.st_ino, status.st_size, self._read_head(self._descriptor)

    def _write(self, data: bytes, length: int) -> None:
        try:
            write_all(self._descriptor, data)
            os.fsync(self._descriptor)
        except OSError:
            # What could not be made durable is not acknowledged, so it must not stay either.
            with suppress(OSError):
                os.ftruncate(self._descriptor, length)
                os.fsync(self._descriptor)
            raise

    def _entry(self, head: Head, body: Body) -> Entry:
        plain = body.plain()
        entry = _entry(head, body.kind, plain)
        if len(entry.line) <= MAX_BODY:
            return entry
        data = canonical(plain)
        if len(data) <= MAX_BODY and len(entry.line) <= MAX_LINE:
            return entry
        if len(data) > MAX_SIDE_BODY:
            raise UsageProblem("an entry this large cannot be read back", expected=f"at most {MAX_SIDE_BODY} bytes")
        outside = stand_in(data)
        # Replaced, not kept: a file that is there may be damaged, and its name says what it must hold.
        write_whole(self.bodies / outside["body_sha256"], data)
        return _entry(head, body.kind, outside)

    # --- repair

    def torn_tail(self) -> bytes:
        """The bytes after the last newline: empty when no write was cut short."""
        tail, reach = b"", 0
        if not self.exists():
            return tail
        with self._opened() as file:
            length = os.fstat(file.fileno()).st_size
            while b"\n" not in tail and reach < length:
                reach = min(length, 2 * reach or MAX_LINE)
                tail = os.pread(file.fileno(), reach, length - reach)
        return tail.rpartition(b"\n")[2]

    def cut_tail(self, fragment: bytes) -> None:
        """Keep a torn fragment under its sha256, then cut it off the file."""
        with suppress(FileExistsError):
            write_whole(self.torn / sha256(fragment).hexdigest(), fragment, replace=False)
        with self._mending(fragment) as (descriptor, length):
            os.ftruncate(descriptor, length - len(fragment))

    def complete_tail(self, fragment: bytes) -> None:
        """Add the newline that a whole last line lacks."""
        with self._mending(fragment) as (descriptor, length):
            os.lseek(descriptor, length, os.SEEK_SET)
            write_all(descriptor, b"\n")

    @contextmanager
    def _mending(self, fragment: bytes) -> Iterator[tuple[int, int]]:
        """The open file and its length, locked, once it is sure that it still ends in `fragment`."""
        with self._refusals, self._lock:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
            try:
                length = os.fstat(descriptor).st_size
                if os.pread(descriptor, len(fragment) + 1, max(0, length - len(fragment))) != fragment:
                    raise Torn("the ledger changed while it was being repaired", hint="ridgefill ledger repair")
                yield descriptor, length
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            self._known = None

    def close_file(self) -> None:
        """Let the handle on the chain go."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def close(self) -> None:
        """Let every handle go."""
        self.close_file()
        self._lock.close()


def _tail(descriptor: int, end: int) -> bytes:
    """The bytes before `end`, enough of them to hold the last line."""
    reach = min(end, MAX_LINE + 2)
    return os.pread(descriptor, reach, end - reach)


def _last_line(tail: bytes) -> bytes:
    return tail[:-1].rpartition(b"\n")[2]


def now() -> str:
    """The time as entries state it: UTC, microseconds, self-declared."""
    return datetime.now(UTC).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


def _entry(head: Head, kind: str, body: dict[str, Any]) -> Entry:
    line = canonical(
        {
            "body": body,
            "id": head.ledger_id,
            "kind": kind,
            "prev": head.leaf,
            "seq": head.size,
            "ts": now(),
            "v": VERSION,
        }
    )
    return Entry(head.size, leaf_hash(line).hex(), line)
