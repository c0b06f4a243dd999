"""Comma-separated values: a header, then rows of as many fields. RFC 4180, UTF-8, every value a text."""

from __future__ import annotations

import csv
import io

from ledger.errors import UsageProblem
from recompute.importers.base import Raw, lines_of


class Csv:
    """The importer; an empty field is no value."""

    format = "csv"
    suffixes: tuple[str, ...] = (".csv",)
    delimiter = ","

    def read(self, data: bytes, name: str) -> Raw:
        reader = csv.reader(io.StringIO(lines_of(data, name), newline=""), delimiter=self.delimiter, strict=True)
        rows: list[list[str]] = []
        places: list[int] = []
        try:
            header = next(reader, [])
            for row in reader:
                if len(row) != len(header):
                    raise UsageProblem(
                        f"{name}:{reader.line_num}: a row is not as long as the header",
                        expected=f"{len(header)} fields",
                        found=str(len(row)),
                    )
                rows.append(row)
                places.append(reader.line_num)
        except csv.Error as wrong:
            raise UsageProblem(f"{name}:{reader.line_num}: {wrong}", cause="a quote that is not closed") from None
        if len(set(header)) < len(header):
            raise UsageProblem(f"{name}: two columns have one name", found=", ".join(header))
        columns = zip(*rows, strict=True) if rows else [()] * len(header)
        named = {key: [text or None for text in column] for key, column in zip(header, columns, strict=True)}
        return Raw(name, named, places, typed=False)
