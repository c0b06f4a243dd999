"""What a person can ask in SQL besides the samples: the ledger's runs and claims, arms, and arms side by side."""

from __future__ import annotations

from typing import Any

from recompute.sources import set_aside
from runs.history import History

RUNS = {
    "run_id": "VARCHAR",
    "status": "VARCHAR",
    "left_out": "VARCHAR",
    "exploratory": "BOOLEAN",
    "began": "VARCHAR",
    "ended": "VARCHAR",
    "claims": "VARCHAR",
    "sha256": "VARCHAR",
    "rows": "BIGINT",
}
CLAIMS = {
    "claim": "VARCHAR",
    "version": "VARCHAR",
    "current": "BOOLEAN",
    "retracted": "BOOLEAN",
    "exploratory": "BOOLEAN",
    "text": "VARCHAR",
    "prediction": "VARCHAR",
    "statistic": "VARCHAR",
    "metric": "VARCHAR",
    "arm": "VARCHAR",
    "baseline": "VARCHAR",
    "task": "VARCHAR",
    "comparator": "VARCHAR",
    "threshold": "VARCHAR",
    "decides_on": "VARCHAR",
    "n": "BIGINT",
}

# What counts, without the bookkeeping.
SAMPLES = "CREATE VIEW samples AS SELECT * EXCLUDE (place, counts) FROM records WHERE counts"

# fsum, ordered: a plain sum of doubles moves with the threads.
ARMS = """
CREATE VIEW arms AS
SELECT arm, task, metric, run_id, file, count(*) AS rows, count(*) FILTER (status = 'ok') AS ok,
    fsum(value ORDER BY place) FILTER (status = 'ok') / count(value) FILTER (status = 'ok') AS mean
FROM records WHERE counts
GROUP BY ALL ORDER BY ALL
"""

# Every sample that either of two arms has, with NULLs where the other has none.
PAIRS = """
CREATE VIEW pairs AS
WITH items AS (SELECT DISTINCT task, metric, sample_id, repeat FROM samples),
    asked AS (SELECT DISTINCT task, metric, arm FROM samples),
    wanted AS (
        SELECT items.*, one.arm, two.arm AS baseline
        FROM items JOIN asked AS one USING (task, metric) JOIN asked AS two USING (task, metric)
        WHERE one.arm <> two.arm
    )
SELECT task, metric, sample_id, repeat, arm, baseline, a.value AS value, b.value AS baseline_value,
    a.value - b.value AS difference, a.status AS status, b.status AS baseline_status
FROM wanted
LEFT JOIN samples AS a USING (task, metric, sample_id, repeat, arm)
LEFT JOIN (SELECT * RENAME (arm AS baseline) FROM samples) AS b USING (task, metric, sample_id, repeat, baseline)
WHERE a.status IS NOT NULL OR b.status IS NOT NULL
ORDER BY ALL
"""


def run_rows(history: History) -> list[dict[str, Any]]:
    """The ledger's runs in order, with why a run carries no number."""
    return [
        {
            "run_id": run.id,
            "status": run.status,
            "left_out": set_aside(run, history.result.book),
            "exploratory": run.start.exploratory,
            "began": run.began,
            "ended": run.ended,
            "claims": ", ".join(_name(history, version) for version in run.start.claims),
            "sha256": run.finish.samples.sha256 if run.finish and run.finish.samples else "",
            "rows": run.finish.samples.rows if run.finish and run.finish.samples else 0,
        }
        for run in history.runs
    ]


def claim_rows(history: History) -> list[dict[str, Any]]:
    """Every prediction of every version of every claim, in the ledger's order."""
    rows = []
    for version, claim in history.claims.items():
        state = history.result.book.claim_at(version)
        for prediction in claim.predictions:
            told = {
                "claim": claim.claim,
                "version": version,
                "current": state is not None and state.version == version,
                "retracted": state is not None and state.retracted,
                "exploratory": claim.exploratory,
                "text": claim.text,
                "prediction": prediction.id,
            }
            rows.append(told | {key: value for key, value in prediction.model_dump().items() if key in CLAIMS})
    return rows


def _name(history: History, version: str) -> str:
    claim = history.claims.get(version)
    return claim.claim if claim else version[:12]
