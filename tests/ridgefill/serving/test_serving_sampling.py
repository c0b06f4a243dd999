"""Draws: greedy, seeded, and never outside the nucleus."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ridgefill.serving.sampling import Sampler, chances

LOGITS = st.lists(st.integers(-40, 40).map(lambda n: n / 5), min_size=2, max_size=12, unique=True)


def nucleus(logits: list[float], temperature: float, top_p: float) -> set[int]:
    """By its definition: the fewest likeliest tokens that together have top_p, in plain floats."""
    weights = [math.exp((logit - max(logits)) / temperature) for logit in logits]
    order = sorted(range(len(logits)), key=lambda token: -weights[token])
    kept, mass = set(), 0.0
    for token in order:
        if mass >= top_p * sum(weights) + 1e-6:
            break
        kept.add(token)
        mass += weights[token]
    return kept


@given(LOGITS, st.floats(0.1, 2), st.floats(0.05, 1), st.integers(0, 2**63 - 1))
def test_draws_stay_in_the_nucleus_and_repeat_with_their_seed(
    logits: list[float], temperature: float, top_p: float, seed: int
) -> None:
    row, one, other = torch.tensor(logits), *(Sampler(temperature, top_p, seed) for _ in range(2))
    drawn = [one.pick(row) for _ in range(8)]
    assert set(drawn) <= nucleus(logits, temperature, top_p)
    assert [other.pick(row) for _ in range(8)] == drawn


def test_draws_follow_the_probabilities() -> None:
    sampler, row = Sampler(0.5, 0.95, 3), torch.tensor([0.0, 1.0, 0.5, -3.0])
    counts = torch.zeros(4)
    for _ in range(4000):
        counts[sampler.pick(row)] += 1
    kept = torch.tensor([0.0, 2.0, 1.0]).softmax(-1)  # the last lies outside 0.95
    assert counts[3] == 0
    assert torch.allclose(counts[:3] / 4000, kept, atol=0.03)


def test_greedy_needs_no_seed_and_without_one_draws_differ() -> None:
    row = torch.tensor([0.1, 0.3, 0.2])
    assert [Sampler(0, 1, None).pick(row) for _ in range(3)] == [1, 1, 1]
    flat = torch.zeros(1000)
    assert len({Sampler(1, 1, None).pick(flat) for _ in range(20)}) > 1


@pytest.mark.parametrize("top", [0, 3])
def test_chances_are_log_softmax(top: int) -> None:
    logits, tokens = torch.randn(4, 9, generator=torch.Generator().manual_seed(0)), torch.tensor([2, 0, 8, 5])
    for place, one in enumerate(chances(logits, tokens, top)):
        total = sum(math.exp(logit) for logit in logits[place].tolist())
        naive = [math.log(math.exp(logit) / total) for logit in logits[place].tolist()]
        assert one.token == tokens[place]
        assert one.logprob == pytest.approx(naive[one.token], abs=1e-5)
        best = sorted(range(9), key=lambda token: -naive[token])[:top]
        assert [token for token, _ in one.likeliest] == best
        assert [chance for _, chance in one.likeliest] == pytest.approx([naive[token] for token in best], abs=1e-5)
