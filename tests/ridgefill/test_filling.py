"""`with filling(model, ...)`: generate, a pipeline and plain forward passes, and what they refuse."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import torch
from transformers import DynamicCache, StaticCache, pipeline

import ridgefill
from ridgefill.context import filling
from ridgefill.errors import FillMismatchError, FillUsageError
from ridgefill.plan import Identity, NoFill
from ridgefill.schedule import extend, prefill

SPLIT, TAIL = 3, 6


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_fill_off_is_the_models_own_forward_byte_for_byte(
    dtype: torch.dtype, tiny: Any, family_name: str, prompt: torch.Tensor
) -> None:
    model = tiny(family_name, dtype=dtype)
    own = model(prompt)
    for fill in (None, Identity(SPLIT)):  # no fill asked for; a prompt that is too short for one
        with filling(model, fill, tail=20):
            filled = model(prompt)
        assert torch.equal(filled.logits.view(torch.uint8), own.logits.view(torch.uint8))
        for mine, theirs in zip(filled.cache.layers, own.cache.layers, strict=True):
            assert torch.equal(mine.keys.view(torch.uint8), theirs.keys.view(torch.uint8))
            assert torch.equal(mine.values.view(torch.uint8), theirs.values.view(torch.uint8))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("chunk", [None, 7, 13])
def test_an_exact_prefill_is_the_models_own_byte_for_byte(
    chunk: int | None, dtype: torch.dtype, tiny: Any, family_name: str, prompt: torch.Tensor
) -> None:
    """Chunked or not: the cache, and the last token's logits over it."""
    model = tiny(family_name, dtype=dtype)
    own, step = None, chunk or 39
    for start in range(0, 39, step):
        own = model(prompt[:, start : min(39, start + step)], cache=own).cache
    ours = prefill(model, None, prompt, chunk=chunk)
    for mine, theirs in zip(ours.layers, own.layers, strict=True):
        assert torch.equal(mine.keys.view(torch.uint8), theirs.keys.view(torch.uint8))
        assert torch.equal(mine.values.view(torch.uint8), theirs.values.view(torch.uint8))
    logits, expected = model(prompt[:, -1:], cache=ours).logits, model(prompt[:, -1:], cache=own).logits
    assert torch.equal(logits.view(torch.uint8), expected.view(torch.uint8))


@pytest.mark.parametrize("rows", [None, [1, 2, 30]])
@pytest.mark.parametrize("arm", [Identity(SPLIT), NoFill(SPLIT)])
def test_generate_equals_prefill_and_hand_over(
    arm: Any, rows: list[int] | None, model: Any, prompt: torch.Tensor
) -> None:
    """Token by token, by our own steps over the cache that `prefill` gives."""
    with filling(model, arm, tail=TAIL, rows=rows) as filled:
        tokens = model.generate(prompt, max_new_tokens=10, do_sample=False)
    assert filled.plan is not None
    assert filled.plan.prefix == 34
    assert filled.rows.tolist() == [*(rows or []), *range(34, 40)]
    assert filled.seconds > 0
    cache, expected = prefill(model, arm, prompt, tail=TAIL, rows=rows), prompt
    for _ in range(10):
        expected = torch.cat((expected, extend(model, cache, expected[:, -1:])[:, -1:].argmax(-1)), 1)
    assert torch.equal(tokens, expected)


def test_generate_with_true_inputs_is_plain_generate(model: Any, prompt: torch.Tensor, oracle: Any) -> None:
    own = model.generate(prompt, max_new_tokens=12, do_sample=False)
    beams = model.generate(prompt, max_new_tokens=6, do_sample=False, num_beams=3)
    with filling(model, oracle(model, prompt, SPLIT), tail=TAIL):
        assert torch.equal(model.generate(prompt, max_new_tokens=12, do_sample=False), own)
    with filling(model, oracle(model, prompt.expand(3, -1), SPLIT), tail=TAIL):
        assert torch.equal(model.generate(prompt, max_new_tokens=6, do_sample=False, num_beams=3), beams)


@pytest.mark.parametrize("arm", [Identity(SPLIT), NoFill(SPLIT)])
def test_a_padded_batch_generates_what_each_prompt_does_alone(arm: Any, model: Any) -> None:
    ids = torch.randint(2, 97, (3, 40), generator=torch.Generator().manual_seed(5))
    pads = torch.tensor([0, 5, 17])
    mask = (torch.arange(40) >= pads[:, None]).long()
    ids = ids.masked_fill(mask == 0, 0)
    with filling(model, arm, tail=TAIL):
        batch = model.generate(ids, attention_mask=mask, max_new_tokens=8, do_sample=False)[:, 40:]
        for b, pad in enumerate(pads):
            alone = model.generate(ids[b : b + 1, pad:], max_new_tokens=8, do_sample=False)
            assert torch.equal(batch[b], alone[0, 40 - pad :])


def test_a_plain_pipeline(model: Any, oracle: Any, words: Any) -> None:
    """transformers' own text-generation pipeline, untouched, inside the context."""
    text = " ".join(f"w{i % 90 + 2}" for i in range(0, 400, 11))
    generate = pipeline("text-generation", model=model, tokenizer=words)
    own = generate(text, max_new_tokens=5, do_sample=False)
    ids = words(text, return_tensors="pt").input_ids
    with filling(model, oracle(model, ids, SPLIT), tail=TAIL) as filled:
        assert generate(text, max_new_tokens=5, do_sample=False) == own
    assert filled.plan is not None
    assert not filled.plan.exactly


def test_a_conversation_goes_on_over_a_filled_cache(model: Any, prompt: torch.Tensor, oracle: Any) -> None:
    """The second turn runs exactly, on what the first left."""
    turn = torch.tensor([[9, 8, 7, 6, 5]])
    with filling(model, oracle(model, prompt, SPLIT), tail=TAIL):
        cache = model(prompt, logits_to_keep=1).cache
        logits = model(turn, cache=cache).logits
    assert (logits - model(torch.cat((prompt, turn), 1)).logits[:, 40:]).abs().max() <= 1e-5


def test_logits_of_the_tail_are_given_and_of_filled_rows_refused(model: Any, prompt: torch.Tensor, oracle: Any) -> None:
    true = oracle(model, prompt, SPLIT)
    with filling(model, true, tail=TAIL):
        for keep in (1, 2, TAIL):
            logits = model(prompt, logits_to_keep=keep).logits
            assert (logits - true.logits[:, -keep:]).abs().max() <= 1e-5
        for keep in (0, TAIL + 1, torch.tensor([39])):
            with pytest.raises(FillUsageError, match="filled rows have no logits"):
                model(prompt, logits_to_keep=keep)
        with pytest.raises(FillUsageError, match="filled rows have no logits"):
            model(prompt)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"labels": torch.zeros(1, 40, dtype=torch.long)}, "no labels"),
        ({"output_hidden_states": True}, "no hidden_states"),
        ({"output_attentions": True}, "no attentions"),
    ],
)
def test_what_filled_rows_do_not_have_is_refused(
    given: dict[str, Any], message: str, model: Any, prompt: torch.Tensor
) -> None:
    with filling(model, Identity(SPLIT), tail=TAIL), pytest.raises(FillUsageError, match=message):
        model(prompt, logits_to_keep=1, **given)


def test_arguments_may_be_given_by_place_or_by_their_old_name(model: Any, prompt: torch.Tensor) -> None:
    mask, cache = torch.ones_like(prompt), DynamicCache(config=model.config)
    with filling(model, Identity(SPLIT), tail=TAIL):
        named = model(input_ids=prompt, logits_to_keep=1).logits
        assert torch.equal(model(prompt, mask, logits_to_keep=1).logits, named)
        assert torch.equal(model(prompt, past_key_values=cache, logits_to_keep=1).logits, named)
    assert cache.get_seq_length() == 40


def test_other_prompts_and_caches_are_refused(model: Any, prompt: torch.Tensor) -> None:
    with filling(model, Identity(SPLIT), tail=TAIL):
        with pytest.raises(FillUsageError, match="StaticCache"):
            model(prompt, cache=StaticCache(model.config, max_cache_len=64), logits_to_keep=1)
        with pytest.raises(FillUsageError, match="inputs_embeds"):
            model(inputs_embeds=model.model.embed_tokens(prompt), logits_to_keep=1)
        with pytest.raises(FillUsageError, match="prefill_chunk_size"):
            model.generate(prompt, prefill_chunk_size=8, max_new_tokens=2)
        with pytest.raises(FillUsageError, match="already being filled"), filling(model, Identity(2)):
            pass
        assert model.generate(prompt, max_new_tokens=2).shape == (1, 42)


def test_the_model_is_left_as_it_was(model: Any, prompt: torch.Tensor) -> None:
    """Also after an error, and with a forward that someone else had put on the instance."""
    before = dict(vars(model))
    with pytest.raises(ZeroDivisionError), filling(model, Identity(SPLIT), tail=TAIL):
        raise ZeroDivisionError
    assert vars(model) == before
    inner, calls = model.forward, []
    model.forward = lambda *a, **k: (calls.append(1), inner(*a, **k))[1]
    hooked = model.forward
    with filling(model, Identity(SPLIT), tail=TAIL):
        model(prompt, logits_to_keep=1)
    assert calls == [1]
    assert model.forward is hooked


def test_short_prompts_run_exactly_and_say_so(
    model: Any, prompt: torch.Tensor, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "ridgefill"), filling(model, Identity(SPLIT), tail=20) as filled:
        tokens = model.generate(prompt, max_new_tokens=4, do_sample=False)
    assert torch.equal(tokens, model.generate(prompt, max_new_tokens=4, do_sample=False))
    assert filled.plan is not None
    assert "40 tokens are not more than min_prompt, 40" in filled.plan.exactly
    assert caplog.text.count("runs exactly") == 1
    with filling(model, Identity(SPLIT), tail=TAIL, min_prompt=100) as filled:
        model(prompt)
    assert filled.plan is not None
    assert filled.plan.exactly
    mask = torch.ones(2, 40, dtype=torch.long)
    mask[1, :30] = 0
    with filling(model, Identity(SPLIT), tail=TAIL) as filled:
        model(prompt.repeat(2, 1), attention_mask=mask, logits_to_keep=1)
    assert filled.plan is not None
    assert "its 10 tokens" in filled.plan.exactly


@pytest.mark.parametrize(
    ("fill", "options", "message"),
    [
        (Identity(0), {}, "split is out of range"),
        (Identity(6), {}, "split is out of range"),
        (Identity(3), {"split": 4}, "another split"),
        ({3: Identity(3)}, {"split": 4}, "no maps for this split"),
        ({3: Identity(3), 4: Identity(4)}, {}, "no maps for this split"),
        (Identity(3), {"tail": 0}, "tail is too short"),
        (Identity(3), {"tail": 40, "min_prompt": 0}, "tail is as long as the prompt"),
        (Identity(3), {"tail": 6, "rows": [34]}, "not in the prefix"),
        (Identity(3), {"tail": 6, "rows": [-1]}, "not in the prefix"),
        (Identity(3), {"tail": 6, "hold": 7}, "too much is held back"),
        (Identity(3), {"tail": 6, "hold": 0}, "too much is held back"),
    ],
)
def test_bad_arguments_are_refused_before_any_work(
    fill: Any, options: dict[str, Any], message: str, model: Any, prompt: torch.Tensor
) -> None:
    worked = []
    model.model.layers[0].register_forward_hook(lambda *_: worked.append(1))
    model.model.layers[0].self_attn.k_proj.register_forward_hook(lambda *_: worked.append(1))
    with pytest.raises(FillUsageError, match=message):
        prefill(model, fill, prompt, **options)
    assert not worked


def test_extra_rows_need_one_prompt(model: Any, prompt: torch.Tensor) -> None:
    with pytest.raises(FillUsageError, match="one unpadded prompt"):
        prefill(model, Identity(SPLIT), prompt.repeat(2, 1), tail=TAIL, rows=[3])


def test_fitted_maps_fill_and_those_of_another_model_are_refused(tiny: Any, prompt: torch.Tensor, words: Any) -> None:
    """The three lines of the README, on a tiny model: fit, fill, generate."""
    assert ridgefill.filling is filling
    assert ridgefill.prefill is prefill
    model, other = tiny("llama"), tiny("llama", hidden_size=40)
    text = " ".join(f"w{i * i % 95 + 2}" for i in range(200))
    maps = ridgefill.fit(model, words, [text], splits=[SPLIT], penalty=0.1)
    with ridgefill.filling(model, maps, split=SPLIT, tail=TAIL) as filled:
        assert model.generate(prompt, max_new_tokens=3).shape == (1, 43)
    assert filled.plan is not None
    assert not filled.plan.exactly
    with pytest.raises(FillMismatchError, match="another model"), filling(other, maps):
        pass
