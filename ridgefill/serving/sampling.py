"""The next token from logits: the likeliest, or a draw with a seed of its own."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


class Sampler:
    """Draws of one request. Each has its own generator, so that other users never change an answer."""

    def __init__(self, temperature: float, top_p: float, seed: int | None) -> None:
        """temperature 0 is greedy; top_p in (0, 1]; without a seed every request draws anew."""
        self._temperature, self._top_p = temperature, top_p
        self._generator = torch.Generator()
        if seed is None:
            self._generator.seed()
        else:
            self._generator.manual_seed(seed)

    def pick(self, logits: Tensor) -> int:
        """A token id for fp32 logits [vocabulary]."""
        if self._temperature == 0:
            return int(logits.argmax())
        chances = (logits / self._temperature).softmax(-1)
        if self._top_p < 1:
            chances, order = chances.sort(descending=True, stable=True)
            before = chances.cumsum(-1) - chances
            kept = chances.masked_fill(before >= self._top_p, 0)
            return int(order[torch.multinomial(kept, 1, generator=self._generator)])
        return int(torch.multinomial(chances, 1, generator=self._generator))


@dataclass(frozen=True)
class Chance:
    """A token with its log-probability in nats, and the likeliest tokens at its place with theirs."""

    token: int
    logprob: float
    likeliest: tuple[tuple[int, float], ...] = ()


def chances(logits: Tensor, tokens: Tensor, top: int) -> list[Chance]:
    """Each of `tokens` [n] at its row of fp32 `logits` [n, vocabulary], beside the `top` likeliest there."""
    logprobs = logits.log_softmax(-1)
    own = logprobs.gather(-1, tokens[:, None])[:, 0].tolist()
    best = logprobs.topk(top, -1)
    likeliest = zip(best.indices.tolist(), best.values.tolist(), strict=True)
    return [
        Chance(token, chance, tuple(zip(*pairs, strict=True)))
        for token, chance, pairs in zip(tokens.tolist(), own, likeliest, strict=True)
    ]
