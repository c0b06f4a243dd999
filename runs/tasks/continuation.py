"""continuation: how well is the real continuation of a text predicted?

A document is cut after `length` tokens; the loss is the mean over the next `follow`, in nats a token. With a
baseline, also KL(baseline || arm) in nats a token and the share of places with the same likeliest token.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import fsum
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from runs.engines.base import SCORE, Answer, Score
from runs.tasks import documents
from runs.tasks.base import Encode, Sample, Value


class Continuation(documents.OfDocuments):
    """One sample for each document of `dataset`; the seed changes nothing."""

    needs: ClassVar[frozenset[str]] = frozenset({SCORE})
    length: int = Field(ge=1)
    follow: int = Field(default=256, ge=1)

    @property
    def metrics(self) -> tuple[str, ...]:
        return ("loss", "kl", "agreement") if self.baseline else ("loss",)

    def sample(self, id: str, data: Mapping[str, Path], seed: int, encode: Encode) -> Sample:  # noqa: A002
        tokens = documents.tokens(data[self.dataset], id, self.length + self.follow, encode)
        return Sample(id, str(self.length), self.length, Score(tokens, self.length))

    def score(self, sample: Sample, answer: Answer) -> dict[str, Value]:
        values: dict[str, Value] = {"loss": _mean(answer.losses)}
        if self.baseline:
            values |= {"kl": _mean(answer.kl), "agreement": _mean(answer.same)}
        return values


def _mean(values: tuple[float, ...] | tuple[bool, ...]) -> float:
    return fsum(values) / len(values)
