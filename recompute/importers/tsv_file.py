"""Tab-separated values: as CSV, with tabs."""

from __future__ import annotations

from recompute.importers.csv_file import Csv


class Tsv(Csv):
    """The importer."""

    format = "tsv"
    suffixes = (".tsv",)
    delimiter = "\t"
