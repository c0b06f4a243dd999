"""JSON lines: one object a line. NaN and Infinity are read, as Python and most loggers write them."""

from __future__ import annotations

import json
from typing import Any

from ledger.errors import UsageProblem
from recompute.importers.base import Raw, lines_of


class JsonLines:
    """The importer; a key that a line lacks is no value."""

    format = "jsonl"
    suffixes = (".jsonl", ".ndjson")

    def read(self, data: bytes, name: str) -> Raw:
        rows: list[dict[str, Any]] = []
        # Not splitlines: U+2028 may stand within a JSON text.
        for number, line in enumerate(lines_of(data, name).replace("\r\n", "\n").split("\n")[:-1], 1):
            try:
                row = json.loads(line, object_pairs_hook=_object)
            except (ValueError, RecursionError) as wrong:
                raise UsageProblem(f"{name}:{number}: no JSON", found=str(wrong), cause="it was cut short") from None
            if not isinstance(row, dict):
                raise UsageProblem(f"{name}:{number}: no JSON object", found=line[:40])
            rows.append(row)
        columns = {key: [row.get(key) for row in rows] for key in dict.fromkeys(key for row in rows for key in row)}
        return Raw(name, columns, range(1, len(rows) + 1), typed=True)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key that is there twice")
    return found
