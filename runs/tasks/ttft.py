"""ttft: the time to first token of a warm prompt, beside what the cost model allows (paper 2.5 and 4.4).

The prompt is the first `length` tokens of one document. A sample is one round: every arm answers once before the
next round begins, so that a slow minute of the machine falls on all of them; each arm's very first answer of a
length in a process is a warm-up, asked twice. The published figure is the median over rounds. `seconds` is the
client's clock, `server_seconds` a server's own where it tells, `peak_mib` the most memory a server held meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from runs.engines.base import PREFILL, Answer, Prefill
from runs.tasks import documents
from runs.tasks.base import Encode, Sample, Value


class Ttft(documents.OfDocuments):
    """One sample for each of `rounds`; the seed changes nothing."""

    needs: ClassVar[frozenset[str]] = frozenset({PREFILL})
    document: str
    length: int = Field(ge=1)
    rounds: int = Field(default=3, ge=3)

    @property
    def metrics(self) -> tuple[str, ...]:
        return ("seconds", "tokens_per_second", "server_seconds", "peak_mib", "ceiling")

    def ids(self, data: Mapping[str, Path], seed: int) -> list[str]:
        documents.check(data[self.dataset], self.document)
        return [f"round {number}" for number in range(1, self.rounds + 1)]

    def sample(self, id: str, data: Mapping[str, Path], seed: int, encode: Encode) -> Sample:  # noqa: A002
        tokens = documents.tokens(data[self.dataset], self.document, self.length, encode)
        return Sample(id, str(self.length), self.length, Prefill(tokens), detail={"document": self.document})

    def score(self, sample: Sample, answer: Answer) -> dict[str, Value]:
        return {
            "seconds": answer.seconds,
            "tokens_per_second": sample.length / answer.seconds,
            "server_seconds": answer.server_seconds or None,
            "peak_mib": float(answer.peak_mib) or None,
            "ceiling": answer.ceiling or None,
        }
