"""value -> canonical bytes, and back: the only serialiser.

The profile is RFC 8785 (JCS) without its hard part: ASCII keys, integers within +-(2^53-1), no floats.
Within it `orjson` with sorted keys writes exactly what JCS writes; a test holds it against `rfc8785`.
A number that is not such an integer is a decimal string ("0.05", "NaN" where a metric is recorded).
"""

from __future__ import annotations

import re
from typing import Any

import orjson

from ledger.errors import UsageProblem

MAX_INT = 2**53 - 1
MAX_DEPTH = 32
MAX_LINE = 65_535  # tlog-tiles keeps entries below 64 KiB
MAX_BODY = 60 * 1024
MAX_TEXT = 20_000  # characters of one text field

_OPTIONS = (
    orjson.OPT_SORT_KEYS
    | orjson.OPT_PASSTHROUGH_DATACLASS
    | orjson.OPT_PASSTHROUGH_DATETIME
    | orjson.OPT_PASSTHROUGH_SUBCLASS
)
# A float, or an integer of 16 digits or more, once the strings are taken out.
_SUSPECT = re.compile(rb"[0-9][.eE]|[0-9]{16}")


def canonical(value: Any) -> bytes:
    """The canonical bytes of a JSON value.

    Raises UsageProblem naming the place when the value is outside the profile: floats (NaN and infinity
    too), integers beyond +-(2^53-1), keys that are not ASCII strings, lone surrogates, more than 32 levels.
    """
    try:
        data = orjson.dumps(value, option=_OPTIONS)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageProblem(_fault(value) or f"this value cannot be written as JSON: {error}") from None
    # NaN and infinity are written as null: only where there is one can they hide.
    if _needs_walk(data) or b"null" in data:
        fault = _fault(value)
        if fault:
            raise UsageProblem(fault)
    return data


def parse(line: bytes, limit: int = MAX_LINE) -> dict[str, Any]:
    """The object whose canonical bytes are `line`.

    Raises ValueError with the reason in words. Byte equality with the re-encoding refuses duplicate keys,
    other key orders, spaces, CR, BOM, 1.00e0, NaN and needless escapes in one rule.
    """
    if len(line) > limit:
        raise ValueError(f"longer than {limit} bytes")
    try:
        value = orjson.loads(line)
    except ValueError as error:  # orjson.JSONDecodeError is one
        raise ValueError(f"not JSON: {error}") from None
    if type(value) is not dict:
        raise ValueError(f"not an object but {type(value).__name__}")
    if orjson.dumps(value, option=_OPTIONS) != line:
        raise ValueError("not canonical: its bytes differ from its own canonical form")
    if _needs_walk(line):
        fault = _fault(value)
        if fault:
            raise ValueError(fault)
    return value


def _needs_walk(data: bytes) -> bool:
    """Whether canonical bytes may leave the profile: a quick look, so that the walk is rarely paid for."""
    if b"\\" in data or not data.isascii():
        return True
    outside = b"".join(data.split(b'"')[::2])
    return outside.count(b"{") + outside.count(b"[") > MAX_DEPTH or _SUSPECT.search(outside) is not None


def _fault(value: Any, where: str = "$", depth: int = 0) -> str:
    """The first place where a value leaves the profile, in words; empty when there is none."""
    if depth > MAX_DEPTH:
        return f"{where}: nested deeper than {MAX_DEPTH} levels"
    kind = type(value)
    if value is None or kind is bool:
        return ""
    if kind is str:
        return "" if _encodable(value) else f"{where}: a lone surrogate is not text"
    if kind is int:
        return "" if -MAX_INT <= value <= MAX_INT else f"{where}: an integer beyond +-(2^53-1); write it as a string"
    if kind is float:
        return f"{where}: {value!r} is a float; write it as a decimal string"
    if kind is list or kind is tuple:
        faults = (_fault(item, f"{where}[{index}]", depth + 1) for index, item in enumerate(value))
        return next((fault for fault in faults if fault), "")
    if kind is dict:
        for key, item in value.items():
            if type(key) is not str or not key.isascii():
                return f"{where}: the key {key!r} is not an ASCII string"
            fault = _fault(item, f"{where}.{key}", depth + 1)
            if fault:
                return fault
        return ""
    return f"{where}: a {kind.__name__} has no canonical form"


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
