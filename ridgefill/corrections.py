"""Corrections of what filled rows leave behind, by the names they have in a study.

Rescales are measured on the tail, where truth and prediction are both known; the terminal-state correction is
measured before (ridgefill/terminal.py).

Value rescale (paper 2.3), per late attention layer and key head g, over the first m tail rows:
    s_g = mean over t of |v_true(t, g)| / |v_filled(t, g)|,    filled values are multiplied by s_g.
Key rescale is the same with keys before rotary.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from ridgefill.edits import Change, Edit, Heads, Tail
from ridgefill.errors import FillUsageError
from ridgefill.terminal import TerminalState

M = 512


@dataclass(frozen=True)
class Rescale(Edit):
    """Multiply what filled rows write by s_g. part: what is rescaled; m: how many tail rows measure it."""

    part: Literal["keys", "values"]
    m: int = M

    def at(self, layer: int, tail: Tail) -> Change:
        m = min(self.m, tail.rows)
        if m < 1:
            raise FillUsageError(
                f"the rescale of {self.part} has no tail row to measure on",
                expected="a tail of at least 2 tokens, as the last one is the model's own step",
            )
        which = ("keys", "values").index(self.part)
        scale = ratio(tail.true(m)[which], tail.filled(m)[which])

        def change(rows: slice, heads: Heads) -> Heads:
            keys, values = heads
            return (keys * scale, values) if self.part == "keys" else (keys, values * scale)

        return change


def value_rescale(m: int = M) -> Rescale:
    """The paper's value rescale."""
    return Rescale("values", m)


def key_rescale(m: int = M) -> Rescale:
    """The same with keys before rotary, which the splices use."""
    return Rescale("keys", m)


def ratio(true: Tensor, filled: Tensor) -> Tensor:
    """s_g of heads [B, m, KV, hd], as [B, 1, KV, 1] in their dtype; norms and mean are taken in fp32."""
    lengths = filled.float().norm(dim=-1).clamp(min=1e-12)
    mean: Tensor = (true.float().norm(dim=-1) / lengths).mean(1)
    return mean[:, None, :, None].to(true.dtype)


# name -> how it is made for an arm
CORRECTIONS: dict[str, Callable[[Any], Edit]] = {
    "value-rescale": lambda arm: value_rescale(),
    "key-rescale": lambda arm: key_rescale(),
    "terminal-state": TerminalState.of,
}


def correction(name: str) -> Callable[[Any], Edit]:
    """How to make the correction `name` for an arm; raises FillUsageError for an unknown name."""
    if name not in CORRECTIONS:
        raise FillUsageError("no such correction", expected=", ".join(CORRECTIONS), found=repr(name))
    return CORRECTIONS[name]
