"""Parquet."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from ledger.errors import UsageProblem
from recompute.importers.base import Raw


class Parquet:
    """The importer."""

    format = "parquet"
    suffixes = (".parquet",)

    def read(self, data: bytes, name: str) -> Raw:
        try:
            # Not read_table: threads of its scan can abort the process at exit (apache/arrow#39862).
            table = pq.ParquetFile(pa.BufferReader(data)).read(use_threads=False)
        except (pa.ArrowException, OSError) as wrong:
            found = str(wrong).split("\n")[0]
            raise UsageProblem(f"{name} is no Parquet file", found=found, cause="it was cut short") from None
        return Raw(name, table.to_pydict(), range(1, len(table) + 1), typed=True)
