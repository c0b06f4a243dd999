"""Block-wise attention against a naive one, and the two bounds that make attention the measure of a row."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ridgefill import attention
from ridgefill.attention import attend, received


def naive(
    queries: Tensor, keys: Tensor, values: Tensor, columns: Tensor, padded: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Attended [B, n, H, hd] and weights [B, n, H, N], in float64, one row and head at a time."""
    batch, n, heads, width = queries.shape
    group = heads // keys.shape[1]
    out = torch.zeros(batch, n, heads, width, dtype=torch.float64)
    weights = torch.zeros(batch, n, heads, keys.shape[2], dtype=torch.float64)
    for b in range(batch):
        for i, column in enumerate(columns.tolist()):
            seen = torch.arange(keys.shape[2]) <= column
            if padded is not None:
                seen &= ~padded[b] | (torch.arange(keys.shape[2]) == column)
            for head in range(heads):
                k, v = keys[b, head // group].double(), values[b, head // group].double()
                scores = (k @ queries[b, i, head].double()) / math.sqrt(width)
                weights[b, i, head] = scores.masked_fill(~seen, -torch.inf).softmax(0)
                out[b, i, head] = weights[b, i, head] @ v
    return out, weights


def heads_of(seed: int, batch: int, n: int, total: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    queries = torch.randn(batch, n, 4, 8, generator=generator)
    keys, values = torch.randn(2, batch, 2, total, 8, generator=generator)
    return queries.to(dtype), keys.to(dtype), values.to(dtype)


@pytest.mark.parametrize(("dtype", "error"), [(torch.float32, 1e-5), (torch.bfloat16, 4e-2)])
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_attend_equals_the_naive_one(dtype: torch.dtype, error: float, data: st.DataObject) -> None:
    total = data.draw(st.integers(1, 40))
    columns = torch.tensor(sorted(data.draw(st.sets(st.integers(0, total - 1), min_size=1))))
    batch, block = data.draw(st.integers(1, 2)), data.draw(st.sampled_from([2, 6, 64]))
    pads = data.draw(st.one_of(st.none(), st.integers(1, total)))
    padded = None
    if pads is not None:
        padded = torch.arange(total).expand(batch, -1) < torch.tensor([[pads], [0]])[:batch]
    heads = heads_of(data.draw(st.integers(0, 99)), batch, len(columns), total, dtype)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention, "SDPA_ROWS", block)
        patch.setattr(attention, "MATMUL_ROWS", block)
        got = attend(*heads, columns, padded)
        mass = received(heads[0], heads[1], columns, padded)
    expected, weights = naive(*heads, columns, padded)
    assert got.dtype == dtype
    assert (got.double() - expected).abs().max() <= error
    assert (mass.double() - weights.sum((1, 2))).abs().max() <= 1e-3


def test_whole_prompts_take_the_causal_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows 0..n-1 need no mask at all; the result is the same."""
    heads = heads_of(3, 1, 20, 20, torch.float32)
    expected, _ = naive(*heads, torch.arange(20), None)
    monkeypatch.setattr(attention, "_hidden", None)  # a mask would be made by calling it
    assert (attend(*heads, torch.arange(20), None).double() - expected).abs().max() <= 1e-5


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 10_000), total=st.integers(2, 30), data=st.data())
def test_a_changed_value_moves_the_output_by_attention_times_the_change(
    seed: int, total: int, data: st.DataObject
) -> None:
    """If row j's value changes by d, a query's output changes by exactly a_qj * |d| (method-spec)."""
    queries, keys, values = heads_of(seed, 1, 1, total, torch.float64)
    j, at = data.draw(st.integers(0, total - 1)), torch.tensor([total - 1])
    change = torch.randn(8, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    changed = values.clone()
    changed[:, :, j] += change
    moved = (attend(queries, keys, changed, at, None) - attend(queries, keys, values, at, None)).norm(dim=-1)
    _, weights = naive(queries, keys, values, at, None)
    assert torch.allclose(moved[0, 0], weights[0, 0, :, j] * change.norm(), rtol=1e-9, atol=1e-12)


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 10_000), total=st.integers(2, 30), shift=st.floats(-6, 6), data=st.data())
def test_a_changed_score_moves_the_output_within_the_bound(
    seed: int, total: int, shift: float, data: st.DataObject
) -> None:
    """If its score changes by e, at most by 2 * V_q * a_qj * (exp|e| - 1)."""
    queries, keys, values = heads_of(seed, 1, 1, total, torch.float64)
    j, at = data.draw(st.integers(0, total - 1)), torch.tensor([total - 1])
    _, weights = naive(queries, keys, values, at, None)
    for head in range(4):
        query = queries[0, 0, head]
        changed = keys.clone()
        changed[0, head // 2, j] += query * (shift * math.sqrt(8) / (query @ query))
        moved = (attend(queries, changed, values, at, None) - attend(queries, keys, values, at, None))[
            0, 0, head
        ].norm()
        largest = values[0, head // 2].norm(dim=-1).max()
        bound = 2 * largest * weights[0, 0, head, j] * (math.exp(abs(shift)) - 1)
        assert moved <= bound * (1 + 1e-9) + 1e-12
