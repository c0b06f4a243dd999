"""The 27B's rows: what the late layers read most, the sentences that the question names, special tokens (paper 2.4)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from ridgefill.selectors.attention import ASKING
from ridgefill.selectors.base import Ranked, View, first_of_each
from ridgefill.selectors.digits import Digits
from ridgefill.selectors.lexical_net import LexicalNet
from ridgefill.selectors.protected import Protected
from ridgefill.selectors.special import Special


@dataclass(frozen=True, eq=False)
class Probe(Ranked):
    """Budget: `count` rows, the lexical net's among them and the rest by the probe's ranking, and every special token
    on top. Ties go to the earlier row.

    count: as many rows as the rules would choose that the probe replaces: the rarer half of protected tokens, digits,
    and a fifth of the prefix by what the question attends to in `layers`; together, times `factor`.
    """

    name: ClassVar[str] = "probe"
    probes: ClassVar[int] = 256
    protected: Protected
    digits: Digits
    net: LexicalNet
    special: Special
    layers: tuple[int, ...] = (3, 7, 11, 15)
    share: float = 0.20
    factor: float = 1.0

    @classmethod
    def of(cls, tokenizer: Any, protected: Protected | None = None) -> Probe:
        """For prompts of this tokenizer; with the maps' own table of rarities if it is given."""
        base = protected or Protected.of(tokenizer)
        return cls(Protected(base.score, 0.5), Digits.of(tokenizer), LexicalNet.of(tokenizer), Special.of(tokenizer))

    def asks(self, length: int, prefix: int) -> range:
        return range(max(0, length - ASKING), length)

    def count(self, view: View) -> int:
        """How many rows the probe and the lexical net keep together."""
        asked = view.attention.argsort(descending=True, stable=True)[: math.ceil(self.share * view.prefix)]
        union = torch.unique(torch.cat((asked, self.protected.select(view), self.digits.select(view))))
        return round(self.factor * len(union))

    def budget(self, view: View) -> int:
        special = len(self.special.ranking(view))
        return special + min(self.count(view), view.prefix - special)

    def ranking(self, view: View) -> Tensor:
        assert view.probed is not None  # noqa: S101 - `probes` asked for it
        probed = view.probed.argsort(descending=True, stable=True)
        return first_of_each(self.special.ranking(view), self.net.ranking(view), probed)
