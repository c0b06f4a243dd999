"""One writer at a time: an advisory lock on a file of its own (closing any handle of the data would drop it)."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ledger.errors import EnvironmentProblem

PATIENCE_SECONDS = 60.0


class Lock:
    """An flock, held from reading the head to fsync; works between processes and between threads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._threads = threading.Lock()
        self._descriptor = -1
        self._process = 0

    def __enter__(self) -> None:
        """Hold the lock. Raises EnvironmentProblem when it cannot be had, or when locks do nothing here."""
        self._threads.acquire()
        try:
            # A forked child shares its parent's handle, and with it the lock: it needs one of its own.
            if self._descriptor < 0 or self._process != os.getpid():
                self._descriptor, self._process = self._open(), os.getpid()
            _acquire(self._descriptor, fcntl.LOCK_EX, self.path)
        except BaseException:
            self._threads.release()
            raise

    def __exit__(self, *_: object) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        finally:
            self._threads.release()

    def _open(self) -> int:
        """Open the lock file, and prove once that a second holder is kept out (NFS may only pretend)."""
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            _acquire(descriptor, fcntl.LOCK_EX, self.path)
            if self._keeps_out():
                return descriptor
            raise EnvironmentProblem(
                f"locks do nothing on the file system of {self.path.name}",
                cause="a network file system mounted without locking",
                hint="keep the study on a local disk",
            )
        except BaseException:
            os.close(descriptor)
            raise

    def _keeps_out(self) -> bool:
        second = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(second)
        return False

    def close(self) -> None:
        """Let the handle go."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


@contextmanager
def shared(path: Path) -> Iterator[None]:
    """Keep writers out while looking, where there is a lock file to hold; a reader never creates one."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        yield
        return
    try:
        _acquire(descriptor, fcntl.LOCK_SH, path)
        yield
    finally:
        os.close(descriptor)


def _acquire(descriptor: int, how: int, path: Path) -> None:
    deadline = None
    while True:
        try:
            fcntl.flock(descriptor, how | fcntl.LOCK_NB)
        except BlockingIOError:
            now = time.monotonic()
            deadline = deadline or now + PATIENCE_SECONDS
            if now > deadline:
                raise EnvironmentProblem(
                    f"the ledger is locked for {PATIENCE_SECONDS:.0f} s",
                    cause="another process appends, or was stopped while holding the lock",
                    hint=f"see who holds it: fuser {path.name}",
                ) from None
            time.sleep(0.002)
        else:
            return
