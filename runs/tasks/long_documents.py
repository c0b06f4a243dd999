"""long_documents: what an arm loses on the text that follows a long prompt (paper 3.1 and 4.7).

A document is cut after `length` tokens and the next `follow` are scored, in nats a token: all, the novel ones
(no copy of what stands earlier) and the key ones (the baseline's loss rises by more than KEY when it sees only
the prompt's last `tail` tokens). ΔNLL is a difference of these losses between arms; the tokens are the same for
all. Along "greedy" the baseline's own continuation is scored instead, which has no key tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from runs.engines.base import SCORE, Answer, Score
from runs.tasks import documents
from runs.tasks.base import Encode, Sample, Value
from runs.tasks.compared import compared, mean
from runs.tasks.repeats import copyable, novel, shared

KEY = 2.0  # nats


class LongDocuments(documents.OfDocuments):
    """One sample for each document of `dataset`, in the stratum of its domain; the seed changes nothing."""

    needs: ClassVar[frozenset[str]] = frozenset({SCORE})
    baseline: str = Field(min_length=1)
    length: int = Field(ge=1)
    follow: int = Field(default=256, ge=1)
    tail: int = Field(default=512, ge=1)
    along: Literal["real", "greedy"] = "real"

    @model_validator(mode="after")
    def _cuts(self) -> LongDocuments:
        if self.tail >= self.length:
            raise ValueError("a key token needs the prompt beyond its tail: length must be more than tail")
        return self

    @property
    def metrics(self) -> tuple[str, ...]:
        losses = ("loss", "loss_novel", "loss_key") if self.along == "real" else ("loss", "loss_novel")
        return (*losses, "kl", "kl_median", "kl_p99", "agreement", "copyable")

    def sample(self, id: str, data: Mapping[str, Path], seed: int, encode: Encode) -> Sample:  # noqa: A002
        follow = self.follow if self.along == "real" else 0
        tokens = documents.tokens(data[self.dataset], id, self.length + follow, encode)
        detail = {"domain": documents.domain(id)}
        if self.along == "real":
            detail["copyable"] = shared(tokens, self.length)
            request = Score(tokens, self.length, cut=self.tail)
        else:
            request = Score(tokens, self.length, greedy=self.follow)
        return Sample(id, documents.domain(id), self.length, request, detail=detail)

    def score(self, sample: Sample, answer: Answer) -> dict[str, Value]:
        assert isinstance(sample.request, Score)  # noqa: S101 - as made above
        tokens = (*sample.request.tokens[: self.length], *answer.tokens)
        every = [True] * len(answer.tokens)
        values = {"loss": mean(answer.losses, every), "loss_novel": mean(answer.losses, novel(tokens, self.length))}
        if self.along == "real":
            key = [cut - whole > KEY for cut, whole in zip(answer.cut, answer.baseline, strict=True)]
            values["loss_key"] = mean(answer.losses, key)
        return values | compared(answer) | {"copyable": mean(copyable(tokens, self.length), every)}
