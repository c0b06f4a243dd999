"""Tokens that are worth protecting by what they are, the rarest of them first (paper 2.4)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from ridgefill.rowsel import RowTable
from ridgefill.selectors.base import Ranked, View
from ridgefill.texts import builtin


@dataclass(frozen=True, eq=False)
class Protected(Ranked):
    """Budget: a quarter of the prefix rows whose token has a finite score. Ties go to the earlier row.

    score: fp32 [vocabulary], as `RowTable` gives it. share: of the eligible rows.
    """

    name: ClassVar[str] = "protected"
    probes: ClassVar[int] = 0
    layers: ClassVar[tuple[int, ...]] = ()
    score: Tensor
    share: float = 0.25

    @classmethod
    def of(cls, tokenizer: Any) -> Protected:
        """With rarities from the built-in texts, for who has no table of the maps' own calibration text."""
        return cls(RowTable.of(tokenizer, builtin().calibration.values()).score)

    def asks(self, length: int, prefix: int) -> range:
        return range(0)

    def ranking(self, view: View) -> Tensor:
        scores = self.score[view.ids[: view.prefix]]
        order = scores.argsort(descending=True, stable=True)
        return order[scores[order].isfinite()]

    def budget(self, view: View) -> int:
        return math.ceil(self.share * len(self.ranking(view)))
