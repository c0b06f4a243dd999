"""Recurrent layers above the split: one state, carried over every row in order (paper 2.3).

Filled rows bring what their predicted input brings, exact rows what their true one does. At the end of the prefix,
before the tail, corrections are added once.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from ridgefill.edits import Edit
from ridgefill.plan import Predictor
from ridgefill.sweep import SEGMENT, Sweep, parts


class Share:
    """rho = M / D: how much of a recurrent state comes from filled rows, per prompt and head.

    A row weighs as much as the gates after it leave of it: D <- g D + 1 and M <- g M + [row is filled].
    """

    def __init__(self) -> None:
        self._filled, self._all = torch.zeros(()), torch.zeros(())

    def add(self, decay: Tensor, filled: Tensor, padded: Tensor | None = None) -> None:
        """The next rows: decay [B, n, heads], log of their gates; filled bool [n]; padded [B, n] weigh nothing."""
        after = decay.flip(1).cumsum(1).flip(1)
        weight = torch.cat((after[:, 1:], torch.zeros_like(after[:, :1])), 1).exp()
        if padded is not None:
            weight = weight.masked_fill(padded[..., None], 0)
        left = after[:, 0].exp()
        self._all = self._all.to(left) * left + weight.sum(1)
        self._filled = self._filled.to(left) * left + (weight * filled.to(weight)[:, None]).sum(1)

    @property
    def ratio(self) -> Tensor:
        """rho, fp32 [B, heads], 0 to 1."""
        return self._filled / self._all


def carry_filled(
    sweep: Sweep,
    arm: Predictor,
    layer: int,
    prefix: int,
    state: Tensor,
    exact: Tensor,
    x: Tensor,
    edits: Sequence[Edit],
) -> Tensor:
    """Every row through a late recurrent layer's state; the exact rows on to the next layer's input, as `x`.

    state [B, N, d_in]: the split state of every row; exact: sorted rows, on the CPU, that enter the layer as `x`
    [B, len(exact), d]; rows before `prefix` that are not among them are filled.
    """
    module, n, out = sweep.base.layers[layer], state.shape[1], torch.empty_like(x)
    offsets = [offset for edit in edits if (offset := edit.offset(layer)) is not None]
    # Cut at the end of the prefix only where something is added there: the kernel works on 64 rows from the start
    # of each piece, so that pieces of other lengths are summed, and rounded, in another order than the model's.
    ends = [prefix, n] if offsets else [n]
    pieces = [part for start, end in pairwise([0, *ends]) for part in parts(start, end, SEGMENT)]
    share = Share()
    for part in pieces:
        first, stop = torch.searchsorted(exact, torch.tensor([part.start, part.stop])).tolist()
        own = exact[first:stop] - part.start
        inputs, filled = _inputs(sweep, arm, layer, state[:, part], own, x[:, first:stop])
        padded = None if sweep.prompt.padded is None else sweep.prompt.padded[:, part]
        read, decay = sweep.carry(layer, inputs, padded)
        if first < stop:
            out[:, first:stop] = sweep.family.finish(module, x[:, first:stop], inputs[:, own], read[:, own])
        if offsets and part.stop <= prefix:
            share.add(decay, filled, padded)
        if offsets and part.stop == prefix:
            state_now = sweep.cache.layers[layer].recurrent_states[0]
            state_now += share.ratio[..., None, None] * sum(offset.to(state_now) for offset in offsets)
    return out


def _inputs(
    sweep: Sweep, arm: Predictor, layer: int, state: Tensor, own: Tensor, streams: Tensor
) -> tuple[Tensor, Tensor]:
    """A segment's block inputs [B, n, d], predicted but for the rows `own`, which enter the layer as `streams`.

    And which rows are filled, bool [n].
    """
    filled = torch.ones(state.shape[1], dtype=torch.bool)
    filled[own] = False
    if not len(own):
        return sweep.predict(arm, layer, state), filled
    true = sweep.family.block_input(sweep.base.layers[layer], streams)
    rows, inputs = filled.nonzero()[:, 0], true.new_empty(*state.shape[:2], true.shape[-1])
    inputs[:, own] = true
    if len(rows):
        inputs[:, rows] = sweep.predict(arm, layer, state[:, rows])
    return inputs, filled
