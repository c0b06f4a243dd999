"""Every token that is no text: control, unknown and user-defined ones (paper 2.4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from ridgefill.selectors.base import Ranked, View


@dataclass(frozen=True)
class Special(Ranked):
    """Budget: as many rows as the prefix has such tokens. There are few, so there is no limit.

    tokens: their ids.
    """

    name: ClassVar[str] = "special"
    probes: ClassVar[int] = 0
    layers: ClassVar[tuple[int, ...]] = ()
    tokens: tuple[int, ...]

    @classmethod
    def of(cls, tokenizer: Any) -> Special:
        """Read them off a tokenizer."""
        return cls(tuple(sorted({*tokenizer.all_special_ids, *getattr(tokenizer, "added_tokens_decoder", {})})))

    def asks(self, length: int, prefix: int) -> range:
        return range(0)

    def ranking(self, view: View) -> Tensor:
        return torch.isin(view.ids[: view.prefix], torch.tensor(self.tokens, dtype=torch.long)).nonzero()[:, 0]

    def budget(self, view: View) -> int:
        return len(self.ranking(view))
