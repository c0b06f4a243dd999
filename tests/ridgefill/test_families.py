"""Families: what each gives is what the transformers model itself computes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import DynamicCache, GPT2Config

from ridgefill.errors import FillUsageError
from ridgefill.families import FAMILIES, family_of
from ridgefill.families.base import FULL, RECURRENT, Family
from ridgefill.indexer import Choice, project


@pytest.mark.parametrize("changes", [{}, {"attention_bias": True}])
@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_contract(name: str, changes: dict[str, Any], tiny: Any, prompt: torch.Tensor) -> None:
    """Every family writes, bit for bit, what the model's own cache holds, and finishes a layer as it does."""
    model = tiny(name, **changes)
    family = family_of(model)
    assert family.name == name
    assert model.config.model_type in family.model_types
    base, kinds = family.base(model), family.layer_kinds(model.config)
    out = model(prompt, output_hidden_states=True)
    assert len(kinds) == len(base.layers)
    number = kinds.index(FULL, 2)
    layer, x, cached = base.layers[number], out.hidden_states[number], out.cache.layers[number]
    stream, x = x, family.block_input(layer, x)
    assert stream.shape[-1] == family.stream_width(model.config)
    assert x.shape[-1] == family.block_in_width(model.config)
    angles = family.angles(base, x, torch.arange(prompt.shape[1])[None])
    keys, values = family.keys_values(layer, x)
    assert torch.equal(family.rotate(keys, angles).transpose(1, 2), cached.keys)
    assert torch.equal(values.transpose(1, 2), cached.values)
    written = family.written(layer, x)
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(written[:2], (keys, values), strict=True))
    queries = family.rotate(family.queries(layer, x), angles).transpose(1, 2)
    chosen, indexer = None, family.indexer(layer)
    assert len(written) == (2 if indexer is None else 3)
    if indexer is not None:
        asks, raw = project(indexer, x)
        assert torch.equal(raw, cached.indexer_keys)
        assert torch.equal(raw, written[2][:, :, 0])
        choice = Choice(indexer, family.rotate(asks, angles), raw, angles, family.rotate, None)
        chosen = choice(slice(None), torch.arange(prompt.shape[1]))[:, None]
    attended = torch.nn.functional.scaled_dot_product_attention(
        queries, cached.keys, cached.values, attn_mask=chosen, is_causal=chosen is None, enable_gqa=True
    )
    assert torch.equal(family.finish(layer, stream, x, attended.transpose(1, 2)), out.hidden_states[number + 1])


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_contract_of_recurrent_layers(name: str, tiny: Any, prompt: torch.Tensor) -> None:
    """The state after all rows, and the next layer's input, are the model's own, bit for bit."""
    model = tiny(name)
    family = family_of(model)
    base, kinds = family.base(model), family.layer_kinds(model.config)
    out = model(prompt, output_hidden_states=True)
    for number, kind in enumerate(kinds):
        layer, stream = base.layers[number], out.hidden_states[number]
        x = family.block_input(layer, stream)
        assert kind in (FULL, RECURRENT)
        if kind == FULL:
            with pytest.raises((NotImplementedError, AttributeError)):
                family.updates(layer, x, None)
            continue
        mine, own = DynamicCache(config=model.config).layers[number], out.cache.layers[number]
        updates = family.updates(layer, x, None)
        assert updates.decay.dtype == torch.float32
        assert bool((updates.decay < 0).all())
        read = family.scan(layer, mine, updates)
        assert torch.equal(mine.recurrent_states[0], own.recurrent_states[0])
        assert torch.equal(mine.conv_states[0], own.conv_states[0])
        assert all(part.shape[:2] == x.shape[:2] for part in family.written(layer, x))
        if number + 1 < len(kinds):  # the last hidden state is past the final norm
            assert torch.equal(family.finish(layer, stream, x, read), out.hidden_states[number + 1])


def test_every_family_has_a_tiny_model(tiny: Any) -> None:
    for name in FAMILIES:
        assert family_of(tiny(name).config) is FAMILIES[name]


def test_qk_norm_is_not_forgotten(tiny: Any, prompt: torch.Tensor) -> None:
    """Keys of qwen3 without its norm are other keys: the contract above would notice."""
    model = tiny("qwen3")
    family, layer = family_of(model), model.model.layers[0]
    layer.self_attn.k_norm.weight.copy_(torch.linspace(0.5, 2, 8))
    x = model.model.embed_tokens(prompt)
    raw = layer.self_attn.k_proj(layer.input_layernorm(x)).view(1, -1, 2, 8)
    assert not torch.allclose(family.keys_values(layer, x)[0], raw, atol=0.1)


def test_an_unknown_architecture_is_refused_by_name() -> None:
    with pytest.raises(FillUsageError) as refused:
        family_of(GPT2Config())
    line = refused.value.line()
    assert "gpt2" in line
    assert all(name in line for name in FAMILIES)
    assert all(name in line for name in Family.__abstractmethods__)


def test_sliding_windows_are_refused(tiny: Any) -> None:
    kinds = ["full_attention"] * 3 + ["sliding_attention"] * 3
    model = tiny("qwen3", use_sliding_window=True, sliding_window=8, layer_types=kinds)
    with pytest.raises(FillUsageError, match="3 layers of sliding_attention"):
        family_of(model)
