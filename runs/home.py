"""A run's folder, records/<run id>/, which has no name before its start entry has."""

from __future__ import annotations

import secrets
import shutil
from pathlib import Path

from ledger.console import say
from ledger.files import RefusalsOf

RECORDS, SAMPLES, RECORD, STDERR, JOURNAL = "records", "samples.parquet", "record.json", "stderr.log", "journal.jsonl"
_SHOWN = 10


class Home:
    """Where a run's files go; `path` changes once, when the run gets its id."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with RefusalsOf(path):
            path.mkdir(parents=True, exist_ok=True)

    @classmethod
    def nameless(cls, folder: Path) -> Home:
        """For a run that is about to start."""
        return cls(folder / RECORDS / f".starting-{secrets.token_hex(6)}")

    @classmethod
    def of(cls, folder: Path, run: str) -> Home:
        """For a run that has started."""
        return cls(folder / RECORDS / run)

    @property
    def log(self) -> Path:
        """What workers print to stderr. A handle on it stays good when the folder gets its name."""
        return self.path / STDERR

    def settle(self, run: str) -> None:
        """Take the run's id for a name."""
        with RefusalsOf(self.path):
            self.path = self.path.rename(self.path.with_name(run))

    def discard(self) -> None:
        """The run never started: show the end of what its workers said, and leave nothing behind."""
        if self.log.exists():
            for line in self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-_SHOWN:]:
                say(f"worker: {line}")
        shutil.rmtree(self.path, ignore_errors=True)
