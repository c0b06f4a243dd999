"""agreement: how often, and how nearly, an arm predicts what its baseline does (paper 3.1 and 4.7).

A document is cut after `length` tokens. Along "real" the next `follow` are scored, along "greedy" as many of the
baseline's own continuation. The baseline may be an arm of another engine, as long as both read the text as the same
tokens of one vocabulary. Places whose token could be copied from earlier text count apart from the rest, as they are
easy.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from runs.engines.base import SCORE, Answer, Score
from runs.tasks import documents
from runs.tasks.base import Encode, Sample, Value
from runs.tasks.compared import compared, mean
from runs.tasks.repeats import copyable, shared


class Agreement(documents.OfDocuments):
    """One sample for each document of `dataset`, in the stratum of its domain; the seed changes nothing."""

    needs: ClassVar[frozenset[str]] = frozenset({SCORE})
    baseline: str = Field(min_length=1)
    length: int = Field(ge=1)
    follow: int = Field(default=256, ge=1)
    along: Literal["real", "greedy"] = "real"

    @property
    def metrics(self) -> tuple[str, ...]:
        return ("kl", "kl_median", "kl_p99", "agreement", "agreement_copyable", "agreement_rest", "copyable")

    def sample(self, id: str, data: Mapping[str, Path], seed: int, encode: Encode) -> Sample:  # noqa: A002
        follow = self.follow if self.along == "real" else 0
        tokens = documents.tokens(data[self.dataset], id, self.length + follow, encode)
        detail = {"domain": documents.domain(id)}
        if follow:
            detail["copyable"] = shared(tokens, self.length)
        request = Score(tokens, self.length, greedy=self.follow - follow)
        return Sample(id, documents.domain(id), self.length, request, detail=detail)

    def score(self, sample: Sample, answer: Answer) -> dict[str, Value]:
        assert isinstance(sample.request, Score)  # noqa: S101 - as made above
        copies = copyable((*sample.request.tokens[: self.length], *answer.tokens), self.length)
        return compared(answer) | {
            "agreement_copyable": mean(answer.same, copies),
            "agreement_rest": mean(answer.same, [not copied for copied in copies]),
            "copyable": mean(copies, [True] * len(copies)),
        }
