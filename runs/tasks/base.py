"""What a task is: samples made from data and a seed, a request for each, and metrics from its answer."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Protocol

from pydantic import Field

from ledger.events.base import Part
from runs.engines.base import Answer, Request

Names = Annotated[tuple[str, ...], Field(strict=False)]
Value = float | None


class Encode(Protocol):
    """Text -> token ids, as the arm's model has them."""

    def __call__(self, text: str) -> Sequence[int]: ...


@dataclass(frozen=True)
class Sample:
    """What is asked.

    length: the prompt's tokens; about: what scoring needs to know; detail: what a reader of the records needs to
    know and may select by, such as where needles lie, as plain JSON: it is kept with every row of the sample.
    """

    id: str
    stratum: str
    length: int
    request: Request
    about: Mapping[str, Any] = field(default_factory=dict)
    detail: Mapping[str, Any] = field(default_factory=dict)


class Task(Part):
    """A task with its parameters, as a table of study.toml. A subclass is one file and one line in the registry.

    arms: which arms answer it (none: all). repeats: how often each sample is asked. baseline: the arm whose
    answer to the same request others are compared with inside the engine (KL, agreement); "" for none.
    """

    needs: ClassVar[frozenset[str]] = frozenset()
    arms: Names = ()
    repeats: int = Field(default=1, ge=1)
    baseline: str = ""

    @property
    @abstractmethod
    def metrics(self) -> tuple[str, ...]:
        """The names of what `score` gives, all of them for every sample."""

    @property
    def datasets(self) -> tuple[str, ...]:
        """The data sets it reads, by their names in the study."""
        return ()

    @abstractmethod
    def ids(self, data: Mapping[str, Path], seed: int) -> list[str]:
        """The ids of its samples for one seed, in order, without a model or tokenizer. `data` has the data sets."""

    @abstractmethod
    def sample(self, id: str, data: Mapping[str, Path], seed: int, encode: Encode) -> Sample:  # noqa: A002
        """One sample, the same whenever and wherever it is made. Raises Problem when it cannot be."""

    @abstractmethod
    def score(self, sample: Sample, answer: Answer) -> dict[str, Value]:
        """Metric -> value, or None where it has no meaning for this sample (recorded as skipped)."""
