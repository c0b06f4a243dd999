"""The probe and the two-sweep prefill, in dense models and hybrids."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from torch import Tensor

from ridgefill.corrections import value_rescale
from ridgefill.errors import FillUsageError
from ridgefill.families import family_of
from ridgefill.plan import Identity, NoFill
from ridgefill.schedule import extend, run
from ridgefill.selectors.base import View

SPLIT, TAIL, N = 4, 13, 90


class Best:
    """The eight rows that the probe ranks highest."""

    name = "best"
    layers: tuple[int, ...] = ()
    view: View

    def __init__(self, probes: int) -> None:
        self.probes = probes

    def asks(self, length: int, prefix: int) -> range:
        return range(0)

    def budget(self, view: View) -> int:
        return 8

    def select(self, view: View) -> Tensor:
        assert view.probed is not None
        self.view = view
        return view.probed.topk(8).indices.sort().values


@pytest.fixture(params=["llama", "qwen3", "qwen3_5", "qwen4_exp"])
def model(request: pytest.FixtureRequest, tiny: Any) -> Any:
    return tiny(request.param)


def ids_of(length: int) -> Tensor:
    return torch.randint(2, 97, (1, length), generator=torch.Generator().manual_seed(length))


def direct(model: Any, ids: Tensor, count: int) -> Tensor:
    """What prefix rows get, by whole attention matrices: prefix columns from the split state, those that ask from
    their true inputs, the columns between not seen; a stock recurrent layer over the asking rows alone."""
    family, base, n = family_of(model), model.model, ids.shape[1] - 1
    state = model(ids, output_hidden_states=True).hidden_states[SPLIT][:, :n]
    angles = family.angles(base, state, torch.arange(n)[None])
    asking = torch.arange(max(N - TAIL, N - count), n)
    seen = torch.arange(n) <= asking[:, None]
    seen[:, N - TAIL : asking[0]] = False
    x, total = state[:, asking], torch.zeros(N - TAIL)
    for number in range(SPLIT, len(base.layers)):
        layer = base.layers[number]
        if hasattr(layer, "linear_attn"):
            x = layer(x, position_embeddings=None)
            continue
        inputs = family.block_input(layer, state).clone()
        inputs[:, asking] = family.block_input(layer, x)
        read = seen
        if family.indexer(layer) is not None:  # the model's own, over what is seen
            visible = torch.ones(n, n, dtype=torch.bool).tril()
            visible[asking] = seen
            read = seen & layer.self_attn.indexer(inputs, angles, visible[None, None], None)[0, 0, asking]
            assert not torch.equal(read, seen)
        keys, values = family.keys_values(layer, inputs)
        queries = family.rotate(family.queries(layer, inputs[:, asking]), tuple(angle[:, asking] for angle in angles))
        keys = family.rotate(keys, angles).repeat_interleave(2, 2)
        scores = torch.einsum("bqhd,bkhd->bhqk", queries, keys) / queries.shape[-1] ** 0.5
        weights = scores.masked_fill(~read, -torch.inf).softmax(-1)
        total += weights.sum((0, 1, 2))[: N - TAIL]
        attended = torch.einsum("bhqk,bkhd->bqhd", weights, values.repeat_interleave(2, 2))
        x = family.finish(layer, x, inputs[:, asking], attended)
    return total


@pytest.mark.parametrize("count", [5, 256])
def test_it_ranks_as_whole_attention_matrices_do(count: int, model: Any) -> None:
    """Five rows ask, with tail rows before them that have not run; or as many as there are, the whole tail."""
    ids, best = ids_of(N), Best(count)
    done = run(model, Identity(SPLIT), ids, tail=TAIL, rows=best)
    expected = direct(model, ids, count)
    assert best.view.probed is not None
    assert (best.view.probed - expected).abs().max() <= 1e-5
    assert done.rows.tolist()[:8] == sorted(expected.topk(8).indices.tolist())


def test_two_sweeps_are_one_with_the_rows_known(model: Any) -> None:
    """What the probe leaves behind, filled attention layers and nothing else, is what one sweep would write."""
    ids = ids_of(N)
    for edits in ((), (value_rescale(),)):
        done = run(model, Identity(SPLIT), ids, tail=TAIL, rows=Best(5), edits=edits)
        known = run(model, Identity(SPLIT), ids, tail=TAIL, rows=done.rows[:8], edits=edits)
        for mine, theirs in zip(done.cache.layers, known.cache.layers, strict=True):
            for name in ("keys", "values"):
                if hasattr(mine, name):
                    assert torch.equal(getattr(mine, name), getattr(theirs, name))
            if hasattr(mine, "recurrent_states"):
                assert torch.equal(mine.recurrent_states[0], theirs.recurrent_states[0])
                assert torch.equal(mine.conv_states[0], theirs.conv_states[0])


def test_true_inputs_give_the_model_s_answer(model: Any, oracle: Any) -> None:
    ids = ids_of(N)
    true = oracle(model, ids, SPLIT)
    done = run(model, true, ids, tail=TAIL, rows=Best(5))
    assert (extend(model, done.cache, ids[:, -1:])[:, -1] - true.logits[:, -1]).abs().max() <= 1e-5


def test_chunks_change_no_row(model: Any) -> None:
    whole, cut = (run(model, Identity(SPLIT), ids_of(N), tail=TAIL, rows=Best(5), chunk=c).rows for c in (None, 7))
    assert torch.equal(whole, cut)


def test_the_first_sweep_s_keys_are_used_again(model: Any) -> None:
    """Rows that pass a late attention layer's key projection: the fill once, those that ask, the exact ones; with an
    edit, which sees rows before rotary, the fill again and its rows of the tail."""
    rows: Counter[bool] = Counter()
    late = next(layer for layer in model.model.layers[SPLIT:] if hasattr(layer, "self_attn"))
    rescaled = False
    late.self_attn.k_proj.register_forward_hook(lambda m, a, o: rows.update({rescaled: a[0].shape[1]}))
    run(model, Identity(SPLIT), ids_of(N), tail=TAIL, rows=Best(5))
    rescaled = True
    run(model, Identity(SPLIT), ids_of(N), tail=TAIL, rows=Best(5), edits=[value_rescale(3)])
    assert rows[False] == (N - TAIL) + 4 + (8 + TAIL - 1)
    assert rows[True] == rows[False] + (N - TAIL) + 3


def test_no_fill_has_nothing_to_probe(model: Any) -> None:
    with pytest.raises(FillUsageError, match=r"that a probe could read|leaves an indexer"):
        run(model, NoFill(SPLIT), ids_of(N), tail=TAIL, rows=Best(5))
