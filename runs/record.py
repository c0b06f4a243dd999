"""What a run leaves: one outcome for each sample and arm, one row for each of its metrics, one record of the run."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict, JsonValue

from provenance.pins import Pin

Status = Literal["ok", "error"]

SCHEMA = pa.schema(
    [
        pa.field("run_id", pa.string(), nullable=False),
        pa.field("arm", pa.string(), nullable=False),
        pa.field("task", pa.string(), nullable=False),
        pa.field("stratum", pa.string(), nullable=False),
        pa.field("length", pa.int64(), nullable=False),
        pa.field("sample_id", pa.string(), nullable=False),
        pa.field("repeat", pa.int64(), nullable=False),
        pa.field("metric", pa.string(), nullable=False),
        pa.field("value", pa.float64()),
        pa.field("status", pa.string(), nullable=False),
        pa.field("n_tokens", pa.int64(), nullable=False),
        pa.field("detail", pa.string(), nullable=False),
    ]
)


class Key(NamedTuple):
    """Which answer: sorted by this, records are the same whoever computed them in whatever order."""

    arm: str
    task: str
    sample_id: str
    repeat: int


@dataclass(frozen=True)
class Outcome:
    """One sample answered by one arm, or the error it ended in.

    length: tokens of the prompt; n_tokens: tokens scored or generated; values: metric -> value, None where it
    has no meaning; error: why there are no values; seconds: wall time, kept in the journal only.
    """

    key: Key
    stratum: str
    length: int
    n_tokens: int
    values: Mapping[str, float | None]
    error: str = ""
    seconds: float = 0.0
    detail: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain values; JSON has no NaN and no infinity, so those are text."""
        values = {name: _spelled(value) for name, value in self.values.items()}
        return {**asdict(self), "key": list(self.key), "values": values}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Outcome:
        """The inverse of to_json; KeyError, TypeError or ValueError when it is none."""
        values = {name: None if value is None else float(value) for name, value in plain["values"].items()}
        return cls(**{**plain, "key": Key(*plain["key"]), "values": values})

    def rows(self, run: str, metrics: Iterable[str], *, exploratory: bool) -> Iterator[dict[str, Any]]:
        """One row a metric, in the columns of SCHEMA. A failed sample has every metric too, without a value."""
        detail = {**self.detail, **({"error": self.error} if self.error else {})}
        if exploratory:
            detail["exploratory"] = True
        for metric in metrics:
            value = self.values.get(metric)
            yield {
                "run_id": run,
                "arm": self.key.arm,
                "task": self.key.task,
                "stratum": self.stratum,
                "length": self.length,
                "sample_id": self.key.sample_id,
                "repeat": self.key.repeat,
                "metric": metric,
                "value": value,
                "status": "error" if self.error else "skipped" if value is None else "ok",
                "n_tokens": self.n_tokens,
                "detail": orjson.dumps(detail, option=orjson.OPT_SORT_KEYS).decode(),
            }


def _spelled(value: float | None) -> float | str | None:
    return value if value is None or math.isfinite(value) else repr(value)


def to_parquet(rows: list[dict[str, Any]], about: dict[str, str]) -> bytes:
    """The bytes of samples.parquet: the same rows in the same order give the same bytes. zstd; `about` rides along."""
    table = pa.Table.from_pylist(rows, schema=SCHEMA.with_metadata(about))
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd")
    return sink.getvalue()


class SamplesFile(BaseModel):
    """The sealed per-sample file: its bytes, and its rows by status."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    sha256: str
    bytes: int
    rows: int
    by_status: dict[str, int]


class Timing(BaseModel):
    """How long the samples of one arm and task took, in seconds of wall time."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    samples: int
    seconds: float


class RunRecord(BaseModel):
    """record.json: everything about a run but its rows. `start` is the hash of its start entry."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    format: Literal[1] = 1
    run: str
    start: str
    study: str
    status: Literal["complete", "failed"]
    exploratory: bool
    claims: list[str]
    arms: list[str]
    tasks: list[str]
    samples: SamplesFile
    timings: dict[str, Timing]  # "task/arm"
    means: dict[str, str]  # "task/arm/metric", over the rows that are ok; for orientation, recompute decides
    events: list[dict[str, JsonValue]]  # sessions begun, workers lost and samples asked again
    findings: list[str]
    pins: list[Pin]
    detail: dict[str, JsonValue]

    def to_bytes(self) -> bytes:
        """The file's content."""
        return orjson.dumps(self.model_dump(mode="json", exclude_none=True), option=orjson.OPT_INDENT_2) + b"\n"
