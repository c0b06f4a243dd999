"""The shared libraries that a process has really mapped, by their bytes (Linux: /proc/PID/maps)."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from ledger.errors import CannotCheck, Differs
from provenance.cache import HashCache
from provenance.hashing import hash_files
from provenance.manifest import escape, unescape

# address perms offset dev inode path; proc(5). Only what can be executed is code.
_LINE = re.compile(rb"\S+ ..x. \S+ \S+ \d+ +(/.*)")
_GONE = b" (deleted)"
_PYTHON = b"~python/"
_LIBRARY = re.compile(rb".*\.so(\.[^/]*)?", re.DOTALL)


def mapped_libraries(pid: int | str = "self", cache: HashCache | None = None) -> dict[str, str]:
    """{label: sha256} of every shared library whose code the process has mapped.

    Raises CannotCheck where the system does not tell (no /proc, another user's process), Differs when a
    library was replaced on disk since it was loaded: then the bytes that run can no longer be read by name.
    """
    files = []
    for path in _mapped(pid):
        # The kernel follows a rename, and says so when the name is gone or leads to another file by now.
        if path.endswith(_GONE):
            raise Differs(
                f"'{escape(path.removesuffix(_GONE))}' was replaced on disk since the process loaded it",
                expected="the bytes that run",
                found="another file, or none, under that name",
                hint="start the process again",
            )
        files.append((path, Path(os.fsdecode(path)).stat().st_size))
    libraries = {}
    for path, result in hash_files(files, cache=cache).items():
        if isinstance(result, OSError):
            raise CannotCheck(f"'{escape(path)}' cannot be read: {result.strerror}")
        if isinstance(result, Differs):
            raise result
        libraries[label(path)] = result.sha256
    return dict(sorted(libraries.items()))


def label(path: bytes) -> str:
    """A path as a build records it, escaped: from the environment's root if it lies inside, `~python/...` from the
    root of the Python that the environment stands on, else absolute. It names no folder of a user."""
    inside, base = path.removeprefix(_environment() + b"/"), _base_python()
    if inside != path:
        return escape(path if inside.startswith(_PYTHON) else inside)
    return escape(_PYTHON + path[len(base) + 1 :] if base and path.startswith(base + b"/") else path)


def unlabel(text: str) -> Path:
    """Where the file of a label lies on this machine. Raises ValueError for one that is no path."""
    name = unescape(text)
    if b".." in name.split(b"/") or b"\0" in name:
        raise ValueError(f"'{text}' is refused: expected a path without '..'")
    if name.startswith(_PYTHON) and _base_python():
        return Path(os.fsdecode(_base_python() + b"/" + name.removeprefix(_PYTHON)))
    return Path(os.fsdecode(_environment())) / os.fsdecode(name)


def _environment() -> bytes:
    return os.fsencode(os.path.realpath(sys.prefix)).rstrip(b"/")


def _base_python() -> bytes:
    """The root of the Python below the environment; empty where that is a folder of the system, alike everywhere."""
    base = os.fsencode(os.path.realpath(sys.base_prefix)).rstrip(b"/")
    return b"" if base in (b"/usr", b"/usr/local", _environment()) else base


def _mapped(pid: int | str) -> list[bytes]:
    """The paths of the libraries, in order."""
    try:
        text = Path(f"/proc/{pid}/maps").read_bytes()
    except OSError as error:
        raise CannotCheck(
            f"what process {pid} has mapped cannot be read: {error.strerror}",
            expected="/proc/PID/maps",
            found=sys.platform,
        ) from None
    lines = (_LINE.fullmatch(line) for line in text.split(b"\n"))
    paths = (line[1].replace(b"\\012", b"\n") for line in lines if line)  # the one escape the kernel writes
    return sorted({path for path in paths if _LIBRARY.fullmatch(path.removesuffix(_GONE))})
