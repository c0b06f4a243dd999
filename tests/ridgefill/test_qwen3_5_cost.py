"""The count for hybrids: the 27B's published shares, and a count row by row."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import Qwen3_5Config, Qwen3_5TextConfig

from ridgefill import cost
from ridgefill.cost import Recurrence, Shape
from ridgefill.errors import FillUsageError

# The public config of Qwen3.5-27B, as the paper's README assumes it for Qwen3.8-27B.
SIZES = {
    "hidden_size": 5120,
    "intermediate_size": 17408,
    "num_hidden_layers": 64,
    "num_attention_heads": 24,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 48,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
}
SPLIT, TAIL = 16, 4096


@pytest.mark.parametrize(
    ("length", "share", "predict_all", "skipped"),
    [
        (16_384, 54, True, "30.4"),
        (120_000, 67, True, "42.1"),
        (16_384, 54, False, "31.2"),
        (120_000, 67, False, "42.8"),
    ],
)
def test_the_share_that_the_27b_skips(length: int, share: int, predict_all: bool, skipped: str) -> None:
    """Published: 30 and 42 %. Agrees if every prefix row is charged every map."""
    shape = cost.shape_of(Qwen3_5TextConfig(**SIZES))
    rows = length - TAIL - round(length * share / 100)
    ours = cost.filled(
        shape,
        length,
        SPLIT,
        TAIL,
        exact_rows=rows,
        rescale_rows=512,
        probe_rows=256,
        predict_all=predict_all,
    )
    assert f"{100 * (1 - ours / cost.exact(shape, length)):.1f}" == skipped


def test_the_shape_comes_from_the_config_of_the_text_or_of_the_whole() -> None:
    shape = cost.shape_of(Qwen3_5TextConfig(**SIZES))
    assert shape == cost.shape_of(Qwen3_5Config(text_config=SIZES))
    assert (shape.d_q, shape.d_kv, shape.gated) == (6144, 1024, True)
    assert shape.kinds(0, 16) == (4, 12)
    assert shape.kinds(16, 64) == (12, 36)
    assert shape.recurrence == Recurrence(key_heads=16, value_heads=48, d_k=128, d_v=128, conv=4)


def row_by_row(shape: Shape, length: int, split: int, tail: int, exact: set[int], maps: bool) -> int:
    """Every multiply-accumulate of every row in every layer; exact rows attend to what stands before them."""
    total, net = 0, shape.recurrence
    assert net is not None
    for layer in range(shape.layers):
        for row in range(length):
            runs = layer < split or row >= length - tail or row in exact
            total += 0 if runs or not maps else shape.d * shape.d_in
            if layer in shape.recurrent:
                mixed = 2 * net.key_heads * net.d_k + net.value_heads * net.d_v
                total += (shape.d + net.conv) * mixed + 2 * shape.d * net.value_heads
                total += 4 * net.value_heads * net.d_k * net.d_v
                total += 2 * shape.d * net.value_heads * net.d_v if runs else 0
            else:
                total += 2 * shape.d * shape.d_kv
                total += (3 * shape.d * shape.d_q + 2 * shape.d_q * (row + 1)) if runs else 0
            total += 3 * shape.d * shape.f if runs else 0
    return total


@given(
    layers=st.integers(2, 6),
    width=st.integers(1, 9),
    length=st.integers(2, 20),
    maps=st.booleans(),
    data=st.data(),
)
def test_the_formula_is_the_count_row_by_row(
    layers: int, width: int, length: int, maps: bool, data: st.DataObject
) -> None:
    """With no exact prefix rows, or, in a model without attention, with any."""
    recurrent = data.draw(st.sets(st.integers(0, layers - 1)))
    net = Recurrence(*(data.draw(st.integers(1, 5)) for _ in range(5)))
    shape = Shape(layers, width, 3, 2, 5, width, True, tuple(sorted(recurrent)), net)
    split, tail = data.draw(st.integers(1, layers - 1)), data.draw(st.integers(1, length - 1))
    assert cost.filled(shape, length, split, tail, maps=maps) == row_by_row(shape, length, split, tail, set(), maps)
    assert cost.exact(shape, length) == row_by_row(shape, length, layers, 1, set(), maps)
    alone = Shape(layers, width, 3, 2, 5, width, True, tuple(range(layers)), net)
    rows = data.draw(st.sets(st.integers(0, length - tail - 1)))
    counted = cost.filled(alone, length, split, tail, maps=maps, exact_rows=len(rows))
    assert counted == row_by_row(alone, length, split, tail, rows, maps)


def test_the_probe_costs_its_rows_and_the_first_sweep() -> None:
    """Exact rows no longer save their own filling in attention layers; the probe's rows run every late layer."""
    shape = cost.shape_of(Qwen3_5TextConfig(**SIZES))
    plain = cost.filled(shape, 16_384, SPLIT, TAIL, exact_rows=1000)
    probed = cost.filled(shape, 16_384, SPLIT, TAIL, exact_rows=1000, probe_rows=256)
    late = 12 * (256 * shape.row + shape.attention(16_384 - 256, 16_384)) + 36 * 256 * shape.recurrent_row
    assert probed - plain == late + 12 * 1000 * shape.filled(True)


def test_more_probe_rows_than_tokens_are_refused() -> None:
    with pytest.raises(FillUsageError, match="more rows than there are"):
        cost.filled(cost.shape_of(Qwen3_5TextConfig(**SIZES)), 8192, SPLIT, TAIL, probe_rows=8193)
