"""The count for experts, streams and chosen blocks, against a count row by row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import Qwen4ExpConfig, Qwen4ExpTextConfig

from ridgefill import cost
from ridgefill.cli import main
from ridgefill.cost import Indexing, Recurrence, Shape

# What the paper says of Flash-Next, and the defaults of its config where it says nothing; the indexer's budget and
# block are assumed.
SIZES: dict[str, Any] = {
    "hidden_size": 2560,
    "num_hidden_layers": 48,
    "indexer_n_heads": 4,
    "indexer_kv_heads": 1,
    "indexer_head_dim": 128,
    "indexer_budget": 2048,
    "indexer_compress_ratio": 16,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25},
}


def test_the_shape_comes_from_the_config_of_the_text_or_of_the_whole() -> None:
    shape = cost.shape_of(Qwen4ExpTextConfig(**SIZES))
    assert shape == cost.shape_of(Qwen4ExpConfig(text_config=SIZES))
    assert (shape.d, shape.d_in, shape.d_q, shape.d_kv, shape.gated) == (2560, 10_240, 4096, 512, True)
    assert shape.kinds(24, 48) == (6, 18)
    assert shape.f == 10 * 512 + 512  # of 512 experts a row meets 10, and the shared one
    assert shape.routing == 2560 * 513
    assert shape.mix == 10_240 * (2 * 320 + 4)
    assert shape.indexing == Indexing(heads=4, width=128, ratio=16, top=128)
    assert shape.recurrence == Recurrence(key_heads=16, value_heads=32, d_k=128, d_v=128, conv=4)


def row_by_row(shape: Shape, length: int, split: int, tail: int, exact: set[int], maps: bool) -> int:
    """Every multiply-accumulate of every row in every layer."""
    total, net, index = 0, shape.recurrence, shape.indexing
    assert net is not None
    assert index is not None
    for layer in range(shape.layers):
        for row in range(length):
            runs = layer < split or row >= length - tail or row in exact
            total += 0 if runs else shape.d * shape.d_in if maps else shape.mix
            if layer in shape.recurrent:
                mixed = 2 * net.key_heads * net.d_k + net.value_heads * net.d_v
                total += (shape.d + net.conv) * mixed + 2 * shape.d * net.value_heads
                total += 4 * net.value_heads * net.d_k * net.d_v
                total += 2 * shape.d * net.value_heads * net.d_v if runs else 0
            else:
                total += 2 * shape.d * shape.d_kv + shape.d * (index.heads + 1) * index.width
                blocks, behind = divmod(row + 1, index.ratio)
                read = min(blocks, index.top) * index.ratio + behind
                score = index.heads * index.width * blocks
                total += (3 * shape.d * shape.d_q + 2 * shape.d_q * read + score) if runs else 0
            total += (3 * shape.d * shape.f + shape.routing + 2 * shape.mix) if runs else 0
    return total


@given(
    layers=st.integers(2, 5),
    width=st.integers(1, 9),
    length=st.integers(2, 40),
    maps=st.booleans(),
    data=st.data(),
)
def test_the_formula_is_the_count_row_by_row(
    layers: int, width: int, length: int, maps: bool, data: st.DataObject
) -> None:
    """With no exact prefix rows, or, in a model without attention, with any."""
    recurrent = data.draw(st.sets(st.integers(0, layers - 1)))
    net = Recurrence(*(data.draw(st.integers(1, 5)) for _ in range(5)))
    index = Indexing(*(data.draw(st.integers(1, 5)) for _ in range(4)))
    routing, mix = data.draw(st.integers(0, 50)), data.draw(st.integers(0, 50))

    def shape_with(carried: set[int]) -> Shape:
        return Shape(layers, width, 3, 2, 5, 4 * width, True, tuple(sorted(carried)), net, routing, mix, index)

    shape, alone = shape_with(recurrent), shape_with(set(range(layers)))
    split, tail = data.draw(st.integers(1, layers - 1)), data.draw(st.integers(1, length - 1))
    assert cost.filled(shape, length, split, tail, maps=maps) == row_by_row(shape, length, split, tail, set(), maps)
    assert cost.exact(shape, length) == row_by_row(shape, length, layers, 1, set(), maps)
    rows = data.draw(st.sets(st.integers(0, length - tail - 1)))
    counted = cost.filled(alone, length, split, tail, maps=maps, exact_rows=len(rows))
    assert counted == row_by_row(alone, length, split, tail, rows, maps)


def test_scattered_rows_cost_the_mean_of_the_prefix() -> None:
    """Every prefix row exact is the exact model above the split, up to what was filled of them: nothing."""
    shape = cost.shape_of(Qwen4ExpTextConfig(**SIZES))
    whole = cost.filled(shape, 16_384, 24, 2048, exact_rows=16_384 - 2048)
    assert whole == cost.exact(shape, 16_384)


@pytest.mark.parametrize("length", [9_216, 16_384, 32_768])
def test_flash_next_stays_under_its_ceiling(length: int) -> None:
    """Maps cost something, so the count is under 1 / r, which leaves them out; and filling is worth it."""
    shape = cost.shape_of(Qwen4ExpTextConfig(**SIZES))
    speedup = cost.exact(shape, length) / cost.filled(shape, length, 24, 2048)
    assert 1.2 < speedup < 1 / cost.layer_share(48, length, 24, 2048)


def test_the_command_prints_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Qwen4ExpTextConfig(**SIZES).save_pretrained(tmp_path)
    options = ["--split", "24", "--tail", "2048", "--length", "16384", "--json"]
    monkeypatch.setattr("sys.argv", ["ridgefill", "maps", "cost", f"path:{tmp_path}", *options])
    with pytest.raises(SystemExit) as stop:
        main()
    out, err = capsys.readouterr()
    assert not stop.value.code, err
    shape = cost.shape_of(Qwen4ExpTextConfig(**SIZES))
    row = json.loads(out)["rows"][0]
    assert row["exact"] == cost.exact(shape, 16_384)
    assert row["filled"] == cost.filled(shape, 16_384, 24, 2048)
