"""Every row whose token holds a digit: the control of the paper's Appendix I.2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from ridgefill.selectors.base import Ranked, View


@dataclass(frozen=True)
class Digits(Ranked):
    """Budget: as many rows as the prefix has tokens with a decimal digit.

    tokens: the ids of such tokens.
    """

    name: ClassVar[str] = "digits"
    probes: ClassVar[int] = 0
    layers: ClassVar[tuple[int, ...]] = ()
    tokens: tuple[int, ...]

    @classmethod
    def of(cls, tokenizer: Any) -> Digits:
        """Read the digit tokens off a tokenizer: what a token decodes to counts, not how it is spelt inside."""
        special = set(tokenizer.all_special_ids)
        texts = tokenizer.batch_decode([[token] for token in range(len(tokenizer))])
        # Byte-fallback tokens such as <0x31> decode to the digit; special tokens are names, not text.
        return cls(tuple(i for i, text in enumerate(texts) if i not in special and any(map(str.isdecimal, text))))

    def asks(self, length: int, prefix: int) -> range:
        return range(0)

    def ranking(self, view: View) -> Tensor:
        return torch.isin(view.ids[: view.prefix], torch.tensor(self.tokens)).nonzero()[:, 0]

    def budget(self, view: View) -> int:
        return len(self.ranking(view))
