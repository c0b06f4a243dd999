"""lm-evaluation-harness: the samples_TASK_DATE.jsonl of --log_samples; a row for each sample, filter and metric.

Columns: task (from the file's name), sample_id (doc_id), filter, metric, value, and the document's hash as a detail.
Which arm it is nobody but the study can say: `constants`. A task with several filters holds every sample once for each.
"""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import Any

from recompute.importers.base import Raw
from recompute.importers.jsonl_file import JsonLines

_NAME = re.compile(r"samples_(?P<task>.+)_\d{4}-\d\d-\d\dT[\d.:-]+")


class LmEval:
    """The importer."""

    format = "lm_eval"
    suffixes: tuple[str, ...] = ()

    def read(self, data: bytes, name: str) -> Raw:
        logged = JsonLines().read(data, name)
        rows: list[dict[str, Any]] = []
        places: list[int] = []
        for at, place in enumerate(logged.places):
            sample = {key: column[at] for key, column in logged.columns.items()}
            metrics = sample.get("metrics")
            if not isinstance(metrics, list) or not metrics or "doc_id" not in sample:
                raise logged.refuse(
                    at,
                    "no sample of lm-evaluation-harness",
                    expected="doc_id, filter, and metrics that are named",
                    found=", ".join(sorted(key for key, value in sample.items() if value is not None))[:80],
                    hint="lm_eval --log_samples; 0.4.9 and later name the metrics",
                )
            for metric in metrics:
                if metric not in sample:
                    raise logged.refuse(at, f"a sample without its {metric}", hint="the log was cut off or edited")
                rows.append(self._row(sample, str(metric)))
                places.append(place)
        task = _NAME.fullmatch(PurePath(name).stem)
        columns = {key: [row[key] for row in rows] for key in ("sample_id", "filter", "metric", "value", "detail")}
        return Raw(name, columns | ({"task": [task["task"]] * len(rows)} if task else {}), places, typed=True)

    @staticmethod
    def _row(sample: dict[str, Any], metric: str) -> dict[str, Any]:
        value = sample[metric]
        return {
            "sample_id": sample["doc_id"],
            "filter": sample.get("filter"),
            "metric": metric,
            # Some metrics log true for one sample and 1.0 for the next.
            "value": float(value) if isinstance(value, bool) else value,
            "detail": {"doc_hash": sample.get("doc_hash")},
        }
