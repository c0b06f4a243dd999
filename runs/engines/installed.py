"""An installed distribution as its installer left it: every file that RECORD names, held against the disk."""

from __future__ import annotations

import base64
import os
from importlib import metadata

from ledger.errors import Differs
from provenance.cache import HashCache
from provenance.hashing import Hashed, hash_files


def check_unchanged(installed: metadata.Distribution, hint: str, cache: HashCache | None = None) -> None:
    """Raises Differs, naming it, for a file that is not as it was installed."""
    recorded = {
        os.fsencode(str(file.locate())): (str(file), _hex(file.hash.value), file.size or 0)
        for file in installed.files or []
        if file.hash
    }
    for path, result in hash_files([(path, size) for path, (_, _, size) in recorded.items()], cache=cache).items():
        name, expected, _ = recorded[path]
        if not isinstance(result, Hashed) or result.sha256 != expected:
            found = result.sha256 if isinstance(result, Hashed) else str(result)
            raise Differs(f"{name} is not as it was installed", expected=expected, found=found, hint=hint)


def _hex(text: str) -> str:
    """A digest as RECORD files have it (base64 without padding), in hexadecimal."""
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).hex()
