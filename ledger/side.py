"""Bodies above 60 KiB stand in bodies/<sha256>, and the line holds their digest: told apart and read here only."""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import sha256
from typing import Any

from ledger.encode import parse

FIELDS = frozenset({"body_bytes", "body_sha256"})
MAX_SIDE_BODY = 64 * 1024 * 1024
_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)

Fetch = Callable[[str], bytes | None]


class MissingBody(ValueError):
    """The body's file is not there; `digest` names it."""

    def __init__(self, digest: str) -> None:
        super().__init__(f"its body bodies/{digest} is not there")


def stand_in(data: bytes) -> dict[str, Any]:
    """What the line holds instead of a body with these canonical bytes."""
    return {"body_bytes": len(data), "body_sha256": sha256(data).hexdigest()}


def is_digest(text: object) -> bool:
    """Whether this may name a file in bodies/: 64 hex digits, so no path leads out of it."""
    return isinstance(text, str) and _DIGEST.fullmatch(text) is not None


def whole(body: Any, fetch: Fetch) -> Any:
    """The body itself: `body` as it stands in the line, or the file its digest names.

    Raises MissingBody when there is no such file, ValueError when its bytes are not what was entered.
    """
    if not isinstance(body, dict) or body.keys() != FIELDS:
        return body
    digest = body["body_sha256"]
    if not is_digest(digest):
        raise ValueError("the digest of a body kept outside is not 64 hex digits")
    data = fetch(digest)
    if data is None:
        raise MissingBody(digest)
    if stand_in(data) != body:
        raise ValueError(f"bodies/{digest} is not what was entered; likely cause: the file was edited")
    try:
        return parse(data, MAX_SIDE_BODY)
    except ValueError as wrong:
        raise ValueError(f"bodies/{digest}: {wrong}") from None
