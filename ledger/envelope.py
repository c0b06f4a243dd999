"""What stands around every entry's body: its fields, its version, its id and its time. Pure."""

from __future__ import annotations

import re
from datetime import datetime

VERSION = 1
FIELDS = {"body", "id", "kind", "prev", "seq", "ts", "v"}
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", re.ASCII)
_ID = re.compile(r"[0-9a-f]{32}", re.ASCII)


def is_ledger_id(value: object) -> bool:
    """Whether this may be a ledger's id: 32 hex digits, so no path leads out of a folder named by it."""
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def is_time(text: str) -> bool:
    """Whether this is a UTC time with microseconds, as entries write it."""
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return _TIME.fullmatch(text) is not None
