"""quantile: of one arm, interpolated as numpy's `linear` does (type 7)."""

from __future__ import annotations

from dataclasses import dataclass

from ledger.errors import UsageProblem
from recompute.statistics.base import OfRanks


@dataclass(frozen=True)
class Quantile(OfRanks):
    """The q-quantile, 0 <= q <= 1, in the unit of the values."""

    q: float = 0.99
    arms = ("arm",)

    def __post_init__(self) -> None:
        if not 0 <= self.q <= 1:
            raise UsageProblem("no such quantile", expected="a share from 0 to 1", found=str(self.q))

    @property
    def share(self) -> float:
        return self.q
