"""A cache of file digests that trusts a file only when its stamps are older than its hashing.

Git's "racily clean" rule: a file written in the same instant as it was hashed can change again
without its stamps telling, so its digest is not kept. `audit` never asks this cache.
"""

from __future__ import annotations

import os
import tempfile
import threading
from pathlib import Path

import orjson

# Coarser than any file system's stamps in use (FAT: 2 s), so a later write always shows.
RACY_NS = 2_000_000_000
_LIMIT = 200_000


def default_cache_file() -> Path:
    """Where digests are kept between commands: the user's cache folder."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "ridgefill" / "digests.json"


def _key(stat: os.stat_result) -> str:
    return f"{stat.st_dev}:{stat.st_ino}:{stat.st_size}:{stat.st_mtime_ns}:{stat.st_ctime_ns}"


class HashCache:
    """(device, inode, size, mtime, ctime) -> sha256. Losing it costs time, never truth."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._lock = threading.Lock()
        try:
            kept = orjson.loads(file.read_bytes())
        except (OSError, ValueError):
            kept = None  # absent, unreadable or cut short: start empty
        self._kept: dict[str, str] = kept if isinstance(kept, dict) else {}

    def get(self, stat: os.stat_result) -> str | None:
        """The digest of the file with exactly these stamps, if it is known."""
        return self._kept.get(_key(stat))

    def put(self, stat: os.stat_result, sha256: str, started_ns: int) -> None:
        """Keep a digest whose hashing began at `started_ns` (time.time_ns), unless the file is too young."""
        if max(stat.st_mtime_ns, stat.st_ctime_ns) + RACY_NS < started_ns:
            with self._lock:
                self._kept[_key(stat)] = sha256

    def save(self) -> None:
        """Write the cache beside itself and rename; a folder that cannot be written is no failure."""
        kept = dict(list(self._kept.items())[-_LIMIT:])
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            descriptor, draft = tempfile.mkstemp(dir=self.file.parent, prefix=".digests-")
            with os.fdopen(descriptor, "wb") as out:
                out.write(orjson.dumps(kept))
            Path(draft).replace(self.file)
        except OSError:
            return
