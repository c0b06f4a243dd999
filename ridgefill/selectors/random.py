"""Rows drawn uniformly from the prefix: the control of every selector with the same budget (paper 2.4)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ridgefill.selectors.base import Ranked, View, tenth


@dataclass(frozen=True)
class Random(Ranked):
    """Budget: a tenth of the prompt. Each prompt has its own seed, made of `seed` and its token ids."""

    name: ClassVar[str] = "random"
    probes: ClassVar[int] = 0
    layers: ClassVar[tuple[int, ...]] = ()
    seed: int = 0

    def asks(self, length: int, prefix: int) -> range:
        return range(0)

    def ranking(self, view: View) -> Tensor:
        digest = hashlib.sha256(f"{self.seed} {view.ids.tolist()}".encode()).digest()
        generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)
        return torch.randperm(view.prefix, generator=generator)

    def budget(self, view: View) -> int:
        return tenth(view)
