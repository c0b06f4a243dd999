"""What a row selector is given, and what it must give."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor


@dataclass(frozen=True)
class View:
    """One prompt as a selector sees it, after the lower layers ran.

    ids: token ids [N], on the CPU; prefix: the rows before the tail; attention: fp32 [prefix], what each
    prefix row gets from the rows the selector asks with, summed over them, their heads and its layers; empty
    if it asks with none.
    """

    ids: Tensor
    prefix: int
    attention: Tensor


class Selector(Protocol):
    """Chooses the prefix rows that run exactly. Deterministic given the view and its own parameters.

    layers: those whose attention it reads, of which only the ones below the split count.
    """

    name: str
    layers: tuple[int, ...]

    def asks(self, length: int, prefix: int) -> range:
        """The prompt's rows whose attention it reads; empty if it reads none."""

    def budget(self, view: View) -> int:
        """How many rows it will choose."""

    def select(self, view: View) -> Tensor:
        """Sorted, unique row indices in 0..prefix-1, int64, as many as `budget` says."""
