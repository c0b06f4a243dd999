"""Writing files so that a crash leaves the old one or the new one, never a mixture."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from ledger.errors import EnvironmentProblem


def write_whole(path: Path, data: bytes, *, mode: int = 0o644, replace: bool = True) -> None:
    """Write `data` to `path` durably: temporary file, fsync, rename (or link, when it must not exist yet), fsync.

    Raises FileExistsError when `replace` is false and the file is there; EnvironmentProblem when the system
    refuses, with nothing left behind.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    with RefusalsOf(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            try:
                write_all(descriptor, data)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            if replace:
                temporary.replace(path)
            else:
                os.link(temporary, path)
        finally:
            with suppress(OSError):  # a stray temporary file harms nobody; what was written stands
                temporary.unlink(missing_ok=True)
        try:
            sync_folder(path.parent)
        except OSError:
            if not replace:  # refused means not there: the caller may then do it again
                path.unlink(missing_ok=True)
            raise


def write_all(descriptor: int, data: bytes) -> None:
    """One write of everything; OSError when the system took only a part."""
    written = os.write(descriptor, data)
    if written != len(data):
        raise OSError(28, f"only {written} of {len(data)} bytes were written: no space left")


def sync_folder(folder: Path) -> None:
    """Make a new name in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class RefusalsOf:
    """Turn the system's refusal to write `path` into one line; FileExistsError passes, it is an answer.

    A class, not a generator: it stands around every append.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> None:
        return

    def __exit__(self, _kind: object, refused: BaseException | None, _trace: object) -> None:
        if isinstance(refused, OSError) and not isinstance(refused, FileExistsError):
            raise EnvironmentProblem(
                f"{self.path.name} was not written: {refused.strerror or refused}",
                cause="a full disk, a read-only folder or a failing device",
                hint="free space or choose another folder, then run the same command again; nothing was lost",
            ) from None
