"""One worker: opens engines, makes samples, asks, scores. Every executor runs this and nothing else.

`python -m runs.worker` is a worker that takes one JSON line a request on stdin and answers one on stdout.
"""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

import orjson

from ledger.errors import Differs, Problem, UsageProblem
from provenance.pins import Pin, build_pin, read_pin
from runs import engines
from runs.engines.base import Load, Opened, Opening, Prefill, answer
from runs.inputs import places
from runs.load import load_study
from runs.plan import Unit
from runs.quiet import settle
from runs.record import Outcome
from runs.study import Arm
from runs.tasks.base import Sample


@dataclass(frozen=True)
class Job:
    """What a worker needs to know: the study's folder, the pins it may open, the arms it will answer for."""

    folder: Path
    pins: tuple[Pin, ...]
    arms: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain values, for another process."""
        return {"folder": str(self.folder), "pins": [pin.as_entry() for pin in self.pins], "arms": list(self.arms)}

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> Job:
        """The inverse of to_json."""
        return cls(Path(plain["folder"]), tuple(map(read_pin, plain["pins"])), tuple(plain["arms"]))


class Worker:
    """Engines that are open in this process, by what their arms share; `log` gets the tracebacks."""

    def __init__(self, job: Job, log: TextIO) -> None:
        self.log = log
        self.study = load_study(job.folder)
        self.data = places(job.folder, job.pins, "dataset")
        self._opened: dict[tuple[Any, ...], Opened] = {}
        self._samples: tuple[Unit | None, dict[tuple[Any, ...], Sample]] = (None, {})
        models, maps = places(job.folder, job.pins, "model"), places(job.folder, job.pins, "maps")
        for name in job.arms:
            arm = self.study.arms[name]
            if arm.session not in self._opened:
                source = self.study.models[arm.model].source
                server = self.study.servers[arm.server] if arm.server else None
                opening = Opening(source, models[arm.model], maps, arm.dtype, arm.flags, server, arm.server or "")
                self._opened[arm.session] = engines.engine(arm.engine).open(opening)

    def builds(self) -> list[Pin]:
        """What really runs here: one pin for each open engine."""
        pins = []
        for key, opened in self._opened.items():
            pin = opened.build()
            name = " ".join(map(str, (*key[:3], *(f"{flag}={value}" for flag, value in key[3]), *key[4:])))
            pins.append(build_pin(name, pin.files or {}, pin.detail or {}, pin.size))
        return pins

    def answer(self, unit: Unit, name: str) -> Outcome:
        """One sample by one arm. Whatever goes wrong with it is its outcome; the traceback goes to stderr."""
        began = time.perf_counter()
        arm, task = self.study.arms[name], self.study.tasks[unit.task]
        sample = None
        try:
            sample = self._make(unit, arm)
            baseline = self.study.arms[task.baseline] if task.baseline else None
            if baseline and self._make(unit, baseline).request != sample.request:
                raise Differs(
                    f"{name} and its baseline {task.baseline} read the sample as different tokens",
                    cause="models of two vocabularies, or another tokenizer",
                )
            elsewhere = self._opened[baseline.session] if baseline else None
            quiet = settle() if isinstance(sample.request, Prefill | Load) else {}
            found = answer(self._opened[arm.session], arm, sample.request, baseline, elsewhere)
            values = task.score(sample, found)
        except Exception as wrong:  # one sample's failure must not end the run
            traceback.print_exc(file=self.log)
            self.log.flush()
            return failed(unit, name, _told(wrong), time.perf_counter() - began, sample)
        return Outcome(
            unit.key(name),
            sample.stratum,
            sample.length,
            found.made or len(found.tokens),
            values,
            seconds=time.perf_counter() - began,
            detail={**sample.detail, **quiet, **found.notes, **({"text": found.text} if found.text else {})},
        )

    def _make(self, unit: Unit, arm: Arm) -> Sample:
        """The unit's sample; the arms of a unit that share an engine share it."""
        asked = Unit(unit.task, unit.seed, unit.sample, 0, ())
        if self._samples[0] != asked:
            self._samples = (asked, {})
        made = self._samples[1]
        if arm.session not in made:
            encode = self._opened[arm.session].encode
            made[arm.session] = self.study.tasks[unit.task].sample(unit.sample, self.data, unit.seed, encode)
        return made[arm.session]

    def close(self) -> None:
        """Let every engine go."""
        for opened in self._opened.values():
            opened.close()


def failed(unit: Unit, arm: str, why: str, seconds: float = 0.0, sample: Sample | None = None) -> Outcome:
    """The outcome of a sample that has no answer."""
    if sample is None:
        return Outcome(unit.key(arm), "", 0, 0, {}, error=why, seconds=seconds)
    return Outcome(
        unit.key(arm), sample.stratum, sample.length, 0, {}, error=why, seconds=seconds, detail=sample.detail
    )


def _told(wrong: Exception) -> str:
    line = getattr(wrong, "line", None)
    text = str(line()) if callable(line) else f"{type(wrong).__name__}: {wrong}"
    return text.splitlines()[0] if text.strip() else type(wrong).__name__


def serve() -> None:
    """Answer requests until stdin ends. What else is printed to stdout goes to stderr."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    worker: Worker | None = None
    for line in sys.stdin.buffer:
        request = orjson.loads(line)
        try:
            if "open" in request:
                worker = Worker(Job.from_json(request["open"]), sys.stderr)
                reply: dict[str, Any] = {"pins": [pin.as_entry() for pin in worker.builds()]}
            elif worker is None:
                raise UsageProblem("a worker must be opened first")
            elif "unit" in request:
                unit = Unit(**{**request["unit"], "arms": ()})
                reply = {"outcome": worker.answer(unit, request["arm"]).to_json()}
            else:
                reply = {"pins": [pin.as_entry() for pin in worker.builds()]}
        except Exception as problem:
            traceback.print_exc(file=sys.stderr)
            reply = {"problem": _told(problem), "exit_code": getattr(problem, "exit_code", Problem.exit_code)}
        out.write(orjson.dumps(reply) + b"\n")
        out.flush()


def request_unit(unit: Unit, arm: str) -> dict[str, Any]:
    """The request that asks a worker for one answer."""
    return {"unit": {**asdict(unit), "arms": []}, "arm": arm}


def read_pins(plain: Sequence[Any]) -> list[Pin]:
    """The pins of a reply."""
    return [read_pin(pin) for pin in plain]


if __name__ == "__main__":
    serve()
