"""The count against the paper's published facts, and against a count row by row."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import LlamaConfig, Qwen3Config

from ridgefill import cost
from ridgefill.cost import Shape
from ridgefill.errors import FillUsageError

# Public configs of Llama-3.1-8B and Qwen3-8B.
LLAMA = Shape(layers=32, d=4096, d_q=4096, d_kv=1024, f=14336, d_in=4096)
QWEN = Shape(layers=36, d=4096, d_q=4096, d_kv=1024, f=12288, d_in=4096)
TAIL = 4096


@pytest.mark.parametrize(
    ("shape", "split", "tokens"),
    [(LLAMA, 16, 14_333), (LLAMA, 20, 45_660), (QWEN, 13, 10_552), (QWEN, 22, 58_891)],
)
def test_the_four_crossings_with_pop(shape: Shape, split: int, tokens: int) -> None:
    assert cost.crossing(shape, split, TAIL) == tokens
    for length, cheaper in ((tokens - 1, False), (tokens + 1, True)):
        assert (cost.filled(shape, length, split, TAIL) < cost.pop(shape, length)) is cheaper


@pytest.mark.parametrize(
    ("split", "length", "printed"), [(13, 32768, "0.759"), (22, 32768, "1.042"), (22, 65536, "0.994")]
)
def test_the_three_shares_of_pop(split: int, length: int, printed: str) -> None:
    """24.1 % less, 1.042 and 0.994."""
    assert f"{cost.filled(QWEN, length, split, TAIL) / cost.pop(QWEN, length):.3f}" == printed


@pytest.mark.parametrize(("length", "ceiling"), [(9 * 1024, "1.64"), (16 * 1024, "1.78"), (32 * 1024, "1.88")])
def test_the_ceilings_of_flash_next(length: int, ceiling: str) -> None:
    """L = 48, S = 24, T = 2,048."""
    assert f"{float(1 / cost.layer_share(48, length, 24, 2048)):.2f}" == ceiling


def test_pop_s_own_split() -> None:
    assert [cost.pop_split(layers) for layers in (30, 32, 36)] == [20, 22, 24]


def test_shapes_come_from_configs() -> None:
    llama = LlamaConfig(
        hidden_size=4096,
        num_attention_heads=32,
        num_key_value_heads=8,
        num_hidden_layers=32,
        intermediate_size=14336,
    )
    assert cost.shape_of(llama) == LLAMA
    qwen = Qwen3Config(
        hidden_size=1024,
        num_attention_heads=16,
        num_key_value_heads=8,
        head_dim=128,
        num_hidden_layers=28,
        intermediate_size=3072,
    )
    assert cost.shape_of(qwen) == Shape(layers=28, d=1024, d_q=2048, d_kv=1024, f=3072, d_in=1024)


def row_by_row(shape: Shape, length: int, split: int, tail: int, maps: bool) -> int:
    """Every multiply-accumulate of every row in every layer, added up one row at a time."""
    total = 0
    for layer in range(shape.layers):
        for row in range(length):
            kv = 2 * shape.d * shape.d_kv
            if layer >= split and row < length - tail:
                total += kv + (shape.d * shape.d_in if maps else 0)
            else:
                projections = 2 * shape.d * shape.d_q + kv + 3 * shape.d * shape.f
                total += projections + 2 * shape.d_q * (row + 1)
    return total


@given(
    layers=st.integers(2, 5),
    d=st.integers(1, 9),
    d_q=st.integers(1, 9),
    d_kv=st.integers(1, 9),
    f=st.integers(1, 9),
    length=st.integers(2, 20),
    maps=st.booleans(),
    data=st.data(),
)
def test_the_formula_is_the_count_row_by_row(
    layers: int, d: int, d_q: int, d_kv: int, f: int, length: int, maps: bool, data: st.DataObject
) -> None:
    shape = Shape(layers, d, d_q, d_kv, f, d)
    split = data.draw(st.integers(1, layers - 1))
    tail = data.draw(st.integers(1, length - 1))
    assert cost.filled(shape, length, split, tail, maps=maps) == row_by_row(shape, length, split, tail, maps)
    assert cost.exact(shape, length) == row_by_row(shape, length, layers, 1, maps)


@given(split=st.integers(1, 31), length=st.integers(2, 100_000), data=st.data())
def test_the_share_lies_between_the_split_s_and_one(split: int, length: int, data: st.DataObject) -> None:
    tail = data.draw(st.integers(1, length - 1))
    share = cost.layer_share(32, length, split, tail)
    assert split / 32 < share < 1


def test_exact_rows_and_rescale_rows_cost_what_they_add() -> None:
    plain = cost.filled(LLAMA, 8192, 16, 512)
    rows = cost.filled(LLAMA, 8192, 16, 512, exact_rows=100)
    per_row = LLAMA.row - LLAMA.filled(True) + LLAMA.d_q * (8192 - 512)
    assert rows - plain == 16 * 100 * per_row
    assert cost.filled(LLAMA, 8192, 16, 512, rescale_rows=512) - plain == 16 * 512 * LLAMA.filled(True)


@pytest.mark.parametrize(("split", "tail", "rows"), [(0, 1, 0), (32, 1, 0), (16, 0, 0), (16, 100, 0), (16, 10, 91)])
def test_what_cannot_be_meant_is_refused(split: int, tail: int, rows: int) -> None:
    with pytest.raises(FillUsageError):
        cost.filled(LLAMA, 100, split, tail, exact_rows=rows)


def test_no_crossing_where_more_layers_run_than_pop_s() -> None:
    assert cost.crossing(LLAMA, 31, TAIL) is None
