"""Cells of a file from outside -> values of one column. A value that only looks like one is refused."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any, get_args

import orjson

from recompute.importers.base import Raw
from runs.record import Status

# Not Python's: it reads 1_592, and digits of any script.
_NUMBER = re.compile(r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|nan|inf|infinity)", re.IGNORECASE)
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
_STATUS = (*get_args(Status), "skipped")


def name(raw: Raw, column: Sequence[Any]) -> list[str]:
    """Texts as they are, whole numbers as their digits."""
    return [_name(raw, row, cell) for row, cell in enumerate(column)]


def id_kind(raw: Raw, column: Sequence[Any]) -> str:
    """Whether ids are "text" or "number"; "" where the format does not tell. Refuses a mixture, and a missing id."""
    kinds: dict[type, int] = {}
    for row, cell in enumerate(column):
        if cell == "":
            raise raw.refuse(row, "a sample without an id")
        kinds.setdefault(type(cell), row)
    if len(kinds) > 1:
        (one, first), (other, second), *_ = kinds.items()
        found = f"{column[first]!r} ({one.__name__}) and {column[second]!r} ({other.__name__})"
        raise raw.refuse(second, "ids of two types", expected="all text or all whole numbers", found=found)
    return "" if not raw.typed else "number" if int in kinds else "text"


def whole(raw: Raw, column: Sequence[Any]) -> list[int]:
    """Whole numbers of at most 18 digits."""
    found = []
    for row, cell in enumerate(column):
        if isinstance(cell, str) and not raw.typed and _WHOLE.fullmatch(cell):
            found.append(int(cell))
        elif isinstance(cell, int) and not isinstance(cell, bool) and abs(cell) < 10**18:
            found.append(cell)
        else:
            raise raw.refuse(row, "no whole number", found=repr(cell))
    return found


def number(raw: Raw, column: Sequence[Any]) -> list[float | None]:
    """Numbers, NaN and infinities among them; true and false are 1 and 0 where nothing else is there."""
    flags = {type(cell) for cell in column if cell is not None} == {bool}
    return [_number(raw, row, cell, flags) for row, cell in enumerate(column)]


def status(raw: Raw, column: Sequence[Any]) -> list[str]:
    """ok, error or skipped."""
    for row, cell in enumerate(column):
        if cell not in _STATUS:
            raise raw.refuse(row, "no status", expected=", ".join(_STATUS), found=repr(cell))
    return list(column)


def detail(raw: Raw, column: Sequence[Any], fields: Mapping[str, Sequence[Any]]) -> list[str]:
    """JSON objects, as such or as text, and the fields that are columns by themselves, as one JSON text a row."""
    found = []
    for row, cell in enumerate(column):
        try:
            plain = orjson.loads(cell) if isinstance(cell, str) else cell
            told = {**plain, **{field: values[row] for field, values in fields.items()}}
            found.append(orjson.dumps(told, option=orjson.OPT_SORT_KEYS).decode())
        except (TypeError, ValueError):
            raise raw.refuse(row, "no JSON object in the detail", found=repr(cell)[:40]) from None
    return found


def _name(raw: Raw, row: int, cell: Any) -> str:
    if isinstance(cell, bool) or not isinstance(cell, str | int):
        raise raw.refuse(row, "no name", expected="text or a whole number", found=repr(cell))
    return str(cell)


def _number(raw: Raw, row: int, cell: Any, flags: bool) -> float | None:
    if cell is None:
        return None
    if isinstance(cell, str) and not raw.typed and _NUMBER.fullmatch(cell):
        return float(cell)
    if isinstance(cell, int | float | Decimal) and isinstance(cell, bool) is flags:
        with suppress(OverflowError):
            return float(cell)
    raise raw.refuse(row, "a value that is no number", found=repr(cell))
