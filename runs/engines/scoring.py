"""score, for engines that have the log-probabilities of a whole vocabulary, in torch or in numpy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from ledger.errors import Differs, UsageProblem
from runs.engines.base import Answer, Generate, Known, Load, Score
from runs.study import Arm

Rows = Any  # log-probabilities [follow, vocabulary] in nats, a tensor or an array


class Scoring(ABC):
    """The part of an opened engine that scores an arm, beside a baseline or alone."""

    _baseline: Known | None = None

    @abstractmethod
    def generate(self, arm: Arm, request: Generate) -> Answer:
        """As `Opened.generate`: a greedy continuation is scored along it."""

    @abstractmethod
    def _following(self, arm: Arm, tokens: tuple[int, ...], prompt: int) -> tuple[Rows, dict[str, str]]:
        """The rows of each token after the prompt given all before, and notes on how it was prefilled."""

    def score(self, arm: Arm, request: Score, known: Known | None) -> Answer:
        tokens = known.tokens if known else request.tokens
        own = known is not None and arm == known.asked[0]
        rows, notes = (known.rows, {}) if known and own else self._following(arm, tokens, request.prompt)
        kl, same = compare(known.rows, rows) if known else ((), ())
        return Answer(
            tokens=tokens[request.prompt :],
            losses=_losses(rows, tokens),
            top=tuple(rows.argmax(-1).tolist()),
            kl=kl,
            same=same,
            baseline=known.losses if known else (),
            cut=known.cut if known else (),
            notes=notes,
        )

    def known(self, baseline: Arm, request: Score) -> Known:
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

    def load(self, arm: Arm, request: Load) -> Answer:
        raise UsageProblem("an engine in this process has no other users", hint="ask a server")


def compare(true: Rows, mine: Rows) -> tuple[tuple[float, ...], tuple[bool, ...]]:
    """KL(true || mine) in nats, and whether both have the same likeliest token, for each row.

    Rows of one library are compared in it, others in float64. Raises Differs for two vocabularies.
    """
    import numpy as np

    if true.shape[-1] != mine.shape[-1]:
        raise Differs(
            "an arm cannot be compared with a baseline of another vocabulary",
            expected=f"{true.shape[-1]} tokens",
            found=f"{mine.shape[-1]}",
        )
    if type(true) is not type(mine):
        true, mine = np.asarray(true, np.float64), np.asarray(mine, np.float64)
    share = true.exp() if hasattr(true, "exp") else np.exp(true)
    kl = (share * (true - mine)).sum(-1).tolist()
    return tuple(kl), tuple((true.argmax(-1) == mine.argmax(-1)).tolist())


def _losses(rows: Rows, tokens: tuple[int, ...]) -> tuple[float, ...]:
    """-log p of the last tokens, one for each row."""
    return tuple(-row[token].item() for row, token in zip(rows, tokens[-len(rows) :], strict=True))
