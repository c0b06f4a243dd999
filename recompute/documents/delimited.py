"""delimited: one table of comma or tab separated values, the names of its columns in the first line."""

from __future__ import annotations

import csv
import io
import re
from pathlib import PurePath

from recompute.documents.base import Document, Reader
from recompute.documents.draft import Draft, blanked

_QUOTED = re.compile(r'"(?:[^"]|"")*"')
_DELIMITERS = {".csv": ",", ".tsv": "\t"}
Place = tuple[str, int, int]  # a cell: what it says, and where


class Delimited(Reader):
    """The table is called after its file. A row with more or fewer cells than the header refuses it."""

    suffixes = tuple(_DELIMITERS)
    writable = False

    def read(self, file: str, source: str) -> Document:
        draft = Draft(file, source)
        nothing = blanked(source, [(0, len(source))])
        delimiter = _DELIMITERS.get(PurePath(file).suffix.lower(), ",")
        try:
            rows = _rows(source, delimiter)
        except csv.Error as bad:
            draft.refuse(
                "ragged-table", 0, f"no table; likely cause: a quote that is not closed or not doubled ({bad})"
            )
            return draft.done(nothing, nothing)
        header = [" ".join(text.split()) for text, _, _ in rows[0]] if rows else []
        for row in rows:
            if len(row) != len(header):
                draft.refuse(
                    "ragged-table",
                    row[0][1],
                    "a row has another number of cells than the header; likely cause: a thousands comma without quotes",
                    expected=str(len(header)),
                    found=f"{len(row)}: {source[row[0][1] : row[-1][2]][:120]}",
                )
                return draft.done(nothing, nothing)
        body = [
            [
                draft.cell(start, end, column, text=text.strip())
                for (text, start, end), column in zip(row, header, strict=True)
            ]
            for row in rows[1:]
        ]
        if header:
            draft.table(PurePath(file).stem, 0, header, body)
        return draft.done(nothing, nothing)


def _rows(source: str, delimiter: str) -> list[list[Place]]:
    """Every row that is not empty, its cells with their places, without their quotes."""
    rows: list[list[Place]] = []
    at = 1 if source.startswith("\ufeff") else 0
    for texts in csv.reader(io.StringIO(source[at:], newline=""), delimiter=delimiter, strict=True):
        row: list[Place] = []
        while at < len(source) and source[at] in "\r\n":
            at += 1
        for text in texts:
            quoted = _QUOTED.match(source, at)
            end = quoted.end() if quoted else at + len(text)
            row.append((text, at + 1, end - 1) if quoted else (text, at, end))
            at = end + 1
        if row:
            at -= 1
            rows.append(row)
    return rows
