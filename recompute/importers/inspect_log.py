"""inspect_ai: an .eval or .json log through inspect_ai's own reader; a row for each sample, epoch and score.

Columns: task, model, sample_id, repeat (the epoch), metric (the scorer, or SCORER/KEY of a score with several numbers),
value, status. Which arm it is the study says in `constants`, or by `columns = { arm = "model" }`.
"""

from __future__ import annotations

import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ledger.errors import EnvironmentProblem, UsageProblem
from recompute.importers.base import Raw

LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}  # correct, partly, incorrect, no answer
COLUMNS = ("task", "model", "sample_id", "repeat", "metric", "value", "status")


class InspectLog:
    """The importer. A log that does not say it succeeded is refused: some of its samples were never run."""

    format = "inspect"
    suffixes: tuple[str, ...] = ()

    def read(self, data: bytes, name: str) -> Raw:
        log = _log(data, name)
        if log.status != "success":
            raise UsageProblem(
                f"{name} is the log of an evaluation that is not whole",
                expected="status success",
                found=f"status {log.status}",
                hint=f"inspect eval-retry {name}",
            )
        rows: list[tuple[Any, ...]] = []
        places: list[int] = []
        for place, sample in enumerate(log.samples or (), 1):
            scores = [*_scores(sample, name)]
            if not scores:
                raise UsageProblem(f"{name}: the sample {sample.id!r} has no score", hint="inspect score")
            status = "error" if sample.error else "ok"
            for metric, value in scores:
                told = (sample.id, sample.epoch, metric, None if sample.error else value, status)
                rows.append((log.eval.task, log.eval.model, *told))
                places.append(place)
        columns = {key: [row[at] for row in rows] for at, key in enumerate(COLUMNS)}
        return Raw(name, columns, places, typed=True)


def _log(data: bytes, name: str) -> Any:
    """The log as inspect_ai reads it: its members are packed in a way that zipfile does not know."""
    try:
        from inspect_ai.log import read_eval_log  # type: ignore[import-not-found]
    except ImportError:
        raise EnvironmentProblem(
            f"{name} needs inspect_ai, which is not installed", hint="pip install inspect-ai"
        ) from None
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / f"log{'.json' if name.lower().endswith('.json') else '.eval'}"
        copy.write_bytes(data)
        _hold_once(copy, name)
        try:
            return read_eval_log(str(copy))
        except Exception as wrong:  # whatever its reader raises, the log cannot be read
            raise UsageProblem(
                f"{name} is no log of inspect_ai",
                found=f"{type(wrong).__name__}: {str(wrong).splitlines()[0] if str(wrong) else ''}"[:120],
                cause="it was cut short while it was written or fetched",
            ) from None


def _hold_once(log: Path, name: str) -> None:
    """Refuse an archive with a sample in it twice: its reader would take one of them and say nothing."""
    if not zipfile.is_zipfile(log):
        return
    with zipfile.ZipFile(log) as archive:
        counted = Counter(archive.namelist())
    twice = [member for member, times in counted.items() if times > 1 and member.startswith("samples/")]
    if twice:
        raise UsageProblem(f"{name}: a sample is there more than once, {len(twice)} in all", found=", ".join(twice[:5]))


def _scores(sample: Any, name: str) -> Iterator[tuple[str, float]]:
    for scorer, score in (sample.scores or {}).items():
        parts = score.value if isinstance(score.value, Mapping) else {"": score.value}
        for key, value in parts.items():
            if isinstance(value, str) and value in LETTERS:
                value = LETTERS[value]
            elif not isinstance(value, int | float):  # their own reading makes zero of what it does not know
                raise UsageProblem(f"{name}: the score {scorer} of {sample.id!r} is no number", found=repr(value)[:40])
            yield f"{scorer}/{key}" if key else scorer, float(value)
