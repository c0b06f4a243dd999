"""The rows that the end of the prompt, where the question stands, attends to most (paper 2.4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from ridgefill.selectors.base import Ranked, View, tenth

ASKING = 64


@dataclass(frozen=True)
class Attention(Ranked):
    """Budget: a tenth of the prompt. Ties go to the earlier row.

    layers: of 30 to 36 layers; give others for another depth.
    """

    name: ClassVar[str] = "attention"
    probes: ClassVar[int] = 0
    layers: tuple[int, ...] = (3, 7, 11, 15)

    def asks(self, length: int, prefix: int) -> range:
        return range(max(0, length - ASKING), length)

    def ranking(self, view: View) -> Tensor:
        return view.attention.argsort(descending=True, stable=True)

    def budget(self, view: View) -> int:
        return tenth(view)
