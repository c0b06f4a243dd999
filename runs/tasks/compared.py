"""Figures of an answer that was held against a baseline's, and means over some of its tokens. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, fsum
from statistics import median

from runs.engines.base import Answer
from runs.tasks.base import Value


def compared(answer: Answer) -> dict[str, Value]:
    """KL(baseline || arm) in nats: mean, median and 99th percentile; and the share of the same likeliest tokens."""
    every = [True] * len(answer.kl)
    return {
        "kl": mean(answer.kl, every),
        "kl_median": median(answer.kl),
        "kl_p99": sorted(answer.kl)[ceil(0.99 * len(answer.kl)) - 1],
        "agreement": mean(answer.same, every),
    }


def mean(values: Sequence[float], of: Sequence[bool]) -> Value:
    """The mean over the chosen tokens, None where none is."""
    chosen = [value for value, which in zip(values, of, strict=True) if which]
    return fsum(chosen) / len(chosen) if chosen else None
