"""toy: a stand-in for tests and demonstrations. It is not a language model, and its numbers mean nothing.

Tokens are bytes. The next byte's probabilities are drawn from a hash of the model file and the byte before,
so they depend on the model's bytes and on nothing else, on every machine. An arm that fills is blurred by a
fixed share, so that arms differ as one would expect of real ones.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from provenance.pins import Pin, build_pin
from runs.engines.base import (
    COMPARE,
    EQUIVALENCE,
    GENERATE,
    LOAD,
    PREFILL,
    SCORE,
    Answer,
    Equivalence,
    Generate,
    Known,
    Load,
    Opened,
    Opening,
    Prefill,
    Score,
    Stream,
)
from runs.engines.scoring import Scoring
from runs.study import Arm

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

_BLUR = {"exact": 0.0, "map": 0.02, "no-fill": 0.2, "identity": 0.3}


class Toy:
    """The engine. Its one flag, delay_ms, is how long each answer takes: something to interrupt."""

    name = "toy"
    about = "toy: a stand-in that hashes bytes, not a language model; its numbers mean nothing"
    packages: tuple[str, ...] = ()
    capabilities = frozenset({SCORE, GENERATE, PREFILL, COMPARE, EQUIVALENCE, LOAD})

    def check(self, arm: Arm) -> str:
        if arm.deployment:
            return "the toy engine has no layers that a deployment could split"
        unknown = sorted(arm.flags.keys() - {"delay_ms"})
        return f"the toy engine knows only the flag delay_ms, not {', '.join(unknown)}" if unknown else ""

    def open(self, opening: Opening) -> Opened:
        return OpenedToy(opening.model.read_bytes(), int(opening.flags.get("delay_ms", 0)))


class OpenedToy(Scoring):
    """A file's bytes as a bigram table."""

    def __init__(self, model: bytes, delay_ms: int) -> None:
        self._key = hashlib.sha256(model).digest()
        self._delay = delay_ms / 1000
        self._table = cache(self._probabilities)

    def build(self) -> Pin:
        return build_pin("toy", {}, {"engine": "toy", "version": 1})

    def encode(self, text: str) -> Sequence[int]:
        return tuple(text.encode())

    def score(self, arm: Arm, request: Score, known: Known | None) -> Answer:
        time.sleep(self._delay)
        return super().score(arm, request, known)

    def _following(self, arm: Arm, tokens: tuple[int, ...], prompt: int) -> tuple[NDArray[float64], dict[str, str]]:
        import numpy as np

        return np.log([self._table(before, arm.fill) for before in tokens[prompt - 1 : -1]]), {}

    def generate(self, arm: Arm, request: Generate) -> Answer:
        time.sleep(self._delay)
        made: list[int] = []
        for _ in range(request.limit):
            made.append(_likeliest(self._table((*request.tokens, *made)[-1], arm.fill)))
        return Answer(tokens=tuple(made), text=bytes(made).decode("utf-8", "replace"))

    def prefill(self, arm: Arm, request: Prefill) -> Answer:
        started = time.perf_counter()
        self.generate(arm, Generate(request.tokens, 1))
        return Answer(seconds=time.perf_counter() - started, ceiling=1.0 if arm.fill == "exact" else 2.0)

    def equivalence(self, arm: Arm, request: Equivalence) -> Answer:
        time.sleep(self._delay)
        mine, own = self._table(request.tokens[-1], arm.fill), self._table(request.tokens[-1], "exact")
        difference = max(abs(math.log(p / q)) for p, q in zip(mine, own, strict=True))
        return Answer(tokens=request.tokens, identical=mine == own, difference=difference)

    def load(self, arm: Arm, request: Load) -> Answer:
        """The others one after the other, a token at a time; then the long prompt."""
        streams = []
        for tokens in request.others:
            asked, arrivals, said = time.perf_counter(), list[float](), tokens
            for _ in range(request.limit):
                said += self.generate(arm, Generate(said, 1)).tokens
                arrivals.append(time.perf_counter())
            streams.append(Stream(asked, tuple(arrivals), request.limit))
        new = self.prefill(arm, Prefill(request.tokens))
        return Answer(tokens=request.tokens, seconds=new.seconds, others=tuple(streams))

    def close(self) -> None:
        self._table.cache_clear()

    def _probabilities(self, before: int, fill: str) -> tuple[float, ...]:
        """P(next byte | byte before) under a fill, 256 of them."""
        weights = [1 + byte for part in range(8) for byte in hashlib.sha256(self._key + bytes([before, part])).digest()]
        total, blur = sum(weights), _BLUR[fill]
        return tuple((1 - blur) * weight / total + blur / 256 for weight in weights)


def _likeliest(row: Sequence[float]) -> int:
    return max(range(len(row)), key=row.__getitem__)


ENGINE = Toy()
