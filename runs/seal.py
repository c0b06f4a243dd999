"""A journal that has every answer -> sealed samples, the run's record, the finish entry. In that order."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from ledger.events.finish import Finish, Samples
from ledger.files import write_whole
from ledger.findings import Finding
from ledger.session import Session
from provenance.measure import take
from provenance.pins import Pin
from runs.folders import unnamed
from runs.history import Run
from runs.home import RECORD, RECORDS, SAMPLES, STDERR
from runs.record import Key, Outcome, RunRecord, SamplesFile, Timing, to_parquet
from runs.study import Study


def seal(
    folder: Path,
    study: Study,
    run: Run,
    outcomes: Mapping[Key, Outcome],
    events: Sequence[dict[str, Any]],
    builds: Sequence[Pin],
    moved: Sequence[Finding],
) -> RunRecord:
    """Write samples.parquet and record.json, durably, then the finish entry that embeds their digests.

    What workers printed, and what they said of failures, is sealed without this machine's folders.

    `moved`: pins that no longer held at the end; then the run has failed, and its samples are kept as evidence.
    Raises EnvironmentProblem when the disk refuses; the journal is still there, and doing this again is safe.
    """
    home = folder / RECORDS / run.id
    _unname(home / STDERR, folder)
    ordered = [replace(outcomes[key], error=unnamed(outcomes[key].error, folder)) for key in sorted(outcomes)]
    exploratory = run.start.exploratory
    rows = [
        row
        for outcome in ordered
        for row in outcome.rows(run.id, study.tasks[outcome.key.task].metrics, exploratory=exploratory)
    ]
    data = to_parquet(rows, {"run": run.id, "exploratory": str(exploratory).lower()})
    write_whole(home / SAMPLES, data)
    by_status = dict(sorted(Counter(row["status"] for row in rows).items()))
    samples = SamplesFile(sha256=sha256(data).hexdigest(), bytes=len(data), rows=len(rows), by_status=by_status)
    record = RunRecord(
        run=run.id,
        start=run.leaf,
        study=study.name,
        status="failed" if moved or not by_status.get("ok") else "complete",
        exploratory=exploratory,
        claims=list(run.start.claims),
        arms=run.names("arms"),
        tasks=run.names("tasks"),
        samples=samples,
        timings=_timings(ordered),
        means=means(rows),
        events=list(events),
        findings=[unnamed(finding.line(), folder) for finding in moved],
        pins=[*run.pins, *builds],
        detail={key: value for key, value in run.start.detail.items() if key not in ("arms", "tasks")},
    )
    write_whole(home / RECORD, record.to_bytes())
    finish = Finish(
        run=run.id,
        start=run.leaf,
        status=record.status,
        samples=Samples(sha256=samples.sha256, bytes=samples.bytes, rows=samples.rows),
        metrics=record.means,
        detail={
            "pins": [pin.as_entry() for pin in (*builds, *_own_files(folder, run.id))],
            "rows_by_status": dict(by_status),
            "exploratory": exploratory,
            "findings": [*record.findings],
        },
    )
    Session(folder).append(lambda _result: [finish])
    return record


def _unname(log: Path, folder: Path) -> None:
    if log.exists():
        said = log.read_bytes().decode(errors="surrogateescape")
        write_whole(log, unnamed(said, folder).encode(errors="surrogateescape"))


def _own_files(folder: Path, run: str) -> list[Pin]:
    """Pins of what lies beside the samples, so that an audit sees it edited too."""
    names = [f"{RECORDS}/{run}/{name}" for name in (RECORD, STDERR)]
    return [take("records", name, f"path:{name}", folder) for name in names if (folder / name).exists()]


def _timings(outcomes: Iterable[Outcome]) -> dict[str, Timing]:
    seconds: dict[str, list[float]] = defaultdict(list)
    for outcome in outcomes:
        seconds[f"{outcome.key.task}/{outcome.key.arm}"].append(outcome.seconds)
    return {name: Timing(samples=len(spent), seconds=round(math.fsum(spent), 6)) for name, spent in seconds.items()}


def means(rows: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """ "task/arm/metric" -> the mean over rows that are ok, as the ledger spells a number."""
    values: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        if row["status"] == "ok":
            values[f"{row['task']}/{row['arm']}/{row['metric']}"].append(row["value"])
    return {name: spelled(_mean(found)) for name, found in sorted(values.items())}


def _mean(values: list[float]) -> float:
    if all(map(math.isfinite, values)):
        return math.fsum(values) / len(values)
    return sum(values)


def spelled(value: float) -> str:
    """A number as entries record it: decimal, NaN, Infinity or -Infinity."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return repr(value).replace("e+", "e")
