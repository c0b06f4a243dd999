"""The schedule against the model itself: true inputs in place of maps must give the model's own answers."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from ridgefill import fill, sweep
from ridgefill.plan import Identity, NoFill
from ridgefill.schedule import extend, prefill, run

SPLIT, TAIL = 3, 6


@pytest.mark.parametrize("rows", [None, torch.tensor([0, 3, 9, 20, 33]), [33, 0], range(34)])
@pytest.mark.parametrize("chunk", [None, 7])
def test_oracle(rows: Any, chunk: int | None, model: Any, prompt: torch.Tensor, oracle: Any, next_logits: Any) -> None:
    """Prefix fill, tail and scattered exact rows give the model's logits, cache and tokens."""
    true = oracle(model, prompt, SPLIT)
    done = run(model, true, prompt, tail=TAIL, rows=rows, chunk=chunk)
    assert done.rows.tolist() == sorted(map(int, [] if rows is None else rows)) + list(range(34, 39))
    own = model(prompt[:, :-1]).cache
    for mine, theirs in zip(done.cache.layers, own.layers, strict=True):
        assert mine.keys.shape == theirs.keys.shape == (1, 2, 39, 8)  # 2 key heads: never repeated to 4
        assert (mine.keys - theirs.keys).abs().max() <= 1e-5
        assert (mine.values - theirs.values).abs().max() <= 1e-5
    tokens = model.generate(prompt, max_new_tokens=12, do_sample=False)
    filled = model.generate(prompt, cache=done.cache, max_new_tokens=12, do_sample=False)
    assert torch.equal(tokens, filled)
    again = run(model, true, prompt, tail=TAIL, rows=rows, chunk=chunk).cache
    assert (next_logits(model, again, prompt) - true.logits[:, -1]).abs().max() <= 1e-5


def test_oracle_gives_every_exact_row_its_true_logits(model: Any, prompt: torch.Tensor, oracle: Any) -> None:
    """Not the last row only: the whole tail, held back and run over the filled cache."""
    true = oracle(model, prompt, SPLIT)
    cache = run(model, true, prompt, tail=TAIL, hold=TAIL).cache
    logits = extend(model, cache, prompt[:, -TAIL:])
    assert (logits - true.logits[:, -TAIL:]).abs().max() <= 1e-5


def test_oracle_in_bf16_stays_within_rounding(
    tiny: Any, family_name: str, prompt: torch.Tensor, oracle: Any, next_logits: Any
) -> None:
    """bf16 takes the matmul kernel; it may differ from the model by as much as the model from fp32."""
    model, truth = tiny(family_name, dtype=torch.bfloat16), tiny(family_name)
    true = oracle(model, prompt, SPLIT)
    cache = prefill(model, true, prompt, tail=TAIL, rows=[2, 11])
    error = (next_logits(model, cache, prompt).float() - truth(prompt).logits[:, -1]).norm()
    own = (true.logits[:, -1].float() - truth(prompt).logits[:, -1]).norm()
    assert error <= 2 * own


def test_oracle_left_padded_batch(model: Any, oracle: Any, next_logits: Any) -> None:
    """Three prompts of different lengths, padded on the left, give what each gives alone."""
    ids = torch.randint(2, 97, (3, 40), generator=torch.Generator().manual_seed(5))
    pads = torch.tensor([0, 5, 17])
    mask = (torch.arange(40) >= pads[:, None]).long()
    ids = ids.masked_fill(mask == 0, 0)
    cache = prefill(model, oracle(model, ids, SPLIT, mask), ids, tail=TAIL, attention_mask=mask, chunk=16)
    batched = next_logits(model, cache, ids, mask)
    for b, pad in enumerate(pads):
        alone = model(ids[b : b + 1, pad:]).logits[0, -1]
        assert (batched[b] - alone).abs().max() <= 1e-5
    for layer in cache.layers:
        assert layer.keys.isfinite().all()
        assert layer.values.isfinite().all()


@pytest.mark.parametrize("arm", [Identity(SPLIT), NoFill(SPLIT)])
def test_padding_changes_no_arm(arm: Any, model: Any, prompt: torch.Tensor) -> None:
    """One prompt with 3 left pads equals the same prompt without, also at batch size 1."""
    padded = torch.cat((torch.zeros(1, 3, dtype=torch.long), prompt), 1)
    mask = torch.ones_like(padded)
    mask[:, :3] = 0
    plain = extend(model, prefill(model, arm, prompt, tail=TAIL), prompt[:, -1:])
    cache = prefill(model, arm, padded, tail=TAIL, attention_mask=mask)
    assert (extend(model, cache, padded[:, -1:], mask) - plain).abs().max() <= 1e-5


@settings(max_examples=40, deadline=None)
@given(family=st.sampled_from(["llama", "qwen3"]), length=st.integers(2, 50), data=st.data())
def test_arms_agree_when_nothing_is_left_to_fill(family: str, length: int, data: st.DataObject, tiny: Any) -> None:
    """With every prefix row exact, identity and no fill are the exact model."""
    model = tiny(family)
    tail, split = data.draw(st.integers(1, length - 1)), data.draw(st.integers(1, 5))
    ids = torch.randint(2, 97, (1, length), generator=torch.Generator().manual_seed(length))
    own = model(ids).logits[:, -1]
    for arm in (Identity(split), NoFill(split)):
        cache = prefill(model, arm, ids, tail=tail, min_prompt=0, rows=list(range(length - tail)))
        assert cache.get_seq_length() == length - 1
        assert (extend(model, cache, ids[:, -1:])[:, -1] - own).abs().max() <= 2e-5


@pytest.mark.parametrize("arm", [Identity(SPLIT), NoFill(SPLIT)])
def test_chunks_give_the_same_cache(arm: Any, model: Any, prompt: torch.Tensor) -> None:
    whole = prefill(model, arm, prompt, tail=TAIL, chunk=1000)
    for chunk in (1, 7, 39):
        cut = prefill(model, arm, prompt, tail=TAIL, chunk=chunk)
        for mine, theirs in zip(cut.layers, whole.layers, strict=True):
            assert torch.allclose(mine.keys, theirs.keys, atol=1e-5)
            assert torch.allclose(mine.values, theirs.values, atol=1e-5)


def test_no_fill_leaves_late_layers_short(model: Any, prompt: torch.Tensor) -> None:
    cache = prefill(model, NoFill(SPLIT), prompt, tail=TAIL, rows=[4])
    assert [layer.keys.shape[2] for layer in cache.layers] == [39] * 3 + [6] * 3


def test_no_fill_is_the_model_with_the_prefix_hidden(model: Any, prompt: torch.Tensor) -> None:
    """A second implementation: the stock layers, late ones with a dense mask that hides the prefix."""
    base, rows = model.model, torch.arange(40)
    causal = rows[:, None] >= rows
    hidden = causal & (rows >= 34)
    x, positions = base.embed_tokens(prompt), rows[None]
    angles = base.rotary_emb(x, position_ids=positions)
    for number, layer in enumerate(base.layers):
        mask = (causal if number < SPLIT else hidden | torch.eye(40, dtype=torch.bool))[None, None]
        x = layer(x, attention_mask=mask, position_embeddings=angles, position_ids=positions)
    expected = model.lm_head(base.norm(x))[:, -1]
    cache = prefill(model, NoFill(SPLIT), prompt, tail=TAIL)
    assert (extend(model, cache, prompt[:, -1:])[:, -1] - expected).abs().max() <= 1e-5


def test_extend_is_the_models_own_step_over_a_full_cache(model: Any, prompt: torch.Tensor) -> None:
    cache = model(prompt[:, :30]).cache
    assert (extend(model, cache, prompt[:, 30:]) - model(prompt).logits[:, 30:]).abs().max() <= 1e-5
    assert extend(model, model(prompt[:, :30]).cache, prompt[:, 30:], keep=2).shape[1] == 2


def count_rows(model: Any) -> Counter[str]:
    """Rows that pass each kind of module, counted by hooks on the real modules."""
    rows: Counter[str] = Counter()
    model.lm_head.register_forward_hook(lambda m, a, o: rows.update(head=a[0].shape[1]))
    for number, layer in enumerate(model.model.layers):
        for kind, module in (
            ("mlp", layer.mlp),
            ("query", layer.self_attn.q_proj),
            ("key", layer.self_attn.k_proj),
            ("value", layer.self_attn.v_proj),
        ):

            def count(m: Any, a: Any, o: Any, name: str = f"{kind} {number}") -> None:
                rows.update({name: a[0].shape[1]})

            module.register_forward_hook(count)
    return rows


@pytest.mark.parametrize(("length", "tail", "chosen"), [(40, 6, [1, 5]), (13, 6, []), (40, 1, [])])
def test_counts(length: int, tail: int, chosen: list[int], model: Any, prompt: torch.Tensor) -> None:
    """Rows of a prefill and the model's step: N below the split, tail and chosen above it, one at the head."""
    ids, rows = prompt[:, :length], count_rows(model)
    cache = prefill(model, Identity(SPLIT), ids, tail=tail, rows=chosen)
    assert rows["head"] == 0
    model(ids[:, -1:], cache=cache)
    exact = tail + len(chosen)
    for layer in range(6):
        late = layer >= SPLIT
        assert rows[f"mlp {layer}"] == (exact if late else length)
        assert rows[f"query {layer}"] == (exact if late else length)
        for kind in ("key", "value"):
            assert rows[f"{kind} {layer}"] == (length + len(chosen) if late else length)
    assert rows["head"] == 1


class Largest(TorchDispatchMode):
    """Records, over everything that torch runs, the largest tensor made and the largest of bools."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = self.bools = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, tuple | list) else [out]:
            if isinstance(tensor, torch.Tensor):
                stored = tensor.untyped_storage().nbytes() // tensor.element_size()
                self.elements = max(self.elements, stored)
                if tensor.dtype == torch.bool:
                    self.bools = max(self.bools, stored)
        return out


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_long_prompt_makes_no_dense_mask(dtype: torch.dtype, tiny: Any) -> None:
    """32K tokens, tail 512, scattered rows: no tensor of T x N elements, masks of a block at most."""
    n, tail = 32_768, 512
    sizes = {"num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "hidden_size": 16}
    model = tiny("llama", dtype=dtype, max_position_embeddings=n, **sizes)
    ids = torch.randint(2, 97, (1, n), generator=torch.Generator().manual_seed(0))
    with Largest() as seen:
        prefill(model, Identity(1), ids, tail=tail, rows=list(range(0, n - tail, 1000)))
    assert seen.elements < tail * n
    assert seen.bools <= tail * n // 2


def test_maps_of_a_sink_free_fit_run_the_first_rows_exactly(model: Any, prompt: torch.Tensor) -> None:
    class SinkFree(Identity):
        sink_rows = 2

    assert run(model, SinkFree(SPLIT), prompt, tail=TAIL, rows=[7]).rows.tolist() == [0, 1, 7, *range(34, 39)]
    padded = torch.cat((torch.zeros(1, 3, dtype=torch.long), prompt), 1)
    mask = (torch.arange(43) >= 3).long()[None]
    done = run(model, SinkFree(SPLIT), padded, tail=TAIL, attention_mask=mask)
    assert done.rows.tolist() == [3, 4, *range(37, 42)]


def test_dynamic_rotary_scales_with_the_whole_prompt(
    tiny: Any, prompt: torch.Tensor, oracle: Any, next_logits: Any
) -> None:
    """Angles taken chunk by chunk, or without the last token, would differ: this kind of rotary depends on
    the longest position so far, and remembers it, so the truth comes from another copy of the model."""
    scaled = {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 10_000.0}
    own, model = (tiny("llama", rope_parameters=scaled, max_position_embeddings=16) for _ in range(2))
    true = oracle(own, prompt, SPLIT)
    cache = prefill(model, true, prompt, tail=TAIL, chunk=7)
    assert (next_logits(model, cache, prompt) - true.logits[:, -1]).abs().max() <= 1e-5


@pytest.mark.parametrize("size", [1, 5])
def test_late_rows_may_be_cut(
    size: int,
    model: Any,
    prompt: torch.Tensor,
    oracle: Any,
    next_logits: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A tail longer than a chunk, and a fill in several chunks, are the same prefill."""
    true = oracle(model, prompt, SPLIT)
    monkeypatch.setattr(sweep, "CHUNK", size)
    monkeypatch.setattr(fill, "CHUNK", size)
    cache = prefill(model, true, prompt, tail=12, rows=[1, 2, 20])
    assert (next_logits(model, cache, prompt) - true.logits[:, -1]).abs().max() <= 1e-5
