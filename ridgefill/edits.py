"""What may change the keys and values that filled rows write: the protocol of corrections and splices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

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


class Edit(Protocol):
    """Changes what filled rows write, before the tail reads it."""

    def at(self, layer: int, tail: Tail) -> Change:
        """The change for one late layer. Raises FillUsageError if it cannot be made there."""
