"""Gated DeltaNet hybrids against the model itself: true inputs in place of maps give the model's own answers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import (
    DynamicCache,
)

from ridgefill import recurrent, sweep
from ridgefill.context import filling
from ridgefill.corrections import value_rescale
from ridgefill.plan import Identity, NoFill
from ridgefill.schedule import extend, prefill, run
from ridgefill.splice import Splice, exact_heads

SPLIT, TAIL = 4, 13  # attention layers are 3 and 7 of 8
LENGTHS = (63, 64, 65, 511)
ROWS = [0, 3, 9, 20, 33]


@pytest.fixture
def model(tiny: Any) -> Any:
    return tiny("qwen3_5")


def ids_of(length: int, batch: int = 1) -> Tensor:
    return torch.randint(2, 97, (batch, length), generator=torch.Generator().manual_seed(length))


def distance(mine: Tensor, theirs: Tensor) -> float:
    """Relative, over all numbers."""
    return float((mine - theirs).double().norm() / theirs.double().norm())


def carried(cache: Any) -> list[Tensor]:
    """The recurrent state of every recurrent layer."""
    return [layer.recurrent_states[0] for layer in cache.layers if hasattr(layer, "recurrent_states")]


def states(cache: Any) -> list[Tensor]:
    """Recurrent and convolution states of every recurrent layer."""
    kept = [layer for layer in cache.layers if hasattr(layer, "recurrent_states")]
    return [store[0] for layer in kept for store in (layer.recurrent_states, layer.conv_states)]


def in_bytes(cache: Any) -> list[Tensor]:
    """Everything that a cache holds, as bytes."""
    rows = [getattr(layer, name) for layer in cache.layers if hasattr(layer, "keys") for name in ("keys", "values")]
    return [tensor.contiguous().view(torch.uint8) for tensor in [*rows, *states(cache)]]


def test_the_test_model_remembers(model: Any) -> None:
    """Other first tokens still show in the lowest state 500 rows later, in the heads that are meant to remember."""
    ids = ids_of(511)
    other = torch.cat(((ids[:, :16] + 3) % 95 + 2, ids[:, 16:]), 1)
    first, second = (model(tokens).cache.layers[0].recurrent_states[0] for tokens in (ids, other))
    moved = (first - second).flatten(2).norm(dim=-1)[0] / first.flatten(2).norm(dim=-1)[0]
    assert moved[0] < 1e-9
    assert moved[-1] > 1e-3


@pytest.mark.parametrize("rows", [None, ROWS])
@pytest.mark.parametrize("split", [2, 3, 4, 5])
@pytest.mark.parametrize("length", LENGTHS)
def test_oracle(length: int, split: int, rows: Any, model: Any, oracle: Any, next_logits: Any) -> None:
    """Splits before and after an attention layer; prefixes of 50, 51, 52 and 498 rows."""
    ids = ids_of(length)
    # The model's own way too is N - 1 rows and then a step: all N at once differ from that by up to 1e-5.
    true, own = oracle(model, ids[:, :-1], split), model(ids[:, :-1]).cache
    done = run(model, true, ids, tail=TAIL, rows=rows)
    assert done.rows.tolist() == [*(rows or []), *range(length - TAIL, length - 1)]
    assert all(state.dtype == torch.float32 for state in states(done.cache))
    for mine, theirs in zip(carried(done.cache), carried(own), strict=True):
        assert distance(mine, theirs) <= (1e-7 if rows is None else 2e-7)  # figures: docs/design/0192
    # Exact rows go through attention and matrix products of fewer rows than the model's, which round otherwise.
    for mine, theirs in zip(states(done.cache), states(own), strict=True):
        assert distance(mine, theirs) <= (1e-7 if rows is None and split > 3 else 4e-7)
    for mine, theirs in zip(done.cache.layers, own.layers, strict=True):
        if hasattr(mine, "keys"):
            assert (mine.keys - theirs.keys).abs().max() <= 1e-5
            assert (mine.values - theirs.values).abs().max() <= 1e-5
    assert (next_logits(model, done.cache, ids) - next_logits(model, own, ids)).abs().max() <= 1e-5
    again = prefill(model, true, ids, tail=TAIL, rows=rows)
    tokens = model.generate(ids, max_new_tokens=12, do_sample=False)
    assert torch.equal(model.generate(ids, cache=again, max_new_tokens=12, do_sample=False), tokens)


@pytest.mark.parametrize("rows", [None, ROWS])
@pytest.mark.parametrize("length", LENGTHS)
def test_oracle_in_bf16_stays_within_rounding(
    length: int, rows: Any, tiny: Any, oracle: Any, next_logits: Any, model: Any
) -> None:
    """Logits and states differ from the model's by no more than twice what it differs itself from fp32: exact rows
    go through attention that rounds otherwise, and each rounding stands for the same size of error."""
    ids, coarse = ids_of(length), tiny("qwen3_5", dtype=torch.bfloat16)
    true, own, fine = oracle(coarse, ids, SPLIT), coarse(ids[:, :-1]).cache, model(ids[:, :-1]).cache
    cache = prefill(coarse, true, ids, tail=TAIL, rows=rows)
    for mine, theirs, best in zip(states(cache), states(own), states(fine), strict=True):
        assert mine.dtype == theirs.dtype
        assert distance(mine.float(), theirs.float()) <= 2 * distance(theirs.float(), best)
    error = (next_logits(coarse, cache, ids).float() - true.logits[:, -1].float()).norm()
    assert error <= 2 * (true.logits[:, -1].float() - model(ids).logits[:, -1]).norm()


@pytest.mark.parametrize("chunk", [17, 64])
@pytest.mark.parametrize("length", LENGTHS)
def test_oracle_in_chunks(length: int, chunk: int, model: Any, oracle: Any, next_logits: Any) -> None:
    """Lower layers chunk by chunk: as far from the model's one pass as its own pass in such chunks is."""
    ids, own = ids_of(length), None
    for part in sweep.parts(0, length - 1, chunk):
        own = model(ids[:, part], cache=own).cache
    once = model(ids[:, :-1]).cache
    true = oracle(model, ids[:, :-1], SPLIT)
    cache = prefill(model, true, ids, tail=TAIL, rows=ROWS, chunk=chunk)
    for mine, theirs, exact in zip(states(cache), states(own), states(once), strict=True):
        assert distance(mine, exact) <= 3e-7 + 2 * distance(theirs, exact)
    assert (next_logits(model, cache, ids) - next_logits(model, once, ids)).abs().max() <= 1e-5


@pytest.mark.parametrize("size", [64, 50])
def test_oracle_in_segments(size: int, model: Any, oracle: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long prompt is carried over segment by segment, which only rounds otherwise: matrix products of 64 or 50 rows
    instead of 510."""
    ids = ids_of(511)
    true, own = oracle(model, ids[:, :-1], SPLIT), model(ids[:, :-1]).cache
    monkeypatch.setattr(sweep, "SEGMENT", size)
    monkeypatch.setattr(recurrent, "SEGMENT", size)
    cache = prefill(model, true, ids, tail=TAIL, rows=ROWS)
    for mine, theirs in zip(states(cache), states(own), strict=True):
        assert distance(mine, theirs) <= 5e-6


@pytest.mark.parametrize("chunk", [None, 64])
@pytest.mark.parametrize("length", LENGTHS)
def test_left_padded_batch_is_the_model_s_own(length: int, chunk: int | None, model: Any, oracle: Any) -> None:
    """Both prompts padded, so that no prefix is in multiples of 64: against the model's own pass over the batch."""
    ids, own = ids_of(length, batch=2), None
    mask = (torch.arange(length) >= torch.tensor([[3], [9]])).long()
    ids, positions = ids.masked_fill(mask == 0, 0), (mask.cumsum(1) - 1).clamp(min=0)
    for part in sweep.parts(0, length - 1, chunk or length - 1):
        seen = mask[:, : part.stop]
        own = model(ids[:, part], attention_mask=seen, position_ids=positions[:, part], cache=own).cache
    true = oracle(model, ids[:, :-1], SPLIT, mask[:, :-1])
    cache = prefill(model, true, ids, tail=TAIL, attention_mask=mask, chunk=chunk)
    for mine, theirs in zip(states(cache), states(own), strict=True):
        assert distance(mine, theirs) <= (4e-7 if chunk is None else 2e-6)
    last = model(ids[:, -1:], attention_mask=mask, position_ids=positions[:, -1:], cache=own).logits
    assert (extend(model, cache, ids[:, -1:], mask) - last).abs().max() <= 1e-5


@pytest.mark.parametrize("arm", ["oracle", "identity", "no fill"])
def test_left_padded_batch(arm: str, model: Any, oracle: Any) -> None:
    """Two prompts of 65 and 48 tokens give what each gives alone, at true inputs what the model gives."""
    ids, pads = ids_of(65, batch=2), (0, 17)
    mask = (torch.arange(65) >= torch.tensor(pads)[:, None]).long()
    ids = ids.masked_fill(mask == 0, 0)
    fills = {"identity": Identity(SPLIT), "no fill": NoFill(SPLIT)}
    fill = fills.get(arm) or oracle(model, ids, SPLIT, mask)
    cache = prefill(model, fill, ids, tail=TAIL, attention_mask=mask)
    before = [state.clone() for state in states(cache)]
    together = extend(model, cache, ids[:, -1:], mask)
    for b, pad in enumerate(pads):
        alone = ids[b : b + 1, pad:]
        other = model(alone[:, :-1]).cache if arm == "oracle" else prefill(model, fill, alone, tail=TAIL)
        for mine, theirs in zip(before, states(other), strict=True):
            assert distance(mine[b], theirs[0]) <= 5e-6
        logits = model(alone).logits if arm == "oracle" else extend(model, other, alone[:, -1:])
        assert (together[b, -1] - logits[0, -1]).abs().max() <= 1e-5


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("chunk", [None, 7, 64])
def test_fill_off_is_the_models_own_forward_byte_for_byte(chunk: int | None, dtype: torch.dtype, tiny: Any) -> None:
    model, ids, own = tiny("qwen3_5", dtype=dtype), ids_of(130), None
    for part in sweep.parts(0, 129, chunk or 129):
        own = model(ids[:, part], cache=own).cache
    ours = prefill(model, None, ids, chunk=chunk)
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(in_bytes(ours), in_bytes(own), strict=True))
    if chunk is None:
        whole = model(ids)
        for fill in (None, Identity(SPLIT)):  # none asked for; a prompt that is too short for one
            with filling(model, fill, tail=70):
                filled = model(ids)
            assert torch.equal(filled.logits.view(torch.uint8), whole.logits.view(torch.uint8))
            pairs = zip(in_bytes(filled.cache), in_bytes(whole.cache), strict=True)
            assert all(torch.equal(mine, theirs) for mine, theirs in pairs)


def test_filling_generates_with_true_inputs_what_the_model_generates(model: Any, oracle: Any) -> None:
    """Through generate, greedily and by beams, and in a second turn over the same cache."""
    ids, turn = ids_of(90), torch.tensor([[9, 8, 7, 6, 5]])
    own = model.generate(ids, max_new_tokens=12, do_sample=False)
    beams = model.generate(ids, max_new_tokens=6, do_sample=False, num_beams=3)
    with filling(model, oracle(model, ids, SPLIT), tail=TAIL, rows=ROWS) as filled:
        assert torch.equal(model.generate(ids, max_new_tokens=12, do_sample=False), own)
        assert not filled.plan.exactly
        cache = model(ids, logits_to_keep=3).cache
        logits = model(turn, cache=cache).logits
    assert (logits - model(turn, cache=model(ids).cache).logits).abs().max() <= 1e-5
    with filling(model, oracle(model, ids.expand(3, -1), SPLIT), tail=TAIL):
        assert torch.equal(model.generate(ids, max_new_tokens=6, do_sample=False, num_beams=3), beams)


def test_no_fill_is_the_model_on_the_exact_rows_alone(model: Any) -> None:
    """A second implementation: the stock layers, late ones over the tail and the chosen rows only."""
    ids, rows = ids_of(65), torch.tensor([4, *range(52, 65)])
    base, positions = model.model, torch.arange(65)[None]
    x = base.embed_tokens(ids)
    for number, layer in enumerate(base.layers):
        if number == SPLIT:
            x, positions = x[:, rows], positions[:, rows]
        angles = base.rotary_emb(x, positions.expand(3, -1, -1))
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()[None, None]
        x = layer(x, attention_mask=None if hasattr(layer, "linear_attn") else mask, position_embeddings=angles)
    expected = model.lm_head(base.norm(x))[:, -1]
    cache = prefill(model, NoFill(SPLIT), ids, tail=TAIL, rows=[4])
    assert (extend(model, cache, ids[:, -1:])[:, -1] - expected).abs().max() <= 1e-5


def test_identity_is_the_model_with_the_split_state_as_late_input(model: Any) -> None:
    """A second implementation: each stock late layer is given the split state on filled rows."""
    ids, exact = ids_of(65), torch.tensor([9, *range(52, 65)])
    base, positions = model.model, torch.arange(65)[None]
    x = base.embed_tokens(ids)
    angles = base.rotary_emb(x, positions.expand(3, -1, -1))
    mask = torch.ones(65, 65, dtype=torch.bool).tril()[None, None]
    for number, layer in enumerate(base.layers):
        if number == SPLIT:
            split = x
        out = layer(x, attention_mask=None if hasattr(layer, "linear_attn") else mask, position_embeddings=angles)
        if number >= SPLIT:
            out, true = split.clone(), out
            out[:, exact] = true[:, exact]
        x = out
    expected = model.lm_head(base.norm(x))[:, -1]
    cache = prefill(model, Identity(SPLIT), ids, tail=TAIL, rows=[9])
    assert (extend(model, cache, ids[:, -1:])[:, -1] - expected).abs().max() <= 1e-5


def test_value_rescale_reaches_attention_layers_only(model: Any, oracle: Any) -> None:
    ids = ids_of(90)

    class Off(Identity):
        true = oracle(model, ids, SPLIT)

        def predict(self, layer: int, h: Tensor) -> Tensor:
            return self.true.predict(layer, h) + 0.5

    plain = run(model, Off(SPLIT), ids, tail=TAIL).cache
    scaled = run(model, Off(SPLIT), ids, tail=TAIL, edits=[value_rescale()]).cache
    before, after = plain.layers[7].values[:, :, :77], scaled.layers[7].values[:, :, :77]
    factor = after.norm(dim=-1) / before.norm(dim=-1)
    assert torch.allclose(factor, factor[..., :1].expand_as(factor), rtol=1e-4)
    assert (factor - 1).abs().max() > 1e-3
    assert torch.equal(plain.layers[7].keys, scaled.layers[7].keys)
    for number in (4, 5, 6):
        assert torch.equal(plain.layers[number].recurrent_states[0], scaled.layers[number].recurrent_states[0])


def test_splices_replace_attention_layers(model: Any) -> None:
    ids = ids_of(90)
    exact, own = exact_heads(model, ids, SPLIT), model(ids[:, :-1]).cache
    assert list(exact) == [7]
    done = run(model, Identity(SPLIT), ids, tail=TAIL, edits=[Splice(exact, {"keys", "values"})]).cache
    assert (done.layers[7].keys - own.layers[7].keys)[:, :, :77].abs().max() <= 1e-5
    assert (done.layers[7].values - own.layers[7].values)[:, :, :77].abs().max() <= 1e-5


def test_the_cache_that_is_handed_over_needs_no_config(model: Any, oracle: Any) -> None:
    ids = ids_of(65)
    with filling(model, oracle(model, ids, SPLIT), tail=TAIL):
        out = model(ids, cache=DynamicCache(), logits_to_keep=1)
    assert (out.logits - model(ids).logits[:, -1:]).abs().max() <= 1e-5


@pytest.mark.parametrize(("past", "more"), [(10, 5), (64, 1), (63, 2), (1, 70)])
def test_more_tokens_over_a_cache_go_on_from_its_state(past: int, more: int, model: Any) -> None:
    """transformers#45513 began anew from an empty state, #46190 differed where a cached step follows 64 rows."""
    ids = ids_of(past + more)
    logits = extend(model, model(ids[:, :past]).cache, ids[:, past:])
    assert (logits - model(ids).logits[:, past:]).abs().max() <= 1e-5
    assert (logits - model(ids[:, past:]).logits).abs().max() > 0.01


@pytest.mark.parametrize("fill", [None, Identity(SPLIT), NoFill(SPLIT)])
def test_padding_of_a_single_prompt_is_seen(fill: Any, model: Any) -> None:
    """transformers#46773 skipped the mask at batch 1; three tokens of padding then changed every state."""
    ids = ids_of(40)
    padded = torch.cat((torch.zeros(1, 3, dtype=torch.long), ids), 1)
    mask = (torch.arange(43) >= 3).long()[None]
    mine = prefill(model, fill, padded, tail=TAIL, attention_mask=mask)
    for one, other in zip(states(mine), states(prefill(model, fill, ids, tail=TAIL)), strict=True):
        assert distance(one, other) <= 2e-6
    unseen = prefill(model, None, padded.masked_fill(padded == 0, 5), tail=TAIL)
    assert distance(states(unseen)[0], states(mine)[0]) > 1e-3
