"""score, for engines that have the log-probabilities of a whole vocabulary, in torch or in numpy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from runs.engines.base import Answer, Generate, Score
from runs.study import Arm

Rows = Any  # log-probabilities [follow, vocabulary] in nats, a tensor or an array


@dataclass(frozen=True)
class Known:
    """What a baseline answered to a request: all tokens, their rows, its losses, and those of a cut prompt."""

    asked: tuple[Arm, Score]
    tokens: tuple[int, ...]
    rows: Rows
    losses: tuple[float, ...]
    cut: tuple[float, ...]


class Scoring(ABC):
    """The part of an opened engine that scores an arm, beside a baseline or alone."""

    _baseline: Known | None = None

    @abstractmethod
    def generate(self, arm: Arm, request: Generate) -> Answer:
        """As `Opened.generate`: a greedy continuation is scored along it."""

    @abstractmethod
    def _following(self, arm: Arm, tokens: tuple[int, ...], prompt: int) -> tuple[Rows, dict[str, str]]:
        """The rows of each token after the prompt given all before, and notes on how it was prefilled."""

    @abstractmethod
    def _exp(self, rows: Rows) -> Rows:
        """The probabilities of rows."""

    def score(self, arm: Arm, request: Score, baseline: Arm | None) -> Answer:
        known = self._known(baseline, request) if baseline else None
        tokens = known.tokens if known else request.tokens
        rows, notes = (known.rows, {}) if known and arm == baseline else self._following(arm, tokens, request.prompt)
        kl: list[float] = []
        same: list[bool] = []
        if known:
            kl = (self._exp(known.rows) * (known.rows - rows)).sum(-1).tolist()
            same = (known.rows.argmax(-1) == rows.argmax(-1)).tolist()
        return Answer(
            tokens=tokens[request.prompt :],
            losses=_losses(rows, tokens),
            top=tuple(rows.argmax(-1).tolist()),
            kl=tuple(kl),
            same=tuple(same),
            baseline=known.losses if known else (),
            cut=known.cut if known else (),
            notes=notes,
        )

    def _known(self, baseline: Arm, request: Score) -> Known:
        """The baseline's answer, computed once for all arms that follow with the same request."""
        if self._baseline and self._baseline.asked == (baseline, request):
            return self._baseline
        tokens, prompt = request.tokens, request.prompt
        cut: tuple[float, ...] = ()
        if request.greedy:
            tokens += self.generate(baseline, Generate(tokens, request.greedy)).tokens
        rows, _ = self._following(baseline, tokens, prompt)
        if 0 < request.cut < prompt:
            seen = tokens[prompt - request.cut :]
            cut = _losses(self._following(baseline, seen, request.cut)[0], seen)
        self._baseline = Known((baseline, request), tokens, rows, _losses(rows, tokens), cut)
        return self._baseline


def _losses(rows: Rows, tokens: tuple[int, ...]) -> tuple[float, ...]:
    """-log p of the last tokens, one for each row."""
    return tuple(-row[token].item() for row, token in zip(rows, tokens[-len(rows) :], strict=True))
