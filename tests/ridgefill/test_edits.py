"""Corrections and splices: what filled rows write, changed before the tail reads it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from ridgefill.corrections import key_rescale, ratio, value_rescale
from ridgefill.errors import FillUsageError
from ridgefill.families import family_of
from ridgefill.plan import Identity
from ridgefill.schedule import run
from ridgefill.splice import Splice, exact_heads

SPLIT, TAIL = 3, 6


class Off:
    """An arm whose predicted inputs are off by `by` in every component."""

    def __init__(self, true: Any, by: float) -> None:
        self.true, self.split, self.by = true, true.split, by

    def predict(self, layer: int, h: Tensor) -> Tensor:
        return self.true.predict(layer, h) + self.by


def test_ratio_is_the_mean_of_length_ratios_per_head() -> None:
    generator = torch.Generator().manual_seed(0)
    true, filled = torch.randn(2, 2, 5, 3, 4, generator=generator)
    got = ratio(true, filled)
    for b in range(2):
        for head in range(3):
            each = [float(true[b, t, head].norm() / filled[b, t, head].norm()) for t in range(5)]
            assert got[b, 0, head, 0] == pytest.approx(sum(each) / 5, rel=1e-5)
    assert torch.allclose(ratio(true, true * 4), torch.tensor(0.25), rtol=1e-5)
    assert ratio(true, torch.zeros_like(true)).isfinite().all()


@pytest.mark.parametrize("m", [2, 512])
def test_value_rescale_multiplies_filled_values_only(m: int, model: Any, prompt: Tensor, oracle: Any) -> None:
    """By s_g from the tail's first rows: filled values change by it, keys and exact rows not at all."""
    arm = Off(oracle(model, prompt, SPLIT), 0.5)
    plain = run(model, arm, prompt, tail=TAIL, rows=[4])
    rescaled = run(model, arm, prompt, tail=TAIL, rows=[4], edits=[value_rescale(m)])
    before, after = plain.cache.layers[SPLIT], rescaled.cache.layers[SPLIT]
    heads, layer = family_of(model), model.model.layers[SPLIT]
    first = slice(34, 34 + min(m, 5))
    true = heads.keys_values(layer, arm.true.inputs[SPLIT][:, first])[1]
    filled = heads.keys_values(layer, arm.true.inputs[SPLIT][:, first] + 0.5)[1]
    scale = (true.norm(dim=-1) / filled.norm(dim=-1)).mean(1)[0]
    assert (scale - 1).abs().min() > 1e-3
    expected = before.values[0, :, :34] * scale[:, None, None]
    expected[:, 4] = before.values[0, :, 4]
    assert torch.allclose(after.values[0, :, :34], expected, atol=1e-5)
    assert torch.equal(after.keys, before.keys)
    assert torch.equal(after.values[:, :, 34:], before.values[:, :, 34:])


def test_key_rescale_multiplies_filled_keys(model: Any, prompt: Tensor, oracle: Any) -> None:
    """Rotary keeps lengths, so it shows in the cache: each filled key is longer by its head's factor."""
    arm = Off(oracle(model, prompt, SPLIT), 0.5)
    before = run(model, arm, prompt, tail=TAIL).cache.layers[SPLIT]
    after = run(model, arm, prompt, tail=TAIL, edits=[key_rescale()]).cache.layers[SPLIT]
    factor = after.keys[:, :, :34].norm(dim=-1) / before.keys[:, :, :34].norm(dim=-1)
    assert torch.allclose(factor, factor[:, :, :1].expand_as(factor), rtol=1e-4)
    assert torch.equal(after.values, before.values)


@pytest.mark.parametrize("edit", [value_rescale(), key_rescale()])
def test_a_true_prediction_needs_no_rescale(edit: Any, model: Any, prompt: Tensor, oracle: Any) -> None:
    true = oracle(model, prompt, SPLIT)
    plain, edited = (run(model, true, prompt, tail=TAIL, edits=edits).cache for edits in ([], [edit]))
    for mine, theirs in zip(edited.layers, plain.layers, strict=True):
        assert torch.allclose(mine.keys, theirs.keys, atol=1e-5)
        assert torch.allclose(mine.values, theirs.values, atol=1e-5)


def test_a_rescale_without_a_tail_row_is_refused(model: Any, prompt: Tensor) -> None:
    with pytest.raises(FillUsageError, match="no tail row"):
        run(model, Identity(SPLIT), prompt, tail=1, edits=[value_rescale()])


def test_exact_heads_are_what_the_model_writes(model: Any, prompt: Tensor) -> None:
    exact, cache = exact_heads(model, prompt, SPLIT), model(prompt).cache
    family = family_of(model)
    angles = family.angles(model.model, model.model.embed_tokens(prompt), torch.arange(40)[None])
    assert sorted(exact) == [3, 4, 5]
    for layer, (keys, values) in exact.items():
        assert torch.equal(family.rotate(keys, angles).transpose(1, 2), cache.layers[layer].keys)
        assert torch.equal(values.transpose(1, 2), cache.layers[layer].values)
    assert not any(layer._forward_pre_hooks for layer in model.model.layers)


def test_splicing_both_is_the_exact_model(model: Any, prompt: Tensor, next_logits: Any) -> None:
    edits = [Splice(exact_heads(model, prompt, SPLIT), {"keys", "values"})]
    done = run(model, Identity(SPLIT), prompt, tail=TAIL, edits=edits)
    assert (next_logits(model, done.cache, prompt) - model(prompt).logits[:, -1]).abs().max() <= 1e-5


@pytest.mark.parametrize(("part", "other"), [("keys", "values"), ("values", "keys")])
def test_splicing_one_leaves_the_other_filled(part: Any, other: str, model: Any, prompt: Tensor) -> None:
    """Looked at where identity is first wrong: in the layer above the split."""
    exact, late = exact_heads(model, prompt, SPLIT), SPLIT + 1
    plain = run(model, Identity(SPLIT), prompt, tail=TAIL).cache.layers[late]
    done = run(model, Identity(SPLIT), prompt, tail=TAIL, edits=[Splice(exact, {part})]).cache.layers[late]
    own = model(prompt[:, :-1]).cache.layers[late]
    assert (getattr(done, part) - getattr(own, part)).abs().max() <= 1e-5
    assert torch.equal(getattr(done, other), getattr(plain, other))
    assert (getattr(plain, part) - getattr(own, part)).abs().max() > 0.1
