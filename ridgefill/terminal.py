"""Terminal-state correction: what the fill does to recurrent states on average, taken off once (paper 2.3).

    C_l = mean over calibration chunk ends of (exact state - filled state)      state += alpha rho C_l

added at the end of the prefix; rho is the filled rows' share of the state, from the request's own gates.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor
from transformers import DynamicCache

from ridgefill import correctionfile
from ridgefill.edits import Edit
from ridgefill.errors import FillUsageError
from ridgefill.families import family_of
from ridgefill.families.base import RECURRENT
from ridgefill.maps import Maps
from ridgefill.plan import Predictor, choose, predicted
from ridgefill.sweep import parts
from ridgefill.texts import digests

EVERY = 2048


@dataclass(frozen=True)
class TerminalState(Edit):
    """Adds alpha * rho * C_l to each late recurrent layer's state. offsets: layer -> C_l, fp32 [heads, d_v, d_k]."""

    split: int
    offsets: Mapping[int, Tensor]
    alpha: float = 1.0

    @classmethod
    def of(cls, maps: Predictor, alpha: float = 1.0) -> Self:
        """The correction that a map folder carries; other arms carry none.

        Raises FillUsageError if it carries none, FillMismatchError if it is not for the folder's split.
        """
        if not isinstance(maps, Maps) or (data := maps.attached(correctionfile.NAME)) is None:
            raise FillUsageError(
                "these maps carry no terminal-state correction",
                expected="a map folder with correction.safetensors",
                hint="measure one: ridgefill maps correct MODEL FOLDER --text FILE",
            )
        return cls(maps.split, correctionfile.unpack(data, maps.manifest), alpha)

    def check(self, split: int, kinds: Sequence[str]) -> None:
        late = late_recurrent(split, kinds)
        if split != self.split or late != sorted(self.offsets):
            raise FillUsageError(
                "the terminal-state correction was fitted for another split",
                expected=f"split {split} with recurrent layers {late}",
                found=f"split {self.split} with {sorted(self.offsets)}",
                hint="measure it with the maps that it is used with",
            )

    def offset(self, layer: int) -> Tensor:
        return self.alpha * self.offsets[layer].transpose(-1, -2)


def late_recurrent(split: int, kinds: Sequence[str]) -> list[int]:
    """The recurrent layers from `split` on."""
    return [layer for layer in range(split, len(kinds)) if kinds[layer] == RECURRENT]


def correct(model: Any, tokenizer: Any, maps: Maps, texts: Sequence[str], *, every: int = EVERY) -> Maps:
    """The maps with a correction measured on `texts`, which must not be those the maps were fitted on.

    Raises FillUsageError as `measure`, and for a text that the maps have seen.
    """
    seen = {*maps.manifest.fit.get("texts_sha256", ()), *maps.manifest.fit.get("held_out_sha256", ())}
    own = digests(texts)
    if seen & set(own):
        raise FillUsageError(
            "a text of the correction is one that the maps were fitted on", expected="texts that they have not seen"
        )
    prompts = [torch.tensor(tokenizer(text, verbose=False)["input_ids"]) for text in texts]
    found = measure(model, maps, prompts, every=every)
    states = sum(len(ids) // every for ids in prompts)
    about = {"every": every, "states": states, "texts_sha256": own}
    return maps.attach(correctionfile.NAME, correctionfile.pack(found.offsets), correction=about)


@torch.no_grad()
def measure(model: Any, arm: Predictor, prompts: Sequence[Tensor], *, every: int = EVERY) -> TerminalState:
    """The correction of an arm, from the states at every `every` tokens of `prompts`, token ids [n] each.

    The exact states are the model's own, run in such pieces; the filled ones take the predicted input of every
    row, but of the first `sink_rows` of the arm. Raises FillUsageError if the model has no recurrent layer from the
    arm's split on, or no prompt is long enough.
    """
    filler, family = choose(arm, None, model), family_of(model)
    late = late_recurrent(arm.split, family.layer_kinds(model.config))
    pieces = [list(parts(0, len(ids) - len(ids) % every, every)) for ids in prompts]
    states = sum(map(len, pieces))
    if not late or not states:
        raise FillUsageError(
            "there is no state to correct" if not late else "no prompt is long enough for a correction",
            expected=f"a recurrent layer from {arm.split} on" if not late else f"prompts of at least {every} tokens",
            found=f"at most {max(map(len, prompts), default=0)} tokens" if late else "attention layers alone",
        )
    base, sums = family.base(model), dict.fromkeys(late, torch.zeros(()))
    for ids, cut in zip(prompts, pieces, strict=True):
        exact, filled = DynamicCache(config=model.config), DynamicCache(config=model.config)
        with _filling_states(model, filler, filled, late):
            for part in cut:
                base(input_ids=ids[None, part].to(model.device), cache=exact, use_cache=True)
                for layer in late:
                    true, mine = (cache.layers[layer].recurrent_states[0][0] for cache in (exact, filled))
                    sums[layer] = sums[layer] + (true - mine).transpose(-1, -2).double().cpu()
    return TerminalState(arm.split, {layer: (total / states).float() for layer, total in sums.items()})


@contextmanager
def _filling_states(model: Any, arm: Any, cache: Any, late: Sequence[int]) -> Iterator[None]:
    """While the model runs a prompt piece by piece, carry in `cache` the states that the fill would leave."""
    family = family_of(model)
    base, state = family.base(model), list[Tensor]()

    def note(_: Any, args: tuple[Any, ...]) -> None:
        state[:] = [args[0]]

    def carry(layer: int, module: Any, true: Tensor) -> None:
        store, inputs = cache.layers[layer], predicted(arm, family, module, layer, state[0])
        sinks = getattr(arm, "sink_rows", 0)
        if sinks and not store.has_previous_state[0]:
            inputs[:, :sinks] = family.block_input(module, true[:, :sinks])
        family.scan(module, store, family.updates(module, inputs, None))

    hooks = [base.layers[arm.split].register_forward_pre_hook(note)]
    hooks += [
        base.layers[layer].register_forward_pre_hook(lambda module, args, layer=layer: carry(layer, module, args[0]))
        for layer in late
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
