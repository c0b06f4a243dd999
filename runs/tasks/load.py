"""load: a long prompt arrives while other users are being answered (paper 4.8 and Table 14).

`users` counts every user, the new one included; a sample is one round at one number of users, its stratum. The new
prompt is the first `length` tokens of one document; the others were sent `short` tokens each, further on in it, and
each of them is given `follow` tokens. All times are the clients': the new user's time to its first token; the tokens
delivered to the others, by the time from the first request to the last token, so that the stall counts; and the time
between two pieces that reach one of them (inter-token latency, ITL): its mean, what 99 % do not exceed, the longest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field

from ledger.errors import UsageProblem
from runs.engines.base import LOAD, Answer, Load, Stream
from runs.tasks import documents
from runs.tasks.base import Encode, Sample, Value


class LoadTask(documents.OfDocuments):
    """One sample for each round and number of users; the seed changes nothing."""

    needs: ClassVar[frozenset[str]] = frozenset({LOAD})
    document: str
    length: int = Field(ge=1)
    short: int = Field(default=64, ge=1)
    follow: int = Field(default=256, ge=2)
    users: Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(strict=False, min_length=1)] = (1, 2, 4, 8)
    rounds: int = Field(default=2, ge=2)

    @property
    def metrics(self) -> tuple[str, ...]:
        return ("seconds", "others_tokens_per_second", "others_itl_mean", "others_itl_p99", "others_itl_max")

    def ids(self, data: Mapping[str, Path], seed: int) -> list[str]:
        documents.check(data[self.dataset], self.document)
        return [f"round {number}, {users} users" for number in range(1, self.rounds + 1) for users in self.users]

    def sample(self, id: str, data: Mapping[str, Path], seed: int, encode: Encode) -> Sample:  # noqa: A002
        users = int(id.split()[2])
        needed = max(self.length, users * self.short)
        tokens = documents.tokens(data[self.dataset], self.document, needed, encode)
        others = tuple(tokens[at * self.short : (at + 1) * self.short] for at in range(1, users))
        request = Load(tokens[: self.length], others, self.follow)
        return Sample(id, str(users), self.length, request, detail={"document": self.document})

    def score(self, sample: Sample, answer: Answer) -> dict[str, Value]:
        gaps = sorted(after - before for stream in answer.others for before, after in pairwise(stream.arrivals))
        if answer.others and not gaps:
            raise UsageProblem("nobody else was sent more than one piece", hint="a larger follow")
        return {
            "seconds": answer.seconds,
            "others_tokens_per_second": _throughput(answer.others) if gaps else None,
            "others_itl_mean": math.fsum(gaps) / len(gaps) if gaps else None,
            "others_itl_p99": gaps[math.ceil(0.99 * len(gaps)) - 1] if gaps else None,
            "others_itl_max": gaps[-1] if gaps else None,
        }


def _throughput(streams: Sequence[Stream]) -> float:
    """Tokens a second from the first request to the last token."""
    began, ended = min(stream.asked for stream in streams), max(stream.arrivals[-1] for stream in streams)
    return sum(stream.tokens for stream in streams) / (ended - began)
