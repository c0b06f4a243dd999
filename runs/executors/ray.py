"""A worker as a Ray actor, on this machine or anywhere in a cluster that sees the study's folder."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import Any

from ledger.errors import EnvironmentProblem
from provenance.pins import Pin
from runs.executors.base import DiedError
from runs.home import Home
from runs.plan import Unit
from runs.record import Outcome
from runs.worker import Job, Worker, read_pins


def connect(address: str) -> Any:
    """Ray, connected to a cluster's address or, without one, started here. Raises EnvironmentProblem."""
    try:
        import ray
    except ImportError:
        raise EnvironmentProblem("ray is not installed", hint="pip install 'ridgefill[ray]'") from None
    if not ray.is_initialized():
        try:
            ray.init(
                address=address or "local", include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR
            )
        except Exception as wrong:  # Ray raises many kinds
            raise EnvironmentProblem(
                f"ray does not answer: {str(wrong).splitlines()[0]}", hint="ray start --head, or --executor processes"
            ) from None
    return ray


class _Actor:
    """What runs over there."""

    def open(self, job: dict[str, Any], log: str) -> list[dict[str, Any]]:
        with Path(log).open("ab") as stderr:
            os.dup2(stderr.fileno(), 2)
        self._worker = Worker(Job.from_json(job), sys.stderr)
        return self.builds()

    def answer(self, unit: Unit, arm: str) -> dict[str, Any]:
        return self._worker.answer(unit, arm).to_json()

    def builds(self) -> list[dict[str, Any]]:
        return [pin.as_entry() for pin in self._worker.builds()]


class RayLane:
    """One actor on one CPU of Ray's count; it is never restarted silently."""

    def __init__(self, ray: Any, home: Home) -> None:
        self._ray, self._home = ray, home
        self._actor = ray.remote(num_cpus=1, max_restarts=0)(_Actor).remote()

    def open(self, job: Job) -> list[Pin]:
        return read_pins(self._call(self._actor.open, job.to_json(), str(self._home.log.resolve())))

    def answer(self, unit: Unit, arm: str) -> Outcome:
        return Outcome.from_json(self._call(self._actor.answer, unit, arm))

    def builds(self) -> list[Pin]:
        return read_pins(self._call(self._actor.builds))

    def _call(self, method: Any, *arguments: Any) -> Any:
        try:
            return self._ray.get(method.remote(*arguments))
        except self._ray.exceptions.RayTaskError as wrong:
            raise wrong.cause from None
        except self._ray.exceptions.RayError as died:
            raise DiedError(f"{type(died).__name__}: {died}".splitlines()[0]) from None

    def close(self) -> None:
        self._ray.kill(self._actor)
