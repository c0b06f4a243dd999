"""external.tsv: every outside file with its length, sha256, source, revision and licence.

Tab-separated with a header row, sorted by path, LF, UTF-8. Names are escaped as in a manifest, so a tab or
a newline in one cannot break a row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import astuple, dataclass, fields
from functools import partial
from pathlib import Path

from ledger.errors import UsageProblem
from ledger.files import write_whole
from ledger.findings import Finding, error
from provenance.hashing import Hashed
from provenance.manifest import check_name, escape, unescape
from provenance.measure import REFUSALS, hash_located, refused
from provenance.sources import locate

FILE = "external.tsv"


@dataclass(frozen=True, slots=True)
class Row:
    """One outside file. `path` is what the study calls it, escaped; `bytes` its length."""

    path: str
    bytes: int
    sha256: str
    source: str
    revision: str
    licence: str
    note: str


HEADER = tuple(field.name for field in fields(Row))


def dump(rows: Iterable[Row]) -> str:
    """The table as text. Raises UsageProblem for a row that would not read back as itself."""
    ordered = sorted(rows, key=lambda row: unescape(row.path))
    text = "".join("\t".join(map(str, cells)) + "\n" for cells in [HEADER, *map(astuple, ordered)])
    if load(text.encode()) != ordered:
        raise UsageProblem(f"a cell of {FILE} holds a tab or a line break", hint="write it as text without them")
    return text


def write(rows: Iterable[Row], base: Path) -> None:
    """Write the study's table, all or nothing. Raises as `dump` does, and EnvironmentProblem."""
    write_whole(base / FILE, dump(rows).encode())


def load(data: bytes) -> list[Row]:
    """The rows of a table. Raises UsageProblem naming the line and what is wrong with it."""
    try:
        lines = data.decode("utf-8").split("\n")
    except UnicodeDecodeError as wrong:
        raise UsageProblem(f"{FILE} is not UTF-8: {wrong.reason} at byte {wrong.start}") from None
    if lines.pop() != "":
        raise _wrong(len(lines) + 1, "the last line has no line feed", "LF at its end", "none")
    if not lines or tuple(lines[0].split("\t")) != HEADER:
        raise _wrong(1, "the header is another one", " ".join(HEADER), lines[0] if lines else "nothing")
    rows: list[Row] = []
    for number, line in enumerate(lines[1:], start=2):
        row = _row(number, line)
        if rows and unescape(rows[-1].path) >= unescape(row.path):
            raise _wrong(number, "not sorted by path, or twice the same", f"a path after {rows[-1].path}", row.path)
        rows.append(row)
    return rows


def _row(number: int, line: str) -> Row:
    cells = line.split("\t")
    if "\r" in line:
        raise _wrong(number, "a carriage return", "LF line ends", "CR")
    if len(cells) != len(HEADER):
        raise _wrong(number, "a row of another width", f"{len(HEADER)} cells", str(len(cells)))
    path, length, sha256, source, revision, licence, note = cells
    try:
        check_name(unescape(path))
    except ValueError as wrong:
        raise _wrong(number, str(wrong), "a relative path", path) from None
    if not re.fullmatch(r"0|[1-9][0-9]{0,17}", length):
        raise _wrong(number, "the length is no number", "bytes", length)
    if not re.fullmatch(r"[0-9a-f]{64}", sha256):
        raise _wrong(number, "the digest is no sha256", "64 hex digits in lower case", sha256)
    return Row(path, int(length), sha256, source, revision, licence, note)


def row_for(path: bytes, source: str, base: Path, *, revision: str = "", licence: str, note: str = "") -> Row:
    """The row of a file that lies where `source` says. Raises as `locate` and `hash_located` do."""
    hashed = hash_located(locate(source, base))
    return Row(escape(path), hashed.size, hashed.sha256, source, revision, licence, note)


def checks(base: Path) -> Iterator[Callable[[], list[Finding]]]:
    """One check for each outside file of the study's table; one that fails for a table that cannot be read."""
    try:
        rows = load((base / FILE).read_bytes())
    except FileNotFoundError:
        return
    except UsageProblem as problem:
        bad = error("bad-table", FILE, problem.message, exit_code=2, expected=problem.expected, found=problem.found)
        yield lambda: [bad]
        return
    for row in rows:
        yield partial(check_row, row, base)


def check_row(row: Row, base: Path) -> list[Finding]:
    """Hash one outside file anew; empty when it is what its row says."""
    where = f"{FILE}: {row.path}"
    try:
        found = hash_located(locate(row.source, base))
    except REFUSALS as problem:
        return [refused(where, problem)]
    if found == Hashed(row.sha256, row.bytes):
        return []
    return [
        error(
            "differs",
            where,
            "differs",
            exit_code=5,
            expected=f"{row.sha256} of {row.bytes} bytes",
            found=f"{found.sha256} of {found.size} bytes",
        )
    ]


def _wrong(number: int, message: str, expected: str, found: str) -> UsageProblem:
    return UsageProblem(f"{FILE}, line {number}: {message}", expected=expected, found=found)
