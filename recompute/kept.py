"""values.json, beside reported.toml: what the texts were last written from, so that a stale number is told as such."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import orjson

from ledger.errors import UsageProblem
from ledger.files import write_whole
from recompute.slots import slot_of
from recompute.valued import Valued

VALUES_FILE = "values.json"
_SLOTS = ("value", "low", "high", "n")


@dataclass(frozen=True)
class Kept:
    """One value as it was written: its slots, and the key of the data and code it came from."""

    slots: Mapping[str, Fraction | None]
    key: str


def read_kept(folder: Path) -> dict[str, Kept]:
    """What the folder's texts were last written from; nothing when they never were.

    Raises UsageProblem when the file is no values.json.
    """
    try:
        told = orjson.loads((folder / VALUES_FILE).read_bytes())
        return {name: _kept(value) for name, value in told.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, AttributeError, KeyError, ZeroDivisionError) as wrong:
        raise UsageProblem(
            f"{VALUES_FILE} cannot be read: {wrong}",
            cause="it was edited, or its writing was cut short",
            hint="delete it; ridgefill recompute --write makes it again",
        ) from None


def write_kept(folder: Path, values: Mapping[str, Valued]) -> None:
    """Keep every value that there is."""
    told = {
        name: {
            "key": value.key,
            **{slot: None if (at := slot_of(value.estimate, slot)) is None else str(at) for slot in _SLOTS},
        }
        for name, value in sorted(values.items())
        if value.estimate is not None
    }
    write_whole(folder / VALUES_FILE, orjson.dumps(told, option=orjson.OPT_INDENT_2) + b"\n")


def _kept(value: dict[str, Any]) -> Kept:
    slots = {slot: None if value[slot] is None else Fraction(value[slot]) for slot in _SLOTS}
    return Kept(slots, str(value["key"]))
