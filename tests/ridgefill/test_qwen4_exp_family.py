"""The qwen4_exp family: rotary, embeddings of tokens within layers, configs, and what is refused by name."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoModelForImageTextToText, Qwen4ExpConfig, Qwen4ExpTextConfig

import ridgefill
from ridgefill import sweep
from ridgefill.context import filling
from ridgefill.errors import FillUsageError
from ridgefill.families import family_of
from ridgefill.plan import Identity, NoFill
from ridgefill.schedule import extend, prefill, run
from ridgefill.shared import Shared

SPLIT, TAIL = 4, 13  # attention layers are 3 and 7 of 8
LEXICAL = {"ple_layer_ids": [1, 3], "ple_embed_dim": 24, "heads_per_ngram": 4, "ngram_vocab_size_base": 50}


@pytest.fixture
def model(tiny: Any) -> Any:
    return tiny("qwen4_exp")


@pytest.fixture
def lexical(tiny: Any) -> Any:
    """With embeddings of tokens and their neighbours in layers 0 and 2, and convolutions that are not zero."""
    model = tiny("qwen4_exp", **LEXICAL, eos_token_id=96, split_ngram_parts=1)
    for layer in (0, 2):
        model.model.layers[layer].ple.conv1d.weight.normal_(0, 0.3)
    return model


def ids_of(length: int, batch: int = 1) -> Tensor:
    return torch.randint(2, 96, (batch, length), generator=torch.Generator().manual_seed(length))


def states(cache: Any) -> list[Tensor]:
    """Every state of every recurrent layer, and what its embedding keeps."""
    kept = [layer for layer in cache.layers if hasattr(layer, "recurrent_states")]
    found = [*(layer.recurrent_states[0] for layer in kept)]
    return found + [state for layer in kept for state in layer.conv_states.values() if state is not None]


@pytest.mark.parametrize("kind", ["linear", "dynamic", "yarn"])
def test_every_rotary_that_is_let_in(kind: str, tiny: Any, oracle: Any, next_logits: Any) -> None:
    scaled = {"rope_type": kind, "factor": 4.0, "rope_theta": 10_000.0, "partial_rotary_factor": 0.25}
    options = {"rope_parameters": scaled, "max_position_embeddings": 32}
    own, model = (tiny("qwen4_exp", **options) for _ in range(2))  # the dynamic kind remembers what it has seen
    ids = ids_of(65)
    true = oracle(own, ids, SPLIT)
    cache = prefill(model, true, ids, tail=TAIL, chunk=7)
    assert (next_logits(model, cache, ids) - true.logits[:, -1]).abs().max() <= 1e-5


@pytest.mark.parametrize("chunk", [None, 1, 5])
@pytest.mark.parametrize("length", [30, 65])
def test_layers_that_embed_tokens_below_the_split(
    length: int, chunk: int | None, lexical: Any, oracle: Any, next_logits: Any
) -> None:
    """Their streams, and what they keep of the last rows and tokens, are the model's own in such pieces."""
    ids, own = ids_of(length), None
    ids[0, 11] = 96  # the end of a text, over which no n-gram reaches
    for part in sweep.parts(0, length - 1, chunk or length - 1):
        own = lexical(ids[:, part], cache=own).cache
    cache = prefill(lexical, oracle(lexical, ids[:, :-1], SPLIT), ids, tail=TAIL, chunk=chunk, rows=[2, 9])
    for mine, theirs in zip(states(cache), states(own), strict=True):
        assert mine.dtype == theirs.dtype
        assert (mine - theirs).double().norm() <= 5e-6 * theirs.double().norm()
    assert (next_logits(lexical, cache, ids) - next_logits(lexical, own, ids)).abs().max() <= 1e-5
    tokens = lexical.generate(ids, max_new_tokens=8, do_sample=False)
    with filling(lexical, oracle(lexical, ids, SPLIT), tail=TAIL, chunk=chunk):
        assert torch.equal(lexical.generate(ids, max_new_tokens=8, do_sample=False), tokens)


def test_such_layers_in_a_padded_batch(lexical: Any) -> None:
    ids = ids_of(60, batch=2)
    mask = (torch.arange(60)[None] >= torch.tensor([[0], [9]])).long()
    cache = prefill(lexical, Identity(SPLIT), ids.masked_fill(mask == 0, 0), tail=TAIL, attention_mask=mask)
    together = extend(lexical, cache, ids[:, -1:], mask)
    for b, pad in enumerate((0, 9)):
        alone = ids[b : b + 1, pad:]
        other = prefill(lexical, Identity(SPLIT), alone, tail=TAIL)
        assert (together[b, -1] - extend(lexical, other, alone[:, -1:])[0, -1]).abs().max() <= 1e-5


@pytest.mark.parametrize(("past", "more"), [(10, 5), (64, 1), (1, 12)])
def test_such_layers_go_on_over_a_cache(past: int, more: int, lexical: Any) -> None:
    ids = ids_of(past + more)
    logits = extend(lexical, lexical(ids[:, :past]).cache, ids[:, past:])
    assert (logits - lexical(ids).logits[:, past:]).abs().max() <= 1e-5


@pytest.mark.parametrize("split", [1, 2])
def test_such_a_layer_above_the_split_is_refused_by_name(split: int, lexical: Any, words: Any) -> None:
    """It reads the true streams of the rows before; a split at its own number is above it already counted from 0."""
    with pytest.raises(FillUsageError, match=rf"layer 2, above the split.*at least 3.*found {split}"):
        prefill(lexical, Identity(split), ids_of(65), tail=TAIL)
    with pytest.raises(FillUsageError, match="layer 2, above the split"):
        ridgefill.fit(lexical, words, ["w3 w4 " * 90], splits=[split], penalty=0.1)
    run(lexical, Identity(3), ids_of(65), tail=TAIL)


def test_a_model_of_sparse_attention_alone_shares_nothing(tiny: Any, oracle: Any, next_logits: Any) -> None:
    """What arms share below the split is keys and values; an indexer's keys are not among them."""
    model, ids, shared = tiny("qwen4_exp", layer_types=["indexed_attention"] * 8), ids_of(65), Shared()
    true = oracle(model, ids[:, :-1], SPLIT)
    for _ in range(2):
        cache = run(model, true, ids, tail=TAIL, rows=[3, 30], shared=shared).cache
        own = model(ids[:, :-1]).cache
        for mine, theirs in zip(cache.layers, own.layers, strict=True):
            assert (mine.indexer_keys - theirs.indexer_keys).abs().max() <= 1e-5
        assert (next_logits(model, cache, ids) - next_logits(model, own, ids)).abs().max() <= 1e-5


def test_configs_of_the_whole_model_and_of_its_text_are_one_family(model: Any) -> None:
    whole = Qwen4ExpConfig(text_config=model.config.to_dict())
    family = family_of(whole)
    assert family is family_of(model.config)
    assert family.layer_kinds(whole) == family.layer_kinds(model.config) == (["recurrent"] * 3 + ["full_attn"]) * 2
    assert (family.stream_width(whole), family.block_in_width(whole)) == (128, 32)
    loaded = AutoModelForCausalLM.from_config(whole)
    assert isinstance(loaded.config, Qwen4ExpTextConfig)
    assert run(loaded, Identity(SPLIT), ids_of(65), tail=TAIL).plan.layers == 8


def test_the_model_for_text_and_images_is_refused(model: Any) -> None:
    text = model.config.to_dict()
    vision = {"depth": 1, "hidden_size": 16, "intermediate_size": 16, "num_heads": 2, "out_hidden_size": 32}
    whole = AutoModelForImageTextToText.from_config(Qwen4ExpConfig(text_config=text, vision_config=vision))
    with pytest.raises(FillUsageError, match=r"text and images.*AutoModelForCausalLM"):
        prefill(whole, Identity(SPLIT), ids_of(65), tail=TAIL)


def test_rotary_layers_and_indexers_of_unknown_kinds_are_refused_by_name(model: Any, tiny: Any) -> None:
    def refused(match: str) -> None:
        with pytest.raises(FillUsageError, match=match):
            prefill(model, Identity(SPLIT), ids_of(65), tail=TAIL)

    known = model.config.rope_parameters
    model.config.rope_parameters = known | {"rope_type": "spiral"}
    refused(r"rotary of an unknown kind.*spiral")
    model.config.rope_parameters = known
    model.config.indexer_kv_heads = 2
    refused(r"indexer of an unknown kind.*one key head.*2 key heads")
    model.config.indexer_kv_heads = 1
    model.config.indexer_budget = None
    refused(r"indexer of an unknown kind.*no indexer_budget")
    model.config.layer_types = ["linear_attention"] * 7 + ["sliding_attention"]
    refused(r"unknown kind.*sliding_attention")


def test_no_fill_is_refused(model: Any) -> None:
    """A late layer without the prefix would pool other rows into its blocks than the model does."""
    with pytest.raises(FillUsageError, match=r"no fill.*indexer.*qwen4_exp"):
        prefill(model, NoFill(SPLIT), ids_of(65), tail=TAIL)


@pytest.mark.parametrize("guess", ["assistant_model", "prompt_lookup_num_tokens"])
def test_a_cache_that_must_be_rolled_back_is_refused(guess: str, model: Any) -> None:
    option = {guess: model if guess == "assistant_model" else 3}
    with filling(model, Identity(SPLIT), tail=TAIL), pytest.raises(FillUsageError, match=f"{guess} rolls the cache"):
        model.generate(ids_of(65), max_new_tokens=5, **option)
