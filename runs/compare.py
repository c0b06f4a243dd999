"""Two runs side by side: pins, machine, and each metric sample by sample: identical, close or different."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ledger.errors import CannotCheck, Differs
from runs.history import Run
from runs.home import RECORDS, SAMPLES

# Relative to the larger of 1 and the value: what another order of summation does to single-precision losses.
CLOSE = 1e-4

Place = tuple[str, str, str, str, int]  # task, arm, metric, sample id, repeat


@dataclass(frozen=True)
class MetricDiff:
    """One metric of one arm in two runs.

    both: samples that both have; identical: of those, equal bit for bit and in status; largest: the largest
    absolute difference; only_a, only_b: samples that one side lacks.
    """

    name: str
    both: int
    identical: int
    largest: float
    only_a: int
    only_b: int
    verdict: str

    def line(self) -> str:
        """The comparison as one line."""
        lone = f", {self.only_a} only in A, {self.only_b} only in B" if self.only_a or self.only_b else ""
        gap = f", largest difference {self.largest:.3g}" if self.largest else ""
        return f"{self.verdict:<9} {self.name}: {self.identical} of {self.both} bit for bit{gap}{lone}"


def read_samples(folder: Path, run: Run) -> dict[Place, tuple[str, float | None]]:
    """(task, arm, metric, sample, repeat) -> (status, value) of a sealed run, its digest checked.

    Raises CannotCheck when there is no such file, Differs when it is not the one that was sealed.
    """
    if run.finish is None or run.finish.samples is None:
        raise CannotCheck(f"run {run.id} is not sealed", hint=f"ridgefill run resume {run.id}")
    name = f"{RECORDS}/{run.id}/{SAMPLES}"
    try:
        data = (folder / name).read_bytes()
    except OSError as missing:
        raise CannotCheck(f"{name} cannot be read: {missing.strerror}", hint="ridgefill audit files") from None
    found = sha256(data).hexdigest()
    if found != run.finish.samples.sha256:
        raise Differs(
            f"{name} is not the sealed file",
            expected=run.finish.samples.sha256,
            found=found,
            hint="ridgefill audit files",
        )
    # Not read_table: threads of its scan can abort the process at exit (apache/arrow#39862).
    rows = pq.ParquetFile(pa.BufferReader(data)).read(use_threads=False).to_pylist()
    return {
        (row["task"], row["arm"], row["metric"], row["sample_id"], row["repeat"]): (row["status"], row["value"])
        for row in rows
    }


def compare_metrics(
    a: Mapping[Place, tuple[str, float | None]], b: Mapping[Place, tuple[str, float | None]]
) -> list[MetricDiff]:
    """One comparison for each task, arm and metric, in order of names."""
    names = sorted({place[:3] for place in (*a, *b)})
    found = []
    for name in names:
        mine = {place for place in a if place[:3] == name}
        theirs = {place for place in b if place[:3] == name}
        both = mine & theirs
        identical = sum(_bits(a[place]) == _bits(b[place]) for place in both)
        gaps = [_gap(a[place], b[place]) for place in both]
        only = len(mine - theirs), len(theirs - mine)
        if identical == len(both) and not any(only):
            verdict = "identical"
        elif not any(only) and all(_is_close(a[place], b[place]) for place in both):
            verdict = "close"
        else:
            verdict = "different"
        found.append(MetricDiff("/".join(name), len(both), identical, max(gaps, default=0.0), *only, verdict))
    return found


def compare_pins(a: Run, b: Run) -> list[str]:
    """What the runs used that is not the same, one line each."""
    mine, theirs = ({pin.label: pin.digest for pin in run.pins} for run in (a, b))
    return [
        f"{label}: {mine.get(label, 'nothing')[:16]} | {theirs.get(label, 'nothing')[:16]}"
        for label in sorted(mine.keys() | theirs.keys())
        if mine.get(label) != theirs.get(label)
    ]


def compare_machines(a: Run, b: Run) -> list[str]:
    """What their machines say of themselves that is not the same, one line each."""
    mine, theirs = (dict(_flat("", run.start.detail.get("machine"))) for run in (a, b))
    return [
        f"{key}: {mine.get(key, 'nothing')} | {theirs.get(key, 'nothing')}"
        for key in sorted(mine.keys() | theirs.keys())
        if mine.get(key) != theirs.get(key)
    ]


def _flat(prefix: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _flat(f"{prefix}.{key}" if prefix else key, item)
    else:
        yield prefix, str(value)


def _bits(cell: tuple[str, float | None]) -> tuple[str, bytes]:
    status, value = cell
    return status, b"" if value is None else struct.pack("<d", value)


def _gap(a: tuple[str, float | None], b: tuple[str, float | None]) -> float:
    if a[1] is None or b[1] is None:
        return 0.0 if a == b else math.inf
    if _bits(a) == _bits(b):
        return 0.0
    gap = abs(a[1] - b[1])
    return math.inf if math.isnan(gap) else gap


def _is_close(a: tuple[str, float | None], b: tuple[str, float | None]) -> bool:
    gap = _gap(a, b)
    return a[0] == b[0] and math.isfinite(gap) and gap <= CLOSE * max(1.0, abs(a[1] or 0.0))
