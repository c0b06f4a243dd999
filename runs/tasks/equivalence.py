"""equivalence: with the fill off, is every bit of the logits and the cache the model's own? (paper 4.3)"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from runs.engines.base import EQUIVALENCE, Answer, Equivalence
from runs.tasks import documents
from runs.tasks.base import Encode, Sample, Value


class EquivalenceTask(documents.OfDocuments):
    """One sample for each document of `dataset`, its first `length` tokens; the seed changes nothing.

    An arm that fills is not equivalent, and `difference`, of its last rows' logits, says by how much.
    """

    needs: ClassVar[frozenset[str]] = frozenset({EQUIVALENCE})
    length: int = Field(ge=1)

    @property
    def metrics(self) -> tuple[str, ...]:
        return ("identical", "difference")

    def sample(self, id: str, data: Mapping[str, Path], seed: int, encode: Encode) -> Sample:  # noqa: A002
        tokens = documents.tokens(data[self.dataset], id, self.length, encode)
        return Sample(id, documents.domain(id), self.length, Equivalence(tokens))

    def score(self, sample: Sample, answer: Answer) -> dict[str, Value]:
        return {"identical": float(answer.identical), "difference": answer.difference}
