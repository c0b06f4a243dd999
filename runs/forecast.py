"""What a plan comes to: samples, how many an open run has already, and seconds by what the newest run took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson

from provenance.pins import Pin
from runs.history import History, Run
from runs.home import JOURNAL, RECORD, RECORDS
from runs.plan import Plan
from runs.record import Key


@dataclass(frozen=True)
class Ask:
    """One arm on one task. seconds: for what is not done, or None when no earlier run tells."""

    task: str
    arm: str
    samples: int
    done: int
    seconds: float | None


def forecast(folder: Path, plan: Plan, history: History, pins: Sequence[Pin]) -> list[Ask]:
    """One Ask for each task and arm of the plan, in its order."""
    done = _done(folder, history, pins)
    pace = _pace(folder, history.runs)
    asked: dict[tuple[str, str], list[Key]] = {}
    for key in plan.keys:
        asked.setdefault((key.task, key.arm), []).append(key)
    return [
        Ask(task, arm, len(keys), have := sum(key in done for key in keys), _left(pace, task, arm, len(keys) - have))
        for (task, arm), keys in asked.items()
    ]


def _left(pace: dict[str, float], task: str, arm: str, samples: int) -> float | None:
    each = pace.get(f"{task}/{arm}")
    return None if each is None else each * samples


def _done(folder: Path, history: History, pins: Sequence[Pin]) -> set[Key]:
    """What open runs of this very study have in their journals. Only looks: the journal may be another's."""
    study = next((pin.digest for pin in pins if pin.kind == "study"), "")
    done: set[Key] = set()
    for run in history.runs:
        if run.finish is None and any(pin.digest == study for pin in run.pins):
            path = folder / RECORDS / run.id / JOURNAL
            for line in path.read_bytes().splitlines() if path.exists() else ():
                try:
                    done.add(Key(*orjson.loads(line)["key"]))
                except (ValueError, KeyError, TypeError):
                    continue  # an event, or a line that is still being written
    return done


def _pace(folder: Path, runs: Sequence[Run]) -> dict[str, float]:
    """ "task/arm" -> seconds a sample, from the newest record that has it."""
    pace: dict[str, float] = {}
    for run in runs:
        try:
            timings = orjson.loads((folder / RECORDS / run.id / RECORD).read_bytes())["timings"]
            pace |= {name: timing["seconds"] / timing["samples"] for name, timing in timings.items()}
        except (OSError, ValueError, KeyError, TypeError, ZeroDivisionError):
            continue  # open, deleted or edited: `audit` tells
    return pace
