"""A table of files and their sha256, from outside: what of it is at hand is hashed anew; of the rest nobody can say."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ledger.errors import Problem
from ledger.findings import Finding, error, note
from provenance.manifest import check_name, unescape
from provenance.measure import REFUSALS, hash_located, refused
from provenance.sources import Located, locate
from recompute.reported import Files, Reported

if TYPE_CHECKING:
    from recompute.importers.base import Raw

SHOWN = 5
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class _Row:
    path: str
    sha256: str
    source: str


def check_files(reported: Reported, folder: Path) -> Iterator[Finding]:
    """For every [[files]]: an error for each file that differs (5), one for all that are not here (6), how many hold.

    A file lies beside the table under its path, or where its source says. Raises UsageProblem for a table that cannot
    be read as one.
    """
    for told in reported.listed:
        from recompute.importers import importer_of  # only now: a check without samples pays for no pyarrow

        table = folder / told.file
        try:
            data = table.read_bytes()
        except OSError as missing:
            hint = "name it in [[files]]"
            yield error("files-missing", told.file, f"cannot be read: {missing.strerror}", exit_code=6, hint=hint)
            continue
        rows = _rows(importer_of(told.file, told.format).read(data, told.file), told)
        yield from _checked(rows, told.file, table.parent)


def _checked(rows: list[_Row], table: str, base: Path) -> Iterator[Finding]:
    absent: list[str] = []
    held = 0
    for row in rows:
        where = f"{table}: {row.path}"
        located = _located(row, base)
        if located is None:
            absent.append(row.path)
            continue
        try:
            found = hash_located(located).sha256
        except REFUSALS as problem:
            yield refused(where, problem)
            continue
        held += found == row.sha256
        if found != row.sha256:
            yield error("differs", where, "differs", exit_code=5, expected=row.sha256, found=found)
    if absent or not rows:
        named = ", ".join(absent[:SHOWN]) + (f" and {len(absent) - SHOWN} more" if absent[SHOWN:] else "")
        told = f"{len(absent)} of its {len(rows)} files could not be checked, they are not here: {named}"
        yield error("files-absent", table, told if rows else "it names no file", exit_code=6)
    yield note("files", table, f"{held} of its {len(rows)} files have the sha256 that it states")


def _located(row: _Row, base: Path) -> Located | None:
    own = base / os.fsdecode(unescape(row.path))
    if os.path.lexists(own):
        return Located(Path(os.path.realpath(own)))
    try:
        return locate(row.source, base)
    except Problem:
        return None


def _rows(raw: Raw, told: Files) -> list[_Row]:
    path, sha256 = (_column(raw, told.columns.get(ours, ours)) for ours in ("path", "sha256"))
    given = told.columns.get("source", "")
    source = _column(raw, given) if given else raw.columns.get("source", [""] * len(raw.places))
    rows: dict[str, _Row] = {}
    for at, (name, digest, where) in enumerate(zip(path, sha256, source, strict=True)):
        try:
            check_name(unescape(str(name or "")))
        except ValueError as wrong:
            raise raw.refuse(at, "no name of a file in its folder", found=str(wrong)) from None
        if not _SHA256.fullmatch(str(digest).lower()):
            raise raw.refuse(at, "no sha256", expected="64 hex digits", found=repr(digest)[:80])
        if name in rows:
            raise raw.refuse(at, "a file that is there twice", found=str(name))
        rows[str(name)] = _Row(str(name), str(digest).lower(), str(where or ""))
    return list(rows.values())


def _column(raw: Raw, theirs: str) -> list[object]:
    if theirs not in raw.columns:
        raise raw.lacks(theirs, hint='columns = { path = "...", sha256 = "..." } in its [[files]]')
    return list(raw.columns[theirs])
