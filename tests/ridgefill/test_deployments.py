"""The ready configurations: Table 4's settings, and each runs a model of its kind and depth."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import ridgefill
from ridgefill.context import filling
from ridgefill.corrections import CORRECTIONS
from ridgefill.deployments import DEPLOYMENTS, Deployment, deployment
from ridgefill.errors import FillUsageError
from ridgefill.plan import Identity
from ridgefill.rowsel import RowTable
from ridgefill.schedule import run
from ridgefill.selectors import SELECTORS
from ridgefill.selectors.protected import Protected
from ridgefill.terminal import correct

# name, layers, split, tail, rows, corrections: Table 4, row by row
TABLE_4 = [
    ("reference", 32, 12, 4096, "", ()),
    ("reference", 36, 13, 4096, "", ()),
    ("qwen3.8-27b", 64, 16, 4096, "probe", ("value-rescale",)),
    ("flash-next", 48, 24, 2048, "", ()),
    ("flash-next-quality", 48, 24, 2048, "protected", ("terminal-state",)),
]


def text(step: int, length: int = 300) -> str:
    return " ".join(f"w{(i * i + step * i) % 95 + 2}" for i in range(length))


@pytest.mark.parametrize(("name", "layers", "split", "tail", "rows", "corrections"), TABLE_4)
def test_it_is_table_4(name: str, layers: int, split: int, tail: int, rows: str, corrections: tuple[str, ...]) -> None:
    ready = deployment(name)
    assert (ready.split(layers), ready.tail, ready.rows, ready.corrections) == (split, tail, rows, corrections)


def test_all_of_them_and_no_more() -> None:
    assert {row[0] for row in TABLE_4} == DEPLOYMENTS.keys()
    for ready in DEPLOYMENTS.values():
        assert ready.rows in ("", *SELECTORS)
        assert set(ready.corrections) <= CORRECTIONS.keys()


def test_an_unknown_name_and_another_depth_are_refused(tiny: Any, words: Any) -> None:
    with pytest.raises(FillUsageError, match=r"no such deployment.*flash-next-quality.*'flash'"):
        deployment("flash")
    with pytest.raises(FillUsageError, match=r"flash-next says nothing.*48 layers.*found 6"):
        deployment("flash-next").options(tiny("llama"), Identity(3), words)


@pytest.mark.parametrize(
    ("name", "family", "layers"),
    [
        ("reference", "llama", 32),
        ("reference", "qwen3_5", 32),
        ("reference", "qwen3", 36),
        ("flash-next", "qwen4_exp", 48),
    ],
)
def test_a_model_of_that_depth_is_filled(name: str, family: str, layers: int, tiny: Any, words: Any) -> None:
    model, ready = tiny(family, num_hidden_layers=layers), deployment(name)
    ids = torch.randint(2, 97, (1, 2 * ready.tail + 1), generator=torch.Generator().manual_seed(0))
    options = ready.options(model, Identity(ready.split(layers)), words)
    assert options["rows"] is None
    with pytest.raises(FillUsageError, match="another split"):
        run(model, Identity(3), ids, **options)
    short = run(model, Identity(ready.split(layers)), ids[:, :90], **options | {"tail": 13})
    assert (short.plan.split, short.plan.prefix, short.plan.exactly) == (ready.split(layers), 77, "")


def test_quality_mode_protects_tokens_and_corrects_states(tiny: Any, words: Any) -> None:
    """The rows are those of the maps' own table, the correction is the one they carry; without it, a refusal."""
    model = tiny("qwen4_exp")
    published = deployment("flash-next-quality")
    ready = Deployment(published.name, {8: 4}, 13, published.rows, published.corrections)
    maps = ridgefill.fit(model, words, [text(1)], splits=[4], penalty=0.1)[4]
    with pytest.raises(FillUsageError, match="no terminal-state correction"):
        ready.options(model, maps, words)
    table = RowTable(*[torch.arange(97).float()] * 3)
    maps = table.attach(correct(model, words, maps, [text(2)], every=64), [text(1)])
    options = ready.options(model, maps, words)
    assert isinstance(options["rows"], Protected)
    assert torch.equal(options["rows"].score, table.score)
    ids = torch.tensor([words(text(4, 90))["input_ids"]])
    with filling(model, maps, **options) as filled:
        model(ids, logits_to_keep=1)
    assert len(filled.rows) == 13 + -(-77 // 4)
    plain = run(model, maps, ids, tail=13, rows=options["rows"]).cache
    quality = run(model, maps, ids, **options).cache
    assert not torch.equal(plain.layers[6].recurrent_states[0], quality.layers[6].recurrent_states[0])


def test_the_27b_s_rows_know_the_maps_table(tiny: Any, words: Any) -> None:
    model, published = tiny("qwen3_5"), deployment("qwen3.8-27b")
    ready = Deployment(published.name, {8: 4}, 13, published.rows, published.corrections)
    maps = ridgefill.fit(model, words, [text(1)], splits=[4], penalty=0.1)[4]
    table = RowTable(*[torch.arange(97).float()] * 3)
    options = ready.options(model, table.attach(maps, [text(1)]), words)
    assert torch.equal(options["rows"].protected.score, table.score)
    ids = torch.tensor([words(text(4, 90))["input_ids"]])
    done = run(model, maps, ids, **options)
    assert len(done.rows) > 12
