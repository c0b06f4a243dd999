"""Samples computed in this process, one after the other: no copy of the model, nothing to start."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import redirect_stderr

from provenance.pins import Pin
from runs.executors.base import Loss
from runs.home import Home
from runs.plan import Unit
from runs.record import Outcome
from runs.worker import Job, Worker


class Inline:
    """One worker, here."""

    def __init__(self, home: Home) -> None:
        # Line by line: sealing takes the log's digest while it is still open.
        self._log = home.log.open("a", encoding="utf-8", buffering=1)
        self._worker: Worker | None = None

    def open(self, job: Job) -> list[Pin]:
        with redirect_stderr(self._log):
            self._worker = Worker(job, self._log)
            return self.builds()

    def run(self, units: Iterable[Unit]) -> Iterator[Outcome | Loss]:
        for unit in units:
            for arm in unit.arms:
                with redirect_stderr(self._log):
                    outcome = self._here.answer(unit, arm)
                yield outcome

    def builds(self) -> list[Pin]:
        return self._here.builds()

    def close(self) -> None:
        if self._worker:
            self._worker.close()
            self._worker = None
        self._log.close()

    @property
    def _here(self) -> Worker:
        assert self._worker is not None  # noqa: S101 - open comes first
        return self._worker
