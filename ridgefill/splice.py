"""Splices: filled keys, values or both replaced by exact ones in every filled attention layer at once.

They say how much of the fill's loss comes from where rows look and how much from what they read there
(method-spec, Measures).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from ridgefill.edits import Change, Edit, Heads, Tail
from ridgefill.families import family_of
from ridgefill.families.base import FULL

Part = Literal["keys", "values"]


@dataclass(frozen=True)
class Splice(Edit):
    """Write exact keys (before rotary), values, or both. exact: late layer -> heads [B, n, KV, hd]."""

    exact: Mapping[int, Heads]
    parts: Collection[Part]

    def at(self, layer: int, tail: Tail) -> Change:
        true_keys, true_values = self.exact[layer]

        def change(rows: slice, heads: Heads) -> Heads:
            keys, values = heads
            return (
                true_keys[:, rows] if "keys" in self.parts else keys,
                true_values[:, rows] if "values" in self.parts else values,
            )

        return change


@torch.no_grad()
def exact_heads(model: Any, input_ids: Tensor, split: int) -> dict[int, Heads]:
    """What each attention layer from `split` on writes in an exact run of ids [B, N]: heads [B, N, KV, hd]."""
    family = family_of(model)
    base, kinds = family.base(model), family.layer_kinds(model.config)
    late = [layer for layer in range(split, len(kinds)) if kinds[layer] == FULL]
    exact: dict[int, Heads] = {}

    def keep(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        stream = args[0] if args else kwargs["hidden_states"]
        exact[late[len(exact)]] = family.keys_values(module, family.block_input(module, stream))

    hooks = [base.layers[layer].register_forward_pre_hook(keep, with_kwargs=True) for layer in late]
    try:
        base(input_ids=input_ids, use_cache=False)
    finally:
        for hook in hooks:
            hook.remove()
    return exact
