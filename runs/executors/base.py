"""What an executor is: it opens workers, answers units in any order, and says when a worker was lost.

executor.open(job) -> builds; executor.run(units) -> outcomes and losses; executor.builds(); executor.close()
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from provenance.pins import Pin
from runs.plan import Unit
from runs.record import Key, Outcome
from runs.worker import Job

ATTEMPTS = 3  # a sample that takes its worker down so often is recorded as failed


@dataclass(frozen=True)
class Loss:
    """A worker died while it worked on `key` (for the `attempt`-th time); `how` is its exit, in words."""

    key: Key
    attempt: int
    how: str

    def to_json(self) -> dict[str, Any]:
        """Plain values, for the journal."""
        return {"key": list(self.key), "attempt": self.attempt, "how": self.how}


class Executor(Protocol):
    """Where samples are computed. The outcomes are the same whichever executor computes them."""

    def open(self, job: Job) -> list[Pin]:
        """Start the workers; what really runs in them, the same in each. Raises a Problem when one cannot."""

    def run(self, units: Iterable[Unit]) -> Iterator[Outcome | Loss]:
        """Answer every arm of every unit."""

    def builds(self) -> list[Pin]:
        """What really runs in the workers now."""

    def close(self) -> None:
        """Stop the workers, whatever they are doing."""


class Lane(Protocol):
    """One worker somewhere else. Raises DiedError when it is gone."""

    def open(self, job: Job) -> list[Pin]: ...

    def answer(self, unit: Unit, arm: str) -> Outcome: ...

    def builds(self) -> list[Pin]: ...

    def close(self) -> None: ...


class DiedError(Exception):
    """A worker is gone; the text says how it ended."""
