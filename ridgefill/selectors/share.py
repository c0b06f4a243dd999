"""Any selector at a count that is given, so that selectors can be compared at equal count (paper 2.4)."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from ridgefill.selectors.base import Ranked, Selector, View, first_of_each, share_of
from ridgefill.selectors.random import Random


@dataclass(frozen=True)
class Share(Ranked):
    """Budget: `share` of the prompt, rounded up; where the selector ranks fewer rows, random ones complete them."""

    selector: Selector
    share: float
    rest: Selector = field(default_factory=Random)

    @property
    def name(self) -> str:
        return self.selector.name

    @property
    def layers(self) -> tuple[int, ...]:
        return self.selector.layers

    @property
    def probes(self) -> int:
        return self.selector.probes

    def asks(self, length: int, prefix: int) -> range:
        return self.selector.asks(length, prefix)

    def ranking(self, view: View) -> Tensor:
        return first_of_each(self.selector.ranking(view), self.rest.ranking(view))

    def budget(self, view: View) -> int:
        return share_of(view, self.share)
