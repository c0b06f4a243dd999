"""The registered version of a file, if git still has it: to show what changed, line by line."""

from __future__ import annotations

import difflib
from hashlib import sha256
from pathlib import Path

from provenance.gitcall import ask

_COMMITS = 200
_LINES = 12


def difference(folder: Path, name: str, registered: str) -> str:
    """What changed since the version with this sha256, as a few lines of a diff in one line; "" when unknown."""
    for commit in ask(folder, "log", f"-{_COMMITS}", "--format=%H", "--", name).text.splitlines():
        old = ask(folder, "show", f"{commit}:./{name}")
        if old.status == 0 and sha256(old.out).hexdigest() == registered:
            return _told(old.out, (folder / name).read_bytes())
    return ""


def _told(old: bytes, new: bytes) -> str:
    before, after = (text.decode("utf-8", "replace").splitlines() for text in (old, new))
    changes = [line for line in difflib.ndiff(before, after) if line[0] in "+-"]
    more = f" (and {len(changes) - _LINES} more lines)" if len(changes) > _LINES else ""
    return ": " + " | ".join(changes[:_LINES]) + more
