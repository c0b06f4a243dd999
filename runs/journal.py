"""The journal of a running run: one JSON line a sample, appended and flushed as it is answered.

A line is handed to the system as soon as it is there, so a killed runner loses nothing that was written. It is
synced to the disk after SYNC_SAMPLES lines or SYNC_SECONDS since the last sync, whichever comes first; only then
is a sample acknowledged (counted as done). A power cut can lose what was not acknowledged, and resume asks those
samples again.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from ledger.errors import EnvironmentProblem, Tampered, UsageProblem
from ledger.files import RefusalsOf, sync_folder, write_all
from runs.record import Key, Outcome

SYNC_SAMPLES = 64
SYNC_SECONDS = 0.25


class Journal:
    """An open journal; `outcomes` are those acknowledged, `events` what happened around them.

    Opening one that another process holds is refused. A torn last line, from a power cut or a full disk, was
    never acknowledged: it is cut off.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.outcomes: dict[Key, Outcome] = {}
        self.events: list[dict[str, Any]] = []
        self._waiting: list[Outcome] = []
        self._synced = time.monotonic()
        with RefusalsOf(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
            try:
                self._claim()
                self._read()
            except BaseException:
                os.close(self._descriptor)
                raise
            sync_folder(path.parent)

    def _claim(self) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageProblem(
                f"run {self.path.parent.name} is being run by another process", hint="wait for it, or stop it first"
            ) from None

    def _read(self) -> None:
        data = self.path.read_bytes()
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            os.ftruncate(self._descriptor, whole)
        for number, line in enumerate(data[:whole].splitlines(), start=1):
            try:
                plain = orjson.loads(line)
                if "event" in plain:
                    self.events.append(plain)
                    continue
                outcome = Outcome.from_json(plain)
            except (ValueError, KeyError, TypeError, AttributeError) as wrong:
                raise Tampered(
                    f"{self.path.parent.name}/{self.path.name}, line {number}, is no record: {wrong}",
                    cause="the journal was edited, or the disk lost what it had confirmed",
                    hint="restore the journal from a copy, or start a new run",
                ) from None
            self.outcomes[outcome.key] = outcome
        os.fsync(self._descriptor)

    def add(self, outcome: Outcome) -> list[Key]:
        """Append one outcome; the keys of those that this acknowledges, often none.

        Raises EnvironmentProblem when it cannot be written; nothing acknowledged is lost.
        """
        self._write(outcome.to_json())
        self._waiting.append(outcome)
        if len(self._waiting) >= SYNC_SAMPLES or time.monotonic() - self._synced >= SYNC_SECONDS:
            return self.sync()
        return []

    def note(self, event: str, **facts: Any) -> None:
        """Append something that happened, durably."""
        plain = {"event": event, **facts}
        self._write(plain)
        self.events.append(plain)
        self.sync()

    def _write(self, plain: Mapping[str, Any]) -> None:
        data = orjson.dumps(plain) + b"\n"
        end = os.fstat(self._descriptor).st_size
        try:
            write_all(self._descriptor, data)
        except OSError as refused:
            os.ftruncate(self._descriptor, end)
            raise EnvironmentProblem(
                f"the journal cannot be written: {refused.strerror}",
                cause="the disk is full or failing",
                hint=f"free space, then ridgefill run resume {self.path.parent.name}",
            ) from None

    def sync(self) -> list[Key]:
        """Make everything written durable; the keys that this acknowledges."""
        with RefusalsOf(self.path):
            os.fsync(self._descriptor)
        new = {outcome.key: outcome for outcome in self._waiting}
        self.outcomes |= new
        self._waiting.clear()
        self._synced = time.monotonic()
        return list(new)

    def close(self) -> None:
        """Let it go. What was written and not synced stays written."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def remove(self) -> None:
        """The run is sealed and finished: nothing is needed any more."""
        self.path.unlink(missing_ok=True)
        self.close()
