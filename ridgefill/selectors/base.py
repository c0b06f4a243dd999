"""What a row selector is given, and what it must give."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

SHARE = 0.10  # of the prompt's tokens, paper 2.4


@dataclass(frozen=True)
class View:
    """One prompt as a selector sees it, after the lower layers ran.

    ids: token ids [N], on the CPU; prefix: the number of rows before the tail; attention: fp32 [prefix], what
    each prefix row gets from the rows the selector asks with, summed over them, their heads and its layers;
    empty if it asks with none; probed: the same in the late layers, from the last rows over the filled cache,
    for a selector that probes.
    """

    ids: Tensor
    prefix: int
    attention: Tensor
    probed: Tensor | None = None


class Selector(Protocol):
    """Chooses the prefix rows that run exactly; deterministic given the view and its own parameters."""

    @property
    def name(self) -> str:
        """Its name in the registry."""

    @property
    def layers(self) -> tuple[int, ...]:
        """The layers whose attention it reads; only those below the split count."""

    @property
    def probes(self) -> int:
        """How many of the prompt's last rows run the late layers first, to tell what they read; 0 for none."""

    def asks(self, length: int, prefix: int) -> range:
        """The rows of a prompt of `length` tokens whose attention it reads; empty if it reads none."""

    def ranking(self, view: View) -> Tensor:
        """Unique row indices in 0..prefix-1, int64, those to keep first first; all that it would ever choose."""

    def budget(self, view: View) -> int:
        """How many of them it will choose."""

    def select(self, view: View) -> Tensor:
        """Sorted, unique row indices in 0..prefix-1, int64, as many as `budget` says."""


class Ranked(ABC):
    """A selector that chooses the best of its ranking, as all do."""

    @abstractmethod
    def ranking(self, view: View) -> Tensor:
        """As `Selector.ranking`."""

    @abstractmethod
    def budget(self, view: View) -> int:
        """As `Selector.budget`."""

    def select(self, view: View) -> Tensor:
        """As `Selector.select`."""
        return self.ranking(view)[: self.budget(view)].sort().values


def first_of_each(*rankings: Tensor) -> Tensor:
    """One ranking after the other, each row where it comes first."""
    return torch.tensor(list(dict.fromkeys(torch.cat(rankings).tolist())), dtype=torch.long)


def share_of(view: View, share: float) -> int:
    """A share of the prompt's tokens, rounded up, of what the prefix has."""
    return min(math.ceil(share * len(view.ids)), view.prefix)


def tenth(view: View) -> int:
    """The budget of paper 2.4."""
    return share_of(view, SHARE)
