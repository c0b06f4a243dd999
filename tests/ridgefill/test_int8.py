"""The int8 codec: the written rule, by a naive second implementation; and that rewriting changes no byte."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ridgefill import int8
from ridgefill.errors import FillMismatchError


def naive(weight: torch.Tensor) -> tuple[list[list[int]], list[list[float]]]:
    """Element by element, as formats.md words it."""
    codes, scales = [], []
    for row in weight.tolist():
        groups = [row[start : start + 128] for start in range(0, len(row), 128)]
        scale = [float(torch.tensor(max(map(abs, group)) / 127).to(torch.bfloat16)) or 1.0 for group in groups]
        codes.append([max(-127, min(127, round(v / s))) for group, s in zip(groups, scale, strict=True) for v in group])
        scales.append(scale)
    return codes, scales


@given(
    d_out=st.integers(1, 3),
    d_in=st.sampled_from([1, 64, 127, 128, 129, 256, 576]),
    scale=st.sampled_from([1e-30, 1e-3, 1.0, 300.0]),
    seed=st.integers(0, 99),
)
def test_encode_is_the_written_rule_and_decoding_encodes_to_the_same_bytes(
    d_out: int, d_in: int, scale: float, seed: int
) -> None:
    weight = torch.randn(d_out, d_in, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    weight = (weight * scale).float()
    codes, scales = int8.encode(weight)
    expected_codes, expected_scales = naive(weight)
    assert scales.float().tolist() == expected_scales
    # fp32 and fp64 quotients may fall on different sides of a half; never further apart.
    assert (codes.int() - torch.tensor(expected_codes).int()).abs().max() <= 1
    assert (codes.int() != torch.tensor(expected_codes).int()).float().mean() <= 0.01
    again = int8.encode(int8.decode(codes, scales))
    assert torch.equal(again[0], codes)
    assert torch.equal(again[1], scales)


@given(seed=st.integers(0, 999), d_in=st.sampled_from([128, 576]), scale=st.floats(1e-3, 1e3))
def test_error_is_within_half_a_step_and_so_under_half_a_percent(seed: int, d_in: int, scale: float) -> None:
    """Rounding a scale to bf16 moves it by at most 2^-8, so that a group's largest number is at most 127.5 steps and
    none is clamped by more than a half; and a half is 1 / 254 of that number, times as much."""
    weight = torch.randn(4, d_in, generator=torch.Generator().manual_seed(seed)) * scale
    codes, scales = int8.encode(weight)
    step, error = scales.float().repeat_interleave(128, 1)[:, :d_in], (int8.decode(codes, scales) - weight).abs()
    assert (error <= step * 0.5001).all()
    assert error.max() <= 0.004 * weight.abs().max()


def test_ties_go_to_even_and_an_all_zero_group_has_scale_one() -> None:
    weight = torch.zeros(1, 256)
    weight[0, :5] = torch.tensor([127.0, 0.5, 1.5, 2.5, -0.5])
    codes, scales = int8.encode(weight)
    assert scales.tolist() == [[1.0, 1.0]]
    assert codes[0, :5].tolist() == [127, 0, 2, 2, 0]
    assert codes[0, 128:].abs().sum() == 0


def test_a_short_last_group_has_its_own_encoding_and_its_own_scale() -> None:
    assert int8.encoding_of(5120) == "i8*bf16[1x128]"
    assert int8.encoding_of(576) != int8.encoding_of(640)
    weight = torch.ones(1, 576)
    weight[0, 512:] = 254.0
    codes, scales = int8.encode(weight)
    assert codes.shape == (1, 576)
    assert scales.shape == (1, 5)
    assert float(scales[0, 4]) == 2.0
    assert (codes == 127).all()


def test_scales_that_do_not_fit_are_refused() -> None:
    codes, scales = int8.encode(torch.ones(2, 256))
    with pytest.raises(FillMismatchError, match="scales do not fit"):
        int8.decode(codes, scales[:, :1])
