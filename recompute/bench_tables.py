"""How long samples take to load and pair: what `ridgefill bench recompute` times besides resampling."""

from __future__ import annotations

import io
import time
from hashlib import sha256
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from recompute.query import query
from recompute.selection import select
from recompute.sources import Source, Sources
from recompute.spec import Spec
from recompute.tables import load
from runs.record import SCHEMA

ARMS = ("filled", "exact")


def sealed(rows: int, tasks: int) -> bytes:
    """samples.parquet as a run seals it: two arms, so many tasks, one metric, so many rows in all."""
    each = rows // (len(ARMS) * tasks)
    arm, task, sample = (axis.ravel() for axis in np.indices((len(ARMS), tasks, each), dtype=np.int32))
    n = len(arm)
    columns = {
        "run_id": _named(np.zeros(n, np.int32), ["0123456789abcdef"]),
        "arm": _named(arm, ARMS),
        "task": _named(task, [f"task-{number:04}" for number in range(tasks)]),
        "stratum": _named(sample % 13, [f"stratum-{number}" for number in range(13)]),
        "length": pa.array(np.full(n, 4096)),
        "sample_id": _named(sample, [f"0/document-{number:06}" for number in range(each)]),
        "repeat": pa.array(np.zeros(n, np.int64)),
        "metric": _named(np.zeros(n, np.int32), ["loss"]),
        "value": pa.array(np.random.default_rng(0).random(n)),
        "status": _named(np.zeros(n, np.int32), ["ok"]),
        "n_tokens": pa.array(np.full(n, 256)),
        "detail": _named(np.zeros(n, np.int32), ["{}"]),
    }
    out = io.BytesIO()
    pq.write_table(pa.table(columns, schema=SCHEMA), out, compression="zstd")
    return out.getvalue()


def _named(codes: np.ndarray[tuple[int], np.dtype[np.int32]], names: list[str] | tuple[str, ...]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(names, pa.string())).cast(pa.string())


def load_and_pair(file: Path, data: bytes) -> dict[str, float]:
    """Seconds to load a sealed file, whose bytes must lie in `file`, and to pair its arms; and what came out."""
    name = file.name
    source = Source(name, file, sha256(data).hexdigest(), "0123456789abcdef", ARMS)
    spec = Spec(statistic="paired_difference", metric="loss", arm=ARMS[0], baseline=ARMS[1], strata="task")
    began = time.perf_counter()
    tables = load(Sources(file.parent, (source,)))
    loaded = time.perf_counter()
    selection = select(tables.fetch(query(spec)), spec)
    return {
        "load_seconds": loaded - began,
        "pair_seconds": time.perf_counter() - loaded,
        "pairs": len(selection.items),
    }
