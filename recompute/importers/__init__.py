"""Files of samples from outside the ledger, one format a file; `mapping` makes our columns of theirs.

A table's suffix tells its format; a tool's own log is named by `format`, for .jsonl or .eval may be anything.

To add a format: write `importers/NAME_file.py` with a class that is an `Importer`, and a line for it below.
"""

from __future__ import annotations

from pathlib import PurePath

from ledger.errors import UsageProblem
from recompute.importers.base import Importer
from recompute.importers.csv_file import Csv
from recompute.importers.inspect_log import InspectLog
from recompute.importers.jsonl_file import JsonLines
from recompute.importers.lm_eval import LmEval
from recompute.importers.mapping import Mapped, mapped
from recompute.importers.parquet_file import Parquet
from recompute.importers.tsv_file import Tsv
from recompute.reported import Data

__all__ = ["IMPORTERS", "SUFFIXES", "Mapped", "importer_of", "read_data"]

IMPORTERS: tuple[Importer, ...] = (Csv(), Tsv(), JsonLines(), Parquet(), LmEval(), InspectLog())
SUFFIXES = tuple(suffix for importer in IMPORTERS for suffix in importer.suffixes)


def read_data(data: bytes, told: Data) -> Mapped:
    """The rows of a file in the columns of `runs.record.SCHEMA`. Raises UsageProblem; then no row of it is used."""
    return mapped(importer_of(told.file, told.format).read(data, told.file), told)


def importer_of(file: str, format_: str = "") -> Importer:
    """The importer of a format, or where none is said of a file's suffix. Raises UsageProblem when there is none."""
    suffix = PurePath(file).suffix.lower()
    for importer in IMPORTERS:
        if format_ == importer.format or (not format_ and suffix in importer.suffixes):
            return importer
    known = [importer.format for importer in IMPORTERS] if format_ else SUFFIXES
    found = format_ or suffix or "no suffix"
    raise UsageProblem(f"{file}: no such format is known", expected=", ".join(known), found=found)
