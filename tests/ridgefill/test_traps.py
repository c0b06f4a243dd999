"""Silent traps of transformers 5.24: each test first shows that the trap is still there, then that we avoid it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import DynamicCache
from transformers.masking_utils import create_causal_mask

from ridgefill.context import filling
from ridgefill.errors import FillUsageError
from ridgefill.families import family_of
from ridgefill.plan import Identity, NoFill
from ridgefill.prompt import read_prompt
from ridgefill.schedule import extend, prefill, run
from ridgefill.sweep import Sweep

SPLIT, TAIL = 3, 6


@pytest.mark.parametrize("kernel", ["sdpa", "eager"])
def test_a_tail_without_a_mask_reads_the_wrong_rows(
    kernel: str, model: Any, prompt: torch.Tensor, oracle: Any, next_logits: Any
) -> None:
    """sdpa with no mask attends to the first T cache rows, eager to all: silently wrong by far."""
    true, base = oracle(model, prompt, SPLIT), model.model
    model.config._attn_implementation = kernel
    cache = model(prompt[:, :34]).cache
    positions = torch.arange(34, 40)[None]
    tail = true.inputs[SPLIT][:, 34:]
    angles = base.rotary_emb(tail, position_ids=positions)
    unmasked = base.layers[SPLIT](tail, None, positions, cache, True, position_embeddings=angles)
    assert (unmasked - true.inputs[SPLIT + 1][:, 34:]).abs().max() > 0.1
    ours = prefill(model, true, prompt, tail=TAIL)
    assert (next_logits(model, ours, prompt) - true.logits[:, -1]).abs().max() <= 1e-5


def test_masks_are_sized_from_the_first_layer(model: Any, prompt: torch.Tensor) -> None:
    """After the lower layers ran, transformers' mask for late rows has N columns too many; ours come per layer."""
    cache = prefill(model, NoFill(SPLIT), prompt, tail=TAIL)
    rows = torch.arange(39, 42)[None]
    mask = create_causal_mask(model.config, torch.empty(1, 3, 32), None, cache, rows)
    assert mask.shape[-1] == 42 != cache.layers[SPLIT].keys.shape[2] + 3
    more = torch.tensor([[5, 6, 7]])
    together = extend(model, cache, more)
    cache = prefill(model, NoFill(SPLIT), prompt, tail=TAIL)
    one_by_one = torch.cat([extend(model, cache, more[:, i : i + 1]) for i in range(3)], 1)
    assert (together - one_by_one).abs().max() <= 1e-5


def test_shorter_late_layers_break_the_models_own_steps(model: Any, prompt: torch.Tensor) -> None:
    """No fill: several tokens at once fail in the model's own forward; inside `filling` they do not."""
    more = torch.tensor([[5, 6, 7]])
    with pytest.raises(RuntimeError):
        model(more, cache=prefill(model, NoFill(SPLIT), prompt, tail=TAIL))
    with filling(model, NoFill(SPLIT), tail=TAIL):
        cache = model(prompt, logits_to_keep=1).cache
        filled = model(more, cache=cache).logits
    cache = prefill(model, NoFill(SPLIT), prompt, tail=TAIL)
    assert (filled - extend(model, cache, torch.cat((prompt[:, -1:], more), 1))[:, 1:]).abs().max() <= 1e-5


def test_gappy_positions_look_like_packed_documents(model: Any, prompt: torch.Tensor) -> None:
    """Without a mask or cache, positions that jump make transformers separate the rows; padded prompts have
    such positions, so the exact arm always passes their mask."""
    jump = torch.tensor([[0, 1, 2, 10, 11, 12]])
    ids = prompt[:, :6]
    packed = model(ids, position_ids=jump, use_cache=False).logits[:, -1]
    alone = model(ids[:, 3:], position_ids=jump[:, 3:], use_cache=False).logits[:, -1]
    assert torch.allclose(packed, alone, atol=1e-5)  # the first three rows are not seen
    padded = torch.cat((torch.zeros(1, 3, dtype=torch.long), prompt), 1)
    mask = (torch.arange(43) >= 3).long()[None]
    exact = prefill(model, None, padded, attention_mask=mask)
    for mine, theirs in zip(exact.layers, model(prompt[:, :-1]).cache.layers, strict=True):
        assert (mine.keys[:, :, 3:] - theirs.keys).abs().max() <= 1e-5


def test_a_full_cache_feeds_the_whole_prompt_again(model: Any, prompt: torch.Tensor) -> None:
    """A cache of N tokens makes generate's slice [-0:] the whole prompt: other tokens and no error. Ours ends
    at N-1, for every arm and length."""
    own = model.generate(prompt, max_new_tokens=12, do_sample=False)
    wrong = model.generate(prompt, cache=model(prompt).cache, max_new_tokens=12, do_sample=False)
    assert not torch.equal(own, wrong)
    for fill in (None, Identity(SPLIT), NoFill(SPLIT)):
        for length in (1, 2, 12, 13, 40):
            cache = prefill(model, fill, prompt[:, :length], tail=TAIL)
            assert cache.get_seq_length() == length - 1
    right = model.generate(prompt, cache=prefill(model, None, prompt), max_new_tokens=12, do_sample=False)
    assert torch.equal(own, right)


@pytest.mark.parametrize("lazy", [False, True])
def test_an_empty_cache_is_false_and_may_have_no_layers(lazy: bool, model: Any, prompt: torch.Tensor) -> None:
    """`cache or X` would drop the caller's cache; DynamicCache() without a config has no layers yet."""
    cache = DynamicCache() if lazy else DynamicCache(config=model.config)
    assert bool(cache) is not lazy
    with filling(model, Identity(SPLIT), tail=TAIL):
        out = model(prompt, cache=cache, logits_to_keep=1)
    assert out.cache is cache
    assert cache.get_seq_length() == 40
    assert len(cache.layers) == 6


def test_left_padding_without_a_mask_is_refused(model: Any, prompt: torch.Tensor) -> None:
    padded = torch.cat((torch.zeros(1, 3, dtype=torch.long), prompt), 1)
    for ids in (padded, torch.cat((padded, torch.full_like(padded, 5)))):
        with pytest.raises(FillUsageError, match="no attention mask"):
            prefill(model, Identity(SPLIT), ids, tail=TAIL)


def test_a_prompt_may_start_with_a_padding_token_that_is_bos(tiny: Any, prompt: torch.Tensor) -> None:
    model = tiny("llama", bos_token_id=0)
    ids = torch.cat((torch.zeros(1, 1, dtype=torch.long), prompt), 1)
    assert prefill(model, Identity(SPLIT), ids, tail=TAIL).get_seq_length() == 40


@pytest.mark.parametrize("mask", [[1, 1, 1, 0], [1, 0, 1, 1], [0, 0, 0, 0], [1, 1, 1]])
def test_other_masks_are_refused(mask: list[int], model: Any, prompt: torch.Tensor) -> None:
    with pytest.raises(FillUsageError, match="mask"):
        read_prompt(model, prompt[:, :4], torch.tensor([mask]))


def test_rotary_is_asked_once(model: Any, prompt: torch.Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kinds of rotary that scale with the length change state at every call."""
    calls = []
    forward = model.model.rotary_emb.forward
    monkeypatch.setattr(
        model.model.rotary_emb, "forward", lambda x, position_ids: (calls.append(1), forward(x, position_ids))[1]
    )
    prefill(model, Identity(SPLIT), prompt, tail=TAIL, chunk=7)
    assert len(calls) == 1


def test_rows_keep_their_true_positions(model: Any, prompt: torch.Tensor, oracle: Any) -> None:
    """Scattered exact rows are turned by their own positions, not by their order."""
    true = oracle(model, prompt, SPLIT)
    family, layer = family_of(model), model.model.layers[SPLIT]
    done = run(model, true, prompt, tail=TAIL, rows=[20])
    keys, _ = family.keys_values(layer, true.inputs[SPLIT][:, 20:21])
    right, wrong = (family.rotate(keys, family.angles(model.model, keys, torch.tensor([[at]])))[0, 0] for at in (20, 0))
    stored = done.cache.layers[SPLIT].keys[0, :, 20]
    assert (stored - right).abs().max() <= 1e-5
    assert (stored - wrong).abs().max() > 0.1


def test_attention_scores_are_grouped_as_eager_ones(model: Any, prompt: torch.Tensor) -> None:
    """Query heads 0, 1 read key head 0 and 2, 3 read key head 1; the sum equals eager attention's."""
    sweep = Sweep(model, read_prompt(model, prompt), model(prompt).cache)
    x = model(prompt, output_hidden_states=True).hidden_states[2]
    mass = sweep.received(2, x[:, 30:], torch.arange(30, 40))
    model.config._attn_implementation = "eager"
    eager = model(prompt, output_attentions=True).attentions[2][:, :, 30:].sum((1, 2))
    assert (mass - eager).abs().max() <= 1e-5
