"""Files -> sha256: what is opened is what is hashed; large files in parallel, small ones in a row.

A large file's read and update both release the interpreter's lock, so threads scale. A small file
is mostly interpreter work: threads only slow it down (docs/design/0061).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat as mode
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import click

from ledger.errors import Differs
from provenance.cache import HashCache

LARGE = 1 << 20
_CHUNK = 1 << 18

Advance = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Hashed:
    """One file's content: sha256 in lower-case hexadecimal and length in bytes."""

    sha256: str
    size: int


class NotAFileError(OSError):
    """A folder, pipe, socket or device where a file was expected."""


def open_file(path: bytes) -> int:
    """A descriptor of a regular file. The last part of the path is never followed as a link.

    Raises OSError; NotAFileError when it is no regular file (a pipe must not hang a check).
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not mode.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotAFileError(None, "not a regular file", os.fsdecode(path))
    return descriptor


def hash_descriptor(descriptor: int, advance: Advance | None = None) -> Hashed:
    """Hash an open file from its first byte.

    Raises Differs when the file's stamps move meanwhile: such a digest is of no version that existed.
    """
    before = os.fstat(descriptor)
    os.lseek(descriptor, 0, os.SEEK_SET)
    state = hashlib.sha256()
    buffer = memoryview(bytearray(min(_CHUNK, before.st_size + 1)))
    size = 0
    while count := os.readv(descriptor, [buffer]):
        state.update(buffer[:count])
        size += count
        if advance:
            advance(count)
    after = os.fstat(descriptor)
    stamps = ("st_size", "st_mtime_ns", "st_ctime_ns")
    if size != before.st_size or any(getattr(before, name) != getattr(after, name) for name in stamps):
        raise Differs(
            "a file changed while it was being hashed",
            expected=f"{before.st_size} bytes that stay",
            found=f"{after.st_size} bytes with new stamps",
            cause="another program is writing it",
            hint="wait for that program and run again",
        )
    return Hashed(state.hexdigest(), size)


def hash_file(path: bytes, cache: HashCache | None = None, advance: Advance | None = None) -> Hashed:
    """The digest of one file, from the cache where its stamps allow. Raises OSError, Differs."""
    descriptor = open_file(path)
    try:
        stat = os.fstat(descriptor)
        known = cache.get(stat) if cache else None
        if known:
            if advance:
                advance(stat.st_size)
            return Hashed(known, stat.st_size)
        started = time.time_ns()
        hashed = hash_descriptor(descriptor, advance)
        if cache:
            cache.put(stat, hashed.sha256, started)
        return hashed
    finally:
        os.close(descriptor)


def hash_files(
    files: Iterable[tuple[bytes, int]], *, cache: HashCache | None = None, advance: Advance | None = None
) -> dict[bytes, Hashed | OSError | Differs]:
    """Hash many (path, size in bytes); a file that cannot be hashed has its error as its value."""
    files = list(files)

    def attempt(path: bytes) -> Hashed | OSError | Differs:
        try:
            return hash_file(path, cache, advance)
        except (OSError, Differs) as error:
            return error

    large = sorted((size, path) for path, size in files if size >= LARGE)
    with ThreadPoolExecutor(cores()) as pool:
        running = {path: pool.submit(attempt, path) for _, path in reversed(large)}
        results = {path: attempt(path) for path, size in files if size < LARGE}
        results.update((path, future.result()) for path, future in running.items())
    if cache:
        cache.save()
    return results


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextlib.contextmanager
def bar(total: int) -> Iterator[Advance | None]:
    """A bar over `total` bytes on stderr when a person is watching and the work is long; else None."""
    if total < 256 * LARGE or not sys.stderr.isatty():
        yield None
        return
    lock = threading.Lock()
    with click.progressbar(length=total, label="hashing", file=sys.stderr, show_pos=False) as shown:

        def advance(count: int) -> None:
            with lock:
                shown.update(count)

        yield advance
