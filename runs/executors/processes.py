"""A worker in a process of its own: a crash takes one sample's attempt with it, not the run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import Any

import orjson

from ledger.errors import Problem
from provenance.pins import Pin
from runs.executors.base import DiedError
from runs.home import Home
from runs.plan import Unit
from runs.record import Outcome
from runs.worker import Job, read_pins, request_unit


class ProcessLane:
    """`python -m runs.worker`, spoken to in JSON lines; its stderr is appended to the run's log."""

    def __init__(self, home: Home) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        with home.log.open("ab") as stderr:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "runs.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=environment,
                start_new_session=True,  # Ctrl-C is for the runner, which stops its workers
            )

    def open(self, job: Job) -> list[Pin]:
        return read_pins(self._call({"open": job.to_json()})["pins"])

    def answer(self, unit: Unit, arm: str) -> Outcome:
        return Outcome.from_json(self._call(request_unit(unit, arm))["outcome"])

    def builds(self) -> list[Pin]:
        return read_pins(self._call({"builds": True})["pins"])

    def _call(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None  # noqa: S101 - both are pipes
        assert self._process.stdout is not None  # noqa: S101
        try:
            self._process.stdin.write(orjson.dumps(request) + b"\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except (BrokenPipeError, ValueError):
            line = b""
        if not line.endswith(b"\n"):
            raise DiedError(_ending(self._process.wait()))
        reply: dict[str, Any] = orjson.loads(line)
        if "problem" in reply:
            raise _Elsewhere(reply["problem"], reply["exit_code"])
        return reply

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                pipe.close()


class _Elsewhere(Problem):
    """A problem that a worker told; its line is told on as it came."""

    def __init__(self, line: str, exit_code: int) -> None:
        super().__init__(line)
        self.exit_code = exit_code


def _ending(status: int) -> str:
    if status >= 0:
        return f"exit code {status}"
    try:
        return f"killed by {signal.Signals(-status).name} (exit code {status})"
    except ValueError:
        return f"killed by signal {-status}"
