"""Estimates kept between commands, one file for a study. Losing or damaging it costs time, never truth."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson

from ledger.errors import EnvironmentProblem
from ledger.files import write_whole
from recompute.estimate import Estimate

FORMAT = 1


@dataclass(frozen=True)
class Computed:
    """What a spec came to: as in `Valued`, but the estimate in the unit of the metric."""

    estimate: Estimate | None = None
    refused: str = ""
    unread: bool = False
    rows: int = 0
    dropped: Mapping[str, int] = field(default_factory=dict)
    runs: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    key: str = ""


def cache_file(folder: Path) -> Path:
    """Where a study's values are kept: the user's cache folder, under a digest of where the study lies."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    name = sha256(os.fsencode(folder.resolve())).hexdigest()[:32]
    return Path(root) / "ridgefill" / "values" / f"{name}.json"


def read_cache(file: Path, digest: str) -> dict[str, Computed]:
    """What was kept under this digest of data and code; nothing when the file is absent, of others, or damaged."""
    try:
        head, _, body = file.read_bytes().partition(b"\n")
    except OSError:
        return {}
    if head != _head(body, digest):
        return {}
    return {address: _unpacked(plain) for address, plain in orjson.loads(body).items()}


def write_cache(file: Path, digest: str, kept: Mapping[str, Computed]) -> None:
    """Write the file whole and rename it; a folder that cannot be written is no failure."""
    body = orjson.dumps({address: _packed(one) for address, one in kept.items()})
    # A folder that is a file is no reason to fail either.
    with suppress(EnvironmentProblem, OSError):
        write_whole(file, _head(body, digest) + b"\n" + body)


def _head(body: bytes, digest: str) -> bytes:
    """What the first line must be: without the body's digest a flipped bit would be a number."""
    return f"ridgefill values {FORMAT} {digest} {sha256(body).hexdigest()}".encode()


def _packed(kept: Computed) -> dict[str, Any]:
    """Plain JSON, every number exact: rationals as text, floats as Python spells them (JSON has no infinity)."""
    plain = asdict(kept)
    told = kept.estimate
    if told is not None:
        plain["estimate"]["value"] = _spelled(told.value)
        plain["estimate"]["ends"] = told.ends and [_spelled(end) for end in told.ends]
        plain["estimate"]["reach"] = told.reach and [ends and [*map(_spelled, ends)] for ends in told.reach]
        plain["estimate"]["error"] = told.error and [None if one is None else repr(one) for one in told.error]
    return plain


def _unpacked(plain: dict[str, Any]) -> Computed:
    told = plain["estimate"]
    if told is not None:
        ends, error = told["ends"], told["error"]
        told["value"] = _read(told["value"])
        told["ends"] = ends and (_read(ends[0]), _read(ends[1]))
        told["error"] = error and tuple(None if one is None else float(one) for one in error)
        told["reach"] = told["reach"] and tuple(ends and tuple(map(_read, ends)) for ends in told["reach"])
        told["flags"] = tuple(told["flags"])
        plain["estimate"] = Estimate(**told)
    plain["runs"] = tuple(plain["runs"])
    return Computed(**plain)


def _spelled(number: Fraction | None) -> str | None:
    return None if number is None else f"{number.numerator}/{number.denominator}"


def _read(text: str | None) -> Fraction | None:
    if text is None:
        return None
    above, _, below = text.partition("/")
    return Fraction(int(above), int(below))
