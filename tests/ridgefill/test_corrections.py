"""One contract for every correction in the registry, in dense models and hybrids."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from ridgefill import correctionfile
from ridgefill.corrections import CORRECTIONS, correction
from ridgefill.errors import FillUsageError
from ridgefill.families import family_of
from ridgefill.fitting import fit
from ridgefill.maps import Maps
from ridgefill.plan import Identity
from ridgefill.schedule import run
from ridgefill.terminal import late_recurrent, measure

SPLIT, TAIL, N = 4, 13, 90
FAMILIES = ("llama", "qwen3_5", "qwen4_exp")


def ids_of(length: int) -> Tensor:
    return torch.randint(2, 97, (1, length), generator=torch.Generator().manual_seed(length))


def maps_of(model: Any, words: Any, split: int = SPLIT) -> Maps:
    """Fitted maps; with a correction if the model has a state to correct."""
    text = " ".join(f"w{i * i % 95 + 2}" for i in range(300))
    maps = fit(model, words, [text], splits=[split], penalty=0.1)[split]
    if not late_recurrent(split, family_of(model).layer_kinds(model.config)):
        return maps
    offsets = measure(model, maps, [ids_of(64)[0]], every=64).offsets
    return maps.attach(correctionfile.NAME, correctionfile.pack(offsets))


def tensors(cache: Any, layer: int) -> list[Tensor]:
    store = cache.layers[layer]
    if hasattr(store, "keys"):
        return [store.keys, store.values]
    return [store.recurrent_states[0], store.conv_states[0]]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", sorted(CORRECTIONS))
def test_contract(name: str, family: str, tiny: Any, words: Any) -> None:
    """It changes late layers that hold filled rows, of its own kind, and nothing below the split; the same again; and
    it is refused by one line where a model or an arm has nothing for it."""
    model, ids = tiny(family), ids_of(N)
    maps, layers = maps_of(model, words), len(model.model.layers)
    if name == "terminal-state" and family == "llama":
        with pytest.raises(FillUsageError, match="carry no terminal-state"):
            correction(name)(maps)
        return
    edit = correction(name)(maps)
    plain, done, again = (run(model, maps, ids, tail=TAIL, edits=edits).cache for edits in ((), (edit,), (edit,)))
    changed = []
    for layer in range(layers):
        before, after = tensors(plain, layer), tensors(done, layer)
        assert all(map(torch.equal, after, tensors(again, layer)))
        assert [tensor.dtype for tensor in before] == [tensor.dtype for tensor in after]
        if not all(map(torch.equal, before, after)):
            changed.append(layer)
    assert changed
    assert min(changed) >= SPLIT
    exact = [run(model, maps, ids, tail=TAIL, rows=range(N - TAIL), edits=edits).cache for edits in ((), (edit,))]
    for layer in range(layers):
        for mine, theirs in zip(*(tensors(cache, layer) for cache in exact), strict=True):
            assert (mine - theirs).abs().max() <= 1e-5  # no filled row, nothing to correct


@pytest.mark.parametrize("name", sorted(CORRECTIONS))
def test_one_for_another_split_is_refused_or_for_every_split(name: str, tiny: Any, words: Any) -> None:
    model, ids = tiny("qwen3_5"), ids_of(N)
    edit = correction(name)(maps_of(model, words))
    if name == "terminal-state":
        with pytest.raises(FillUsageError, match="fitted for another split"):
            run(model, Identity(5), ids, tail=TAIL, edits=[edit])
        with pytest.raises(FillUsageError, match="carry no terminal-state"):
            correction(name)(Identity(SPLIT))
    else:
        assert run(model, Identity(5), ids, tail=TAIL, edits=[edit]).plan.split == 5


def test_an_unknown_one_is_refused_with_the_list() -> None:
    with pytest.raises(FillUsageError, match="value-rescale, key-rescale, terminal-state"):
        correction("magic")
