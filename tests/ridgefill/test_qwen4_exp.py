"""Sparse attention over four streams against the model itself: true inputs in place of maps give its own answers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from ridgefill import fill, recurrent, sweep
from ridgefill.context import filling
from ridgefill.corrections import value_rescale
from ridgefill.families import family_of
from ridgefill.plan import Identity
from ridgefill.schedule import extend, prefill, run
from ridgefill.splice import Splice, exact_heads

SPLIT, TAIL = 4, 13  # attention layers are 3 and 7 of 8
LENGTHS = (63, 64, 65, 511)
ROWS = [0, 3, 9, 20, 33]


@pytest.fixture
def model(tiny: Any) -> Any:
    return tiny("qwen4_exp")


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
    return [states[0] for layer in kept for states in (layer.recurrent_states, layer.conv_states)]


def written(cache: Any) -> list[Tensor]:
    """Keys, values and the indexer's raw keys of every attention layer, rows last but one."""
    kept = [layer for layer in cache.layers if hasattr(layer, "indexer_keys")]
    return [rows for layer in kept for rows in (layer.keys, layer.values, layer.indexer_keys)]


def in_bytes(cache: Any) -> list[Tensor]:
    """Everything that a cache holds, as bytes."""
    positions = [getattr(layer, "indexer_position_ids", None) for layer in cache.layers]
    held = [*written(cache), *states(cache), *(known for known in positions if known is not None)]
    return [tensor.contiguous().view(torch.uint8) for tensor in held]


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
    # The model's own way too is N - 1 rows and then a step.
    true, own = oracle(model, ids[:, :-1], split), model(ids[:, :-1]).cache
    done = run(model, true, ids, tail=TAIL, rows=rows)
    assert done.rows.tolist() == [*(rows or []), *range(length - TAIL, length - 1)]
    assert all(state.dtype == torch.float32 for state in states(done.cache))
    # Mixes of streams are products of fewer rows than the model's and rounded otherwise (docs/design/0192).
    for mine, theirs in zip(carried(done.cache), carried(own), strict=True):
        assert distance(mine, theirs) <= 2e-7
    for mine, theirs in zip(states(done.cache), states(own), strict=True):
        assert distance(mine, theirs) <= 4e-7
    for mine, theirs in zip(written(done.cache), written(own), strict=True):
        assert (mine - theirs).abs().max() <= 1e-5
    assert torch.equal(done.cache.layers[3].indexer_position_ids, own.layers[3].indexer_position_ids)
    assert (next_logits(model, done.cache, ids) - next_logits(model, own, ids)).abs().max() <= 1e-5
    again = prefill(model, true, ids, tail=TAIL, rows=rows)
    tokens = model.generate(ids, max_new_tokens=12, do_sample=False)
    assert torch.equal(model.generate(ids, cache=again, max_new_tokens=12, do_sample=False), tokens)


@pytest.mark.parametrize("rows", [None, ROWS])
@pytest.mark.parametrize("length", LENGTHS)
def test_exact_rows_read_the_columns_that_the_model_s_indexer_chooses(
    length: int, rows: Any, model: Any, oracle: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the late attention layer of a filled run, row by row, and in the layer below the split."""
    ids, n = ids_of(length), length - 1
    true, own, mine = oracle(model, ids[:, :-1], SPLIT), {}, []
    for number in (3, 7):

        def keep(_: Any, args: Any, out: Tensor, number: int = number) -> None:
            own[number] = out[0, 0]

        model.model.layers[number].self_attn.indexer.register_forward_hook(keep)
    model(ids[:, :-1])

    class Recorded(sweep.Choice):
        def __call__(self, rows: slice, at: Tensor) -> Tensor:
            read = super().__call__(rows, at)
            mine.append((at, read[0]))
            return read

    monkeypatch.setattr(sweep, "Choice", Recorded)
    done = run(model, true, ids, tail=TAIL, rows=rows)
    every, late = torch.arange(n), done.rows
    seen = [torch.cat([at for at, _ in mine]), *(read for _, read in mine)]
    assert seen[0].tolist() == [*every.tolist(), *late.tolist()]
    columns = torch.nn.utils.rnn.pad_sequence([row for read in seen[1:] for row in read], batch_first=True)
    causal = every <= every[:, None]
    for number, at, chosen in ((3, every, columns[:n]), (7, late, columns[n:])):
        expected = (own[number][:, :n] & causal)[at]
        assert torch.equal(torch.nn.functional.pad(chosen, (0, n - chosen.shape[1])), expected)
        assert not torch.equal(expected, causal[at])


@pytest.mark.parametrize("rows", [None, ROWS])
@pytest.mark.parametrize("length", LENGTHS)
def test_oracle_in_bf16_stays_within_rounding(
    length: int, rows: Any, tiny: Any, oracle: Any, next_logits: Any, model: Any
) -> None:
    """Logits and states differ from the model's by no more than twice what it differs itself from fp32: exact rows
    go through attention that rounds otherwise, and each rounding stands for the same size of error."""
    ids, coarse = ids_of(length), tiny("qwen4_exp", dtype=torch.bfloat16)
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
    """Lower layers chunk by chunk, against the model's own pass in such chunks."""
    ids, own = ids_of(length), None
    for part in sweep.parts(0, length - 1, chunk):
        own = model(ids[:, part], cache=own).cache
    cache = prefill(model, oracle(model, ids[:, :-1], SPLIT), ids, tail=TAIL, rows=ROWS, chunk=chunk)
    for mine, theirs in zip(states(cache), states(own), strict=True):
        assert distance(mine, theirs) <= 5e-6
    assert (next_logits(model, cache, ids) - next_logits(model, own, ids)).abs().max() <= 1e-5


def test_segments_and_chunks_without_an_exact_row(
    model: Any, oracle: Any, next_logits: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in prompts of more than 2,048 tokens, of which whole segments are filled."""
    monkeypatch.setattr(sweep, "SEGMENT", 64)
    monkeypatch.setattr(recurrent, "SEGMENT", 64)
    monkeypatch.setattr(sweep, "CHUNK", 5)
    monkeypatch.setattr(fill, "CHUNK", 40)
    ids = ids_of(511)
    true, own = oracle(model, ids[:, :-1], SPLIT), model(ids[:, :-1]).cache
    for rows in ([], [70, 300]):
        cache = prefill(model, true, ids, tail=TAIL, rows=rows)
        for mine, theirs in zip(states(cache), states(own), strict=True):
            assert distance(mine, theirs) <= 5e-6
        for mine, theirs in zip(written(cache), written(own), strict=True):
            assert (mine - theirs).abs().max() <= 1e-5
        assert (next_logits(model, cache, ids) - next_logits(model, own, ids)).abs().max() <= 1e-5
        own = model(ids[:, :-1]).cache  # the step above has gone on in it


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


@pytest.mark.parametrize("arm", ["oracle", "identity"])
def test_a_batch_with_left_padding_is_its_prompts_alone(arm: str, model: Any, oracle: Any) -> None:
    ids, pads = ids_of(80, batch=2), (0, 9)
    ids[1, :9] = 0
    mask = torch.ones_like(ids)
    mask[1, :9] = 0
    stand_in = Identity(SPLIT) if arm == "identity" else oracle(model, ids, SPLIT, mask)
    cache = prefill(model, stand_in, ids, tail=TAIL, attention_mask=mask)
    before = [state.clone() for state in states(cache)]
    together = extend(model, cache, ids[:, -1:], mask)
    for b, pad in enumerate(pads):
        alone = ids[b : b + 1, pad:]
        other = model(alone[:, :-1]).cache if arm == "oracle" else prefill(model, stand_in, alone, tail=TAIL)
        for mine, theirs in zip(before, states(other), strict=True):
            assert distance(mine[b], theirs[0]) <= 5e-6
        logits = model(alone).logits if arm == "oracle" else extend(model, other, alone[:, -1:])
        assert (together[b, -1] - logits[0, -1]).abs().max() <= 1e-5


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("chunk", [None, 7, 64])
def test_fill_off_is_the_models_own_forward_byte_for_byte(chunk: int | None, dtype: torch.dtype, tiny: Any) -> None:
    model, ids, own = tiny("qwen4_exp", dtype=dtype), ids_of(130), None
    for part in sweep.parts(0, 129, chunk or 129):
        own = model(ids[:, part], cache=own).cache
    ours = prefill(model, None, ids, chunk=chunk)
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(in_bytes(ours), in_bytes(own), strict=True))
    if chunk is None:
        whole = model(ids)
        for arm in (None, Identity(SPLIT)):  # none asked for; a prompt that is too short for one
            with filling(model, arm, tail=70):
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


def test_identity_is_the_model_with_the_split_state_as_late_input(model: Any) -> None:
    """A second implementation: each stock late layer is given the split state on filled rows."""
    ids, exact = ids_of(65), torch.tensor([9, *range(52, 65)])
    base, positions = model.model, torch.arange(65)[None]
    x = family_of(model).embed(base, ids)
    angles = base.rotary_emb(x, positions.expand(3, -1, -1))
    mask = torch.ones(65, 65, dtype=torch.bool).tril()[None, None]
    for number, layer in enumerate(base.layers):
        if number == SPLIT:
            split = x
        out = layer(x, attention_mask=mask, position_embeddings=angles)
        if number >= SPLIT:
            out, true = split.clone(), out
            out[:, exact] = true[:, exact]
        x = out
    expected = model.lm_head(base.hyper_connection_mixer(x))[:, -1]
    cache = prefill(model, Identity(SPLIT), ids, tail=TAIL, rows=[9])
    assert (extend(model, cache, ids[:, -1:])[:, -1] - expected).abs().max() <= 1e-5


def test_value_rescale_reaches_attention_layers_only(model: Any) -> None:
    ids = ids_of(90)
    plain = run(model, Identity(SPLIT), ids, tail=TAIL).cache
    scaled = run(model, Identity(SPLIT), ids, tail=TAIL, edits=[value_rescale()]).cache
    before, after = plain.layers[7].values[:, :, :77], scaled.layers[7].values[:, :, :77]
    factor = after.norm(dim=-1) / before.norm(dim=-1)
    assert torch.allclose(factor, factor[..., :1].expand_as(factor), rtol=1e-4)
    assert (factor - 1).abs().max() > 1e-3
    assert torch.equal(plain.layers[7].keys, scaled.layers[7].keys)
    assert torch.equal(plain.layers[7].indexer_keys[:, :77], scaled.layers[7].indexer_keys[:, :77])
    for number in (4, 5, 6):
        assert torch.equal(plain.layers[number].recurrent_states[0], scaled.layers[number].recurrent_states[0])


def test_splices_replace_attention_layers(model: Any) -> None:
    ids = ids_of(90)
    exact, own = exact_heads(model, ids, SPLIT), model(ids[:, :-1]).cache
    assert list(exact) == [7]
    done = run(model, Identity(SPLIT), ids, tail=TAIL, edits=[Splice(exact, {"keys", "values"})]).cache
    assert (done.layers[7].keys - own.layers[7].keys)[:, :, :77].abs().max() <= 1e-5
    assert (done.layers[7].values - own.layers[7].values)[:, :, :77].abs().max() <= 1e-5


@pytest.mark.parametrize(("past", "more"), [(10, 5), (64, 1), (63, 2), (1, 70)])
def test_more_tokens_over_a_cache_go_on_from_it(past: int, more: int, model: Any) -> None:
    ids = ids_of(past + more)
    cache = model(ids[:, :past]).cache
    logits = extend(model, cache, ids[:, past:])
    assert (logits - model(ids).logits[:, past:]).abs().max() <= 1e-5
    after = torch.tensor([[5, 6]])
    true = model(torch.cat((ids, after), 1)).logits[:, -1]
    assert (model(after, cache=cache).logits[:, -1] - true).abs().max() <= 1e-5
