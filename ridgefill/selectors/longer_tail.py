"""The rows just before the tail: what the same budget does when it only lengthens the tail (paper 2.4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ridgefill.selectors.base import Ranked, View, tenth


@dataclass(frozen=True)
class LongerTail(Ranked):
    """Budget: a tenth of the prompt."""

    name: ClassVar[str] = "longer_tail"
    probes: ClassVar[int] = 0
    layers: ClassVar[tuple[int, ...]] = ()

    def asks(self, length: int, prefix: int) -> range:
        return range(0)

    def ranking(self, view: View) -> Tensor:
        return torch.arange(view.prefix).flip(0)

    def budget(self, view: View) -> int:
        return tenth(view)
