"""Their columns -> ours, as [[data]] of reported.toml says; what does not fit is refused with its line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import pyarrow as pa

from ledger.errors import UsageProblem
from recompute.importers.base import Raw
from recompute.importers.cells import detail, id_kind, name, number, status, whole
from recompute.reported import Data
from runs.crosscheck import nearest
from runs.record import SCHEMA

SHOWN = 5
DETAIL = "detail."  # detail.NAME as a column of ours: a field of the detail

_READERS: dict[str, Callable[[Raw, Sequence[Any]], list[Any]]] = {
    "arm": name,
    "task": name,
    "stratum": name,
    "length": whole,
    "sample_id": name,
    "repeat": whole,
    "metric": name,
    "value": number,
    "status": status,
    "n_tokens": whole,
}
OURS = (*_READERS, "detail")
_DEFAULTS: dict[str, str | int] = {
    "stratum": "",
    "length": 0,
    "repeat": 0,
    "status": "ok",
    "n_tokens": 0,
    "detail": "{}",
}
_KEY = ("arm", "task", "sample_id", "repeat", "metric")


@dataclass(frozen=True)
class Mapped:
    """rows: in the columns of `runs.record.SCHEMA`, of no run; kind: of their ids, as `cells.id_kind` tells it."""

    rows: pa.Table
    kind: str


def mapped(raw: Raw, told: Data) -> Mapped:
    """The rows that `told.where` chooses. Raises UsageProblem for names, values and ids that cannot be meant."""
    _hold_names(raw, told)
    chosen = _chosen(raw, told)
    columns: dict[str, list[Any]] = {"run_id": [""] * len(chosen.places)}
    for ours, read in _READERS.items():
        columns[ours] = read(chosen, _column(chosen, told, ours))
    fields = {
        ours.removeprefix(DETAIL): chosen.columns[theirs]
        for ours, theirs in told.columns.items()
        if ours.startswith(DETAIL)
    }
    columns["detail"] = detail(chosen, _column(chosen, told, "detail"), fields)
    kind = id_kind(chosen, _column(chosen, told, "sample_id"))
    _hold_once(chosen, told, columns)
    try:
        rows = pa.table({column.name: pa.array(columns[column.name], column.type) for column in SCHEMA})
    except UnicodeEncodeError as wrong:
        raise UsageProblem(f"{raw.name}: not Unicode text", found=repr(wrong.object)[:40]) from None
    return Mapped(rows, kind)


def _column(raw: Raw, told: Data, ours: str) -> Sequence[Any]:
    """The values of one of our columns: mapped, constant, of the same name, or what it is where nothing is said."""
    if ours in told.constants:
        return [told.constants[ours]] * len(raw.places)
    theirs = told.columns.get(ours, ours)
    if theirs in raw.columns:
        column = raw.columns[theirs]
        return [_DEFAULTS[ours] if cell is None else cell for cell in column] if ours in _DEFAULTS else column
    if ours in _DEFAULTS:
        return [_DEFAULTS[ours]] * len(raw.places)
    raise UsageProblem(
        f"{raw.name} has no column {ours!r}",
        expected=f"one named so, or one of {', '.join(raw.columns)} in `columns`, or a text in `constants`",
        hint=f'columns = {{ {ours} = "THEIRS" }} or constants = {{ {ours} = "..." }} in its [[data]]',
    )


def _hold_names(raw: Raw, told: Data) -> None:
    for ours in (*told.columns, *told.constants):
        if ours not in OURS and not (ours.startswith(DETAIL) and ours in told.columns):
            raise UsageProblem(f"{raw.name}: no column of ours is called {ours!r}{nearest(ours, set(OURS))}")
    both = told.columns.keys() & told.constants.keys()
    if both:
        raise UsageProblem(f"{raw.name}: in `columns` and in `constants`", found=", ".join(sorted(both)))
    for theirs in (*told.columns.values(), *told.where):
        if theirs not in raw.columns:
            raise raw.lacks(theirs, hint="columns = { OURS = THEIRS } in its [[data]], of data.toml or reported.toml")


def _chosen(raw: Raw, told: Data) -> Raw:
    """The rows whose columns are as `where` says."""
    keep = list(range(len(raw.places)))
    for theirs, wanted in told.where.items():
        column = raw.columns[theirs]
        # A format of texts cannot tell 1 from "1"; one that can is taken at its word.
        text = orjson.dumps(wanted).decode() if not raw.typed and not isinstance(wanted, str) else wanted
        keep = [row for row in keep if type(column[row]) is type(text) and column[row] == text]
        if not keep:
            found = list(dict.fromkeys(str(value) for value in column))
            told_of = ", ".join(found[:SHOWN]) + (f" and {len(found) - SHOWN} more" if found[SHOWN:] else "")
            raise UsageProblem(f"{raw.name}: no row where {theirs} = {wanted!r}", found=told_of)
    if not keep:
        raise UsageProblem(f"{raw.name} has no rows")
    columns = {theirs: [column[row] for row in keep] for theirs, column in raw.columns.items()}
    return Raw(raw.name, columns, [raw.places[row] for row in keep], raw.typed)


def _hold_once(raw: Raw, told: Data, columns: dict[str, list[Any]]) -> None:
    """Refuse a sample that is there twice, and say which of their columns tells the two apart."""
    rows: dict[tuple[Any, ...], list[int]] = {}
    for row, key in enumerate(zip(*(columns[ours] for ours in _KEY), strict=True)):
        rows.setdefault(key, []).append(row)
    twice = [(key, found) for key, found in rows.items() if len(found) > 1]
    if not twice:
        return
    samples = list(dict.fromkeys(str(key[2]) for key, _ in twice))
    group = twice[0][1]
    free = [theirs for theirs in raw.columns if theirs not in told.columns.values() and theirs not in OURS]
    telling = {theirs: list(dict.fromkeys(str(raw.columns[theirs][row]) for row in group)) for theirs in free}
    apart = next((theirs for theirs, values in telling.items() if len(values) == len(group)), "")
    raise UsageProblem(
        f"{raw.name}: a sample is there more than once, {len(samples)} in all",
        found=", ".join(samples[:SHOWN]) + (f" and {len(samples) - SHOWN} more" if samples[SHOWN:] else ""),
        cause=f"one row for each {apart}: {', '.join(telling[apart])}" if apart else "repeats of one sample",
        hint=f'where = {{ {apart} = "{telling[apart][0]}" }}' if apart else "map a column to repeat",
    )
