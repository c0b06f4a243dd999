"""What may change what filled rows leave behind: the base of corrections and splices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

Heads = tuple[Tensor, Tensor]  # keys before rotary and values, each [B, n, KV, hd]
Change = Callable[[slice, Heads], Heads]  # rows and what they would write -> what they write


@dataclass(frozen=True)
class Tail:
    """One late layer at the tail's first rows: what they write, and what they would write were they filled.

    true(m) and filled(m) give the heads of the first m tail rows; rows: how many there are.
    """

    rows: int
    true: Callable[[int], Heads]
    filled: Callable[[int], Heads]


class Edit:
    """Changes what filled rows leave behind, before the tail reads it; by default nothing, in either kind of layer."""

    def check(self, split: int, kinds: Sequence[str]) -> None:
        """Refuse, with FillUsageError and before any work, a split or a model's kinds of layers it is not for."""

    def at(self, layer: int, tail: Tail) -> Change | None:
        """The change for one late attention layer. Raises FillUsageError if it cannot be made there."""

    def offset(self, layer: int) -> Tensor | None:
        """What the state of one late recurrent layer lacks where every row is filled: fp32 [heads, d_k, d_v].

        It is added once, at the end of the prefix, times the filled rows' share of the state.
        """
