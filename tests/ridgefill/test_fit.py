"""Fitting as users call it: what comes back, what is recorded, and what is refused before any long work."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import ridgefill
from ridgefill.errors import FillError, FillUsageError
from ridgefill.fitting import fit
from ridgefill.ridge import PENALTIES
from ridgefill.texts import builtin, digests


def texts(count: int = 10, length: int = 40, seed: int = 0) -> list[str]:
    rng = random.Random(seed)
    return [" ".join(f"w{rng.randrange(1, 97)}" for _ in range(length)) for _ in range(count)]


@pytest.fixture
def unrun(tiny: Callable[..., Any]) -> Any:
    """A model that must not be run: a refusal comes before any long work."""
    model = tiny("llama")
    model.model.layers[0].register_forward_hook(lambda *_: pytest.fail("the model ran"))
    return model


def test_three_lines_fit_fill_and_generate(model: Any, words: Any) -> None:
    maps = ridgefill.fit(model, words, texts(), splits=[2, 4])
    ids = torch.tensor([words(texts(1)[0])["input_ids"]])
    cache = ridgefill.prefill(model, maps, ids, split=2, tail=8)
    assert cache.get_seq_length() == 39
    assert list(maps) == [2, 4]
    for split, fitted in maps.items():
        assert fitted.split == split
        assert fitted.layers == tuple(range(split, 6))


@pytest.mark.parametrize(("sink_rows", "name"), [(0, "plain"), (4, "sink_free")])
def test_a_fit_is_recorded_with_its_curve_and_its_texts(model: Any, words: Any, sink_rows: int, name: str) -> None:
    used = texts()
    maps = fit(model, words, used, [3], sink_rows=sink_rows, window=25)[3]
    about = maps.manifest.fit
    assert (about["name"], about["sink_rows"], maps.sink_rows) == (name, sink_rows, sink_rows)
    assert about["rows"] == 9 * (40 - 2 * sink_rows)  # nine texts of two windows; the tenth is held out
    assert about["texts_sha256"] == digests(used[:9])
    assert about["held_out_sha256"] == digests(used[9:])
    penalties, cosines = zip(*about["curve"], strict=True)
    assert penalties == PENALTIES
    assert all(0 < cosine <= 1 for cosine in cosines)
    assert about["penalty"] == penalties[cosines.index(max(cosines))]


def test_the_fitted_map_of_the_split_layer_reproduces_its_input(model: Any, words: Any) -> None:
    """At l = S the target is the input, so a weak penalty must give nearly the identity."""
    maps = fit(model, words, texts(20), [3], penalty=1e-6)[3]
    states = model(torch.tensor([words(texts(1, seed=5)[0])["input_ids"]]), output_hidden_states=True).hidden_states
    predicted = maps.to(torch.float32).predict(3, states[3])
    assert (predicted - states[3]).norm() < 0.02 * states[3].norm()
    later = maps.to(torch.float32).predict(5, states[3])
    assert (later - states[5]).norm() < (states[3] - states[5]).norm()


def test_maps_survive_the_disk_in_both_dtypes(model: Any, words: Any, tmp_path: Path) -> None:
    maps = fit(model, words, texts(), [3])[3]
    for dtype, worst in (("bf16", 0.0), ("i8", 0.02)):
        loaded = maps.save(tmp_path / dtype, dtype)
        loaded.check_model(model, words)
        for layer in maps.layers:
            difference = (loaded.weight(layer).float() - maps.weight(layer).float()).abs().max()
            assert difference <= worst * maps.weight(layer).abs().max()


def test_a_single_text_holds_out_its_last_tenth(model: Any, words: Any) -> None:
    maps = fit(model, words, [texts(1, length=400)[0]], [3], window=50)[3]
    assert 340 <= maps.manifest.fit["rows"] <= 370


def test_a_given_penalty_needs_no_held_out_text(model: Any, words: Any) -> None:
    about = fit(model, words, texts(), [3], penalty=0.03)[3].manifest.fit
    assert about["penalty"] == 0.03
    assert about["curve"] == []
    assert about["rows"] == 400


def refused(unrun: Any, words: Any, message: str, *arguments: Any, **options: Any) -> None:
    with pytest.raises(FillUsageError, match=message) as caught:
        fit(unrun, words, *arguments, **options)
    assert "\n" not in caught.value.line()


@pytest.mark.parametrize("splits", [[], [0], [6], [-1], [3, 3], [2, 9]])
def test_bad_splits_are_refused(unrun: Any, words: Any, splits: list[int]) -> None:
    refused(unrun, words, r"bad splits; expected different layers of 1\.\.5", texts(), splits)


def test_bad_texts_are_refused(unrun: Any, words: Any) -> None:
    refused(unrun, words, "empty calibration text", [], [3])
    refused(unrun, words, "empty calibration text", ["w1 w2", "  \n"], [3])
    refused(unrun, words, "empty calibration text", texts(), [3], held_out=[""])
    refused(unrun, words, "texts is one string", "w1 w2", [3])
    refused(unrun, words, "too little calibration text.*at least 32", texts(2, length=10), [3])
    refused(unrun, words, "too little", texts(5), [3], window=10, sink_rows=9)
    refused(unrun, words, "held-out text is too short", texts(), [3], held_out=["w1"])
    refused(unrun, words, "also a calibration text", texts(), [3], held_out=[texts()[4]])
    refused(unrun, words, "positive and finite", texts(), [3], penalty=0.0)


@pytest.mark.parametrize(
    "options", [{"window": 1}, {"window": 0}, {"sink_rows": -1}, {"sink_rows": 2048}, {"window": 4097}]
)
def test_bad_windows_are_refused(unrun: Any, words: Any, options: dict[str, int]) -> None:
    refused(unrun, words, "bad window", texts(), [3], **options)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_named_before_the_pass(unrun: Any, words: Any, value: float) -> None:
    unrun.model.layers[4].mlp.up_proj.weight[1, 2] = value
    refused(unrun, words, r"not finite: model\.layers\.4\.mlp\.up_proj\.weight", texts(), [3])


def test_one_token_repeated_is_refused_by_name(tiny: Callable[..., Any], words: Any) -> None:
    with pytest.raises(FillError, match="constant"):
        fit(tiny("llama"), words, ["w5 " * 40, "w5 " * 39], [3], penalty=0.1)


def test_an_architecture_nobody_knows_is_refused(words: Any) -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config(n_layer=2, n_embd=8, n_head=2, vocab_size=97))
    with pytest.raises(FillUsageError, match="gpt2"):
        fit(model, words, texts(), [1])


def test_the_built_in_texts_are_disjoint_and_long_enough() -> None:
    """No run of 50 words in two sets, so the table's documents were not seen; sizes in words."""
    sets = [builtin().calibration, builtin().held_out, builtin().evaluation]
    runs = []
    for documents in sets:
        found = set()
        for text in documents.values():
            said = text.split()
            found |= {tuple(said[i : i + 50]) for i in range(len(said) - 49)}
        runs.append(found)
    assert not runs[0] & runs[2]
    assert not runs[1] & runs[2]
    assert not runs[0] & runs[1]
    sizes = [sum(len(text.split()) for text in documents.values()) for documents in sets]
    assert sizes[0] > 60_000
    assert len(sets[2]) == 12
    assert all(len(text) > 17_000 for text in sets[2].values())


def test_the_package_offers_its_names_and_no_others() -> None:
    for name in ridgefill.__all__:
        assert getattr(ridgefill, name).__name__ == name
    assert dir(ridgefill) == ridgefill.__all__
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = ridgefill.nothing
